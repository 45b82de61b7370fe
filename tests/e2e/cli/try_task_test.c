/* try_task_test.c - pgstage try on tasks and databases: what it reads, and that what it does is rolled back. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/pg.h"

static void begin(void) {
    cli_begin();
    FILE *file = fopen("p.yaml", "w");
    cr_assert_not_null(file);
    fputs("pipeline: p\ndefaults: {retry: {attempts: 3}}\nstages:\n", file);
    fprintf(file, "  - {name: a, handler: \"%s:pass\"}\n", TEST_HANDLERS);
    fprintf(file, "  - {name: b, handler: \"%s:echo\"}\n", TEST_HANDLERS);
    fprintf(file, "  - {name: c, handler: \"%s:echo\", inputs: [a, b]}\n", TEST_HANDLERS);
    fprintf(file, "  - {name: reader, handler: \"%s:inputs\", inputs: [a, b, c]}\n", TEST_HANDLERS);
    fprintf(file, "  - {name: queue, handler: \"%s:sql\", timeout: 1s}\n", TEST_HANDLERS);
    fprintf(file, "  - {name: deadly, handler: \"%s:crash_segv\"}\n", TEST_HANDLERS);
    fputs("  - {name: cat, command: [cat]}\n", file);
    fputs("  - {name: index, sql: [\"insert into ledger (key, version, at, value) values (:key, :version, :updated_at, "
          ":input)\", \"select 1 / (case when :key like 'zero%' then 0 else 1 end)\", \"select from generate_series(1, 3)\"]}\n"
          "  - {name: sleepy, sql: select pg_sleep(60), timeout: 300ms}\n"
          "  - {name: other, sql: select current_user, role: nobody_here}\n",
          file);
    fclose(file);
    pg_exec(cli_url(), "create table ledger (n serial, key text, version int, at timestamptz, value jsonb);"
                       "create table audit (n int);"
                       "create function note() returns trigger language plpgsql as "
                       "  'begin insert into audit values (1); return new; end';"
                       "create trigger note after insert on ledger for each row execute function note()");
    cli_prints("pipeline 'p' is at revision 1\n", "apply p.yaml");
}

TestSuite(try_task, .init = begin, .fini = cli_end, .timeout = 120);

/* All that pgstage knows, to the last row version: two that are equal mean that nothing was written. */
static char *everything(void) {
    return text("select concat((select string_agg(concat(xmin, xmax, t), ';' order by id) from pgstage.task t), '/', "
                "(select string_agg(concat(xmin, o), ';' order by task, stage) from pgstage.output o), '/', "
                "(select count(*) from pgstage.failure), '/', (select count(*) from pgstage.claim_batch), '/', "
                "(select string_agg(concat(xmin, n.id), ';') from pgstage.node n))");
}

/* Runs `try p.yaml ARGUMENTS --json`, and wants the status, and that pgstage's tables and the ledger are as they were. */
static json_t *trial(int status, const char *arguments) {
    char *before = everything();
    struct run *run = cli("try p.yaml %s --json", arguments);
    cr_expect_eq(run->status, status, "%s: status %d: %s%s", arguments, run->status, run->out, run->err);
    json_t *document = json_loads(run->out, 0, NULL);
    cr_assert_not_null(document, "%s: %s%s", arguments, run->out, run->err);
    char *after = everything();
    cr_expect_str_eq(after, before);
    free(before);
    free(after);
    cr_expect_eq(number("select (select count(*) from ledger) + (select count(*) from audit)"), 0, "%s", arguments);
    return document;
}

static const char *text_of(const json_t *document, const char *name) {
    const char *value = json_string_value(json_object_get(document, name));
    return value == NULL ? "" : value;
}

static void expect_json(const json_t *value, const char *wanted) {
    char *got = json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS);
    cr_expect_str_eq(got == NULL ? "nothing" : got, wanted);
    free(got);
}

