/* status_test.c - pgstage status. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/pg.h"

TestSuite(status, .init = cli_begin, .fini = cli_end, .timeout = 120);

static json_t *status_json(const char *arguments) {
    struct run *run = cli("status --json %s", arguments);
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect_str_empty(run->err);
    json_error_t error;
    json_t *all = json_loads(run->out, 0, &error);
    cr_assert_not_null(all, "%s: %s", error.text, run->out);
    return all;
}

static json_t *stage_of(json_t *all, const char *name) {
    size_t at;
    json_t *stage;
    json_array_foreach(json_object_get(all, "stages"), at, stage) {
        if (strcmp(json_string_value(json_object_get(stage, "stage")), name) == 0) {
            return stage;
        }
    }
    cr_assert_fail("no stage %s", name);
    return NULL;
}

static int64_t count_of(json_t *all, const char *stage, const char *status) {
    json_t *value = json_object_get(stage_of(all, stage), status);
    cr_assert(json_is_integer(value), "%s", status);
    return json_integer_value(value);
}

static void submit_some(void) {
    make_pipeline();
    write_file("l", "{\"key\":\"a\"}\n{\"key\":\"b\"}\n{\"key\":\"bad\"}\n");
    cli_prints("3 submitted: 3 new, 0 updated, 0 unchanged\n", "submit lib --from l");
    process();
    write_file("l", "{\"key\":\"r1\"}\n{\"key\":\"r2\"}\n{\"key\":\"later\",\"run_at\":\"2100-01-01T00:00:00Z\"}\n");
    cli_prints("3 submitted: 3 new, 0 updated, 0 unchanged\n", "submit lib --from l");
}

Test(status, of_nothing) {
    cli_prints("no pipelines yet; register one: pgstage apply FILE, or run it: pgstage run FILE\n\nno nodes\n", "status");
    json_t *all = status_json("");
    cr_expect_eq(json_array_size(json_object_get(all, "stages")), 0);
    json_decref(all);
    cli_refuses(2, "pgstage: there is no pipeline 'lib', nor any other; register one: pgstage apply FILE", "status lib");
}

Test(status, counts_per_stage) {
    submit_some();
    claim("r2");
    json_t *all = status_json("lib");
    cr_expect_eq(count_of(all, "first", "ready"), 1);
    cr_expect_eq(count_of(all, "first", "running"), 1);
    cr_expect_eq(count_of(all, "first", "delayed"), 1);
    cr_expect_eq(count_of(all, "second", "done"), 2);
    cr_expect_eq(count_of(all, "second", "failed"), 1);
    cr_expect_eq(count_of(all, "second", "cancelled"), 0);
    cr_expect_eq(count_of(all, "first", "position"), 1);
    cr_expect(json_is_false(json_object_get(stage_of(all, "first"), "paused")));
    cr_expect(json_number_value(json_object_get(stage_of(all, "second"), "runs_per_minute")) > 0);
    cr_expect(json_is_integer(json_object_get(stage_of(all, "first"), "oldest_ms")));
    cr_expect(json_is_null(json_object_get(stage_of(all, "second"), "oldest_ms")));
    json_decref(all);
    struct run *run = cli("status");
    cr_expect(has(first_line(run->out), "PIPELINE  STAGE   READY  RUNNING  DELAYED  WAITING  DONE  FAILED  CANCELLED  RUNS/MIN"
                                        "  FAILED/MIN "),
              "%s", run->out);
    cr_expect(has(first_line(run->out), " MEAN "), "%s", run->out);
    cr_expect(!has(run->out, "\033"), "nothing is coloured in a file");
}

Test(status, names_nodes_with_ids_as_strings) {
    submit_some();
    claim("r1");
    json_t *all = status_json("");
    size_t at;
    json_t *node, *found = NULL;
    json_array_foreach(json_object_get(all, "nodes"), at, node) {
        if (strcmp(json_string_value(json_object_get(node, "id")), "77") == 0) {
            found = node;
        }
    }
    cr_assert_not_null(found);
    cr_expect(json_is_true(json_object_get(found, "alive")));
    cr_expect(json_is_false(json_object_get(found, "leads")));
    cr_expect_eq(json_integer_value(json_object_get(found, "claims")), 1);
    cr_expect(json_is_null(json_object_get(found, "notes")));
    json_decref(all);
}

Test(status, warns_of_work_that_nobody_does) {
    submit_some();
    struct run *run = cli("status");
    cr_expect(has(run->out, "\nwarning: lib/first: 2 ready tasks, and no node is alive: start one with pgstage run FILE\n"),
              "%s", run->out);
    claim("r1");
    run = cli("status");
    cr_expect(!has(run->out, "warning"), "a node that has not said what it runs may run anything: %s", run->out);
    pg_exec(cli_url(), "update pgstage.node set notes = '[{\"pipeline\": \"lib\", \"stage\": \"second\"}, "
                       "{\"pipeline\": \"other\", \"stage\": \"first\"}]'");
    run = cli("status");
    cr_expect(has(run->out, "\nwarning: lib/first: 1 ready task, and no living node runs this stage: start one with "
                            "pgstage run FILE\n"),
              "%s", run->out);
    pg_exec(cli_url(), "update pgstage.node set notes = '[{\"pipeline\": \"lib\", \"stage\": \"first\"}]'");
    run = cli("status");
    cr_expect(!has(run->out, "warning"), "%s", run->out);
}

Test(status, warns_of_what_nodes_note_of_pauses_and_of_counts) {
    submit_some();
    claim("r1");
    pg_exec(cli_url(), "update pgstage.node set notes = '[{\"pipeline\": \"lib\", \"stage\": \"first\", \"text\": "
                       "\"parked: init \\u001b failed\"}, {\"pipeline\": \"lib\", \"stage\": null, \"text\": \"the source "
                       "cannot be read\"}]' where id = 77; update pgstage.stage set paused = true where name = 'first';"
                       "insert into pgstage.task_count_delta select 1, 1, 'done', 0 from generate_series(1, 30000)");
    struct run *run = cli("status lib");
    cr_expect(has(run->out, "\nwarning: lib/first: parked: init \\x1b failed (node 77, pid 1); mend it, then send that process a HUP\n"), "%s", run->out);
    cr_expect(has(run->out, "\nwarning: lib: the source cannot be read (node 77, pid 1)\n"), "%s", run->out);
    cr_expect(has(run->out, "\nwarning: lib/first: paused, with 1 ready task\n"), "%s", run->out);
    cr_expect(has(run->out, "changes of counts wait to be folded"), "%s", run->out);
    cr_expect(has(run->out, "first (paused)"), "%s", run->out);
    json_t *all = status_json("");
    cr_expect_eq(json_array_size(json_object_get(all, "warnings")), 4);
    json_decref(all);
}

Test(status, a_node_tells_what_it_runs_and_what_is_wrong) {
    make_pipeline();
    cli_prints("new (version 1)\n", "submit lib a");
    write_file("sick.yaml", "pipeline: sick\n"
                            "source: {files: {path: nowhere}}\n"
                            "stages:\n"
                            "  - {name: only, handler: 'nothing.so:nothing'}\n");
    node_start("sick.yaml");
    const char *shown = await_status("\nwarning: sick/only: parked: ");
    cr_expect(has(shown, "nothing.so"), "%s", shown);
    shown = await_status("\nwarning: sick: the source cannot be read: ");
    cr_expect(has(shown, "nowhere"), "%s", shown);
    /* It is alive, and says that it does not run the other pipeline. */
    cr_expect(has(shown, "\nwarning: lib/first: 1 ready task, and no living node runs this stage: "), "%s", shown);
    node_stop();
    await_status("\nwarning: lib/first: 1 ready task, and no node is alive: ");
}

