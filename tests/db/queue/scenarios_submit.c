/* Scenarios of submit.sql, stage_due.sql and move_stranded.sql. C24, C27, C39, C81. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "scenarios.h"

/* "new", "updated", "unchanged"; "" when it failed. */
static const char *submit(struct world *world, const char *key, const char *payload,
                          const char *stamp, const char *if_changed) {
    const struct db_result *result = world_call(world, world->two, &sql_submit, 7, "p", key,
                                                payload, stamp, "{NULL}", "{NULL}", if_changed);
    return result != NULL && db_rows(result) == 1 ? db_value(result, 0, 1) : "";
}

static int64_t task_of(struct world *world, const char *key) {
    return world_int(world, "select id from pgstage.task where key = '%s'", key);
}

/* C27: by microseconds, in SQL. */
bool a_newer_stamp_is_accepted(struct world *world) {
    static const struct {
        const char *stamp, *outcome;
    } steps[] = {
        {"{2020-01-01 12:00:00.345678+00}", "new"},
        {"{2020-01-01 12:00:00.345678+00}", "unchanged"},
        {"{2020-01-01 12:00:00.345677+00}", "unchanged"},
        {"{2020-01-01 12:00:00.345679+00}", "updated"},
        {"{2020-01-01 13:00:00.345679+01}", "unchanged"},
        {"{2019-01-01 12:00:00+00}", "unchanged"},
        {"{NULL}", "updated"}, /* now */
    };
    int64_t version = 1;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const char *outcome = submit(world, "{k}", "{1}", steps[i].stamp, "f");
        EXPECT(world, strcmp(outcome, steps[i].outcome) == 0, "%s: %s", steps[i].stamp, outcome);
        version += strcmp(outcome, "updated") == 0;
        EXPECT(world, world_row(world, task_of(world, "k")).version == version, "%s: version %d",
               steps[i].stamp, (int)world_row(world, task_of(world, "k")).version);
    }
    return world_is_sound(world);
}

