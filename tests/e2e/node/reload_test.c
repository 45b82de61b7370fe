/* reload_test.c - another definition without a stop: C71, C17, C04; and nodes that serve some stages only. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"
#include "support/pg.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint)");
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(reload, .init = init, .fini = finish, .timeout = 180);

static void write_sleepers(int workers, const char *more) {
    char text[1024];
    snprintf(text, sizeof text,
             "pipeline: p\nstages:\n  - name: work\n    handler: '%%L:by_payload'\n    workers: %d\n    timeout: 60s\n%s",
             workers, more);
    rig_write(&rig, "p.yaml", text);
}

static void expect_no_run_was_lost(int tasks) {
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), tasks);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt + crashes + rescues <> 0"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure"), 0);
    rig_check_counts(&rig);
}

Test(reload, c71_a_hup_changes_the_workers_and_disturbs_no_run) {
    write_sleepers(2, "");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 30, "{\"do\": \"sleep\", \"ms\": 300}");
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 2);
    write_sleepers(4, "");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "workers 2 -> 4");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 4);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 30);
    rig_await(&rig, "select count(*) from pgstage.node where not ended", 1);
    expect_no_run_was_lost(30);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.node where not ended"), 0);
}
