/* state.h - the scheduler's data, private to its folder.
 *
 * A held task is in one of these states:
 *
 *   QUEUED --(a place in the pool)--> RUNNING --(ok)--> QUEUED at the next stage (hand-over)
 *      |                                 |  \--(ok, with statements)--> EFFECT --(a lane)--> IN_EFFECT
 *      |  (sql stage, a lane)            |                                ^                      |
 *      +---------------> IN_EFFECT       +--(any end)--> ENDED <----------+----(answer)----------+
 *                                                           |
 *                                                      (tick accepted) --> freed
 *                                                           \--(on_update: finish, a newer version waits)--> QUEUED at the
 *                                                                                                          next stage
 *
 * `lost` marks a task whose claim is not ours any more: it is freed as soon as nothing runs for it and no tick or effect
 * names it.
 */
#ifndef SCHEDULER_STATE_H
#define SCHEDULER_STATE_H

#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "scheduler/plan.h"
#include "scheduler/scheduler.h"

enum {
    EFFECT_BATCH_MAX = 100,    /* tasks an effect transaction */
    TOLD_EVERY_MS = 1000,      /* the documented bound for cancel, supersede, pause */
    TOLD_AT_MOST_EVERY_MS = 200,
    RECONCILE_SOON_MS = 1000,  /* after a lost connection, once a second for a while; */
    RECONCILE_SOON_FOR_MS = 30 * 1000,
    RECONCILE_EVERY_MS = 15 * 1000, /* and now and then always */
    LEASE_MARGIN_MS = 50,
    BUSY_RECENT_MS = 500,
    STATS_EVERY_MS = 1000,
    PROGRESS_EVERY_MS = 1000, /* of a run, to the store */
    PARKED_DELAY_MS = 5000, /* a task that needs a fresh process of a parked pool is for others until then */
};

/* JSON text that a transition and the next stage's input share. */
struct shared_text {
    int references;
    size_t length;
    char data[];
};

/* Of the stage in hand. */
struct held_progress {
    bool known; /* what the run said last, or an earlier one of the version */
    bool fresh; /* the store does not have it yet */
    double fraction;
    char *text;
    int64_t due_ms; /* it is sent then, or when the claim ends */
    int said;       /* how often; never begins anew, so that an answer is not taken for what was said since */
};

enum held_state { HELD_QUEUED, HELD_RUNNING, HELD_EFFECT, HELD_IN_EFFECT, HELD_ENDED };

struct held_statement {
    char *text;
    int param_count;
    struct store_param *params; /* owned with the strings */
};

struct held {
    struct list link; /* QUEUED: stage->queue; EFFECT: stage->effects; else in no list */
    struct list all;  /* scheduler->all */
    enum held_state state;
    int64_t task, claim, version;
    struct stage *stage; /* the stage in hand */
    uint64_t run;        /* while RUNNING */
    char *key, *updated_at;
    struct shared_text *payload, *input, *inputs; /* NULL: absent */
    struct held_progress progress;
    bool has_progress_row; /* the store may have some of the task */
    int attempt, crashes, rescues, superseded_before;

    int step;           /* of the first transition that the store has not yet accepted */
    int first_position; /* its stage's position in the pipeline */
    int count;          /* transitions in memory */
    struct shared_text **outputs; /* one per stage of the pipeline; [0 .. count) are set, NULL: none */

    int64_t waited_us, queued_ms; /* ready in the database for that long; in the queue of the stage in hand since then */

    bool in_tick; /* named by the tick in flight */
    enum store_ending sent_ending; /* what it says of the claim */
    int64_t not_before_ms, busy_delay_ms; /* its row was locked by somebody else: no tick names it until then */
    bool lost, superseded, cancelled, interrupted, alone, keep;
    bool cut;                /* how the claim ends is settled: what the run in hand comes to does not count */
    int64_t interrupt_at_ms; /* a run that was told to give up is killed then; 0: never */
    uint64_t waits_for;      /* a run under an older claim of the task that must be over first; 0: none */

    enum store_ending leaves; /* how its stage, when it has ended well, ends the claim: NEXT, or as the handler said */
    int route_stage;          /* id of the stage that ROUTE leads to */

    /* ENDED */
    enum store_ending ending;
    int add_attempts, add_crashes, add_rescues;
    int64_t delay_ms;
    const char *kind;
    char *reason, *detail;

    /* EFFECT, IN_EFFECT of a handler */
    int statement_count;
    struct held_statement *statements;
    int effect_limit; /* how many may share its effect transaction; halved when one fails; 0: no limit */
    int fruitless; /* effects in a row that ended their connection or clashed */
    bool effect_open; /* it was sent, and nobody knows whether it was committed: it is sent again as it was */
    enum store_ending effect_ending; /* what was sent of the claim */
};