/* Files are restored with old times, and two writers may have the same instant. */
bool if_changed_takes_any_change(struct world *world) {
    static const struct {
        const char *payload, *stamp, *outcome;
    } steps[] = {
        {"{1}", "{2020-01-02}", "new"},          {"{1}", "{2020-01-02}", "unchanged"},
        {"{2}", "{2020-01-02}", "updated"},      {"{2}", "{2020-01-01}", "updated"},
        {"{2}", "{2020-01-01}", "unchanged"},    {"{NULL}", "{2020-01-01}", "updated"},
        {"{NULL}", "{2020-01-01}", "unchanged"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const char *outcome = submit(world, "{k}", steps[i].payload, steps[i].stamp, "t");
        EXPECT(world, strcmp(outcome, steps[i].outcome) == 0, "step %d: %s", (int)i, outcome);
    }
    return world_is_sound(world);
}

/* Without if_changed an older document is refused, however it differs. */
bool a_newer_stamp_is_accepted_or_nothing(struct world *world) {
    EXPECT(world, strcmp(submit(world, "{k}", "{1}", "{2020-01-02}", "f"), "new") == 0, "not new");
    EXPECT(world, strcmp(submit(world, "{k}", "{2}", "{2020-01-01}", "f"), "unchanged") == 0,
           "an older one was accepted");
    EXPECT(world, strcmp(submit(world, "{k}", "{2}", "{2020-01-02}", "f"), "unchanged") == 0,
           "an equal one was accepted");
    EXPECT(world,
           world_int(world,
                     "select count(*) from pgstage.task where payload = '1' and version = 1") == 1,
           "it changed");
    return world_is_sound(world);
}

bool a_submit_starts_at_the_first_stage(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move next = {.task = task, .claim = claim, .count = 1, .ending = "next"};
    world_complete(world, world->one, &next);
    world_resubmit(world, task);
    struct row row = world_row(world, task);
    EXPECT(world, strcmp(row.status, "ready") == 0 && row.stage == STAGE_A, "%s at stage %d",
           row.status, row.stage);
    world_rest(world);
    return world_is_sound(world);
}

bool a_submit_is_of_one_pipeline(struct world *world) {
    world_sql(world, world->eye,
              "insert into pgstage.pipeline (name, revision) values ('other', 1)");
    world_sql(world, world->eye,
              "insert into pgstage.stage (pipeline, name) select id, 'x' from pgstage.pipeline "
              "where name = 'other'");
    world_sql(world, world->eye,
              "insert into pgstage.revision (pipeline, number, definition) select id, 1, '' from "
              "pgstage.pipeline where name = 'other'");
    world_sql(world, world->eye,
              "insert into pgstage.revision_stage select pipeline, 1, 1, id from pgstage.stage "
              "where name = 'x'");
    int64_t mine = world_submit(world, "k");
    world_sql(world, world->eye,
              "select * from pgstage.submit_set('other', '{k}', '{1}', '{2020-01-01}', '{0}', "
              "'{NULL}', false)");
    const char *before = scenario_row_text(world, mine);
    world_sql(world, world->eye,
              "select * from pgstage.submit_set('other', '{k}', '{2}', '{2030-01-01}', '{0}', "
              "'{NULL}', false)");
    EXPECT(world, strcmp(before, scenario_row_text(world, mine)) == 0,
           "the other pipeline's document changed");
    EXPECT(world,
           world_int(world,
                     "select count(*) from pgstage.task where payload = '2' and version = 2") == 1,
           "not updated");
    return world_is_sound(world);
}

/* True when session two, which listens, is notified within the time. */
static bool is_notified(struct world *world, int64_t timeout_ms) {
    struct error err = ERROR_NONE;
    int64_t start = clock_now_ms(&clock_boottime);
    enum status code = sync_wait(world->two, timeout_ms, &err);
    world_expect(world, code == STATUS_OK, "%s", err.text);
    return clock_now_ms(&clock_boottime) - start < timeout_ms;
}

static bool wakes(struct world *world, const char *key, int64_t timeout_ms) {
    world_sql(
        world, world->one,
        "select * from pgstage.submit_set('p', '{%s}', '{1}', '{NULL}', '{0}', '{NULL}', false)",
        key);
    return is_notified(world, timeout_ms);
}

/* C39, C58. */
bool a_submit_wakes_who_sleeps(struct world *world) {
    world_script(world, world->two, "listen pgstage");
    bool woken = wakes(world, "k1", 3000);
    world_sql(world, world->eye, "update pgstage.stage set busy_until = now() + interval '1 min'");
    bool disturbed = wakes(world, "k2", 100);
    world_script(world, world->two, "unlisten *");
    EXPECT(world, woken, "a sleeper was not woken");
    EXPECT(world, !disturbed, "a busy one was notified");
    return world_is_sound(world);
}

bool a_submit_starts_afresh(struct world *world) {
    static const char *const states[] = {"failed", "delayed", "cancelled", "done", "ready"};
    for (int i = 0; i < 5; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        int64_t task = world_submit(world, key);
        int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
        bool done = strcmp(states[i], "done") == 0;
        struct move move = {.task = task,
                            .claim = claim,
                            .count = done ? 3 : 1,
                            .attempts = !done,
                            .crashes = !done,
                            .rescues = !done,
                            .kind = done ? NULL : "error",
                            .reason = "r",
                            .ending = done     ? "next"
                                      : i == 2 ? "ready"
                                               : states[i]};
        world_complete(world, world->one, &move);
        if (i == 2) {
            world_cancel(world, task);
        }
        EXPECT(world, strcmp(world_row(world, task).status, states[i]) == 0, "it is not %s",
               states[i]);
        world_resubmit(world, task);
        struct row row = world_row(world, task);
        EXPECT(world, strcmp(row.status, "ready") == 0 && row.stage == STAGE_A && row.version == 2,
               "%s: %s at stage %d", states[i], row.status, row.stage);
        EXPECT(world, row.attempt + row.crashes + row.rescues == 0 && !row.has_error,
               "%s: counters were kept", states[i]);
        EXPECT(world,
               world_int(world,
                         "select count(*) from pgstage.task where id = %" PRId64
                         " and payload->>'v' = '2'",
                         task) == 1,
               "%s: the old payload", states[i]);
        world_claim(world, NODE_TWO, STAGE_A, 10, NULL);
    }
    return world_is_sound(world);
}

/* The submit comes while the claim is not committed yet: it waits, and then only marks the running
 * row. */
bool a_submit_waits_for_the_claim_and_sees_it(struct world *world) {
    int64_t task = world_submit(world, "k");
    char stage[24];
    snprintf(stage, sizeof stage, "%d", world->stages[STAGE_A]);
    world_script(world, world->two, "begin");
    world_call(world, world->two, &sql_claim, 7, stage, "1", "950", "11", NULL, NULL, NULL);
    world_begin_call(world, &sql_submit, 7, "p", "{k}", "{2}", "{2030-01-01}", "{NULL}", "{NULL}",
                     "f");
    world_script(world, world->two, "commit");
    const struct db_result *result = world_join(world);
    EXPECT(world, result != NULL && strcmp(db_value(result, 0, 1), "updated") == 0,
           "the submit was not accepted");
    struct row row = world_row(world, task);
    EXPECT(world,
           strcmp(row.status, "running") == 0 && row.claim == 950 && row.version == 2 &&
               row.claimed_version == 1,
           "%s", row.status);
    return world_is_sound(world);
}

/* The set waits for the first of its documents, and meanwhile the second is claimed. */
bool a_submit_sees_what_changed_while_it_waited(struct world *world) {
    world_submit(world, "k1");
    int64_t second = world_submit(world, "k2");
    char stage[24];
    snprintf(stage, sizeof stage, "%d", world->stages[STAGE_A]);
    world_script(world, world->two,
                 "begin; select * from pgstage.task where key = 'k1' for update");
    world_begin_call(world, &sql_submit, 7, "p", "{k1,k2}", "{2,2}", "{2030-01-01,2030-01-01}",
                     "{NULL,NULL}", "{NULL,NULL}", "f");
    world_call(world, world->eye, &sql_claim, 7, stage, "5", "970", "11", NULL, NULL, NULL);
    world_script(world, world->two, "commit");
    const struct db_result *result = world_join(world);
    EXPECT(world,
           result != NULL && db_rows(result) == 2 && strcmp(db_value(result, 1, 1), "updated") == 0,
           "not updated");
    struct row row = world_row(world, second);
    EXPECT(world, strcmp(row.status, "running") == 0 && row.version == 2, "%s", row.status);
    return world_is_sound(world);
}

/* A document that goes between the two statements of a submit: nothing that was submitted is lost.
 */
bool a_submit_is_not_lost_to_a_delete(struct world *world) {
    int64_t old = world_submit(world, "k1");
    world_script(world, world->two,
                 "begin; select * from pgstage.submit_set('p', '{k2}', '{1}', '{2020-01-01}', "
                 "'{0}', '{NULL}', false)");
    world_begin_call(world, &sql_submit, 7, "p", "{k1,k2,k3}", "{5,6,7}",
                     "{2030-01-01,2030-01-01,2030-01-01}", "{0,0,0}", "{NULL,NULL,NULL}", "f");
    world_sql(world, world->eye,
              "with gone as (delete from pgstage.task where id = %" PRId64
              " returning pipeline, stage, status)"
              " insert into pgstage.task_count_delta select pipeline, stage, status, -1 from gone",
              old);
    world_script(world, world->two, "commit");
    const struct db_result *result = world_join(world);
    EXPECT(world, result != NULL && db_rows(result) == 3, "it failed");
    EXPECT(world,
           strcmp(db_value(result, 0, 1), "new") == 0 &&
               strcmp(db_value(result, 1, 1), "updated") == 0 &&
               strcmp(db_value(result, 2, 1), "new") == 0,
           "%s, %s, %s", db_value(result, 0, 1), db_value(result, 1, 1), db_value(result, 2, 1));
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.task where payload in ('5', '6', '7')") ==
               3,
           "one is lost");
    return world_is_sound(world);
}

