/* Scenarios of what people ask for: urgency and pauses (C21). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "scenarios.h"

static int64_t set_priority(struct world *world, int64_t task, int priority) {
    const struct db_result *result =
        world_sql(world, world->eye, "select pgstage.set_priority(array[%" PRId64 "], %d)", task, priority);
    return result == NULL ? -1 : db_int64(result, 0, 0);
}

static int64_t priority_of(struct world *world, int64_t task) {
    return world_int(world, "select priority from pgstage.task where id = %" PRId64, task);
}

/* The hurried one is taken by the very next claim, whatever status others have. */
bool a_hurried_task_is_claimed_next(struct world *world) {
    int64_t tasks[4];
    for (int i = 0; i < 4; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        tasks[i] = world_submit(world, key);
    }
    EXPECT(world, set_priority(world, tasks[3], -1) == 1, "it was not hurried");
    EXPECT(world, set_priority(world, tasks[0], 7) == 1, "it was not put off");
    static const int order[] = {3, 1, 2, 0};
    for (int i = 0; i < 4; i++) {
        int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
        EXPECT(world, world_row(world, tasks[order[i]]).claim == claim, "k%d is not number %d", order[i], i + 1);
    }
    return world_is_sound(world);
}

/* A running task keeps its claim, and its next stage is claimed by the new priority. */
bool a_priority_reaches_whatever_is_not_over(struct world *world) {
    int64_t running = world_submit(world, "running"), over = world_submit(world, "over");
    int64_t delayed = world_submit(world, "delayed");
    world_sql(world, world->eye, "update pgstage.task set priority = -9 where key = 'running'");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_cancel(world, over);
    world_sql(world, world->eye,
              "update pgstage.task set status = 'delayed', ready_stage = null, due_at = now() where id = %" PRId64,
              delayed);
    world_sql(world, world->eye,
              "insert into pgstage.task_count_delta values (1, 1, 'ready', -1), (1, 1, 'delayed', 1)");
    EXPECT(world, set_priority(world, over, 3) == 0 && priority_of(world, over) == 0, "what is cancelled was touched");
    EXPECT(world, set_priority(world, delayed, 3) == 1 && priority_of(world, delayed) == 3, "the delayed one was not");
    EXPECT(world, set_priority(world, running, 3) == 1, "the running one was not");
    struct row row = world_row(world, running);
    EXPECT(world, strcmp(row.status, "running") == 0 && row.claim == claim, "it lost its claim");
    struct move next = {.task = running, .claim = claim, .count = 1, .ending = "next"};
    struct verdict verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "accepted") && priority_of(world, running) == 3, "%s", verdict.answer);
    return world_is_sound(world);
}

/* Whether session two, which listens, is notified in that time. */
static bool is_notified(struct world *world, int64_t timeout_ms) {
    struct error err = ERROR_NONE;
    int64_t before = clock_now_ms(&clock_boottime);
    enum status code = sync_wait(world->two, timeout_ms, &err);
    world_expect(world, code == STATUS_OK, "%s", err.text);
    return clock_now_ms(&clock_boottime) - before < timeout_ms;
}

/* A node that has said that it looks by itself looks where its claims are: it is told nevertheless. */
bool who_is_busy_hears_of_a_hurried_task(struct world *world) {
    int64_t task = world_submit(world, "k");
    world_sql(world, world->eye, "update pgstage.stage set busy_until = now() + interval '1 min'");
    world_script(world, world->two, "listen pgstage");
    set_priority(world, task, -1);
    bool hurried = is_notified(world, 3000);
    world_call(world, world->eye, &sql_set_paused, 3, "p", "a", "t");
    bool paused = is_notified(world, 3000);
    set_priority(world, 424242, -1);
    bool nothing = is_notified(world, 100);
    world_script(world, world->two, "unlisten *");
    EXPECT(world, hurried && paused && !nothing, "%d %d %d", hurried, paused, nothing);
    return world_is_sound(world);
}

