/* run.c - one worker's life in the process of the test: init, runs, fini; and what may happen to a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

/* ---- no memory, for the SDK and jansson of the whole process ---- */

static json_malloc_t usual_malloc; /* NULL: nothing is refused */
static json_free_t usual_free;

static void *refuse(size_t size) {
    (void)size;
    return NULL;
}

static void refuse_memory(void) {
    json_get_alloc_funcs(&usual_malloc, &usual_free);
    json_set_alloc_funcs(refuse, usual_free);
    pgstage_host_set_allocator(refuse, free);
}

static void allow_memory(void) {
    if (usual_malloc != NULL) {
        json_set_alloc_funcs(usual_malloc, usual_free);
        pgstage_host_set_allocator(NULL, NULL);
        usual_malloc = NULL;
    }
}

/* ---- what the SDK asks and tells while the handler runs ---- */

static void on_call(void *context, const char *function) {
    pgstage_test *test = ((struct kit_task *)context)->test;
    int call = atomic_fetch_add(&test->calls, 1) + 1;
    if (test->events == 0 || call != test->at_call) {
        return;
    }
    test->function = function;
    atomic_store(&test->happened, test->events);
    if ((test->events & PGSTAGE_TEST_NO_MEMORY) != 0) {
        refuse_memory();
    }
}

static bool has_happened(const struct kit_task *task, unsigned events) {
    return (atomic_load(&task->test->happened) & events) != 0;
}

static bool on_cancelled(void *context) {
    return has_happened(context, PGSTAGE_TEST_CANCEL | PGSTAGE_TEST_DEADLINE);
}

static bool on_superseded(void *context) {
    return has_happened(context, PGSTAGE_TEST_SUPERSEDE);
}

static int64_t on_remaining_ms(void *context) {
    const struct kit_task *task = context;
    return has_happened(task, PGSTAGE_TEST_DEADLINE) ? 0 : task->remaining_ms;
}

static void on_log(void *context, const char *text, size_t length, const char *fields, size_t fields_length) {
    struct kit_task *task = context;
    (void)length;
    (void)fields_length;
    task->lines = kit_grow(task->lines, (size_t)task->line_count, sizeof *task->lines);
    task->lines[task->line_count++] = (struct kit_line){.text = kit_copy(text), .fields = kit_copy(fields)};
}

static void on_progress(void *context, double fraction, const char *text, size_t length) {
    struct kit_task *task = context;
    (void)length;
    task->reports = kit_grow(task->reports, (size_t)task->report_count, sizeof *task->reports);
    task->reports[task->report_count++] = (struct kit_report){.fraction = fraction, .text = kit_copy(text)};
}

/* ---- the last run ---- */

static void forget_parsed(struct kit_task *task) {
    json_decref(task->output_json);
    task->output_json = NULL;
    for (int i = 0; i < task->line_count; i++) {
        json_decref(task->lines[i].parsed_fields);
        task->lines[i].parsed_fields = NULL;
    }
}

static void forget_run(struct kit_task *task) {
    forget_parsed(task);
    for (int i = 0; i < task->line_count; i++) {
        free(task->lines[i].text);
        free(task->lines[i].fields);
    }
    for (int i = 0; i < task->report_count; i++) {
        free(task->reports[i].text);
    }
    free(task->lines);
    free(task->reports);
    free(task->inputs_text);
    pgstage_host_task_destroy(task->task);
    task->lines = NULL;
    task->reports = NULL;
    task->inputs_text = NULL;
    task->task = NULL;
    task->line_count = task->report_count = 0;
    task->has_ended = false;
    task->returned[0] = '\0';
}

void kit_forget_parsed(pgstage_test *test) {
    for (size_t i = 0; i < test->task_count; i++) {
        forget_parsed(test->tasks[i]);
    }
}

void kit_forget_run(pgstage_test *test) {
    for (size_t i = 0; i < test->task_count; i++) {
        forget_run(test->tasks[i]);
    }
    atomic_store(&test->happened, 0);
    atomic_store(&test->calls, 0);
}

/* ---- the worker ---- */

static struct pgstage_host_text text_of(const char *text) {
    return (struct pgstage_host_text){text, text == NULL ? 0 : strlen(text)};
}

static void end_worker(pgstage_test *test) {
    pgstage_host_worker_destroy(test->worker);
    free(test->worker_folder);
    test->worker = NULL;
    test->worker_folder = NULL;
    test->state = NULL;
}

pgstage_result pgstage_test_start(pgstage_test *test) {
    if (test->worker != NULL) {
        return PGSTAGE_OK;
    }
    free(test->start_message);
    test->start_message = NULL;
    char reason[256];
    test->worker_folder = kit_copy(test->folder);
    test->worker = pgstage_host_worker_create(text_of(test->with), test->worker_folder, reason, sizeof reason);
    if (test->worker == NULL) {
        kit_misuse("%s", reason);
    }
    pgstage_result result = test->handler.init == NULL ? PGSTAGE_OK : test->handler.init(test->worker, &test->state);
    if (result != PGSTAGE_OK) {
        test->start_message = kit_copy(pgstage_host_worker_message(test->worker));
        end_worker(test);
    }
    return result;
}

