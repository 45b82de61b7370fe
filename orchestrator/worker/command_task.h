/* command_task.h - a task, or a batch of them, as the JSON object that a program reads from its standard input. Thread rule:
 * the main thread. */
#ifndef WORKER_COMMAND_TASK_H
#define WORKER_COMMAND_TASK_H

#include "worker/engine.h"

enum { COMMAND_TASK_MEMORY_MAX = 1024 * 1024 };

struct command_task {
    int fd;       /* to read it from the beginning; above 2 */
    bool in_file; /* it is the file, too */
};

/* In memory up to COMMAND_TASK_MEMORY_MAX bytes, else, or when it `must_be_file`, a new file at that path. Errors:
 * UNAVAILABLE, with a sentence: there is no room. */
enum status command_task_write(const struct wire_hello *hello, const struct engine_call *call, const char *path,
                               bool must_be_file, struct command_task *written, struct error *err) MUST_CHECK;

#endif
