/* conform_test.c - `pgstage conform`: workers that keep the protocol pass, and one that breaks a rule is told which. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "rig.h"

TestSuite(conform, .init = cli_begin_without_database, .fini = cli_end, .timeout = 600);

#define WORKERS TEST_SOURCE_DIR "/sdk/workers"
#define BREAKING TEST_SOURCE_DIR "/tests/support/programs/breaking_worker.py"

/* The last line of a text, without its newline. */
static const char *last_line(char *text) {
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\n') {
        text[length - 1] = '\0';
    }
    const char *newline = strrchr(text, '\n');
    return newline == NULL ? text : newline + 1;
}

static void want_all(struct run *run, const char *end) {
    cr_assert_eq(run->status, 0, "%s%s", run->out, run->err);
    cr_assert_null(strstr(run->out, "not ok"));
    cr_assert_str_eq(last_line(run->out), end);
}

Test(conform, the_python_module_passes) {
    want_all(cli("conform -- python3 " WORKERS "/python/conformance.py"), "32 passed, 0 failed");
    want_all(cli("conform --batch 1 -- python3 " WORKERS "/python/conformance.py"), "36 passed, 0 failed");
    want_all(cli("conform --batch 5 -- python3 " WORKERS "/python/conformance.py"), "36 passed, 0 failed");
}

Test(conform, the_worker_in_shell_passes) {
    want_all(cli("conform --timeout 60s -- sh " WORKERS "/shell/worker.sh"), "32 passed, 0 failed");
}

Test(conform, a_worker_written_from_the_page_passes) {
    want_all(cli("conform -- python3 " BREAKING " none"), "32 passed, 0 failed");
    want_all(cli("conform --batch 5 -- python3 " BREAKING " none"), "36 passed, 0 failed");
}

/* "a b " of the lines "not ok a: ..." and "not ok b: ...". */
static void failed_checks(const char *out, struct buf *names) {
    for (const char *at = out; (at = strstr(at, "not ok ")) != NULL;) {
        at += strlen("not ok ");
        buf_append(names, at, strcspn(at, ":"));
        buf_append_char(names, ' ');
    }
}

struct broken {
    const char *rule, *failed;
    bool only_batch;
};

static struct broken rules[] = {
    {"greets", "ready ", false},
    {"loses_digits", "big_numbers ", false},
    {"loses_unicode", "unicode large_value fail sql log with ", false},
    {"cuts_lines", "large_value ", false},
    {"forgets_progress", "last_progress ", false},
    {"forgets_with", "with ", false},
    {"always_retries", "fail ", false},
    {"gives_no_reason", "fail retry ", false},
    {"loses_parameters", "sql ", false},
    {"routes_and_finishes", "route ", false},
    {"snoozes_seconds", "snooze ", false},
    {"reports_percent", "progress ", false},
    {"logs_without_id", "log ", false},
    {"prints", "print ", false},
    {"is_deaf", "cancelled ", false},
    {"accepts_all", "unknown_payload ", false},
    {"changes_ids", "ids ", false},
    {"dies_of_unknown_members", "unknown_members ", false},
    {"dies_of_empty_lines", "empty_lines ", false},
    {"dies_of_late_tells", "late_tell ", false},
    {"dies_of_unknown_types", "unknown_types ", false},
    {"adds_a_farewell", "stop ", false},
    {"stops_with_status_3", "stop ", false},
    {"outlives_its_input", "end_of_input ", false},
    {"ignores_sigterm", "sigterm ", false},
    {"refuses_nothing", "refused ", false},
    {"forgets_one", "batch_of_many batch_mixed batch_tell ", true},
    {"fails_one_by_one", "batch_failed ", true},
};

ParameterizedTestParameters(conform, each_rule_that_is_broken_is_named) {
    return cr_make_param_array(struct broken, rules, sizeof rules / sizeof rules[0]);
}

/* The time is what one of them waits for in vain, and what the others need on a busy machine. */
ParameterizedTest(struct broken *broken, conform, each_rule_that_is_broken_is_named) {
    struct run *run =
        cli("conform --timeout 5s %s -- python3 " BREAKING " %s", broken->only_batch ? "--batch 3" : "", broken->rule);
    struct buf names;
    buf_init(&names, SIZE_MAX);
    failed_checks(run->out, &names);
    cr_assert_eq(run->status, 1, "%s: %s", broken->rule, run->out);
    cr_assert_str_eq(names.data, broken->failed, "%s: %s%s", broken->rule, run->out, run->err);
    buf_finish(&names);
}

static void want_first(const char *line, const char *arguments) {
    struct run *run = cli("conform %s", arguments);
    cr_expect_eq(run->status, 1);
    cr_expect(has(run->out, line), "%s: %s", arguments, run->out);
}

Test(conform, an_end_is_told_as_it_was) {
    want_first("not ok ready: expected {\"type\":\"ready\"} as the answer to hello; came its exit with status 3; ",
               "-- sh -c 'read -r hello; exit 3'");
    want_first("; came its exit with status 0; ", "-- true");
    want_first("; came its death of signal 9 (Killed); ", "-- sh -c 'kill -9 $$'");
    want_first("expected that it reads its standard input; came the end of its standard input, while it lives on; ",
               "-- sh -c 'exec <&-; echo \"{\\\"type\\\":\\\"ready\\\"}\"; exec sleep 20'");
}

