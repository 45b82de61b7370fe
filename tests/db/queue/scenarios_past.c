/* Scenarios of what earlier stages and runs left: claims that are kept for a newer version, progress, inputs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenarios.h"

static struct move keep_of(int64_t task, int64_t claim) {
    return (struct move){.task = task, .claim = claim, .count = 1, .ending = "keep", .output = "1"};
}

static bool row_is(struct world *world, int64_t task, const char *status, int stage, const char *when) {
    struct row row = world_row(world, task);
    return world_expect(world, strcmp(row.status, status) == 0 && row.stage == stage, "%s: %s at stage %d", when, row.status,
                        row.stage);
}

/* ---- claims that are kept ------------------------------------------------------------------------------------------ */

bool a_claim_is_kept_for_a_newer_version(struct world *world) {
    int64_t plain = world_submit(world, "plain"), newer = world_submit(world, "newer"), wish = world_submit(world, "wish");
    int64_t moved = world_submit(world, "moved");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 10, NULL);
    world_resubmit(world, newer);
    world_resubmit(world, wish);
    world_cancel(world, wish);
    world_resubmit(world, moved);
    struct move move = keep_of(plain, claim);
    struct verdict verdict = world_complete(world, world->one, &move);
    EXPECT(world, scenario_is(&verdict, "accepted") && row_is(world, plain, "ready", STAGE_B, "no newer version"), "%s",
           world->why);
    move = keep_of(newer, claim);
    verdict = world_complete(world, world->one, &move);
    EXPECT(world, scenario_is(&verdict, "accepted") && verdict.step == 1 && verdict.stage == STAGE_B, "%s", verdict.answer);
    EXPECT(world, row_is(world, newer, "running", STAGE_B, "a newer version"), "%s", world->why);
    move = keep_of(wish, claim);
    world_complete(world, world->one, &move);
    EXPECT(world, row_is(world, wish, "cancelled", STAGE_B, "a wish"), "%s", world->why);
    /* What runs next here is not what comes next now. */
    world_revise(world, "{a,c}");
    move = keep_of(moved, claim);
    world_complete(world, world->one, &move);
    EXPECT(world, row_is(world, moved, "ready", STAGE_A, "another definition"), "%s", world->why);
    world_revise(world, "{a,b,c}");
    /* The whole pipeline at the version in hand, then the newer one. */
    move = (struct move){.task = newer, .claim = claim, .step = 1, .count = 2, .first = STAGE_B, .ending = "keep",
                         .output = "2", .revision = world->revision};
    verdict = world_complete(world, world->one, &move);
    EXPECT(world, scenario_is(&verdict, "accepted") && row_is(world, newer, "ready", STAGE_A, "the end"), "%s", world->why);
    struct row row = world_row(world, newer);
    EXPECT(world, row.done_version == 1 && row.version == 2 && row.superseded == 0, "version %d was done",
           (int)row.done_version);
    return world_is_sound(world);
}

/* Whether it was kept or left is settled when it is first sent. */
bool a_kept_claim_sent_again_is_kept(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_resubmit(world, task);
    struct move move = keep_of(task, claim);
    for (int i = 0; i < 2; i++) {
        struct verdict verdict = world_complete(world, world->one, &move);
        EXPECT(world, scenario_is(&verdict, "accepted") && verdict.step == 1 && strcmp(verdict.status, "running") == 0,
               "sending %d: %s", i, verdict.answer);
    }
    char id[32], claims[32], stage[24], revision[24];
    snprintf(id, sizeof id, "{%" PRId64 "}", task);
    snprintf(claims, sizeof claims, "{%" PRId64 "}", claim);
    snprintf(stage, sizeof stage, "{%d}", world->stages[STAGE_A]);
    snprintf(revision, sizeof revision, "{%d}", world->revision);
    const struct db_result *look =
        world_call(world, world->eye, &sql_look_at_fences, 7, id, claims, "{0}", "{1}", stage, revision, "{keep}");
    EXPECT(world, look != NULL && strcmp(db_value(look, 0, 1), "applied") == 0, "the look says %s",
           look == NULL ? "" : db_value(look, 0, 1));
    int64_t left = world_submit(world, "left");
    int64_t other = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    move = keep_of(left, other);
    world_complete(world, world->one, &move);
    world_resubmit(world, left);
    struct verdict verdict = world_complete(world, world->one, &move);
    EXPECT(world, scenario_is(&verdict, "applied"), "left, and sent again: %s", verdict.answer);
    return world_is_sound(world);
}

/* ---- progress ------------------------------------------------------------------------------------------------------ */

