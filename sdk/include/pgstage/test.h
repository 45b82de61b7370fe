/* pgstage/test.h - run a handler in a unit test, with no database and no daemon.
 *
 *     pgstage_test *test = pgstage_test_create(&pgstage_handler_shout);
 *     pgstage_test_set_payload(test, "{\"text\": \"hello\"}");
 *     assert(pgstage_test_run(test) == PGSTAGE_OK);
 *     assert(strcmp(pgstage_test_output(test, NULL), "{\"shouted\":\"HELLO\"}") == 0);
 *     pgstage_test_destroy(test);
 *
 * Link pgstage::test (find_package(pgstage COMPONENTS test)) or what `pkg-config --libs pgstage-test` says. Any test
 * framework will do, or none. The handler runs in the process of the test: what it does to that process (a crash, exit(),
 * a limit) it does to the test.
 *
 * Ownership: texts given are copied; what is returned is borrowed until the next run or pgstage_test_destroy, and in a check
 * of pgstage_test_each_call until that check returns.
 * Thread rule: one thread at a time for all tests of a process; the handler may have threads of its own.
 * Errors: what a handler did wrong is a result to look at. What the test did wrong (a payload that is no JSON, an index
 * that is not there, a file without that handler), and having no memory, ends the process with a sentence and abort().
 * Since 0.2.
 */
#ifndef PGSTAGE_TEST_H
#define PGSTAGE_TEST_H

#include <pgstage/handler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque. One stage with its worker, and one task, or the tasks of a batch. */
typedef struct pgstage_test pgstage_test;

PGSTAGE_API pgstage_test *pgstage_test_create(const struct pgstage_handler *handler);
/* The handler of that name in a shared object, as `handler: FILE:NAME` in YAML. */
PGSTAGE_API pgstage_test *pgstage_test_load(const char *file, const char *name);
/* Stops the worker, too. NULL is a no-op. */
PGSTAGE_API void pgstage_test_destroy(pgstage_test *test);

/* ---- the stage ---------------------------------------------------------------------------------------------------- */

/* "test" and the handler's name to begin with. */
PGSTAGE_API void pgstage_test_set_pipeline(pgstage_test *test, const char *name);
PGSTAGE_API void pgstage_test_set_stage(pgstage_test *test, const char *name);
/* The stage's `with:` as a JSON object; "{}" to begin with. It counts from the next start of the worker on. */
PGSTAGE_API void pgstage_test_set_with(pgstage_test *test, const char *json);
/* What pgstage_worker_folder says; the current directory to begin with. It counts from the next start on. */
PGSTAGE_API void pgstage_test_set_folder(pgstage_test *test, const char *path);

/* The worker's life: the handler's init and fini. A run starts a worker that is not started; it lives until
 * pgstage_test_stop, so that several runs share its state as they do in pgstage. Starting returns what init returned, and
 * pgstage_test_message is its reason when that was not PGSTAGE_OK. Both are no-ops when there is nothing to do. */
PGSTAGE_API pgstage_result pgstage_test_start(pgstage_test *test);
PGSTAGE_API void pgstage_test_stop(pgstage_test *test);

/* ---- the task ----------------------------------------------------------------------------------------------------- */

/* To begin with: the key "key", version 1, attempt 1, no payload, no input, no inputs, no earlier progress, no time-out.
 * What is set stays for all later runs. */
PGSTAGE_API void pgstage_test_set_key(pgstage_test *test, const char *key);
PGSTAGE_API void pgstage_test_set_version(pgstage_test *test, int64_t version);
PGSTAGE_API void pgstage_test_set_attempt(pgstage_test *test, int attempt);
/* JSON texts; NULL: none. The forms with a jansson value take it. */
PGSTAGE_API void pgstage_test_set_payload(pgstage_test *test, const char *json);
PGSTAGE_API void pgstage_test_set_payload_json(pgstage_test *test, json_t *value);
PGSTAGE_API void pgstage_test_set_input(pgstage_test *test, const char *json);
PGSTAGE_API void pgstage_test_set_input_json(pgstage_test *test, json_t *value);
/* The output of one stage that `inputs:` names; NULL: it returned nothing. */
PGSTAGE_API void pgstage_test_set_input_of(pgstage_test *test, const char *stage, const char *json);
/* What pgstage_last_progress says. */
PGSTAGE_API void pgstage_test_set_last_progress(pgstage_test *test, double fraction, const char *text);
/* What pgstage_remaining_ms says, at any moment; INT64_MAX: there is no time-out. */
PGSTAGE_API void pgstage_test_set_remaining_ms(pgstage_test *test, int64_t ms);

/* A batch: adds a task with the values to begin with, behind those that are there (there is one from the beginning), and
 * selects it. What is set and looked at is of the task that is selected. Tasks count from 0. */
PGSTAGE_API void pgstage_test_add_task(pgstage_test *test);
PGSTAGE_API void pgstage_test_select_task(pgstage_test *test, size_t index);
PGSTAGE_API size_t pgstage_test_task_count(const pgstage_test *test);

/* ---- running ------------------------------------------------------------------------------------------------------ */

/* Starts the worker if need be and runs the only task with the handler's `run`; with `run_batch` when it has no `run`.
 * Returns what the handler returned; what init returned when that was not PGSTAGE_OK. */
PGSTAGE_API pgstage_result pgstage_test_run(pgstage_test *test);
/* The same for all tasks at once with `run_batch`, also when there is but one. Returns what that returned: anything but
 * PGSTAGE_OK is the result of each task, too, which pgstage would run again in two halves. */
