/* scheduler.c - life of the scheduler: creation, stops, and the turn. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/require.h"
#include "scheduler/state.h"

/* Lanes of a stage: an sql stage has one a worker; a handler's queued SQL shares two at most. */
static int lanes_of(const struct sched_stage *spec) {
    if (spec->elsewhere) {
        return 0;
    }
    return spec->kind == SCHED_SQL ? spec->workers : spec->workers < 2 ? spec->workers : 2;
}

static void stage_init(struct scheduler *s, struct stage *stage, const struct sched_pipeline *pipeline, int position,
                       int *lane) {
    *stage = (struct stage){
        .scheduler = s,
        .pipeline = pipeline,
        .spec = &pipeline->stages[position],
        .position = position,
        .pool_closed = true,
        .limited = pipeline->stages[position].limited,
        .last_claim_empty = false,
        .lane_count = lanes_of(&pipeline->stages[position]),
    };
    list_init(&stage->queue);
    list_init(&stage->effects);
    stage->lanes = mem_alloc(sizeof *stage->lanes * (size_t)stage->lane_count);
    for (int i = 0; i < stage->lane_count; i++) {
        stage->lanes[i].stage = stage;
        stage->lanes[i].scheduler = s;
        stage->lanes[i].index = (*lane)++;
    }
}

static enum status open_pools(struct scheduler *s, struct error *err) {
    for (int i = 0; i < s->stage_count; i++) {
        struct stage *stage = &s->stages[i];
        if (stage->spec->kind != SCHED_HANDLER || stage->spec->elsewhere) {
            continue;
        }
        struct pool_events events = dispatch_pool_events;
        events.context = stage;
        enum status status = s->workers->open(s->workers->context, &stage->spec->pool, &events, &stage->pool, err);
        if (status != STATUS_OK) {
            return error_wrap(err, "stage '%s'", stage->spec->name);
        }
        stage->pool_closed = false;
    }
    return STATUS_OK;
}

static void scheduler_free(struct scheduler *s) {
    REQUIRE(s->held_count == 0);
    for (int i = 0; i < s->stage_count; i++) {
        free(s->stages[i].lanes);
    }
    MAP_EACH(slot, &s->claims) {
        free(slot->value);
    }
    map_finish(&s->claims);
    map_finish(&s->by_task);
    map_finish(&s->by_run);
    free(s->drops);
    free(s->stages);
    free(s);
}

enum status scheduler_create(const struct scheduler_options *options, struct scheduler **scheduler,
                             struct error *err) {
    struct scheduler *s = mem_alloc(sizeof *s);
    s->options = *options;
    s->store = options->store;
    s->workers = options->workers;
    s->next_run = 1;
    list_init(&s->all);
    for (int i = 0; i < options->pipeline_count; i++) {
        s->stage_count += options->pipelines[i].stage_count;
    }
    s->stages = mem_alloc(sizeof *s->stages * (size_t)(s->stage_count + 1));
    int lane = 0, at = 0;
    for (int i = 0; i < options->pipeline_count; i++) {
        for (int p = 0; p < options->pipelines[i].stage_count; p++) {
            stage_init(s, &s->stages[at++], &options->pipelines[i], p, &lane);
        }
    }
    *scheduler = s;
    return open_pools(s, err);
}

void scheduler_begin(struct scheduler *s, int64_t node, int64_t lease_end_ms) {
    REQUIRE(s->held_count == 0);
    s->node = node;
    s->begun = true;
    s->doubt = false;
    s->reconcile_at_ms = 0;
    scheduler_set_lease_end(s, lease_end_ms);
    scheduler_woken(s);
}

void scheduler_set_lease_end(struct scheduler *s, int64_t lease_end_ms) {
    s->lease_end_ms = lease_end_ms;
    s->workers->set_lease_end(s->workers->context, lease_end_ms);
}