/* What `echo` was given. */
static void expect_given(const char *arguments, const char *name, const char *wanted) {
    json_t *document = trial(0, arguments);
    expect_json(json_object_get(json_object_get(document, "output"), name), wanted);
    json_decref(document);
}

/* A task at its third version whose stages a and b have returned something in it, and something else before; c only
 * before. */
static void make_task(void) {
    cli_prints("new (version 1)\n", "submit p doc --payload '{\"x\": 5}' --updated-at 2026-01-01T00:00:00Z");
    pg_exec(cli_url(), "update pgstage.task set version = 3, stage = s.id, ready_stage = s.id, attempt = 1 from pgstage.stage s "
                       "where s.name = 'b';"
                       "insert into pgstage.output (task, stage, version, value) select t.id, s.id, v.version, "
                       "  to_jsonb(concat(s.name, v.version)) from pgstage.task t, pgstage.stage s, (values (2), (3)) v(version) "
                       "where s.name in ('a', 'b') or (s.name = 'c' and v.version = 2)");
}

/* ---- what it reads ------------------------------------------------------------------------------------------------ */

Test(try_task, a_stage_is_given_what_a_claim_would_give_it) {
    make_task();
    expect_given("b --key doc", "payload", "{\"x\": 5}");
    expect_given("b --key doc", "input", "\"a3\"");
    expect_given("b --key doc", "version", "3");
    expect_given("b --key doc", "attempt", "2");
    expect_given("c --key doc", "attempt", "1");
    cr_expect(!has(cli("try p.yaml c --key doc")->err, "note: "));
    expect_given("c --key doc", "input", "\"b3\"");
    expect_given("c --key doc --input '{\"mine\": 1}'", "input", "{\"mine\": 1}");
    expect_given("b --key doc --attempt 9", "attempt", "9");
}

Test(try_task, that_there_is_no_input_is_said) {
    cli_prints("new (version 1)\n", "submit p doc");
    const char *note = "note: in version 1 of the task no stage before 'b' returned an output: its input is null, ";
    cr_expect(has(cli("try p.yaml b --key doc")->err, note));
    cr_expect(!has(cli("try p.yaml b --key doc --input 1")->err, "note: "));
    cr_expect(!has(cli("try p.yaml a --key doc")->err, "note: "), "the first has none ever");
}

Test(try_task, inputs_are_those_of_its_version) {
    make_task();
    json_t *document = trial(0, "reader --key doc");
    expect_json(json_object_get(document, "output"), "{\"a\": \"a3\", \"b\": \"b3\", \"c\": null}");
    json_decref(document);
    document = trial(0, "reader --key doc --inputs '{\"c\": 1, \"a\": null}'");
    expect_json(json_object_get(document, "output"), "{\"a\": null, \"b\": \"b3\", \"c\": 1}");
    json_decref(document);
}

Test(try_task, how_far_an_earlier_run_came_is_known) {
    make_task();
    pg_exec(cli_url(), "insert into pgstage.progress (task, stage, version, fraction, text) select t.id, s.id, 3, 0.25, 'page 2' "
                       "from pgstage.task t, pgstage.stage s where s.name = 'cat'");
    expect_given("cat --key doc", "progress", "{\"fraction\": 0.25, \"message\": \"page 2\"}");
    pg_exec(cli_url(), "update pgstage.progress set version = 2");
    expect_given("cat --key doc", "progress", "nothing");
}

/* At the third crash it would run alone, and be quarantined. */
Test(try_task, what_a_task_has_been_through_counts) {
    make_task();
    pg_exec(cli_url(), "update pgstage.task set crashes = 3, stage = (select id from pgstage.stage where name = 'deadly'), "
                       "ready_stage = (select id from pgstage.stage where name = 'deadly')");
    json_t *document = trial(1, "deadly --key doc");
    cr_expect_str_eq(text_of(document, "outcome"), "crash");
    cr_expect_str_eq(text_of(document, "kind"), "quarantine");
    expect_json(json_object_get(document, "next"), "{\"action\": \"failed\", \"stage\": null}");
    json_decref(document);
}

