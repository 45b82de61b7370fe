/* fake_pools.h - worker processes that are not there, for simulations: the operation table of ports/workers.h.
 *
 * What a handler comes to is asked of the test when it begins. Workers crash, are killed, take a grace to die, start again,
 * and end themselves when the node's lease has ended. What they tell comes a moment later. Thread rule: one thread.
 */
#ifndef SUPPORT_FAKE_POOLS_H
#define SUPPORT_FAKE_POOLS_H

#include "base/random.h"
#include "fake_time.h"
#include "ports/workers.h"

enum { FAKE_TASK_MAX_BYTES = 24 }; /* a larger payload cannot be given to a worker */

struct fake_pools;

struct fake_run { /* texts are NULL when absent */
    uint64_t run;
    const char *pipeline, *stage;
    const char *key, *payload, *input, *inputs;
    int64_t version;
    int attempt;
    bool alone;
    bool has_progress; /* of an earlier run */
    double progress;
    const char *progress_text;
};

struct fake_plan {
    int64_t run_ms; /* < 0: it goes on until it is ended */
    enum pool_end end;
    const char *output, *message; /* borrowed until the next call */
    const char *sql;              /* a statement that it queues; NULL: none */
    enum pool_flow flow;
    const char *target; /* POOL_ROUTE; static */
    int64_t delay_ms;   /* POOL_SNOOZE */
    int64_t run_us;     /* what its worker says of its time; 0: 1000 */
    int64_t linger_ms;            /* how long it lives after an interrupt with a grace */
};

struct fake_pools_hooks { /* each may be NULL but `begin` */
    /* The handler starts. */
    struct fake_plan (*begin)(void *context, const struct fake_run *run);
    /* It does not live any more. */
    void (*over)(void *context, const struct fake_run *run);
    void (*told)(void *context, const struct fake_run *run, bool cancelled, bool superseded);
    void *context;
};

struct fake_pools *fake_pools_create(struct fake_time *time, uint64_t seed, const struct fake_pools_hooks *hooks);
void fake_pools_destroy(struct fake_pools *pools); /* when its pools are closed */
const struct workers_ops *fake_pools_ops(struct fake_pools *pools);

/* `depth`: tasks in a worker's pipe. `latency_ms`: what the pools tell comes up to so much later. */
void fake_pools_set(struct fake_pools *pools, int depth, int64_t latency_ms, int64_t restart_ms);
void fake_pools_park(struct fake_pools *pools, const char *stage); /* its workers are gone for good */

/* Ends the handler that runs for the key: by itself, or by the death of its worker. */
void fake_pools_end(struct fake_pools *pools, const char *key, enum pool_end end, const char *output);
/* The handler that runs for the key says how far it is. */
void fake_pools_say(struct fake_pools *pools, const char *key, double fraction, const char *text);
int fake_pools_live(const struct fake_pools *pools); /* handlers that live */
bool fake_pools_is_live(const struct fake_pools *pools, const char *key);

/* The node is frozen: it hears nothing. With its workers: they stand still as well. */
void fake_pools_freeze(struct fake_pools *pools, bool frozen, bool workers_too);
/* The node's process was killed: so are its workers. All is told at once, and nothing starts any more. */
void fake_pools_kill(struct fake_pools *pools);
void fake_pools_flush(struct fake_pools *pools); /* tells at once what is still to be told */

#endif
