/* run.h - one run in the hands of a pool, from start() to `ended`. Owned by the pool; listed by its
 * worker or the pool. */
#ifndef WORKERS_RUN_H
#define WORKERS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"

/* Decided before the worker's death tells more. */
enum run_fate {
    RUN_OPEN,
    RUN_TIMED_OUT,
    RUN_INTERRUPTED,
    RUN_UNHEARD, /* the fresh worker that it waited for said nothing at its start */
};

/* Which list it is in. */
enum run_place {
    RUN_IN_PIPE,  /* its worker's */
    RUN_WAITING,  /* the pool's, for a fresh worker */
    RUN_GATHERED, /* the pool's, for a batch */
    RUN_HALVED,   /* that of a batch which waits for a worker */
    RUN_SUSPECT,  /* its batch's, of which others are still in the worker's pipe */
    RUN_OWED,     /* the pool's, until its end is told */
};

struct worker;
struct batch;

struct run {
    struct list link;
    uint64_t id;
    enum run_place place;
    enum run_fate fate;
    struct worker *worker;      /* IN_PIPE */
    struct batch *batch;        /* HALVED, SUSPECT, and IN_PIPE when it was given with others; else NULL */
    int order;                  /* in its batch */
    bool split;                 /* the worker says that its batch failed as a whole */
    bool cancelled, superseded; /* what it was told so far */
    bool interrupted;           /* as it was wished: it shall not run again */
    int64_t since_ms;           /* GATHERED */
    struct buf frame;           /* its RUN, while it may be sent (again); else a zeroed struct */
};

#endif