/* A task that was routed to a stage has the output of where it came from. */
Test(try_task, the_way_that_a_task_came_is_known) {
    make_task();
    pg_exec(cli_url(), "update pgstage.task set way_version = 3, came_to = c.id, came_from = a.id from pgstage.stage a, "
                       "pgstage.stage c where a.name = 'a' and c.name = 'c'");
    expect_given("c --key doc", "input", "\"a3\"");
}

Test(try_task, stages_that_have_another_name_in_the_file_are_found) {
    make_task();
    shell("sed -i 's/name: a,/name: fresh, renamed_from: a,/; s/inputs: .a, b/inputs: [fresh, b/' p.yaml");
    expect_given("b --key doc", "input", "\"a3\"");
    expect_given("reader --key doc", "fresh", "\"a3\"");
}

/* Neither a claim nor a run of it elsewhere is in the way. */
Test(try_task, a_task_that_runs_elsewhere_is_no_obstacle) {
    make_task();
    claim("doc");
    expect_given("b --key doc", "input", "\"a3\"");
    cr_expect_eq(number("select count(*) from pgstage.task where status = 'running' and node = 77"), 1);
}

Test(try_task, unknown_names_are_refused) {
    make_task();
    cli_refuses(2, "pgstage: pipeline 'p' has no task 'dok'; did you mean 'doc'?", "try p.yaml b --key dok");
    shell("sed -i 's/pipeline: p/pipeline: q/' p.yaml");
    cli_refuses(2, "pgstage: there is no pipeline 'q'; did you mean 'p'?", "try p.yaml b --key doc");
}

/* ---- what it does, and undoes ------------------------------------------------------------------------------------- */

Test(try_task, queued_statements_are_run_and_rolled_back) {
    cli_prints("new (version 1)\n", "submit p doc --payload '{\"statements\": [{\"sql\": "
                                    "\"insert into ledger (key) select $1 from generate_series(1, 2)\", \"parameters\": [\"k\"]}, "
                                    "{\"sql\": \"select n from ledger\"}]}'");
    json_t *result = trial(0, "queue --key doc");
    cr_expect(json_is_true(json_object_get(result, "rolled_back")));
    expect_json(json_object_get(result, "statements"),
                "[{\"error\": null, \"params\": [\"k\"], \"rows\": 2, \"sql\": \"insert into ledger (key) select $1 from "
                "generate_series(1, 2)\"}, {\"error\": null, \"params\": [], \"rows\": 2, \"sql\": \"select n from ledger\"}]");
    json_decref(result);
    /* A sequence goes on, as it does in any transaction that is rolled back. */
    cr_expect_eq(number("select last_value from ledger_n_seq"), 2);
}

Test(try_task, statements_of_a_payload_are_run_when_asked_for) {
    static const char payload[] = "'{\"statements\": [{\"sql\": \"insert into ledger (key) values (1)\"}]}'";
    char *arguments = NULL;
    cr_assert_geq(asprintf(&arguments, "queue --payload %s --sql", payload), 0);
    json_t *result = trial(0, arguments);
    expect_json(json_object_get(json_array_get(json_object_get(result, "statements"), 0), "rows"), "1");
    json_decref(result);
    free(arguments);
    cr_assert_geq(asprintf(&arguments, "queue --payload %s", payload), 0);
    result = trial(0, arguments);
    expect_json(json_object_get(json_array_get(json_object_get(result, "statements"), 0), "rows"), "null");
    json_decref(result);
    free(arguments);
}

