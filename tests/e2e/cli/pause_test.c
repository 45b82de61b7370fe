/* pause_test.c - pause, resume and drain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "base/clock.h"
#include "db/sync.h"
#include "support/pg.h"

static void begin(void) {
    cli_begin();
    make_pipeline();
}

TestSuite(pause, .init = begin, .fini = cli_end, .timeout = 120);
TestSuite(drain, .init = begin, .fini = cli_end, .timeout = 120);

static int64_t in_status(const char *status) {
    char sql[128];
    snprintf(sql, sizeof sql, "select count(*) from pgstage.task where status = '%s'", status);
    return number(sql);
}

static void await(const char *sql, int64_t wanted) {
    int64_t deadline_ms = clock_now_ms(&clock_boottime) + 60000;
    while (number(sql) != wanted) {
        cr_assert(clock_now_ms(&clock_boottime) < deadline_ms, "%s is not %d", sql, (int)wanted);
    }
}

Test(pause, of_a_stage_and_of_all) {
    cli_prints("new (version 1)\n", "submit lib a");
    cli_prints("lib/second is paused\n", "pause lib/second");
    process();
    cr_expect_eq(in_status("ready"), 1);
    cli_prints("lib is paused\n", "pause lib");
    struct run *run = cli("resume lib/second");
    cr_expect_str_eq(run->out, "lib/second goes on\n");
    cr_expect_str_eq(run->err, "pgstage: but the pipeline is paused as a whole; pgstage resume lib lets it go on\n");
    cli_prints("{\"pipeline\":\"lib\",\"stage\":\"second\",\"paused\":true}\n", "resume lib/second --json");
    cli_prints("{\"pipeline\":\"lib\",\"stage\":\"first\",\"paused\":true}\n", "pause lib/first --json");
    cli_prints("lib goes on\n", "resume lib");
    cr_expect_eq(number("select count(*) from pgstage.stage where paused"), 0);
    process();
    cr_expect_eq(in_status("done"), 1);
}

Test(pause, unknown_names) {
    cli_refuses(2, "pgstage: there is no pipeline 'lab'; did you mean 'lib'?", "pause lab/first");
    cli_refuses(2, "pgstage: pipeline 'lib' has no stage 'secund'; its stages are first, second", "resume lib/secund");
    cli_refuses(2, "pgstage: pipeline 'lib' has no stage ''; its stages are first, second", "drain lib/");
}

/* Tasks behind the front are let through, those at it stay. */
Test(drain, lets_through_what_is_behind_the_front) {
    shell("seq 1 300 | sed 's/.*/{\"key\":\"&\"}/' >l");
    cli_prints("lib/second is paused\n", "pause lib/second");
    cli("submit lib --from l");
    process();
    cli("submit lib late");
    cr_expect_eq(in_status("ready"), 301);
    struct run *run = cli("drain lib --timeout 60s");
    cr_expect_eq(run->status, 1, "%s", run->err);
    cr_expect_str_eq(first_line(run->err), "pgstage: not drained: all that is left stands at paused stages; left: second (paused; "
                                           "pgstage resume lib/second): 300 ready");
    cr_expect(has(run->err, "paused: first; pgstage resume lib lets it go on\n"), "%s", run->err);
    node_start("lib.yaml"); /* not before: it would have taken the late one */
    cli_prints("lib/second goes on\n", "resume lib/second");
    run = cli("submit lib later");
    run = cli("drain lib --timeout 60s");
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect_str_eq(run->out, "lib is drained\n");
    cr_expect_eq(in_status("done"), 300);
    cr_expect_eq(number("select count(*) from pgstage.task where status not in ('done', 'ready')"), 0);
    cr_expect_eq(number("select count(*) from pgstage.stage where paused"), 1);
    node_stop();
}

Test(drain, of_a_stage_pauses_those_before_it_and_waits_for_retries_too) {
    write_file("slow.yaml", "pipeline: slow\n"
                            "stages:\n"
                            "  - {name: a, sql: select 1}\n"
                            "  - {name: b, sql: select 1}\n"
                            "  - name: c\n"
                            "    retry: {first: 1h, max: 1h}\n"
                            "    sql: select 1 / (case when :key like 'bad%' then 0 else 1 end)\n");
    cli("apply slow.yaml");
    write_file("l", "{\"key\":\"bad\"}\n{\"key\":\"b\"}\n{\"key\":\"later\",\"run_at\":\"2100-01-01T00:00:00Z\"}\n");
    cli("submit slow --from l");
    node_start("slow.yaml");
    await("select count(*) from pgstage.task where status = 'done' or error_text is not null", 2);
    node_stop();
    struct run *run = cli("drain slow/c --timeout 0s --json");
    cr_expect_eq(run->status, 1);
    cr_expect(has(run->out, "{\"drained\":false,\"paused\":[\"a\",\"b\"],\"left\":["), "%s", run->out);
    cr_expect_eq(number("select count(*) from pgstage.stage where paused and name in ('a', 'b')"), 2);
    cli("cancel slow bad");
    run = cli("drain slow/c --timeout 0s");
    cr_expect_eq(run->status, 0, "%s", run->err);
    /* From the first stage on: nothing is paused for it; one that is for later does not count. */
    cli("resume slow");
    cli_prints("slow/a is drained\n", "drain slow/a --timeout 0s");
    cr_expect(has(cli("drain slow/a --timeout 0s --json")->out, "{\"drained\":true,\"paused\":[],\"left\":["));
    cr_expect_eq(number("select count(*) from pgstage.stage where paused"), 0);
    pg_exec(cli_url(), "update pgstage.task set run_at = null where key = 'later'");
    cr_expect_eq(cli("drain slow/a --timeout 0s")->status, 1);
}

