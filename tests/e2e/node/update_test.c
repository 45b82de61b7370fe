/* update_test.c - the newest version wins, with the real program: C24, C25, cancel, rerun, C21, C04. */
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

TestSuite(update, .init = init, .fini = finish, .timeout = 180);

static const char *const three =
    "pipeline: p\ndefaults: {grace: 300ms}\nstages:\n  - {name: a, handler: '%L:by_payload', workers: 2}\n"
    "  - {name: b, handler: '%L:ledger'}\n  - name: c\n"
    "    sql: insert into ledger (key, stage, version) values (:key, 'c', :version)\n";

static void begin(const char *payload, int count) {
    rig_write(&rig, "p.yaml", three);
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", count, payload);
}

static void submit_again(const char *payload, const char *stamp) {
    char sql[512];
    snprintf(sql, sizeof sql,
             "select count(*) from pgstage.submit_set('p', array['doc1'], array['%s'::jsonb], array[%s], null, null, "
             "false) where outcome = 'updated'", payload, stamp);
    cr_assert_eq(rig_number(&rig, sql), 1);
}

Test(update, c24_several_updates_during_a_run_cost_one_more_run) {
    begin("{\"do\": \"sleep\", \"ms\": 1200}", 1);
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 1);
    submit_again("{\"do\": \"ledger\", \"n\": 2}", "now() + interval '1 second'");
    submit_again("{\"do\": \"ledger\", \"n\": 3}", "now() + interval '2 seconds'");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done' and done_version = 3", 1);
    /* The first stage of version 1 may have ended; version 2 never ran; version 3 passed every stage once. */
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where version = 2"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where version = 3"), 3);
    cr_expect_leq(rig_number(&rig, "select count(*) from ledger where version = 1"), 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.output where version <> 3"), 0);
    rig_check_counts(&rig);
}

Test(update, a_document_that_is_edited_all_the_time_is_finished_now_and_then) {
    begin("{\"do\": \"sleep\", \"ms\": 150}", 1);
    rig_start(&rig, 0, "--lease 5s");
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
    int n = 1;
    while (rig_number(&rig, "select count(*) from ledger where stage = 'c'") == 0) {
        cr_assert(rig_now_ms() < deadline, "the document never reached its last stage");
        /* One edit a run, always before the first stage ends. */
        char stamp[64];
        rig_await(&rig, "select count(*) from pgstage.task where status = 'running' and version = claimed_version or "
                        "superseded >= 3", 1);
        snprintf(stamp, sizeof stamp, "now() + interval '%d seconds'", ++n);
        submit_again("{\"do\": \"sleep\", \"ms\": 150}", stamp);
    }
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done' and done_version = version", 1);
    rig_check_counts(&rig);
}

Test(update, a_cancelled_run_is_told_and_ends_cancelled) {
    begin("{\"do\": \"sleep\", \"ms\": 60000}", 1);
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 1);
    cr_assert_eq(rig_number(&rig, "select pgstage.cancel_tasks((select array_agg(id) from pgstage.task))"), 1);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'cancelled'", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt <> 0 or wish is not null"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), 0);
    rig_check_counts(&rig);
}

Test(update, a_submit_after_a_cancel_takes_it_away) {
    begin("{\"do\": \"sleep\", \"ms\": 60000}", 1);
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 1);
    cr_assert_eq(rig_number(&rig, "select pgstage.cancel_tasks((select array_agg(id) from pgstage.task))"), 1);
    submit_again("{\"do\": \"ledger\"}", "now() + interval '1 second'");
    cr_assert_eq(rig_number(&rig, "select pgstage.cancel_tasks((select array_agg(id) from pgstage.task))"), 1);
    submit_again("{\"do\": \"ledger\"}", "now() + interval '2 seconds'");
    /* The run of version 1 is not interrupted for a wish that is gone; end it so that the test need not wait. */
    kill(rig.nodes[0], SIGTERM);
    rig_await_log(&rig, 0, "node.draining");
    rig_insist(&rig, 0, SIGTERM);
    rig_wait(&rig, 0);
    rig_start(&rig, 1, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done' and done_version = 3", 1);
}

