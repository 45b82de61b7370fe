/* pgstage/handler.h - write a stage's handler in C.
 *
 *     #include <pgstage/handler.h>
 *
 *     static pgstage_result shout(pgstage_task *task, void *state) {
 *         (void)state;
 *         const char *text = json_string_value(json_object_get(pgstage_payload_json(task), "text"));
 *         if (text == NULL) {
 *             return pgstage_fail(task, "the payload has no \"text\"");
 *         }
 *         return pgstage_output(task, json_pack("{s:s}", "shouted", text));
 *     }
 *     PGSTAGE_HANDLER(shout, .run = shout);
 *
 * Build it as a shared object, name it in YAML as `handler: FILE.so:shout`. A worker process runs one task at a time, on
 * its main thread; a crash, a hang or a leak costs that task alone.
 *
 * Ownership: every pointer a function returns is borrowed until the handler returns; every pointer given is copied before
 * the call returns, unless it says "takes". Thread rule: all calls with a task on the thread that runs the handler, except
 * pgstage_cancelled, pgstage_superseded and pgstage_remaining_ms, which any thread may call while the handler runs.
 * Errors: functions that can fail return 0, or a negative PGSTAGE_E_* and leave the task as it was.
 */
#ifndef PGSTAGE_HANDLER_H
#define PGSTAGE_HANDLER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PGSTAGE_API __attribute__((visibility("default")))
#define PGSTAGE_MUST_CHECK __attribute__((warn_unused_result))
#define PGSTAGE_ABI 1u

/* Opaque. One run of one task at one stage; lives until the handler returns. */
typedef struct pgstage_task pgstage_task;
/* Opaque. The worker process; lives from init to fini. */
typedef struct pgstage_worker pgstage_worker;

/* What a handler returns. */
typedef enum pgstage_result {
    PGSTAGE_OK = 0,    /* the stage is done: the task goes on */
    PGSTAGE_RETRY = 1, /* failed, may succeed later: run again after the stage's back-off, while attempts are left */
    PGSTAGE_FAIL = 2,  /* failed for good: running it again would not help */
} pgstage_result;

enum {
    PGSTAGE_E_INVALID = -1, /* not UTF-8, not JSON, a NUL character, a wrong argument */
    PGSTAGE_E_LIMIT = -2,   /* larger than PGSTAGE_OUTPUT_MAX or PGSTAGE_SQL_MAX */
    PGSTAGE_E_MEMORY = -3,
};

/* Units: bytes. */
#define PGSTAGE_OUTPUT_MAX ((size_t)128 * 1024 * 1024)
#define PGSTAGE_SQL_MAX ((size_t)128 * 1024 * 1024) /* all statements of a run and their parameters together */
/* Units: statements, and parameters of all statements, of one run. */
#define PGSTAGE_STATEMENTS_MAX 100000
#define PGSTAGE_PARAMETERS_MAX 1000000

struct pgstage_handler {
    uint32_t struct_size; /* set by PGSTAGE_HANDLER; fields are only ever appended */
    uint32_t abi;
    const char *name;
    /* Runs one task. `state` is what init made, or NULL. */
    pgstage_result (*run)(pgstage_task *task, void *state);
    /* Optional: once a worker process, before its first task. Failing parks the pool after a few tries; say why with
     * pgstage_worker_fail(). */
    pgstage_result (*init)(pgstage_worker *worker, void **state);
    /* Optional: once, when the worker ends in order (not when it is killed). */
    void (*fini)(void *state);
    /* Optional, for a stage with `batch:`; a handler with it may do without `run`. Runs `count` tasks at once, from 1 to the
     * stage's batch size. results[i], PGSTAGE_OK to begin with, is what becomes of tasks[i], as if `run` had returned it
     * (`results[i] = pgstage_fail(tasks[i], "...")`), and counts when PGSTAGE_OK is returned. Anything else says that the
     * batch failed and that it is not known which task is to blame; so do a crash and a time-out: it is run again in two
     * halves, and so on until the task that is to blame stands alone. Since 0.2. */
    pgstage_result (*run_batch)(pgstage_task *const *tasks, size_t count, pgstage_result *results, void *state);
};

