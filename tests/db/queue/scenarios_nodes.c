/* Scenarios of leases, leadership, batches, fences and counts. C03, C10. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenarios.h"

static int rows_of(const struct db_result *result) {
    return result == NULL ? -1 : db_rows(result);
}

static int beat(struct world *world, const char *node) {
    return rows_of(world_call(world, world->one, &sql_beat, 2, node, "60000"));
}

bool an_ended_lease_does_not_revive(struct world *world) {
    EXPECT(world, beat(world, "11") == 1, "a live lease was not renewed");
    EXPECT(world,
           world_int(world,
                     "select count(*) from pgstage.node where id = 11 and lease_until between"
                     " now() + interval '50 s' and now() + interval '70 s'") == 1,
           "the lease has another length");
    /* Its time is over, and nobody has noticed yet. */
    world_sql(world, world->eye,
              "update pgstage.node set lease_until = now() - interval '1 ms' where id = 11");
    EXPECT(world, beat(world, "11") == 0, "a lease revived after its time");
    /* Proven dead before its time was over. */
    world_call(world, world->one, &sql_end_nodes, 2, "{12}", "host");
    EXPECT(world, beat(world, "12") == 0, "an ended lease revived");
    EXPECT(world, beat(world, "999") == 0, "an unknown node beat");
    EXPECT(world, beat(world, "13") == 1, "another's lease was touched");
    return world_is_sound(world);
}

bool leases_end_in_time(struct world *world) {
    EXPECT(world, rows_of(world_call(world, world->one, &sql_end_leases, 0)) == 0,
           "a live lease was ended");
    world_sql(world, world->eye, "update pgstage.node set lease_until = now() where id = 11");
    EXPECT(world, rows_of(world_call(world, world->one, &sql_end_leases, 0)) == 1,
           "it was not ended");
    EXPECT(world, rows_of(world_call(world, world->one, &sql_end_leases, 0)) == 0,
           "it was ended twice");
    return world_is_sound(world);
}

bool a_dead_peer_is_of_the_same_host(struct world *world) {
    world_sql(world, world->eye, "update pgstage.node set host = 'other' where id = 12");
    EXPECT(world, rows_of(world_call(world, world->one, &sql_node_peers, 2, "host", "11")) == 1,
           "not one peer");
    EXPECT(world, rows_of(world_call(world, world->one, &sql_end_nodes, 2, "{11,12}", "host")) == 1,
           "not one ended");
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.node where ended and id = 11") == 1,
           "the wrong one");
    EXPECT(world, rows_of(world_call(world, world->one, &sql_node_peers, 2, "host", "13")) == 0,
           "an ended peer");
    return world_is_sound(world);
}

/* 0: does not lead. */
static int64_t lead(struct world *world, const char *node) {
    const struct db_result *result = world_call(world, world->one, &sql_lead, 2, node, "60000");
    return result == NULL || db_rows(result) == 0 ? 0 : db_int64(result, 0, 0);
}

/* C10: by the database's word only, and each change of hands is another term. */
bool one_node_leads(struct world *world) {
    EXPECT(world, lead(world, "999") == 0, "an unknown node leads");
    EXPECT(world, lead(world, "11") == 1, "the first does not lead");
    EXPECT(world, lead(world, "11") == 1, "a renewal is another term");
    EXPECT(world, lead(world, "12") == 0, "two lead");
    world_sql(world, world->eye, "update pgstage.leader set until = now() - interval '1 ms'");
    EXPECT(world, lead(world, "11") == 2, "a term that had ended went on");
    world_sql(world, world->eye, "update pgstage.leader set until = now() - interval '1 ms'");
    EXPECT(world, lead(world, "12") == 3, "nobody takes over");
    EXPECT(world, lead(world, "11") == 0, "the old leader leads on");
    world_call(world, world->one, &sql_lead_end, 1, "11");
    EXPECT(world, lead(world, "11") == 0, "one who did not lead gave it away");
    world_call(world, world->one, &sql_lead_end, 1, "12");
    EXPECT(world, lead(world, "11") == 4, "what was given back is not to be had");
    world_end_lease(world, NODE_ONE);
    EXPECT(world, lead(world, "11") == 0, "an ended node leads");
    /* Two at once on an empty table. */
    world_sql(world, world->eye, "delete from pgstage.leader");
    world_script(world, world->two, "begin");
    const struct db_result *first = world_call(world, world->two, &sql_lead, 2, "12", "60000");
    world_begin_call(world, &sql_lead, 2, "13", "60000");
    world_script(world, world->two, "commit");
    EXPECT(world, rows_of(first) == 1 && rows_of(world_join(world)) == 0, "two lead at once");
    return world_is_sound(world);
}

