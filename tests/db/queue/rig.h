/* rig.h - a queue under test on a loop of its own, with a pipeline of three stages, and the last
 * answers it gave.
 *
 * The wait functions run the loop until the answer is there; at their deadline the test fails.
 * Answers are copied, so that they outlive the callback.
 */
#ifndef TESTS_RIG_H
#define TESTS_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/arena.h"
#include "queue/queue.h"

enum { RIG_STAGES = 3, RIG_NODE = 7001 };

struct rig {
    char *url; /* of its database, not through a proxy */
    uv_loop_t loop;
    uv_timer_t tick; /* wakes the loop every 2 ms, so that deadlines are seen */
    struct queue *queue;
    struct store_ops ops;
    int ready, woken;
    bool closed;
    int pipeline, stages[RIG_STAGES];
    struct arena arena; /* of the copies */

    int ticks, effects, dones, starts, beats, watches, leads; /* answers */
    struct store_tick_answer tick_answer;
    struct store_effects_answer effects_answer;
    struct store_done_answer done_answer;
    struct store_start_answer start_answer;
    struct store_beat_answer beat_answer;
    struct store_watch_answer watch_answer;
    struct store_lead_answer lead_answer;
    int chain_count, claim_count, effect_count, progress_count, fetch_count; /* of the request in flight */

    struct rig_debt { /* answers that must have come when the queue is closed */
        const int *number;
        int least;
    } debts[4];
    int debt_count;
};

/* A migrated database with pipeline "p" of stages a, b, c; `options` may be NULL. The node's row is
 * there. */
struct rig *rig_open(void);
/* The same with a connection string of one's own for the queue (a proxy); `database` is taken over.
 */
struct rig *rig_open_url(char *database, const char *url, const char *watch_url,
                         int64_t request_timeout_ms);
/* rig_close fails the test unless `*number` is `least` by then. */
void rig_expect_at_close(struct rig *rig, const int *number, int least);
void rig_close(struct rig *rig); /* and checks the counts */

void rig_wait(struct rig *rig, const int *number, int least);
void rig_wait_ready(struct rig *rig);
void rig_run_for(struct rig *rig, int64_t ms); /* lets a thing not happen */

int64_t rig_submit(struct rig *rig, const char *key, const char *payload); /* the task's id */
int64_t rig_int(struct rig *rig, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *rig_text(struct rig *rig, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rig_exec(struct rig *rig, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Send and wait. */
enum status rig_tick(struct rig *rig, const struct store_tick *tick);
enum status rig_effects(struct rig *rig, const struct store_effects *effects);
/* Send only. */
void rig_send_tick(struct rig *rig, const struct store_tick *tick);
void rig_send_effects(struct rig *rig, int lane, const struct store_effects *effects);

/* Claims at most `count` of a stage (0 ..) in a tick of its own; the answer is in tick_answer. */
const struct store_claimed *rig_claim(struct rig *rig, int stage, int count, int64_t claim);

void rig_on_done(void *context, const struct store_done_answer *answer);
void rig_on_start(void *context, const struct store_start_answer *answer);
void rig_on_beat(void *context, const struct store_beat_answer *answer);
void rig_on_watch(void *context, const struct store_watch_answer *answer);
void rig_on_lead(void *context, const struct store_lead_answer *answer);

/* Fails the test unless the counts that are kept equal those that are there. */
void rig_check_counts(struct rig *rig);

#endif
