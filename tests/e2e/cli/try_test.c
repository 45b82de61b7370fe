/* try_test.c - pgstage try: each kind of end, and that nothing stays of it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define STAGES                                                                                                         \
    "echo, upper, steer, talk, fail, retry, crash_segv, exit_now, spin, init_fail, big_output, sql, surroundings, count, " \
    "late, endless, reader, small, nonesuch, gone, last"

/* Every handler is a stage of its own name. */
static const char *const handlers[] = {"echo", "upper", "steer",     "talk", "fail",  "retry", "crash_segv", "exit_now",
                                       "spin", "init_fail", "big_output", "sql", "surroundings", "count"};

static void write_pipeline(void) {
    FILE *file = fopen("p.yaml", "w");
    cr_assert_not_null(file);
    fputs("pipeline: p\ndefaults: {timeout: 20s, grace: 200ms, retry: {attempts: 3, first: 30s}}\nstages:\n", file);
    for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++) {
        fprintf(file, "  - {name: %s, handler: \"%s:%s\"}\n", handlers[i], TEST_HANDLERS, handlers[i]);
    }
    fprintf(file, "  - {name: late, handler: \"%s:spin\", timeout: 300ms, grace: 100ms}\n", TEST_HANDLERS);
    fprintf(file, "  - {name: endless, handler: \"%s:hang\", timeout: none, grace: 100ms}\n", TEST_HANDLERS);
    fprintf(file, "  - {name: reader, handler: \"%s:inputs\", inputs: [echo, upper]}\n", TEST_HANDLERS);
    fprintf(file, "  - {name: small, handler: \"%s:surroundings\", limits: {open_files: 77}}\n", TEST_HANDLERS);
    fprintf(file, "  - {name: nonesuch, handler: \"%s:nonesuch\"}\n", TEST_HANDLERS);
    fputs("  - {name: gone, handler: gone.so:run}\n  - {name: last, sql: \"select :key\"}\n", file);
    fclose(file);
}

static void begin_alone(void) {
    cli_begin_without_database();
    write_pipeline();
}

TestSuite(try_alone, .init = begin_alone, .fini = cli_end, .timeout = 120);

