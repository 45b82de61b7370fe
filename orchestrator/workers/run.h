/* run.h - one run in the hands of a pool, from start() to `ended`. Owned by the pool; listed by its
 * worker or the pool. */
#ifndef WORKERS_RUN_H
#define WORKERS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"

/* Decided before the worker's death tells more. */
enum run_fate { RUN_OPEN, RUN_TIMED_OUT, RUN_INTERRUPTED };

struct worker;

struct run {
    struct list link;
    uint64_t id;
    enum run_fate fate;
    struct worker *worker;      /* NULL while it waits for a fresh one */
    bool cancelled, superseded; /* what it was told so far */
    struct buf frame;           /* its RUN while it waits; else a zeroed struct */
};

#endif