struct lane {
    struct stage *stage;
    int index;      /* in the store */
    int count;      /* effects in flight; 0: free */
    int64_t not_before_ms, delay_ms; /* after a failure that no task is to blame for */
    int64_t began_ms;                /* the effects in flight were sent then */
    struct held *held[EFFECT_BATCH_MAX];
    struct arena arena;
    struct scheduler *scheduler;
};

struct stage {
    struct scheduler *scheduler;
    const struct sched_pipeline *pipeline;
    const struct sched_stage *spec;
    int position;
    struct pool *pool; /* SCHED_HANDLER */
    bool pool_closed;
    struct list queue;   /* held, QUEUED */
    struct list effects; /* held, EFFECT */
    int queued, running;
    struct lane *lanes;
    int lane_count;
    bool paused;
    bool limited; /* the store counts how many run on all nodes */

    int64_t credit; /* of its share; see plan_fair_count */
    bool last_claim_short, last_claim_empty;
    bool expected; /* rows may have become ready since the last claim was sent */
    bool woken;    /* since the last claim: one that overtook where the claims are may stand at the front */
    int64_t last_claim_ms, last_front_ms, next_poll_ms, poll_delay_ms;
    int hand_overs;
    int from_priority;
    char from_ready_at[64];
    int64_t mean_bytes;

    struct store_stat stat;      /* since the last ones were gathered */
    struct store_stat sent_stat; /* gathered, and not yet known to be stored */
    int64_t runs, failed;   /* since the start */
};

/* A claim in the tick in flight. A stage has up to two, the fair one first. */
struct asked {
    struct stage *stage;
    int64_t claim;
    int count;
    bool fair;
};

/* In the tick in flight. */
struct sent_progress {
    int64_t task, claim;
    int said;
};
struct sent_fetch {
    int64_t task, claim;
};

struct claim_use {
    int64_t claim;
    int tasks;
};

struct scheduler {
    struct scheduler_options options;
    const struct store_ops *store;
    const struct workers_ops *workers;
    int stage_count;
    struct stage *stages;
    struct list all;       /* held */
    struct map by_task;    /* task -> the last held of it, also while it is lost and its run not yet over */
    struct map by_run;     /* run -> held */
    struct map claims;     /* claim -> claim_use */
    int64_t *drops;        /* claims whose last task has left */
    int drop_count, drop_capacity, drops_sent;
    int held_count, effects_in_flight;
    int64_t done_tasks, failed_tasks; /* brought to their end by this scheduler */
    uint64_t next_run;

    int64_t node, lease_end_ms;
    bool begun, draining, killed, closing;

    bool tick_in_flight;
    struct arena tick_arena;
    struct held **tick_held;
    int tick_chains;
    struct asked *tick_asks;
    int tick_claims;
    struct sent_progress *tick_progress;
    struct sent_fetch *tick_fetches;
    int tick_progress_count, tick_fetch_count;
    int fresh_progress; /* held tasks that have some */
    int chain_limit; /* 0: none; else the most chains a tick may carry while one with bad content is searched */

    bool reconcile_in_flight;
    struct log_limit refusals;
    int64_t tick_not_before_ms, tick_delay_ms; /* after a failure */
    int64_t told_at_ms, reconcile_at_ms, reconcile_soon_until_ms;
    int64_t stat_node, stat_seq; /* of the statistics gathered last */
    bool stats_open;             /* they are not known to be stored: nothing else is gathered until they are */
    bool stats_in_tick;
    int64_t stats_at_ms;         /* the next ones may go then */
    bool doubt; /* the store may hold claims of this node that it does not know of */

    void (*closed)(void *context);
    void *closed_context;
};

/* Whether anything is begun now: a claim, or a run. */
static inline bool scheduler_may_begin(const struct scheduler *s, int64_t now) {
    return s->begun && !s->draining && now < s->lease_end_ms - LEASE_MARGIN_MS;
}

static inline void sooner(int64_t *next_ms, int64_t at_ms) {
    if (at_ms < *next_ms) {
        *next_ms = at_ms;
    }
}

/* held.c */
struct shared_text *shared_text_new(const char *data, size_t length); /* NULL data gives NULL */
struct shared_text *shared_text_share(struct shared_text *text);
void shared_text_drop(struct shared_text *text);
struct held *held_new(struct scheduler *s, struct stage *stage, const struct store_task *row, int64_t claim);
void held_enqueue(struct held *h, struct stage *stage, bool front);
void held_dequeue(struct held *h);
void held_end(struct held *h, enum store_ending ending);
void held_end_failed(struct held *h, const struct plan_failure *plan, const char *reason, size_t reason_length,
                     const char *detail, size_t detail_length);
