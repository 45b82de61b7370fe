/* Scenarios of claim_some.sql: those that are ready longest, and no more than a stage may run. C22. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenarios.h"

static int64_t submit_at(struct world *world, const char *key, int priority, int minutes_ago) {
    int64_t task = world_submit(world, key);
    world_sql(world, world->eye,
              "update pgstage.task set priority = %d, ready_at = now() - %d * interval '1 min' where id = %" PRId64,
              priority, minutes_ago, task);
    return task;
}

static int take(struct world *world, struct db_sync *session, int64_t node, int at_most, bool fair) {
    int count = 0;
    world_claim_some(world, session, node, STAGE_A, at_most, fair, &count);
    return count;
}

static int64_t running(struct world *world) {
    return world_int(world, "select count(*) from pgstage.task where status = 'running'");
}

bool a_fair_claim_takes_the_longest_ready(struct world *world) {
    int64_t third = submit_at(world, "k3", -5, 7), first = submit_at(world, "k1", 5, 9);
    int64_t fourth = submit_at(world, "k4", -5, 1), second = submit_at(world, "k2", 0, 8);
    int count = 0;
    int64_t claim = world_claim_some(world, world->one, NODE_ONE, STAGE_A, 2, true, &count);
    EXPECT(world, count == 2 && world_row(world, first).claim == claim && world_row(world, second).claim == claim,
           "%d rows, others than the two oldest", count);
    claim = world_claim_some(world, world->one, NODE_ONE, STAGE_A, 1, false, &count);
    EXPECT(world, count == 1 && world_row(world, third).claim == claim, "the most urgent is not the next one");
    EXPECT(world, take(world, world->one, NODE_ONE, 9, true) == 1 && world_row(world, fourth).node == NODE_ONE,
           "the last one was left");
    EXPECT(world, world_int(world, "select count(*) from pgstage.claim_batch") == 3, "batches are missing");
    return world_is_sound(world);
}

/* However many are locked, at whatever priority: it looks further back. */
bool a_fair_claim_passes_by_locked_rows(struct world *world) {
    for (int i = 0; i < 12; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        submit_at(world, key, i % 3, 100 - i);
    }
    world_script(world, world->two,
                 "begin; select * from pgstage.task where key not in ('k9', 'k11') for update");
    int count = 0;
    int64_t claim = world_claim_some(world, world->one, NODE_ONE, STAGE_A, 1, true, &count);
    EXPECT(world,
           count == 1 && world_int(world, "select count(*) from pgstage.task where key = 'k9' and claim = %" PRId64,
                                   claim) == 1,
           "%d rows", count);
    EXPECT(world, take(world, world->one, NODE_ONE, 5, true) == 1, "the other one was left");
    EXPECT(world, take(world, world->one, NODE_ONE, 5, true) == 0, "rows out of nothing");
    world_script(world, world->two, "commit");
    EXPECT(world, take(world, world->one, NODE_ONE, 50, true) == 10, "the locked ones were not left");
    return world_is_sound(world);
}

static void claim_the_first(struct world *world, void *context) {
    *(int *)context = take(world, world->eye, NODE_TWO, 1, false);
}

bool a_fair_claim_keeps_the_fences(struct world *world) {
    submit_at(world, "k1", 0, 9);
    submit_at(world, "k2", 0, 8);
    world_sql(world, world->eye, "update pgstage.stage set paused = true");
    EXPECT(world, take(world, world->one, NODE_ONE, 5, true) == 0, "a paused stage was claimed");
    world_sql(world, world->eye, "update pgstage.stage set paused = false");
    world_sql(world, world->eye, "update pgstage.pipeline set paused = true");
    EXPECT(world, take(world, world->one, NODE_ONE, 5, true) == 0, "a paused pipeline was claimed");
    world_sql(world, world->eye, "update pgstage.pipeline set paused = false");
    world_end_lease(world, NODE_ONE);
    EXPECT(world, take(world, world->one, NODE_ONE, 5, true) == 0, "an ended node claimed");
    int count = 0;
    world_claim_some(world, world->one, NODE_TWO, STAGE_B, 5, true, &count);
    EXPECT(world, count == 0, "another stage's task");
    int64_t claim = world_claim_some(world, world->one, NODE_TWO, STAGE_A, 1, true, &count);
    EXPECT(world, count == 1, "%d rows", count);
    world->last_claim = claim - 1001; /* the same number once more */
    EXPECT(world, take(world, world->one, NODE_TWO, 5, true) == 0, "sent again it took rows");
    return world_is_sound(world);
}

