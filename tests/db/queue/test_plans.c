/* C62 and delayed tasks: what a claim reads does not grow with what it does not take, whatever the statistics say. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "scenarios.h"

TestSuite(plans, .timeout = 300);

enum { READY = 10, MANY = 200000 };

/* The first number behind `name` behind `from`. */
static int64_t number_behind(const char *text, const char *from, const char *name) {
    const char *at = strstr(text, from);
    cr_assert_not_null(at, "no '%s' in %s", from, text);
    at = strstr(at, name);
    cr_assert_not_null(at, "no '%s' behind '%s'", name, from);
    return strtoll(at + strlen(name), NULL, 10);
}

/* Buffers that the claim touches to find its rows: the node "picked", with all below it. Nothing is claimed in the end. */
static int64_t buffers_to_pick(struct world *world) {
    char *prepare = mem_format("prepare picking as %s", sql_claim.text);
    world_script(world, world->one, "set plan_cache_mode = force_generic_plan; deallocate all");
    world_script(world, world->one, prepare);
    free(prepare);
    int64_t buffers = 0;
    for (int i = 0; i < 2; i++) { /* the first time fills caches */
        world_script(world, world->one, "begin");
        const struct db_result *plan = world_sql(
            world, world->one, "explain (analyze, buffers, format json) execute picking(%d, %d, 99, %d, null, null, null)",
            world->stages[STAGE_A], READY, NODE_ONE);
        cr_assert_not_null(plan, "%s", world->why);
        const char *text = db_value(plan, 0, 0);
        cr_assert_eq(number_behind(text, "\"CTE picked\"", "\"Actual Rows\": "), READY);
        buffers = number_behind(text, "\"CTE picked\"", "\"Shared Hit Blocks\": ") +
                  number_behind(text, "\"CTE picked\"", "\"Shared Read Blocks\": ");
        world_script(world, world->one, "rollback");
    }
    return buffers;
}

static void add_many(struct world *world, const char *status) {
    world_sql(world, world->eye,
              "insert into pgstage.task (pipeline, key, stage, status, task_updated_at, run_at, due_at, done_version)"
              " select %d, '%s' || i, %d, '%s', now(), d.at, d.at, 1 from generate_series(1, %d) i"
              " cross join (select case when '%s' = 'delayed' then now() + interval '7 days' end as at) d",
              world->pipeline, status, world->stages[STAGE_A], status, MANY, status);
}

static struct world *world_of_ready_rows(void) {
    struct world *world = world_open();
    world_script(world, world->eye, "alter table pgstage.task set (autovacuum_enabled = off)");
    for (int i = 0; i < READY; i++) {
        char key[8];
        snprintf(key, sizeof key, "r%d", i);
        world_submit(world, key);
    }
    return world;
}

static void expect_no_more(struct world *world, int64_t alone, const char *when) {
    int64_t now = buffers_to_pick(world);
    cr_expect_leq(now, alone, "%s: %" PRId64 " buffers, %" PRId64 " without them", when, now, alone);
}

/* Statistics: none, then those of an empty queue, then true ones. */
Test(plans, delayed_and_done_tasks_cost_a_claim_nothing) {
    struct world *world = world_of_ready_rows();
    int64_t alone = buffers_to_pick(world);
    cr_expect_leq(alone, 100, "%" PRId64 " buffers for %d rows", alone, READY);
    add_many(world, "delayed");
    expect_no_more(world, alone, "with delayed ones");
    add_many(world, "done");
    expect_no_more(world, alone, "with done ones");
    world_script(world, world->eye, "analyze pgstage.task");
    expect_no_more(world, alone, "with true statistics");
    cr_assert_str_eq(world->why, "", "%s", world->why);
    world_close(world);
}

Test(plans, statistics_of_an_empty_queue_mislead_no_claim) {
    struct world *world = world_open();
    world_script(world, world->eye, "alter table pgstage.task set (autovacuum_enabled = off)");
    add_many(world, "done");
    world_script(world, world->eye, "analyze pgstage.task");
    for (int i = 0; i < READY; i++) {
        char key[8];
        snprintf(key, sizeof key, "r%d", i);
        world_submit(world, key);
    }
    int64_t buffers = buffers_to_pick(world);
    cr_expect_leq(buffers, 100, "%" PRId64 " buffers for %d rows", buffers, READY);
    cr_assert_str_eq(world->why, "", "%s", world->why);
    world_close(world);
}

/* Buffers that a statement touches in all. */
static int64_t buffers_of(struct world *world, const struct sql_statement *sql, const char *params) {
    char *prepare = mem_format("prepare \"%s\" as %s", sql->name, sql->text);
    world_script(world, world->one, "set plan_cache_mode = force_generic_plan; deallocate all");
    world_script(world, world->one, prepare);
    free(prepare);
    int64_t buffers = 0;
    for (int i = 0; i < 2; i++) { /* the first time fills caches */
        const struct db_result *plan = world_sql(
            world, world->one, "explain (analyze, buffers, format json) execute \"%s\"(%s)", sql->name, params);
        cr_assert_not_null(plan, "%s", world->why);
        const char *text = db_value(plan, 0, 0);
        buffers = number_behind(text, "\"Plan\"", "\"Shared Hit Blocks\": ") +
                  number_behind(text, "\"Plan\"", "\"Shared Read Blocks\": ");
    }
    return buffers;
}

/* A claim is followed by a look for progress: while nobody says any, it touches neither tasks nor progress. What a claim
 * itself reads is as before, for its statement is. */
Test(plans, progress_that_nobody_said_costs_a_claim_nothing) {
    struct world *world = world_of_ready_rows();
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, READY, NULL);
    char claims[64];
    snprintf(claims, sizeof claims, "'{%" PRId64 "}'", claim);
    int64_t none = buffers_of(world, &sql_claimed_progress, claims);
    cr_expect_leq(none, 2, "%" PRId64 " buffers", none);
    /* Progress of others. */
    world_sql(world, world->eye,
              "insert into pgstage.progress select id, stage, version, 0.5, '' from pgstage.task where key <> 'r0'");
    int64_t some = buffers_of(world, &sql_claimed_progress, claims);
    cr_expect_leq(some, 10 * READY, "%" PRId64 " buffers for %d rows", some, READY);
    cr_assert_str_eq(world->why, "", "%s", world->why);
    world_close(world);
}