/* How many were kept; -1 when the statement failed. */
static int say(struct world *world, int64_t task, int64_t claim, int stage, const char *fraction) {
    char tasks[32], claims[32], stages[24], fractions[24];
    snprintf(tasks, sizeof tasks, "{%" PRId64 "}", task);
    snprintf(claims, sizeof claims, "{%" PRId64 "}", claim);
    snprintf(stages, sizeof stages, "{%d}", world->stages[stage]);
    snprintf(fractions, sizeof fractions, "{%s}", fraction);
    const struct db_result *kept =
        world_call(world, world->one, &sql_keep_progress, 5, tasks, claims, stages, fractions, "{page}");
    return kept == NULL ? -1 : db_rows(kept);
}

/* "stage:version:fraction"; "" when there is none. */
static const char *progress_of(struct world *world, int64_t task) {
    return world_text(world,
                      "select coalesce((select s.name || ':' || p.version || ':' || p.fraction from pgstage.progress p"
                      " join pgstage.stage s on s.id = p.stage where p.task = %" PRId64 "), '')",
                      task);
}

bool progress_is_kept_of_held_tasks(struct world *world) {
    int64_t task = world_submit(world, "k");
    EXPECT(world, say(world, task, 5, STAGE_A, "0.1") == 0, "a task that is ready");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, say(world, task, claim + 1, STAGE_A, "0.1") == 0, "another claim's");
    world_resubmit(world, task);
    EXPECT(world, say(world, task, claim, STAGE_A, "0.1") == 1 && strcmp(progress_of(world, task), "a:1:0.1") == 0, "%s",
           progress_of(world, task));
    EXPECT(world, say(world, task, claim, STAGE_B, "0.2") == 1 && strcmp(progress_of(world, task), "b:1:0.2") == 0, "%s",
           progress_of(world, task));
    world_release(world, NODE_ONE, 0, 0);
    EXPECT(world, say(world, task, claim, STAGE_A, "0.3") == 0, "a task that was released");
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, say(world, task, claim, STAGE_A, "0.4") == 1 && strcmp(progress_of(world, task), "a:2:0.4") == 0, "%s",
           progress_of(world, task));
    return world_is_sound(world);
}

bool progress_passes_by_a_locked_row(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_script(world, world->two, "begin; select * from pgstage.task where key = 'k' for update");
    EXPECT(world, say(world, task, claim, STAGE_A, "0.1") == 0, "a locked row");
    world_script(world, world->two, "commit");
    EXPECT(world, say(world, task, claim, STAGE_A, "0.1") == 1, "it is not locked any more");
    return world_is_sound(world);
}

/* "fraction" or "none" (it is of something else) of each row of the claim, in order of ids. */
static const char *claimed(struct world *world, int64_t claim) {
    static char text[64];
    char claims[32];
    snprintf(claims, sizeof claims, "{%" PRId64 "}", claim);
    const struct db_result *rows = world_call(world, world->one, &sql_claimed_progress, 1, claims);
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; rows != NULL && i < db_rows(rows) && used < sizeof text; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? " " : "",
                                 db_is_null(rows, i, 1) ? "none" : db_value(rows, i, 1));
    }
    return text;
}

bool progress_comes_with_the_next_claim(struct world *world) {
    int64_t same = world_submit(world, "same"), newer = world_submit(world, "newer"), later = world_submit(world, "later");
    world_submit(world, "silent");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 10, NULL);
    say(world, same, claim, STAGE_A, "0.1");
    say(world, newer, claim, STAGE_A, "0.2");
    say(world, later, claim, STAGE_B, "0.3");
    world_resubmit(world, newer);
    world_release(world, NODE_ONE, 0, 0);
    int64_t other = world_submit(world, "other");
    claim = world_claim(world, NODE_ONE, STAGE_A, 4, NULL);
    int64_t others = world_claim(world, NODE_TWO, STAGE_A, 10, NULL);
    say(world, other, others, STAGE_A, "0.9");
    world_sql(world, world->eye, "update pgstage.claim_batch set ids = (select array_agg(id order by id) from unnest(ids) id)");
    EXPECT(world, strcmp(claimed(world, claim), "0.1 none none") == 0, "the claim's: %s", claimed(world, claim));
    EXPECT(world, strcmp(claimed(world, others), "0.9") == 0, "the other's: %s", claimed(world, others));
    return world_is_sound(world);
}

