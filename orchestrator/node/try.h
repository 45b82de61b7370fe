/* try.h - runs one stage once, in a real worker process, and gives back what came of it. Nothing is stored: it needs no
 * database.
 *
 * The process, its limits, environment, folder and time-out are those that a node would give the stage. Blocks until the
 * worker is reaped. Signals: the first INT or TERM ends the run as a cancel does (TERM, grace, KILL), the second kills it.
 */
#ifndef NODE_TRY_H
#define NODE_TRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "config/pipeline.h"
#include "ports/workers.h"

struct try_options {
    const struct pipeline_def *pipeline;
    int stage;                  /* its index; not an sql stage */
    struct pool_task task;      /* `run` is chosen here */
    const char *worker_program; /* absolute path of pgstage-worker */
    const char *lock_folder;    /* where the lock file of this process goes */
    bool (*stop_was_asked)(void); /* before signals were listened to here; NULL: nobody did */
    void (*progress)(void *context, double fraction, const char *text);
    void *context;
};

struct try_result {
    bool started; /* false: no worker got ready, `outcome.message` says why; or a signal came before */
    bool stopped; /* by a signal */
    struct pool_outcome outcome; /* texts lie in `arena` */
    struct arena arena;
};

/* Ownership: finish the result in any case. Errors: what kept the trial from beginning at all. */
enum status try_run(const struct try_options *options, struct try_result *result, struct error *err) MUST_CHECK;
void try_result_finish(struct try_result *result);

#endif