void held_accept(struct held *h, int transitions); /* the store has them: forget them */
/* Ends the claim from the last accepted transition on, as the plan says; a run in hand is killed first. */
void held_cut(struct scheduler *s, struct held *h, const struct plan_failure *plan, const char *reason);
/* A run under an older claim of the task lives: nothing starts under this one. */
bool held_is_blocked(const struct scheduler *s, const struct held *h);
void held_drop_statements(struct held *h);
/* The store has all transitions, the claim stays, and the row stands at that stage: goes on into it, or gives the task back. */
void held_go_on(struct scheduler *s, struct held *h, int stage_id);
/* The claim is not ours (or not wanted) any more: kills what runs, frees when nothing names it. */
void held_lose(struct scheduler *s, struct held *h);
void held_free_if_lost(struct scheduler *s, struct held *h);
/* The store accepted the exit: the claim's batch has one task less. */
void held_leave(struct scheduler *s, struct held *h);

/* dispatch.c */
void dispatch_turn(struct scheduler *s, int64_t now);
extern const struct pool_events dispatch_pool_events;
void dispatch_after_stage(struct scheduler *s, struct held *h); /* a stage ended well and its output is in memory */

/* stage.c */
int stage_room(const struct stage *stage);                      /* places not yet promised to queued tasks */
bool stage_is_parked(const struct stage *stage);                /* its pool will not take tasks again */
void stage_expect(struct stage *stage);                         /* rows may be ready: claim as soon as there is room */
void stage_expect_row(struct stage *stage, int id);             /* the same for the stage of that id, in its pipeline */
struct stage *stage_of_id(struct stage *stage, int id);         /* of the same pipeline; NULL when it has none */
bool stage_wants_committed(const struct stage *stage);          /* it takes a task only when the store has its input */
bool stage_takes_kept(const struct stage *stage);               /* a task whose claim is kept to the end may go on into it */
bool stage_finishes(const struct stage *stage);                 /* its pipeline finishes a version that is superseded */
void stage_hand_over(struct held *h, struct stage *next, struct shared_text *input); /* takes `input` */

/* past.c */
void past_take(struct held *h, const struct store_task *row);
void past_say(struct scheduler *s, struct held *h, double fraction, const char *text, int64_t now);
void past_forget_progress(struct scheduler *s, struct held *h); /* the stage in hand is over */
bool past_lacks_inputs(const struct held *h); /* its stage asks for some, and they are not here yet */
void past_gather(struct scheduler *s, int64_t now, struct store_tick *tick); /* behind the chains; in the tick's arena */
void past_answered(struct scheduler *s, const struct store_tick_answer *answer, int64_t now);
void past_next(const struct scheduler *s, int64_t *next_ms); /* when progress is to be sent at the latest */

/* claims.c */
int claims_count(const struct scheduler *s, const struct stage *stage); /* rows that it asks for, when it asks */
struct store_claim *claims_gather(struct scheduler *s, int64_t now);    /* into tick_asks, too; in the tick's arena */

/* effects.c */
void effects_turn(struct scheduler *s, int64_t now, int64_t *next_ms);

/* stats.c */
/* A run of a handler, or of an sql stage, is over. `began_ms`: when it began; the wait ends there. */
void stats_add_run(struct stage *stage, const struct held *h, int64_t began_ms, int64_t run_us, bool failed);
void stats_add_failure(struct stage *stage); /* of a run that was counted already */
struct store_stat *stats_gather(struct scheduler *s, int64_t now, struct store_tick *tick);
void stats_answered(struct scheduler *s, bool stored);
void stats_next(const struct scheduler *s, int64_t *next_ms); /* when they are to be sent at the latest */

/* tick.c */
void tick_turn(struct scheduler *s, int64_t now, int64_t *next_ms);
void tick_doubt(struct scheduler *s, int64_t now); /* the store may hold a claim that is not known here */

/* answer.c */
void answer_verdict(struct scheduler *s, struct held *h, const struct store_verdict *verdict, int64_t now);
/* `asked` and `claimed`: all `count` claims of one stage. */
void answer_claimed(struct scheduler *s, const struct asked *asked, const struct store_claimed *claimed, int count,
                    int64_t now);
void answer_told(struct scheduler *s, const struct store_told *told, int64_t now);
void answer_bad_content(struct scheduler *s, const struct store_tick_answer *answer);

#endif
