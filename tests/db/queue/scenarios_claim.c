/* Scenarios of claim.sql. C04, C09, C21. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenarios.h"

bool a_claim_reads_the_newest_version(struct world *world) {
    int64_t task = world_submit(world, "k");
    world_resubmit(world, task);
    world_resubmit(world, task);
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct row row = world_row(world, task);
    EXPECT(world, row.claim == claim && row.claimed_version == 3, "version %d",
           (int)row.claimed_version);
    EXPECT(world, row.node == NODE_ONE && row.step == 0 && strcmp(row.status, "running") == 0, "%s",
           row.status);
    EXPECT(world,
           world_int(world,
                     "select count(*) from pgstage.claim_batch where claim = %" PRId64
                     " and node = %d and"
                     " stage = %d and ids = array[%" PRId64 "]::bigint[]",
                     claim, NODE_ONE, world->stages[STAGE_A], task) == 1,
           "its batch is wrong");
    return world_is_sound(world);
}

static int claimed(struct world *world, int64_t node, int stage) {
    int count = 0;
    world_claim(world, node, stage, 10, &count);
    return count;
}

bool a_paused_stage_is_not_claimed(struct world *world) {
    world_submit(world, "k");
    world_sql(world, world->eye, "update pgstage.stage set paused = true where name = 'a'");
    EXPECT(world, claimed(world, NODE_ONE, STAGE_A) == 0, "a paused stage was claimed");
    world_sql(world, world->eye, "update pgstage.stage set paused = false");
    world_sql(world, world->eye, "update pgstage.pipeline set paused = true");
    EXPECT(world, claimed(world, NODE_ONE, STAGE_A) == 0, "a paused pipeline was claimed");
    world_sql(world, world->eye, "update pgstage.pipeline set paused = false");
    EXPECT(world, claimed(world, NODE_ONE, STAGE_A) == 1, "it is not claimed any more");
    return world_is_sound(world);
}

bool an_ended_node_claims_nothing(struct world *world) {
    world_submit(world, "k");
    world_end_lease(world, NODE_ONE);
    EXPECT(world, claimed(world, NODE_ONE, STAGE_A) == 0, "an ended node claimed");
    EXPECT(world, claimed(world, 424242, STAGE_A) == 0, "an unknown node claimed");
    EXPECT(world, claimed(world, NODE_TWO, STAGE_A) == 1, "a live node did not");
    return world_is_sound(world);
}

/* C04: what a node has no handler for stays as it is, whoever else runs, claims and rescues. */
bool only_the_named_stage_is_claimed(struct world *world) {
    int64_t task = world_submit(world, "k");
    const char *before = scenario_row_text(world, task);
    EXPECT(world, claimed(world, NODE_ONE, STAGE_B) == 0 && claimed(world, NODE_ONE, STAGE_C) == 0,
           "another stage's task");
    world_end_lease(world, NODE_TWO);
    world_rescue(world);
    world_release(world, NODE_ONE, 0, 0);
    EXPECT(world, strcmp(before, scenario_row_text(world, task)) == 0, "the row changed");
    return world_is_sound(world);
}

bool a_claim_sent_again_takes_nothing(struct world *world) {
    world_submit(world, "k1");
    world_submit(world, "k2");
    int count = 0;
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, &count);
    EXPECT(world, count == 1, "%d rows", count);
    world->last_claim = claim - 1001; /* the same number once more */
    int64_t again = world_claim(world, NODE_ONE, STAGE_A, 5, &count);
    EXPECT(world, again == claim && count == 0, "sent again it took %d rows", count);
    return world_is_sound(world);
}

bool claimers_do_not_wait_for_each_other(struct world *world) {
    world_submit(world, "k1");
    int64_t second = world_submit(world, "k2");
    world_script(world, world->two,
                 "begin; select * from pgstage.task where key = 'k1' for update");
    int count = 0;
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 5, &count);
    EXPECT(world, count == 1 && world_row(world, second).claim == claim, "%d rows", count);
    world_script(world, world->two, "commit");
    EXPECT(world, claimed(world, NODE_TWO, STAGE_A) == 1, "the first was not left");
    return world_is_sound(world);
}