Test(status, shows_stages_that_left_the_definition_while_tasks_stand_at_them) {
    submit_some();
    cli_prints("3 cancelled\n", "cancel lib --stage first --yes");
    cli_prints("1 cancelled\n", "cancel lib bad");
    write_file("lib.yaml", "pipeline: lib\nstages:\n  - {name: first, sql: select 1}\n");
    cli_prints("pipeline 'lib' is at revision 2\n", "apply lib.yaml");
    struct run *run = cli("status");
    cr_expect(has(run->out, "second (removed)"), "counts agree with the tasks: %s", run->out);
    cr_expect(!has(run->out, "warning: lib/second"), "what is done needs nobody: %s", run->out);
    pg_exec(cli_url(), "insert into pgstage.task_count_delta select p.id, s.id, 'failed', 1 from pgstage.pipeline p join "
                       "pgstage.stage s on s.pipeline = p.id and s.name = 'second'");
    run = cli("status");
    cr_expect(has(run->out, "\nwarning: lib/second: the definition has no such stage any more, and 1 task stands at it\n"),
              "%s", run->out);
}

Test(status, names_the_task_of_a_long_claim) {
    submit_some();
    claim("r1");
    struct run *run = cli("status");
    cr_expect(!has(run->out, "longest"), "%s", run->out);
    pg_exec(cli_url(), "update pgstage.claim_batch set begun = now() - interval '5 min'");
    run = cli("status lib");
    cr_expect(has(run->out, "\nlongest in lib/first: 'r1', claimed 5m"), "%s", run->out);
    cr_expect(has(run->out, " ago by node 77 (pid 1 on elsewhere)\n"), "%s", run->out);
    json_t *all = status_json("");
    json_t *oldest = json_array_get(json_object_get(all, "oldest"), 0);
    cr_expect_str_eq(json_string_value(json_object_get(oldest, "key")), "r1");
    cr_expect_str_eq(json_string_value(json_object_get(oldest, "node")), "77");
    cr_expect(json_integer_value(json_object_get(oldest, "age_ms")) >= 300000);
    json_t *notify = json_object_get(all, "notify_percent");
    cr_expect(json_is_number(notify) && json_number_value(notify) < 1, "notifications pile up");
    json_decref(all);
}

