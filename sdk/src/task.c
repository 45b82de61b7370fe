/* task.c - a task's life, and what a handler may read of it. */
#include "task.h"

#include <stdio.h>
#include <string.h>

#include "memory.h"
#include "text.h"

static struct pgstage_host_text text_or(struct pgstage_host_text text, const char *absent) {
    return text.data != NULL ? text : (struct pgstage_host_text){absent, strlen(absent)};
}

pgstage_task *pgstage_host_task_create(const struct pgstage_host_run *run,
                                       const struct pgstage_host_ops *ops) {
    pgstage_task *task = sdk_allocate(sizeof *task);
    if (task == NULL) {
        return NULL;
    }
    /* The two texts are only ever read as strings: clearing 8 kB for each run would be the larger
     * part of its cost. */
    memset(task, 0, offsetof(struct pgstage_task, refusal));
    task->refusal[0] = task->message[0] = '\0';
    task->run = *run;
    task->run.payload = text_or(run->payload, "null");
    task->run.input = text_or(run->input, "null");
    task->run.inputs = text_or(run->inputs, "{}");
    task->run.progress_text = text_or(run->progress_text, "");
    task->ops = *ops;
    return task;
}

void pgstage_host_task_destroy(pgstage_task *task) {
    if (task == NULL) {
        return;
    }
    for (size_t i = 0; i < task->statement_count; i++) {
        /* One piece of memory holds a statement's parameters and texts. */
        sdk_release((void *)task->statements[i].parameters);
    }
    sdk_release(task->statements);
    sdk_release((void *)task->output.data);
    json_decref(task->payload_json);
    json_decref(task->input_json);
    json_decref(task->inputs_json);
    sdk_release(task);
}

const char *pgstage_pipeline(const pgstage_task *task) {
    task_called(task, __func__);
    return task->run.pipeline;
}

const char *pgstage_stage(const pgstage_task *task) {
    task_called(task, __func__);
    return task->run.stage;
}

const char *pgstage_key(const pgstage_task *task) {
    task_called(task, __func__);
    return task->run.key;
}

int64_t pgstage_version(const pgstage_task *task) {
    task_called(task, __func__);
    return task->run.version;
}

int pgstage_attempt(const pgstage_task *task) {
    task_called(task, __func__);
    return task->run.attempt;
}

static const char *give_text(struct pgstage_host_text text, size_t *length) {
    if (length != NULL) {
        *length = text.length;
    }
    return text.data;
}

static const json_t *give_json(pgstage_task *task, struct pgstage_host_text text, const char *name,
                               json_t **parsed) {
    if (*parsed == NULL) {
        json_error_t error;
        *parsed = json_loadb(text.data, text.length, JSON_DECODE_ANY, &error);
        if (*parsed == NULL) {
            task_refuse(task, PGSTAGE_E_INVALID, "the %s cannot be parsed: %s", name, error.text);
        }
    }
    return *parsed;
}

const char *pgstage_payload(const pgstage_task *task, size_t *length) {
    task_called(task, __func__);
    return give_text(task->run.payload, length);
}

const json_t *pgstage_payload_json(pgstage_task *task) {
    task_called(task, __func__);
    return give_json(task, task->run.payload, "payload", &task->payload_json);
}

const char *pgstage_input(const pgstage_task *task, size_t *length) {
    task_called(task, __func__);
    return give_text(task->run.input, length);
}

const json_t *pgstage_input_json(pgstage_task *task) {
    task_called(task, __func__);
    return give_json(task, task->run.input, "input", &task->input_json);
}

const char *pgstage_inputs(const pgstage_task *task, size_t *length) {
    task_called(task, __func__);
    return give_text(task->run.inputs, length);
}

static const json_t *give_inputs(pgstage_task *task) {
    return give_json(task, task->run.inputs, "inputs", &task->inputs_json);
}

const json_t *pgstage_inputs_json(pgstage_task *task) {
    task_called(task, __func__);
    return give_inputs(task);
}

const json_t *pgstage_input_of(pgstage_task *task, const char *stage) {
    task_called(task, __func__);
    return json_object_get(give_inputs(task), stage);
}

bool pgstage_last_progress(const pgstage_task *task, double *fraction, const char **text) {
    task_called(task, __func__);
    if (!task->run.has_progress) {
        return false;
    }
    if (fraction != NULL) {
        *fraction = task->run.progress;
    }
    if (text != NULL) {
        *text = task->run.progress_text.data;
    }
    return true;
}

bool pgstage_cancelled(const pgstage_task *task) {
    task_called(task, __func__);
    return task->ops.cancelled(task->ops.context);
}

bool pgstage_superseded(const pgstage_task *task) {
    task_called(task, __func__);
    return task->ops.superseded(task->ops.context);
}

int64_t pgstage_remaining_ms(const pgstage_task *task) {
    task_called(task, __func__);
    return task->ops.remaining_ms(task->ops.context);
}
