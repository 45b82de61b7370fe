/* child.h - a program of the user's: found, started with the stage's limits, and what its end means.
 *
 * It gets descriptors 0, 1 and 2 and no other, the default for every signal, no core file unless the variable
 * PGSTAGE_WORKER_CORES is set, and stays in the worker's process group: what the node sends to the group reaches it. It
 * never outlives this process. Thread rule: the main thread.
 */
#ifndef WORKER_CHILD_H
#define WORKER_CHILD_H

#include <sys/types.h>

#include "worker/engine.h"

struct child_setup {
    const char *program;     /* path of the file to execute */
    char *const *arguments;  /* NULL-terminated; arguments[0] is the program's name */
    char *const *environment;
    int input, output, error; /* become 0, 1, 2; each its own number, or 3 and above */
};

/* Takes the limits of HELLO, for every child that follows. */
void child_set_limits(const struct wire_hello *hello);

/* Ownership: `pid` is to be reaped by the caller. Errors: LIMIT: the arguments are too long for the system; UNAVAILABLE: it
 * cannot be started, with a sentence. */
enum status child_start(const struct child_setup *setup, pid_t *pid, struct error *err) MUST_CHECK;

struct child_end {
    int status;              /* as waitpid gives it */
    int64_t cpu_us;          /* of the child and what it reaped */
    int64_t resident_bytes;  /* at its most */
};

/* Waits for it, and kills what it left. */
struct child_end child_reap(pid_t pid);

/* A child that died of a signal: outcome, kind and reason of the task that it was at. */
void child_judge_signal(const struct child_end *end, struct engine_task *task);

#endif