PGSTAGE_API pgstage_result pgstage_test_run_batch(pgstage_test *test);

/* What happens to a run from one of its SDK calls on. An SDK call is a call of a function of handler.h with a task (those
 * in init do not count), in a batch with any of its tasks; the first is 1. */
enum {
    PGSTAGE_TEST_CANCEL = 1,    /* pgstage_cancelled says so: somebody cancelled the task, or the node stops */
    PGSTAGE_TEST_DEADLINE = 2,  /* the time-out: no time remains, and pgstage_cancelled says so */
    PGSTAGE_TEST_SUPERSEDE = 4, /* pgstage_superseded says so: a newer version was submitted */
    PGSTAGE_TEST_NO_MEMORY = 8, /* what the SDK and jansson ask for is refused, also to the handler's own calls of jansson */
    PGSTAGE_TEST_ALL_EVENTS = 15,
};

/* These events (0: none) happen at SDK call `call` of each later run. */
PGSTAGE_API void pgstage_test_inject(pgstage_test *test, unsigned events, int call);

/* Runs the handler again and again, each time with a fresh worker, and with one of `events` injected at one SDK call: each
 * event at each call that a run without events makes, of which at most the first PGSTAGE_TEST_CALLS_MAX. After each of
 * these runs `check` (may be NULL) is called, which may look at all that the run left; `event` and `call` say what was
 * injected, and pgstage_test_injected says it in words for a message. A run that made fewer calls is not checked.
 *
 * Leak-checked: memory that is in use after a run, fini included, and was not before, is a leak when it grows by each of
 * five more such runs, which are not checked. What is in use is counted by the sanitizer's allocator where AddressSanitizer
 * or LeakSanitizer is linked, else by mallinfo2 of the C library: other allocators (jemalloc and the like) are not seen. What
 * `check` keeps does not count. Where a leak comes from is the sanitizer's to say when the program ends.
 *
 * Returns the number of runs that were checked, or PGSTAGE_TEST_LEAK at the first leak; pgstage_test_problem then says where.
 * 0: the handler makes no SDK call, or init fails. */
#define PGSTAGE_TEST_CALLS_MAX 1000
#define PGSTAGE_TEST_LEAK (-1)
typedef void (*pgstage_test_check)(pgstage_test *test, unsigned event, int call, void *context);
PGSTAGE_API int pgstage_test_each_call(pgstage_test *test, unsigned events, pgstage_test_check check,
                                       void *context) PGSTAGE_MUST_CHECK;
/* "a time-out at call 3, pgstage_log"; "" when nothing was injected. */
PGSTAGE_API const char *pgstage_test_injected(const pgstage_test *test);
/* "the handler leaks 48 bytes after a time-out at call 3, pgstage_log"; "" when there is none. */
PGSTAGE_API const char *pgstage_test_problem(const pgstage_test *test);

/* The same leak check alone, for runs as they are set up: up to six of them. Units: bytes a run; 0: none. */
PGSTAGE_API size_t pgstage_test_leaked_bytes(pgstage_test *test) PGSTAGE_MUST_CHECK;

/* ---- looking ------------------------------------------------------------------------------------------------------ */

/* Of the last run, of the task that is selected. Output, statements and where the task goes are those that would count: a
 * task that did not end with PGSTAGE_OK has none. */

PGSTAGE_API pgstage_result pgstage_test_result(const pgstage_test *test);
/* Why it did not end with PGSTAGE_OK; "" when it did. */
PGSTAGE_API const char *pgstage_test_message(const pgstage_test *test);

/* JSON text, and parsed; NULL: none. `length` may be NULL. */
PGSTAGE_API const char *pgstage_test_output(const pgstage_test *test, size_t *length);
PGSTAGE_API const json_t *pgstage_test_output_json(pgstage_test *test);

/* Statements and parameters count from 0. A parameter that is NULL is SQL's. */
PGSTAGE_API int pgstage_test_sql_count(const pgstage_test *test);
PGSTAGE_API const char *pgstage_test_sql(const pgstage_test *test, int statement);
PGSTAGE_API int pgstage_test_parameter_count(const pgstage_test *test, int statement);
PGSTAGE_API const char *pgstage_test_parameter(const pgstage_test *test, int statement, int parameter);

/* The stage that the task was routed to; NULL: it was not. */
PGSTAGE_API const char *pgstage_test_route(const pgstage_test *test);
PGSTAGE_API bool pgstage_test_finished(const pgstage_test *test);
/* -1: it was not snoozed. Units: ms. */
PGSTAGE_API int64_t pgstage_test_snooze_ms(const pgstage_test *test);

/* Log lines count from 0. The fields of one as a JSON object; NULL: none. */
PGSTAGE_API int pgstage_test_log_count(const pgstage_test *test);
PGSTAGE_API const char *pgstage_test_log(const pgstage_test *test, int line);
PGSTAGE_API const json_t *pgstage_test_log_fields(const pgstage_test *test, int line);

/* Each call of pgstage_progress, which pgstage would thin out. `fraction` and `text` may be NULL. */
PGSTAGE_API int pgstage_test_progress_count(const pgstage_test *test);
PGSTAGE_API void pgstage_test_progress(const pgstage_test *test, int report, double *fraction, const char **text);

/* SDK calls of the last run, of all tasks. */
PGSTAGE_API int pgstage_test_call_count(const pgstage_test *test);

#ifdef __cplusplus
}
#endif

#endif