/* The leader's row, in seconds from now. */
static int64_t leads_for_s(struct world *world) {
    return world_int(world, "select round(extract(epoch from until - pgstage.now())) from pgstage.leader");
}

/* A leader whose heartbeats do not come through is replaced while its lease still runs. Leases of 60 s. */
bool leadership_ends_before_the_lease(struct world *world) {
    world_sql(world, world->eye, "update pgstage.node set lease_until = pgstage.now() + interval '10 min' where id = 11");
    EXPECT(world, lead(world, "11") == 1 && leads_for_s(world) == 40, "it leads for %" PRId64 " s", leads_for_s(world));
    world_sql(world, world->eye, "update pgstage.node set lease_until = pgstage.now() + interval '50 s' where id = 11");
    EXPECT(world, lead(world, "11") == 1 && leads_for_s(world) == 30, "it leads for %" PRId64 " s", leads_for_s(world));
    world_sql(world, world->eye, "update pgstage.node set lease_until = pgstage.now() + interval '19 s' where id = 11");
    EXPECT(world, lead(world, "11") == 0, "it leads on with a lease that nobody renews");
    world_call(world, world->one, &sql_lead_end, 1, "11");
    world_sql(world, world->eye, "update pgstage.node set ended = true, lease_until = pgstage.now() + interval '10 min' where id = 12");
    EXPECT(world, lead(world, "12") == 0, "one leads that went, with time left on its lease");
    return world_is_sound(world);
}

static int64_t batches(struct world *world) {
    return world_int(world, "select count(*) from pgstage.claim_batch");
}

bool a_batch_goes_with_its_last_task(struct world *world) {
    int64_t first = world_submit(world, "k1");
    int64_t second = world_submit(world, "k2");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 2, NULL);
    char text[32];
    snprintf(text, sizeof text, "{%" PRId64 "}", claim);
    struct move next = {.task = first, .claim = claim, .count = 1, .ending = "next"};
    world_complete(world, world->one, &next);
    world_call(world, world->one, &sql_drop_claims, 2, "11", text);
    world_call(world, world->one, &sql_drop_empty_claims, 2, "11", "{}");
    EXPECT(world, batches(world) == 1 && world_is_sound(world),
           "a batch went with a task running in it");
    /* The next stage's claim of the same task does not keep the old batch. */
    int64_t other = world_claim(world, NODE_ONE, STAGE_B, 1, NULL);
    next.task = second;
    world_complete(world, world->one, &next);
    world_call(world, world->one, &sql_drop_claims, 2, "12", text);
    EXPECT(world, batches(world) == 2, "another node dropped it");
    world_call(world, world->one, &sql_drop_claims, 2, "11", text);
    EXPECT(world, batches(world) == 1, "the batch stayed");
    /* What the node knows is not looked at; what it does not know goes when nothing runs under it.
     */
    struct move mid = {
        .task = first, .claim = other, .count = 1, .first = STAGE_B, .ending = "next"};
    world_complete(world, world->one, &mid);
    snprintf(text, sizeof text, "{%" PRId64 "}", other);
    world_call(world, world->one, &sql_drop_empty_claims, 2, "11", text);
    world_call(world, world->one, &sql_drop_empty_claims, 2, "12", "{}");
    EXPECT(world, batches(world) == 1, "a known batch, or another node's, was dropped");
    world_call(world, world->one, &sql_drop_empty_claims, 2, "11", "{}");
    EXPECT(world, batches(world) == 0, "an unknown batch stayed");
    return world_is_sound(world);
}