#ifdef __cplusplus
#define PGSTAGE_EXTERN extern "C" /* a const object of C++ would be invisible outside its file */
#else
#define PGSTAGE_EXTERN
#endif

/* Registers a handler: PGSTAGE_HANDLER(name, .run = function, .init = ..., .fini = ...); at file level. */
#define PGSTAGE_HANDLER(NAME, ...)                                                                 \
    PGSTAGE_EXTERN PGSTAGE_API const struct pgstage_handler pgstage_handler_##NAME = {             \
        .struct_size = (uint32_t)sizeof(struct pgstage_handler),                                   \
        .abi = PGSTAGE_ABI,                                                                        \
        .name = #NAME,                                                                             \
        __VA_ARGS__}

/* ---- what the task is ------------------------------------------------------------------------------------------ */

PGSTAGE_API const char *pgstage_pipeline(const pgstage_task *task);
PGSTAGE_API const char *pgstage_stage(const pgstage_task *task);
PGSTAGE_API const char *pgstage_key(const pgstage_task *task);
PGSTAGE_API int64_t pgstage_version(const pgstage_task *task);
/* 1 at the first run of this stage. Crashes and restarts that were not the document's fault do not count. */
PGSTAGE_API int pgstage_attempt(const pgstage_task *task);

/* The payload as JSON text ("null" when there is none), and parsed. `length` may be NULL. Parsing gives NULL when memory
 * is short, or a number is beyond jansson's types (64-bit integers, double): the text is still there. */
PGSTAGE_API const char *pgstage_payload(const pgstage_task *task, size_t *length);
PGSTAGE_API const json_t *pgstage_payload_json(pgstage_task *task);
/* What the stage returned that the task comes from (the previous one, or one that routed it here); "null" at the first stage
 * or when it returned nothing. */
PGSTAGE_API const char *pgstage_input(const pgstage_task *task, size_t *length);
PGSTAGE_API const json_t *pgstage_input_json(pgstage_task *task);

/* What other stages returned in this version: those that the stage's `inputs:` names, as one JSON object, by name; "{}" when
 * it names none. A stage that returned nothing, or did not run, is null. Since 0.2. */
PGSTAGE_API const char *pgstage_inputs(const pgstage_task *task, size_t *length);
PGSTAGE_API const json_t *pgstage_inputs_json(pgstage_task *task);
/* One of them; NULL when `inputs:` does not name that stage. Since 0.2. */
PGSTAGE_API const json_t *pgstage_input_of(pgstage_task *task, const char *stage);

/* How far the last run of this stage in this version came, when it failed, was killed or snoozed: what it reported with
 * pgstage_progress. False, with nothing set, when it reported nothing. `fraction` and `text` may be NULL. Since 0.2. */
PGSTAGE_API bool pgstage_last_progress(const pgstage_task *task, double *fraction, const char **text);

/* ---- what goes on while it runs --------------------------------------------------------------------------------- */

/* Somebody cancelled the task, or the worker was told to end (a stop, a time-out): what this run returns will not count.
 * Cheap enough for an inner loop. */
PGSTAGE_API bool pgstage_cancelled(const pgstage_task *task);
/* A newer version of the document was submitted; this run may finish, the newer one runs afterwards. */
PGSTAGE_API bool pgstage_superseded(const pgstage_task *task);
/* Units: milliseconds until the stage's time-out kills this run; INT64_MAX when there is none. */
PGSTAGE_API int64_t pgstage_remaining_ms(const pgstage_task *task);

/* ---- what it gives ---------------------------------------------------------------------------------------------- */

