/* tasks_test.c - pgstage tasks and pgstage show. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static void begin(void) {
    cli_begin();
    make_pipeline();
    cli_prints("new (version 1)\n", "submit lib good --payload '{\"x\": 1}' --updated-at 2026-01-01T00:00:00Z");
    cli_prints("new (version 1)\n", "submit lib bad/one");
    cli_prints("new (version 1)\n", "submit lib bad/two");
    process();
    cli_prints("new (version 1)\n", "submit lib \"$(printf 'esc\\033[31m\\nnext')\"");
    cli_prints("new (version 1)\n", "submit lib 100%%_sure --in 1h");
}

TestSuite(tasks, .init = begin, .fini = cli_end, .timeout = 120);
TestSuite(show, .init = begin, .fini = cli_end, .timeout = 120);

/* The keys of `tasks --json ARGUMENTS`, in one string; every line must be JSON. */
static const char *keys(const char *arguments) {
    static char all[1024];
    size_t used = 0;
    struct run *run = cli("tasks lib --json %s", arguments);
    cr_expect_eq(run->status, 0, "%s", run->err);
    all[0] = '\0';
    for (const char *line = run->out; *line != '\0'; line += strcspn(line, "\n") + 1) {
        json_t *task = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        cr_assert_not_null(task, "%s", line);
        cr_expect(json_is_string(json_object_get(task, "id")));
        const char *key = json_string_value(json_object_get(task, "key"));
        used += (size_t)snprintf(all + used, sizeof all - used, "%s ", key);
        json_decref(task);
    }
    return all;
}

Test(tasks, are_listed_as_a_table) {
    struct run *run = cli("tasks lib");
    cr_expect_eq(run->status, 0);
    cr_expect_str_eq(first_line(run->out),
                     "KEY                STATUS   STAGE   VERSION  ATTEMPT  UPDATED                 REASON");
    cr_expect(has(run->out, "\ngood               done     second        1           2"), "%s", run->out);
    cr_expect(has(run->out, "division by zero\n"), "%s", run->out);
    cr_expect(has(run->out, "\n100%_sure          delayed  first         1        0  ") && has(run->out, "  due 2"), "%s",
              run->out);
    cr_expect(has(run->out, "\nesc\\x1b[31m\\nnext  ready    first "), "%s", run->out);
    cr_expect(!has(run->out, "\033"), "no control bytes");
    cr_expect(!has(run->out, " \n"), "no blanks at a line's end");
    cr_expect_str_empty(run->err);
}

Test(tasks, are_filtered) {
    cr_expect_str_eq(keys(""), "good bad/one bad/two esc\033[31m\nnext 100%_sure ");
    cr_expect_str_eq(keys("--status failed"), "bad/one bad/two ");
    cr_expect_str_eq(keys("--status delayed"), "100%_sure ");
    cr_expect_str_eq(keys("--status ready"), "esc\033[31m\nnext ");
    cr_expect_str_eq(keys("--status running"), "");
    cr_expect_str_eq(keys("--stage second"), "good bad/one bad/two ");
    cr_expect_str_eq(keys("--stage second --status done"), "good ");
    cr_expect_str_eq(keys("--key 'bad/*'"), "bad/one bad/two ");
    cr_expect_str_eq(keys("--key '*o?e'"), "bad/one ");
    cr_expect_str_eq(keys("--key bad"), "");
    cr_expect_str_eq(keys("--key '100%*'"), "100%_sure ");
    cr_expect_str_eq(keys("--key '%_'"), "");
    cr_expect_str_eq(keys("--key 'goo\\d'"), "good ");
    cr_expect_str_eq(keys("--error 'by zero'"), "bad/one bad/two ");
    cr_expect_str_eq(keys("--error 'division*'"), "bad/one bad/two ");
    cr_expect_str_eq(keys("--error '*division'"), "");
    cr_expect_str_eq(keys("--older-than 1h"), "");
    cr_expect_str_eq(keys("--older-than 0s --status done"), "good ");
}

Test(tasks, are_shown_up_to_a_limit) {
    cr_expect_str_eq(keys("--limit 2"), "good bad/one ");
    struct run *run = cli("tasks lib --limit 2");
    cr_expect_str_eq(run->err, "the first 2 are shown, --limit N shows more\n");
    run = cli("tasks lib --limit 5");
    cr_expect_str_empty(run->err);
    run = cli("tasks lib --status waiting");
    cr_expect_str_empty(run->out);
    cr_expect_str_eq(run->err, "no tasks match\n");
    cr_expect_eq(run->status, 0);
}

Test(tasks, more_than_a_page_are_all_shown) {
    shell("seq 1 2500 | sed 's/.*/{\"key\":\"many&\"}/' >l");
    cli_prints("2500 submitted: 2500 new, 0 updated, 0 unchanged\n", "submit lib --from l");
    struct run *run = shell("\"$PGSTAGE\" tasks lib --key 'many*' --limit 10000 | wc -l");
    cr_expect_eq(strtol(run->out, NULL, 10), 2501, "%s", run->out);
    run = shell("\"$PGSTAGE\" tasks lib --json --limit 2000 | wc -l");
    cr_expect_eq(strtol(run->out, NULL, 10), 2000, "%s", run->out);
    run = shell("\"$PGSTAGE\" tasks lib --limit 10000 | head -1");
    cr_expect_eq(strncmp(run->out, "KEY ", 4), 0);
    cr_expect_str_empty(run->err, "%s", run->err);
}