Test(status, into_a_closed_pipe_ends_quietly) {
    submit_some();
    struct run *run = shell("\"$PGSTAGE\" status | head -1");
    cr_expect_eq(strncmp(run->out, "PIPELINE ", 9), 0, "%s", run->out);
    cr_expect_str_empty(run->err, "%s", run->err);
}

Test(status, never_reads_the_task_table) {
    submit_some();
    pg_exec(cli_url(), "analyze; select pg_stat_force_next_flush()");
    pg_exec(cli_url(), "create role looker login; grant usage on schema pgstage to looker; grant select on all tables in "
                       "schema pgstage to looker; revoke all on pgstage.task from looker");
    struct run *run = shell("PGUSER=looker exec \"$PGSTAGE\" status lib");
    cr_expect_eq(run->status, 0, "%s", run->err);
    pg_exec(cli_url(), "drop owned by looker; drop role looker");
}

Test(status, watch_is_a_block_a_second_in_a_pipe) {
    submit_some();
    /* awk ends after the second block, and with it the watch. */
    struct run *run = shell("\"$PGSTAGE\" status --watch | awk '/^PIPELINE/ {n++} {print} n == 2 {exit}'");
    cr_expect(has(run->out, "\n\nPIPELINE"), "%s", run->out);
    cr_expect(!has(run->out, "\033"));
    cr_expect_str_empty(run->err, "%s", run->err);
}

Test(status, watch_redraws_a_terminal_until_ctrl_c) {
    submit_some();
    char *all = NULL;
    struct terminal *terminal = terminal_start("status --watch");
    terminal_await(terminal, "warning:");
    terminal_type(terminal, "\003");
    cr_expect_eq(terminal_end(terminal, &all), 0);
    cr_expect(has(all, "\033[H\033[2JPIPELINE"), "%s", all);
    cr_expect(has(all, "\033[33mwarning:\033[0m"), "%s", all);
    free(all);
    setenv("NO_COLOR", "1", 1);
    cr_expect_eq(terminal_end(terminal_start("status"), &all), 0);
    cr_expect(!has(all, "\033"), "%s", all);
    free(all);
}
