/* stage.c - what a stage has room for, takes, and waits for. */
#include "scheduler/state.h"

int stage_room(const struct stage *stage) {
    if (stage->spec->elsewhere) {
        return 0;
    }
    if (stage->spec->kind == SCHED_SQL) {
        int room = 0;
        for (int i = 0; i < stage->lane_count; i++) {
            room += stage->lanes[i].count == 0 ? EFFECT_BATCH_MAX : 0;
        }
        return room - stage->queued;
    }
    return stage->scheduler->workers->room(stage->pool) - stage->queued;
}

bool stage_is_parked(const struct stage *stage) {
    return stage->pool != NULL && !stage->pool_closed &&
           stage->scheduler->workers->state(stage->pool, NULL) == POOL_PARKED;
}

void stage_expect(struct stage *stage) {
    stage->next_poll_ms = 0;
    stage->poll_delay_ms = 0;
    stage->expected = true;
}

struct stage *stage_of_id(struct stage *stage, int id) {
    struct stage *first = stage - stage->position;
    for (int i = 0; i < stage->pipeline->stage_count; i++) {
        if (first[i].spec->id == id) {
            return &first[i];
        }
    }
    return NULL;
}

void stage_expect_row(struct stage *stage, int id) {
    struct stage *named = stage_of_id(stage, id);
    if (named != NULL) {
        stage_expect(named);
    }
}

/* After_commit and sql stages for the sake of their effects; those with inputs because the store has them; the others
 * because only a claim is counted. */
bool stage_wants_committed(const struct stage *stage) {
    const struct sched_stage *spec = stage->spec;
    return spec->after_commit || spec->kind == SCHED_SQL || spec->share_percent > 0 || stage->limited ||
           spec->inputs.count > 0;
}

bool stage_takes_kept(const struct stage *stage) {
    return !stage->limited && !stage->spec->elsewhere;
}

bool stage_finishes(const struct stage *stage) {
    return stage->pipeline->on_update == SCHED_FINISH;
}

void stage_hand_over(struct held *h, struct stage *next, struct shared_text *input) {
    next->hand_overs++;
    next->credit += next->spec->share_percent;
    shared_text_drop(h->input);
    shared_text_drop(h->inputs);
    h->input = input;
    h->inputs = NULL;
    h->waited_us = 0;
    held_enqueue(h, next, false);
}
