/* submit_test.c - one document a command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/clock.h"
#include "rig.h"
#include "support/pg.h"

static void begin(void) {
    cli_begin();
    make_pipeline();
}

TestSuite(submit, .init = begin, .fini = cli_end, .timeout = 60);

Test(submit, says_what_became_of_it) {
    cli_prints("new (version 1)\n", "submit lib a --payload '{\"n\": 1}' --updated-at 2026-01-01T00:00:00Z");
    cli_prints("unchanged (version 1): not newer than the stored one, of 2026-01-01T00:00:00+00:00; --if-changed takes any "
               "change\n",
               "submit lib a --payload '{\"n\": 2}' --updated-at 2026-01-01T00:00:00Z");
    cli_prints("unchanged (version 1): not newer than the stored one, of 2026-01-01T00:00:00+00:00; --if-changed takes any "
               "change\n",
               "submit lib a --payload '{\"n\": 2}' --updated-at 2025-01-01T00:00:00Z");
    cli_prints("updated (version 2)\n", "submit lib a --payload '{\"n\": 2}' --updated-at 2026-01-01T00:00:00.001Z");
    cli_prints("unchanged (version 2)\n",
               "submit lib a --payload '{\"n\": 2}' --updated-at 2026-01-01T00:00:00.001Z --if-changed");
    cli_prints("updated (version 3)\n",
               "submit lib a --payload '{\"n\": 3}' --updated-at 2025-01-01T00:00:00Z --if-changed");
    cli_prints("updated (version 4)\n", "submit lib a");
}

Test(submit, keeps_every_digit_of_the_payload) {
    cli_prints("new (version 1)\n", "submit lib a --payload "
                                    "'{\"n\": 123456789012345678901234567890, \"x\": 0.10, \"e\": 1.0000000000000000000001}'");
    char *payload = text("select payload::text from pgstage.task");
    cr_expect_str_eq(payload, "{\"e\": 1.0000000000000000000001, \"n\": 123456789012345678901234567890, \"x\": 0.10}");
    free(payload);
}

Test(submit, takes_the_payload_from_a_file_or_standard_input) {
    write_file("p.json", "{\"from\": \"file\"}\n");
    cli_prints("new (version 1)\n", "submit lib a --payload @p.json");
    cli_prints("new (version 1)\n", "submit lib b --payload - <p.json");
    cli_prints("new (version 1)\n", "submit lib c --payload '\"a string\"'");
    cli_prints("new (version 1)\n", "submit lib d --payload ' null '");
    cr_expect_eq(number("select count(*) from pgstage.task where payload->>'from' = 'file'"), 2);
    cr_expect_eq(number("select count(*) from pgstage.task where key = 'd' and payload is null"), 1);
}

Test(submit, refuses_what_is_not_storable_json) {
    write_file("p.json", "{\"a\": 1,\n \"b\" 2}");
    cli_refuses(2, "p.json:2:6: ':' expected near '2'", "submit lib a --payload @p.json");
    write_file("p.json", "");
    cli_refuses(2, "p.json:1:1: empty: a JSON value is wanted", "submit lib a --payload @p.json");
    cli_refuses(2, "--payload:1:16: \\u0000 cannot be stored: text in PostgreSQL has no NUL",
                "submit lib a --payload '{\"t\": \"a\\u0000b\"}'");
    cli_refuses(2, "--payload:1:16: half of a surrogate pair stands alone: it is not text",
                "submit lib a --payload '{\"t\": \"a\\ud800b\"}'");
    cli_refuses(2, "--payload:1:21: half of a surrogate pair stands alone: it is not text",
                "submit lib a --payload '{\"t\": \"a\\ud800\\u0041\"}'");
    cli_refuses(2, "--payload:1:7: not UTF-8", "submit lib a --payload \"$(printf '{\"t\": \"\\300\\257\"}')\"");
    cli_refuses(2, "--payload:1:7: not UTF-8", "submit lib a --payload \"$(printf '{\"t\": \"\\344\"}')\"");
    cli_refuses(2, "pgstage: cannot read 'nothing.json': No such file or directory", "submit lib a --payload @nothing.json");
    cli_refuses(2, "pgstage: cannot read '.': Is a directory", "submit lib a --payload @.");
    cr_expect_eq(number("select count(*) from pgstage.task"), 0);
}

Test(submit, refuses_a_payload_with_nul_bytes) {
    shell("printf '{\"t\": \"a\\000b\"}' >p.json");
    struct run *run = cli("submit lib a --payload @p.json");
    cr_expect_eq(run->status, 2);
    cr_expect(has(run->err, "p.json:1:"), "%s", run->err);
}

Test(submit, sets_priority_and_time) {
    cli_prints("new (version 1)\n", "submit lib soon --priority -5");
    cli_prints("new (version 1)\n", "submit lib later --in 1h30m");
    cli_prints("new (version 1)\n", "submit lib then --at 2100-01-01T00:00+01:00");
    cli_prints("new (version 1)\n", "submit lib longest --in 520w");
    cli_prints("new (version 1)\n", "submit lib past --at 2020-01-01T00:00Z");
    cr_expect_eq(number("select priority from pgstage.task where key = 'soon'"), -5);
    cr_expect_eq(number("select count(*) from pgstage.task where key = 'later' and status = 'delayed' and due_at - now() "
                        "between interval '88 minutes' and interval '91 minutes'"),
                 1);
    cr_expect_eq(number("select count(*) from pgstage.task where key = 'then' and due_at = '2099-12-31 23:00:00+00'"), 1);
    cr_expect_eq(number("select count(*) from pgstage.task where key = 'past' and status = 'ready'"), 1);
}

/* The instant is read back as it was written, however the session writes times. */
Test(submit, delays_are_the_same_in_any_datestyle_and_zone) {
    char *name = text("select current_database()");
    char *set = mem_format("alter database %s set datestyle = 'SQL, DMY'; alter database %s set timezone = 'Asia/Kolkata'", name,
                           name);
    pg_exec(cli_url(), set);
    cli_prints("new (version 1)\n", "submit lib later --in 1h30m");
    cr_expect_eq(number("select count(*) from pgstage.task where key = 'later' and status = 'delayed' and due_at - now() "
                        "between interval '88 minutes' and interval '91 minutes'"),
                 1);
    free(set);
    free(name);
}

