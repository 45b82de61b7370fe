/* tick.c - the conversation with the ledger: one tick in flight, carrying all that piled up while the last one was.
 *
 * A tick names the chains that have something to say (transitions in memory, or an end), the claims of stages that have
 * room, batches that are used up, and once in a while the tasks we want to be told about. What a lost answer leaves open
 * is sent again: the same ending, and at least the same transitions.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/require.h"
#include "scheduler/state.h"

static bool has_news(const struct held *h) {
    if (h->lost || h->in_tick || h->state == HELD_IN_EFFECT || h->state == HELD_EFFECT) {
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
        .attempts = h->add_attempts,
        .crashes = h->add_crashes,
        .rescues = h->add_rescues,
        .delay_ms = h->delay_ms,
        .kind = h->kind,
        .reason = h->reason,
        .detail = h->detail,
    };
}

static struct store_chain *gather_chains(struct scheduler *s) {
    int max = s->chain_limit > 0 && s->chain_limit < s->held_count ? s->chain_limit : s->held_count;
    struct store_chain *chains = arena_alloc(&s->tick_arena, sizeof *chains * (size_t)(max + 1));
    s->tick_held = arena_alloc(&s->tick_arena, sizeof *s->tick_held * (size_t)(max + 1));
    s->tick_chains = 0;
    LIST_EACH(node, &s->all) {
        struct held *h = LIST_ENTRY(node, struct held, all);
        if (s->tick_chains == max) {
            break;
        }
        if (has_news(h)) {
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
        int position = h->first_position + h->count;
        if (h->state == HELD_ENDED && h->ending == STORE_NEXT && position < h->stage->pipeline->stage_count) {
            struct stage *next = h->stage + (position - h->stage->position);
            next->next_poll_ms = now;
        }
    }
}

static int claim_count(const struct scheduler *s, const struct stage *stage) {
    struct plan_claim_in in = {
        .room = stage_room(stage) + stage->queued,
        .queued = stage->queued,
        .mean_bytes = stage->mean_bytes,
        .paused = stage->paused,
        .stopping = s->draining || !s->begun,
    };
    return plan_claim_count(&in);
}

static struct store_claim *gather_claims(struct scheduler *s, int64_t now) {
    struct store_claim *claims = arena_alloc(&s->tick_arena, sizeof *claims * (size_t)(s->stage_count + 1));
    s->tick_stages = arena_alloc(&s->tick_arena, sizeof *s->tick_stages * (size_t)(s->stage_count + 1));
    s->tick_claims = 0;
    if (now >= s->lease_end_ms - LEASE_MARGIN_MS) {
        return claims;
    }
    for (int i = 0; i < s->stage_count; i++) {
        struct stage *stage = &s->stages[i];
        int count = now >= stage->next_poll_ms ? claim_count(s, stage) : 0;
        if (count == 0) {
            continue;
        }
        bool front = stage->last_claim_short || stage->from_ready_at[0] == '\0' || now - stage->last_front_ms >= 1000;
        stage->asked = count;
        stage->asked_claim = random_identity(s->options.random);
        stage->last_front_ms = front ? now : stage->last_front_ms;
        claims[s->tick_claims] = (struct store_claim){
            .pipeline = stage->pipeline->id,
            .stage = stage->spec->id,
            .previous_stage = stage->position > 0 ? stage->pipeline->stages[stage->position - 1].id : 0,
            .count = count,
            .claim = stage->asked_claim,
            .from_front = front,
            .from_priority = stage->from_priority,
            .from_ready_at = arena_copy_string(&s->tick_arena, stage->from_ready_at),
        };
        s->tick_stages[s->tick_claims++] = stage;
    }
    return claims;
}

static struct store_stat *gather_stats(struct scheduler *s, int *count) {
    struct store_stat *stats = arena_alloc(&s->tick_arena, sizeof *stats * (size_t)(s->stage_count + 1));
    *count = 0;
    for (int i = 0; i < s->stage_count; i++) {
        struct stage *stage = &s->stages[i];
        stage->sent_stat = stage->stat;
        if (stage->stat.runs > 0 || stage->stat.failed > 0) {
            stats[*count] = stage->stat;
            stats[(*count)++].stage = stage->spec->id;
        }
    }
    return stats;
}

static struct store_hold *gather_holds(struct scheduler *s, struct arena *arena, int *count) {
    struct store_hold *holds = arena_alloc(arena, sizeof *holds * (size_t)(s->held_count + 1));
    *count = 0;
    LIST_EACH(node, &s->all) {
        const struct held *h = LIST_ENTRY(node, struct held, all);
        if (!h->lost) {
            holds[(*count)++] = (struct store_hold){h->task, h->claim};
        }
    }
    return holds;
}

/* ---- the answer --------------------------------------------------------------------------------------------------- */

