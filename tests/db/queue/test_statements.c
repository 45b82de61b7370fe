/* Every statement of sql/statements is one statement that PostgreSQL prepares, and its comment
 * declares its parameters. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "scenarios.h"

TestSuite(statements, .timeout = 300);

/* The comment lines in front; the rest. */
static size_t comment_length(const char *text) {
    const char *at = text;
    while (strncmp(at, "--", 2) == 0) {
        at += strcspn(at, "\n") + 1;
    }
    return (size_t)(at - text);
}

/* Highest $n, and whether each from 1 on occurs. */
static int count_params(const char *text, size_t length, bool *complete) {
    bool seen[100] = {false};
    int highest = 0;
    for (size_t i = 0; i + 1 < length; i++) {
        int number = text[i] == '$' ? atoi(text + i + 1) : 0;
        if (number > 0 && number < 100) {
            seen[number] = true;
            highest = number > highest ? number : highest;
        }
    }
    *complete = true;
    for (int i = 1; i <= highest; i++) {
        *complete = *complete && seen[i];
    }
    return highest;
}

Test(statements, are_prepared_with_the_parameters_that_they_declare) {
    struct world *world = world_open();
    int count = 0;
    for (; sql_all_statements[count] != NULL; count++) {
        const struct sql_statement *sql = sql_all_statements[count];
        char *prepare = mem_format("prepare \"%s\" as %s", sql->name, sql->text);
        struct error err = ERROR_NONE;
        enum status code = sync_run(world->eye, NULL, prepare, 0, NULL, NULL, &err);
        cr_expect_eq(code, STATUS_OK, "%s: %s", sql->name, err.text);
        free(prepare);
        size_t comment = comment_length(sql->text);
        cr_expect_gt(comment, 0, "%s has no comment", sql->name);
        bool in_comment = true, in_text = true;
        int declared = count_params(sql->text, comment, &in_comment);
        int used = count_params(sql->text + comment, strlen(sql->text) - comment, &in_text);
        int64_t prepared =
            world_int(world,
                      "select cardinality(parameter_types) from pg_prepared_statements"
                      " where name = '%s'",
                      sql->name);
        cr_expect(in_text, "%s leaves out a parameter", sql->name);
        /* A comment may say "$1 .. $7"; its highest is what counts. */
        cr_expect_eq(declared, used, "%s declares %d parameters and uses %d", sql->name, declared,
                     used);
        cr_expect_eq(prepared, used, "%s: %d parameters are prepared, %d used", sql->name,
                     (int)prepared, used);
    }
    cr_expect_gt(count, 20);
    world_close(world);
}

/* C09, C62: no plan makes a claim take more than it asks for, or leave what it may take. */
struct plan {
    const char *setting;
};

static const char *const plans[] = {
    "set enable_hashjoin = off",
    "set enable_mergejoin = off",
    "set enable_nestloop = off",
    "set enable_material = off",
    "set enable_sort = off",
    "set enable_indexscan = off",
    "set enable_bitmapscan = off",
    "set enable_seqscan = off",
    "set enable_memoize = off",
    "set enable_incremental_sort = off",
    "set enable_hashjoin = off; set enable_material = off; set enable_sort = off",
    "set enable_hashjoin = off; set enable_mergejoin = off; set enable_material = off; set "
    "enable_indexscan = off",
    "set plan_cache_mode = force_generic_plan",
    "set plan_cache_mode = force_generic_plan; set enable_hashjoin = off; set enable_material = "
    "off",
};

static void claim_all(struct world *world, int at_most, int64_t expected) {
    char size[24], claim[24], stage[24];
    int64_t got = 0;
    for (int round = 0; got < expected; round++) {
        snprintf(size, sizeof size, "%d", at_most);
        snprintf(claim, sizeof claim, "%" PRId64, world_new_claim(world));
        snprintf(stage, sizeof stage, "%d", world->stages[STAGE_A]);
        struct db_param params[7] = {DB_TEXT(stage), DB_TEXT(size), DB_TEXT(claim), DB_TEXT("11"),
                                     DB_NULL,        DB_NULL,       DB_NULL};
        struct db_result *result = NULL;
        struct error err = ERROR_NONE;
        /* Prepared, so that the plan may be generic. */
        cr_assert_eq(sync_run(world->one, "claim", sql_claim.text, 7, params, &result, &err),
                     STATUS_OK, "%s", err.text);
        cr_assert_leq(db_rows(result), at_most, "%d rows instead of %d", db_rows(result), at_most);
        cr_assert_gt(db_rows(result), 0, "%" PRId64 " of %" PRId64 " were left", expected - got,
                     expected);
        int64_t running =
            world_int(world, "select count(*) from pgstage.task where claim = %s", claim);
        cr_assert_eq(running, db_rows(result), "%" PRId64 " rows run, %d were given", running,
                     db_rows(result));
        got += db_rows(result);
        sync_result_free(result);
    }
}

