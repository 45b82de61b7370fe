/* Four claimers at once, as fast as they can: never more run than may. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>

#include "scenarios.h"

TestSuite(limits, .timeout = 120);

enum { CLAIMERS = 4, WANTED = 200, ROUNDS_MAX = 20000, LIMIT = 3 };

static atomic_int claimed; /* by all of them */

static struct claimer {
    pthread_t thread;
    const char *url;
    int number, stage, most, failures;
} claimers[CLAIMERS];

static int64_t ask(struct claimer *claimer, struct db_sync *session, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int64_t ask(struct claimer *claimer, struct db_sync *session, const char *format, ...) {
    char sql[512];
    va_list args;
    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    if (sync_run(session, NULL, sql, 0, NULL, &result, &err) != STATUS_OK) {
        claimer->failures++;
        return 0;
    }
    int64_t value = db_rows(result) > 0 && !db_is_null(result, 0, 0) ? db_int64(result, 0, 0) : 0;
    sync_result_free(result);
    return value;
}

/* Claims, looks how many run, and gives back what it has. */
static void *claim_often(void *context) {
    struct claimer *claimer = context;
    struct db_sync *session = NULL;
    struct error err = ERROR_NONE;
    if (sync_open(claimer->url, "claimer", &session, &err) != STATUS_OK) {
        claimer->failures++;
        return NULL;
    }
    for (int round = 0; round < ROUNDS_MAX && claimed < WANTED; round++) {
        long long claim = 1000000LL * (claimer->number + 1) + round;
        int64_t got = ask(claimer, session,
                          "select count(id) from pgstage.claim_some(%d, 2, %lld, 11, null, null, null, %s)",
                          claimer->stage, claim, round % 2 == 0 ? "true" : "false");
        int64_t running =
            ask(claimer, session, "select count(*) from pgstage.task where status = 'running' and stage = %d",
                claimer->stage);
        claimed += (int)got;
        claimer->most = running > claimer->most ? (int)running : claimer->most;
        if (got > 0) {
            ask(claimer, session,
                "update pgstage.task set status = 'ready', ready_stage = stage where claim = %lld and status = 'running'"
                " returning 1",
                claim);
        }
    }
    sync_close(session);
    return NULL;
}

Test(limits, hold_under_four_claimers) {
    struct world *world = world_open();
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        world_submit(world, key);
    }
    world_sql(world, world->eye, "select pgstage.settle(%d, '{\"stages\": {\"a\": {\"max_running\": %d}}}')",
              world->pipeline, LIMIT);
    for (int i = 0; i < CLAIMERS; i++) {
        claimers[i] = (struct claimer){.url = world->url, .number = i, .stage = world->stages[STAGE_A]};
        cr_assert_eq(pthread_create(&claimers[i].thread, NULL, claim_often, &claimers[i]), 0);
    }
    for (int i = 0; i < CLAIMERS; i++) {
        pthread_join(claimers[i].thread, NULL);
        cr_expect_eq(claimers[i].failures, 0);
        cr_expect_leq(claimers[i].most, LIMIT, "%d ran at once", claimers[i].most);
    }
    cr_assert_geq(claimed, WANTED, "hardly anything was claimed: %d", claimed);
    cr_assert_str_eq(world->why, "");
    world_close(world);
}

/* The loose scan reads the oldest few of each priority, whatever lies behind them. */
Test(limits, a_fair_claim_reads_little) {
    struct world *world = world_open();
    world_sql(world, world->eye,
              "select count(*) from pgstage.submit_set('p', array(select 'k' || i from generate_series(1, 20000) i),"
              " array_fill(null::jsonb, array[20000]), array_fill(null::timestamptz, array[20000]),"
              " array(select i %% 5 from generate_series(1, 20000) i), array_fill(null::timestamptz, array[20000]), false)");
    world_script(world, world->eye, "vacuum analyze pgstage.task");
    world_sql(world, world->one, "select pgstage.lock_oldest(%d, 10)", world->stages[STAGE_A]);
    world_script(world, world->one, "select pg_stat_force_next_flush()");
    int64_t before = world_int(world, "select idx_tup_read from pg_stat_user_indexes where indexrelname = 'task_ready'");
    int64_t scans = world_int(world, "select seq_scan from pg_stat_user_tables where relname = 'task'");
    world_sql(world, world->one, "select pgstage.lock_oldest(%d, 10)", world->stages[STAGE_A]);
    world_script(world, world->one, "select pg_stat_force_next_flush()");
    int64_t read =
        world_int(world, "select idx_tup_read from pg_stat_user_indexes where indexrelname = 'task_ready'") - before;
    cr_assert_leq(read, 200, "%" PRId64 " index entries were read", read);
    cr_assert_eq(world_int(world, "select seq_scan from pg_stat_user_tables where relname = 'task'"), scans);
    world_close(world);
}
