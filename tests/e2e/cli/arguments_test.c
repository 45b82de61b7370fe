/* arguments_test.c - mistakes on the command line: status 2, the exact first line, then the usage line. No database is
 * needed to see them.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rig.h"
#include "support/pg.h"

TestSuite(arguments, .init = cli_begin_without_database, .fini = cli_end, .timeout = 60);

struct mistake {
    char arguments[160], line[240];
};

ParameterizedTestParameters(arguments, are_refused) {
    static struct mistake mistakes[] = {
        {"submit", "pgstage submit: an argument is missing: PIPELINE"},
        {"submit lib", "pgstage submit: which document? Name its key, or give --from FILE"},
        {"submit lib a b", "pgstage submit: unexpected argument 'b'"},
        {"submit lib a --from x", "pgstage submit: a key and --from exclude each other"},
        {"submit lib --from x --payload 1", "pgstage submit: --payload and --from exclude each other: the lines say it"},
        {"submit lib --from x --at y", "pgstage submit: --at and --from exclude each other: the lines say it"},
        {"submit lib --from", "pgstage submit: --from wants a value"},
        {"submit lib a --color", "pgstage submit: unknown option --color"},
        {"submit lib a -x", "pgstage submit: unknown option -x"},
        {"submit lib a --in 1h --at 2030-01-01T00:00Z", "pgstage submit: --in and --at exclude each other"},
        {"submit lib a --in 5", "pgstage submit: --in wants a duration such as 10s, 5m or 1h30m, not '5'"},
        {"submit lib a --in -5s", "pgstage submit: --in wants a duration such as 10s, 5m or 1h30m, not '-5s'"},
        {"submit lib a --in 520w1ms", "pgstage submit: --in wants at most 520w, not '520w1ms'"},
        {"stats lib --since 99999999w", "pgstage stats: --since wants at most 520w, not '99999999w'"},
        {"prune lib --status done --older-than 521w", "pgstage prune: --older-than wants at most 520w, not '521w'"},
        {"submit lib a --at tomorrow",
         "pgstage submit: --at wants an instant with its zone, such as 2026-01-31T12:00:00Z, not 'tomorrow'"},
        {"submit lib a --updated-at 2026-02-30T00:00:00Z",
         "pgstage submit: --updated-at wants an instant with its zone, such as 2026-01-31T12:00:00Z, not "
         "'2026-02-30T00:00:00Z'"},
        {"submit lib a --priority high",
         "pgstage submit: --priority wants a whole number from -2147483648 to 2147483647, not 'high'"},
        {"submit lib a --priority 2147483648",
         "pgstage submit: --priority wants a whole number from -2147483648 to 2147483647, not '2147483648'"},
        {"submit lib a --priority 1 --priority 2", "pgstage submit: --priority is given twice"},
        {"submit lib ''", "pgstage submit: a key is empty"},
        {"submit lib \"$(printf 'a\\377')\"", "pgstage submit: the key 'a\\xff' is not UTF-8"},
        {"submit lib \"$(printf '%01025d' 0)\"", "pgstage submit: the key '0000000000000000000000000000000000000000...' "
                                                 "has 1025 bytes; a key has at most 1024"},
        {"status a b", "pgstage status: unexpected argument 'b'"},
        {"status --json --watch", "pgstage status: --json and --watch exclude each other"},
        {"status --json=yes", "pgstage status: unknown option --json=yes"},
        {"tasks", "pgstage tasks: an argument is missing: PIPELINE"},
        {"tasks lib --status stuck", "pgstage tasks: --status wants ready, running, delayed, waiting, done, failed or "
                                     "cancelled, not 'stuck'"},
        {"tasks lib --limit 0", "pgstage tasks: --limit wants a whole number from 1 to 100000000, not '0'"},
        {"tasks lib --older-than 3", "pgstage tasks: --older-than wants a duration such as 10s, 5m or 1h30m, not '3'"},
        {"tasks lib --key \"$(printf '\\377')\"", "pgstage tasks: --key is not UTF-8"},
        {"tasks lib --error ''",
         "pgstage tasks: --error is empty, which would match every task that has a reason; to mean that, say '*'"},
        {"cancel lib --error \"$UNSET\" --yes",
         "pgstage cancel: --error is empty, which would match every task that has a reason; to mean that, say '*'"},
        {"show lib", "pgstage show: an argument is missing: KEY"},
        {"show lib ''", "pgstage show: a key is empty"},
        {"retry", "pgstage retry: an argument is missing: PIPELINE"},
        {"retry lib",
         "pgstage retry: which tasks? Name keys, or give --status, --stage, --key, --error or --older-than"},
        {"retry lib a --status failed", "pgstage retry: keys and a filter exclude each other"},
        {"retry lib --status done", "pgstage retry: a task that is done cannot be retried: only failed and delayed tasks "
                                    "are retried; pgstage rerun processes any task again"},
        {"priority lib 1 --status done", "pgstage priority: a task that is done cannot be given the priority: it is at its end; a "
                                         "submit of a newer version takes --priority"},
        {"retry lib --from x", "pgstage retry: unknown option --from"},
        {"retry lib --all", "pgstage retry: unknown option --all"},
        {"retry lib ''", "pgstage retry: a key is empty"},
        {"cancel lib", "pgstage cancel: which tasks? Name keys, or give --status, --stage, --key, --error or --older-than"},
        {"rerun lib", "pgstage rerun: which tasks? Name keys, or give --status, --stage, --key, --error or --older-than, "
                      "or --all"},
        {"rerun lib --all --status done", "pgstage rerun: --all and a filter exclude each other"},
        {"rerun lib a --all", "pgstage rerun: keys and a filter exclude each other"},
        {"db", "pgstage db: an argument is missing: start|stop|url|psql"},
        {"db frob", "pgstage db: 'frob' is not start, stop, url or psql"},
        {"db start now", "pgstage db: unexpected argument 'now'"},
        {"db stop --database x", "pgstage db: stop is for the embedded database, not for --database"},
        {"db -c 'select 1' psql", "pgstage db: unknown option -c"},
        {"migrate now", "pgstage migrate: unexpected argument 'now'"},
        {"apply", "pgstage apply: an argument is missing: FILE"},
        {"check", "pgstage check: an argument is missing: FILE..."},
    };
    return cr_make_param_array(struct mistake, mistakes, sizeof mistakes / sizeof mistakes[0]);
}

ParameterizedTest(struct mistake *mistake, arguments, are_refused) {
    struct run *run = cli_refuses(2, mistake->line, "%s", mistake->arguments);
    const char *second = strchr(run->err, '\n');
    cr_assert_not_null(second);
    cr_expect_eq(strncmp(second, "\nusage: pgstage ", 16), 0, "%s", run->err);
}

Test(arguments, without_a_command_all_are_listed) {
    struct run *run = cli("%s", "");
    cr_expect_eq(run->status, 2);
    cr_expect(has(run->err, "usage: pgstage COMMAND"));
    run = cli("help");
    cr_expect_eq(run->status, 0);
    cr_expect(has(run->out, "submit") && has(run->out, "rerun") && has(run->out, "db "));
    cli_refuses(2, "pgstage: there is no command 'frob'; `pgstage help` lists them", "frob");
}

Test(arguments, every_command_has_help) {
    static const char *const commands[] = {"check", "run",    "submit", "status", "tasks",   "show",   "retry",
                                           "rerun", "cancel", "apply",  "migrate", "schema", "db",
                                           "errors", "stats", "prune",  "priority", "pause", "resume", "drain", "schedule"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct run *run = cli("%s --help", commands[i]);
        cr_expect_eq(run->status, 0, "%s", commands[i]);
        cr_expect(has(run->out, "usage: pgstage"), "%s", commands[i]);
        bool wants = strcmp(commands[i], "schema") != 0;
        cr_expect_eq(has(run->out, "--database URL"), wants, "%s", commands[i]);
        cr_expect_str_empty(run->err);
        cr_expect(!has(run->out, " \n"), "a line ends in a blank: %s", run->out);
        char *asked = mem_copy_string(run->out);
        run = cli("help %s", commands[i]);
        cr_expect_eq(run->status, 0, "%s", commands[i]);
        cr_expect_str_eq(run->out, asked);
        cr_expect_str_empty(run->err);
        free(asked);
    }
    cli_refuses(2, "pgstage: there is no command 'frob'; `pgstage help` lists them", "help frob");
    cli_refuses(2, "pgstage: there is no command 'stauts'; did you mean 'status'?", "stauts --json");
}

Test(arguments, a_database_that_cannot_be_reached_is_status_3) {
    static const char *const commands[] = {"status", "tasks lib", "show lib a", "submit lib a", "retry lib a",
                                           "rerun lib --all", "cancel lib --status ready"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct run *run = cli("%s", commands[i]);
        cr_expect_eq(run->status, 3, "%s: %d", commands[i], run->status);
        cr_expect(has(first_line(run->err), "pgstage: "), "%s", run->err);
        cr_expect(!has(run->err, "canary"));
        cr_expect_str_empty(run->out);
    }
}

Test(arguments, a_database_without_the_schema_is_refused) {
    char *empty = pg_new_database();
    struct run *run = cli("status --database '%s'", empty);
    cr_expect_eq(run->status, 4, "%d %s", run->status, run->err);
    cr_expect(has(run->err, "pgstage migrate"), "%s", run->err);
    free(empty);
}

/* An argument may come from a script, or be a file name of somebody else: it commands no terminal. */
Test(arguments, control_bytes_reach_no_terminal) {
    static const char *const arguments[] = {
        "\"$E\"", "help \"$E\"", "tasks lib \"--$E\"", "status x \"$E\"", "submit lib a --priority \"$E\"", "status \"--json=$E\"",
        "submit lib a --in \"$E\"", "run p.yaml --stage \"$E\"", "run p.yaml --label \"$E\"", "run p.yaml --log \"$E\"",
        "check \"$E\"", "apply \"$E.yaml\"", "run \"./$E\"", "check \"$E.bad\"", "submit lib a --payload \"@$E\"",
        "submit lib a --payload \"@$E.bad\"",
    };
    write_file("p.yaml", "pipeline: p\nstages:\n  - {name: a, sql: select 1}\n");
    cr_assert_eq(shell("E=$(printf 'e\\033[31m\\302\\233'); echo '{' >\"$E.bad\"")->status, 0);
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
        struct run *run = shell("E=$(printf 'e\\033[31m\\302\\233'); exec \"$PGSTAGE\" %s", arguments[i]);
        cr_expect_eq(run->status, 2, "%s: %d", arguments[i], run->status);
        cr_expect(has(run->err, "[31m\\x9b"), "%s: %s", arguments[i], run->err);
        cr_expect(!has(run->err, "\033") && !has(run->err, "\302\233"), "%s: %s", arguments[i], run->err);
        cr_expect_str_empty(run->out);
    }
    struct run *run = shell("E=$(printf 'e\\033[31m'); cp p.yaml \"$E\"; exec \"$PGSTAGE\" check \"$E\"");
    cr_expect_eq(run->status, 0);
    cr_expect(has(run->out, "e\\x1b[31m: pipeline 'p'") && !has(run->out, "\033"), "%s", run->out);
}
