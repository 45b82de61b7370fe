/* dispatch.c - gives held tasks to worker processes and turns what comes back into transitions and endings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/require.h"
#include "scheduler/state.h"

/* Such a stage takes a task only when the store has all its transitions. */
static bool is_startable(const struct scheduler *s, const struct held *h) {
    if (held_is_blocked(s, h)) {
        return false;
    }
    bool committed = h->count == 0 && !h->in_tick;
    return (committed || !(stage_wants_committed(h->stage) || h->alone)) && !past_lacks_inputs(h);
}

static struct pool_text text_of(const struct shared_text *text) {
    return text == NULL ? (struct pool_text){0} : (struct pool_text){text->data, text->length};
}

static bool start_one(struct scheduler *s, struct held *h) {
    struct pool_task task = {
        .run = s->next_run++,
        .version = h->version,
        .attempt = h->attempt + 1,
        .alone = h->alone,
        .key = {h->key, strlen(h->key)},
        .payload = text_of(h->payload),
        .input = text_of(h->input),
        .inputs = text_of(h->inputs),
    };
    if (h->progress.known) {
        task.has_progress = true;
        task.progress = h->progress.fraction;
        task.progress_text = (struct pool_text){h->progress.text, strlen(h->progress.text)};
    }
    struct error err = ERROR_NONE;
    enum status status = s->workers->start(h->stage->pool, &task, &err);
    if (status == STATUS_OK) {
        held_dequeue(h);
        h->state = HELD_RUNNING;
        h->run = task.run;
        h->stage->running++;
        map_put(&s->by_run, (int64_t)task.run, h);
        return true;
    }
    if (status == STATUS_INVALID || status == STATUS_LIMIT) {
        /* The task itself cannot be given to a worker (too large for a frame, say): that is its own failure. */
        held_end_failed(h, &(struct plan_failure){.ending = STORE_FAILED, .attempts = 1, .kind = "permanent"}, err.text,
                        strlen(err.text), NULL, 0);
    } else if (h->alone && stage_is_parked(h->stage)) {
        /* A fresh process is not to be had here, and the places that there are would take it again at once. */
        h->delay_ms = PARKED_DELAY_MS;
        held_end(h, STORE_DELAYED);
    }
    return false;
}

static void dispatch_stage(struct scheduler *s, struct stage *stage) {
    if (stage->spec->kind != SCHED_HANDLER || stage->spec->elsewhere) {
        return;
    }
    LIST_EACH_SAFE(node, after, &stage->queue) {
        struct held *h = LIST_ENTRY(node, struct held, link);
        if (s->workers->room(stage->pool) <= 0) {
            return;
        }
        if (is_startable(s, h) && !start_one(s, h) && h->state == HELD_QUEUED) {
            return;
        }
    }
}

static void interrupt_overdue(struct scheduler *s, int64_t now) {
    LIST_EACH(node, &s->all) {
        struct held *h = LIST_ENTRY(node, struct held, all);
        if (h->state == HELD_RUNNING && h->interrupt_at_ms != 0 && now >= h->interrupt_at_ms && !h->interrupted) {
            h->interrupted = true;
            s->workers->interrupt(h->stage->pool, h->run);
        }
    }
}

void dispatch_turn(struct scheduler *s, int64_t now) {
    interrupt_overdue(s, now);
    if (!scheduler_may_begin(s, now)) {
        return;
    }
    for (int i = 0; i < s->stage_count; i++) {
        dispatch_stage(s, &s->stages[i]);
    }
}

/* ---- what comes back --------------------------------------------------------------------------------------------- */

static int stage_id_of_name(const struct sched_pipeline *pipeline, const struct pool_text *name) {
    for (int i = 0; i < pipeline->stage_count; i++) {
        const struct sched_stage *stage = &pipeline->stages[i];
        if (strlen(stage->name) == name->length && memcmp(stage->name, name->data, name->length) == 0) {
            return stage->id;
        }
    }
    return 0;
}

