/* Scenarios of rescue.sql and release_unknown.sql. C03, C07, C13. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenarios.h"

static int64_t running(struct world *world) {
    return world_int(world, "select count(*) from pgstage.task where status = 'running'");
}

static int rows_of(const struct db_result *result) {
    return result == NULL ? -1 : db_rows(result);
}

bool rescue_takes_from_ended_nodes_only(struct world *world) {
    int64_t mine = world_submit(world, "k1");
    world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_submit(world, "k2");
    world_claim(world, NODE_TWO, STAGE_A, 1, NULL);
    world_end_lease(world, NODE_ONE);
    int rescued = rows_of(world_rescue(world));
    EXPECT(world, rescued == 1, "%d rescued", rescued);
    struct row row = world_row(world, mine);
    EXPECT(world, strcmp(row.status, "ready") == 0 && row.rescues == 1 && row.attempt == 0,
           "%s, %d rescues", row.status, row.rescues);
    EXPECT(world, running(world) == 1, "the live node's task was taken");
    return world_is_sound(world);
}

struct meanwhile {
    int64_t task, claim;
    const char *row; /* as it was left */
};

static void complete_meanwhile(struct world *world, void *context) {
    struct meanwhile *it = context;
    struct move all = {
        .task = it->task, .claim = it->claim, .count = 3, .ending = "next", .output = "1"};
    struct verdict verdict = world_complete(world, world->two, &all);
    world_expect(world, scenario_is(&verdict, "accepted"), "the completion was %s", verdict.answer);
    it->row = scenario_row_text(world, it->task);
}

/* C07, first permutation: the rescuer has read its orphans, the task is completed, the rescuer
 * writes. */
bool rescue_leaves_what_was_done_meanwhile(struct world *world) {
    struct meanwhile it = {.task = world_submit(world, "k")};
    it.claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_end_lease(world, NODE_ONE);
    int rescued = rows_of(world_race(world, &sql_rescue, complete_meanwhile, &it, 1, "500"));
    EXPECT(world, rescued == 0, "%d rescued", rescued);
    EXPECT(world, strcmp(it.row, scenario_row_text(world, it.task)) == 0,
           "the finished task changed");
    return world_is_sound(world);
}

static void claim_meanwhile(struct world *world, void *context) {
    struct meanwhile *it = context;
    struct move release = {.task = it->task, .claim = it->claim, .ending = "ready"};
    world_complete(world, world->two, &release);
    char stage[24];
    snprintf(stage, sizeof stage, "%d", world->stages[STAGE_A]);
    world_call(world, world->two, &sql_claim, 7, stage, "1", "900", "12", NULL, NULL, NULL);
    it->row = scenario_row_text(world, it->task);
}

/* C07, second permutation: released, and claimed by a live node. */
bool rescue_leaves_what_was_claimed_anew_meanwhile(struct world *world) {
    struct meanwhile it = {.task = world_submit(world, "k")};
    it.claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_end_lease(world, NODE_ONE);
    int rescued = rows_of(world_race(world, &sql_rescue, claim_meanwhile, &it, 1, "500"));
    EXPECT(world, rescued == 0, "%d rescued", rescued);
    EXPECT(world, strcmp(it.row, scenario_row_text(world, it.task)) == 0,
           "the new claim was taken");
    EXPECT(world, world_row(world, it.task).claim == 900, "it was not claimed anew");
    return world_is_sound(world);
}

/* The batch is still there when its task has left. */
bool rescue_leaves_what_has_left(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move next = {.task = task, .claim = claim, .count = 3, .ending = "next"};
    world_complete(world, world->one, &next);
    world_end_lease(world, NODE_ONE);
    const char *before = scenario_row_text(world, task);
    EXPECT(world, rows_of(world_rescue(world)) == 0, "a finished task was rescued");
    EXPECT(world, strcmp(before, scenario_row_text(world, task)) == 0, "it changed");
    return world_is_sound(world);
}

/* Two batches name the task: one of an old claim, one of the claim it runs under. */
bool rescue_counts_a_task_once(struct world *world) {
    int64_t task = world_submit(world, "k");
    world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_release(world, NODE_ONE, 0, 0);
    world_claim(world, NODE_TWO, STAGE_A, 1, NULL);
    world_end_lease(world, NODE_ONE);
    EXPECT(world, rows_of(world_rescue(world)) == 0, "a live node's task was rescued");
    world_end_lease(world, NODE_TWO);
    EXPECT(world, rows_of(world_rescue(world)) == 1, "it was not rescued once");
    EXPECT(world, world_row(world, task).rescues == 1, "it was counted twice");
    return world_is_sound(world);
}

bool rescue_passes_by_a_locked_row(struct world *world) {
    int64_t task = world_submit(world, "k1");
    world_submit(world, "k2");
    world_claim(world, NODE_ONE, STAGE_A, 2, NULL);
    world_end_lease(world, NODE_ONE);
    world_script(world, world->two,
                 "begin; select * from pgstage.task where key = 'k1' for update");
    EXPECT(world, rows_of(world_rescue(world)) == 1, "it waited, or took none");
    /* And the other way round: a completion while the rescue is not committed. */
    world_script(world, world->two, "commit; begin");
    world_call(world, world->two, &sql_rescue, 1, "500");
    struct move next = {
        .task = task, .claim = world_row(world, task).claim, .count = 1, .ending = "next"};
    struct verdict verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "busy"), "%s while it is rescued", verdict.answer);
    world_script(world, world->two, "commit");
    verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "refused"), "%s after it was rescued", verdict.answer);
    return world_is_sound(world);
}

