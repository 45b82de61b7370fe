#include "scheduler/plan.h"

#include <string.h>

/* A worker that said nothing at its start has not seen the document: that is never the document's end. */
static bool is_unheard(const struct plan_failure_in *in) {
    return in->kind != NULL && strcmp(in->kind, "silence") == 0;
}

static void note_death(struct plan_failure *plan, const struct plan_failure_in *in, const char *usual) {
    bool quarantined = in->alone && !is_unheard(in);
    plan->kind = quarantined ? "quarantine" : in->kind != NULL ? in->kind : usual;
    plan->ending = quarantined ? STORE_FAILED : STORE_RELEASE;
}

struct plan_failure plan_failure(const struct plan_failure_in *in, const struct random_ops *random) {
    struct plan_failure plan = {.ending = STORE_RELEASE};
    switch (in->end) {
    case POOL_RETRY:
    case POOL_TIMEOUT:
        plan.kind = in->end == POOL_TIMEOUT ? "timeout" : "error";
        plan.attempts = 1;
        if (in->attempt + 1 >= in->max_attempts) {
            plan.ending = STORE_FAILED;
        } else {
            plan.ending = STORE_DELAYED;
            plan.delay_ms = backoff_delay_ms(&in->backoff, in->attempt + 1, random);
        }
        break;
    case POOL_FAIL:
        plan.kind = "permanent";
        plan.attempts = 1;
        plan.ending = STORE_FAILED;
        break;
    case POOL_CRASH:
        plan.crashes = 1;
        note_death(&plan, in, "crash");
        break;
    case POOL_LOST:
        plan.rescues = 1;
        note_death(&plan, in, "killed");
        break;
    case POOL_INTERRUPTED:
    case POOL_RETURNED:
    case POOL_OK:
        break;
    }
    return plan;
}

bool plan_hand_over(const struct plan_hand_over_in *in) {
    if (in->stopping || in->cancelled || in->superseded || in->alone) {
        return false;
    }
    if (!in->next_is_handler || in->committed_only || in->paused) {
        return false;
    }
    return in->last_claim_short && in->room > 0 && in->hand_overs < PLAN_HAND_OVERS &&
           in->since_claim_ms < PLAN_HAND_OVER_MS;
}

int plan_claim_count(const struct plan_claim_in *in) {
    if (in->paused || in->stopping) {
        return 0;
    }
    int64_t count = in->room - in->queued;
    if (count > PLAN_CLAIM_MAX) {
        count = PLAN_CLAIM_MAX;
    }
    /* Until the size of documents is known, a claim takes few: a thousand of 60 MB each would fill the memory. */
    int64_t by_bytes = in->mean_bytes > 0 ? PLAN_CLAIM_BYTES / in->mean_bytes : 16;
    if (by_bytes < 1) {
        by_bytes = 1;
    }
    if (count > by_bytes) {
        count = by_bytes;
    }
    return count > 0 ? (int)count : 0;
}

int plan_fair_count(int64_t credit, int share_percent, int count) {
    int64_t fair = (credit + (int64_t)count * share_percent) / 100;
    return fair < count ? (int)fair : count;
}

int64_t plan_fair_credit(int64_t credit, int share_percent, int started, int fair, int asked) {
    int64_t left = credit + (int64_t)started * share_percent - (int64_t)fair * 100;
    return fair < asked || left < 0 ? 0 : left;
}

int64_t plan_poll_delay_ms(int64_t last_delay_ms, bool success) {
    if (success) {
        return 0;
    }
    if (last_delay_ms < PLAN_POLL_FIRST_MS) {
        return PLAN_POLL_FIRST_MS;
    }
    return last_delay_ms >= PLAN_POLL_MAX_MS / 2 ? PLAN_POLL_MAX_MS : last_delay_ms * 2;
}
