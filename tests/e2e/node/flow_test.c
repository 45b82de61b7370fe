/* flow_test.c - where a task goes when its handler says so, through the whole program. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/pg.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(flow, .init = init, .fini = finish, .timeout = 180);

static const char *const pipeline = "pipeline: p\nmax_steps: 20\nstages:\n"
                                    "  - {name: a, handler: '%H:steer', workers: 2, share: 25%}\n"
                                    "  - {name: b, handler: '%H:steer', workers: 2}\n"
                                    "  - {name: c, handler: '%H:steer', workers: 2, max_running: 1}\n";

static void submit(const char *key, const char *payload) {
    char *output = NULL;
    cr_assert_eq(rig_run(&rig, &output, "submit p %s --payload '%s'", key, payload), 0, "%s", output);
    free(output);
}

/* The way that a document took, by the stages' names; "" when it returned nothing at its version. */
static void expect_way(const char *key, const char *status, const char *way) {
    char sql[1024];
    snprintf(sql, sizeof sql,
             "select count(*) from pgstage.task t where key = '%s' and status = '%s' and '%s' = coalesce((select o.value"
             " ->> 'way' from pgstage.output o where o.task = t.id order by length(o.value ->> 'way') desc limit 1), '')",
             key, status, way);
    cr_expect_eq(rig_number(&rig, sql), 1, "%s is not %s by the way %s", key, status, way);
}

Test(flow, documents_go_where_their_handlers_say) {
    rig_write(&rig, "p.yaml", pipeline);
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    submit("straight", "{}");
    submit("skips", "{\"a\": [\"c\"]}");
    submit("returns", "{\"c\": [\"a\"]}");
    submit("ends", "{\"b\": [\"finish\"]}");
    submit("snoozes", "{\"b\": [\"snooze:300\", \"\"]}");
    submit("lost", "{\"b\": [\"nowhere\"]}");
    submit("circles", "{\"b\": [\"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\"]}");
    rig_start(&rig, 0, "--lease 5s --log warn");
    rig_await(&rig, "select count(*) from pgstage.task where status in ('done', 'failed')", 6);
    expect_way("straight", "done", "abc");
    expect_way("skips", "done", "ac");
    expect_way("returns", "done", "abcabc");
    expect_way("ends", "done", "ab");
    expect_way("lost", "failed", "a");
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure f join pgstage.task t on t.id = f.task where"
                                  " key = 'lost' and kind = 'permanent' and f.error_text = 'it was routed to \"nowhere\","
                                  " which is no stage of its pipeline; the stages are: a, b, c'"),
                 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure f join pgstage.task t on t.id = f.task where"
                                  " key = 'circles' and t.status = 'failed' and kind = 'steps' and steps > 20 and"
                                  " f.error_text like 'it made more than 20 transitions (max_steps)%: %a, b%'"),
                 1);
    /* It snoozes as long as it says so: its output does not count, and so neither do its passes. */
    rig_await(&rig, "select count(*) from pgstage.task where key = 'snoozes' and status = 'delayed' and attempt = 0", 1);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    rig_check_counts(&rig);
}

/* Two nodes with two workers each, of which one may run: the tasks never overlap. */
Test(flow, a_limit_holds_for_all_nodes) {
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n"
                              "  - {name: a, handler: '%H:sleep', workers: 2, max_running: 2}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 60, "{\"ms\": 20}");
    pg_exec(rig.url, "create table seen (n bigint); create function look() returns trigger language plpgsql as $$ begin"
                     " insert into public.seen select count(*) from pgstage.task where status = 'running'; return null; end $$;"
                     " create trigger look after update on pgstage.task for each statement execute function look()");
    rig_start(&rig, 0, "--lease 5s --log warn");
    rig_start(&rig, 1, "--lease 5s --log warn");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 60);
    cr_expect_eq(rig_number(&rig, "select max(n) from seen"), 2);
    for (int i = 0; i < 2; i++) {
        kill(rig.nodes[i], SIGTERM);
        cr_expect_eq(rig_wait(&rig, i), 0);
    }
    rig_check_counts(&rig);
}

/* What is claimed and not begun goes back, on every node: without that, it would go on for some seconds. */
Test(flow, a_pause_is_seen_by_every_node_within_a_second) {
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint, at timestamptz default clock_timestamp())");
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: a, handler: '%L:by_payload', workers: 2}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 500, "{\"do\": \"sleep\", \"ms\": 50}");
    rig_start(&rig, 0, "");
    rig_start(&rig, 1, "");
    rig_await(&rig, "select count(distinct node) from pgstage.task where status = 'running'", 2);
    rig_await(&rig, "select least(count(*), 20) from ledger", 20);
    cr_assert_eq(rig_run(&rig, NULL, "pause p/a"), 0);
    char *paused = pg_text(rig.url, "select clock_timestamp()"), sql[256];
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 0);
    snprintf(sql, sizeof sql, "select count(*) from ledger where at > timestamptz '%s' + interval '1500 ms'", paused);
    cr_expect_eq(rig_number(&rig, sql), 0, "a run of 50 ms, and its commit, ended late");
    cr_expect_gt(rig_number(&rig, "select count(*) from pgstage.task where status = 'ready'"), 0);
    cr_assert_eq(rig_run(&rig, NULL, "resume p/a"), 0);
    rig_await(&rig, "select least(count(*), 1) from pgstage.task where status = 'running'", 1);
    free(paused);
    rig_check_counts(&rig);
}

/* A node that has just begun does not lead yet when its first task fails: its retry waits for the leader's next look, not
 * for the next question of one who does not lead, a sixth of the lease later. */
Test(flow, a_first_retry_is_as_quick_as_any) {
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - {name: a, handler: '%L:by_payload', retry: {attempts: 2, first: 100ms, jitter: 0%}}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 1, "{\"do\": \"retry\"}");
    rig_start(&rig, 0, "--lease 2m");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'failed' and attempt = 2", 1);
    cr_expect_lt(rig_number(&rig, "select (extract(epoch from max(at) - min(at)) * 1000)::bigint from pgstage.failure"), 10000);
}
