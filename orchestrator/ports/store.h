/* store.h - the operation table through which the scheduler and the node reach the task store.
 *
 * The real one is orchestrator/queue, over PostgreSQL; a simulation gives its own. All calls are asynchronous and follow
 * one contract: a call that returns OK is answered by exactly one callback, later; one that returns an error by none.
 * When: loop thread only. One call of each kind (tick, lead, beat; each effect lane) may be in flight at a time.
 * Ownership: requests are borrowed for the call, answers for the callback.
 */
#ifndef PORTS_STORE_H
#define PORTS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct store_text {
    const char *data; /* NULL: absent */
    size_t length;
};

/* ---- the tick: completions, then claims, in one transaction ---------------------------------------------------- */

enum store_ending {
    STORE_STAY,    /* the row stays running: the next stage's handler is started under the claim */
    STORE_NEXT,    /* leaves running after the transitions: ready at the next stage, or done */
    STORE_RELEASE, /* back to ready at the stage in hand, no attempt used */
    STORE_DELAYED, /* failed, attempts left; also a wait that uses none */
    STORE_FAILED,  /* attempts spent, permanent, or quarantined */
    STORE_ROUTE,   /* leaves running after the transitions: ready at `route_stage` */
    STORE_FINISH,  /* leaves running after the transitions: done, whatever stages there still are */
    STORE_KEEP,    /* as NEXT; but when a newer version is stored and a stage follows, it stays as with STAY */
};

/* What happened to one task since the store last heard of it. */
struct store_chain {
    int64_t task, claim;
    int step;                         /* step of the first transition */
    int count;                        /* transitions: stages that ended well */
    int first_stage;                  /* stage id of the first transition (of the stage in hand when count is 0) */
    int pipeline, revision;           /* the definition it was run under */
    const struct store_text *outputs; /* count of them; data NULL: the stage returned nothing */
    enum store_ending ending;
    int route_stage;                /* STORE_ROUTE: id of the stage that the last transition leads to */
    int attempts, crashes, rescues; /* to add to the row */
    int64_t delay_ms;               /* STORE_DELAYED */
    const char *kind, *reason, *detail; /* of a failed run; kind NULL: none */
    bool has_progress; /* the store may have some: what is of stages that end well is to go */
};

/* Stages whose outputs a stage asks for. */
struct store_inputs {
    int count;
    const int *stages;
    const char *const *names; /* under which it gets them */
};

struct store_claim {
    int pipeline, stage, previous_stage; /* previous 0: none; where a task comes from of which the store knows no better */
    int count;
    bool fair;            /* those that are ready longest, whatever their priority */
    bool limited;         /* of the stage at most so many may run on all nodes: the store counts them */
    int64_t claim;        /* a fresh random number */
    bool from_front;      /* else from (priority, ready_at) on */
    int from_priority;
    const char *from_ready_at; /* text as the store gave it */
    const struct store_inputs *inputs; /* NULL: none */
};

/* Outputs for a task that is held already. */
struct store_fetch {
    int64_t task, claim;
    const struct store_inputs *inputs;
};

/* What the run of a held task said last of how far it is. */
struct store_progress {
    int64_t task, claim;
    int stage;
    double fraction;
    const char *text;
};

/* Times in buckets, ten a decade: bucket b holds those from 10^(b/10) us on, up to the next one. */
enum { STORE_BUCKETS = 128 };

struct store_stat {
    int stage;
    int64_t runs, failed, run_us;
    int64_t waits, wait_us; /* runs of which it is known how long their task was ready before */
    int32_t run_buckets[STORE_BUCKETS], wait_buckets[STORE_BUCKETS];
};

struct store_hold { /* a claim the node knows of */
    int64_t task, claim;
};

struct store_tick {
    int64_t node;
    int chain_count, claim_count, drop_count, stat_count, hold_count, fetch_count, progress_count;
    const struct store_chain *chains;
    const struct store_claim *claims;
    const int64_t *drops; /* claims whose last task has left */
    const struct store_stat *stats;
    int64_t stat_node, stat_seq; /* they are counted once for each pair, and only in rising order: sent again after a lost
                                    answer, they are the same */
    const struct store_hold *holds; /* running tasks to be told about; hold_count 0: not asked this time */
    const struct store_fetch *fetches;
    const struct store_progress *progress; /* kept before the chains are looked at */
};