bool a_set_names_each_key_once(struct world *world) {
    world_fails(world, world->two, "P0F03",
                "select * from pgstage.submit_set('p', '{a,b,a}', '{1,2,3}', '{NULL,NULL,NULL}',"
                " '{0,0,0}', '{NULL,NULL,NULL}', false)");
    world_fails(world, world->two, "P0F02",
                "select * from pgstage.submit_set('nope', '{a}', '{1}', '{NULL}', '{0}',"
                " '{NULL}', false)");
    EXPECT(world, world_int(world, "select count(*) from pgstage.task") == 0,
           "something was added");
    return world_is_sound(world);
}

/* C81, C59: a key is data, whatever it looks like, up to its length in bytes. */
bool names_of_any_kind_are_keys(struct world *world) {
    static const char *const keys[] = {
        "x\"; DROP TABLE task; --",
        "a-b",
        "\xC3\x9Cn\xC3\xAF",
        "pg_temp",
        "'; delete from pgstage.task; --",
        "\\",
        "{}",
        "NULL",
        "null",
        " ",
        "a,b",
        "$1",
        ":key",
        "%s%n",
        "\xF0\x9F\x98\x80",
    };
    int count = (int)(sizeof keys / sizeof *keys);
    for (int i = 0; i < count; i++) {
        char literal[128] = "{\"";
        size_t used = 2;
        for (const char *at = keys[i]; *at != '\0'; at++) {
            if (*at == '"' || *at == '\\') {
                literal[used++] = '\\';
            }
            literal[used++] = *at;
        }
        snprintf(literal + used, sizeof literal - used, "\"}");
        EXPECT(world, strcmp(submit(world, literal, "{1}", "{2020-01-01}", "f"), "new") == 0,
               "'%s'", keys[i]);
        EXPECT(world, strcmp(submit(world, literal, "{1}", "{2020-01-01}", "f"), "unchanged") == 0,
               "'%s' again", keys[i]);
    }
    EXPECT(world, world_int(world, "select count(*) from pgstage.task") == count,
           "keys are mixed up");
    int claimed = 0;
    world_claim(world, NODE_ONE, STAGE_A, 100, &claimed);
    EXPECT(world, claimed == count, "%d of %d claimed", claimed, count);
    static const char *const wrong[] = {"repeat('\xC3\x9C', 513)", "''", "null"};
    for (int i = 0; i < 3; i++) {
        world_fails(world, world->two, "22023",
                    "select * from pgstage.submit_set('p', array[%s], '{1}', '{NULL}', '{0}', '{NULL}', false)",
                    wrong[i]);
    }
    world_sql(world, world->two,
              "select * from pgstage.submit_set('p', array[repeat('\xC3\x9C', 512)], '{1}',"
              " '{NULL}', '{0}', '{NULL}', false)");
    return world_is_sound(world);
}

