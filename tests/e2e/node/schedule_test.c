/* schedule_test.c - who fires schedules, and that each tick is fired once whoever dies: C10, C36, C56. */
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "rig.h"
#include "support/pg.h"

static struct rig rig;

static void init(void) {
    char docs[128];
    rig_init(&rig);
    snprintf(docs, sizeof docs, "%s/docs", rig.folder);
    cr_assert_eq(mkdir(docs, 0777), 0);
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(schedule, .init = init, .fini = finish, .timeout = 180);

#define SECONDLY "{name: s, every: 1s, overlap: allow, missed: all, do: {submit: {key: 'k/{tick}'}}}"

static void write_pipeline(const char *schedules, const char *statement) {
    struct buf text;
    buf_init(&text, 4096);
    buf_append_format(&text, "pipeline: p\nsource: {files: {path: docs, every: 1h}}\nschedule: [%s]\nstages:\n"
                             "  - {name: work, sql: '%s'}\n", schedules, statement);
    rig_write(&rig, "p.yaml", text.data);
    buf_finish(&text);
    rig_write(&rig, "docs/one.txt", "one");
}

/* A node that only fires starts no worker and runs nothing; one that does not fire runs what it finds. */
Test(schedule, c56_one_node_fires_and_another_runs) {
    write_pipeline(SECONDLY, "select 1");
    rig_start(&rig, 0, "--schedules-only");
    rig_await(&rig, "select (count(*) > 0)::int from pgstage.task", 1);
    rig_await(&rig, "select (count(*) > 1)::int from pgstage.schedule_fire where outcome = 'fired'", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status <> 'ready'"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where key not like 'k/%'"), 0, "it scanned");
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.claim_batch"), 0);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);

    int64_t fired = rig_number(&rig, "select count(*) from pgstage.schedule_fire");
    rig_start(&rig, 1, "--no-schedules");
    rig_await(&rig, "select count(*) from pgstage.task where status <> 'done'", 0);
    rig_await(&rig, "select count(*) from pgstage.task where key like '%one.txt'", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.schedule_fire"), fired, "it fired");
    kill(rig.nodes[1], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 1), 0);
}

/* It serves no stage, also none that it has not the labels for, and takes a new definition like any other. */
Test(schedule, a_node_that_only_fires_reloads) {
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: work, sql: select 1, requires: gpu}\n");
    rig_start(&rig, 0, "--schedules-only");
    cr_assert(rig_await_log(&rig, 0, "node.up"));
    rig_write(&rig, "p.yaml", "pipeline: p\nschedule: [" SECONDLY "]\nstages:\n  - {name: work, sql: select 1, requires: gpu}\n");
    kill(rig.nodes[0], SIGHUP);
    rig_await(&rig, "select (count(*) > 1)::int from pgstage.task where key like 'k/%'", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status <> 'ready'"), 0);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
}

/* The node without the label has the time to fire several times, and does not. */
Test(schedule, fires_where_its_labels_are) {
    write_pipeline("{name: s, every: 1s, requires: cron, overlap: allow, do: {submit: {key: 'k/{tick}'}}},"
                   " {name: other, every: 1s, overlap: allow, do: {submit: {key: 'o/{tick}'}}}", "select 1");
    rig_start(&rig, 0, "");
    rig_await(&rig, "select (count(*) > 2)::int from pgstage.task where key like 'o/%'", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where key like 'k/%'"), 0);
    rig_start(&rig, 1, "--label cron --schedules-only");
    rig_await(&rig, "select (count(*) > 0)::int from pgstage.task where key like 'k/%'", 1);
}

/* Three nodes, of which two die or stand still, and sessions that are cut: no tick is left out, none comes twice, and nobody asks in a hurry. */
Test(schedule, c10_each_tick_once_while_nodes_die) {
    write_pipeline(SECONDLY, "select 1");
    for (int i = 0; i < 3; i++) {
        rig_start(&rig, i, "--lease 2s");
    }
    rig_await(&rig, "select (count(*) > 1)::int from pgstage.schedule_fire", 1);
    kill(rig.nodes[0], SIGSTOP);
    kill(rig.nodes[1], SIGKILL);
    rig_await(&rig, "select (count(*) > 3)::int from pgstage.schedule_fire", 1);
    kill(rig.nodes[0], SIGCONT);
    for (int i = 0; i < 3; i++) { /* and every session of theirs is cut, also in the middle of a tick */
        rig_number(&rig, "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and"
                         " application_name like 'pgstage %' and pid <> pg_backend_pid()");
        char more[128];
        snprintf(more, sizeof more, "select (count(*) > %d)::int from pgstage.schedule_fire", 5 + i);
        rig_await(&rig, more, 1);
    }
    rig_await(&rig, "select (max(id) > 0 and count(*) filter (where status <> 'done') <= 1)::int from pgstage.task", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where key like 'k/%' and version <> 1"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.schedule_fire where outcome <> 'fired'"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) - (extract(epoch from max(tick) - min(tick)) + 1) from pgstage.schedule_fire"), 0);
    rig_check_counts(&rig);
}

/* A scan at the request of a schedule: the source itself would look in an hour. */
Test(schedule, a_scan_is_done_when_a_schedule_asks) {
    write_pipeline("{name: rescan, every: 1s, do: scan}", "select 1");
    rig_start(&rig, 0, "");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 1);
    rig_write(&rig, "docs/two.txt", "two");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 2);
}

/* C36: what is skipped is skipped once a tick, and the node sleeps between. */
Test(schedule, c36_an_overlap_costs_a_row_a_tick) {
    PGconn *gate = PQconnectdb(rig.url);
    write_pipeline("{name: s, every: 1s, do: {submit: {key: k}}}", "select pg_advisory_xact_lock(36)");
    PQclear(PQexec(gate, "select pg_advisory_lock(36)")); /* until then the first task does not end */
    rig_start(&rig, 0, "");
    rig_await(&rig, "select (count(*) filter (where outcome = 'skipped') >= 3)::int from pgstage.schedule_fire", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.schedule_fire where outcome = 'fired'"), 1);
    PQfinish(gate);
    rig_await(&rig, "select (count(*) filter (where outcome = 'fired') >= 2)::int from pgstage.schedule_fire", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) - (extract(epoch from max(tick) - min(tick)) + 1) from pgstage.schedule_fire"), 0);
}

/* A task's own period: the leader runs it again. */
Test(schedule, a_task_has_a_period_of_its_own) {
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: work, sql: select 1}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    cr_assert_eq(rig_run(&rig, NULL, "submit p k --every 1s"), 0);
    rig_start(&rig, 0, "");
    rig_await(&rig, "select (done_version >= 3)::int from pgstage.task", 1);
    cr_assert_eq(rig_run(&rig, NULL, "submit p k --every none"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.periodic"), 0);
}