bool nodes_are_forgotten_when_they_hold_nothing(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_end_lease(world, NODE_ONE);
    world_call(world, world->one, &sql_forget_nodes, 0);
    EXPECT(world, batches(world) == 1 && world_is_sound(world), "what runs was forgotten");
    EXPECT(world, world_int(world, "select count(*) from pgstage.node") == 3,
           "a node that holds something was forgotten");
    world_rescue(world);
    world_call(world, world->one, &sql_forget_nodes, 0);
    world_call(world, world->one, &sql_forget_nodes, 0);
    EXPECT(world, batches(world) == 0 && world_int(world, "select count(*) from pgstage.node") == 2,
           "%d batches, %d nodes", (int)batches(world),
           (int)world_int(world, "select count(*) from pgstage.node"));
    /* A batch of a live node that is empty for the moment is its own affair. */
    claim = world_claim(world, NODE_TWO, STAGE_A, 1, NULL);
    struct move next = {.task = task, .claim = claim, .count = 1, .ending = "next"};
    world_complete(world, world->one, &next);
    world_call(world, world->one, &sql_forget_nodes, 0);
    EXPECT(world, batches(world) == 1, "a live node's batch was taken");
    return world_is_sound(world);
}

bool a_node_ends_with_what_it_holds(struct world *world) {
    world_submit(world, "k1");
    world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_call(world, world->one, &sql_node_end, 1, "11");
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.node where ended and id = 11") == 1,
           "it is not ended");
    EXPECT(world, batches(world) == 1, "what it holds was forgotten");
    EXPECT(world, rows_of(world_rescue(world)) == 1, "what it holds is lost");
    return world_is_sound(world);
}

/* ---- fences ---- */

struct fence {
    int64_t task, claim;
    int low, high;
};

static bool is_held(struct world *world, const struct fence *fence, bool expected,
                    const char *what) {
    char sql[256];
    snprintf(sql, sizeof sql,
             "select pgstage.hold_fences(array[%" PRId64 "], array[%" PRId64
             "], array[%d], array[%d])",
             fence->task, fence->claim, fence->low, fence->high);
    world_script(world, world->one, "begin; select set_config('pgstage.effect', 'on', true)");
    if (expected) {
        world_sql(world, world->one, "%s", sql);
    } else {
        world_expect(world, world_fails(world, world->one, "P0F01", "%s", sql), "%s", what);
    }
    world_script(world, world->one, "rollback");
    return world->why[0] == '\0';
}

bool fences_hold_what_they_check(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct fence fence = {task, claim, 0, 0};
    EXPECT(world, is_held(world, &fence, true, ""), "it is not held");
    fence.claim = claim + 1;
    EXPECT(world, is_held(world, &fence, false, "another claim is held"), "-");
    fence = (struct fence){task, claim, 1, 1};
    EXPECT(world, is_held(world, &fence, false, "a step that is not reached is held"), "-");
    struct move stay = {.task = task, .claim = claim, .count = 1, .ending = "stay"};
    world_complete(world, world->one, &stay);
    EXPECT(world, is_held(world, &fence, true, ""), "it is not held");
    fence = (struct fence){task, claim, 0, 1};
    EXPECT(world, is_held(world, &fence, true, ""), "it is not held");
    fence = (struct fence){task, claim, 0, 0};
    EXPECT(world, is_held(world, &fence, false, "a step that is past is held"), "-");
    fence = (struct fence){task + 1, claim, 0, 9};
    EXPECT(world, is_held(world, &fence, false, "a task that is not there is held"), "-");
    fence = (struct fence){task, claim, 0, 9};
    world_release(world, NODE_ONE, 0, 0);
    EXPECT(world, is_held(world, &fence, false, "a task that has left is held"), "-");
    /* The transaction that it belongs to was ended by a statement. */
    world_fails(world, world->one, "2D000", "select pgstage.hold_fences('{}', '{}', '{}', '{}')");
    return world_is_sound(world);
}