/* C58: whoever looks by himself says so, and need not be told. The notices themselves:
 * store_duties. */
bool a_claimer_says_that_it_is_busy(struct world *world) {
    char stages[24];
    snprintf(stages, sizeof stages, "{%d}", world->stages[STAGE_A]);
    world_call(world, world->one, &sql_busy, 2, stages, "60000");
    EXPECT(world,
           world_int(
               world,
               "select count(*) from pgstage.stage where busy_until between now() + interval '50 s'"
               " and now() + interval '70 s'") == 1,
           "busy was not said");
    /* Said again within the half of the time, nothing is written. */
    const char *before = world_text(world, "select xmin::text from pgstage.stage where name = 'a'");
    world_call(world, world->one, &sql_busy, 2, stages, "60000");
    EXPECT(world,
           strcmp(before,
                  world_text(world, "select xmin::text from pgstage.stage where name = 'a'")) == 0,
           "it was written again");
    /* Nobody waits for an apply that holds the row. */
    world_script(world, world->two, "begin; update pgstage.stage set paused = paused");
    world_call(world, world->one, &sql_busy, 2, stages, "600000");
    world_script(world, world->two, "commit");
    return world_is_sound(world);
}

/* ---- the stager ---- */

static int64_t stage_due(struct world *world) {
    const struct db_result *result = world_call(world, world->one, &sql_stage_due, 1, "100");
    return result == NULL ? -1 : db_int64(result, 0, 0);
}

bool due_tasks_are_staged(struct world *world) {
    world_sql(
        world, world->eye,
        "select * from pgstage.submit_set('p', '{past,soon,later}', '{1,1,1}', '{NULL,NULL,NULL}',"
        " '{0,0,0}', array[now() - interval '1 s', now() + interval '1 hour',"
        " now() + interval '2 hours'], false)");
    EXPECT(world, stage_due(world) == 0, "something was due");
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.task where status = 'delayed'") == 2,
           "not two wait");
    world_sql(world, world->eye,
              "update pgstage.task set due_at = now() - interval '1 min' where key = 'soon'");
    EXPECT(world, stage_due(world) == 1, "not one was due");
    EXPECT(world,
           world_int(
               world,
               "select count(*) from pgstage.task where key = 'soon' and status = 'ready' and"
               " ready_stage = stage and ready_at < now() - interval '50 s' and due_at is null") ==
               1,
           "it does not stand where its time says");
    EXPECT(world, stage_due(world) == 0, "it was staged twice");
    return world_is_sound(world);
}

