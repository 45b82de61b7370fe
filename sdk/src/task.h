/* task.h - what is inside the two opaque types of handler.h. */
#ifndef PGSTAGE_SRC_TASK_H
#define PGSTAGE_SRC_TASK_H

#include "host.h"

/* Units: bytes, with the NUL. */
enum { MESSAGE_SIZE = 8192, LOG_LINE_SIZE = 8192, PROGRESS_TEXT_SIZE = 1024, REFUSAL_SIZE = 256, STAGE_NAME_MAX = 63 };

struct pgstage_task {
    struct pgstage_host_run run;
    struct pgstage_host_ops ops;
    json_t *payload_json, *input_json, *inputs_json; /* NULL: not asked for yet */
    struct pgstage_host_text output;   /* data is ours */
    struct pgstage_host_statement *statements;
    size_t statement_count, statement_capacity;
    size_t parameter_count, sql_bytes; /* of all statements */
    enum pgstage_host_flow_kind flow;
    int64_t delay_ms;                  /* SNOOZE */
    char target[STAGE_NAME_MAX + 1];   /* ROUTE */
    char refusal[REFUSAL_SIZE];        /* why the last refused call was refused */
    char message[MESSAGE_SIZE];
};

struct pgstage_worker {
    json_t *config;
    const char *folder;
    char message[MESSAGE_SIZE];
};

/* The host is told of each call that a handler makes; what the SDK calls of itself goes by other names. */
static inline void task_called(const pgstage_task *task, const char *function) {
    if (task->ops.call != NULL) {
        task->ops.call(task->ops.context, function);
    }
}

/* As pgstage_fail. */
pgstage_result task_fail(pgstage_task *task, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Keeps why a call is refused and returns `code`. */
int task_refuse(pgstage_task *task, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