static void count_end(struct scheduler *s, const struct held *h) {
    if (h->sent_ending == STORE_FAILED) {
        s->failed_tasks++;
    } else if (h->sent_ending == STORE_NEXT && h->first_position + h->count >= h->stage->pipeline->stage_count) {
        s->done_tasks++;
    }
}

static void on_verdict(struct scheduler *s, struct held *h, const struct store_verdict *verdict) {
    if (h->lost) {
        held_free_if_lost(s, h);
        return;
    }
    switch (verdict->answer) {
    case STORE_BUSY:
        return; /* rides the next tick */
    case STORE_REFUSED:
        log_event(LOG_INFO, "claim.lost", "task=%lld claim=%lld", (long long)h->task, (long long)h->claim);
        held_lose(s, h);
        return;
    case STORE_APPLIED:
        count_end(s, h);
        held_leave(s, h);
        return;
    case STORE_ACCEPTED:
        break;
    }
    if (!verdict->running) {
        count_end(s, h);
        held_leave(s, h);
        return;
    }
    int accepted = verdict->step - h->step;
    if (h->sent_ending != STORE_STAY || accepted < 0 || accepted > h->count) {
        held_lose(s, h);
        return;
    }
    held_accept(h, accepted);
    int position = h->first_position;
    bool agrees = position < h->stage->pipeline->stage_count &&
                  h->stage->pipeline->stages[position].id == verdict->stage;
    if (!agrees && h->state == HELD_ENDED) {
        return; /* what follows is judged when it is sent */
    }
    if (!agrees) {
        /* The pipeline's definition has changed: what runs here is not what comes next. */
        held_lose(s, h);
        s->reconcile_at_ms = 0;
    }
}

static void take_claimed(struct scheduler *s, struct stage *stage, const struct store_claimed *claimed, int64_t now) {
    bool found = claimed->count > 0;
    int64_t bytes = 0;
    if (found) {
        struct claim_use *use = mem_alloc(sizeof *use);
        use->claim = stage->asked_claim;
        use->tasks = claimed->count;
        map_put(&s->claims, use->claim, use);
    }
    for (int i = 0; i < claimed->count; i++) {
        const struct store_task *row = &claimed->tasks[i];
        bytes += (int64_t)(row->payload.length + row->input.length);
        struct held *h = held_new(s, stage, row, stage->asked_claim);
        if (h->alone) {
            log_event(LOG_INFO, "task.alone", "pipeline=%s stage=%s task=%lld crashes=%d rescues=%d",
                      stage->pipeline->name, stage->spec->name, (long long)h->task, h->crashes, h->rescues);
        }
    }
    if (found) {
        const struct store_task *last = &claimed->tasks[claimed->count - 1];
        stage->from_priority = last->priority;
        snprintf(stage->from_ready_at, sizeof stage->from_ready_at, "%s", last->ready_at);
        int64_t mean = bytes / claimed->count + 1;
        stage->mean_bytes = mean > stage->mean_bytes ? mean : (stage->mean_bytes * 7 + mean) / 8;
    }
    stage->last_claim_ms = now;
    stage->hand_overs = 0;
    stage->last_claim_short = claimed->count < stage->asked;
    stage->last_claim_empty = !found;
    stage->poll_delay_ms = plan_poll_delay_ms(stage->poll_delay_ms, !stage->last_claim_short);
    stage->next_poll_ms = now + stage->poll_delay_ms;
}