bool fences_lock_what_they_check(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_script(world, world->two, "begin; select set_config('pgstage.effect', 'on', true)");
    world_sql(world, world->two,
              "select pgstage.hold_fences(array[%" PRId64 "], array[%" PRId64 "], '{0}', '{0}')",
              task, claim);
    struct move next = {.task = task, .claim = claim, .count = 1, .ending = "next"};
    struct verdict verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "busy"), "%s under a held fence", verdict.answer);
    world_script(world, world->two, "rollback");
    return world_is_sound(world);
}

bool steps_are_required(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move next = {.task = task, .claim = claim, .count = 1, .ending = "next"};
    world_complete(world, world->one, &next);
    world_sql(world, world->one,
              "select pgstage.require_steps(array[%" PRId64 "], array[%" PRId64 "], '{1}')", task,
              claim);
    world_fails(world, world->one, "P0F01",
                "select pgstage.require_steps(array[%" PRId64 "], array[%" PRId64 "], '{2}')", task,
                claim);
    world_fails(world, world->one, "P0F01",
                "select pgstage.require_steps(array[%" PRId64 "], array[%" PRId64 "], '{1}')", task,
                claim + 1);
    world_fails(world, world->one, "P0F01",
                "select pgstage.require_steps(array[%" PRId64 "], array[%" PRId64 "], '{1}')",
                task + 1, claim);
    return world_is_sound(world);
}

static const char *look(struct world *world, const struct move *move) {
    char texts[6][32];
    const int64_t numbers[] = {move->task,
                               move->claim,
                               move->step,
                               move->count,
                               world->stages[move->first],
                               move->revision != 0 ? move->revision : 1};
    for (int i = 0; i < 6; i++) {
        snprintf(texts[i], sizeof *texts, "{%" PRId64 "}", numbers[i]);
    }
    char ending[32];
    snprintf(ending, sizeof ending, "{%s}", move->ending);
    const struct db_result *result =
        world_call(world, world->one, &sql_look_at_fences, 7, texts[0], texts[1], texts[2],
                   texts[3], texts[4], texts[5], ending);
    return rows_of(result) == 1 ? db_value(result, 0, 1) : "nothing";
}

bool a_look_tells_held_applied_and_lost(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move stay = {.task = task, .claim = claim, .count = 1, .ending = "stay"};
    EXPECT(world, strcmp(look(world, &stay), "held") == 0, "%s before", look(world, &stay));
    struct move other = stay;
    other.claim++;
    EXPECT(world, strcmp(look(world, &other), "lost") == 0, "another claim is %s",
           look(world, &other));
    other = stay;
    other.step = 1;
    EXPECT(world, strcmp(look(world, &other), "lost") == 0, "a later step is %s",
           look(world, &other));
    other = stay;
    other.task++;
    EXPECT(world, strcmp(look(world, &other), "lost") == 0, "another task is %s",
           look(world, &other));
    world_complete(world, world->one, &stay);
    EXPECT(world, strcmp(look(world, &stay), "applied") == 0, "%s after", look(world, &stay));
    struct move grown = stay;
    grown.count = 2;
    grown.ending = "next";
    EXPECT(world, strcmp(look(world, &grown), "held") == 0, "grown it is %s", look(world, &grown));
    world_complete(world, world->one, &grown);
    EXPECT(world, strcmp(look(world, &grown), "applied") == 0, "left it is %s",
           look(world, &grown));
    EXPECT(world, strcmp(look(world, &stay), "lost") == 0, "an older one is %s",
           look(world, &stay));
    /* One that was to stay, and was released since. */
    int64_t second = world_submit(world, "k2");
    stay.task = second;
    stay.claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_complete(world, world->one, &stay);
    world_release(world, NODE_ONE, 0, 0);
    EXPECT(world, strcmp(look(world, &stay), "lost") == 0, "released it is %s", look(world, &stay));
    stay.count = 2;
    EXPECT(world, strcmp(look(world, &stay), "lost") == 0, "released and longer it is %s",
           look(world, &stay));
    stay.count = 1;
    /* An older definition. */
    stay.task = world_submit(world, "k3");
    stay.claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_revise(world, "{a,c}");
    EXPECT(world, strcmp(look(world, &stay), "held") == 0, "what agrees is %s", look(world, &stay));
    stay.count = 2;
    EXPECT(world, strcmp(look(world, &stay), "lost") == 0, "what does not agree is %s",
           look(world, &stay));
    world_revise(world, "{b,c}");
    stay.count = 1;
    EXPECT(world, strcmp(look(world, &stay), "lost") == 0, "a stage that is gone is %s",
           look(world, &stay));
    stay.revision = 3;
    EXPECT(world, strcmp(look(world, &stay), "lost") == 0, "a stage that was never there is %s",
           look(world, &stay));
    return world_is_sound(world);
}