static void give_back_queue(struct stage *stage) {
    LIST_EACH_SAFE(node, after, &stage->queue) {
        struct held *h = LIST_ENTRY(node, struct held, link);
        if (!h->effect_open) {
            held_end(h, STORE_RELEASE);
        }
    }
}

/* What a pool gathers for a batch is as little begun as what waits in the queue for it. */
static void give_back_gathered(struct stage *stage) {
    if (stage->pool != NULL && !stage->pool_closed && stage->running > 0) {
        stage->scheduler->workers->give_back(stage->pool);
    }
}

/* While draining, what was not begun goes back; after a kill, what waits for its SQL does too. An effect whose commit is
 * not known of is begun: it is sent again, unless there is no time for it. */
static void give_back(struct scheduler *s) {
    for (int i = 0; i < s->stage_count; i++) {
        give_back_gathered(&s->stages[i]);
    }
    LIST_EACH_SAFE(node, after, &s->all) {
        struct held *h = LIST_ENTRY(node, struct held, all);
        if (h->lost) {
            continue;
        }
        if (h->state == HELD_QUEUED && (s->killed || !h->effect_open)) {
            held_end(h, STORE_RELEASE);
        } else if (h->state == HELD_EFFECT && s->killed) {
            held_dequeue(h);
            shared_text_drop(h->outputs[--h->count]);
            held_end(h, STORE_RELEASE);
        }
    }
}

/* What waits for a stage that is paused, or for a pool that is no more, is of more use to others. */
static void give_back_stuck(struct scheduler *s) {
    for (int i = 0; i < s->stage_count; i++) {
        struct stage *stage = &s->stages[i];
        if (!list_is_empty(&stage->queue) &&
            (stage->paused || (stage_is_parked(stage) && s->workers->room(stage->pool) <= 0))) {
            give_back_queue(stage);
        }
        if (stage->paused) {
            give_back_gathered(stage);
        }
    }
}

static bool pools_closed(const struct scheduler *s) {
    for (int i = 0; i < s->stage_count; i++) {
        if (!s->stages[i].pool_closed) {
            return false;
        }
    }
    return true;
}

/* When the next interrupt of a cancelled run is due. */
static int64_t next_interrupt_ms(const struct scheduler *s) {
    int64_t next = INT64_MAX;
    LIST_EACH(node, &s->all) {
        const struct held *h = LIST_ENTRY(node, struct held, all);
        if (h->state == HELD_RUNNING && h->interrupt_at_ms != 0 && !h->interrupted && h->interrupt_at_ms < next) {
            next = h->interrupt_at_ms;
        }
    }
    return next;
}

int64_t scheduler_turn(struct scheduler *s) {
    if (s->closing) {
        if (pools_closed(s) && scheduler_is_empty(s)) {
            void (*closed)(void *) = s->closed;
            void *context = s->closed_context;
            scheduler_free(s);
            closed(context);
        }
        return INT64_MAX;
    }
    int64_t now = clock_now_ms(s->options.clock);
    if (s->draining) {
        give_back(s);
    } else {
        give_back_stuck(s);
    }
    dispatch_turn(s, now);
    int64_t next = next_interrupt_ms(s);
    effects_turn(s, now, &next);
    tick_turn(s, now, &next);
    return next;
}

void scheduler_store_ready(struct scheduler *s) {
    int64_t now = clock_now_ms(s->options.clock);
    s->doubt = s->begun;
    s->reconcile_at_ms = 0;
    s->reconcile_soon_until_ms = now + RECONCILE_SOON_FOR_MS;
    scheduler_woken(s);
}

void scheduler_woken(struct scheduler *s) {
    for (int i = 0; i < s->stage_count; i++) {
        stage_expect(&s->stages[i]);
        s->stages[i].woken = true;
    }
    s->options.changed(s->options.context);
}

