/* claims.c - which stages ask for rows in a tick, how many, and which of them are to be those that are ready longest. */
#include "scheduler/state.h"

int claims_count(const struct scheduler *s, const struct stage *stage) {
    struct plan_claim_in in = {
        .room = stage_room(stage) + stage->queued,
        .queued = stage->queued,
        .mean_bytes = stage->mean_bytes,
        .paused = stage->paused,
        .stopping = s->draining || !s->begun,
    };
    return plan_claim_count(&in);
}

static void add_claim(struct scheduler *s, struct stage *stage, struct store_claim *claims, int count, bool fair,
                      bool from_front) {
    struct asked *asked = &s->tick_asks[s->tick_claims];
    *asked = (struct asked){stage, random_identity(s->options.random), count, fair};
    claims[s->tick_claims++] = (struct store_claim){
        .pipeline = stage->pipeline->id,
        .stage = stage->spec->id,
        .previous_stage = stage->position > 0 ? stage->pipeline->stages[stage->position - 1].id : 0,
        .count = count,
        .fair = fair,
        .limited = stage->limited,
        .claim = asked->claim,
        .from_front = from_front,
        .from_priority = stage->from_priority,
        .from_ready_at = arena_copy_string(&s->tick_arena, stage->from_ready_at),
        .inputs = stage->spec->inputs.count > 0 ? &stage->spec->inputs : NULL,
    };
}

struct store_claim *claims_gather(struct scheduler *s, int64_t now) {
    size_t most = 2 * (size_t)s->stage_count + 1;
    struct store_claim *claims = arena_alloc(&s->tick_arena, sizeof *claims * most);
    s->tick_asks = arena_alloc(&s->tick_arena, sizeof *s->tick_asks * most);
    s->tick_claims = 0;
    if (!scheduler_may_begin(s, now)) {
        return claims;
    }
    for (int i = 0; i < s->stage_count; i++) {
        struct stage *stage = &s->stages[i];
        int count = now >= stage->next_poll_ms ? claims_count(s, stage) : 0;
        if (count == 0) {
            continue;
        }
        bool front = stage->last_claim_short || stage->woken || stage->from_ready_at[0] == '\0' ||
                     now - stage->last_front_ms >= 1000;
        stage->expected = stage->woken = false;
        stage->last_front_ms = front ? now : stage->last_front_ms;
        int fair = plan_fair_count(stage->credit, stage->spec->share_percent, count);
        if (fair > 0) {
            add_claim(s, stage, claims, fair, true, true);
        }
        if (count > fair) {
            add_claim(s, stage, claims, count - fair, false, front);
        }
    }
    return claims;
}
