/* Scenarios of forgetting what is over. C63. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenarios.h"

/* Brings a task to its end by the protocol. */
static int64_t end_task(struct world *world, const char *key, const char *status) {
    int64_t task = world_submit(world, key);
    world_sql(world, world->eye, "update pgstage.task set priority = -1 where id = %" PRId64, task);
    if (strcmp(status, "cancelled") == 0) {
        world_cancel(world, task);
        return task;
    }
    bool done = strcmp(status, "done") == 0;
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move move = {.task = task,
                        .claim = claim,
                        .count = done ? 3 : 0,
                        .ending = done ? "next" : "failed",
                        .attempts = !done,
                        .kind = done ? NULL : "error",
                        .reason = done ? NULL : "broken",
                        .output = done ? "1" : NULL};
    world_complete(world, world->one, &move);
    world_sql(world, world->eye, "update pgstage.task set priority = 0 where id = %" PRId64, task);
    return task;
}

static void age(struct world *world, const char *by) {
    world_sql(world, world->eye,
              "update pgstage.task set end_time = end_time - interval '%s', parked_at = parked_at - interval '%s',"
              " updated = updated - interval '%s'",
              by, by, by);
    world_sql(world, world->eye, "update pgstage.failure set at = at - interval '%s'", by);
}

static void set_retention(struct world *world, const char *retention) {
    world_sql(world, world->eye, "update pgstage.revision set settings = '%s'", retention);
}

/* Until a walk over everything is through. The number of steps. */
static int prune(struct world *world) {
    world_sql(world, world->eye, "update pgstage.prune_cursor set rest_until = '-infinity'");
    for (int steps = 1; steps < 1000; steps++) {
        const struct db_result *result = world_call(world, world->one, &sql_prune, 1, "2");
        if (result == NULL || !db_bool(result, 0, 0)) {
            return steps;
        }
    }
    world_expect(world, false, "it does not end");
    return 0;
}

static const char *keys_left(struct world *world) {
    return world_text(world, "select string_agg(key, ' ' order by key) from pgstage.task");
}

static bool left(struct world *world, const char *wanted) {
    const char *now = keys_left(world);
    return world_expect(world, strcmp(now, wanted) == 0, "'%s' are left, not '%s'", now, wanted);
}

bool each_end_has_its_time(struct world *world) {
    end_task(world, "d1", "done");
    end_task(world, "f1", "failed");
    end_task(world, "c1", "cancelled");
    world_submit(world, "ready");
    age(world, "2 days");
    end_task(world, "d2", "done");
    end_task(world, "f2", "failed");
    end_task(world, "c2", "cancelled");
    set_retention(world, "{}");
    prune(world);
    EXPECT(world, left(world, "c1 c2 d1 d2 f1 f2 ready"), "without a word all is kept");
    set_retention(world, "{\"retention\": {\"failed\": 86400000}}");
    prune(world);
    EXPECT(world, left(world, "c1 c2 d1 d2 f2 ready"), "failed");
    set_retention(world, "{\"retention\": {\"cancelled\": 86400000}}");
    prune(world);
    EXPECT(world, left(world, "c2 d1 d2 f2 ready"), "cancelled");
    set_retention(world, "{\"retention\": {\"done\": 86400000}}");
    prune(world);
    EXPECT(world, left(world, "c2 d2 f2 ready"), "done");
    EXPECT(world, world_int(world, "select count(*) from pgstage.output") == 3, "outputs");
    return world_is_sound(world);
}