void scheduler_stage_states(struct scheduler *s, int count, const struct store_stage_state *states) {
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < s->stage_count; k++) {
            struct stage *stage = &s->stages[k];
            if (stage->spec->id != states[i].stage) {
                continue;
            }
            if (stage->paused && !states[i].paused) {
                stage_expect(stage);
            }
            stage->paused = states[i].paused;
            stage->limited = states[i].limited;
        }
    }
}

void scheduler_drain(struct scheduler *s) {
    s->draining = true;
    s->options.changed(s->options.context);
}

void scheduler_kill(struct scheduler *s) {
    s->draining = s->killed = true;
    s->workers->interrupt_all(s->workers->context, false);
    s->options.changed(s->options.context);
}

void scheduler_abandon(struct scheduler *s) {
    s->begun = s->doubt = false;
    s->workers->interrupt_all(s->workers->context, true);
    LIST_EACH_SAFE(node, after, &s->all) {
        struct held *h = LIST_ENTRY(node, struct held, all);
        if (h->state == HELD_RUNNING) {
            h->interrupted = true;
        }
        if (!h->lost) {
            held_leave(s, h);
        }
    }
    s->drop_count = 0; /* they are the old identity's: rescue forgets them */
    s->drops_sent = 0;
    s->options.changed(s->options.context);
}

bool scheduler_is_empty(const struct scheduler *s) {
    return s->held_count == 0 && !s->tick_in_flight && !s->reconcile_in_flight && s->effects_in_flight == 0 && !s->doubt;
}

bool scheduler_is_dry(const struct scheduler *s) {
    for (int i = 0; i < s->stage_count; i++) {
        const struct stage *stage = &s->stages[i];
        if (!stage->last_claim_empty && !stage->paused && !stage->spec->elsewhere && !stage_is_parked(stage)) {
            return false;
        }
    }
    return s->held_count == 0 && s->effects_in_flight == 0;
}

int scheduler_busy_stages(const struct scheduler *s, int max, int *stages) {
    int count = 0;
    int64_t now = clock_now_ms(s->options.clock);
    for (int i = 0; i < s->stage_count && count < max; i++) {
        const struct stage *stage = &s->stages[i];
        /* Places that have been full for long are no promise to look again soon: other nodes want to be notified. */
        if (s->begun && !s->draining && !stage->last_claim_short && stage->last_claim_ms > 0 &&
            now - stage->last_claim_ms < BUSY_RECENT_MS) {
            stages[count++] = stage->spec->id;
        }
    }
    return count;
}

void scheduler_totals(const struct scheduler *s, int64_t *done, int64_t *failed) {
    *done = s->done_tasks;
    *failed = s->failed_tasks;
}

int scheduler_stage_count(const struct scheduler *s) {
    return s->stage_count;
}

void scheduler_report(const struct scheduler *s, int index, struct scheduler_stage_report *report) {
    const struct stage *stage = &s->stages[index];
    *report = (struct scheduler_stage_report){
        .pipeline = stage->pipeline->name,
        .stage = stage->spec->name,
        .stage_id = stage->spec->id,
        .queued = stage->queued,
        .running = stage->running,
        .runs = stage->runs,
        .failed = stage->failed,
        .elsewhere = stage->spec->elsewhere,
    };
    const char *reason = NULL;
    if (stage->pool != NULL && !stage->pool_closed) {
        enum pool_state state = s->workers->state(stage->pool, &reason);
        report->parked = state == POOL_PARKED ? reason : NULL;
        report->starting = state == POOL_STARTING;
    }
}

void scheduler_close(struct scheduler *s, void (*closed)(void *context), void *context) {
    s->closed = closed;
    s->closed_context = context;
    s->draining = s->killed = true;
    if (s->begun) {
        scheduler_abandon(s);
    }
    s->closing = true;
    for (int i = 0; i < s->stage_count; i++) {
        if (s->stages[i].pool != NULL && !s->stages[i].pool_closed) {
            s->workers->close(s->stages[i].pool);
        }
    }
    s->options.changed(s->options.context);
}
