/* What a test does wrong ends it with a sentence. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "subjects.h"

TestSuite(kit_misuse, .timeout = 60);

static const char *file, *name; /* for `load` */

static void load(pgstage_test *test) {
    (void)test;
    pgstage_test_load(file, name);
}

static void set_payload(pgstage_test *test) {
    pgstage_test_set_payload(test, "{\"a\"");
}

static void set_packed(pgstage_test *test) {
    pgstage_test_set_payload_json(test, json_pack("{s:s}", "a", NULL));
}

static void set_with(pgstage_test *test) {
    pgstage_test_set_with(test, "[]");
}

static void set_key(pgstage_test *test) {
    pgstage_test_set_key(test, NULL);
}

static void select_task(pgstage_test *test) {
    pgstage_test_select_task(test, 1);
}

static void look_too_early(pgstage_test *test) {
    (void)pgstage_test_output(test, NULL);
}

static void ask_too_early(pgstage_test *test) {
    (void)pgstage_test_message(test);
}

static void run_several(pgstage_test *test) {
    pgstage_test_add_task(test);
    (void)pgstage_test_run(test);
}

static void run_batch(pgstage_test *test) {
    (void)pgstage_test_run_batch(test);
}

static void look_at_sql(pgstage_test *test) {
    (void)pgstage_test_run(test);
    (void)pgstage_test_sql(test, 1);
}

static void look_at_parameter(pgstage_test *test) {
    (void)pgstage_test_run(test);
    (void)pgstage_test_parameter(test, 0, 4);
}

static void look_at_log(pgstage_test *test) {
    (void)pgstage_test_run(test);
    (void)pgstage_test_log(test, -1);
}

static void look_at_progress(pgstage_test *test) {
    (void)pgstage_test_run(test);
    pgstage_test_progress(test, 1, NULL, NULL);
}

static void inject_early(pgstage_test *test) {
    pgstage_test_inject(test, PGSTAGE_TEST_CANCEL, 0);
}

static void inject_nonsense(pgstage_test *test) {
    pgstage_test_inject(test, 16, 1);
}

/* In a process of its own: what `misuse` writes before it is aborted. */
static void expect_sentence(void (*misuse)(pgstage_test *test), const char *sentence) {
    int ends[2], status;
    char said[1000] = "";
    size_t length = 0;
    ssize_t got;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        misuse(pgstage_test_create(&pgstage_handler_everything));
        _exit(0);
    }
    close(ends[1]);
    while (length < sizeof said - 1 && (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0) {
        length += (size_t)got;
    }
    close(ends[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s: %x", sentence, (unsigned)status);
    cr_expect_eq(strncmp(said, "pgstage test: ", 14), 0, "%s", said);
    cr_expect_not_null(strstr(said, sentence), "'%s' lacks '%s'", said, sentence);
}

Test(kit_misuse, has_a_sentence) {
    static const struct {
        void (*misuse)(pgstage_test *test);
        const char *sentence;
    } cases[] = {
        {set_payload, "the payload is no JSON text: "},
        {set_packed, "the payload is NULL or cannot be written (did json_pack fail?)"},
        {set_with, "the `with:` block is no JSON object"},
        {set_key, "the key is NULL"},
        {select_task, "there is no task 1: there are 1, from 0 on"},
        {look_too_early, "there is nothing to look at: the task has not run"},
        {ask_too_early, "there is nothing to look at: the task has not run"},
        {run_several, "there are 2 tasks: pgstage_test_run_batch runs them"},
        {run_batch, "handler 'everything' has no .run_batch function"},
        {look_at_sql, "there is no statement 1: there are 1, from 0 on"},
        {look_at_parameter, "statement 0 has no parameter 4: it has 4, from 0 on"},
        {look_at_log, "there is no log line -1: there are 2, from 0 on"},
        {look_at_progress, "there is no progress 1: there are 1 reports, from 0 on"},
        {inject_early, "cannot inject 1 at call 0"},
        {inject_nonsense, "cannot inject 16 at call 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_sentence(cases[i].misuse, cases[i].sentence);
    }
}

Test(kit_misuse, a_handler_that_cannot_be_had_is_one) {
    static const struct {
        const char *file, *name, *sentence;
    } cases[] = {
        {"/nowhere/x.so", "a", "cannot load /nowhere/x.so: "},
        {TEST_BINARY_DIR "/tests/handlers/test_handlers.so", "lower", "test_handlers.so has no handler 'lower'"},
        {TEST_BINARY_DIR "/tests/handlers/abi_handlers.so", "newer_abi", "newer than this test kit, which knows 1"},
        {TEST_BINARY_DIR "/tests/handlers/abi_handlers.so", "too_small", "this is no handler (PGSTAGE_HANDLER makes one)"},
        {TEST_BINARY_DIR "/tests/handlers/abi_handlers.so", "no_abi", "this is no handler (PGSTAGE_HANDLER makes one)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        file = cases[i].file;
        name = cases[i].name;
        expect_sentence(load, cases[i].sentence);
    }
}