static void on_told(struct scheduler *s, const struct store_told *told, int64_t now) {
    struct held *h = map_get(&s->by_task, told->task);
    if (h == NULL || h->claim != told->claim) {
        return;
    }
    bool news = (told->cancelled && !h->cancelled) || (told->superseded && !h->superseded);
    h->cancelled = told->cancelled;
    h->superseded = told->superseded && !h->keep;
    if (!news) {
        return;
    }
    if (h->state == HELD_RUNNING) {
        s->workers->tell(h->stage->pool, h->run, h->cancelled, told->superseded);
        if (h->cancelled && h->interrupt_at_ms == 0) {
            h->interrupt_at_ms = now + h->stage->spec->grace_ms;
        }
    } else if (h->state == HELD_QUEUED && (h->cancelled || h->superseded)) {
        held_end(h, STORE_RELEASE);
    } else if (h->state == HELD_EFFECT && h->cancelled) {
        held_dequeue(h);
        shared_text_drop(h->outputs[--h->count]);
        held_end(h, STORE_RELEASE);
    }
}

/* A tick was refused for what is in it: look for the chain by halving, then blame the one that stands alone. */
static void on_bad_content(struct scheduler *s, const struct store_tick_answer *answer) {
    int bad = answer->bad_chain >= 0 ? answer->bad_chain : s->tick_chains == 1 ? 0 : -1;
    if (s->tick_chains == 0) {
        log_event(LOG_ERROR, "tick.refused", "chains=0 reason=%s", log_text(answer->error.text));
        return;
    }
    if (bad < 0) {
        s->chain_limit = s->tick_chains > 1 ? s->tick_chains / 2 : 1;
        log_event(LOG_WARN, "tick.refused", "chains=%d reason=%s", s->tick_chains, log_text(answer->error.text));
        return;
    }
    s->chain_limit = 0;
    struct held *h = s->tick_held[bad];
    log_event(LOG_WARN, "task.unstorable", "task=%lld reason=%s", (long long)h->task, log_text(answer->error.text));
    if (h->lost) {
        return;
    }
    if (h->state == HELD_RUNNING) {
        /* What it returned earlier cannot be stored: give it back, the run that shows it alone is blamed. */
        held_lose(s, h);
        s->reconcile_at_ms = 0;
        return;
    }
    while (h->count > 0) {
        shared_text_drop(h->outputs[--h->count]);
    }
    held_end_failed(h, &(struct plan_failure){.ending = STORE_FAILED, .attempts = 1, .kind = "output"},
                    answer->error.text, strlen(answer->error.text), NULL, 0);
}

static void after_success(struct scheduler *s, const struct store_tick_answer *answer, int64_t now) {
    for (int i = 0; i < s->tick_chains; i++) {
        on_verdict(s, s->tick_held[i], &answer->verdicts[i]);
    }
    for (int i = 0; i < s->tick_claims; i++) {
        take_claimed(s, s->tick_stages[i], &answer->claimed[i], now);
    }
    for (int i = 0; i < answer->told_count; i++) {
        on_told(s, &answer->told[i], now);
    }
    s->drop_count -= s->drops_sent;
    if (s->drop_count > 0) {
        memmove(s->drops, s->drops + s->drops_sent, sizeof *s->drops * (size_t)s->drop_count);
    }
    for (int i = 0; i < s->stage_count; i++) {
        struct stage *stage = &s->stages[i];
        stage->stat.runs -= stage->sent_stat.runs;
        stage->stat.failed -= stage->sent_stat.failed;
        stage->stat.run_us -= stage->sent_stat.run_us;
    }
    if (s->chain_limit > 0) {
        s->chain_limit *= 2;
        s->chain_limit = s->chain_limit > s->held_count ? 0 : s->chain_limit;
    }
}

