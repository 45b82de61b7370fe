/* actions_test.c - retry, cancel and rerun. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/pg.h"

/* Done: a, b, c. Failed: bad1, bad2. Ready: r1, r2. Delayed: later. */
static void begin(void) {
    cli_begin();
    make_pipeline();
    write_file("l", "{\"key\":\"a\"}\n{\"key\":\"b\"}\n{\"key\":\"c\"}\n{\"key\":\"bad1\"}\n{\"key\":\"bad2\"}\n");
    cli_prints("5 submitted: 5 new, 0 updated, 0 unchanged\n", "submit lib --from l");
    process();
    write_file("l", "{\"key\":\"r1\"}\n{\"key\":\"r2\"}\n{\"key\":\"later\",\"run_at\":\"2100-01-01T00:00:00Z\"}\n");
    cli_prints("3 submitted: 3 new, 0 updated, 0 unchanged\n", "submit lib --from l");
}

TestSuite(retry, .init = begin, .fini = cli_end, .timeout = 120);
TestSuite(cancel, .init = begin, .fini = cli_end, .timeout = 120);
TestSuite(priority, .init = begin, .fini = cli_end, .timeout = 120);
TestSuite(rerun, .init = begin, .fini = cli_end, .timeout = 120);

static void expect_status(const char *key, const char *wanted) {
    char sql[128];
    snprintf(sql, sizeof sql, "select status from pgstage.task where key = '%s'", key);
    char *status = text(sql);
    cr_expect_str_eq(status, wanted, "%s is %s", key, status);
    free(status);
}

static int64_t in_status(const char *status) {
    char sql[128];
    snprintf(sql, sizeof sql, "select count(*) from pgstage.task where status = '%s'", status);
    return number(sql);
}

/* The counts that status shows are those of the tasks. */
static void expect_true_counts(void) {
    cr_expect_eq(number("select count(*) from (select pipeline, stage, status, sum(n) as n from (select * from "
                        "pgstage.task_count union all select * from pgstage.task_count_delta) c group by 1, 2, 3) c full "
                        "join (select pipeline, stage, status, count(*) as n from pgstage.task group by 1, 2, 3) t "
                        "using (pipeline, stage, status) where coalesce(c.n, 0) <> coalesce(t.n, 0)"),
                 0);
}

/* ---- retry -------------------------------------------------------------------------------------------------------- */

Test(retry, by_key) {
    cli_prints("2 retried\n", "retry lib bad1 later");
    expect_status("bad1", "ready");
    expect_status("later", "ready");
    expect_status("bad2", "failed");
    expect_true_counts();
}

Test(retry, names_unknown_keys_and_does_the_others) {
    struct run *run = cli("retry lib bad1 nope bad2 'worse\033'");
    cr_expect_eq(run->status, 1);
    cr_expect_str_eq(run->out, "2 retried\n");
    cr_expect_str_eq(run->err, "pgstage: pipeline 'lib' has no task 'nope'\n"
                               "pgstage: pipeline 'lib' has no task 'worse\\x1b'\n");
    cr_expect_eq(in_status("failed"), 0);
}

Test(retry, says_why_a_task_is_left_alone) {
    struct run *run = cli("retry lib a bad1");
    cr_expect_eq(run->status, 0);
    cr_expect_str_eq(run->out, "1 retried\n");
    cr_expect_str_eq(run->err, "pgstage: 'a' is done: only failed and delayed tasks are retried; pgstage rerun processes any task "
                               "again\n");
}

Test(retry, by_filter_wants_a_yes) {
    cli_refuses(4, "pgstage: 2 tasks of pipeline 'lib' match; say --yes to retry them", "retry lib --status failed");
    cli_refuses(4, "pgstage: 1 task of pipeline 'lib' matches; say --yes to retry it", "retry lib --key bad1");
    cr_expect_eq(in_status("failed"), 2);
    cli_prints("2 retried\n", "retry lib --status failed --yes");
    cr_expect_eq(in_status("failed"), 0);
    expect_true_counts();
}

Test(retry, filters_take_failed_and_delayed_ones_only) {
    cli_refuses(4, "pgstage: 3 tasks of pipeline 'lib' match; say --yes to retry them", "retry lib --older-than 0s");
    cli_prints("2 retried\n", "retry lib --error 'by zero' --yes");
    cli_prints("0 retried\n", "retry lib --error 'by zero'");
    cli_prints("0 retried\n", "retry lib --older-than 1h");
    cli_prints("1 retried\n", "retry lib --stage first --yes");
    expect_status("later", "ready");
    expect_status("a", "done");
}