Test(statements, no_plan_claims_more_than_it_asks_for, .timeout = 300) {
    struct world *world = world_open();
    world_script(world, world->eye, "alter table pgstage.task set (autovacuum_enabled = off)");
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        static const int sizes[] = {1, 10};
        for (int k = 0; k < 2; k++) {
            world_reset(world);
            world_sql(world, world->eye,
                      "select count(*) from pgstage.submit_set('p',"
                      " array(select 'k' || i from generate_series(1, 60) i), "
                      "array_fill(null::jsonb, array[60]),"
                      " array_fill(null::timestamptz, array[60]), array_fill(0, array[60]),"
                      " array_fill(null::timestamptz, array[60]), false)");
            world_script(world, world->one, plans[i]);
            claim_all(world, sizes[k], k == 0 ? 12 : 60);
            cr_assert(world_is_sound(world), "%s: %s", plans[i], world->why);
        }
    }
    world_close(world);
}

/* ---- nothing scans the task table in regular work ---- */

enum { MANY = 1000 };

/* An array literal of MANY times `element`, or of 1 .. MANY. Ownership: free() it. */
static char *many(const char *element) {
    struct buf literal;
    buf_init(&literal, 1 << 20);
    for (int i = 1; i <= MANY; i++) {
        buf_append_char(&literal, i == 1 ? '{' : ',');
        if (element != NULL) {
            buf_append_string(&literal, element);
        } else {
            buf_append_format(&literal, "%d", i);
        }
    }
    buf_append_char(&literal, '}');
    char *text = buf_take(&literal);
    buf_finish(&literal);
    return text;
}

static int64_t scans(struct world *world) {
    world_sql(world, world->one, "select pg_stat_force_next_flush()");
    world_sql(world, world->eye, "select pg_stat_force_next_flush()");
    return world_int(world, "select seq_scan from pg_stat_user_tables where schemaname = 'pgstage'"
                            " and relname = 'task'");
}

static void complete_many(struct world *world, const char *ids, const char *ending) {
    char *claims = many("1001"), *zeros = many("0"), *ones = many("1"), *endings = many(ending);
    char *nulls = many("NULL");
    world_call(world, world->one, &sql_complete, 19, ids, claims, zeros, ones, ones, ones, endings,
               zeros, zeros, zeros, zeros, nulls, nulls, nulls, ids, zeros, ones, zeros, "{}");
    free(claims);
    free(zeros);
    free(ones);
    free(endings);
    free(nulls);
}

static void work_once(struct world *world) {
    char *ids = many(NULL), *claims = many("1001"), *zeros = many("0"), *ones = many("1");
    char *endings = many("stay");
    int count = 0;
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, MANY, &count);
    cr_assert(claim == 1001 && count == MANY, "%d rows were claimed", count);
    world_call(world, world->one, &sql_look_at_fences, 7, ids, claims, zeros, ones, ones, ones,
               endings);
    complete_many(world, ids, "stay");
    world_call(world, world->one, &sql_told, 2, ids, claims);
    world_call(world, world->one, &sql_drop_claims, 2, "11", "{1001}");
    world_call(world, world->one, &sql_drop_empty_claims, 2, "11", "{}");
    world_call(world, world->one, &sql_stage_due, 1, "1000");
    world_call(world, world->one, &sql_rescue, 1, "500");
    world_call(world, world->one, &sql_forget_nodes, 0);
    world_release(world, NODE_TWO, 0, 0);
    world_release(world, NODE_ONE, 0, 0);
    world_claim(world, NODE_TWO, STAGE_B, MANY, &count);
    world_end_lease(world, NODE_TWO);
    world_call(world, world->one, &sql_rescue, 1, "500");
    world_call(world, world->one, &sql_forget_nodes, 0);
    world_call(world, world->one, &sql_move_stranded, 1, "500");
    world_call(world, world->one, &sql_fold_counts, 0);
    free(ids);
    free(claims);
    free(zeros);
    free(ones);
    free(endings);
}

/* Whatever the statistics say: they were taken when nothing ran, and a batch is a good part of the
 * table. */
Test(statements, none_scans_the_task_table, .timeout = 300) {
    static const char *const modes[] = {"set plan_cache_mode = force_custom_plan",
                                        "set plan_cache_mode = force_generic_plan"};
    struct world *world = world_open();
    world_script(world, world->eye, "alter table pgstage.task set (autovacuum_enabled = off)");
    for (int i = 0; i < 2; i++) {
        world_reset(world);
        world->last_claim = 0;
        world_sql(
            world, world->eye,
            "select count(*) from pgstage.submit_set('p',"
            " array(select 'k' || i from generate_series(1, 5000) i),"
            " array_fill(null::jsonb, array[5000]), array_fill(null::timestamptz, array[5000]),"
            " array_fill(0, array[5000]), array_fill(null::timestamptz, array[5000]), false)");
        world_script(world, world->eye, "vacuum analyze pgstage.task");
        world_script(world, world->one, modes[i]);
        int64_t before = scans(world);
        work_once(world);
        int64_t after = scans(world);
        cr_assert(world_is_sound(world), "%s", world->why);
        cr_assert_eq(after, before, "%s: the table was scanned %d times", modes[i],
                     (int)(after - before));
    }
    world_close(world);
}