Test(submit, takes_any_key_of_1024_bytes) {
    cli_prints("new (version 1)\n", "submit lib \"$(printf '%%01024d' 0)\"");
    cli_prints("new (version 1)\n", "submit lib \"$(printf 'a\\033[31m\\nb')\"");
    cli_prints("new (version 1)\n", "submit lib 'Ünïcode/日本語 %%s'");
    cli_prints("new (version 1)\n", "submit lib -- --key");
    cr_expect_eq(number("select count(*) from pgstage.task"), 4);
}

Test(submit, names_the_pipeline_that_may_be_meant) {
    cli_refuses(2, "pgstage: there is no pipeline 'libb'; did you mean 'lib'?", "submit libb a");
    cli_refuses(2, "pgstage: there is no pipeline 'something'; there are lib", "submit something a");
    cr_expect(has(cli("submit something a")->err, "\npgstage apply FILE registers that of a file\n"));
    cli_refuses(2, "pgstage: there is no pipeline '\\x1b[31m'; there are lib", "submit \"$(printf '\\033[31m')\" a");
}

Test(submit, names_some_of_many_pipelines_and_one_without_a_definition) {
    number("select count(*) from generate_series(1, 30) i, pgstage.register('q' || lpad(i::text, 2, '0'), 'x', '{a}', 'apply')");
    cli_refuses(2, "pgstage: there is no pipeline 'something'; there are lib, q01, q02, q03, q04, q05, q06, q07, q08, q09, q10, q11, "
                   "q12, q13, q14, q15, q16, q17, q18, q19, ...", "submit something a");
    number("with u as (update pgstage.pipeline set revision = 0 where name = 'q07' returning 1) select count(*) from u");
    cli_refuses(2, "pgstage: pipeline 'q07' has no current definition; make one so: pgstage apply FILE", "submit q07 a");
}

TestSuite(submit_at_first, .init = cli_begin, .fini = cli_end, .timeout = 60);

Test(submit_at_first, it_says_how_to_make_a_pipeline) {
    cli_refuses(2, "pgstage: there is no pipeline 'lib', nor any other; register one: pgstage apply FILE", "submit lib a");
}

/* ---- --wait ------------------------------------------------------------------------------------------------------- */

