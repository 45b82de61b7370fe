/* scheduler.h - decides what a node claims, runs, hands over and writes, for all its pipelines.
 *
 * Knows the task store and the worker processes only as the operation tables of ports/, takes time and randomness from
 * tables too, and has no loop of its own: whoever owns it calls scheduler_turn() after every event and when the returned
 * deadline has come. So a whole fleet can run in one thread from a seed. Decisions are the pure functions of plan.h.
 * Thread rule: one thread. Never calls back from inside a call of its owner, except `closed`.
 */
#ifndef SCHEDULER_SCHEDULER_H
#define SCHEDULER_SCHEDULER_H

#include "base/backoff.h"
#include "base/clock.h"
#include "base/random.h"
#include "ports/store.h"
#include "ports/workers.h"

struct scheduler; /* opaque */

enum sched_kind { SCHED_HANDLER, SCHED_SQL };

enum sched_value { SCHED_KEY, SCHED_PAYLOAD, SCHED_INPUT, SCHED_VERSION, SCHED_UPDATED_AT, SCHED_INPUTS };

struct sched_statement {
    const char *text;
    int param_count;
    const enum sched_value *params;
};

/* Borrowed: a pipeline's description outlives the scheduler. */
struct sched_stage {
    int id; /* the stage's id in the store */
    const char *name;
    enum sched_kind kind;
    int workers; /* processes, or connections of an sql stage */
    int attempts;
    struct backoff backoff;
    int64_t timeout_ms, grace_ms;
    bool after_commit;
    int share_percent; /* of what it starts, so many at least are those that are ready longest; 0: none */
    bool limited;      /* max_running: the store counts. What the current definition says counts more: see stage states */
    bool elsewhere;        /* only other nodes serve it: no pool, no claims, nothing is handed over into it */
    struct pool_spec pool; /* SCHED_HANDLER */
    int statement_count;   /* SCHED_SQL */
    const struct sched_statement *statements;
    const char *role;
    struct store_inputs inputs; /* of earlier stages, whose outputs it gets by name */
};

/* What becomes of a run when a newer version is stored meanwhile. */
enum sched_on_update {
    SCHED_RESTART,   /* it is told; when the stage in hand ends, the task goes back to the first */
    SCHED_FINISH,    /* the version in hand goes through all stages, then the newer one begins */
    SCHED_INTERRUPT, /* it is told, and killed after the stage's grace; no attempt is used */
};

struct sched_pipeline {
    int id, revision;
    const char *name;
    int stage_count;
    const struct sched_stage *stages;
    enum sched_on_update on_update;
};

struct scheduler_options {
    int pipeline_count;
    const struct sched_pipeline *pipelines;
    const struct store_ops *store;     /* must outlive the scheduler */
    const struct workers_ops *workers; /* must outlive the scheduler */
    const struct clock_ops *clock;
    const struct random_ops *random;
    void (*changed)(void *context); /* something happened: call scheduler_turn soon */
    void *context;
};

/* Ownership: *scheduler is set also when a pool cannot be opened; it ends by scheduler_close. */
enum status scheduler_create(const struct scheduler_options *options, struct scheduler **scheduler,
                             struct error *err) MUST_CHECK;

/* Claims under this identity from now on, until the lease ends. Units: ms of the clock. When: empty. */
void scheduler_begin(struct scheduler *scheduler, int64_t node, int64_t lease_end_ms);
void scheduler_set_lease_end(struct scheduler *scheduler, int64_t lease_end_ms);

/* Does all that can be done now. Returns when to call again at the latest (ms of the clock; INT64_MAX: when told). */
int64_t scheduler_turn(struct scheduler *scheduler);

/* From the store's events. */
void scheduler_store_ready(struct scheduler *scheduler);
void scheduler_woken(struct scheduler *scheduler);
void scheduler_stage_states(struct scheduler *scheduler, int count, const struct store_stage_state *states);

/* First stop: claims nothing more, gives back what was not begun, lets the rest finish. */
void scheduler_drain(struct scheduler *scheduler);
/* Second stop: kills what runs and gives it back; no attempt is used. */
void scheduler_kill(struct scheduler *scheduler);
/* The lease is about to end: kills what runs at once and forgets all claims; the store gives them to others. */
void scheduler_abandon(struct scheduler *scheduler);
/* Nothing is held, runs or is in flight, and nothing that the store may still hold for this node is unknown here. */
bool scheduler_is_empty(const struct scheduler *scheduler);
/* Empty, and every stage's last claim came back with nothing. */
bool scheduler_is_dry(const struct scheduler *scheduler);

/* Stages that are being claimed all the time now: nobody need be notified for them. Returns the count. */
int scheduler_busy_stages(const struct scheduler *scheduler, int max, int *stages);

struct scheduler_stage_report {
    const char *pipeline, *stage;
    int stage_id;
    int queued, running; /* in this node's hands */
    int64_t runs, failed; /* since the start */
    bool elsewhere;       /* not served here */
    bool starting;        /* its pool has no worker yet */
    const char *parked;   /* why its pool is parked; NULL when it is not. Borrowed until the next turn. */
};
/* Tasks that this scheduler brought to done and to failed. */
void scheduler_totals(const struct scheduler *scheduler, int64_t *done, int64_t *failed);
int scheduler_stage_count(const struct scheduler *scheduler);
void scheduler_report(const struct scheduler *scheduler, int index, struct scheduler_stage_report *report);

/* Closes the pools (what runs is interrupted); `closed` is called once all processes are reaped, and then the scheduler is
 * freed. What is in flight is waited for: the store answers it, also when it closes. */
void scheduler_close(struct scheduler *scheduler, void (*closed)(void *context), void *context);

#endif