static int claimed(struct world *world, int stage) {
    int count = 0;
    world_claim(world, NODE_ONE, stage, 10, &count);
    return count;
}

/* Whether the pipeline is paused as a whole then. */
static bool set_paused(struct world *world, const char *stage, const char *value) {
    const struct db_result *result = world_call(world, world->eye, &sql_set_paused, 3, "p", stage, value);
    return result != NULL && db_rows(result) == 1 && db_bool(result, 0, 0);
}

bool a_pause_is_of_what_it_names(struct world *world) {
    world_submit(world, "k");
    EXPECT(world, !set_paused(world, "b", "t"), "the pipeline is said to be paused");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where paused") == 1, "more than b is paused");
    set_paused(world, "a", "t");
    EXPECT(world, claimed(world, STAGE_A) == 0, "a paused stage was claimed");
    set_paused(world, "a", "f");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where paused") == 1, "b goes on with a");
    EXPECT(world, set_paused(world, NULL, "t"), "the pipeline is not said to be paused");
    EXPECT(world, claimed(world, STAGE_A) == 0, "a paused pipeline was claimed");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where paused") == 1, "a is paused itself");
    EXPECT(world, set_paused(world, "a", "f"), "a is said to go on while the pipeline is paused");
    EXPECT(world, !set_paused(world, NULL, "f"), "the pipeline is said to be paused still");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where paused") == 0, "b stays paused");
    EXPECT(world, claimed(world, STAGE_A) == 1, "it does not go on");
    return world_is_sound(world);
}

bool a_pause_is_of_one_pipeline(struct world *world) {
    world_script(world, world->eye,
                 "insert into pgstage.pipeline (name) values ('q');"
                 "insert into pgstage.stage (pipeline, name) select id, 'a' from pgstage.pipeline where name = 'q'");
    set_paused(world, "a", "t");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where paused") == 1, "both are paused");
    set_paused(world, NULL, "t");
    EXPECT(world, world_int(world, "select count(*) from pgstage.pipeline where paused") == 1, "both are paused");
    set_paused(world, NULL, "f");
    return world_is_sound(world);
}

static bool waits(struct world *world, const char *version, const char *state) {
    const struct db_result *result = world_call(world, world->eye, &sql_wait_task, 3, "p", "k", version);
    return world_expect(world, result != NULL && strcmp(db_value(result, 0, 0), state) == 0,
                        "version %s is '%s', not %s", version, result == NULL ? "" : db_value(result, 0, 0), state);
}

bool a_wait_ends_with_its_version_or_a_newer_one(struct world *world) {
    int64_t task = world_submit(world, "k");
    EXPECT(world, waits(world, "1", "open"), "ready");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, waits(world, "1", "open"), "running");
    struct move move = {.task = task, .claim = claim, .count = 3, .ending = "next"};
    world_complete(world, world->one, &move);
    EXPECT(world, waits(world, "1", "done"), "done");
    EXPECT(world, waits(world, "2", "open"), "one to come");
    world_resubmit(world, task);
    EXPECT(world, waits(world, "1", "done") && waits(world, "2", "open"), "the next one is ready");
    world_cancel(world, task);
    EXPECT(world, waits(world, "1", "done") && waits(world, "2", "cancelled"), "the next one is cancelled");
    EXPECT(world, waits(world, "3", "open"), "one after that");
    return world_is_sound(world);
}

/* ---- statistics --------------------------------------------------------------------------------------------------- */

/* Two runs of bucket 31 and one of bucket 40 at stage 1; their waits are in bucket 5. */
static void add_stats(struct world *world, const char *node, const char *number) {
    world_call(world, world->one, &sql_add_stats, 10, "{1}", "{3}", "{1}", "{14000}", "{3}", "{12}", "{\"{543,296}\"}",
               "{\"{773}\"}", node, number);
}