/* Many steps, each of a few rows; then the walk rests, and begins anew. */
bool a_walk_takes_small_steps_and_rests(struct world *world) {
    /* Ten that stay stand in front of twenty that go. */
    for (int i = 0; i < 31; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%02d", i);
        end_task(world, key, i < 11 ? "done" : "cancelled");
    }
    age(world, "1 hour");
    set_retention(world, "{\"retention\": {\"cancelled\": 600000}}");
    int steps = prune(world);
    EXPECT(world, left(world, "k00 k01 k02 k03 k04 k05 k06 k07 k08 k09 k10"), "-");
    EXPECT(world, steps >= 11 && steps <= 13, "%d steps of two", steps);
    EXPECT(world, world_int(world, "select count(*) from pgstage.prune_cursor where name = 'task' and last_id = 0 and"
                                   " rest_until > now() + interval '30 s' and rest_until < now() + interval '90 s'") == 1,
           "a tenth of ten minutes");
    int64_t late = end_task(world, "late", "cancelled");
    age(world, "1 hour");
    world_call(world, world->one, &sql_prune, 1, "500");
    EXPECT(world, world_row(world, late).exists, "it does not rest");
    prune(world);
    EXPECT(world, !world_row(world, late).exists, "it does not begin anew");
    return world_is_sound(world);
}

static int64_t forget(struct world *world, const char *status) {
    const struct db_result *result = world_sql(
        world, world->one, "select pgstage.forget_tasks(array(select id from pgstage.task), '%s', 60000)", status);
    return result == NULL ? -1 : db_int64(result, 0, 0);
}

/* Whatever says that the row is still needed. */
bool what_may_be_needed_is_kept(struct world *world) {
    static const char *const reasons[] = {
        "version = version + 1",    /* not processed yet at its newest version */
        "goal = 'absent'",          /* a delete */
        "wish = 'cancel'",
        "end_time = now()",         /* younger */
    };
    int64_t task = end_task(world, "d", "done");
    age(world, "1 hour");
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        world_sql(world, world->eye, "create temporary table kept as select * from pgstage.task");
        world_sql(world, world->eye, "update pgstage.task set %s", reasons[i]);
        int64_t gone = forget(world, "done");
        EXPECT(world, gone == 0, "%s: it went", reasons[i]);
        world_sql(world, world->eye,
                  "update pgstage.task t set version = k.version, goal = k.goal, wish = k.wish, end_time = k.end_time"
                  " from kept k");
        world_sql(world, world->eye, "drop table kept");
    }
    EXPECT(world, forget(world, "failed") == 0, "it is not failed");
    world_resubmit(world, task);
    EXPECT(world, forget(world, "done") == 0 && forget(world, "ready") == 0, "a newer version made it ready");
    world_rest(world);
    age(world, "1 hour");
    EXPECT(world, forget(world, "done") == 1, "it stays for ever");
    return world_is_sound(world);
}

/* A submit that has the row when the pruner looks: the row is left. One that commits first is seen. */
bool a_newer_version_is_not_forgotten(struct world *world) {
    int64_t task = end_task(world, "d", "done");
    age(world, "1 hour");
    world_script(world, world->two,
                 "begin; select * from pgstage.submit_set('p', '{d}', '{2}', '{now}', '{0}', '{NULL}', false)");
    EXPECT(world, forget(world, "done") == 0, "it waited for nobody, and took it");
    world_script(world, world->two, "commit");
    EXPECT(world, forget(world, "done") == 0 && world_row(world, task).version == 2, "the newer version is gone");
    world_rest(world);
    EXPECT(world, world_row(world, task).done_version == 2, "it was not processed");
    return world_is_sound(world);
}

/* Two leaders: one walks, the other does not wait. */
bool two_pruners_do_not_wait_for_each_other(struct world *world) {
    end_task(world, "d", "done");
    age(world, "1 hour");
    set_retention(world, "{\"retention\": {\"done\": 600000}}");
    world_sql(world, world->eye, "update pgstage.prune_cursor set rest_until = '-infinity'");
    world_script(world, world->two, "begin; select pgstage.prune_step(500)");
    const struct db_result *result = world_call(world, world->one, &sql_prune, 1, "500");
    EXPECT(world, result != NULL && !db_bool(result, 0, 0), "the second has something to do");
    world_script(world, world->two, "commit");
    EXPECT(world, left(world, ""), "-");
    return world_is_sound(world);
}

