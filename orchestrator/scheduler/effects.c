/* effects.c - user SQL: statements that handlers queued, and sql stages, in the transaction that completes the stage.
 *
 * A lane is one connection of one stage. It takes a batch of tasks; when a batch fails for what is in it, the one whose
 * statement failed is blamed, or the batch is halved until the bad task stands alone. One that time and again ends its
 * connection, or clashes with other sessions, is run alone, and blamed if it goes on doing so.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/require.h"
#include "scheduler/state.h"

static struct store_text store_text_of(const struct shared_text *text) {
    return text == NULL ? (struct store_text){0} : (struct store_text){text->data, text->length};
}

static struct store_param value_of(struct arena *arena, const struct held *h, enum sched_value value) {
    switch (value) {
    case SCHED_KEY:
        return (struct store_param){h->key, strlen(h->key)};
    case SCHED_PAYLOAD:
        return h->payload == NULL ? (struct store_param){0}
                                  : (struct store_param){h->payload->data, h->payload->length};
    case SCHED_INPUT:
        return h->input == NULL ? (struct store_param){0} : (struct store_param){h->input->data, h->input->length};
    case SCHED_VERSION: {
        char *text = arena_format(arena, "%lld", (long long)h->version);
        return (struct store_param){text, strlen(text)};
    }
    case SCHED_UPDATED_AT:
        return (struct store_param){h->updated_at, strlen(h->updated_at)};
    case SCHED_INPUTS:
        return h->inputs == NULL ? (struct store_param){0} : (struct store_param){h->inputs->data, h->inputs->length};
    }
    REQUIRE(false);
    return (struct store_param){0};
}

static void build_statements(struct arena *arena, const struct held *h, struct store_effect *effect) {
    const struct sched_stage *spec = h->stage->spec;
    bool own = spec->kind == SCHED_HANDLER;
    int count = own ? h->statement_count : spec->statement_count;
    struct store_statement *statements = arena_alloc(arena, sizeof *statements * (size_t)(count + 1));
    for (int i = 0; i < count; i++) {
        if (own) {
            statements[i] = (struct store_statement){h->statements[i].text, h->statements[i].param_count,
                                                     h->statements[i].params};
            continue;
        }
        const struct sched_statement *from = &spec->statements[i];
        struct store_param *params = arena_alloc(arena, sizeof *params * (size_t)(from->param_count + 1));
        for (int p = 0; p < from->param_count; p++) {
            params[p] = value_of(arena, h, from->params[p]);
        }
        statements[i] = (struct store_statement){from->text, from->param_count, params};
    }
    effect->statement_count = count;
    effect->statements = statements;
}

static void build_effect(struct arena *arena, struct held *h, struct store_effect *effect) {
    struct store_text *outputs = arena_alloc(arena, sizeof *outputs * (size_t)h->count);
    for (int i = 0; i < h->count; i++) {
        outputs[i] = store_text_of(h->outputs[i]);
    }
    if (!h->effect_open) {
        const struct sched_pipeline *pipeline = h->stage->pipeline;
        int next = h->first_position + h->count;
        bool goes_on = next < pipeline->stage_count && stage_takes_kept(h->stage + 1);
        bool may_stay = goes_on && !h->cancelled && h->leaves == STORE_NEXT;
        h->effect_ending = may_stay && h->keep ? STORE_STAY : may_stay && stage_finishes(h->stage) ? STORE_KEEP : h->leaves;
    }
    effect->chain = (struct store_chain){
        .task = h->task,
        .claim = h->claim,
        .step = h->step,
        .count = h->count,
        .first_stage = h->stage->pipeline->stages[h->first_position].id,
        .pipeline = h->stage->pipeline->id,
        .revision = h->stage->pipeline->revision,
        .outputs = outputs,
        .ending = h->effect_ending,
        .route_stage = h->effect_ending == STORE_ROUTE ? h->route_stage : 0,
        .has_progress = h->has_progress_row,
    };
    build_statements(arena, h, effect);
}

/* The effect did not happen, or nobody knows: the task waits for a lane again. */
static void put_back(struct scheduler *s, struct held *h, bool uncertain) {
    h->state = HELD_ENDED;
    if (h->lost) {
        held_free_if_lost(s, h);
        return;
    }
    h->effect_open = h->effect_open || uncertain;
    bool sql = h->stage->spec->kind == SCHED_SQL;
    /* It may have been told of this while its effect was under way. */
    bool unwanted = !h->effect_open && (h->cancelled || (h->superseded && sql));
    if (sql || unwanted) {
        shared_text_drop(h->outputs[--h->count]); /* the transition that it would have made is undone */
    }
    if (unwanted) {
        held_end(h, STORE_RELEASE);
    } else if (sql) {
        held_enqueue(h, h->stage, true);
    } else {
        h->state = HELD_EFFECT;
        list_prepend(&h->stage->effects, &h->link);
    }
}