bool news_are_of_this_claim(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    char tasks[32], mine[32], others[32];
    snprintf(tasks, sizeof tasks, "{%" PRId64 "}", task);
    snprintf(mine, sizeof mine, "{%" PRId64 "}", claim);
    snprintf(others, sizeof others, "{%" PRId64 "}", claim + 1);
    EXPECT(world, rows_of(world_call(world, world->one, &sql_told, 2, tasks, mine)) == 0,
           "news out of nothing");
    world_resubmit(world, task);
    const struct db_result *told = world_call(world, world->one, &sql_told, 2, tasks, mine);
    EXPECT(world, rows_of(told) == 1 && db_bool(told, 0, 2) && !db_bool(told, 0, 3),
           "not told of a newer version");
    world_cancel(world, task);
    told = world_call(world, world->one, &sql_told, 2, tasks, mine);
    EXPECT(world, rows_of(told) == 1 && db_bool(told, 0, 2) && db_bool(told, 0, 3),
           "not told of a wish");
    EXPECT(world, rows_of(world_call(world, world->one, &sql_told, 2, tasks, others)) == 0,
           "told of another's claim");
    return world_is_sound(world);
}

bool news_of_a_wish_alone(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    char tasks[32], claims[32];
    snprintf(tasks, sizeof tasks, "{%" PRId64 "}", task);
    snprintf(claims, sizeof claims, "{%" PRId64 "}", claim);
    world_cancel(world, task);
    const struct db_result *told = world_call(world, world->one, &sql_told, 2, tasks, claims);
    EXPECT(world, rows_of(told) == 1 && !db_bool(told, 0, 2) && db_bool(told, 0, 3),
           "not told of a wish");
    return world_is_sound(world);
}

bool folding_keeps_the_sums(struct world *world) {
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            char key[16];
            snprintf(key, sizeof key, "k%d.%d", round, i);
            world_submit(world, key);
        }
        world_claim(world, NODE_ONE, STAGE_A, 2, NULL);
        world_call(world, world->one, &sql_fold_counts, 0);
        EXPECT(world, world_int(world, "select count(*) from pgstage.task_count_delta") == 0,
               "deltas were left");
        EXPECT(world, world_is_sound(world), "-");
    }
    /* What another session adds meanwhile is folded next time. */
    world_script(world, world->two,
                 "begin; select * from pgstage.submit_set('p', '{z}', '{1}', '{NULL}', '{0}', "
                 "'{NULL}', false)");
    world_submit(world, "y");
    world_call(world, world->one, &sql_fold_counts, 0);
    world_script(world, world->two, "commit");
    EXPECT(world, world_is_sound(world), "-");
    return world_is_sound(world);
}