/* While something moves, or might, it is waited for; and what does not move is named with it. */
Test(drain, ends_when_all_that_is_left_stands_at_paused_stages) {
    char *all = NULL;
    cli_prints("lib/second is paused\n", "pause lib/second");
    cli("submit lib a");
    process();
    cli("submit lib b");
    claim("b");
    struct run *run = cli("drain lib --timeout 0s");
    cr_expect_eq(run->status, 1);
    cr_expect_str_eq(first_line(run->err), "pgstage: not drained in time; left: first (paused): 1 running; second (paused; pgstage "
                                           "resume lib/second): 1 ready");
    struct terminal *terminal = terminal_start("drain lib");
    terminal_await(terminal, "left: first (paused): 1 running; second (paused; pgstage resume lib/second): 1 ready");
    pg_exec(cli_url(), "with t as (update pgstage.task set status = 'done', claim = null, node = null, claimed_version = null, "
                       "done_version = version where key = 'b' returning pipeline, stage) insert into pgstage.task_count_delta "
                       "select pipeline, stage, 'running', -1 from t union all select pipeline, stage, 'done', 1 from t");
    cr_expect_eq(terminal_end(terminal, &all), 1, "%s", all);
    cr_expect(has(all, "pgstage: not drained: all that is left stands at paused stages; left: second (paused; pgstage resume "
                       "lib/second): 1 ready"),
              "%s", all);
    free(all);
}

Test(drain, of_a_paused_pipeline_would_never_end) {
    cli("pause lib");
    cli_refuses(4, "pgstage: pipeline 'lib' is paused as a whole, so that nothing in it moves; pgstage resume lib first",
                "drain lib");
}

/* A claim that began before the pause and has yet to commit: it is waited for. */
Test(drain, waits_for_claims_that_are_under_way) {
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    cli_prints("new (version 1)\n", "submit lib a");
    cr_assert_eq(sync_open(cli_url(), "tick", &db, &err), STATUS_OK);
    cr_assert_eq(sync_script(db, "begin; select pg_advisory_xact_lock_shared(1885827947, 1)", &err), STATUS_OK);
    struct run *run = cli("drain lib --timeout 0s");
    cr_expect_eq(run->status, 1);
    cr_expect(has(run->err, "pgstage: not drained in time; left: claims that are under way\n"), "%s", run->err);
    cr_assert_eq(sync_script(db, "commit; begin; select pg_advisory_xact_lock_shared(1885827947, 2)", &err), STATUS_OK);
    run = cli("drain lib --timeout 0s");
    cr_expect_eq(run->status, 0, "that of another pipeline does not count: %s", run->err);
    sync_close(db);
}

Test(drain, of_a_stage_that_the_definition_has_no_more) {
    write_file("lib.yaml", "pipeline: lib\nstages:\n  - {name: first, sql: select 1}\n");
    cli_prints("pipeline 'lib' is at revision 2\n", "apply lib.yaml");
    cli_refuses(2, "pgstage: pipeline 'lib' has no stage 'second'; its stages are first", "drain lib/second");
    cr_expect_eq(number("select count(*) from pgstage.stage where paused"), 0);
}

/* What is left is told while it is waited for, each time once. */
Test(drain, ctrl_c_ends_the_wait_and_leaves_the_pauses) {
    char *all = NULL;
    cli_prints("new (version 1)\n", "submit lib a");
    claim("a");
    struct terminal *terminal = terminal_start("drain lib");
    terminal_await(terminal, "left: first (paused): 1 running");
    terminal_type(terminal, "\003");
    cr_expect_eq(terminal_end(terminal, &all), 1, "%s", all);
    cr_expect(has(all, "pgstage: not drained yet; left: first (paused): 1 running"), "%s", all);
    cr_expect(has(all, "paused: first; pgstage resume lib lets it go on"), "%s", all);
    cr_expect_eq(number("select count(*) from pgstage.stage where paused"), 1);
    free(all);
}