/* A run of an sql stage is its share of the transaction's time. */
static void add_sql_run(const struct lane *lane, const struct held *h, bool failed) {
    int64_t took_ms = clock_now_ms(lane->scheduler->options.clock) - lane->began_ms;
    stats_add_run(h->stage, h, lane->began_ms, took_ms * 1000 / lane->count, failed);
}

static void blame(struct scheduler *s, struct lane *lane, struct held *h, enum status code, const struct error *error) {
    h->state = HELD_ENDED;
    if (h->stage->spec->kind == SCHED_SQL) {
        add_sql_run(lane, h, true);
    } else { /* the handler's run was counted when it was over */
        stats_add_failure(h->stage);
    }
    if (h->lost) {
        held_free_if_lost(s, h);
        return;
    }
    h->effect_open = false;
    shared_text_drop(h->outputs[--h->count]); /* the stage did not end well after all */
    struct plan_failure_in in = {
        .end = code == STATUS_TIMEOUT ? POOL_TIMEOUT : POOL_RETRY,
        .attempt = h->attempt,
        .max_attempts = h->stage->spec->attempts,
        .backoff = h->stage->spec->backoff,
    };
    struct plan_failure plan = plan_failure(&in, s->options.random);
    plan.kind = code == STATUS_TIMEOUT ? "timeout" : "statement";
    log_event(LOG_INFO, "task.failed", "pipeline=%s stage=%s task=%lld kind=%s attempt=%d reason=%s",
              h->stage->pipeline->name, h->stage->spec->name, (long long)h->task, plan.kind, h->attempt + 1,
              log_text(error->text));
    held_end_failed(h, &plan, error->text, strlen(error->text), NULL, 0);
}

static void on_committed(struct scheduler *s, struct lane *lane, struct held *h,
                         const struct store_effect_verdict *verdict) {
    h->state = HELD_ENDED;
    if (h->stage->spec->kind == SCHED_SQL && !verdict->dropped) {
        add_sql_run(lane, h, false);
    }
    if (h->lost) {
        held_free_if_lost(s, h);
        return;
    }
    if (verdict->dropped || verdict->verdict.answer == STORE_REFUSED) {
        tick_doubt(s, clock_now_ms(s->options.clock));
        held_leave(s, h);
        return;
    }
    bool end = h->stage->position + 1 == h->stage->pipeline->stage_count;
    bool last = h->leaves == STORE_FINISH || (end && h->leaves == STORE_NEXT);
    if (h->stage->limited) {
        stage_expect(h->stage); /* it leaves a place to the next one */
    }
    if (!verdict->verdict.running) {
        s->failed_tasks += verdict->verdict.failed;
        s->done_tasks += verdict->verdict.done;
        if (!last || h->superseded || verdict->verdict.stage != h->stage->spec->id || !verdict->verdict.done) {
            stage_expect_row(h->stage, verdict->verdict.stage);
        }
        held_leave(s, h);
        return;
    }
    /* It stays ours: the chain goes on from what is now committed. */
    h->effect_open = false;
    h->effect_limit = h->fruitless = 0;
    held_drop_statements(h);
    held_go_on(s, h, verdict->verdict.stage);
}

