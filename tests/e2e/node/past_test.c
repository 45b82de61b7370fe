/* What earlier stages and runs left, and on_update, with the real program. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/pg.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint, inputs jsonb)");
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(past, .init = init, .fini = finish, .timeout = 180);

static void begin(const char *yaml, const char *payload) {
    rig_write(&rig, "p.yaml", yaml);
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 1, payload);
}

static void submit_again(const char *payload) {
    char sql[400];
    snprintf(sql, sizeof sql,
             "select count(*) from pgstage.submit_set('p', array['doc1'], array['%s'::jsonb],"
             " array[now() + interval '1 second'], null, null, false) where outcome = 'updated'", payload);
    cr_assert_eq(rig_number(&rig, sql), 1);
}

static void expect_shown(const char *options, const char *text) {
    char *output = NULL;
    cr_assert_eq(rig_run(&rig, &output, "show p doc1 %s", options), 0);
    cr_expect_not_null(strstr(output, text), "no '%s' in %s", text, output);
    free(output);
}

/* ---- on_update ----------------------------------------------------------------------------------------------------- */

Test(past, interrupt_tells_a_run_and_ends_it_soon) {
    begin("pipeline: p\non_update: interrupt\ndefaults: {grace: 400ms}\nstages:\n  - {name: a, handler: '%H:stubborn'}\n",
          "{\"ms\": 30000}");
    rig_start(&rig, 0, "");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 1);
    submit_again("{\"ms\": 1}");
    int64_t updated_ms = rig_now_ms();
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done' and done_version = 2", 1);
    int64_t took_ms = rig_now_ms() - updated_ms;
    cr_expect_leq(took_ms, 5000, "the newer version was done after %d ms", (int)took_ms);
    cr_expect_geq(took_ms, 400, "there was no grace");
    cr_expect(rig_await_log(&rig, 0, "heard of a newer version"));
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure"), 0);
    cr_expect_eq(rig_number(&rig, "select attempt + crashes + rescues from pgstage.task"), 0);
    rig_check_counts(&rig);
}

Test(past, finish_goes_through_all_stages_at_the_older_version) {
    begin("pipeline: p\non_update: finish\nstages:\n  - {name: a, handler: '%H:sleep'}\n"
          "  - {name: b, handler: '%H:sleep', after_commit: true}\n  - name: c\n    inputs: [a]\n"
          "    sql: insert into ledger (key, stage, version, inputs) values (:key, 'c', :version, :inputs)\n",
          "{\"ms\": 700}");
    rig_start(&rig, 0, "");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 1);
    submit_again("{\"ms\": 900}");
    rig_await(&rig, "select count(*) from pgstage.task t join pgstage.stage s on s.id = t.stage"
                    " where t.done_version = 1 and t.status = 'running' and t.claimed_version = 2 and s.name = 'a'", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.result where version = 1 and stage in ('a', 'b')"), 2);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where version = 1 and inputs = '{\"a\": {\"slept_ms\": 700}}'"),
                 1);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done' and done_version = 2", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where version = 2 and inputs = '{\"a\": {\"slept_ms\": 900}}'"),
                 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), 2);
    rig_check_counts(&rig);
}

/* ---- progress ------------------------------------------------------------------------------------------------------ */

static const char *const book =
    "pipeline: p\ndefaults: {grace: 300ms, retry: {attempts: 5, backoff: constant, first: 10ms, max: 10ms}}\n"
    "stages:\n  - {name: read, handler: '%H:pages'}\n";

static void expect_second_run_went_on(void) {
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.output"
                                  " where value = '{\"from\": 0.5, \"text\": \"page 5 of 10\"}'"), 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.progress"), 0);
    rig_check_counts(&rig);
}

Test(past, progress_outlives_a_retry_and_a_crash) {
    begin(book, "{\"then\": \"retry\"}");
    rig_start(&rig, 0, "");
    expect_second_run_went_on();
    submit_again("{\"then\": \"crash\"}");
    rig_await(&rig, "select count(*) from pgstage.task where done_version = 2", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure where kind = 'crash'"), 1);
    expect_second_run_went_on();
}

Test(past, progress_is_shown_and_outlives_its_node) {
    begin(book, "{\"then\": \"hang\"}");
    rig_start(&rig, 0, "--lease 2s");
    rig_await(&rig, "select count(*) from pgstage.progress", 1);
    expect_shown("", "progress   50 %, page 5 of 10 (said ");
    expect_shown("--json", "\"progress\":{\"stage\":\"read\",\"version\":1,\"fraction\":0.5,\"text\":\"page 5 of 10\"");
    kill(-rig.nodes[0], SIGKILL);
    rig_wait(&rig, 0);
    rig_start(&rig, 1, "--lease 2s");
    expect_second_run_went_on();
    expect_shown("--json", "\"progress\":null");
}

/* ---- inputs -------------------------------------------------------------------------------------------------------- */

Test(past, a_stage_gets_outputs_by_name_and_a_renamed_stage_keeps_its_own) {
    begin("pipeline: p\nstages:\n  - {name: first, handler: '%H:upper'}\n  - {name: second, handler: '%H:pass'}\n"
          "  - {name: third, handler: '%H:upper'}\n  - {name: all, handler: '%H:gather', inputs: [first, second]}\n",
          "{\"text\": \"a\"}");
    rig_start(&rig, 0, "");
    rig_await(&rig, "select count(*) from pgstage.output o join pgstage.stage s on s.id = o.stage where s.name = 'all'"
                    " and value = '{\"first\": {\"text\": \"A\"}, \"second\": {\"text\": \"a\"}}'", 1);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - {name: big, renamed_from: first, handler: '%H:upper'}\n"
              "  - {name: second, handler: '%H:pass'}\n  - {name: third, handler: '%H:upper'}\n"
              "  - {name: all, handler: '%H:gather', inputs: [big, third]}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    cr_assert_eq(rig_run(&rig, NULL, "rerun p doc1 --from all"), 0);
    rig_start(&rig, 1, "");
    rig_await(&rig, "select count(*) from pgstage.output o join pgstage.stage s on s.id = o.stage where s.name = 'all'"
                    " and version = 2 and value = '{\"big\": {\"text\": \"A\"}, \"third\": {\"text\": \"A\"}}'", 1);
    rig_check_counts(&rig);
}