Test(tasks, unknown_names_are_refused) {
    cli_refuses(2, "pgstage: there is no pipeline 'lid'; did you mean 'lib'?", "tasks lid");
    cli_refuses(2, "pgstage: pipeline 'lib' has no stage 'secnd'; its stages are first, second", "tasks lib --stage secnd");
    struct run *run = cli("tasks lib --stage secnd");
    cr_expect(has(run->err, "\ndid you mean 'second'?\n"), "%s", run->err);
}

Test(tasks, a_full_disk_is_told_of) {
    struct run *run = shell("\"$PGSTAGE\" tasks lib >/dev/full");
    cr_expect_eq(run->status, 1);
    cr_expect_str_eq(run->err, "pgstage: cannot write to standard output: No space left on device\n");
}

/* ---- show --------------------------------------------------------------------------------------------------------- */

Test(show, tells_all_of_a_task) {
    struct run *run = cli("show lib good");
    cr_expect_eq(run->status, 0);
    cr_expect(has(run->out, "key        good\npipeline   lib\n"), "%s", run->out);
    cr_expect(has(run->out, "\nstatus     done at stage second\nversion    1 (done: 1)\n"), "%s", run->out);
    cr_expect(has(run->out, "\nstamp      2026-01-01 00:00:00+00\n"), "%s", run->out);
    cr_expect(has(run->out, "\npayload    {\"x\": 1} (8 B)\n"), "%s", run->out);
    cr_expect(!has(run->out, "failed runs"));
}

Test(show, tells_of_failed_runs) {
    struct run *run = cli("show lib bad/one");
    cr_expect_eq(run->status, 0);
    cr_expect(has(run->out, "\ncounters   1 attempt, 0 crashes, 0 rescues\n"), "%s", run->out);
    cr_expect(has(run->out, "\nreason     "), "%s", run->out);
    cr_expect(has(run->out, "\nfailed runs, the newest first\n"), "%s", run->out);
    cr_expect(has(run->out, "  second, version 1, attempt 1: "), "%s", run->out);
    cr_expect(has(run->out, "division by zero"), "%s", run->out);
}

Test(show, tells_of_outputs_and_last_lines) {
    free(text("insert into pgstage.output (task, stage, version, value) select t.id, s.id, 1, "
              "jsonb_build_object('text', repeat('word ', 1000)) from pgstage.task t, pgstage.stage s "
              "where t.key = 'good' and s.name = 'first' returning 1"));
    free(text("insert into pgstage.failure (task, stage, version, attempt, kind, error_text, detail) "
              "select t.id, s.id, 1, 1, 'crash', 'killed by SIGSEGV', E'line one\\n\\x1b[31mline two' "
              "from pgstage.task t, pgstage.stage s where t.key = 'good' and s.name = 'first' returning 1"));
    struct run *run = cli("show lib good");
    cr_expect(has(run->out, "\nOUTPUT OF  VERSION  MADE "), "%s", run->out);
    cr_expect(has(run->out, "  first, version 1, attempt 2: crash: "), "the one that it was, of which none is counted: %s", run->out);
    cr_expect(has(run->out, "  4.9 kB  {\"text\": \"word word word"), "%s", run->out);
    cr_expect(has(run->out, "…\n"), "%s", run->out);
    cr_expect(has(run->out, ": crash: killed by SIGSEGV\n    | line one\n    | \\x1b[31mline two\n"), "%s", run->out);
    json_t *all = json_loads(cli("show lib good --json")->out, 0, NULL);
    cr_assert_not_null(all);
    json_t *output = json_array_get(json_object_get(all, "outputs"), 0);
    cr_expect_eq(strlen(json_string_value(json_object_get(json_object_get(output, "value"), "text"))), 5000);
    cr_expect_eq(json_integer_value(json_object_get(output, "version")), 1);
    json_t *failure = json_array_get(json_object_get(all, "failures"), 0);
    cr_expect_str_eq(json_string_value(json_object_get(failure, "kind")), "crash");
    cr_expect_str_eq(json_string_value(json_object_get(failure, "detail")), "line one\n\033[31mline two");
    json_decref(all);
}

Test(show, is_one_json_document) {
    json_t *all = json_loads(cli("show lib good --json")->out, 0, NULL);
    cr_assert_not_null(all);
    json_t *task = json_object_get(all, "task");
    cr_expect_str_eq(json_string_value(json_object_get(task, "pipeline")), "lib");
    cr_expect_str_eq(json_string_value(json_object_get(task, "stage")), "second");
    cr_expect_str_eq(json_string_value(json_object_get(task, "status")), "done");
    cr_expect_str_eq(json_string_value(json_object_get(task, "task_updated_at")), "2026-01-01T00:00:00+00:00");
    cr_expect(json_is_string(json_object_get(task, "id")) && json_is_string(json_object_get(task, "claim")));
    cr_expect_eq(json_integer_value(json_object_get(task, "version")), 1);
    cr_expect_eq(json_integer_value(json_object_get(json_object_get(all, "payload"), "x")), 1);
    cr_expect(json_is_array(json_object_get(all, "outputs")) && json_is_array(json_object_get(all, "failures")));
    json_decref(all);
}

Test(show, a_key_that_does_not_exist_gets_a_hint) {
    cli_refuses(2, "pgstage: pipeline 'lib' has no task 'bad/on'; did you mean 'bad/one'?", "show lib bad/on");
    cli_refuses(2, "pgstage: pipeline 'lib' has no task 'bad/tow'; did you mean 'bad/two'?", "show lib bad/tow");
    cli_refuses(2, "pgstage: pipeline 'lib' has no task 'nothing like it'; pgstage tasks lib --key PATTERN looks for keys",
                "show lib 'nothing like it'");
    cli_refuses(2, "pgstage: there is no pipeline 'lip'; did you mean 'lib'?", "show lip good");
}
