/* Scenarios of a task's own period: submit --every. C30, C36. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenarios.h"

static void at(struct world *world, const char *time) {
    world_sql(world, world->eye, "select test.set_clock('2031-01-01 %s+00')", time);
}

static int64_t run_at(struct world *world, const char *time) {
    at(world, time);
    return world_int(world, "select pgstage.run_periods(1000)");
}

static void every(struct world *world, const char *key, const char *ms) {
    world_sql(world, world->eye, "select pgstage.set_periods('p', '{%s}', '{%s}')", key, ms);
}

static const char *due(struct world *world) {
    return world_text(world, "select string_agg(to_char(due_at at time zone 'UTC', 'HH24:MI:SS'), ' ' "
                             "order by due_at) from pgstage.periodic");
}

static int64_t start(struct world *world) {
    at(world, "10:00:00");
    int64_t task = world_submit(world, "k");
    every(world, "k", "3600000");
    world_rest(world);
    return task;
}

bool a_period_runs_a_task_again(struct world *world) {
    int64_t task = start(world);
    EXPECT(world, run_at(world, "10:59:59.999") == 0, "it ran early");
    EXPECT(world, run_at(world, "11:00:20") == 1, "it did not run");
    EXPECT(world, run_at(world, "11:00:20") == 0, "it ran twice");
    struct row row = world_row(world, task);
    EXPECT(world, row.version == 2 && strcmp(row.status, "ready") == 0, "%s %d", row.status,
           (int)row.version);
    EXPECT(world, strcmp(due(world), "12:00:00") == 0, "%s", due(world));
    world_rest(world);
    EXPECT(world, run_at(world, "15:30:00") == 1, "it did not run after an absence");
    EXPECT(world, strcmp(due(world), "16:00:00") == 0, "%s", due(world));
    EXPECT(world, world_row(world, task).version == 3, "more than once");
    return world_is_sound(world);
}

bool a_period_marks_what_runs_and_goes_on_after_a_failure(struct world *world) {
    int64_t task = start(world);
    run_at(world, "11:00:00");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, run_at(world, "12:00:00") == 1, "it is not due");
    struct row row = world_row(world, task);
    EXPECT(world, strcmp(row.status, "running") == 0 && row.claim == claim && row.version == 3,
           "%s at version %d", row.status, (int)row.version);
    struct move fails = {.task = task, .claim = claim, .count = 0, .ending = "failed", .kind = "error",
                         .reason = "no"};
    world_complete(world, world->one, &fails);
    EXPECT(world, strcmp(world_row(world, task).status, "ready") == 0, "it is not run again");
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    fails.claim = claim;
    world_complete(world, world->one, &fails);
    EXPECT(world, strcmp(world_row(world, task).status, "failed") == 0, "it has not failed");
    EXPECT(world, run_at(world, "13:00:00") == 1, "it is not due after a failure");
    EXPECT(world, strcmp(world_row(world, task).status, "ready") == 0, "it is not run again");
    return world_is_sound(world);
}

/* What stands at a later stage, waits for its retry, or is for later, will run by itself: it neither begins anew nor early. */
bool a_period_sends_nothing_back(struct world *world) {
    at(world, "10:00:00");
    int64_t stands = world_submit(world, "stands"), retries = world_submit(world, "retries"), later = world_submit(world, "later");
    every(world, "stands", "3600000");
    every(world, "retries", "3600000");
    every(world, "later", "3600000");
    world_sql(world, world->eye, "update pgstage.task set stage = %d, ready_stage = %d where id = %" PRId64, world->stages[STAGE_B],
              world->stages[STAGE_B], stands);
    world_sql(world, world->eye, "update pgstage.task set status = 'delayed', ready_stage = null, attempt = 2, due_at = "
                                 "'2031-01-01 11:30+00' where id = %" PRId64, retries);
    world_sql(world, world->eye, "update pgstage.task set status = 'delayed', ready_stage = null, run_at = '2031-01-02 00:00+00',"
                                 " due_at = '2031-01-02 00:00+00' where id = %" PRId64, later);
    EXPECT(world, run_at(world, "11:00:00") == 0, "something was sent back");
    EXPECT(world, world_int(world, "select count(*) from pgstage.task where version <> 1") == 0, "a version more");
    EXPECT(world, strcmp(due(world), "12:00:00 12:00:00 12:00:00") == 0, "%s", due(world));
    return world->why[0] == '\0';
}

bool a_cancel_ends_a_period(struct world *world) {
    int64_t task = start(world);
    EXPECT(world, world_int(world, "select pgstage.cancel_tasks(array[%" PRId64 "])", task) == 0,
           "a done one was cancelled");
    EXPECT(world, run_at(world, "11:00:00") == 0, "the done one runs again");
    world_resubmit(world, task);
    every(world, "k", "3600000");
    world_cancel(world, task);
    EXPECT(world, world_int(world, "select count(*) from pgstage.periodic") == 0, "it goes on");
    return world_is_sound(world);
}

bool a_period_is_set_changed_and_ended(struct world *world) {
    start(world);
    at(world, "10:20:00");
    every(world, "k", "3600000");
    EXPECT(world, strcmp(due(world), "11:00:00") == 0, "the same period begins anew: %s", due(world));
    every(world, "k", "60000");
    EXPECT(world, strcmp(due(world), "10:21:00") == 0, "%s", due(world));
    every(world, "k", "0");
    EXPECT(world, strcmp(due(world), "") == 0, "%s", due(world));
    world_sql(world, world->eye, "select * from pgstage.submit_set('p', '{later}', '{1}', '{NULL}', '{0}', "
                                 "'{2031-01-01 12:00+00}', false)");
    every(world, "later", "3600000");
    EXPECT(world, strcmp(due(world), "13:00:00") == 0, "%s", due(world));
    return world_is_sound(world);
}

/* Two leaders: the second passes by, and finds nothing left. */
bool a_period_runs_once_with_two_leaders(struct world *world) {
    int64_t task = start(world);
    at(world, "11:00:00");
    world_script(world, world->one, "begin");
    world_sql(world, world->one, "select pgstage.run_periods(1000)");
    const struct db_result *other = world_sql(world, world->two, "select pgstage.run_periods(1000)");
    EXPECT(world, other != NULL && db_int64(other, 0, 0) == 0, "the other one ran it");
    world_script(world, world->one, "commit");
    EXPECT(world, run_at(world, "11:00:00") == 0 && world_row(world, task).version == 2, "twice");
    return world_is_sound(world);
}

bool a_task_with_a_period_is_not_forgotten(struct world *world) {
    const char *forget = "select pgstage.forget_tasks(array(select id from pgstage.task), 'done', 60000)";
    world_submit(world, "k");
    world_rest(world);
    every(world, "k", "3600000");
    world_sql(world, world->eye, "update pgstage.task set end_time = end_time - interval '2 minutes'");
    EXPECT(world, world_int(world, "%s", forget) == 0, "it is gone, and its next time with it");
    every(world, "k", "0");
    EXPECT(world, world_int(world, "%s", forget) == 1, "it is kept for good");
    return world_is_sound(world);
}
