/* rig.h - one scheduler on a fake store with fake pools: scenarios in which a test decides what happens when.
 *
 * Handlers take 10 ms and return {"s":"STAGE","v":VERSION} unless the test decides otherwise. What must never happen
 * (a row that leaves running while its handler lives, two handlers of a task, a broken promise) fails the test at once.
 */
#ifndef SCHEDULER_TEST_RIG_H
#define SCHEDULER_TEST_RIG_H

#include "fake_pools.h"
#include "fake_store.h"
#include "scheduler/scheduler.h"

enum { RIG_STAGES_MAX = 5, RIG_RUNS_MAX = 256, RIG_PIPELINE = 1, RIG_FIRST_STAGE = 11 };

struct rig_stage {
    enum sched_kind kind;
    int workers;
    bool after_commit;
    const char *sql; /* the handler queues it */
    int share_percent;
    bool limited;
    const char *reads; /* names of the earlier stages whose outputs it gets; NULL: none */
};

#define RIG_HANDLER(n) {.kind = SCHED_HANDLER, .workers = (n)}
#define RIG_QUEUES_SQL(n) {.kind = SCHED_HANDLER, .workers = (n), .sql = "insert"}
#define RIG_AFTER_COMMIT(n) {.kind = SCHED_HANDLER, .workers = (n), .after_commit = true}
#define RIG_SQL(n) {.kind = SCHED_SQL, .workers = (n)}

struct rig_run {
    char stage[8], key[24], input[64], inputs[128], progress_text[24];
    bool has_progress;
    double progress;
    int64_t version, began_ms, over_ms;
    int attempt;
    bool alone, over;
    uint64_t run;
};

struct rig {
    struct fake_time time;
    struct clock_ops clock;
    struct random_seeded seeded;
    struct random_ops random;
    struct fake_store *store;
    struct fake_client *client;
    struct fake_pools *pools;
    struct scheduler *scheduler;
    const struct store_ops *ops;
    int64_t node;
    bool dirty, closed, started;
    int turns;
    int stage_count;
    char names[RIG_STAGES_MAX][8];
    struct sched_stage stages[RIG_STAGES_MAX];
    int input_ids[RIG_STAGES_MAX][RIG_STAGES_MAX];
    const char *input_names[RIG_STAGES_MAX][RIG_STAGES_MAX];
    struct sched_pipeline pipeline;
    struct rig_stage given[RIG_STAGES_MAX];

    /* What a run comes to, instead of the usual. */
    struct fake_plan (*decide)(struct rig *rig, const struct fake_run *run, struct fake_plan usual);
    /* What the statements of an effect come to. */
    enum status (*run_sql)(struct rig *rig, const struct fake_row *row, const struct store_effect *effect);
    /* Set for the next tick once stage `script_begin` begins to run, or `script_over` has run. 0: not. */
    char script_begin, script_over;
    struct fake_script script;
    int overlaps_allowed;
    struct rig_run runs[RIG_RUNS_MAX];
    int run_count;
    char output[64];
    int told_cancelled, told_superseded;
    int effects_run; /* whose statements were executed */
    int most_chain; /* transitions of the longest chain that was accepted */
};

/* Sets defaults; a test may change stages, then starts. */
void rig_init(struct rig *rig, int stage_count, const struct rig_stage *stages);
void rig_start(struct rig *rig);
struct scheduler_options rig_options(struct rig *rig);
void rig_begin(struct rig *rig);  /* with a new identity */
void rig_finish(struct rig *rig); /* closes all; checks that nothing is left */

void rig_turn(struct rig *rig);
void rig_run(struct rig *rig, int64_t for_ms);
/* Runs until the row has the status; fails after a minute of the clock. */
void rig_until(struct rig *rig, const char *key, enum fake_status status);
bool rig_until_empty(struct rig *rig, int64_t within_ms);
void rig_tend(struct rig *rig); /* stages due rows, as the leader does */

struct fake_row *rig_submit(struct rig *rig, const char *key);
struct fake_row *rig_row(struct rig *rig, const char *key);
int rig_stage_id(int index);
int rig_runs_of(const struct rig *rig, const char *stage, const char *key); /* key NULL: any */
int rig_runs_at(const struct rig *rig, const char *stage, int64_t version);
const struct rig_run *rig_last_run(const struct rig *rig, const char *stage);
/* Calls of a kind within that time. */
int rig_count_calls(struct rig *rig, enum fake_kind kind, int64_t for_ms);
/* The stage gets a limit in the store, and the node hears of it. */
void rig_limit(struct rig *rig, int stage_index, int max_running);
void rig_pause(struct rig *rig, int stage_index, bool paused); /* and the node hears of it */
/* The row's outputs are all of its version and of the stages in order. */
void rig_expect_done(struct rig *rig, const char *key);

#endif