/* C21: the same order for fresh, retried, rescued: priority, then longest ready. */
bool claims_follow_the_order(struct world *world) {
    static const char *const keys[] = {"urgent late", "urgent", "long", "short", "rescued urgent"};
    static const int priorities[] = {-5, -5, 0, 0, -9}, minutes[] = {1, 9, 8, 2, 0};
    int64_t tasks[5];
    for (int i = 0; i < 5; i++) {
        tasks[i] = world_submit(world, keys[i]);
        world_sql(world, world->eye,
                  "update pgstage.task set priority = %d, ready_at = now() - %d * interval '1 min'"
                  " where id = %" PRId64,
                  priorities[i], minutes[i], tasks[i]);
    }
    world_claim(world, NODE_TWO, STAGE_A, 1, NULL);
    world_end_lease(world, NODE_TWO);
    world_rescue(world);
    static const int order[] = {4, 1, 0, 2, 3};
    for (int i = 0; i < 5; i++) {
        int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
        EXPECT(world, world_row(world, tasks[order[i]]).claim == claim, "'%s' is not number %d",
               keys[order[i]], i + 1);
    }
    return world_is_sound(world);
}

static const struct db_result *claim_from(struct world *world, const char *claim,
                                          const char *priority, const char *ready_at) {
    char stage[24], node[24];
    snprintf(stage, sizeof stage, "%d", world->stages[STAGE_A]);
    snprintf(node, sizeof node, "%d", NODE_ONE);
    return world_call(world, world->one, &sql_claim, 7, stage, "10", claim, node, priority,
                      ready_at, NULL);
}

/* The next claim starts a second before where the last one ended: it misses none that was ready at
 * the same instant, nor one whose submit took a moment to commit. */
bool a_claim_goes_on_at_a_tie(struct world *world) {
    static const char *const instants[] = {"12:00:00.000001", "12:00:00.000001", "11:59:59.1",
                                           "11:59:58.9"};
    for (int i = 0; i < 4; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        int64_t task = world_submit(world, key);
        world_sql(world, world->eye,
                  "update pgstage.task set ready_at = '2020-01-01 %s+00', priority = 3 where id = "
                  "%" PRId64,
                  instants[i], task);
    }
    const struct db_result *result = claim_from(world, "701", "3", "2020-01-01 12:00:00.000001+00");
    EXPECT(world, result != NULL && db_rows(result) == 3, "%d rows from the tie on",
           result == NULL ? -1 : db_rows(result));
    result = claim_from(world, "702", "4", "2020-01-01 12:00:00.000001+00");
    EXPECT(world, result != NULL && db_rows(result) == 0, "a more urgent one came in its turn");
    result = claim_from(world, "703", NULL, NULL);
    EXPECT(world, result != NULL && db_rows(result) == 1, "the front was missed");
    return world_is_sound(world);
}

bool a_claim_of_nothing_leaves_nothing(struct world *world) {
    EXPECT(world, claimed(world, NODE_ONE, STAGE_A) == 0, "rows out of nothing");
    EXPECT(world, world_int(world, "select count(*) from pgstage.claim_batch") == 0,
           "an empty batch");
    return world_is_sound(world);
}

/* The older version's output is no input of the newer one, though it is still there. */
bool an_input_is_of_this_version(struct world *world) {
    char stage_b[24], stage_a[24], node[24];
    snprintf(stage_b, sizeof stage_b, "%d", world->stages[STAGE_B]);
    snprintf(stage_a, sizeof stage_a, "%d", world->stages[STAGE_A]);
    snprintf(node, sizeof node, "%d", NODE_ONE);
    int64_t task = world_submit(world, "k");
    for (int version = 1; version <= 2; version++) {
        int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
        struct move next = {.task = task,
                            .claim = claim,
                            .count = 1,
                            .ending = "next",
                            .output = version == 1 ? "1" : NULL};
        world_complete(world, world->one, &next);
        const struct db_result *result =
            world_call(world, world->one, &sql_claim, 7, stage_b, "1", version == 1 ? "801" : "802",
                       node, NULL, NULL, stage_a);
        EXPECT(world, result != NULL && db_rows(result) == 1, "it was not claimed");
        EXPECT(world, db_is_null(result, 0, 4) == (version == 2), "version %d has the input '%s'",
               version, db_value(result, 0, 4));
        world_release(world, NODE_ONE, 0, 0);
        world_resubmit(world, task);
    }
    return world_is_sound(world);
}

bool a_claim_begins_at_step_zero(struct world *world) {
    int64_t task = world_submit(world, "k");
    for (int stage = 0; stage < STAGE_COUNT; stage++) {
        int64_t claim = world_claim(world, NODE_ONE, stage, 1, NULL);
        struct move next = {
            .task = task, .claim = claim, .count = 1, .first = stage, .ending = "next"};
        struct verdict verdict = world_complete(world, world->one, &next);
        EXPECT(world, scenario_is(&verdict, "accepted"), "stage %d: %s", stage, verdict.answer);
    }
    return world_is_sound(world);
}
