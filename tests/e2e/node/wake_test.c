/* wake_test.c - how soon an idle node sees new work, with NOTIFY and without. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rig.h"
#include "support/pg.h"
#include "support/pooler.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: a, sql: select 1}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(wake, .init = init, .fini = finish, .timeout = 120);

static void run_sql(PGconn *pg, const char *sql) {
    PGresult *result = PQexec(pg, sql);
    cr_assert(PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK, "%s: %s", sql,
              PQerrorMessage(pg));
    PQclear(result);
}

static int64_t idle_ms(void) {
    return rig_number(&rig, "select coalesce(min(extract(epoch from clock_timestamp() - state_change) * 1000), 0)::bigint"
                            " from pg_stat_activity where datname = current_database() and application_name = 'pgstage ledger'"
                            " and state = 'idle'");
}

/* A node that found nothing for a while looks once a second. Returns when it has just done so: its next look is far. */
static void await_sleep(void) {
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
    for (int64_t before = 0, now = 0; before < 700 || now > 200; now = idle_ms()) {
        cr_assert(rig_now_ms() < deadline, "it looks all the time");
        before = now;
        rig_pause();
    }
}

/* Commits what was submitted before, when the node is asleep or at once, and says how long the task then waited for its
 * claim. */
static int64_t wait_after_commit(PGconn *pg, bool asleep) {
    run_sql(pg, "create table if not exists committed (at timestamptz)");
    run_sql(pg, "begin");
    run_sql(pg, "select pgstage.submit('p', 'k' || pg_backend_pid())");
    if (asleep) {
        await_sleep();
    }
    run_sql(pg, "insert into committed values (clock_timestamp())");
    run_sql(pg, "commit");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 1);
    return rig_number(&rig, "select (extract(epoch from begin_time - at) * 1000)::bigint from pgstage.task, committed");
}

Test(wake, an_enqueue_in_a_long_transaction_is_seen_within_a_second_of_its_commit) {
    PGconn *pg = PQconnectdb(rig.url);
    rig_start(&rig, 0, "--lease 5s");
    rig_await_log(&rig, 0, "node.up");
    int64_t ms = wait_after_commit(pg, true);
    cr_expect_lt(ms, 700, "%lld ms: its next look has found it, it was not woken", (long long)ms);
    PQfinish(pg);
}

/* It was submitted while the stage was busy, so nobody is notified at its commit. */
Test(wake, also_when_the_stage_was_busy_at_the_time_of_the_enqueue) {
    PGconn *pg = PQconnectdb(rig.url);
    pg_exec(rig.url, "update pgstage.stage set busy_until = pgstage.now() + interval '1 minute'");
    run_sql(pg, "create table committed (at timestamptz); begin");
    run_sql(pg, "select pgstage.submit('p', 'k')");
    pg_exec(rig.url, "update pgstage.stage set busy_until = '-infinity'");
    rig_start(&rig, 0, "--lease 5s");
    rig_await_log(&rig, 0, "node.up");
    await_sleep();
    run_sql(pg, "insert into committed values (clock_timestamp())");
    run_sql(pg, "commit");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 1);
    int64_t ms = rig_number(&rig, "select (extract(epoch from begin_time - at) * 1000)::bigint from pgstage.task, committed");
    cr_expect_lt(ms, 1500, "%lld ms", (long long)ms); /* a look a second, and a busy machine */
    PQfinish(pg);
}

/* Behind a pooler nothing listens at all; nor can be seen from outside which of its sessions is whose. */
Test(wake, without_notify_it_is_seen_by_the_next_look) {
    PGconn *pg = PQconnectdb(rig.url);
    struct pooler_process *pooler = pooler_start("transaction", 3, "");
    char *url = pooler_url(pooler, pg_database_of(rig.url));
    rig.node_url = url;
    rig_start(&rig, 0, "--lease 5s");
    rig_await_log(&rig, 0, "node.up");
    int64_t ms = wait_after_commit(pg, false);
    cr_expect_lt(ms, 1500, "%lld ms", (long long)ms);
    PQfinish(pg);
    pooler_stop(pooler);
    free(url);
}
