/* setup.c - a test and its tasks, before they run. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

static void set(char **field, const char *text) {
    char *copy = kit_copy(text); /* it may be the old one */
    free(*field);
    *field = copy;
}

static void set_name(char **field, const char *text, const char *what) {
    if (text == NULL) {
        kit_misuse("the %s is NULL", what);
    }
    set(field, text);
}

/* A number that jansson cannot hold is none of PostgreSQL's mistakes: the text is still there. */
static void set_json(char **field, const char *json, const char *what, bool only_object) {
    if (json == NULL) {
        set(field, NULL);
        return;
    }
    json_error_t error;
    json_t *value = json_loads(json, JSON_DECODE_ANY, &error);
    if (value == NULL && json_error_code(&error) != json_error_numeric_overflow) {
        kit_misuse("the %s is no JSON text: %s", what, error.text);
    }
    if (only_object && !json_is_object(value)) {
        kit_misuse("the %s is no JSON object", what);
    }
    json_decref(value);
    set(field, json);
}

static void take_json(char **field, json_t *value, const char *what) {
    char *text = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text == NULL) {
        kit_misuse("the %s is NULL or cannot be written (did json_pack fail?)", what);
    }
    json_decref(value);
    free(*field);
    *field = text;
}

/* ---- a test ---- */

#define SIZE_MIN (offsetof(struct pgstage_handler, run) + sizeof((struct pgstage_handler *)0)->run)

pgstage_test *pgstage_test_create(const struct pgstage_handler *handler) {
    if (handler == NULL || handler->struct_size < SIZE_MIN || handler->abi == 0) {
        kit_misuse("this is no handler (PGSTAGE_HANDLER makes one)");
    }
    if (handler->abi > PGSTAGE_ABI) {
        kit_misuse("handler '%s' was built for handler ABI %u, newer than this test kit, which knows %u", handler->name,
                   (unsigned)handler->abi, PGSTAGE_ABI);
    }
    pgstage_test *test = kit_allocate(sizeof *test);
    size_t size = handler->struct_size < sizeof test->handler ? handler->struct_size : sizeof test->handler;
    memcpy(&test->handler, handler, size);
    test->pipeline = kit_copy("test");
    test->stage = kit_copy(handler->name == NULL ? "stage" : handler->name);
    test->with = kit_copy("{}");
    test->folder = realpath(".", NULL);
    pgstage_test_add_task(test);
    return test;
}

pgstage_test *pgstage_test_load(const char *file, const char *name) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        kit_misuse("cannot load %s", dlerror());
    }
    char *symbol = kit_format("pgstage_handler_%s", name);
    const struct pgstage_handler *handler = dlsym(library, symbol);
    free(symbol);
    if (handler == NULL) {
        kit_misuse("%s has no handler '%s'", file, name);
    }
    return pgstage_test_create(handler);
}

void pgstage_test_destroy(pgstage_test *test) {
    if (test == NULL) {
        return;
    }
    pgstage_test_stop(test);
    kit_forget_run(test);
    for (size_t i = 0; i < test->task_count; i++) {
        kit_task_destroy(test->tasks[i]);
    }
    free(test->tasks);
    free(test->start_message);
    free(test->pipeline);
    free(test->stage);
    free(test->with);
    free(test->folder);
    free(test);
}

void pgstage_test_set_pipeline(pgstage_test *test, const char *name) {
    set_name(&test->pipeline, name, "pipeline's name");
}

void pgstage_test_set_stage(pgstage_test *test, const char *name) {
    set_name(&test->stage, name, "stage's name");
}

void pgstage_test_set_with(pgstage_test *test, const char *json) {
    set_json(&test->with, json == NULL ? "{}" : json, "`with:` block", true);
}

void pgstage_test_set_folder(pgstage_test *test, const char *path) {
    set_name(&test->folder, path, "folder");
}

/* ---- tasks ---- */

struct kit_task *kit_task_create(pgstage_test *test) {
    struct kit_task *task = kit_allocate(sizeof *task);
    task->test = test;
    task->key = kit_copy("key");
    task->version = task->attempt = 1;
    task->remaining_ms = INT64_MAX;
    return task;
}

void kit_task_destroy(struct kit_task *task) {
    for (size_t i = 0; i < task->input_count; i++) {
        free(task->inputs[i].stage);
        free(task->inputs[i].json);
    }
    free(task->inputs);
    free(task->key);
    free(task->payload);
    free(task->input);
    free(task->progress_text);
    free(task);
}

struct kit_task *kit_selected(const pgstage_test *test) {
    return test->tasks[test->selected];
}

void pgstage_test_add_task(pgstage_test *test) {
    kit_forget_run(test);
    test->tasks = kit_grow(test->tasks, test->task_count, sizeof *test->tasks);
    test->tasks[test->task_count] = kit_task_create(test);
    test->selected = test->task_count++;
}

void pgstage_test_select_task(pgstage_test *test, size_t index) {
    if (index >= test->task_count) {
        kit_misuse("there is no task %zu: there are %zu, from 0 on", index, test->task_count);
    }
    test->selected = index;
}

size_t pgstage_test_task_count(const pgstage_test *test) {
    return test->task_count;
}

void pgstage_test_set_key(pgstage_test *test, const char *key) {
    set_name(&kit_selected(test)->key, key, "key");
}

void pgstage_test_set_version(pgstage_test *test, int64_t version) {
    kit_selected(test)->version = version;
}

void pgstage_test_set_attempt(pgstage_test *test, int attempt) {
    kit_selected(test)->attempt = attempt;
}

void pgstage_test_set_payload(pgstage_test *test, const char *json) {
    set_json(&kit_selected(test)->payload, json, "payload", false);
}

void pgstage_test_set_payload_json(pgstage_test *test, json_t *value) {
    take_json(&kit_selected(test)->payload, value, "payload");
}

void pgstage_test_set_input(pgstage_test *test, const char *json) {
    set_json(&kit_selected(test)->input, json, "input", false);
}

void pgstage_test_set_input_json(pgstage_test *test, json_t *value) {
    take_json(&kit_selected(test)->input, value, "input");
}

void pgstage_test_set_input_of(pgstage_test *test, const char *stage, const char *json) {
    struct kit_task *task = kit_selected(test);
    size_t at = 0;
    while (at < task->input_count && strcmp(task->inputs[at].stage, stage) != 0) {
        at++;
    }
    if (at == task->input_count) {
        task->inputs = kit_grow(task->inputs, at, sizeof *task->inputs);
        task->inputs[at] = (struct kit_input){.stage = kit_copy(stage)};
        task->input_count++;
    }
    set_json(&task->inputs[at].json, json == NULL ? "null" : json, "input of a stage", false);
}

void pgstage_test_set_last_progress(pgstage_test *test, double fraction, const char *text) {
    struct kit_task *task = kit_selected(test);
    task->has_progress = true;
    task->progress = fraction;
    set(&task->progress_text, text);
}

void pgstage_test_set_remaining_ms(pgstage_test *test, int64_t ms) {
    kit_selected(test)->remaining_ms = ms;
}

void pgstage_test_inject(pgstage_test *test, unsigned events, int call) {
    if ((events & ~(unsigned)PGSTAGE_TEST_ALL_EVENTS) != 0 || (events != 0 && call < 1)) {
        kit_misuse("cannot inject %u at call %d: events are PGSTAGE_TEST_..., calls count from 1", events, call);
    }
    test->events = events;
    test->at_call = call;
}