static void split(struct scheduler *s, struct lane *lane, const struct store_effects_answer *answer) {
    int half = lane->count / 2;
    for (int i = lane->count - 1; i >= 0; i--) {
        struct held *h = lane->held[i];
        if (answer->at_fault == i || lane->count == 1) {
            blame(s, lane, h, answer->code, &answer->error);
        } else {
            if (answer->at_fault < 0) {
                h->effect_limit = half;
            }
            put_back(s, h, false);
        }
    }
}

/* In a row: so often, and an effect runs alone; so often in all, and it is at fault itself. */
enum { FRUITLESS_SHARED_MAX = 3, FRUITLESS_MAX = FRUITLESS_SHARED_MAX + 10 };

/* Whether the effects themselves may have caused what came to pass: the connection ended while they were under way, or
 * they clashed with other sessions (class 40; a fence of ours that was lost has another SQLSTATE). A disk that is full
 * (class 53) or a server that has become read-only (25006) refuses any statement. */
static bool may_be_at_fault(const struct store_effects_answer *answer) {
    const char *sqlstate = answer->error.sqlstate;
    if (answer->code == STATUS_UNAVAILABLE) {
        return answer->at_fault >= 0 && strncmp(sqlstate, "53", 2) != 0 && strcmp(sqlstate, "25006") != 0;
    }
    return answer->code == STATUS_UNCERTAIN || (answer->code == STATUS_CONFLICT && strncmp(sqlstate, "40", 2) == 0);
}

static bool is_endless(struct held *h) {
    h->fruitless++;
    if (h->fruitless >= FRUITLESS_SHARED_MAX) {
        h->effect_limit = 1;
    }
    return h->fruitless >= FRUITLESS_MAX;
}

static void blame_endless(struct scheduler *s, struct lane *lane, struct held *h,
                          const struct store_effects_answer *answer) {
    struct error why = answer->error;
    error_wrap(&why, "%d times in a row its statements %s, the last time", h->fruitless,
               answer->code == STATUS_CONFLICT ? "clashed with other sessions" : "ended in the loss of the connection");
    h->fruitless = 0;
    blame(s, lane, h, STATUS_INVALID, &why);
}

static void try_again(struct scheduler *s, struct lane *lane, const struct store_effects_answer *answer) {
    bool suspect = may_be_at_fault(answer);
    for (int i = lane->count - 1; i >= 0; i--) {
        struct held *h = lane->held[i];
        if (suspect && (answer->at_fault < 0 || answer->at_fault == i) && is_endless(h)) {
            blame_endless(s, lane, h, answer);
        } else {
            put_back(s, h, answer->code == STATUS_UNCERTAIN);
        }
    }
}

static void on_effects(void *context, const struct store_effects_answer *answer) {
    struct lane *lane = context;
    struct scheduler *s = lane->scheduler;
    s->effects_in_flight -= lane->count;
    bool to_blame = false;
    switch (answer->code) {
    case STATUS_OK:
        for (int i = 0; i < lane->count; i++) {
            on_committed(s, lane, lane->held[i], &answer->verdicts[i]);
        }
        break;
    case STATUS_INVALID:
    case STATUS_TIMEOUT:
    case STATUS_LIMIT:
        to_blame = true;
        split(s, lane, answer);
        break;
    case STATUS_INTERNAL:
    case STATUS_NOT_FOUND:
    case STATUS_PROTOCOL:
        log_event(LOG_ERROR, "effects.failed", "stage=%s effects=%d reason=%s", lane->stage->spec->name, lane->count,
                  log_text(answer->error.text));
        try_again(s, lane, answer);
        break;
    case STATUS_AGAIN:
    case STATUS_CONFLICT:
    case STATUS_UNAVAILABLE:
    case STATUS_UNCERTAIN:
        try_again(s, lane, answer);
        break;
    }
    lane->delay_ms = plan_poll_delay_ms(lane->delay_ms, answer->code == STATUS_OK || to_blame);
    lane->not_before_ms = clock_now_ms(s->options.clock) + lane->delay_ms;
    lane->count = 0;
    arena_finish(&lane->arena);
    s->options.changed(s->options.context);
}

