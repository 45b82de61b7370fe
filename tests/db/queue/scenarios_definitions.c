/* Definitions that change while tasks are under way, and nodes that have not heard of it yet: nothing is stranded, nothing
 * that comes next is skipped, and an older node never judges a stage that it does not know. C04, C17. */
#include <string.h>

#include "scenarios.h"

static const char *stage_name(struct world *world, int64_t task) {
    return world_text(world, "select s.name from pgstage.task t join pgstage.stage s on s.id = t.stage where t.id = %lld",
                      (long long)task);
}

/* The outcome of registering a new text with these stages, in this order; `settings` NULL: none. */
static const char *do_register(struct world *world, const char *text, const char *stages, const char *settings) {
    return world_text(world, "select outcome || coalesce(': ' || detail, '') from pgstage.register('p', '%s', '%s', 'run', "
                             "null, %s%s%s)", text, stages, settings == NULL ? "" : "'", settings == NULL ? "null" : settings,
                      settings == NULL ? "" : "'");
}

static bool is_text(const char *left, const char *right) {
    return left != NULL && strcmp(left, right) == 0;
}

/* ---- two nodes, an old definition and a new one ---- */

bool an_inserted_stage_is_not_skipped(struct world *world) {
    int64_t before = world_submit(world, "before"), at_it = world_submit(world, "at it");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 2, NULL);
    world_revise(world, "{a,x,b,c}");
    /* The old node ran all of it; or its run of b failed. Neither says anything of x. */
    struct verdict verdict = world_complete(
        world, world->one, &(struct move){.task = before, .claim = claim, .count = 3, .ending = "next", .output = "1"});
    EXPECT(world, scenario_is(&verdict, "accepted") && verdict.step == 1, "%s, step %d", verdict.answer, verdict.step);
    world_complete(world, world->one,
                   &(struct move){.task = at_it, .claim = claim, .count = 1, .ending = "failed", .attempts = 1,
                                  .kind = "permanent", .reason = "b", .output = "1"});
    EXPECT(world, is_text(stage_name(world, before), "x") && is_text(stage_name(world, at_it), "x"), "they are at %s",
           stage_name(world, before));
    EXPECT(world, world_int(world, "select count(*) from pgstage.task where status = 'ready' and attempt = 0") == 2,
           "they do not wait for a node that knows x");
    /* The old node goes on with what it knows, and gets nothing of x. */
    for (int stage = STAGE_A; stage <= STAGE_C; stage++) {
        int count = 0;
        world_claim(world, NODE_ONE, stage, 10, &count);
        EXPECT(world, count == 0, "it claimed at stage %d", stage);
    }
    EXPECT(world, world_int(world, "select count(*) from pgstage.failure") == 0, "a failure was noted");
    return world_is_sound(world);
}

bool a_last_stage_that_is_removed_ends_the_task_before_it(struct world *world) {
    int64_t whole = world_submit(world, "whole"), failed = world_submit(world, "failed");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 2, NULL);
    world_revise(world, "{a,b}");
    world_complete(world, world->one,
                   &(struct move){.task = whole, .claim = claim, .count = 3, .ending = "next", .output = "1"});
    world_complete(world, world->one,
                   &(struct move){.task = failed, .claim = claim, .count = 2, .ending = "failed", .attempts = 1,
                                  .kind = "permanent", .reason = "c", .output = "1"});
    EXPECT(world, world_int(world, "select count(*) from pgstage.task where status = 'done' and done_version = 1") == 2,
           "a stage that is no more was judged");
    EXPECT(world, world_int(world, "select count(*) from pgstage.output o where o.stage = %d", world->stages[STAGE_C]) == 0,
           "an output of it was kept");
    EXPECT(world, world_int(world, "select count(*) from pgstage.failure") == 0, "a failure was noted");
    return world_is_sound(world);
}

bool stages_in_another_order_are_run_in_that_order(struct world *world) {
    int64_t first = world_submit(world, "first");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    int64_t second = world_submit(world, "second");
    world_revise(world, "{a,c,b}");
    world_complete(world, world->one,
                   &(struct move){.task = first, .claim = claim, .count = 3, .ending = "next", .output = "1"});
    EXPECT(world, is_text(stage_name(world, first), "c"), "it is at %s", stage_name(world, first));
    /* A node with the new definition claims it there; one with the old one goes on to what it thinks comes next. */
    claim = world_claim(world, NODE_TWO, STAGE_C, 1, NULL);
    world_complete(world, world->one,
                   &(struct move){.task = first, .claim = claim, .count = 1, .first = STAGE_C, .ending = "next",
                                  .revision = world->revision});
    EXPECT(world, is_text(stage_name(world, first), "b"), "then at %s", stage_name(world, first));
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_complete(world, world->one,
                   &(struct move){.task = second, .claim = claim, .count = 2, .ending = "failed", .attempts = 1,
                                  .kind = "permanent", .reason = "c", .output = "1"});
    EXPECT(world, is_text(stage_name(world, second), "c"), "the second is at %s", stage_name(world, second));
    EXPECT(world, world_int(world, "select count(*) from pgstage.failure") == 0, "a failure was noted");
    return world_is_sound(world);
}