bool rescue_takes_a_few_at_a_time(struct world *world) {
    for (int i = 0; i < 5; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        world_submit(world, key);
    }
    world_claim(world, NODE_ONE, STAGE_A, 5, NULL);
    world_end_lease(world, NODE_ONE);
    for (int left = 5; left > 0; left -= 2) {
        int rescued = rows_of(world_call(world, world->one, &sql_rescue, 1, "2"));
        EXPECT(world, rescued == (left > 2 ? 2 : left), "%d rescued of %d", rescued, left);
    }
    return world_is_sound(world);
}

/* C03: (a) the node's row was cleaned away; (b) the same process started anew, so with another
 * identity; (c) its lease was taken back; (d) it held a stage that nobody runs now. */
bool orphans_are_found_by_what_is_not_there(struct world *world) {
    for (int variant = 0; variant < 4; variant++) {
        int64_t task = world_submit(world, "k");
        world_resubmit(world, task);
        world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
        switch (variant) {
        case 0:
            world_sql(world, world->eye, "delete from pgstage.node where id = 11");
            break;
        case 1:
            world_call(world, world->eye, &sql_node_start, 5, "311", "host", "/lock", "1", "60000");
            world_call(world, world->eye, &sql_end_nodes, 2, "{11}", "host");
            break;
        case 2:
            world_sql(world, world->eye,
                      "update pgstage.node set lease_until = '-infinity' where id = 11");
            world_call(world, world->eye, &sql_end_leases, 0);
            break;
        default:
            world_revise(world, "{b,c}");
            world_end_lease(world, NODE_ONE);
            break;
        }
        EXPECT(world, rows_of(world_rescue(world)) == 1, "variant %d: not rescued", variant);
        EXPECT(world, strcmp(world_row(world, task).status, "ready") == 0, "variant %d: not ready",
               variant);
        if (!world_is_sound(world)) {
            return false;
        }
        world_reset(world);
    }
    return true;
}

/* ---- release_unknown ---- */

bool release_spares_what_is_known(struct world *world) {
    int64_t known = world_submit(world, "k1");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    int64_t unknown = world_submit(world, "k2");
    world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, rows_of(world_release(world, NODE_ONE, known, claim)) == 1,
           "not one was released");
    EXPECT(world, strcmp(world_row(world, known).status, "running") == 0,
           "the known one was released");
    struct row row = world_row(world, unknown);
    EXPECT(world, strcmp(row.status, "ready") == 0 && row.rescues == 0 && row.attempt == 0, "%s",
           row.status);
    EXPECT(world, rows_of(world_release(world, NODE_ONE, known, claim)) == 0,
           "sent again it released");
    return world_is_sound(world);
}

/* An old backend committed a claim of a task that the node knows under an earlier claim. */
bool release_knows_claims_not_tasks(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t first = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move release = {.task = task, .claim = first, .ending = "ready"};
    world_complete(world, world->one, &release);
    world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, rows_of(world_release(world, NODE_ONE, task, first)) == 1,
           "the unknown claim was kept");
    return world_is_sound(world);
}

/* The batch of an earlier claim still names a task that the node holds now under another. */
bool release_spares_a_later_claim(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t first = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move release = {.task = task, .claim = first, .ending = "ready"};
    world_complete(world, world->one, &release);
    int64_t second = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, rows_of(world_release(world, NODE_ONE, task, second)) == 0,
           "the later claim was released");
    EXPECT(world, world_row(world, task).claim == second, "it changed");
    return world_is_sound(world);
}

bool release_spares_other_nodes(struct world *world) {
    world_submit(world, "k");
    world_claim(world, NODE_TWO, STAGE_A, 1, NULL);
    EXPECT(world, rows_of(world_release(world, NODE_ONE, 0, 0)) == 0,
           "another node's task was released");
    return world_is_sound(world);
}

bool release_leaves_what_was_done_meanwhile(struct world *world) {
    struct meanwhile it = {.task = world_submit(world, "k")};
    it.claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    int released = rows_of(
        world_race(world, &sql_release_unknown, complete_meanwhile, &it, 3, "11", "{}", "{}"));
    EXPECT(world, released == 0, "%d released", released);
    EXPECT(world, strcmp(it.row, scenario_row_text(world, it.task)) == 0,
           "the finished task changed");
    return world_is_sound(world);
}

bool release_leaves_what_has_left(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move next = {.task = task, .claim = claim, .count = 3, .ending = "next"};
    world_complete(world, world->one, &next);
    const char *before = scenario_row_text(world, task);
    EXPECT(world, rows_of(world_release(world, NODE_ONE, 0, 0)) == 0,
           "a finished task was released");
    EXPECT(world, strcmp(before, scenario_row_text(world, task)) == 0, "it changed");
    return world_is_sound(world);
}

bool release_passes_by_a_locked_row(struct world *world) {
    world_submit(world, "k1");
    world_submit(world, "k2");
    world_claim(world, NODE_ONE, STAGE_A, 2, NULL);
    world_script(world, world->two,
                 "begin; select * from pgstage.task where key = 'k1' for update");
    EXPECT(world, rows_of(world_release(world, NODE_ONE, 0, 0)) == 1, "it waited, or took none");
    world_script(world, world->two, "commit");
    return world_is_sound(world);
}
