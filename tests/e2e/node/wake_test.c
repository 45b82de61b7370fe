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

/* A node that found nothing for a while looks once a second: nobody has said `busy` for the stage lately. */
static void await_sleep(void) {
    rig_await(&rig, "select count(*) from pgstage.stage where busy_until < pgstage.now() - interval '1500 ms'", 1);
}

/* Commits what was submitted three seconds ago, and says how long the task then waited for its claim. */
static int64_t wait_after_commit(PGconn *pg) {
    run_sql(pg, "create table if not exists committed (at timestamptz)");
    run_sql(pg, "begin");
    run_sql(pg, "select pgstage.submit('p', 'k' || pg_backend_pid())");
    await_sleep();
    run_sql(pg, "insert into committed values (clock_timestamp())");
    run_sql(pg, "commit");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 1);
    return rig_number(&rig, "select (extract(epoch from begin_time - at) * 1000)::bigint from pgstage.task, committed");
}

Test(wake, an_enqueue_in_a_long_transaction_is_seen_within_a_second_of_its_commit) {
    PGconn *pg = PQconnectdb(rig.url);
    rig_start(&rig, 0, "--lease 5s");
    rig_await_log(&rig, 0, "node.up");
    int64_t ms = wait_after_commit(pg);
    cr_expect_lt(ms, 1000, "%lld ms", (long long)ms);
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

/* Behind a pooler nothing listens at all. */
Test(wake, without_notify_it_is_seen_by_the_next_look) {
    PGconn *pg = PQconnectdb(rig.url);
    struct pooler_process *pooler = pooler_start("transaction", 3, "");
    char *url = pooler_url(pooler, pg_database_of(rig.url));
    rig.node_url = url;
    rig_start(&rig, 0, "--lease 5s");
    rig_await_log(&rig, 0, "node.up");
    int64_t ms = wait_after_commit(pg);
    cr_expect_lt(ms, 1500, "%lld ms", (long long)ms);
    PQfinish(pg);
    pooler_stop(pooler);
    free(url);
}

/* C58: small commits to a stage that has work do not notify each. */
Test(wake, c58_a_busy_stage_is_not_notified) {
    PGconn *listener = PQconnectdb(rig.url), *pg = PQconnectdb(rig.url);
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: a, sql: select pg_sleep(0.01)}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "before", 3000, "{}");
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.stage where busy_until > pgstage.now()", 1);
    run_sql(listener, "listen pgstage");
    char sql[96];
    for (int i = 0; i < 300; i++) {
        snprintf(sql, sizeof sql, "select pgstage.submit('p', 'k%d')", i);
        run_sql(pg, sql);
    }
    cr_assert_gt(rig_number(&rig, "select count(*) from pgstage.task where status = 'ready'"), 0, "it was not busy");
    run_sql(listener, "select 1");
    int notices = 0;
    for (PGnotify *notice; (notice = PQnotifies(listener)) != NULL; notices++) {
        PQfreemem(notice);
    }
    cr_expect_lt(notices, 30, "%d", notices);
    cr_expect_eq(rig_number(&rig, "select (pg_notification_queue_usage() * 100)::int"), 0);
    PQfinish(pg);
    PQfinish(listener);
}