/* It stops after its snapshot, where it asks for the priorities, and the first row is taken meanwhile. */
bool a_fair_claim_leaves_what_was_taken_meanwhile(struct world *world) {
    submit_at(world, "k1", 0, 9);
    submit_at(world, "k2", 0, 8);
    const char *original =
        world_text(world, "select pg_get_functiondef('pgstage.ready_priorities(int)'::regprocedure)");
    world_script(world, world->eye,
                 "create or replace function pgstage.ready_priorities(stage int) returns setof int language plpgsql stable"
                 " as $$ begin perform pg_advisory_xact_lock(77); return query select 0; end $$");
    char stage[24], claim[24];
    int meanwhile = 0;
    snprintf(stage, sizeof stage, "%d", world->stages[STAGE_A]);
    snprintf(claim, sizeof claim, "%" PRId64, world_new_claim(world));
    world_script(world, world->two, "select pg_advisory_lock(77)");
    world_begin_call(world, &sql_claim_some, 8, stage, "5", claim, "11", NULL, NULL, NULL, "t");
    claim_the_first(world, &meanwhile);
    world_script(world, world->two, "select pg_advisory_unlock(77)");
    const struct db_result *result = world_join(world);
    world_script(world, world->eye, original);
    EXPECT(world, meanwhile == 1 && result != NULL && db_rows(result) == 1, "%d rows meanwhile, %d after", meanwhile,
           result == NULL ? -1 : db_rows(result));
    return world_is_sound(world);
}

/* ---- a limit ---- */

static void limit(struct world *world, int most) {
    world_sql(world, world->eye, "select pgstage.settle(%d, '{\"stages\": {\"a\": {\"max_running\": %d}}}')",
              world->pipeline, most);
}

static void submit_many(struct world *world, int count) {
    for (int i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        world_submit(world, key);
    }
}

bool a_limit_counts_what_runs(struct world *world) {
    submit_many(world, 8);
    limit(world, 3);
    int plain = 0;
    world_claim(world, NODE_ONE, STAGE_A, 5, &plain);
    EXPECT(world, plain == 0, "a claim that does not count took %d", plain);
    EXPECT(world, take(world, world->one, NODE_ONE, 2, false) == 2, "there are places");
    EXPECT(world, take(world, world->one, NODE_TWO, 5, false) == 1, "there is one place");
    EXPECT(world, take(world, world->one, NODE_ONE, 5, true) == 0, "there is no place");
    EXPECT(world, running(world) == 3, "%d run", (int)running(world));
    /* What has gone on, under whatever claim, takes no place here. */
    int64_t task = world_int(world, "select min(id) from pgstage.task where status = 'running'");
    struct move stay = {.task = task, .claim = world_row(world, task).claim, .count = 1, .ending = "stay"};
    world_complete(world, world->one, &stay);
    EXPECT(world, take(world, world->one, NODE_TWO, 5, false) == 1, "a place is not seen");
    /* What came here under a claim of another stage does. */
    world_revise(world, "{b,a,c}");
    world_sql(world, world->eye, "update pgstage.task set stage = %d where id = %" PRId64, world->stages[STAGE_A], task);
    world_sql(world, world->eye, "update pgstage.claim_batch set stage = %d where %" PRId64 " = any(ids)",
              world->stages[STAGE_B], task);
    limit(world, 4);
    EXPECT(world, take(world, world->one, NODE_TWO, 5, false) == 0, "%d run", (int)running(world));
    limit(world, 5);
    EXPECT(world, take(world, world->one, NODE_TWO, 5, false) == 1, "the limit did not rise");
    return world->why[0] == '\0';
}

bool a_limit_is_for_one_claimer_at_a_time(struct world *world) {
    submit_many(world, 3);
    limit(world, 1);
    world_script(world, world->two, "begin");
    EXPECT(world, take(world, world->two, NODE_TWO, 1, false) == 1, "nothing was claimed");
    EXPECT(world, take(world, world->one, NODE_ONE, 1, false) == -1, "it is not told that another one claims");
    world_script(world, world->two, "commit");
    EXPECT(world, take(world, world->one, NODE_ONE, 1, false) == 0, "one more than may run");
    EXPECT(world, running(world) == 1, "%d run", (int)running(world));
    return world_is_sound(world);
}