Test(conform, numbers_are_shown_as_they_are) {
    want_first("not ok big_numbers: expected the output 9007199254740993; came 9007199254740992; ",
               "-- python3 " BREAKING " loses_digits");
}

/* As in a stage of a pipeline in this folder. */
Test(conform, a_program_is_looked_for_here_first) {
    shell("printf '#!/bin/sh\nread -r hello\nexit 7\n' >true && chmod 755 true");
    want_first("came its exit with status 7; ", "-- true");
}

static char *text_of_file(const char *name) {
    char *text = shell("cat %s", name)->out;
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* As in a stage: nothing outlives it, it gets no password, and it is in a folder of its own. */
Test(conform, a_program_has_what_a_stage_gives_and_leaves_nothing) {
    setenv("PGPASSWORD", "canary", 1);
    want_first("came its exit with status 5; ",
               "-- sh -c 'env >$0/variables; pwd >$0/where; echo $TMPDIR >$0/temporary; "
               "setsid sh -c \"echo \\$\\$ >$0/pid; exec sleep 7790\" >/dev/null 2>&1 & while [ ! -s $0/pid ]; do :; done; exit 5' "
               "\"$PWD\"");
    pid_t daemon = (pid_t)atoi(text_of_file("pid"));
    cr_assert_gt(daemon, 1);
    bool lives = kill(daemon, 0) == 0;
    cr_expect_not(lives, "the daemon lives");
    if (lives) {
        kill(daemon, SIGKILL);
    }
    char *variables = shell("cat variables")->out;
    cr_expect(has(variables, "PGSTAGE_PIPELINE=conformance\n"), "%s", variables);
    cr_expect(has(variables, "PGSTAGE_STAGE=test\n"), "%s", variables);
    cr_expect_not(has(variables, "canary"), "%s", variables);
    char where[PATH_MAX];
    snprintf(where, sizeof where, "%s", text_of_file("where"));
    cr_expect_str_eq(text_of_file("temporary"), where);
    cr_expect(has(where, "pgstage-conform-"), "%s", where);
    cr_expect_neq(access(where, F_OK), 0, "%s stays", where);
}

Test(conform, a_file_of_this_folder_is_found_from_the_programs_own) {
    shell("printf 'read -r hello\nexit 9\n' >worker.sh && chmod 644 worker.sh");
    want_first("came its exit with status 9; ", "-- sh worker.sh");
}

/* Its program is in a group of its own, which a Ctrl-C does not reach. */
Test(conform, one_that_is_terminated_ends_its_program) {
    cli("conform -- sh -c 'echo $$ >$0/pid; exec sleep 7790' \"$PWD\" >conform.out 2>&1 & "
        "while [ ! -s pid ]; do :; done; kill $!; wait $!");
    pid_t program = (pid_t)atoi(text_of_file("pid"));
    cr_assert_gt(program, 1);
    bool lives = kill(program, 0) == 0;
    cr_expect_not(lives, "the program lives");
    if (lives) {
        kill(program, SIGKILL);
    }
}

/* Every check after the first would say the same: what it says is enough. */
Test(conform, wrong_ids_and_second_results_are_named) {
    struct run *run = cli("conform -- python3 " BREAKING " answers_with_numbers");
    cr_assert_eq(run->status, 1);
    cr_assert(has(run->out, "not ok echo: expected an \"id\", a text, in each result; came the line: "
                            "{\"type\": \"result\", \"id\": 1, "),
              "%s", run->out);
    run = cli("conform -- python3 " BREAKING " answers_twice");
    cr_assert_eq(run->status, 1);
    cr_assert(has(run->out, "not ok echo: expected results for ids that are open, one each; came the line: "), "%s", run->out);
}

Test(conform, says_what_was_expected_what_came_and_where_it_is_written) {
    struct run *run = cli("conform -- python3 " BREAKING " always_retries");
    cr_assert(has(run->out, "not ok fail: expected the outcome \"fail\"; came \"retry\"; see \"result\" in docs/worker-protocol.md\n"),
              "%s", run->out);
    run = cli("conform --json -- python3 " BREAKING " always_retries");
    cr_assert_eq(run->status, 1);
    cr_assert(has(run->out, "{\"check\": \"fail\", \"ok\": false, \"expected\": \"the outcome \\\"fail\\\"\", \"came\": "
                            "\"\\\"retry\\\"\", \"where\": \"result\"}\n{\"check\": \"retry\", \"ok\": true}\n") ||
                  has(run->out, "{\"check\":\"fail\",\"ok\":false,\"expected\":\"the outcome \\\"fail\\\"\",\"came\":"
                                "\"\\\"retry\\\"\",\"where\":\"result\"}\n{\"check\":\"retry\",\"ok\":true}\n"),
              "%s", run->out);
    cr_assert_str_eq(last_line(run->out), "{\"passed\":31,\"failed\":1}");
}

Test(conform, a_program_that_cannot_be_started_is_one_failure) {
    struct run *run = cli("conform -- ./no-such-program");
    cr_assert_eq(run->status, 1);
    cr_assert(has(run->out, "not ok ready: expected that it can be started; came there is no program './no-such-program' in "
                            "the pipeline's folder /"),
              "%s", run->out);
    cr_assert(has(run->out, "; see \"Life\" in docs/worker-protocol.md\n0 passed, 1 failed\n"), "%s", run->out);
    cli_refuses(2, "pgstage conform: an argument is missing: PROGRAM", "conform --batch 3");
}