Test(submit, waits_for_the_end) {
    node_start("lib.yaml");
    struct run *run = cli("submit lib a --wait --timeout 50s");
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect_str_eq(run->out, "null\n");
    cr_expect_str_eq(run->err, "new (version 1)\n");
    run = cli("submit lib bad --wait");
    cr_expect_eq(run->status, 1);
    cr_expect_str_empty(run->out);
    cr_expect(has(run->err, "pgstage: the task 'bad' failed at stage 'second': "), "%s", run->err);
    cr_expect(has(run->err, "division by zero"), "%s", run->err);
    node_stop();
    /* What stands is at its end already, and the last stage's output is printed as it is. */
    number("insert into pgstage.output (task, stage, version, value) select id, 1, 1, '[1]'::jsonb from pgstage.task where key = 'a' "
           "union all select id, 2, 1, '{\"n\": 1.50}'::jsonb from pgstage.task where key = 'a' returning 1");
    run = cli("submit lib a --wait --updated-at 2001-01-01T00:00:00Z");
    cr_expect_eq(run->status, 0);
    cr_expect_str_eq(run->out, "{\"n\": 1.50}\n");
}

Test(submit, waits_no_longer_than_it_is_told_to) {
    struct run *run = cli("submit lib a --wait --timeout 50ms");
    cr_expect_eq(run->status, 1);
    cr_expect_str_eq(run->err, "new (version 1)\npgstage: the task 'a' did not come to its end in time; it goes on\n");
    cr_expect_eq(number("select count(*) from pgstage.task where status = 'ready'"), 1);
    cli("cancel lib a");
    run = cli("submit lib a --wait --timeout 0s --updated-at 2001-01-01T00:00:00Z");
    cr_expect_eq(run->status, 1);
    cr_expect(has(run->err, "pgstage: the task 'a' was cancelled at stage 'first'\n"), "%s", run->err);
    cli_refuses(2, "pgstage submit: --wait is for one document: it and --from exclude each other",
                "submit lib --from - --wait");
    cli_refuses(2, "pgstage submit: --timeout is for --wait", "submit lib k --timeout 1s");
}

Test(submit, ctrl_c_ends_the_wait_and_leaves_the_task) {
    struct terminal *terminal = terminal_start("submit lib a --wait");
    char *all = NULL;
    terminal_await(terminal, "new (version 1)");
    terminal_type(terminal, "\003");
    cr_expect_eq(terminal_end(terminal, &all), 1, "%s", all);
    cr_expect(has(all, "pgstage: the task 'a' is not at its end; it goes on"), "%s", all);
    cr_expect_eq(number("select count(*) from pgstage.task where status = 'ready'"), 1);
    free(all);
}

/* The connection is lost while it waits, and the task is forgotten. */
Test(submit, waits_on_another_connection_and_not_for_a_task_that_is_gone) {
    struct terminal *terminal = terminal_start("submit lib a --wait");
    char *all = NULL;
    terminal_await(terminal, "new (version 1)");
    cr_expect_eq(number("select sum(pg_terminate_backend(pid, 10000)::int) from pg_stat_activity where datname = current_database()"
                        " and application_name = 'pgstage submit'"),
                 1);
    number("with d as (delete from pgstage.task returning 1) select count(*) from d");
    cr_expect_eq(terminal_end(terminal, &all), 1, "%s", all);
    cr_expect(has(all, "pgstage: the task 'a' is gone"), "%s", all);
    cr_expect(!has(all, "terminating"), "%s", all);
    free(all);
}

/* Between two looks: what has the key now is not what is waited for. */
Test(submit, does_not_wait_for_another_task_of_that_key) {
    cli("submit lib a --in 1h");
    struct terminal *terminal = terminal_start("submit lib a --in 1h --wait");
    char *all = NULL;
    terminal_await(terminal, "updated (version 2)");
    const char *looked = "select count(*) from pg_stat_activity where datname = current_database() and application_name ="
                         " 'pgstage submit' and state = 'idle' and query like '%done_version%'";
    int64_t deadline_ms = clock_now_ms(&clock_boottime) + 60000;
    while (number(looked) == 0) {
        cr_assert(clock_now_ms(&clock_boottime) < deadline_ms, "it does not look");
    }
    pg_exec(cli_url(), "begin; delete from pgstage.task; select pgstage.submit('lib', 'a'); commit");
    cr_expect_eq(terminal_end(terminal, &all), 1, "%s", all);
    cr_expect(has(all, "pgstage: the task 'a' is gone"), "%s", all);
    free(all);
}

Test(submit, does_not_wait_on_when_it_may_not_look) {
    struct terminal *terminal = terminal_start("submit lib a --wait");
    char *all = NULL;
    terminal_await(terminal, "new (version 1)");
    free(text("alter table pgstage.task rename to hidden"));
    cr_expect_eq(terminal_end(terminal, &all), 2, "%s", all);
    cr_expect(has(all, "pgstage.task"), "%s", all);
    free(all);
}