Test(retry, more_than_a_batch) {
    shell("seq 1 2500 | sed 's/.*/{\"key\":\"bad\\/&\",\"run_at\":\"2100-01-01T00:00:00Z\"}/' >l");
    cli_prints("2500 submitted: 2500 new, 0 updated, 0 unchanged\n", "submit lib --from l");
    cli_prints("2500 retried\n", "retry lib --key 'bad/*' --yes");
    cr_expect_eq(in_status("ready"), 2502);
    expect_true_counts();
}

Test(retry, unknown_names) {
    cli_refuses(2, "pgstage: there is no pipeline 'lab'; did you mean 'lib'?", "retry lab x");
    cli_refuses(2, "pgstage: pipeline 'lib' has no stage 'third'; its stages are first, second", "retry lib --stage third");
}

/* ---- cancel ------------------------------------------------------------------------------------------------------- */

Test(cancel, by_key) {
    claim("r2");
    struct run *run = cli("cancel lib r1 r2 later bad1 a");
    cr_expect_eq(run->status, 0);
    cr_expect_str_eq(run->out, "4 cancelled; 1 of them is running and is told within a second\n");
    cr_expect_str_eq(run->err, "pgstage: 'a' is done: it is at its end\n");
    expect_status("r1", "cancelled");
    expect_status("r2", "running");
    expect_status("later", "cancelled");
    expect_status("bad1", "cancelled");
    cr_expect_eq(number("select count(*) from pgstage.task where wish = 'cancel'"), 1);
    expect_true_counts();
}

Test(cancel, by_filter) {
    cli_refuses(4, "pgstage: 5 tasks of pipeline 'lib' match; say --yes to cancel them", "cancel lib --older-than 0s");
    cli_prints("3 cancelled\n", "cancel lib --stage first --yes");
    cli_prints("2 cancelled\n", "cancel lib --status failed --yes");
    cli_prints("0 cancelled\n", "cancel lib --key '*'");
    cr_expect_eq(in_status("cancelled"), 5);
    cr_expect_eq(in_status("done"), 3);
    expect_true_counts();
}

Test(cancel, a_newer_document_goes_on) {
    cli_prints("1 cancelled\n", "cancel lib r1");
    cli_prints("updated (version 2)\n", "submit lib r1");
    expect_status("r1", "ready");
    expect_true_counts();
}

/* What would run a task again is ended as well, and only that when the task is at its end. */
Test(cancel, ends_periods_of_tasks_at_their_end) {
    cli("submit lib a --every 1h");
    cli("submit lib b --every 1h");
    cli("submit lib r1 --every 1h");
    struct run *run = cli("cancel lib a c");
    cr_expect_eq(run->status, 0);
    cr_expect_str_eq(run->out, "0 cancelled; 1 period ended\n");
    cr_expect_str_eq(run->err, "pgstage: 'a' is done: its period is ended\npgstage: 'c' is done: it is at its end\n");
    cr_expect_eq(number("select count(*) from pgstage.periodic"), 2);
    cli("submit lib a --every 1h");
    cli_refuses(4, "pgstage: 2 tasks of pipeline 'lib' match (2 at an end: only the period); say --yes to cancel them",
                "cancel lib --status done");
    cli_refuses(4, "pgstage: 7 tasks of pipeline 'lib' match (2 at an end: only the period); say --yes to cancel them",
                "cancel lib --key '*'");
    cli_prints("0 cancelled; 1 period ended\n", "cancel lib --key 'a*' --yes");
    cli_prints("0 cancelled; 1 period ended\n", "cancel lib --status done --yes");
    cli_prints("0 cancelled\n", "cancel lib --status done --yes");
    cli_prints("{\"tasks\": 1, \"running\": 0, \"periods\": 0}\n", "cancel lib r1 --json");
    cr_expect_eq(number("select count(*) from pgstage.periodic"), 0);
    cr_expect_eq(in_status("done"), 3);
    expect_true_counts();
}

Test(cancel, by_the_reason) {
    cli_prints("0 cancelled\n", "cancel lib --error 'by one' --yes");
    cli_refuses(4, "pgstage: 2 tasks of pipeline 'lib' match; say --yes to cancel them", "cancel lib --error '*by zero'");
    cli_prints("2 cancelled\n", "cancel lib --error 'by zero' --yes");
    expect_status("bad1", "cancelled");
    expect_status("bad2", "cancelled");
    expect_status("r1", "ready");
    expect_true_counts();
}

/* ---- priority ----------------------------------------------------------------------------------------------------- */

