/* stats.c - how many runs there were, how long they took and how long their tasks had waited, on the way to the store.
 *
 * Runs are added up in memory, and ride on a tick once a second at most: what was gathered for one is frozen until the
 * store is known to have it, and is sent again under the same number after a lost answer, so that nothing counts twice.
 */
#include <string.h>

#include "scheduler/state.h"

enum { RUN_MAX_S = 30 * 86400 };

static int bucket_of(int64_t us) {
    static const double steps[] = {1.2589254, 1.5848932, 1.9952623, 2.5118864, 3.1622777,
                                   3.9810717, 5.0118723, 6.3095734, 7.9432823};
    double rest = (double)us;
    int bucket = 0;
    for (; rest >= 10 && bucket < STORE_BUCKETS; bucket += 10) {
        rest /= 10;
    }
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && rest >= steps[i]; i++) {
        bucket++;
    }
    return bucket < STORE_BUCKETS ? bucket : STORE_BUCKETS - 1;
}

void stats_add_run(struct stage *stage, const struct held *h, int64_t began_ms, int64_t run_us, bool failed) {
    struct store_stat *stat = &stage->stat;
    const int64_t most_us = (int64_t)RUN_MAX_S * 1000 * 1000; /* it is the worker's word: a sum of them must not overflow */
    run_us = run_us < most_us ? run_us : most_us;
    int64_t queued_us = began_ms > h->queued_ms ? (began_ms - h->queued_ms) * 1000 : 0;
    int64_t wait_us = h->waited_us + queued_us;
    stat->runs++;
    stat->failed += failed;
    stat->run_us += run_us;
    stat->run_buckets[bucket_of(run_us)]++;
    stat->waits++;
    stat->wait_us += wait_us;
    stat->wait_buckets[bucket_of(wait_us)]++;
    stage->runs++;
    stage->failed += failed;
}

void stats_add_failure(struct stage *stage) {
    stage->stat.failed++;
    stage->failed++;
}

static bool has_something(const struct store_stat *stat) {
    return stat->runs > 0 || stat->failed > 0;
}

static bool any_new(const struct scheduler *s) {
    for (int i = 0; i < s->stage_count; i++) {
        if (has_something(&s->stages[i].stat)) {
            return true;
        }
    }
    return false;
}

static void freeze(struct scheduler *s, int64_t now) {
    for (int i = 0; i < s->stage_count; i++) {
        struct stage *stage = &s->stages[i];
        stage->sent_stat = stage->stat;
        stage->sent_stat.stage = stage->spec->id;
        stage->stat = (struct store_stat){0};
    }
    s->stat_node = s->node;
    s->stat_seq++;
    s->stats_open = true;
    s->stats_at_ms = now + STATS_EVERY_MS;
}

struct store_stat *stats_gather(struct scheduler *s, int64_t now, struct store_tick *tick) {
    tick->stat_count = 0;
    if (!s->stats_open && (now >= s->stats_at_ms || s->draining) && any_new(s)) {
        freeze(s, now);
    }
    if (!s->stats_open) {
        return NULL;
    }
    struct store_stat *stats = arena_alloc(&s->tick_arena, sizeof *stats * (size_t)(s->stage_count + 1));
    for (int i = 0; i < s->stage_count; i++) {
        if (has_something(&s->stages[i].sent_stat)) {
            stats[tick->stat_count++] = s->stages[i].sent_stat;
        }
    }
    tick->stat_node = s->stat_node;
    tick->stat_seq = s->stat_seq;
    s->stats_in_tick = true;
    return stats;
}

void stats_answered(struct scheduler *s, bool stored) {
    s->stats_open = s->stats_open && !(stored && s->stats_in_tick);
    s->stats_in_tick = false;
}

void stats_next(const struct scheduler *s, int64_t *next_ms) {
    if (s->stats_open || any_new(s)) {
        sooner(next_ms, s->stats_at_ms);
    }
}
