/* plan.h - the scheduler's decisions as pure functions of a snapshot: no clock, no loop, no state of their own. */
#ifndef SCHEDULER_PLAN_H
#define SCHEDULER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "ports/store.h"
#include "ports/workers.h"

enum {
    PLAN_ALONE_AFTER = 3,         /* crashes or rescues after which a task runs alone */
    PLAN_FINISH_AFTER = 3,        /* supersessions in a row after which a run is finished at the version in hand */
    PLAN_HAND_OVERS = 100,        /* hand-overs in a row before a stage claims first */
    PLAN_HAND_OVER_MS = 1000,     /* and the time */
    PLAN_POLL_FIRST_MS = 10,      /* a stage gone dry looks again after 10, 20, 40 ... */
    PLAN_POLL_MAX_MS = 1000,
    PLAN_CLAIM_MAX = 1000,        /* rows a claim */
    PLAN_CLAIM_BYTES = 64 * 1024 * 1024, /* payload and input bytes a claim should stay below */
};

/* How a failed run ends its claim. */
struct plan_failure_in {
    enum pool_end end; /* any but OK and RETURNED */
    const char *kind;  /* of a CRASH or LOST: the outcome's; NULL: the usual one */
    int attempt;       /* the row's: runs that the document itself ended */
    bool alone;        /* it ran alone */
    int max_attempts;
    struct backoff backoff;
};
struct plan_failure {
    enum store_ending ending;
    int attempts, crashes, rescues;
    int64_t delay_ms;
    const char *kind; /* NULL: not a failure of the document (interrupted) */
};
struct plan_failure plan_failure(const struct plan_failure_in *in, const struct random_ops *random);

/* Whether a task whose stage ended well goes on to the next stage in memory, under the same claim. */
struct plan_hand_over_in {
    bool next_is_handler, committed_only, paused; /* of the next stage */
    bool last_claim_short;
    int room;      /* free places of the next stage, less what is queued for it */
    int hand_overs; /* since its last claim */
    int64_t since_claim_ms;
    bool superseded, cancelled, stopping, alone;
};
bool plan_hand_over(const struct plan_hand_over_in *in);

/* How many rows a stage asks for. */
struct plan_claim_in {
    int room;   /* free places */
    int queued; /* claimed, waiting for a place */
    int64_t mean_bytes; /* of payload and input of a claimed task; 0 unknown */
    bool paused, stopping;
};
int plan_claim_count(const struct plan_claim_in *in);

/* Of `count` rows that a stage asks for, how many are to be those that are ready longest. `credit`: what is left of the
 * share of earlier starts, in hundredths of a task; never negative. */
int plan_fair_count(int64_t credit, int share_percent, int count);
/* The credit after a claim; `asked` of the fair ones. When they were fewer, nobody waits, and nobody is owed anything. */
int64_t plan_fair_credit(int64_t credit, int share_percent, int started, int fair, int asked);

/* The next delay of what was tried in vain: a poll, a tick, an effect. 0 when it was not in vain. */
int64_t plan_poll_delay_ms(int64_t last_delay_ms, bool success);

#endif