enum store_answer { STORE_ACCEPTED, STORE_APPLIED, STORE_BUSY, STORE_REFUSED };

struct store_verdict { /* one a chain, in the order of the request */
    enum store_answer answer;
    int step;  /* the row's step now */
    int stage; /* where the row stands now */
    bool running; /* still running under the claim */
    bool done, failed; /* at that end: a newer version, or another definition, may have wanted something else */
};

struct store_task { /* a claimed row */
    int64_t task, version;
    int64_t waited_us; /* ready for that long, by the database's clock */
    int attempt, crashes, rescues, superseded, priority;
    const char *key, *ready_at, *updated_at;
    struct store_text payload, input; /* JSON texts */
    struct store_text inputs; /* JSON object of the claim's inputs by name, null where there is none; absent: not asked for */
    bool has_progress_row;    /* the store has progress of it, be it of this stage and version or not */
    bool has_progress;        /* of an earlier run of the stage in this version */
    double progress;
    const char *progress_text;
};

struct store_claimed { /* one a claim, in the order of the request */
    int count;
    bool busy; /* another node is claiming there at this moment: ask again soon */
    const struct store_task *tasks; /* most urgent first */
};

struct store_told {
    int64_t task, claim;
    bool superseded, cancelled;
};

struct store_tick_answer {
    enum status code; /* OK; UNCERTAIN: send the same again; INVALID: a chain's content is at fault; else nothing was
                         written, and the tick itself is not to blame */
    struct error error;
    int bad_chain; /* INVALID: index of the one chain whose output or text the store refuses (one of them, when several
                      are); -1 when it is none of them alone: halve. -1 with every other code */
    const struct store_verdict *verdicts;
    const struct store_claimed *claimed;
    int told_count;
    const struct store_told *told;
    const struct store_text *fetched; /* one a fetch, as `inputs`; absent: the claim does not hold the task any more */
    const bool *kept; /* one a progress; false: the row was locked, or the claim does not hold the task any more */
};

/* ---- effects: the user's SQL and the completions that belong to it, in one transaction ---------------------------- */

struct store_param {
    const char *data; /* NULL: SQL NULL; NUL-terminated */
    size_t length;
};

struct store_statement {
    const char *text;
    int param_count;
    const struct store_param *params;
};

struct store_effect { /* one task's part */
    struct store_chain chain; /* ends with the transition that this effect makes; ending STORE_STAY, STORE_NEXT,
                                 STORE_KEEP, STORE_ROUTE or STORE_FINISH */
    int statement_count;
    const struct store_statement *statements;
};

struct store_effects {
    int64_t node;
    int count;
    const struct store_effect *effects;
    int64_t timeout_ms; /* of each statement; 0: none */
    const char *role;   /* NULL: none */
};

struct store_effect_verdict {
    bool dropped; /* the claim was lost: nothing of it was done */
    struct store_verdict verdict;
};

struct store_effects_answer {
    enum status code; /* OK: all committed (see verdicts). UNCERTAIN: send again. CONFLICT: a fence was lost meanwhile,
                         nothing was done, send again. UNAVAILABLE: nothing was done. TIMEOUT, INVALID: nothing was done
                         and the effects are at fault: split, and blame the one that stands alone. INTERNAL: nothing
                         was done, and no effect is to blame */
    struct error error;
    int at_fault; /* index of the effect whose own statement failed (with any code), or that stood alone when code is
                     INVALID or TIMEOUT; -1 not known: a constraint that is checked at commit */
    const struct store_effect_verdict *verdicts; /* count of them when OK */
};

/* ---- duties ------------------------------------------------------------------------------------------------------- */

struct store_beat_answer {
    enum status code; /* OK; CONFLICT: the lease has ended, take a new identity; else not known */
    struct error error;
};

struct store_stage_state {
    int stage, revision;
    bool paused;
    bool limited; /* max_running in the current definition */
    int64_t open; /* tasks ready, running, waiting or delayed by a retry; 0 unless it was asked for */
    int64_t schedule_ms; /* until a schedule of its pipeline is to be looked at: see `fire`; -1: never */
    int64_t scan;        /* the newest tick that the pipeline's source is to be scanned for; 0: none */
};

struct store_watch_answer { /* once a second */
    enum status code;
    struct error error;
    int stage_count;
    const struct store_stage_state *stages;
};