/* Sets the stage's output, which the next stage reads as its input; the last call wins. INVALID for what a jsonb column
 * would refuse: bytes that are not UTF-8 or not JSON, \u0000, half a surrogate pair, a number of more than 131,072 digits
 * before or 16,383 after the point; and beyond 2,048 levels. LIMIT beyond 6,000,000 values and keys, too. */
PGSTAGE_API int pgstage_set_output(pgstage_task *task, const char *json, size_t length)
    PGSTAGE_MUST_CHECK;
/* The same from a jansson value: takes `value`, also on failure, and returns PGSTAGE_OK, or PGSTAGE_FAIL with a message,
 * so that a handler can end with `return pgstage_output(task, json_pack(...));`. */
PGSTAGE_API pgstage_result pgstage_output(pgstage_task *task, json_t *value);

/* Queues a statement for the transaction that completes this stage: either both commit or neither does. Parameters are
 * text in PostgreSQL's input form, $1 to $N (at most 65,535); NULL is SQL's NULL. Nothing runs before the handler returned
 * PGSTAGE_OK. */
PGSTAGE_API int pgstage_sql(pgstage_task *task, const char *sql, int parameter_count,
                            const char *const *parameters) PGSTAGE_MUST_CHECK;

/* One line in the node's log, with pipeline, stage and worker. */
PGSTAGE_API void pgstage_log(pgstage_task *task, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with fields of its own: takes `fields`, a JSON object whose values are texts, numbers, true, false or null.
 * `pgstage_log_with(task, json_pack("{s:i}", "page", n), "the page is empty");` Since 0.2. */
PGSTAGE_API void pgstage_log_with(pgstage_task *task, json_t *fields, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* How far this run has come: `pgstage show` says it, and the next run of the stage can read it (pgstage_last_progress) when
 * this one fails. Kept once a second at most. 0.0 <= fraction <= 1.0. */
PGSTAGE_API void pgstage_progress(pgstage_task *task, double fraction, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Keep the reason (its first 8 kB) and return PGSTAGE_FAIL or PGSTAGE_RETRY:
 * `return pgstage_fail(task, "page %d is empty", n);` A run that fails without a reason takes it from the last call that
 * was refused with a PGSTAGE_E_*, if any. */
PGSTAGE_API pgstage_result pgstage_fail(pgstage_task *task, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
PGSTAGE_API pgstage_result pgstage_retry(pgstage_task *task, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- the worker, in init --------------------------------------------------------------------------------------- */

/* The stage's `with:` block as a JSON object; empty when there is none. Borrowed until fini. */
PGSTAGE_API const json_t *pgstage_worker_config(pgstage_worker *worker);
/* The folder of the pipeline file, absolute: what `with:` names relative to it is found there. The process's current
 * directory is a folder of its own. Borrowed until fini. Since 0.2. */
PGSTAGE_API const char *pgstage_worker_folder(const pgstage_worker *worker);
PGSTAGE_API pgstage_result pgstage_worker_fail(pgstage_worker *worker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- where the task goes  ------------------------------------------------------------------------------------ */

/* Each is kept on the task and returns PGSTAGE_OK, so that a handler can end with `return pgstage_route(task, "review");`.
 * The last call wins; a run that returns anything but PGSTAGE_OK goes nowhere. What cannot be (no such name, a negative
 * time) returns PGSTAGE_FAIL with a message. */

/* The stage is done, with its output and statements, and the task goes on at the stage of that name in the same pipeline:
 * one before, one behind, or this one again. That stage reads this one's output as its input. A name that the pipeline does
 * not have fails the task. */
PGSTAGE_API pgstage_result pgstage_route(pgstage_task *task, const char *stage);
/* The stage is done, and so is the document: the stages behind it are skipped. */
PGSTAGE_API pgstage_result pgstage_finish(pgstage_task *task);
/* The stage is not done: it runs again after that time, at the earliest, as the same attempt. Output and statements of this
 * run do not count. Units: ms. */
PGSTAGE_API pgstage_result pgstage_snooze(pgstage_task *task, int64_t ms);

#ifdef __cplusplus
}
#endif

#endif