/* "rows runs failed run_us waits wait_us run_buckets wait_buckets" of all there is. */
static const char *all_stats(struct world *world) {
    return world_text(world, "select concat_ws(' ', count(*), sum(runs), sum(failed), sum(run_us), sum(waits), sum(wait_us),"
                             " pgstage.sum_buckets(array(select unnest(run_buckets) from pgstage.stage_stat)),"
                             " pgstage.sum_buckets(array(select unnest(wait_buckets) from pgstage.stage_stat)))"
                             " from pgstage.stage_stat");
}

static bool stats_are(struct world *world, const char *wanted, const char *when) {
    const char *now = all_stats(world);
    return world_expect(world, strcmp(now, wanted) == 0, "%s: '%s', not '%s'", when, now, wanted);
}

bool stats_sent_again_count_once(struct world *world) {
    add_stats(world, "11", "1");
    add_stats(world, "11", "1");
    EXPECT(world, stats_are(world, "1 3 1 14000 3 12 {543,296} {773}", "sent again"), "-");
    add_stats(world, "12", "1");
    add_stats(world, "11", "2");
    add_stats(world, "11", "1");
    EXPECT(world, stats_are(world, "3 9 3 42000 9 36 {1567,808} {2309}", "of two nodes"), "-");
    return world_is_sound(world);
}

static void age_stats(struct world *world, const char *by) {
    world_sql(world, world->eye, "update pgstage.stage_stat set minute = minute - interval '%s'", by);
}

bool folding_keeps_what_stats_say(struct world *world) {
    for (int i = 1; i <= 4; i++) {
        char number[8];
        snprintf(number, sizeof number, "%d", i);
        add_stats(world, "11", number);
    }
    /* A program that knew of no buckets. */
    world_sql(world, world->eye, "insert into pgstage.stage_stat (stage, minute, runs, failed, run_us)"
                                 " values (1, date_trunc('minute', pgstage.now()), 5, 0, 10)");
    world_call(world, world->one, &sql_fold_stats, 0);
    EXPECT(world, stats_are(world, "5 17 4 56010 12 48 {2079,1064} {3077}", "this minute is not over"), "-");
    age_stats(world, "5 min");
    world_call(world, world->one, &sql_fold_stats, 0);
    EXPECT(world, stats_are(world, "1 17 4 56010 12 48 {2079,1064} {3077}", "minutes"), "-");
    world_call(world, world->one, &sql_fold_hours, 0);
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage_stat where hour") == 0, "hours of today");
    age_stats(world, "3 days");
    world_sql(world, world->eye, "update pgstage.stage_stat set minute = date_trunc('hour', minute) + interval '7 min'");
    world_sql(world, world->eye, "insert into pgstage.stage_stat (stage, minute, runs, failed, run_us)"
                                 " select 1, minute + interval '1 min', 1, 0, 0 from pgstage.stage_stat"
                                 " union all select 2, minute + interval '1 min', 1, 0, 0 from pgstage.stage_stat"
                                 " union all select 1, minute + interval '1 hour', 1, 0, 0 from pgstage.stage_stat");
    world_call(world, world->one, &sql_fold_hours, 0);
    EXPECT(world, stats_are(world, "3 20 4 56010 12 48 {2079,1064} {3077}", "hours"), "-");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage_stat where hour and runs in (18, 1)"
                                   " and minute = date_trunc('hour', minute)") == 2, "the oldest hour is not folded");
    const struct db_result *more = world_call(world, world->one, &sql_fold_hours, 0);
    EXPECT(world, more != NULL && db_rows(more) == 1, "the next hour");
    more = world_call(world, world->one, &sql_fold_hours, 0);
    EXPECT(world, more != NULL && db_rows(more) == 0, "there is no third");
    age_stats(world, "390 days");
    world_call(world, world->one, &sql_fold_hours, 0);
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage_stat") == 3, "forgotten too early");
    age_stats(world, "10 days");
    world_call(world, world->one, &sql_fold_hours, 0);
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage_stat") == 0, "not forgotten");
    return world_is_sound(world);
}