struct store_fire_answer {
    enum status code;
    struct error error;
    int64_t looked;  /* schedules that were due, and that no other node had in hand */
    int64_t wait_ms; /* until the next is due; -1: none is */
};

struct store_lead_answer {
    enum status code;
    struct error error;
    bool leads;
    int64_t term;
    int64_t staged, rescued; /* tasks that are ready now: due, moved or periodic; and from ended nodes */
};

struct store_start {
    int64_t node;
    const char *host, *lock_path;
    int pid;
    int64_t lease_ms;
};

struct store_peer {
    int64_t node;
    const char *lock_path;
};

struct store_start_answer {
    enum status code;
    struct error error;
    int peer_count; /* nodes of the same host that may be dead */
    const struct store_peer *peers;
};

struct store_done_answer { /* of calls that only succeed or fail */
    enum status code;
    struct error error;
    int64_t count; /* rows released, ended, ... */
};

struct store_events {
    void (*ready)(void *context);  /* the ledger connection is up: nothing that was sent before is in flight any more */
    void (*down)(void *context);   /* the ledger connection was lost; `ready` comes again. May be NULL */
    void (*woken)(void *context);  /* somebody submitted, or the notification connection was renewed: look at once */
    void *context;
};

struct store_ops {
    enum status (*tick)(void *context, const struct store_tick *tick,
                        void (*done)(void *done_context, const struct store_tick_answer *answer),
                        void *done_context, struct error *err);
    bool (*tick_ready)(void *context); /* the ledger connection takes a tick now */

    /* Lanes are connections, 0 .. ; opened at first use. */
    enum status (*effects)(void *context, int lane, const struct store_effects *effects,
                           void (*done)(void *done_context, const struct store_effects_answer *answer),
                           void *done_context, struct error *err);
    bool (*lane_ready)(void *context, int lane);

    /* Releases what is held under `node` and not among `holds` (ledger connection, while no tick is in flight). */
    enum status (*release_unknown)(void *context, int64_t node, int hold_count, const struct store_hold *holds,
                                   void (*done)(void *done_context, const struct store_done_answer *answer),
                                   void *done_context, struct error *err);

    enum status (*start)(void *context, const struct store_start *start,
                         void (*done)(void *done_context, const struct store_start_answer *answer),
                         void *done_context, struct error *err);
    /* Ends the identities of nodes proven dead, and rescues what they held. */
    enum status (*end_peers)(void *context, const char *host, int count, const int64_t *nodes,
                             void (*done)(void *done_context, const struct store_done_answer *answer),
                             void *done_context, struct error *err);
    /* The node's identity has ended in order: nothing is held. */
    enum status (*end)(void *context, int64_t node,
                       void (*done)(void *done_context, const struct store_done_answer *answer),
                       void *done_context, struct error *err);
    enum status (*beat)(void *context, int64_t node, int64_t lease_ms,
                        void (*done)(void *done_context, const struct store_beat_answer *answer),
                        void *done_context, struct error *err);
    /* States of the stages; also writes busy_until for those in `busy`. `count_open`: fill in `open`. */
    enum status (*watch)(void *context, int stage_count, const int *stages, bool count_open, int busy_count,
                         const int *busy, int busy_ms, void (*done)(void *done_context, const struct store_watch_answer *answer),
                         void *done_context, struct error *err);
    /* Looks at schedules of these pipelines that are due, at most so many, and fires them. Any node may. */
    enum status (*fire)(void *context, int pipeline_count, const int *pipelines, int at_most,
                        void (*done)(void *done_context, const struct store_fire_answer *answer),
                        void *done_context, struct error *err);
    /* Stores what status should know of the node: [{"pipeline", "stage", "revision", "text"}], see sql/statements/node_notes.sql. */
    enum status (*notes)(void *context, int64_t node, const char *notes,
                         void (*done)(void *done_context, const struct store_done_answer *answer),
                         void *done_context, struct error *err);
    /* Takes or renews the leadership; while leading: stages due tasks, runs periodic ones again, ends leases and rescues (`may_rescue`: a whole
     * lease of this node's own term is over), folds. */
    enum status (*lead)(void *context, int64_t node, int64_t lease_ms, bool may_rescue, bool fold,
                        void (*done)(void *done_context, const struct store_lead_answer *answer),
                        void *done_context, struct error *err);
    void *context;
};

#endif
