/* engine.h - what makes a worker run its tasks: a function of a shared object, a program for each task, or a program that
 * stays. runner.c gives the tasks and sends what became of them.
 *
 * Thread rule: the main thread.
 */
#ifndef WORKER_ENGINE_H
#define WORKER_ENGINE_H

#include <stdbool.h>

#include "base/error.h"
#include "host.h"
#include "wire/messages.h"

/* What a run gives (output, statements, where to go, the message of a failure) is kept in `task`, by the functions that a
 * handler uses, too: so every engine's results are checked by the same rules. */
struct engine_task {
    const struct wire_run *run;
    pgstage_task *task;
    /* Set by the engine; WIRE_OK before. Not WIRE_SPLIT, which is the runner's to say. */
    enum wire_outcome outcome;
    const char *kind; /* WIRE_CRASH, WIRE_LOST: a constant; else NULL */
};

struct engine_call {
    struct engine_task *tasks;
    size_t count; /* 1, or up to HELLO's batch_size */
    /* Set by the engine: the call failed as a whole, and tasks[0] says how. */
    bool failed_whole;
    /* Set by the engine: it can run nothing more. The results are sent, then this process ends. */
    bool is_over;
};

struct engine {
    /* INVALID or NOT_FOUND: the stage cannot be run, with the sentence for the node in `err`. `hello` stays. */
    enum status (*start)(const struct wire_hello *hello, struct error *err);
    void (*run)(struct engine_call *call);
    /* Between two calls: returns when the node sent something (inbox_is_empty), or with false when it can run nothing more.
     * NULL: nothing happens to it meanwhile. */
    bool (*wait)(void);
    void (*stop)(void); /* after the last call, when the worker ends in order */
    /* Of what runs the tasks, for HELLO's full_bytes. NULL: nothing in it can grow. Units: bytes. */
    int64_t (*resident_bytes)(void);
    /* What READY says; NULL: this release's. */
    uint32_t (*handler_abi)(void);
};

extern const struct engine engine_handler, engine_command, engine_program;

/* Sets what a pgstage_result says. One that is none fails the task. */
void engine_set_returned(struct engine_task *task, pgstage_result returned);

#endif
