/* stats.c - the statement that a tick's statistics are. */
#include "db/array.h"
#include "queue/queue_private.h"

enum { STAGE, RUNS, FAILED, RUN_US, WAITS, WAIT_US, COLUMNS };

static int64_t column_of(const struct store_stat *stat, int column) {
    const int64_t values[COLUMNS] = {[STAGE] = stat->stage,   [RUNS] = stat->runs,   [FAILED] = stat->failed,
                                     [RUN_US] = stat->run_us, [WAITS] = stat->waits, [WAIT_US] = stat->wait_us};
    return values[column];
}

/* Only buckets that hold something: count * 256 + bucket. */
static void write_buckets(struct buf *literal, const int32_t *buckets) {
    array_begin(literal);
    for (int i = 0; i < STORE_BUCKETS; i++) {
        if (buckets[i] > 0) {
            array_add_int(literal, (int64_t)buckets[i] * 256 + i);
        }
    }
    array_end(literal);
}

static struct db_param buckets_of(struct script *script, const struct store_tick *request, bool waits) {
    struct buf one;
    buf_init(&one, SIZE_MAX);
    array_begin(&script->literal);
    for (int i = 0; i < request->stat_count; i++) {
        write_buckets(&one, waits ? request->stats[i].wait_buckets : request->stats[i].run_buckets);
        array_add_text(&script->literal, one.data, one.length);
    }
    buf_finish(&one);
    return script_take_array(script);
}

void stats_add(struct script *script, const struct store_tick *request) {
    struct db_param *params = script_add(script, &sql_add_stats, 10);
    for (int k = 0; k < COLUMNS; k++) {
        array_begin(&script->literal);
        for (int i = 0; i < request->stat_count; i++) {
            array_add_int(&script->literal, column_of(&request->stats[i], k));
        }
        params[k] = script_take_array(script);
    }
    params[6] = buckets_of(script, request, false);
    params[7] = buckets_of(script, request, true);
    params[8] = script_int(script, request->stat_node);
    params[9] = script_int(script, request->stat_seq);
}