/* A hundred runs of 1 to 100 ms: percentiles are those of an exact sort within 12.2 %. */
bool percentiles_are_near_the_truth(struct world *world) {
    world_sql(world, world->eye,
              "insert into pgstage.stage_stat (stage, minute, runs, failed, run_us, waits, wait_us, run_buckets, wait_buckets)"
              " select 1, date_trunc('minute', pgstage.now()), 1, 0, i * 1000, 1, 7,"
              "        array[256 + floor(10 * log(i * 1000.0))::bigint], array[256 + 8] from generate_series(1, 100) i");
    const struct db_result *rows = world_call(world, world->eye, &sql_stats, 3, "p", "stage", "3600000");
    EXPECT(world, rows != NULL && db_rows(rows) == 1, "no row");
    static const double truth[] = {50, 95, 99};
    for (int i = 0; i < 3; i++) {
        double said = strtod(db_value(rows, 0, 6 + i), NULL);
        EXPECT(world, said > truth[i] / 1.1221 && said < truth[i] * 1.1221, "p%d is %f", (int)truth[i], said);
    }
    EXPECT(world, strcmp(db_value(rows, 0, 4), "5050.000") == 0 && strcmp(db_value(rows, 0, 5), "50.500") == 0, "sums");
    EXPECT(world, strcmp(db_value(rows, 0, 9), "0.007") == 0 && strcmp(db_value(rows, 0, 10), "0.007") == 0, "waits %s %s",
           db_value(rows, 0, 9), db_value(rows, 0, 10));
    age_stats(world, "2 hours");
    rows = world_call(world, world->eye, &sql_stats, 3, "p", "stage", "3600000");
    EXPECT(world, rows != NULL && db_rows(rows) == 0, "too old");
    rows = world_call(world, world->eye, &sql_stats, 3, "p", "hour", "86400000");
    EXPECT(world, rows != NULL && db_rows(rows) == 1 && !db_is_null(rows, 0, 0), "by hour");
    return world_is_sound(world);
}

bool a_claim_tells_how_long_a_task_was_ready(struct world *world) {
    world_submit(world, "k");
    world_sql(world, world->eye, "update pgstage.task set ready_at = now() - interval '90 s'");
    char stage[24];
    snprintf(stage, sizeof stage, "%d", world->stages[STAGE_A]);
    const struct db_result *rows = world_call(world, world->one, &sql_claim, 7, stage, "1", "900", "11", NULL, NULL, NULL);
    EXPECT(world, rows != NULL && db_rows(rows) == 1, "not claimed");
    int64_t waited = db_int64(rows, 0, 12);
    EXPECT(world, waited >= 90 * 1000000 && waited < 150 * 1000000, "%" PRId64 " us", waited);
    return world_is_sound(world);
}

/* C35: the longest wait that a file can ask for, at the last attempt but one that it can ask for. */
bool a_wait_of_a_year_is_stored_as_such(struct world *world) {
    int64_t task = world_submit(world, "k");
    world_sql(world, world->eye, "update pgstage.task set attempt = 9998");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move move = {.task = task,
                        .claim = claim,
                        .ending = "delayed",
                        .attempts = 1,
                        .delay_ms = INT64_C(52) * 7 * 24 * 3600 * 1000,
                        .kind = "error",
                        .reason = "no"};
    struct verdict verdict = world_complete(world, world->one, &move);
    EXPECT(world, scenario_is(&verdict, "accepted"), "%s", verdict.answer);
    EXPECT(world, world_int(world, "select count(*) from pgstage.task where attempt = 9999 and"
                                   " due_at between now() + interval '363 days' and now() + interval '365 days'") == 1,
           "it is not due in 52 weeks");
    return world_is_sound(world);
}