Test(try_task, an_sql_stage_is_run_and_rolled_back) {
    cli_prints("new (version 1)\n", "submit p doc --updated-at 2026-01-01T00:00:00Z");
    struct run *run = cli("try p.yaml index --key doc");
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect(has(run->out, "\nnext       stage sleepy\nsql        3 statements, rolled back\n  statement 1\n"), "%s", run->out);
    cr_expect(has(run->out, "\n    $1 = doc\n    $2 = 1\n    $3 = 2026-01-01T00:00:00+00:00\n    $4 = null\n    1 row\n"), "%s",
              run->out);
    cr_expect(has(run->out, "\n    3 rows\n"), "%s", run->out);
    cr_expect_eq(number("select (select count(*) from ledger) + (select count(*) from audit)"), 0);
    json_decref(trial(0, "index --payload 1 --sql"));
    char *arguments = NULL;
    cr_assert_geq(asprintf(&arguments, "index --database '%s'", cli_url()), 0);
    json_decref(trial(0, arguments));
    free(arguments);
}

Test(try_task, a_statement_that_fails_is_named) {
    json_t *result = trial(1, "index --as zero --sql");
    cr_expect_str_eq(text_of(result, "outcome"), "retry");
    cr_expect_str_eq(text_of(result, "kind"), "statement");
    cr_expect_str_eq(text_of(result, "reason"), "statement 2: division by zero");
    expect_json(json_object_get(json_object_get(result, "next"), "attempt"), "2");
    json_t *statements = json_object_get(result, "statements");
    expect_json(json_object_get(json_array_get(statements, 0), "error"), "null");
    expect_json(json_object_get(json_array_get(statements, 1), "error"), "\"division by zero\"");
    expect_json(json_object_get(json_array_get(statements, 2), "rows"), "null");
    json_decref(result);
    struct run *run = cli("try p.yaml index --as zero --sql");
    cr_expect(has(run->out, "\n    ! division by zero\n  statement 3\n"), "%s", run->out);
}

Test(try_task, the_time_out_and_the_role_of_the_stage_hold) {
    json_t *result = trial(1, "sleepy --sql");
    cr_expect_str_eq(text_of(result, "outcome"), "timeout");
    cr_expect_str_eq(text_of(result, "kind"), "timeout");
    json_decref(result);
    result = trial(1, "other --sql");
    cr_expect(has(text_of(result, "reason"), "nobody_here"), "%s", text_of(result, "reason"));
    json_decref(result);
}

/* What would fail at commit fails here as well. */
Test(try_task, what_is_checked_at_commit_is_checked) {
    pg_exec(cli_url(), "alter table ledger add constraint once unique (key) deferrable initially deferred");
    json_t *result = trial(1, "queue --sql --payload '{\"statements\": [{\"sql\": "
                              "\"insert into ledger (key) values (1), (1)\"}]}'");
    cr_expect(has(text_of(result, "reason"), "\"once\""), "%s", text_of(result, "reason"));
    json_decref(result);
}

/* Each of these would keep what was done before it. */
Test(try_task, a_statement_cannot_end_the_transaction) {
    static const char *const ends[] = {"commit", ";commit", "; /* ; */ ; end", "\\n;\\tCOMMIT", "call ends()",
                                       "do 'begin commit; end'", "prepare transaction 'x'", "commit and chain", "-- a\\rcommit",
                                       ";prepare transaction 'x'"};
    pg_exec(cli_url(), "create procedure ends() language plpgsql as 'begin commit; end'");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char file[512];
        snprintf(file, sizeof file,
                 "{\"statements\": [{\"sql\": \"insert into ledger (key) values (1)\"}, {\"sql\": \"%s\"}, "
                 "{\"sql\": \"insert into ledger (key) values (2)\"}]}",
                 ends[i]);
        write_file("payload.json", file);
        json_t *result = trial(1, "queue --sql --payload @payload.json");
        cr_expect_str_eq(text_of(result, "kind"), "statement", "%s", ends[i]);
        cr_expect(has(text_of(result, "reason"), "statement 2: "), "%s: %s", ends[i], text_of(result, "reason"));
        json_decref(result);
    }
}