/* The claims of another session may be committed after a statement took its snapshot, and before it gets the lock. */
bool a_limit_counts_with_a_fresh_snapshot(struct world *world) {
    submit_many(world, 3);
    limit(world, 1);
    char stage[24], claim[24];
    snprintf(stage, sizeof stage, "%d", world->stages[STAGE_A]);
    snprintf(claim, sizeof claim, "%" PRId64, world_new_claim(world));
    int meanwhile = 0;
    const struct db_result *result = world_race(world, &sql_claim_some, claim_the_first, &meanwhile, 8, stage, "1",
                                                claim, "11", NULL, NULL, NULL, "f");
    EXPECT(world, meanwhile == 1 && result != NULL && db_rows(result) == 0 && running(world) == 1, "%d run",
           (int)running(world));
    world_release(world, NODE_TWO, 0, 0);
    /* A test without the guard stops between its count and its lock, at 78. */
    world_script(world, world->two, "select pg_advisory_lock(78)");
    snprintf(claim, sizeof claim, "%" PRId64, world_new_claim(world));
    world_begin_call(world, &sql_claim_some, 8, stage, "1", claim, "11", NULL, NULL, NULL, "f");
    claim_the_first(world, &meanwhile);
    world_script(world, world->two, "select pg_advisory_unlock(78)");
    world_join(world);
    EXPECT(world, running(world) == 1, "%d run", (int)running(world));
    return world_is_sound(world);
}

bool a_place_is_free_when_its_holder_is_gone(struct world *world) {
    submit_many(world, 4);
    limit(world, 1);
    int64_t claim = 0;
    int count = 0;
    claim = world_claim_some(world, world->one, NODE_ONE, STAGE_A, 1, false, &count);
    EXPECT(world, count == 1 && take(world, world->one, NODE_TWO, 1, false) == 0, "%d rows", count);
    world_end_lease(world, NODE_ONE);
    EXPECT(world, take(world, world->one, NODE_TWO, 1, false) == 0, "it runs until it is rescued");
    world_rescue(world);
    EXPECT(world, take(world, world->one, NODE_TWO, 1, false) == 1, "the place is not free");
    world_release(world, NODE_TWO, 0, 0);
    claim = world_claim_some(world, world->one, NODE_TWO, STAGE_A, 1, false, &count);
    int64_t task = world_int(world, "select id from pgstage.task where status = 'running'");
    struct move fails = {.task = task, .claim = claim, .ending = "failed", .kind = "permanent"};
    world_complete(world, world->one, &fails);
    EXPECT(world, take(world, world->one, NODE_TWO, 5, false) == 1, "a failure keeps the place");
    return world_is_sound(world);
}

bool settings_make_limits_hold(struct world *world) {
    world_sql(world, world->eye,
              "select pgstage.register('q', 'one', '{x,y}', 'apply', null,"
              " '{\"max_steps\": 7, \"stages\": {\"y\": {\"max_running\": 2}}}')");
    EXPECT(world,
           world_int(world, "select max_steps from pgstage.pipeline where name = 'q'") == 7 &&
               world_int(world, "select count(*) from pgstage.stage where max_running is not null") == 1 &&
               world_int(world, "select max_running from pgstage.stage where name = 'y'") == 2,
           "they do not hold");
    /* The next definition does not have them. */
    world_sql(world, world->eye, "select pgstage.register('q', 'two', '{x,y}', 'apply', null, '{}')");
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.stage where max_running is not null") == 0 &&
               world_int(world, "select count(*) from pgstage.pipeline where max_steps is not null") == 0,
           "they still hold");
    const struct db_result *states =
        world_call(world, world->one, &sql_pipelines_state, 3, "{1}", "f", "{}");
    EXPECT(world, states != NULL && db_rows(states) == 1 && !db_bool(states, 0, 4), "a state says so");
    limit(world, 1);
    states = world_call(world, world->one, &sql_pipelines_state, 3, "{1}", "f", "{}");
    EXPECT(world, states != NULL && db_rows(states) == 1 && db_bool(states, 0, 4), "no state says so");
    return world_is_sound(world);
}
