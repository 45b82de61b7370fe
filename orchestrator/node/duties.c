/* duties.c - what a node does once a second beside running tasks: it hears of pauses, tries to lead, and notices that it
 * is idle.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "node/private.h"

enum { WATCH_EVERY_MS = 1000, LEAD_EVERY_MS = 500, FOLD_EVERY_MS = 2000, BUSY_MS = 500, IDLE_WATCH_MS = 20,
       WOKEN_WATCH_MS = 200 };

/* Tasks that this node could go on with. What stands at a parked or paused stage moves only when a person acts, and what
 * stands at one that is not served here when another node does. */
static int64_t open_here(struct node *node, const struct store_watch_answer *answer, int64_t *stuck, int64_t *elsewhere) {
    int64_t open = 0;
    for (int i = 0; i < answer->stage_count; i++) {
        const struct store_stage_state *state = &answer->stages[i];
        for (int k = 0; k < node->stage_count; k++) {
            if (node->stage_ids[k] != state->stage) {
                continue;
            }
            node->open[k] = state->open;
            struct scheduler_stage_report report;
            scheduler_report(node->scheduler, k, &report);
            if (report.elsewhere) {
                *elsewhere += state->open;
                continue;
            }
            if (report.parked != NULL || state->paused) {
                *stuck += state->open;
                if (state->open > 0 && node->process->result->stuck_reason[0] == '\0') {
                    snprintf(node->process->result->stuck_reason, sizeof node->process->result->stuck_reason, "stage '%s' is %s%s",
                             report.stage, report.parked != NULL ? "parked: " : "paused",
                             report.parked != NULL ? report.parked : "");
                }
            } else {
                open += state->open;
            }
        }
    }
    return open;
}

static void on_watch(void *context, const struct store_watch_answer *answer) {
    struct node *node = context;
    struct duties *duties = &node->duties;
    duties->watch_in_flight = false;
    if (answer->code == STATUS_OK) {
        schedules_watched(node, answer);
        scheduler_stage_states(node->scheduler, answer->stage_count, answer->stages);
        reload_see_revisions(node, answer->stage_count, answer->stages);
        int64_t stuck = 0, elsewhere = 0, open = open_here(node, answer, &stuck, &elsewhere);
        if (duties->idle_candidate && open == 0 && scheduler_is_dry(node->scheduler) && sources_scanned(node)) {
            node->process->result->stuck = stuck;
            node->process->result->elsewhere = elsewhere;
            process_idle(node);
        }
    }
    duties->idle_candidate = false;
    node_changed(node);
}

static void watch(struct node *node, int64_t now) {
    struct duties *duties = &node->duties;
    int *busy = mem_alloc(sizeof *busy * (size_t)(node->stage_count + 1));
    int busy_count = scheduler_busy_stages(node->scheduler, node->stage_count, busy);
    struct error err = ERROR_NONE;
    duties->idle_candidate = node->options.until_idle && sources_scanned(node) && scheduler_is_dry(node->scheduler);
    duties->watch_in_flight =
        node->store.watch(node->store.context, node->stage_count, node->stage_ids, node->options.until_idle, busy_count,
                          busy, BUSY_MS, on_watch, node, &err) == STATUS_OK;
    duties->watched_ms = now;
    bool eager = busy_count > 0 || node->options.until_idle;
    duties->next_watch_ms = now + (!duties->watch_in_flight ? IDLE_WATCH_MS : eager ? BUSY_MS / 2 : WATCH_EVERY_MS);
    free(busy);
}

void duties_woken(struct node *node) {
    sooner(&node->duties.next_watch_ms, node->duties.watched_ms + WOKEN_WATCH_MS);
}

static void on_lead(void *context, const struct store_lead_answer *answer) {
    struct node *node = context;
    struct duties *duties = &node->duties;
    duties->lead_in_flight = false;
    if (answer->code != STATUS_OK || !answer->leads) {
        duties->leads = false; /* any error means: not the leader */
    } else {
        if (!duties->leads || duties->term != answer->term) {
            duties->term_since_ms = node_now(node);
            sooner(&duties->next_lead_ms, node_now(node) + LEAD_EVERY_MS); /* what is due need not wait for the next question */
            log_event(LOG_INFO, "leader.term", "node=%lld term=%lld", (long long)node->lease.node,
                      (long long)answer->term);
        }
        duties->leads = true;
        duties->term = answer->term;
        if (answer->rescued > 0) {
            log_event(LOG_WARN, "claims.rescued", "count=%lld reason=lease", (long long)answer->rescued);
        }
        if (answer->staged > 0 || answer->rescued > 0) {
            scheduler_woken(node->scheduler);
        }
    }
    node_changed(node);
}

static void lead(struct node *node, int64_t now) {
    struct duties *duties = &node->duties;
    bool may_rescue = duties->leads && now >= duties->term_since_ms + node->options.lease_ms;
    bool fold = duties->leads && now >= duties->next_fold_ms;
    struct error err = ERROR_NONE;
    duties->lead_in_flight = node->store.lead(node->store.context, node->lease.node, node->options.lease_ms, may_rescue,
                                              fold, on_lead, node, &err) == STATUS_OK;
    if (fold) {
        duties->next_fold_ms = now + FOLD_EVERY_MS;
    }
    int64_t every = duties->leads ? LEAD_EVERY_MS : node->options.lease_ms / 6;
    if (every > node->options.lease_ms / 6) {
        every = node->options.lease_ms / 6;
    }
    duties->next_lead_ms = now + every;
}

static void on_end(void *context, const struct store_done_answer *answer) {
    struct node *node = context;
    node->duties.end_in_flight = false;
    if (answer->code != STATUS_OK) {
        node_left_claims(node);
    }
    node->lease.state = LEASE_NONE;
    node_changed(node);
}

bool duties_end_identity(struct node *node) {
    struct error err = ERROR_NONE;
    node->duties.end_in_flight =
        node->store.end(node->store.context, node->lease.node, on_end, node, &err) == STATUS_OK;
    return node->duties.end_in_flight;
}

void duties_turn(struct node *node, int64_t now, int64_t *next_ms) {
    struct duties *duties = &node->duties;
    if (!lease_is_held(node) || node->state == NODE_ENDING || node->state == NODE_CLOSING) {
        duties->leads = false;
        return;
    }
    if (!duties->watch_in_flight) {
        if (now >= duties->next_watch_ms) {
            watch(node, now);
        }
        sooner(next_ms, duties->next_watch_ms);
    }
    schedules_turn(node, now, next_ms);
    notes_turn(node, now, next_ms);
    if (!duties->lead_in_flight) {
        if (now >= duties->next_lead_ms) {
            lead(node, now);
        }
        sooner(next_ms, duties->next_lead_ms);
    }
}
