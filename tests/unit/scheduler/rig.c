#include "rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "support/leaks.h"

enum { LEASE_MS = 1000 * 1000 * 1000 };

static void ignore_log(void *context, enum log_level level, const char *line) {
    (void)context;
    (void)level;
    (void)line;
}

int rig_stage_id(int index) {
    return RIG_FIRST_STAGE + index;
}

/* ---- what the fakes ask and tell ---------------------------------------------------------------------------------- */

static int stage_of(const struct rig *rig, const char *name) {
    for (int i = 0; i < rig->stage_count; i++) {
        if (strcmp(rig->names[i], name) == 0) {
            return i;
        }
    }
    cr_assert_fail("no stage %s", name);
    return -1;
}

static void script_tick(struct rig *rig, char *when, const char *stage) {
    if (*when == stage[0]) {
        fake_client_script(rig->client, FAKE_TICK, rig->script);
        *when = 0;
    }
}

static struct fake_plan on_begin(void *context, const struct fake_run *run) {
    struct rig *rig = context;
    for (int i = 0; i < rig->run_count; i++) {
        const struct rig_run *other = &rig->runs[i];
        cr_assert(other->over || strcmp(other->key, run->key) != 0, "two handlers of %s at a time", run->key);
    }
    cr_assert_lt(rig->run_count, RIG_RUNS_MAX);
    script_tick(rig, &rig->script_begin, run->stage);
    struct rig_run *kept = &rig->runs[rig->run_count++];
    *kept = (struct rig_run){.version = run->version,
                             .began_ms = rig->time.now_ms,
                             .attempt = run->attempt,
                             .alone = run->alone,
                             .run = run->run};
    snprintf(kept->stage, sizeof kept->stage, "%s", run->stage);
    snprintf(kept->key, sizeof kept->key, "%s", run->key);
    snprintf(kept->input, sizeof kept->input, "%s", run->input == NULL ? "" : run->input);
    snprintf(kept->inputs, sizeof kept->inputs, "%s", run->inputs == NULL ? "" : run->inputs);
    kept->has_progress = run->has_progress;
    kept->progress = run->progress;
    snprintf(kept->progress_text, sizeof kept->progress_text, "%s", run->progress_text == NULL ? "" : run->progress_text);
    snprintf(rig->output, sizeof rig->output, "{\"s\":\"%s\",\"v\":%lld}", run->stage, (long long)run->version);
    struct fake_plan usual = {.run_ms = 10,
                              .end = POOL_OK,
                              .output = rig->output,
                              .sql = rig->given[stage_of(rig, run->stage)].sql,
                              .linger_ms = 20};
    return rig->decide == NULL ? usual : rig->decide(rig, run, usual);
}

static void on_over(void *context, const struct fake_run *run) {
    struct rig *rig = context;
    for (int i = 0; i < rig->run_count; i++) {
        if (rig->runs[i].run == run->run) {
            rig->runs[i].over = true;
            rig->runs[i].over_ms = rig->time.now_ms;
        }
    }
    script_tick(rig, &rig->script_over, run->stage);
}

static void on_told(void *context, const struct fake_run *run, bool cancelled, bool superseded) {
    struct rig *rig = context;
    (void)run;
    rig->told_cancelled += cancelled;
    rig->told_superseded += superseded;
}

static void on_leaving(void *context, const struct fake_row *row) {
    struct rig *rig = context;
    if (rig->overlaps_allowed == 0) {
        cr_assert(!fake_pools_is_live(rig->pools, row->key), "%s left running while its handler lives", row->key);
    }
}

static void on_accepting(void *context, const struct fake_row *row, const struct store_chain *chain, int first, int count) {
    struct rig *rig = context;
    rig->most_chain = count > rig->most_chain ? count : rig->most_chain;
    for (int i = first; i < first + count; i++) {
        int at = chain->first_stage - RIG_FIRST_STAGE + i;
        if (chain->outputs[i].data == NULL || chain->outputs[i].data[0] != '{') {
            continue;
        }
        char expected[64];
        snprintf(expected, sizeof expected, "{\"s\":\"%s\",\"v\":%lld}", rig->names[at], (long long)row->claimed_version);
        cr_assert_str_eq(chain->outputs[i].data, expected);
    }
}