static void on_tick(void *context, const struct store_tick_answer *answer) {
    struct scheduler *s = context;
    int64_t now = clock_now_ms(s->options.clock);
    s->tick_in_flight = false;
    for (int i = 0; i < s->tick_chains; i++) {
        s->tick_held[i]->in_tick = false;
    }
    if (answer->code == STATUS_OK) {
        after_success(s, answer, now);
    } else {
        if (answer->code == STATUS_INVALID || answer->code == STATUS_LIMIT) {
            on_bad_content(s, answer);
        } else if (!status_is_transient(answer->code) && answer->code != STATUS_CONFLICT) {
            log_event(LOG_ERROR, "tick.failed", "chains=%d claims=%d reason=%s", s->tick_chains, s->tick_claims,
                      log_text(answer->error.text));
        }
        for (int i = 0; i < s->tick_chains; i++) {
            held_free_if_lost(s, s->tick_held[i]);
        }
        for (int i = 0; i < s->tick_claims; i++) {
            s->tick_stages[i]->next_poll_ms =
                now + (status_is_transient(answer->code) ? PLAN_POLL_FIRST_MS : PLAN_POLL_MAX_MS);
        }
        s->reconcile_soon_until_ms = now + RECONCILE_SOON_FOR_MS;
        s->reconcile_at_ms = 0;
        s->tick_not_before_ms = answer->code == STATUS_INVALID           ? now
                                : status_is_transient(answer->code) ? now + PLAN_POLL_FIRST_MS
                                                                    : now + PLAN_POLL_MAX_MS;
    }
    for (int i = 0; i < s->tick_claims; i++) {
        s->tick_stages[i]->asked = 0;
    }
    s->tick_chains = s->tick_claims = 0;
    arena_finish(&s->tick_arena);
    s->options.changed(s->options.context);
}

static void on_reconciled(void *context, const struct store_done_answer *answer) {
    struct scheduler *s = context;
    s->reconcile_in_flight = false;
    if (answer->code != STATUS_OK) {
        s->reconcile_at_ms = 0;
    } else if (answer->count > 0) {
        log_event(LOG_INFO, "claims.released", "count=%lld reason=unknown", (long long)answer->count);
    }
    s->options.changed(s->options.context);
}

/* Releases what the store holds under our identity and we do not know of. */
static void reconcile(struct scheduler *s, int64_t now) {
    struct arena arena = {0};
    int count = 0;
    struct store_hold *holds = gather_holds(s, &arena, &count);
    struct error err = ERROR_NONE;
    s->reconcile_at_ms = now + (now < s->reconcile_soon_until_ms ? RECONCILE_SOON_MS : RECONCILE_EVERY_MS);
    s->reconcile_in_flight = s->store->release_unknown(s->store->context, s->node, count, holds, on_reconciled, s,
                                                       &err) == STATUS_OK;
    arena_finish(&arena);
}

static void send_tick(struct scheduler *s, int64_t now) {
    struct store_tick tick = {.node = s->node};
    tick.chains = gather_chains(s);
    tick.chain_count = s->tick_chains;
    expect_from_chains(s, now);
    tick.claims = gather_claims(s, now);
    tick.claim_count = s->tick_claims;
    tick.drops = s->drops;
    tick.drop_count = s->drops_sent = s->drop_count;
    tick.stats = gather_stats(s, &tick.stat_count);
    bool ask = s->held_count > 0 && (now >= s->told_at_ms + TOLD_EVERY_MS ||
                                     (s->tick_chains > 0 && now >= s->told_at_ms + TOLD_AT_MOST_EVERY_MS));
    if (ask) {
        tick.holds = gather_holds(s, &s->tick_arena, &tick.hold_count);
        s->told_at_ms = now;
    }
    if (s->tick_chains == 0 && s->tick_claims == 0 && tick.drop_count == 0 && tick.hold_count == 0) {
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

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
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
        *next_ms = earlier(*next_ms, s->tick_not_before_ms);
        return;
    }
    send_tick(s, now);
    if (s->tick_in_flight) {
        return;
    }
    *next_ms = earlier(*next_ms, s->reconcile_at_ms);
    if (s->held_count > 0) {
        *next_ms = earlier(*next_ms, s->told_at_ms + TOLD_EVERY_MS);
    }
    for (int i = 0; i < s->stage_count && !s->draining; i++) {
        if (claim_count(s, &s->stages[i]) > 0) {
            *next_ms = earlier(*next_ms, s->stages[i].next_poll_ms);
        }
    }
}