/* ---- other names ---- */

static const char a_is_x[] = "{\"stages\": {\"x\": {\"renamed_from\": \"a\"}}}";

bool a_renamed_stage_keeps_what_is_its(struct world *world) {
    int64_t waiting = world_submit(world, "waiting"), running = world_submit(world, "running");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_script(world, world->eye, "update pgstage.stage set paused = true where name = 'a'");
    EXPECT(world, is_text(do_register(world, "1", "{x,b,c}", a_is_x), "changed"), "it is refused");
    EXPECT(world, world_int(world, "select id from pgstage.stage where name = 'x' and paused") == world->stages[STAGE_A],
           "it is another stage");
    EXPECT(world, is_text(stage_name(world, waiting), "x") && is_text(stage_name(world, running), "x"), "tasks moved");
    /* What an older node runs there is accepted: the stage is the same. */
    struct verdict verdict = world_complete(
        world, world->one, &(struct move){.task = waiting, .claim = claim, .count = 3, .ending = "next", .output = "1"});
    EXPECT(world, scenario_is(&verdict, "accepted") && is_text(verdict.status, "done"), "%s, %s", verdict.answer,
           verdict.status);
    /* The key stays in the file for a while: without effect. */
    EXPECT(world, is_text(do_register(world, "2", "{x,b}", a_is_x), "changed"), "the second time");
    EXPECT(world, world_int(world, "select id from pgstage.stage where name = 'x'") == world->stages[STAGE_A], "renamed again");
    return world_is_sound(world);
}

bool a_refused_definition_renames_nothing(struct world *world) {
    world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_complete(world, world->one, &(struct move){.task = 1, .claim = claim, .count = 1, .ending = "failed",
                                                     .kind = "permanent", .reason = "no", .attempts = 1});
    EXPECT(world, is_text(do_register(world, "1", "{x,c}", a_is_x), "refused: stage \"b\" still holds 1 task"),
           "a failed task does not count");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where name = 'a'") == 1, "renamed all the same");
    return world_is_sound(world);
}

/* An earlier stage of the name: an empty one makes room, one with tasks does not. */
bool an_earlier_stage_may_have_had_the_name(struct world *world) {
    EXPECT(world, is_text(do_register(world, "1", "{b,c}", NULL), "changed"), "a cannot go");
    EXPECT(world, is_text(do_register(world, "2", "{a,c}", "{\"stages\": {\"a\": {\"renamed_from\": \"b\"}}}"), "changed"),
           "b cannot be called a");
    EXPECT(world, world_int(world, "select id from pgstage.stage where name = 'a'") == world->stages[STAGE_B], "it is not b");
    /* Now b holds a task while it is of no definition, as a producer's open transaction can leave one. */
    world_script(world, world->eye,
                 "insert into pgstage.stage (pipeline, name) select id, 'b' from pgstage.pipeline;"
                 "insert into pgstage.task_count (pipeline, stage, status, n) select pipeline, id, 'failed', 1"
                 "  from pgstage.stage where name = 'b'");
    const char *outcome = do_register(world, "3", "{b,c}", "{\"stages\": {\"b\": {\"renamed_from\": \"a\"}}}");
    EXPECT(world, is_text(outcome, "refused: stage \"a\" cannot be called \"b\": an earlier stage of that name still holds 1 "
                                   "task"), "%s", outcome);
    world_script(world, world->eye, "delete from pgstage.task_count");
    return world_is_sound(world);
}

/* The stage that is left out is not the one of the new name: that one is there already. */
bool a_stage_that_has_its_name_is_not_renamed(struct world *world) {
    world_submit(world, "k");
    EXPECT(world, is_text(do_register(world, "1", "{b,c}", "{\"stages\": {\"b\": {\"renamed_from\": \"a\"}}}"),
                          "refused: stage \"a\" still holds 1 task; renamed_from: a is not followed, because the definition has "
                          "a stage b already"),
           "a is called b, beside b");
    EXPECT(world, is_text(do_register(world, "2", "{a,b,c,d}", "{\"stages\": {\"d\": {\"renamed_from\": \"a\"}}}"), "changed"),
           "a stage of the definition is taken for another one's past");
    EXPECT(world, world_int(world, "select id from pgstage.stage where name = 'a'") == world->stages[STAGE_A], "renamed");
    return world_is_sound(world);
}
