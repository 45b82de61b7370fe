/* tick.c - the conversation with the ledger: one tick in flight, carrying all that piled up while the last one was.
 *
 * A tick names the chains that have something to say (transitions in memory, or an end), the claims of stages that have
 * room, batches that are used up, and once in a while the tasks we want to be told about. What a lost answer leaves open
 * is sent again: the same ending, and at least the same transitions.
 */
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "scheduler/state.h"

static bool has_news(const struct held *h, int64_t now) {
    if (h->lost || now < h->not_before_ms || h->in_tick || h->state == HELD_IN_EFFECT || h->state == HELD_EFFECT) {
        return false; /* an effect's transaction carries the whole chain */
    }
    return h->state == HELD_ENDED || h->count > 0;
}

static void build_chain(struct arena *arena, struct held *h, struct store_chain *chain) {
    struct store_text *outputs = arena_alloc(arena, sizeof *outputs * (size_t)(h->count + 1));
    for (int i = 0; i < h->count; i++) {
        if (h->outputs[i] != NULL) {
            outputs[i] = (struct store_text){h->outputs[i]->data, h->outputs[i]->length};
        }
    }
    const struct sched_pipeline *pipeline = h->stage->pipeline;
    int position = h->first_position < pipeline->stage_count ? h->first_position : pipeline->stage_count - 1;
    *chain = (struct store_chain){
        .task = h->task,
        .claim = h->claim,
        .step = h->step,
        .count = h->count,
        .first_stage = pipeline->stages[position].id,
        .pipeline = pipeline->id,
        .revision = pipeline->revision,
        .outputs = outputs,
        .ending = h->state == HELD_ENDED ? h->ending : STORE_STAY,
        .route_stage = h->state == HELD_ENDED && h->ending == STORE_ROUTE ? h->route_stage : 0,
        .attempts = h->add_attempts,
        .crashes = h->add_crashes,
        .rescues = h->add_rescues,
        .delay_ms = h->delay_ms,
        .kind = h->kind,
        .reason = h->reason,
        .detail = h->detail,
        .has_progress = h->has_progress_row,
    };
}

static struct store_chain *gather_chains(struct scheduler *s, int64_t now) {
    int max = s->chain_limit > 0 && s->chain_limit < s->held_count ? s->chain_limit : s->held_count;
    struct store_chain *chains = arena_alloc(&s->tick_arena, sizeof *chains * (size_t)(max + 1));
    s->tick_held = arena_alloc(&s->tick_arena, sizeof *s->tick_held * (size_t)(max + 1));
    s->tick_chains = 0;
    LIST_EACH(node, &s->all) {
        struct held *h = LIST_ENTRY(node, struct held, all);
        if (s->tick_chains == max) {
            break;
        }
        if (has_news(h, now)) {
            build_chain(&s->tick_arena, h, &chains[s->tick_chains]);
            h->in_tick = true;
            h->sent_ending = chains[s->tick_chains].ending;
            s->tick_held[s->tick_chains++] = h;
        }
    }
    return chains;
}

/* Stages that become worth a look because this tick makes rows ready for them. */
static void expect_from_chains(struct scheduler *s, int64_t now) {
    for (int i = 0; i < s->tick_chains; i++) {
        const struct held *h = s->tick_held[i];
        if (h->state != HELD_ENDED) {
            continue;
        }
        if (h->stage->limited) {
            h->stage->next_poll_ms = now; /* it leaves a place to the next one */
        }
        int position = h->first_position + h->count;
        struct stage *next = NULL;
        bool to_next = h->ending == STORE_NEXT || h->ending == STORE_KEEP;
        if (to_next && position < h->stage->pipeline->stage_count) {
            next = h->stage + (position - h->stage->position);
        } else if (h->ending == STORE_ROUTE) {
            next = stage_of_id(h->stage, h->route_stage);
        }
        if (next != NULL) {
            next->next_poll_ms = now;
        }
    }
}

static struct store_hold *gather_holds(struct scheduler *s, struct arena *arena, bool lost_too, int *count) {
    struct store_hold *holds = arena_alloc(arena, sizeof *holds * (size_t)(s->held_count + 1));
    *count = 0;
    LIST_EACH(node, &s->all) {
        const struct held *h = LIST_ENTRY(node, struct held, all);
        if (!h->lost || lost_too) {
            holds[(*count)++] = (struct store_hold){h->task, h->claim};
        }
    }
    return holds;
}