static enum status on_sql(void *context, const struct fake_row *row, const struct store_effect *effect) {
    struct rig *rig = context;
    rig->effects_run++;
    return rig->run_sql == NULL ? STATUS_OK : rig->run_sql(rig, row, effect);
}

static void on_broken(void *context, const char *what) {
    (void)context;
    cr_assert_fail("%s", what);
}

static void on_store_ready(void *context) {
    struct rig *rig = context;
    scheduler_store_ready(rig->scheduler);
}

static void on_woken(void *context) {
    struct rig *rig = context;
    scheduler_woken(rig->scheduler);
}

static void on_changed(void *context) {
    struct rig *rig = context;
    rig->dirty = true;
}

static void on_closed(void *context) {
    struct rig *rig = context;
    rig->closed = true;
    rig->scheduler = NULL;
}

static struct store_inputs inputs_of(struct rig *rig, int stage) {
    const char *reads = rig->given[stage].reads;
    int count = 0;
    for (; reads != NULL && reads[count] != '\0'; count++) {
        rig->input_ids[stage][count] = rig_stage_id(reads[count] - 'a');
        rig->input_names[stage][count] = rig->names[reads[count] - 'a'];
    }
    return (struct store_inputs){count, rig->input_ids[stage], rig->input_names[stage]};
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

void rig_init(struct rig *rig, int stage_count, const struct rig_stage *stages) {
    leaks_fail_tests();
    log_set_sink(ignore_log, NULL);
    memset(rig, 0, sizeof *rig);
    fake_time_init(&rig->time, 1000);
    rig->clock = fake_time_clock(&rig->time);
    rig->random = random_from_seed(&rig->seeded, 7);
    rig->stage_count = stage_count;
    int ids[RIG_STAGES_MAX];
    static const enum sched_value values[] = {SCHED_KEY, SCHED_VERSION, SCHED_INPUT, SCHED_PAYLOAD, SCHED_UPDATED_AT,
                                              SCHED_INPUTS};
    static const struct sched_statement statement = {.text = "insert", .param_count = 6, .params = values};
    for (int i = 0; i < stage_count; i++) {
        ids[i] = rig_stage_id(i);
        rig->given[i] = stages[i];
        snprintf(rig->names[i], sizeof rig->names[i], "%c", 'a' + i);
        rig->stages[i] = (struct sched_stage){
            .id = ids[i],
            .name = rig->names[i],
            .kind = stages[i].kind,
            .workers = stages[i].workers,
            .attempts = 3,
            .backoff = {.kind = BACKOFF_CONSTANT, .first_ms = 100, .max_ms = 100},
            .grace_ms = 30,
            .after_commit = stages[i].after_commit,
            .share_percent = stages[i].share_percent,
            .limited = stages[i].limited,
            .inputs = inputs_of(rig, i),
            .pool = {.pipeline = "p", .stage = rig->names[i], .workers = stages[i].workers, .grace_ms = 30},
            .statement_count = stages[i].kind == SCHED_SQL,
            .statements = &statement,
        };
    }
    rig->pipeline = (struct sched_pipeline){
        .id = RIG_PIPELINE, .revision = 1, .name = "p", .stage_count = stage_count, .stages = rig->stages};
    struct fake_store_hooks hooks = {
        .leaving = on_leaving, .accepting = on_accepting, .run_sql = on_sql, .broken = on_broken, .context = rig};
    rig->store = fake_store_create(&rig->time, 3, &hooks);
    fake_store_define(rig->store, RIG_PIPELINE, stage_count, ids);
    struct store_events events = {.ready = on_store_ready, .woken = on_woken, .context = rig};
    rig->client = fake_client_create(rig->store, 5, &events);
    rig->ops = fake_client_ops(rig->client);
    struct fake_pools_hooks pools = {.begin = on_begin, .over = on_over, .told = on_told, .context = rig};
    rig->pools = fake_pools_create(&rig->time, 9, &pools);
}

static void on_started(void *context, const struct store_start_answer *answer) {
    struct rig *rig = context;
    cr_assert_eq(answer->code, STATUS_OK);
    scheduler_begin(rig->scheduler, rig->node, rig->time.now_ms + LEASE_MS);
    rig->dirty = rig->started = true;
}

void rig_begin(struct rig *rig) {
    struct error err = ERROR_NONE;
    rig->started = false;
    rig->node = random_identity(&rig->random);
    struct store_start start = {.node = rig->node, .host = "host", .lock_path = "", .lease_ms = LEASE_MS};
    cr_assert_eq(rig->ops->start(rig->ops->context, &start, on_started, rig, &err), STATUS_OK);
    rig_run(rig, 5);
    cr_assert(rig->started);
}

struct scheduler_options rig_options(struct rig *rig) {
    return (struct scheduler_options){
        .pipeline_count = 1,
        .pipelines = &rig->pipeline,
        .store = rig->ops,
        .workers = fake_pools_ops(rig->pools),
        .clock = &rig->clock,
        .random = &rig->random,
        .changed = on_changed,
        .context = rig,
    };
}

void rig_start(struct rig *rig) {
    struct scheduler_options options = rig_options(rig);
    struct error err = ERROR_NONE;
    cr_assert_eq(scheduler_create(&options, &rig->scheduler, &err), STATUS_OK, "%s", err.text);
    rig_begin(rig);
}

void rig_finish(struct rig *rig) {
    if (!rig->closed) {
        scheduler_close(rig->scheduler, on_closed, rig);
        for (int i = 0; i < 1000 && !rig->closed; i++) {
            rig_run(rig, 10);
        }
    }
    cr_assert(rig->closed);
    cr_assert_eq(fake_client_in_flight(rig->client), 0);
    cr_assert_eq(fake_pools_live(rig->pools), 0);
    fake_pools_destroy(rig->pools);
    fake_client_destroy(rig->client);
    fake_store_destroy(rig->store);
    fake_time_finish(&rig->time);
}

/* ---- time --------------------------------------------------------------------------------------------------------- */

/* One turn, and more while events are due now. */
static int64_t turn(struct rig *rig) {
    rig->dirty = false;
    rig->turns++;
    int64_t next = scheduler_turn(rig->scheduler);
    if (!rig->dirty && rig->scheduler != NULL) {
        cr_assert_gt(next, rig->time.now_ms, "the scheduler wants another turn at once");
    }
    return rig->dirty ? rig->time.now_ms : next;
}

void rig_turn(struct rig *rig) {
    turn(rig);
}

void rig_run(struct rig *rig, int64_t for_ms) {
    int64_t until_ms = rig->time.now_ms + for_ms, next_ms = rig->time.now_ms;
    rig->dirty = true;
    for (int steps = 0;; steps++) {
        cr_assert_lt(steps, 200000, "the scheduler spins");
        if (rig->scheduler != NULL && (rig->dirty || next_ms <= rig->time.now_ms)) {
            next_ms = turn(rig);
            continue;
        }
        int64_t event_ms = fake_time_next(&rig->time);
        int64_t stop_ms = rig->scheduler != NULL && next_ms < event_ms ? next_ms : event_ms;
        if (stop_ms > until_ms) {
            fake_time_step(&rig->time, until_ms);
            return;
        }
        fake_time_step(&rig->time, stop_ms);
    }
}

void rig_until(struct rig *rig, const char *key, enum fake_status status) {
    for (int i = 0; i < 6000; i++) {
        if (rig_row(rig, key)->status == status) {
            return;
        }
        rig_run(rig, 10);
        if (i % 5 == 0) {
            rig_tend(rig);
        }
    }
    cr_assert_fail("%s is %s, not %s", key, fake_status_name(rig_row(rig, key)->status), fake_status_name(status));
}

bool rig_until_empty(struct rig *rig, int64_t within_ms) {
    for (int64_t waited = 0; waited < within_ms; waited += 5) {
        if (scheduler_is_empty(rig->scheduler)) {
            return true;
        }
        rig_run(rig, 5);
    }
    return scheduler_is_empty(rig->scheduler);
}

static void on_lead(void *context, const struct store_lead_answer *answer) {
    struct rig *rig = context;
    if (answer->staged > 0 && rig->scheduler != NULL) {
        scheduler_woken(rig->scheduler);
    }
}

void rig_tend(struct rig *rig) {
    struct error err = ERROR_NONE;
    enum status status = rig->ops->lead(rig->ops->context, rig->node, LEASE_MS, false, false, on_lead, rig, &err);
    cr_assert(status == STATUS_OK || status == STATUS_AGAIN);
}

/* ---- looks -------------------------------------------------------------------------------------------------------- */

struct fake_row *rig_submit(struct rig *rig, const char *key) {
    return fake_store_submit(rig->store, RIG_PIPELINE, key);
}

struct fake_row *rig_row(struct rig *rig, const char *key) {
    struct fake_row *row = fake_store_find(rig->store, key);
    cr_assert_not_null(row);
    return row;
}

int rig_runs_of(const struct rig *rig, const char *stage, const char *key) {
    int count = 0;
    for (int i = 0; i < rig->run_count; i++) {
        count += strcmp(rig->runs[i].stage, stage) == 0 && (key == NULL || strcmp(rig->runs[i].key, key) == 0);
    }
    return count;
}

int rig_runs_at(const struct rig *rig, const char *stage, int64_t version) {
    int count = 0;
    for (int i = 0; i < rig->run_count; i++) {
        count += strcmp(rig->runs[i].stage, stage) == 0 && rig->runs[i].version == version;
    }
    return count;
}

const struct rig_run *rig_last_run(const struct rig *rig, const char *stage) {
    for (int i = rig->run_count - 1; i >= 0; i--) {
        if (strcmp(rig->runs[i].stage, stage) == 0) {
            return &rig->runs[i];
        }
    }
    cr_assert_fail("stage %s never ran", stage);
    return NULL;
}

int rig_count_calls(struct rig *rig, enum fake_kind kind, int64_t for_ms) {
    int before = fake_client_sent(rig->client, kind);
    rig_run(rig, for_ms);
    return fake_client_sent(rig->client, kind) - before;
}

void rig_limit(struct rig *rig, int stage_index, int max_running) {
    fake_store_limit(rig->store, rig_stage_id(stage_index), max_running);
    struct store_stage_state state = {.stage = rig_stage_id(stage_index), .limited = max_running > 0};
    scheduler_stage_states(rig->scheduler, 1, &state);
    rig->dirty = true;
}

void rig_pause(struct rig *rig, int stage_index, bool paused) {
    fake_store_pause(rig->store, rig_stage_id(stage_index), paused);
    struct store_stage_state state = {.stage = rig_stage_id(stage_index), .paused = paused};
    scheduler_stage_states(rig->scheduler, 1, &state);
    rig->dirty = true;
}

void rig_expect_done(struct rig *rig, const char *key) {
    const struct fake_row *row = rig_row(rig, key);
    cr_assert_eq(row->status, FAKE_DONE, "%s is %s", key, fake_status_name(row->status));
    cr_assert_eq(row->done_version, row->version);
    for (int i = 0; i < rig->stage_count; i++) {
        const struct fake_output *output = fake_row_output(row, rig_stage_id(i));
        cr_assert_not_null(output, "%s has no output of %s", key, rig->names[i]);
        cr_assert_eq(output->version, row->version);
        if (rig->stages[i].kind == SCHED_HANDLER) {
            char expected[64];
            snprintf(expected, sizeof expected, "{\"s\":\"%s\",\"v\":%lld}", rig->names[i], (long long)row->version);
            cr_assert_str_eq(output->value, expected);
        }
    }
}