/* A document that was forgotten is new, whatever its stamp. */
bool what_is_forgotten_is_new_again(struct world *world) {
    end_task(world, "d", "done");
    age(world, "1 hour");
    EXPECT(world, forget(world, "done") == 1, "-");
    int64_t again = world_submit(world, "d");
    struct row row = world_row(world, again);
    EXPECT(world, row.exists && row.version == 1 && strcmp(row.status, "ready") == 0, "%s", row.status);
    return world_is_sound(world);
}

bool failed_runs_have_their_time(struct world *world) {
    for (int i = 0; i < 7; i++) {
        char key[8];
        snprintf(key, sizeof key, "f%d", i);
        end_task(world, key, "failed");
        if (i == 4) {
            age(world, "100 days");
        }
    }
    world_sql(world, world->eye, "update pgstage.revision set settings = null");
    prune(world);
    EXPECT(world, world_int(world, "select count(*) from pgstage.failure") == 7, "a definition of an old program");
    set_retention(world, "{\"retention\": {\"done\": 60000}}");
    prune(world);
    EXPECT(world, world_int(world, "select count(*) from pgstage.failure") == 7, "errors: none");
    set_retention(world, "{}");
    prune(world);
    EXPECT(world, world_int(world, "select count(*) from pgstage.failure") == 2, "90 days");
    EXPECT(world, world_int(world, "select count(*) from pgstage.task where error_text = 'broken'") == 7, "the tasks");
    return world_is_sound(world);
}

bool failed_runs_are_of_their_pipeline(struct world *world) {
    for (int i = 0; i < 5; i++) {
        char key[8];
        snprintf(key, sizeof key, "f%d", i);
        end_task(world, key, "failed");
    }
    age(world, "100 days");
    set_retention(world, "{\"retention\": {}}");
    world_script(world, world->eye,
                 "insert into pgstage.pipeline (name) values ('q');"
                 "insert into pgstage.revision (pipeline, number, definition, settings)"
                 " select id, 1, '', '{}' from pgstage.pipeline where name = 'q';"
                 "update pgstage.pipeline set revision = 1 where name = 'q'");
    prune(world);
    EXPECT(world, world_int(world, "select count(*) from pgstage.failure") == 5, "q's rule took p's rows");
    return world_is_sound(world);
}

bool old_revisions_go_when_nobody_runs_them(struct world *world) {
    for (int i = 2; i <= 14; i++) {
        world_revise(world, "{a,b,c}");
        world_sql(world, world->eye, "update pgstage.revision set definition = number::text");
    }
    world_sql(world, world->eye, "update pgstage.pipeline set revision = 2");
    prune(world);
    EXPECT(world, world_int(world, "select count(*) from pgstage.revision") == 14, "nodes have not said what they run");
    world_sql(world, world->eye, "update pgstage.node set notes = '[{\"pipeline\": \"p\", \"stage\": \"a\"}]'");
    prune(world);
    EXPECT(world, world_int(world, "select count(*) from pgstage.revision") == 14, "nodes of an old program");
    world_sql(world, world->eye,
              "update pgstage.node set notes = '[{\"pipeline\": \"p\", \"stage\": \"a\", \"revision\": 3}]'");
    prune(world);
    EXPECT(world, strcmp(world_text(world, "select string_agg(number::text, ' ' order by number) from pgstage.revision"),
                         "2 3 5 6 7 8 9 10 11 12 13 14") == 0, "not 1 and 4");
    world_end_lease(world, NODE_ONE);
    world_sql(world, world->eye, "update pgstage.node set ended = true");
    prune(world);
    EXPECT(world, world_int(world, "select count(*) from pgstage.revision where number = 3") == 0, "3 stays");
    EXPECT(world, world_int(world, "select count(*) from pgstage.revision_stage where revision = 3") == 0, "its stages");
    return world_is_sound(world);
}