static void retry_and_claim(struct world *world, void *context) {
    int64_t task = *(int64_t *)context;
    world_sql(world, world->two, "select pgstage.retry_tasks(array[%" PRId64 "])", task);
    char stage[24];
    snprintf(stage, sizeof stage, "%d", world->stages[STAGE_A]);
    world_call(world, world->two, &sql_claim, 7, stage, "1", "960", "11", NULL, NULL, NULL);
}

/* The stager has read what is due; a person retries it at once, and a node claims it; the stager
 * writes. */
bool staging_leaves_what_left_meanwhile(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move fails = {
        .task = task, .claim = claim, .ending = "delayed", .attempts = 1, .kind = "error"};
    world_complete(world, world->one, &fails);
    const struct db_result *result =
        world_race(world, &sql_stage_due, retry_and_claim, &task, 1, "100");
    EXPECT(world, result != NULL && db_int64(result, 0, 0) == 0, "it was staged");
    struct row row = world_row(world, task);
    EXPECT(world, strcmp(row.status, "running") == 0 && row.claim == 960, "%s", row.status);
    return world_is_sound(world);
}

bool staging_passes_by_a_locked_row(struct world *world) {
    world_sql(world, world->eye,
              "select * from pgstage.submit_set('p', '{k1,k2}', '{1,1}', '{NULL,NULL}', '{0,0}',"
              " array[now() + interval '1 h', now() + interval '1 h'], false)");
    world_sql(world, world->eye, "update pgstage.task set due_at = now() - interval '1 s'");
    world_script(world, world->two,
                 "begin; select * from pgstage.task where key = 'k1' for update");
    EXPECT(world, stage_due(world) == 1, "it waited, or staged none");
    world_script(world, world->two, "commit");
    return world_is_sound(world);
}

/* ---- the mover ---- */

static int64_t move_stranded(struct world *world, const char *at_most) {
    const struct db_result *result =
        world_call(world, world->one, &sql_move_stranded, 1, at_most);
    return result == NULL ? -1 : db_int64(result, 0, 0);
}

bool tasks_of_a_stage_that_is_gone_begin_anew(struct world *world) {
    int64_t held = world_submit(world, "held");
    world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    int64_t first = world_submit(world, "k1"), second = world_submit(world, "k2");
    world_sql(world, world->eye,
              "update pgstage.task set attempt = 1, crashes = 2, rescues = 3, superseded = 1, "
              "error_text = 'e' where id = %" PRId64,
              first);
    EXPECT(world, move_stranded(world, "100") == 0, "the stage is there");
    world_revise(world, "{b,c}");
    EXPECT(world, move_stranded(world, "1") == 1, "more than was asked for");
    EXPECT(world, move_stranded(world, "100") == 1, "not the other one");
    EXPECT(world, move_stranded(world, "100") == 0, "one was moved twice");
    for (int i = 0; i < 2; i++) {
        struct row row = world_row(world, i == 0 ? first : second);
        EXPECT(world, row.stage == STAGE_B && strcmp(row.status, "ready") == 0, "%s at %d", row.status, row.stage);
        EXPECT(world,
               row.attempt == 0 && row.crashes == 0 && row.rescues == 0 && row.superseded == 0 && !row.has_error,
               "it is not new");
    }
    EXPECT(world, strcmp(world_row(world, held).status, "running") == 0, "one that ran was moved");
    world_rest(world);
    EXPECT(world, strcmp(world_row(world, first).status, "done") == 0, "it cannot go on");
    return world_is_sound(world);
}

bool moving_passes_by_a_locked_row(struct world *world) {
    world_submit(world, "k1");
    world_submit(world, "k2");
    world_revise(world, "{b,c}");
    world_script(world, world->two,
                 "begin; select * from pgstage.task where key = 'k1' for update");
    EXPECT(world, move_stranded(world, "100") == 1, "it waited, or moved none");
    world_script(world, world->two, "commit");
    return world_is_sound(world);
}

bool moving_wakes_who_sleeps(struct world *world) {
    world_submit(world, "k");
    world_revise(world, "{b,c}");
    world_script(world, world->two, "listen pgstage");
    move_stranded(world, "100");
    bool woken = is_notified(world, 1000);
    world_script(world, world->two, "unlisten *");
    EXPECT(world, woken, "a sleeper was not woken");
    return world_is_sound(world);
}
