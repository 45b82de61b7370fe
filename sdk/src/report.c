/* report.c - words of a handler: log lines, progress, and why it failed. Nothing here asks for memory, but jansson may where
 * it writes the fields of a line: without any, the line is logged without them. */
#include <stdio.h>
#include <string.h>

#include "task.h"
#include "text.h"

/* The array TEXT gets the formatted rest of the arguments. */
#define FORMAT(TEXT)                                                                               \
    do {                                                                                           \
        va_list args;                                                                              \
        va_start(args, format);                                                                    \
        text_format((TEXT), sizeof(TEXT), format, args);                                           \
        va_end(args);                                                                              \
    } while (0)

/* `fields` NULL: none. */
static void log_line(pgstage_task *task, char *text, const char *fields, size_t fields_length) {
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n') {
        length--;
    }
    text[length] = '\0';
    task->ops.log(task->ops.context, text, length, fields, fields_length);
}

void pgstage_log(pgstage_task *task, const char *format, ...) {
    task_called(task, __func__);
    char text[LOG_LINE_SIZE];
    FORMAT(text);
    log_line(task, text, NULL, 0);
}

/* The length of what was written; 0: there is nothing to write, or it cannot be written. */
static size_t write_fields(const json_t *fields, char *out, size_t size) {
    if (json_object_size(fields) == 0) {
        return 0;
    }
    size_t length = json_dumpb(fields, out, size - 1, JSON_COMPACT);
    if (length >= size) {
        length = (size_t)snprintf(out, size, "{\"fields_too_long\":%zu}", length);
    }
    out[length] = '\0';
    return length;
}

void pgstage_log_with(pgstage_task *task, json_t *fields, const char *format, ...) {
    task_called(task, __func__);
    char text[LOG_LINE_SIZE], written[PGSTAGE_HOST_FIELDS_MAX + 1];
    FORMAT(text);
    size_t length = write_fields(fields, written, sizeof written);
    json_decref(fields);
    log_line(task, text, length > 0 ? written : NULL, length);
}

void pgstage_progress(pgstage_task *task, double fraction, const char *format, ...) {
    task_called(task, __func__);
    char text[PROGRESS_TEXT_SIZE];
    FORMAT(text);
    /* What is not a number fails the first comparison. */
    double sane = fraction >= 0.0 ? fraction : 0.0;
    task->ops.progress(task->ops.context, sane <= 1.0 ? sane : 1.0, text, strlen(text));
}

pgstage_result pgstage_fail(pgstage_task *task, const char *format, ...) {
    task_called(task, __func__);
    FORMAT(task->message);
    return PGSTAGE_FAIL;
}

pgstage_result pgstage_retry(pgstage_task *task, const char *format, ...) {
    task_called(task, __func__);
    FORMAT(task->message);
    return PGSTAGE_RETRY;
}

pgstage_result task_fail(pgstage_task *task, const char *format, ...) {
    FORMAT(task->message);
    return PGSTAGE_FAIL;
}

pgstage_result pgstage_worker_fail(pgstage_worker *worker, const char *format, ...) {
    FORMAT(worker->message);
    return PGSTAGE_FAIL;
}

int task_refuse(pgstage_task *task, int code, const char *format, ...) {
    FORMAT(task->refusal);
    return code;
}

static const char *first_of(const char *first, const char *second) {
    static const char none[] = PGSTAGE_HOST_NO_REASON;
    return first[0] != '\0' ? first : second[0] != '\0' ? second : none;
}

struct pgstage_host_text pgstage_host_message(const pgstage_task *task) {
    const char *text = first_of(task->message, task->refusal);
    return (struct pgstage_host_text){text, strlen(text)};
}

const char *pgstage_host_worker_message(const pgstage_worker *worker) {
    return first_of(worker->message, "");
}