/* Runs `try p.yaml ARGUMENTS --json`, wants the status, and gives the document: json_decref() it. */
static json_t *trial(int status, const char *arguments) {
    struct run *run = cli("try p.yaml %s --json", arguments);
    cr_expect_eq(run->status, status, "%s: status %d: %s%s", arguments, run->status, run->out, run->err);
    json_t *document = json_loads(run->out, 0, NULL);
    cr_assert_not_null(document, "%s: %s%s", arguments, run->out, run->err);
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

/* ---- a run that ends well ----------------------------------------------------------------------------------------- */

Test(try_alone, a_stage_runs_without_a_database) {
    struct run *run = cli("try p.yaml upper --payload '{\"text\": \"abc\"}'");
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect(has(run->out, "stage      upper of pipeline p\ntask       try, version 1, attempt 1 of 3\n"), "%s", run->out);
    cr_expect(has(run->out, "\noutcome    ok after "), "%s", run->out);
    cr_expect(has(run->out, "\noutput     {\"text\": \"ABC\"}\nnext       stage steer\n"), "%s", run->out);
    cr_expect_str_empty(run->err, "%s", run->err);
}

Test(try_alone, it_is_given_what_the_options_say) {
    json_t *document = trial(0, "echo --payload '{\"a\": 1}' --input '[2]' --as some/key --attempt 3");
    expect_json(json_object_get(document, "output"),
                "{\"attempt\": 3, \"input\": [2], \"key\": \"some/key\", \"payload\": {\"a\": 1}, \"pipeline\": \"p\", "
                "\"stage\": \"echo\", \"version\": 1}");
    json_decref(document);
    write_file("in.json", "[3]");
    document = trial(0, "echo --payload @in.json --input - <in.json");
    expect_json(json_object_get(json_object_get(document, "output"), "payload"), "[3]");
    expect_json(json_object_get(json_object_get(document, "output"), "input"), "[3]");
    json_decref(document);
    document = trial(0, "echo");
    expect_json(json_object_get(json_object_get(document, "output"), "payload"), "null");
    json_decref(document);
}

Test(try_alone, inputs_are_those_that_the_stage_names) {
    json_t *document = trial(0, "reader");
    expect_json(json_object_get(document, "output"), "{\"echo\": null, \"upper\": null}");
    json_decref(document);
    document = trial(0, "reader --inputs '{\"upper\": {\"n\": [1]}}'");
    expect_json(json_object_get(document, "output"), "{\"echo\": null, \"upper\": {\"n\": [1]}}");
    json_decref(document);
}

Test(try_alone, limits_and_configuration_are_those_of_the_file) {
    json_t *document = trial(0, "small");
    expect_json(json_object_get(json_object_get(document, "output"), "open_files"), "77");
    json_decref(document);
}

Test(try_alone, the_document_has_stable_names) {
    json_t *document = trial(0, "echo");
    json_object_set_new(document, "run_us", json_integer(json_is_integer(json_object_get(document, "run_us")) ? 5 : -1));
    json_object_del(document, "output");
    expect_json(document, "{\"attempt\": 1, \"attempts\": 3, \"key\": \"try\", \"kind\": null, \"last_output\": null, \"next\": "
                          "{\"action\": \"stage\", \"stage\": \"upper\"}, \"outcome\": \"ok\", \"pipeline\": \"p\", "
                          "\"reason\": null, \"rolled_back\": false, \"run_us\": 5, \"stage\": \"echo\", \"statements\": [], "
                          "\"version\": 1}");
    json_decref(document);
}

Test(try_alone, it_says_where_the_task_would_go) {
    static const struct {
        const char *plan, *next;
    } ways[] = {
        {"up", NULL},
        {"echo", "{\"action\": \"route\", \"stage\": \"echo\"}"},
        {"finish", "{\"action\": \"finish\", \"stage\": null}"},
        {"snooze:1500", "{\"action\": \"snooze\", \"delay_ms\": 1500, \"stage\": \"steer\"}"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char arguments[128];
        snprintf(arguments, sizeof arguments, "steer --payload '{\"steer\": [\"%s\"]}'", ways[i].plan);
        json_t *document = trial(ways[i].next == NULL ? 1 : 0, arguments);
        if (ways[i].next != NULL) {
            expect_json(json_object_get(document, "next"), ways[i].next);
        } else {
            cr_expect_str_eq(text_of(document, "outcome"), "fail");
            cr_expect_str_eq(text_of(document, "reason"), "it was routed to \"up\", which is no stage of its pipeline; the stages are: "
                                                         STAGES);
        }
        json_decref(document);
    }
    cr_expect(has(cli("try p.yaml steer --payload '{\"steer\": [\"snooze:1500\"]}'")->out, "\ndiscarded  {\"passes\": "));
}

Test(try_alone, log_lines_and_progress_come_on_standard_error) {
    struct run *run = cli("try p.yaml talk --payload '{\"lines\": 2}'");
    cr_expect(has(run->err, "task.log text=\"line 1 of 2\"\n"), "%s", run->err);
    cr_expect(has(run->err, "progress 50%: line 1\n"), "%s", run->err);
    cr_expect(has(run->err, "progress 100%: line 2\n"), "%s", run->err);
    cr_expect(!has(run->out, "line 1"));
    cr_expect(!has(run->err, "worker.ready"), "%s", run->err);
}

Test(try_alone, a_long_output_is_cut_but_for_a_program) {
    struct run *run = cli("try p.yaml big_output --payload '{\"bytes\": 100000}'");
    cr_expect_lt(strlen(run->out), 5000);
    cr_expect(has(run->out, "\n    … of 97.7 kB; --json prints all of it\n"), "%s", run->out);
    json_t *document = trial(0, "big_output --payload '{\"bytes\": 100000}'");
    cr_expect_eq(strlen(text_of(document, "output")), 99998);
    json_decref(document);
}

Test(try_alone, nothing_reaches_a_terminal_that_it_would_obey) {
    struct run *run = cli("try p.yaml echo --as \"$(printf 'k\\033[31m')\" --payload \"$(printf '\"a\\302\\233b\"')\"");
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect(has(run->out, "task       k\\x1b[31m, version 1"), "%s", run->out);
    cr_expect(has(run->out, "a\\x9bb"), "%s", run->out);
    cr_expect(!has(run->out, "\033") && !has(run->out, "\302\233"));
}

Test(try_alone, statements_are_shown_and_not_run) {
    struct run *run = cli("try p.yaml sql --payload '{\"statements\": [{\"sql\": \"insert into t values ($1, $2)\", "
                          "\"parameters\": [\"a\", null]}]}'");
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect(has(run->out, "sql        1 statement, not run: --sql runs them in a transaction that is rolled back\n"
                            "  statement 1\n    insert into t values ($1, $2)\n    $1 = a\n    $2 = null\n"),
              "%s", run->out);
}

/* ---- a run that does not ------------------------------------------------------------------------------------------ */

Test(try_alone, failures_say_what_a_node_would_do) {
    static const struct {
        const char *stage, *outcome, *kind, *reason, *next;
    } ends[] = {
        {"retry", "retry", "error", "attempt 1 found the service busy",
         "{\"action\": \"retry\", \"attempt\": 2, \"delay_ms\": 30000, \"stage\": \"retry\"}"},
        {"retry --attempt 3", "retry", "error", "attempt 3 found the service busy",
         "{\"action\": \"failed\", \"stage\": null}"},
        {"fail", "fail", "permanent", "document 'try' cannot be read", "{\"action\": \"failed\", \"stage\": null}"},
        {"crash_segv", "crash", "crash", "SIGSEGV", "{\"action\": \"again\", \"stage\": \"crash_segv\"}"},
        {"exit_now", "crash", "no_answer", "exit", "{\"action\": \"again\", \"stage\": \"exit_now\"}"},
        {"late", "timeout", "timeout", "300ms",
         "{\"action\": \"retry\", \"attempt\": 2, \"delay_ms\": 30000, \"stage\": \"late\"}"},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        json_t *document = trial(1, ends[i].stage);
        cr_expect_str_eq(text_of(document, "outcome"), ends[i].outcome, "%s: %s", ends[i].stage,
                         text_of(document, "outcome"));
        cr_expect_str_eq(text_of(document, "kind"), ends[i].kind, "%s: %s", ends[i].stage, text_of(document, "kind"));
        cr_expect(has(text_of(document, "reason"), ends[i].reason), "%s: %s", ends[i].stage, text_of(document, "reason"));
        expect_json(json_object_get(document, "next"), ends[i].next);
        json_decref(document);
    }
    struct run *run = cli("try p.yaml retry");
    cr_expect_eq(run->status, 1);
    cr_expect(has(run->out, "\nnext       this stage again in about 30s, as attempt 2 of 3\n"), "%s", run->out);
}

/* The worker is asked once: a node would try again, and say the same. */
Test(try_alone, a_worker_that_does_not_get_ready_is_told_of) {
    static const char *const stages[] = {"init_fail", "nonesuch"}, *const reasons[] = {"the model file x.bin is missing", "has no handler 'nonesuch'"};
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        json_t *document = trial(1, stages[i]);
        cr_expect_str_eq(text_of(document, "outcome"), "refused");
        cr_expect(has(text_of(document, "reason"), reasons[i]), "%s", text_of(document, "reason"));
        expect_json(json_object_get(document, "next"), "null");
        json_decref(document);
    }
    struct run *run = cli("try p.yaml init_fail");
    const char *said = strstr(run->err, "text=\"init looks for its model\"");
    cr_assert_not_null(said, "%s", run->err);
    cr_expect_null(strstr(said + strlen("text=\"init"), "init looks"), "%s", run->err);
}

Test(try_alone, wrong_words_are_refused) {
    char *missing = NULL;
    cr_assert_geq(asprintf(&missing, "pgstage: the handler of stage 'gone' cannot be read: %s/gone.so", cli_folder()), 0);
    cli_refuses(2, missing, "try p.yaml gone");
    free(missing);
    struct run *run = cli("try p.yaml uper");
    cr_expect_eq(run->status, 2);
    cr_expect(has(run->err, "pgstage: pipeline 'p' has no stage 'uper'; its stages are echo, upper, "), "%s", run->err);
    cr_expect(has(run->err, "\ndid you mean 'upper'?\n"), "%s", run->err);
    cli_refuses(2, "pgstage try: an argument is missing: STAGE", "try p.yaml");
    cli_refuses(2, "--payload:1:1: string or '}' expected near end of file", "try p.yaml echo --payload '{'");
    cli_refuses(2, "pgstage try: --key and --payload exclude each other: the task has its payload",
                "try p.yaml echo --key k --payload 1");
    cli_refuses(2, "pgstage try: --key and --as exclude each other", "try p.yaml echo --key k --as b");
    cli_refuses(2, "pgstage try: standard input can be read once", "try p.yaml echo --payload - --input -");
    cli_refuses(2, "pgstage try: --attempt wants a whole number from 1 to 1000000, not '0'", "try p.yaml echo --attempt 0");
    cli_refuses(2, "pgstage try: stage 'echo' has no `inputs:` in p.yaml", "try p.yaml echo --inputs {}");
    cli_refuses(2, "pgstage try: --inputs wants a JSON object: {\"STAGE\": its output, ...}", "try p.yaml reader --inputs 1");
    cli_refuses(2, "pgstage try: --inputs has 'fail', which `inputs:` of stage 'reader' does not name",
                "try p.yaml reader --inputs '{\"echo\": 1, \"fail\": 2}'");
    cli_refuses(2,
                "pgstage try: stage 'last' is SQL, which only a database can run: --sql runs it, with --key on a task, in a "
                "transaction that is rolled back",
                "try p.yaml last");
    cr_expect_eq(cli("try none.yaml echo")->status, 2);
}

Test(try_alone, a_database_that_is_away_is_told_of) {
    cr_expect_eq(cli("try p.yaml echo --key k")->status, 3);
    cr_expect_eq(cli("try p.yaml last --sql")->status, 3);
}

/* ---- Ctrl-C ------------------------------------------------------------------------------------------------------- */

Test(try_alone, ctrl_c_ends_the_run_and_all_that_it_started) {
    char *all = NULL;
    struct terminal *terminal = terminal_start("try p.yaml endless");
    const char *shown = terminal_await(terminal, "\"\r\n");
    const char *said = strstr(shown, "child ");
    cr_assert_not_null(said, "%s", shown);
    long child = strtol(said + 6, NULL, 10);
    terminal_type(terminal, "\003");
    cr_expect_eq(terminal_end(terminal, &all), 1, "%s", all);
    cr_expect(has(all, "outcome    interrupted after "), "%s", all);
    free(all);
    cr_assert_gt(child, 1);
    /* One that nobody has reaped yet is dead as well. */
    cr_expect_eq(shell("! grep '^State:[^Z]*$' /proc/%ld/status", child)->status, 0, "the child of the handler lives");
    cr_expect_str_empty(shell("ls home/nodes")->out);
}