static void keep_statements(struct held *h, const struct pool_outcome *outcome) {
    h->statement_count = outcome->statement_count;
    h->statements = mem_alloc(sizeof *h->statements * (size_t)outcome->statement_count);
    for (int i = 0; i < outcome->statement_count; i++) {
        const struct pool_statement *from = &outcome->statements[i];
        struct held_statement *to = &h->statements[i];
        to->text = mem_copy_bytes(from->sql.data, from->sql.length);
        to->param_count = from->parameter_count;
        to->params = mem_alloc(sizeof *to->params * (size_t)(from->parameter_count + 1));
        for (int p = 0; p < from->parameter_count; p++) {
            const struct pool_text *value = &from->parameters[p];
            if (value->data != NULL) {
                to->params[p].data = mem_copy_bytes(value->data, value->length);
                to->params[p].length = value->length;
            }
        }
    }
}

void dispatch_after_stage(struct scheduler *s, struct held *h) {
    h->attempt = h->crashes = h->rescues = 0;
    past_forget_progress(s, h);
    int position = h->first_position + h->count;
    const struct sched_pipeline *pipeline = h->stage->pipeline;
    if (position >= pipeline->stage_count || h->leaves != STORE_NEXT) {
        held_end(h, h->leaves);
        return;
    }
    struct stage *next = h->stage + 1;
    int64_t now = clock_now_ms(s->options.clock);
    struct plan_hand_over_in in = {
        .next_is_handler = next->spec->kind == SCHED_HANDLER,
        .committed_only = stage_wants_committed(next),
        .paused = next->paused,
        .last_claim_short = next->last_claim_short,
        .room = stage_room(next),
        .hand_overs = next->hand_overs,
        .since_claim_ms = now - next->last_claim_ms,
        .superseded = h->superseded,
        .cancelled = h->cancelled,
        .stopping = s->draining || !s->begun,
        .alone = h->alone,
    };
    bool stopping = in.stopping || h->cancelled;
    if (plan_hand_over(&in) || (h->keep && !stopping && !next->paused && stage_takes_kept(next))) {
        stage_hand_over(h, next, h->count > 0 ? shared_text_share(h->outputs[h->count - 1]) : NULL);
        return;
    }
    held_end(h, stage_finishes(next) ? STORE_KEEP : STORE_NEXT);
}

static void fail_route(struct held *h, const struct pool_text *target) {
    const struct sched_pipeline *pipeline = h->stage->pipeline;
    struct buf why;
    buf_init(&why, 16 * 1024);
    buf_append_format(&why, "it was routed to \"%.*s\", which is no stage of its pipeline; the stages are: ",
                      (int)target->length, target->data);
    for (int i = 0; i < pipeline->stage_count; i++) {
        buf_append_format(&why, "%s%s", i == 0 ? "" : ", ", pipeline->stages[i].name);
    }
    stats_add_failure(h->stage);
    log_event(LOG_INFO, "task.failed", "pipeline=%s stage=%s task=%lld kind=permanent reason=%s", pipeline->name,
              h->stage->spec->name, (long long)h->task, log_text(why.data));
    held_end_failed(h, &(struct plan_failure){.ending = STORE_FAILED, .attempts = 1, .kind = "permanent"}, why.data,
                    why.length, NULL, 0);
    buf_finish(&why);
}

/* False when the claim ends without the transition: a snooze, or a route that leads nowhere. */
static bool take_flow(struct held *h, const struct pool_outcome *outcome) {
    h->leaves = STORE_NEXT;
    switch (outcome->flow) {
    case POOL_GO_ON:
        return true;
    case POOL_FINISH:
        h->leaves = STORE_FINISH;
        return true;
    case POOL_ROUTE:
        h->route_stage = stage_id_of_name(h->stage->pipeline, &outcome->target);
        h->leaves = STORE_ROUTE;
        if (h->route_stage == 0) {
            fail_route(h, &outcome->target);
        }
        return h->route_stage != 0;
    case POOL_SNOOZE:
        h->delay_ms = outcome->delay_ms;
        held_end(h, STORE_DELAYED);
        return false;
    }
    return true;
}

static void on_ok(struct scheduler *s, struct held *h, const struct pool_outcome *outcome) {
    if (h->cancelled) {
        held_end(h, STORE_RELEASE);
        return;
    }
    if (!take_flow(h, outcome)) {
        return;
    }
    h->outputs[h->count++] = shared_text_new(outcome->output.data, outcome->output.length);
    if (outcome->statement_count > 0) {
        keep_statements(h, outcome);
        h->state = HELD_EFFECT;
        list_append(&h->stage->effects, &h->link);
        return;
    }
    dispatch_after_stage(s, h);
}