/* ---- the answer ----------------------------------------------------------------------------------------------- */

static void after_success(struct scheduler *s, const struct store_tick_answer *answer, int64_t now) {
    for (int i = 0; i < s->tick_chains; i++) {
        answer_verdict(s, s->tick_held[i], &answer->verdicts[i], now);
    }
    /* What is claimed for an identity that has been left is for others to rescue. */
    for (int i = 0; i < s->tick_claims && s->begun;) {
        int count = i + 1 < s->tick_claims && s->tick_asks[i + 1].stage == s->tick_asks[i].stage ? 2 : 1;
        answer_claimed(s, &s->tick_asks[i], &answer->claimed[i], count, now);
        i += count;
    }
    for (int i = 0; i < answer->told_count; i++) {
        answer_told(s, &answer->told[i], now);
    }
    s->drop_count -= s->drops_sent;
    if (s->drop_count > 0) {
        memmove(s->drops, s->drops + s->drops_sent, sizeof *s->drops * (size_t)s->drop_count);
    }
    s->tick_delay_ms = 0;
    if (s->chain_limit > 0) {
        s->chain_limit *= 2;
        s->chain_limit = s->chain_limit > s->held_count ? 0 : s->chain_limit;
    }
}

void tick_doubt(struct scheduler *s, int64_t now) {
    s->doubt = s->begun;
    s->reconcile_soon_until_ms = now + RECONCILE_SOON_FOR_MS;
    sooner(&s->reconcile_at_ms, now + RECONCILE_SOON_MS);
}

/* When the next tick may go: at once while a bad chain is searched, else after a growing delay. */
static int64_t failure_delay_ms(const struct scheduler *s, enum status code) {
    if ((code == STATUS_INVALID || code == STATUS_LIMIT) && s->tick_chains > 0) {
        return 0;
    }
    bool passes = status_is_transient(code) || code == STATUS_CONFLICT;
    return passes ? plan_poll_delay_ms(s->tick_delay_ms, false) : PLAN_POLL_MAX_MS;
}

static void after_failure(struct scheduler *s, const struct store_tick_answer *answer, int64_t now) {
    if (answer->code == STATUS_INVALID || answer->code == STATUS_LIMIT) {
        answer_bad_content(s, answer);
    } else if (!status_is_transient(answer->code) && answer->code != STATUS_CONFLICT) {
        log_event(LOG_ERROR, "tick.failed", "chains=%d claims=%d reason=%s", s->tick_chains, s->tick_claims,
                  log_text(answer->error.text));
    } else if (answer->code == STATUS_UNAVAILABLE && answer->error.sqlstate[0] != '\0' &&
               log_limit_allows(&s->refusals, 6, now)) {
        /* The server speaks, and will not: a full disk, no connections left, a shutdown. */
        log_event(LOG_ERROR, "tick.refused", "sqlstate=%s reason=%s", answer->error.sqlstate,
                  log_text(answer->error.text));
    }
    s->tick_delay_ms = failure_delay_ms(s, answer->code);
    s->tick_not_before_ms = now + s->tick_delay_ms;
    for (int i = 0; i < s->tick_chains; i++) {
        held_free_if_lost(s, s->tick_held[i]);
    }
    for (int i = 0; i < s->tick_claims; i++) {
        s->tick_asks[i].stage->next_poll_ms = s->tick_not_before_ms;
    }
    if (answer->code == STATUS_UNCERTAIN && s->begun) {
        tick_doubt(s, now);
        s->reconcile_at_ms = 0;
    }
}

static void on_tick(void *context, const struct store_tick_answer *answer) {
    struct scheduler *s = context;
    int64_t now = clock_now_ms(s->options.clock);
    s->tick_in_flight = false;
    for (int i = 0; i < s->tick_chains; i++) {
        s->tick_held[i]->in_tick = false;
    }
    past_answered(s, answer, now);
    stats_answered(s, answer->code == STATUS_OK);
    if (answer->code == STATUS_OK) {
        after_success(s, answer, now);
    } else {
        after_failure(s, answer, now);
    }
    s->tick_chains = s->tick_claims = 0;
    arena_finish(&s->tick_arena);
    s->options.changed(s->options.context);
}

