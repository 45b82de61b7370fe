/* schedules.c - fires what is due by time. The watch says how long until then; a timer waits it out, and the database says
 * whether it is time. Any node may fire: each tick is judged once. A scan that a schedule asks for is heard of by every
 * node that has the source.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "node/private.h"

enum { AT_MOST = 20, AGAIN_MS = 1000, FAILED_LINES_PER_MINUTE = 3 };

static void on_fired(void *context, const struct store_fire_answer *answer) {
    struct node *node = context;
    struct schedules *schedules = &node->schedules;
    int64_t now = node_now(node);
    schedules->in_flight = false;
    if (answer->code != STATUS_OK) {
        if (log_limit_allows(&schedules->failed_limit, FAILED_LINES_PER_MINUTE, now)) {
            log_event(LOG_WARN, "schedules.failed", "reason=%s", log_text(answer->error.text));
        }
        schedules->next_ms = now + AGAIN_MS;
    } else {
        /* Nothing was there to look at: another node has it in hand, and is asked about no more than once a second. */
        int64_t least = answer->looked == 0 ? AGAIN_MS : 0;
        int64_t wait = answer->wait_ms > least ? answer->wait_ms : least;
        schedules->next_ms = answer->wait_ms < 0 ? INT64_MAX : now + wait;
        schedules->not_before_ms = now + least;
    }
    node_changed(node);
}

static void fire(struct node *node) {
    struct schedules *schedules = &node->schedules;
    int *pipelines = mem_alloc(sizeof *pipelines * (size_t)(node->options.pipeline_count + 1));
    for (int i = 0; i < node->options.pipeline_count; i++) {
        pipelines[i] = node->options.pipelines[i].id;
    }
    struct error err = ERROR_NONE;
    schedules->in_flight = node->store.fire(node->store.context, node->options.pipeline_count, pipelines, AT_MOST, on_fired,
                                            node, &err) == STATUS_OK;
    if (!schedules->in_flight) {
        schedules->next_ms = node_now(node) + AGAIN_MS;
    }
    free(pipelines);
}

void schedules_turn(struct node *node, int64_t now, int64_t *next_ms) {
    struct schedules *schedules = &node->schedules;
    if (node->options.no_schedules || node->state != NODE_UP || schedules->in_flight) {
        return;
    }
    if (now >= schedules->next_ms) {
        fire(node);
    }
    if (!schedules->in_flight) {
        sooner(next_ms, schedules->next_ms);
    }
}

void schedules_watched(struct node *node, const struct store_watch_answer *answer) {
    struct schedules *schedules = &node->schedules;
    int64_t now = node_now(node), due = INT64_MAX;
    for (int i = 0; i < answer->stage_count; i++) {
        const struct store_stage_state *state = &answer->stages[i];
        if (state->schedule_ms >= 0) {
            sooner(&due, now + state->schedule_ms);
        }
        sources_asked(node, state->stage, state->scan);
    }
    schedules->next_ms = due != INT64_MAX && due < schedules->not_before_ms ? schedules->not_before_ms : due;
}