bool progress_goes_with_its_stage(struct world *world) {
    static const char *const keys[] = {"well", "later", "failed", "unnamed", "finished", "older", "other"};
    enum { WELL, LATER, FAILED, UNNAMED, FINISHED, OLDER, OTHER, TASKS };
    int64_t tasks[TASKS];
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = world_submit(world, keys[i]);
    }
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, TASKS, NULL);
    for (int i = 0; i < TASKS; i++) {
        say(world, tasks[i], claim, i == LATER || i == FINISHED ? STAGE_B : STAGE_A, "0.5");
    }
    struct move move = {.task = tasks[WELL], .claim = claim, .count = 1, .ending = "stay", .has_progress = true};
    world_complete(world, world->one, &move);
    EXPECT(world, *progress_of(world, tasks[WELL]) == '\0', "it ended well: %s", progress_of(world, tasks[WELL]));
    EXPECT(world, *progress_of(world, tasks[OTHER]) != '\0', "another task's is gone");
    move.task = tasks[LATER];
    move.ending = "delayed";
    world_complete(world, world->one, &move);
    EXPECT(world, strcmp(progress_of(world, tasks[LATER]), "b:1:0.5") == 0, "the stage that did not end: %s",
           progress_of(world, tasks[LATER]));
    move.task = tasks[FINISHED];
    move.ending = "finish";
    world_complete(world, world->one, &move);
    EXPECT(world, *progress_of(world, tasks[FINISHED]) == '\0', "the task is done");
    move.task = tasks[UNNAMED];
    move.ending = "next";
    move.has_progress = false;
    world_complete(world, world->one, &move);
    EXPECT(world, *progress_of(world, tasks[UNNAMED]) != '\0', "what is not named is not looked at");
    move = (struct move){.task = tasks[FAILED], .claim = claim, .ending = "delayed", .has_progress = true};
    world_complete(world, world->one, &move);
    EXPECT(world, strcmp(progress_of(world, tasks[FAILED]), "a:1:0.5") == 0, "a failed run's: %s",
           progress_of(world, tasks[FAILED]));
    world_resubmit(world, tasks[OLDER]);
    world_release(world, NODE_ONE, 0, 0);
    int64_t again = world_claim(world, NODE_ONE, STAGE_A, TASKS, NULL);
    move = (struct move){.task = tasks[OLDER], .claim = again, .ending = "ready", .has_progress = true};
    world_complete(world, world->one, &move);
    EXPECT(world, *progress_of(world, tasks[OLDER]) == '\0', "of an older version: %s", progress_of(world, tasks[OLDER]));
    world_release(world, NODE_ONE, 0, 0);
    world_cancel(world, tasks[OTHER]);
    world_sql(world, world->eye, "delete from pgstage.task where id = %" PRId64, tasks[OTHER]);
    world_sql(world, world->eye, "insert into pgstage.task_count_delta values (%d, %d, 'cancelled', -1)", world->pipeline,
              world->stages[STAGE_A]);
    EXPECT(world, *progress_of(world, tasks[OTHER]) == '\0', "the task is gone, its progress is not");
    return world_is_sound(world);
}

static const char *shown(struct world *world, int64_t task) {
    char id[24];
    snprintf(id, sizeof id, "%" PRId64, task);
    const struct db_result *rows = world_call(world, world->one, &sql_show_progress, 1, id);
    return rows == NULL || db_rows(rows) == 0 ? "" : db_rows(rows) > 1 ? "many" : db_value(rows, 0, 2);
}

bool progress_is_shown_of_what_runs(struct world *world) {
    int64_t task = world_submit(world, "k"), other = world_submit(world, "other");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 2, NULL);
    say(world, other, claim, STAGE_A, "0.9");
    say(world, task, claim, STAGE_B, "0.1");
    EXPECT(world, *shown(world, task) == '\0', "of a stage at which it does not stand: %s", shown(world, task));
    say(world, task, claim, STAGE_A, "0.2");
    EXPECT(world, strcmp(shown(world, task), "0.2") == 0, "%s", shown(world, task));
    world_resubmit(world, task);
    EXPECT(world, strcmp(shown(world, task), "0.2") == 0, "the older version runs still: %s", shown(world, task));
    world_release(world, NODE_ONE, 0, 0);
    EXPECT(world, *shown(world, task) == '\0', "the newer one has not begun: %s", shown(world, task));
    EXPECT(world, strcmp(shown(world, other), "0.9") == 0, "it was given back, and goes on from there");
    return world_is_sound(world);
}

/* ---- inputs -------------------------------------------------------------------------------------------------------- */