static void on_reconciled(void *context, const struct store_done_answer *answer) {
    struct scheduler *s = context;
    s->reconcile_in_flight = false;
    if (answer->code != STATUS_OK) {
        tick_doubt(s, clock_now_ms(s->options.clock));
    } else if (answer->count > 0) {
        log_event(LOG_INFO, "claims.released", "count=%lld reason=unknown", (long long)answer->count);
    }
    s->options.changed(s->options.context);
}

static bool any_lost(const struct scheduler *s) {
    LIST_EACH(node, &s->all) {
        if (LIST_ENTRY(node, struct held, all)->lost) {
            return true;
        }
    }
    return false;
}

/* Releases what the store holds under our identity and we do not know of. */
static void reconcile(struct scheduler *s, int64_t now) {
    struct arena arena = {0};
    int count = 0;
    /* A claim that is lost to us stays held as long as what was started under it lives. */
    struct store_hold *holds = gather_holds(s, &arena, true, &count);
    struct error err = ERROR_NONE;
    s->reconcile_at_ms = now + (now < s->reconcile_soon_until_ms ? RECONCILE_SOON_MS : RECONCILE_EVERY_MS);
    s->reconcile_in_flight = s->store->release_unknown(s->store->context, s->node, count, holds, on_reconciled, s,
                                                       &err) == STATUS_OK;
    if (s->reconcile_in_flight && !any_lost(s)) {
        s->doubt = false;
    }
    arena_finish(&arena);
}

static void send_tick(struct scheduler *s, int64_t now) {
    struct store_tick tick = {.node = s->node};
    tick.chains = gather_chains(s, now);
    past_gather(s, now, &tick);
    tick.chain_count = s->tick_chains;
    expect_from_chains(s, now);
    tick.claims = claims_gather(s, now);
    tick.claim_count = s->tick_claims;
    tick.drops = s->drops;
    tick.drop_count = s->drops_sent = s->drop_count;
    tick.stats = stats_gather(s, now, &tick);
    bool ask = s->held_count > 0 && (now >= s->told_at_ms + TOLD_EVERY_MS ||
                                     (s->tick_chains > 0 && now >= s->told_at_ms + TOLD_AT_MOST_EVERY_MS));
    if (ask) {
        tick.holds = gather_holds(s, &s->tick_arena, false, &tick.hold_count);
        s->told_at_ms = now;
    }
    if (s->tick_chains == 0 && s->tick_claims == 0 && tick.drop_count == 0 && tick.hold_count == 0 &&
        tick.stat_count == 0 && tick.fetch_count == 0 && tick.progress_count == 0) {
        arena_finish(&s->tick_arena);
        return;
    }
    struct error err = ERROR_NONE;
    s->tick_in_flight = true;
    enum status status = s->store->tick(s->store->context, &tick, on_tick, s, &err);
    if (status != STATUS_OK) {
        on_tick(s, &(struct store_tick_answer){.code = status, .error = err, .bad_chain = -1});
    }
}

/* When something is to be sent at the latest, as things stand. */
static void next_tick(const struct scheduler *s, int64_t now, int64_t *next_ms) {
    sooner(next_ms, s->reconcile_at_ms);
    stats_next(s, next_ms);
    past_next(s, next_ms);
    if (s->held_count > 0) {
        sooner(next_ms, s->told_at_ms + TOLD_EVERY_MS);
    }
    LIST_EACH(node, &s->all) {
        const struct held *h = LIST_ENTRY(node, struct held, all);
        if (h->not_before_ms > now) {
            sooner(next_ms, h->not_before_ms);
        }
    }
    for (int i = 0; i < s->stage_count && scheduler_may_begin(s, now); i++) {
        if (claims_count(s, &s->stages[i]) > 0) {
            sooner(next_ms, s->stages[i].next_poll_ms);
        }
    }
}

void tick_turn(struct scheduler *s, int64_t now, int64_t *next_ms) {
    if (!s->begun) {
        return;
    }
    if (s->tick_in_flight || s->reconcile_in_flight || !s->store->tick_ready(s->store->context)) {
        return;
    }
    if (now >= s->reconcile_at_ms) {
        reconcile(s, now);
        if (s->reconcile_in_flight) {
            return;
        }
    }
    if (now < s->tick_not_before_ms) {
        sooner(next_ms, s->tick_not_before_ms);
        return;
    }
    send_tick(s, now);
    if (!s->tick_in_flight) {
        next_tick(s, now, next_ms);
    }
}