void pgstage_test_stop(pgstage_test *test) {
    if (test->worker == NULL) {
        return;
    }
    if (test->handler.fini != NULL) {
        test->handler.fini(test->state);
    }
    end_worker(test);
}

/* ---- a run ---- */

static char *write_inputs(const struct kit_task *task) {
    char *text = kit_copy("{");
    for (size_t i = 0; i < task->input_count; i++) {
        json_t *name = json_string(task->inputs[i].stage);
        char *written = json_dumps(name, JSON_ENCODE_ANY);
        if (written == NULL) {
            kit_misuse("the name of a stage in the inputs is not UTF-8");
        }
        char *longer = kit_format("%s%s%s: %s", text, i == 0 ? "" : ", ", written, task->inputs[i].json);
        json_decref(name);
        free(written);
        free(text);
        text = longer;
    }
    char *whole = kit_format("%s}", text);
    free(text);
    return whole;
}

static void begin_task(struct kit_task *task) {
    const pgstage_test *test = task->test;
    task->inputs_text = write_inputs(task);
    task->task = pgstage_host_task_create(&(struct pgstage_host_run){.pipeline = test->pipeline,
                                                                     .stage = test->stage,
                                                                     .key = task->key,
                                                                     .payload = text_of(task->payload),
                                                                     .input = text_of(task->input),
                                                                     .inputs = text_of(task->inputs_text),
                                                                     .version = task->version,
                                                                     .attempt = task->attempt,
                                                                     .has_progress = task->has_progress,
                                                                     .progress = task->progress,
                                                                     .progress_text = text_of(task->progress_text)},
                                          &(struct pgstage_host_ops){.log = on_log,
                                                                     .progress = on_progress,
                                                                     .cancelled = on_cancelled,
                                                                     .superseded = on_superseded,
                                                                     .remaining_ms = on_remaining_ms,
                                                                     .context = task,
                                                                     .call = on_call});
    if (task->task == NULL) {
        kit_misuse("there is no memory for the test itself");
    }
}

static void end_task(struct kit_task *task, pgstage_result result) {
    task->has_ended = true;
    task->result = result;
    if (result != PGSTAGE_OK && result != PGSTAGE_RETRY && result != PGSTAGE_FAIL) {
        task->result = PGSTAGE_FAIL;
        snprintf(task->returned, sizeof task->returned, "the handler returned %d, which is no pgstage_result", (int)result);
    }
}

/* Ownership of what it makes: free() both. */
static pgstage_result call_batch(pgstage_test *test) {
    pgstage_task **tasks = kit_allocate(test->task_count * sizeof(pgstage_task *));
    pgstage_result *results = kit_allocate(test->task_count * sizeof *results);
    for (size_t i = 0; i < test->task_count; i++) {
        tasks[i] = test->tasks[i]->task;
        results[i] = PGSTAGE_OK;
    }
    pgstage_result whole = test->handler.run_batch(tasks, test->task_count, results, test->state);
    allow_memory();
    for (size_t i = 0; i < test->task_count; i++) {
        end_task(test->tasks[i], whole == PGSTAGE_OK ? results[i] : whole);
    }
    free(tasks);
    free(results);
    return whole;
}

static pgstage_result run_tasks(pgstage_test *test, bool as_batch) {
    kit_forget_run(test);
    pgstage_result result = pgstage_test_start(test);
    if (result != PGSTAGE_OK) {
        for (size_t i = 0; i < test->task_count; i++) {
            end_task(test->tasks[i], result);
        }
        return result;
    }
    for (size_t i = 0; i < test->task_count; i++) {
        begin_task(test->tasks[i]);
    }
    if (as_batch) {
        return call_batch(test);
    }
    result = test->handler.run(test->tasks[0]->task, test->state);
    allow_memory();
    end_task(test->tasks[0], result);
    return test->tasks[0]->result;
}

static bool wants_batch(const pgstage_test *test) {
    return test->task_count > 1 || test->handler.run == NULL;
}

static void want_run_batch(const pgstage_test *test) {
    if (test->handler.run_batch == NULL) {
        kit_misuse("handler '%s' has no .run_batch function", test->handler.name);
    }
}

pgstage_result pgstage_test_run(pgstage_test *test) {
    if (test->task_count > 1) {
        kit_misuse("there are %zu tasks: pgstage_test_run_batch runs them", test->task_count);
    }
    bool as_batch = wants_batch(test);
    if (as_batch) {
        want_run_batch(test);
    }
    pgstage_result result = run_tasks(test, as_batch);
    return as_batch && result == PGSTAGE_OK ? test->tasks[0]->result : result;
}

pgstage_result pgstage_test_run_batch(pgstage_test *test) {
    want_run_batch(test);
    return run_tasks(test, true);
}

bool kit_run_afresh(pgstage_test *test) {
    pgstage_test_stop(test);
    if (wants_batch(test)) {
        pgstage_test_run_batch(test);
    } else {
        pgstage_test_run(test);
    }
    bool started = test->worker != NULL;
    pgstage_test_stop(test);
    return started;
}