/* The next batch of a lane: tasks of an sql stage that are committed, or handlers' effects not named by a tick. */
static int gather(const struct scheduler *s, struct stage *stage, struct held **batch) {
    bool sql = stage->spec->kind == SCHED_SQL;
    struct list *from = sql ? &stage->queue : &stage->effects;
    int count = 0, limit = EFFECT_BATCH_MAX;
    LIST_EACH(node, from) {
        struct held *h = LIST_ENTRY(node, struct held, link);
        if (h->in_tick || (sql && (h->count > 0 || held_is_blocked(s, h) || past_lacks_inputs(h)))) {
            continue;
        }
        bool single = h->alone;
        int own_limit = single ? 1 : h->effect_limit > 0 ? h->effect_limit : EFFECT_BATCH_MAX;
        if (count > 0 && (single || count >= own_limit)) {
            break;
        }
        limit = own_limit < limit ? own_limit : limit;
        batch[count++] = h;
        if (count >= limit) {
            break;
        }
    }
    return count;
}

static void start_lane(struct scheduler *s, struct stage *stage, struct lane *lane) {
    lane->count = gather(s, stage, lane->held);
    if (lane->count == 0) {
        return;
    }
    struct store_effect *effects = arena_alloc(&lane->arena, sizeof *effects * (size_t)lane->count);
    for (int i = 0; i < lane->count; i++) {
        struct held *h = lane->held[i];
        held_dequeue(h);
        h->state = HELD_IN_EFFECT;
        if (stage->spec->kind == SCHED_SQL) {
            h->outputs[h->count++] = NULL;
        }
        build_effect(&lane->arena, h, &effects[i]);
    }
    struct store_effects request = {
        .node = s->node,
        .count = lane->count,
        .effects = effects,
        .timeout_ms = stage->spec->timeout_ms,
        .role = stage->spec->role,
    };
    struct error err = ERROR_NONE;
    lane->began_ms = clock_now_ms(s->options.clock);
    s->effects_in_flight += lane->count;
    enum status status = s->store->effects(s->store->context, lane->index, &request, on_effects, lane, &err);
    if (status == STATUS_OK) {
        return;
    }
    on_effects(lane, &(struct store_effects_answer){.code = status, .error = err, .at_fault = -1});
}

static void stage_turn(struct scheduler *s, struct stage *stage, int64_t now, int64_t *next_ms) {
    for (int i = 0; i < stage->lane_count; i++) {
        struct lane *lane = &stage->lanes[i];
        bool waiting = stage->spec->kind == SCHED_SQL ? !list_is_empty(&stage->queue) : !list_is_empty(&stage->effects);
        if (!waiting || now >= s->lease_end_ms - LEASE_MARGIN_MS) {
            return;
        }
        if (lane->count > 0) {
            continue;
        }
        if (now < lane->not_before_ms) {
            sooner(next_ms, lane->not_before_ms);
        } else if (s->store->lane_ready(s->store->context, lane->index)) {
            start_lane(s, stage, lane);
        }
    }
}

void effects_turn(struct scheduler *s, int64_t now, int64_t *next_ms) {
    if (!s->begun || s->killed) {
        return;
    }
    for (int i = 0; i < s->stage_count; i++) {
        stage_turn(s, &s->stages[i], now, next_ms);
    }
}