/* What stages a and b returned for the task (0: for all) of the claim: "key=a,b" of each, - for null; in order of ids. */
static const char *inputs(struct world *world, int64_t claim, int64_t task) {
    static char text[128];
    char claims[64], tasks[64], stages[64];
    snprintf(claims, sizeof claims, "{%" PRId64 ",%" PRId64 "}", claim, claim);
    snprintf(tasks, sizeof tasks, task != 0 ? "{%" PRId64 ",%" PRId64 "}" : "{NULL,NULL}", task, task);
    snprintf(stages, sizeof stages, "{%d,%d}", world->stages[STAGE_A], world->stages[STAGE_B]);
    const struct db_result *rows = world_call(world, world->one, &sql_inputs, 3, claims, tasks, stages);
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; rows != NULL && i < db_rows(rows) && used < sizeof text; i++) {
        const char *key = world_text(world, "select key from pgstage.task where id = %s", db_value(rows, i, 0));
        bool first = db_int64(rows, i, 1) == world->stages[STAGE_A];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s", first ? (i > 0 ? " " : "") : ",",
                                 first ? key : "", first ? "=" : "", db_is_null(rows, i, 2) ? "-" : db_value(rows, i, 2));
    }
    return text;
}

/* Stages a and b of one task end well, with this output; b may return none. */
static void run_two(struct world *world, int64_t task, const char *output, bool silent) {
    for (int stage = STAGE_A; stage <= STAGE_B; stage++) {
        int64_t claim = world_claim(world, NODE_ONE, stage, 1, NULL);
        struct move move = {.task = task, .claim = claim, .count = 1, .first = stage, .ending = "next",
                            .output = stage == STAGE_A || !silent ? output : NULL, .revision = world->revision};
        world_complete(world, world->one, &move);
    }
}

bool inputs_are_of_the_claimed_version(struct world *world) {
    int64_t first = world_submit(world, "k1");
    run_two(world, first, "1", false);
    int64_t claim = world_claim(world, NODE_ONE, STAGE_C, 1, NULL);
    EXPECT(world, strcmp(inputs(world, claim, 0), "k1=1,1") == 0, "%s", inputs(world, claim, 0));
    world_resubmit(world, first);
    EXPECT(world, strcmp(inputs(world, claim, 0), "k1=1,1") == 0, "a newer version waits: %s", inputs(world, claim, 0));
    world_release(world, NODE_ONE, 0, 0);
    run_two(world, first, "2", true);
    int64_t second = world_submit(world, "k2");
    run_two(world, second, "3", false);
    claim = world_claim(world, NODE_ONE, STAGE_C, 2, NULL);
    EXPECT(world, strcmp(inputs(world, claim, 0), "k1=2,- k2=3,3") == 0, "%s", inputs(world, claim, 0));
    return world_is_sound(world);
}

bool inputs_are_of_held_tasks(struct world *world) {
    int64_t first = world_submit(world, "k1");
    run_two(world, first, "1", false);
    int64_t second = world_submit(world, "k2");
    run_two(world, second, "2", false);
    int64_t claim = world_claim(world, NODE_ONE, STAGE_C, 2, NULL);
    EXPECT(world, strcmp(inputs(world, claim, second), "k2=2,2") == 0, "of one: %s", inputs(world, claim, second));
    world_release(world, NODE_ONE, first, claim);
    EXPECT(world, *inputs(world, claim, second) == '\0', "it is ready: %s", inputs(world, claim, second));
    EXPECT(world, strcmp(inputs(world, claim, 0), "k1=1,1") == 0, "what is left: %s", inputs(world, claim, 0));
    int64_t other = world_claim(world, NODE_TWO, STAGE_C, 2, NULL);
    EXPECT(world, *inputs(world, claim, second) == '\0', "it is another claim's: %s", inputs(world, claim, second));
    EXPECT(world, strcmp(inputs(world, claim, 0), "k1=1,1") == 0, "of the claim: %s", inputs(world, claim, 0));
    EXPECT(world, strcmp(inputs(world, other, 0), "k2=2,2") == 0, "of the other: %s", inputs(world, other, 0));
    return world_is_sound(world);
}

bool inputs_are_there_after_a_rerun(struct world *world) {
    int64_t task = world_submit(world, "k");
    run_two(world, task, "1", false);
    int64_t claim = world_claim(world, NODE_ONE, STAGE_C, 1, NULL);
    struct move last = {.task = task, .claim = claim, .count = 1, .first = STAGE_C, .ending = "next"};
    world_complete(world, world->one, &last);
    world_sql(world, world->eye, "select pgstage.rerun_tasks(array[%" PRId64 "], 'c')", task);
    claim = world_claim(world, NODE_ONE, STAGE_C, 1, NULL);
    EXPECT(world, world_row(world, task).claimed_version == 2, "it is no new version");
    EXPECT(world, strcmp(inputs(world, claim, 0), "k=1,1") == 0, "%s", inputs(world, claim, 0));
    return world_is_sound(world);
}
