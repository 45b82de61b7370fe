/* host.h - the side of libpgstage that a host of handlers uses: the worker program, a test kit.
 *
 * Not installed; its symbols carry the version PGSTAGE_PRIVATE and may change in any release.
 * Ownership: what a task or worker is created from is borrowed until it is destroyed; what is
 * returned is borrowed until then, too. Thread rule: as in handler.h; the callbacks cancelled,
 * superseded and remaining_ms come from any thread.
 */
#ifndef PGSTAGE_SRC_HOST_H
#define PGSTAGE_SRC_HOST_H

#include "pgstage/handler.h"

/* Units: bytes. */
enum { PGSTAGE_HOST_FIELDS_MAX = 8192 };

/* `data` NULL: absent. A NUL follows data[length - 1]. */
struct pgstage_host_text {
    const char *data;
    size_t length;
};

struct pgstage_host_run {
    const char *pipeline, *stage, *key;
    struct pgstage_host_text payload, input; /* JSON texts; absent: null */
    struct pgstage_host_text inputs;         /* of a JSON object; absent: {} */
    int64_t version;
    int attempt;
    bool has_progress; /* of an earlier run of the stage in this version */
    double progress;
    struct pgstage_host_text progress_text; /* absent: "" */
};

/* None but `call` may be NULL. Texts are cut to a sane length, at a character's border if they are UTF-8. */
struct pgstage_host_ops {
    /* `fields`: the text of a JSON object, at most PGSTAGE_HOST_FIELDS_MAX bytes; NULL when the line has none. */
    void (*log)(void *context, const char *text, size_t length, const char *fields, size_t fields_length);
    void (*progress)(void *context, double fraction, const char *text, size_t length);
    bool (*cancelled)(void *context);
    bool (*superseded)(void *context);
    int64_t (*remaining_ms)(void *context);
    void *context;
    /* At the beginning of each call that a handler makes with this task, from the thread that makes it. */
    void (*call)(void *context, const char *function);
};

struct pgstage_host_statement {
    struct pgstage_host_text sql;
    int parameter_count;
    const struct pgstage_host_text *parameters; /* absent: SQL NULL */
};

/* NULL: out of memory. */
PGSTAGE_API pgstage_task *pgstage_host_task_create(const struct pgstage_host_run *run,
                                                   const struct pgstage_host_ops *ops);
PGSTAGE_API void pgstage_host_task_destroy(pgstage_task *task);

enum pgstage_host_flow_kind {
    PGSTAGE_HOST_GO_ON,
    PGSTAGE_HOST_ROUTE,
    PGSTAGE_HOST_FINISH,
    PGSTAGE_HOST_SNOOZE,
};

struct pgstage_host_flow {
    enum pgstage_host_flow_kind kind;
    struct pgstage_host_text target; /* ROUTE; else absent */
    int64_t delay_ms;                /* SNOOZE; else 0 */
};

/* What the handler left, after it returned. The message is never absent or empty. */
#define PGSTAGE_HOST_NO_REASON "the handler gave no reason"
PGSTAGE_API struct pgstage_host_text pgstage_host_output(const pgstage_task *task);
PGSTAGE_API const struct pgstage_host_statement *pgstage_host_statements(const pgstage_task *task,
                                                                         size_t *count);
PGSTAGE_API struct pgstage_host_flow pgstage_host_flow(const pgstage_task *task);
PGSTAGE_API struct pgstage_host_text pgstage_host_message(const pgstage_task *task);

/* `config` is the text of a JSON object; `folder` is that of the pipeline file, NULL where it is not known: the current
 * one. NULL: `config` is no such text, or out of memory; `reason` (at least 256 bytes) says so. */
PGSTAGE_API pgstage_worker *pgstage_host_worker_create(struct pgstage_host_text config, const char *folder,
                                                       char *reason, size_t reason_size);
PGSTAGE_API void pgstage_host_worker_destroy(pgstage_worker *worker);
PGSTAGE_API const char *pgstage_host_worker_message(const pgstage_worker *worker); /* never empty */

/* For tests of what happens when memory is short. NULL, NULL restores malloc and free. */
PGSTAGE_API void pgstage_host_set_allocator(void *(*allocate)(size_t size),
                                            void (*release)(void *));

#endif