static void on_failed(struct scheduler *s, struct held *h, const struct pool_outcome *outcome) {
    struct plan_failure_in in = {
        .end = outcome->end,
        .kind = outcome->kind,
        .attempt = h->attempt,
        .alone = h->alone,
        .max_attempts = h->stage->spec->attempts,
        .backoff = h->stage->spec->backoff,
    };
    struct plan_failure plan = plan_failure(&in, s->options.random);
    if (plan.kind == NULL) {
        held_end(h, STORE_RELEASE);
        return;
    }
    if (strcmp(plan.kind, "quarantine") == 0) {
        char *reason = mem_format("quarantined: %.*s while it ran alone", (int)outcome->message.length,
                                  outcome->message.data == NULL ? "" : outcome->message.data);
        held_end_failed(h, &plan, reason, strlen(reason), outcome->last_output.data, outcome->last_output.length);
        free(reason);
    } else {
        held_end_failed(h, &plan, outcome->message.data, outcome->message.length, outcome->last_output.data,
                        outcome->last_output.length);
    }
    log_event(LOG_INFO, "task.failed", "pipeline=%s stage=%s task=%lld kind=%s attempt=%d reason=%s",
              h->stage->pipeline->name, h->stage->spec->name, (long long)h->task, plan.kind, h->attempt + 1,
              log_text(h->reason == NULL ? "" : h->reason));
}

/* A run that was told to give up, and did. Why it says so does not count: the task's new state was decided elsewhere. */
static bool gave_up(const struct held *h, enum pool_end end) {
    bool must = h->cancelled || (h->superseded && h->stage->pipeline->on_update == SCHED_INTERRUPT);
    return (must && (end == POOL_RETRY || end == POOL_FAIL)) || (h->superseded && end == POOL_RETRY);
}

static void on_ended(void *context, struct pool *pool, uint64_t run, const struct pool_outcome *outcome) {
    (void)pool;
    struct stage *origin = context;
    struct scheduler *s = origin->scheduler;
    struct held *h = map_remove(&s->by_run, (int64_t)run);
    REQUIRE(h != NULL && h->state == HELD_RUNNING);
    struct stage *stage = h->stage;
    stage->running--;
    if (outcome->end != POOL_RETURNED && outcome->end != POOL_INTERRUPTED) {
        int64_t began_ms = clock_now_ms(s->options.clock) - outcome->run_us / 1000;
        stats_add_run(stage, h, began_ms, outcome->run_us, outcome->end != POOL_OK && !gave_up(h, outcome->end));
    }
    h->state = HELD_ENDED;
    h->interrupt_at_ms = 0;
    if (h->lost) {
        held_free_if_lost(s, h);
    } else if (h->cut) {
        held_end(h, h->ending);
    } else if (outcome->end == POOL_OK) {
        on_ok(s, h, outcome);
    } else if (outcome->end == POOL_RETURNED && !s->draining && !h->cancelled && !h->superseded) {
        held_enqueue(h, stage, true);
    } else if (outcome->end == POOL_RETURNED || outcome->end == POOL_INTERRUPTED || gave_up(h, outcome->end)) {
        held_end(h, STORE_RELEASE);
    } else {
        on_failed(s, h, outcome);
    }
    s->options.changed(s->options.context);
}

static void on_changed(void *context, struct pool *pool) {
    (void)pool;
    struct stage *stage = context;
    stage->scheduler->options.changed(stage->scheduler->options.context);
}

static void on_closed(void *context, struct pool *pool) {
    (void)pool;
    struct stage *stage = context;
    stage->pool_closed = true;
    stage->scheduler->options.changed(stage->scheduler->options.context);
}

static void on_progress(void *context, struct pool *pool, uint64_t run, double fraction, const char *text) {
    (void)pool;
    struct stage *stage = context;
    struct held *h = map_get(&stage->scheduler->by_run, (int64_t)run);
    if (h != NULL) {
        past_say(stage->scheduler, h, fraction, text, clock_now_ms(stage->scheduler->options.clock));
        log_event(LOG_DEBUG, "task.progress", "pipeline=%s stage=%s task=%lld fraction=%.3f text=%s",
                  stage->pipeline->name, stage->spec->name, (long long)h->task, fraction, log_text(text));
    }
}

const struct pool_events dispatch_pool_events = {
    .ended = on_ended,
    .changed = on_changed,
    .closed = on_closed,
    .progress = on_progress,
};