Test(priority, by_key_and_by_filter) {
    claim("r2");
    struct run *run = cli("priority lib -7 r1 r2 later bad1 a nope");
    cr_expect_eq(run->status, 1);
    cr_expect_str_eq(run->out, "4 given the priority\n");
    cr_expect_str_eq(run->err, "pgstage: pipeline 'lib' has no task 'nope'\n"
                               "pgstage: 'a' is done: it is at its end; a submit of a newer version takes --priority\n");
    cr_expect_eq(number("select count(*) from pgstage.task where priority = -7"), 4);
    cli_refuses(4, "pgstage: 1 task of pipeline 'lib' matches; say --yes to reprioritize it",
                "priority lib 3 --status ready");
    cli_prints("{\"tasks\": 1, \"running\": 0}\n", "priority lib 3 --status ready --yes --json");
    cr_expect_eq(number("select priority from pgstage.task where key = 'r1'"), 3);
    expect_true_counts();
}

Test(priority, wants_a_number) {
    cli_refuses(2, "pgstage priority: a priority is a whole number from -2147483648 to 2147483647, not 'r1'",
                "priority lib r1 r2");
    cli_refuses(2, "pgstage priority: a priority is a whole number from -2147483648 to 2147483647, not '-3000000000'",
                "priority lib -3000000000 r2");
    cli_refuses(2, "pgstage priority: which tasks? Name keys, or give --status, --stage, --key, --error or --older-than",
                "priority lib 1");
}

/* ---- rerun -------------------------------------------------------------------------------------------------------- */

Test(rerun, by_key) {
    cli_prints("2 to be run again\n", "rerun lib a bad1");
    cr_expect_eq(number("select count(*) from pgstage.task t join pgstage.stage s on s.id = t.stage where t.key in "
                        "('a', 'bad1') and t.status = 'ready' and t.version = 2 and s.name = 'first'"),
                 2);
    expect_true_counts();
}

Test(rerun, from_a_stage) {
    cli_prints("1 to be run again\n", "rerun lib a --from second");
    cr_expect_eq(number("select count(*) from pgstage.task t join pgstage.stage s on s.id = t.stage where t.key = 'a' and "
                        "t.status = 'ready' and s.name = 'second'"),
                 1);
    cli_refuses(2, "pgstage: pipeline 'lib' has no stage 'secund'; its stages are first, second",
                "rerun lib a --from secund");
    process();
    expect_status("a", "done");
    cr_expect_eq(number("select done_version from pgstage.task where key = 'a'"), 2);
}

static int64_t stands_at(const char *key, const char *stage) {
    char sql[256];
    snprintf(sql, sizeof sql, "select count(*) from pgstage.task t join pgstage.stage s on s.id = t.stage where t.key = "
             "'%s' and t.status = 'ready' and s.name = '%s'", key, stage);
    return number(sql);
}

/* What has not run for the version at hand is not skipped: new, updated and cancelled tasks stand at `first`. */
Test(rerun, from_a_stage_that_a_task_has_not_reached_begins_where_it_stands) {
    cli("submit lib fresh --payload '{}'");
    cr_expect_eq(cli("submit lib a --payload '{\"edited\": 1}' --updated-at 2099-01-01T00:00:00Z")->status, 0);
    cli("submit lib stopped --payload '{}'");
    cli("cancel lib stopped");
    cli_prints("3 to be run again\n", "rerun lib fresh a stopped --from second");
    cr_expect_eq(stands_at("fresh", "first"), 1);
    cr_expect_eq(stands_at("a", "first"), 1);
    cr_expect_eq(stands_at("stopped", "first"), 1);
    cli_prints("1 to be run again\n", "rerun lib b --from second");
    cr_expect_eq(stands_at("b", "second"), 1);
    cli_prints("1 to be run again\n", "rerun lib b --from second"); /* its first stage is confirmed for this version */
    cr_expect_eq(stands_at("b", "second"), 1);
    cli_prints("1 to be run again\n", "rerun lib b");
    cli_prints("1 to be run again\n", "rerun lib b --from second");
    cr_expect_eq(stands_at("b", "first"), 1);
    expect_true_counts();
}

Test(rerun, all_of_them_wants_the_word_and_a_yes) {
    cli_refuses(4, "pgstage: 8 tasks of pipeline 'lib' match; say --yes to rerun them", "rerun lib --all");
    cli_prints("8 to be run again\n", "rerun lib --all --yes");
    cr_expect_eq(in_status("ready"), 8);
    expect_true_counts();
}

Test(rerun, by_filter) {
    cli_prints("3 to be run again\n", "rerun lib --status done --yes");
    cli_prints("0 to be run again\n", "rerun lib --status done");
    cr_expect_eq(number("select count(*) from pgstage.task where version = 2"), 3);
    claim("r2");
    struct run *run = cli("rerun lib --status running --yes");
    cr_expect_str_eq(run->out, "1 to be run again; 1 of them is running and is told within a second\n");
    expect_true_counts();
}