/* What it returns then is no failed run, whether it was cancelled or has a newer version behind it. */
Test(update, a_run_that_gives_up_when_it_is_told_leaves_no_trace) {
    rig_write(&rig, "p.yaml", "pipeline: p\ndefaults: {grace: 20s}\nstages:\n  - {name: a, handler: '%H:sleep', workers: 2}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 2, "{\"ms\": 60000}");
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 2);
    cr_assert_eq(rig_run(&rig, NULL, "cancel p doc2"), 0);
    submit_again("{\"ms\": 1}", "now() + interval '1 second'");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'cancelled'", 1);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done' and done_version = 2", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt + crashes + rescues <> 0"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure"), 0);
    rig_check_counts(&rig);
}

Test(update, a_failing_statement_fails_its_document_alone) {
    begin("{\"do\": \"echo\"}", 50);
    pg_exec(rig.url, "select pgstage.submit_set('p', array['bad'], array['{\"do\": \"bad_sql\"}'::jsonb], null, null, null, "
                     "false)");
    cr_assert_eq(rig_run(&rig, NULL, "check p.yaml"), 0);
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 50);
    rig_await(&rig, "select count(*) from pgstage.failure where kind = 'statement'", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where key = 'bad' and status = 'delayed'"), 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), 100);
    rig_check_counts(&rig);
}

Test(update, a_statement_that_ends_its_session_fails_its_document_alone) {
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - name: only\n    retry: {attempts: 1}\n    sql:\n"
              "      - insert into ledger (key, stage, version) values (:key, 'only', :version)\n"
              "      - \"select case when :payload ? 'bad' then pg_terminate_backend(pg_backend_pid()) end\"\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "good", 5, "{}");
    rig_submit(&rig, "bad", 1, "{\"bad\": 1}");
    char *output = NULL;
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle --log error"), 1);
    cr_expect_not_null(strstr(output, ", 1 failed\n  1 failed in only: "), "%s", output);
    free(output);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where key like 'good%'"), 5);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), 5);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure where kind = 'statement'"), 1);
    rig_check_counts(&rig);
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle --log error"), 0);
    cr_expect_not_null(strstr(output, "nothing to do\n  1 failed before in only: "), "%s", output);
    free(output);
}

Test(update, c21_failing_documents_do_not_hold_the_head_of_the_queue) {
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - name: a\n    handler: '%L:by_payload'\n    retry: {attempts: 50, "
                              "first: 1ms, max: 1ms, backoff: constant}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "bad", 3, "{\"do\": \"crash_abort\"}");
    rig_submit(&rig, "good", 200, "{\"do\": \"echo\"}");
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 200);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'failed'", 3);
}

/* It cannot take the new definition: the handler of the new stage is not on its host yet. */
Test(update, c04_a_node_that_does_not_know_a_stage_leaves_its_tasks_alone) {
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: a, handler: '%L:step'}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_start(&rig, 0, "--lease 2s"); /* the old definition, and the only leader */
    rig_await_log(&rig, 0, "leader.term");
    rig_write(&rig, "new.yaml", "pipeline: p\nstages:\n  - {name: a, handler: '%L:step'}\n"
                                "  - {name: ocr, handler: 'ocr.so:step'}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply new.yaml"), 0);
    rig_submit(&rig, "doc", 20, "{}");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'ready' and stage = (select max(id) from "
                    "pgstage.stage)", 20);
    /* A whole lease and more of the old node's leadership. */
    rig_await(&rig, "select count(*) from pgstage.leader where until > now() and (select max(now() - started) from "
                    "pgstage.node) > interval '5 seconds'", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'ready' and attempt + rescues + crashes "
                                  "= 0"), 20);
    char *status = NULL;
    cr_expect_eq(rig_run(&rig, &status, "status"), 0);
    cr_expect_not_null(strstr(status, "no living node runs this stage"), "%s", status);
    cr_expect_not_null(strstr(status, "the current revision is rejected: the handler of stage 'ocr' cannot be read"), "%s",
                       status);
    free(status);
    /* It is there now, and is found without anybody's doing. */
    rig_copy(&rig, LEDGER_HANDLERS, "ocr.so");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 20);
}

Test(update, rerun_from_a_stage_keeps_what_is_before_it) {
    begin("{\"do\": \"ledger\"}", 3);
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 3);
    cr_assert_eq(rig_number(&rig, "select pgstage.rerun_tasks((select array_agg(id) from pgstage.task), 'b')"), 3);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done' and done_version = 2", 3);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where stage = 'a'"), 3);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where stage = 'b'"), 6);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where stage = 'c'"), 6);
    rig_check_counts(&rig);
}
