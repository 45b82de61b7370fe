/* definitions_test.c - what becomes of a definition in the database. */
#include "rig.h"

TestSuite(definitions, .init = cli_begin, .fini = cli_end, .timeout = 60);

/* The same text can come with other settings: from a newer program, or another environment. */
Test(definitions, settings_are_kept_and_renewed_without_a_new_revision) {
    make_pipeline();
    cr_expect_eq(number("select revision from pgstage.pipeline"), 1);
    cr_expect_eq(number("select count(*) from pgstage.revision where settings is not null"), 1);
    cr_expect_eq(number("with u as (update pgstage.revision set settings = '{\"x\": 1}' returning 1) select count(*) from u"), 1);
    cr_expect_eq(cli("apply lib.yaml")->status, 0);
    cr_expect_eq(number("select count(*) from pgstage.revision where settings ? 'x'"), 0);
    cr_expect_eq(number("select count(*) from pgstage.revision"), 1);
}

/* A program from before there were settings calls the function without them. */
Test(definitions, a_call_without_settings_leaves_them) {
    make_pipeline();
    cr_expect_eq(number("select count(*) from pgstage.register('lib', (select definition from pgstage.revision),"
                        " array['first', 'second'], 'run', null) where outcome = 'unchanged'"),
                 1);
    cr_expect_eq(number("select count(*) from pgstage.revision where settings is not null"), 1);
}

static void expect_check(int status, const char *stages, const char *part) {
    write_file("lib.yaml", stages);
    struct run *run = cli("check lib.yaml --against-db");
    cr_expect_eq(run->status, status, "%s%s", run->out, run->err);
    cr_expect(has(run->out, part), "%s%s", run->out, run->err);
}

#define FIRST "pipeline: lib\nstages:\n  - {name: first, sql: select 1}\n"

/* C17: what would become of the stages is said beforehand, and nothing is changed by saying it. */
Test(definitions, c17_a_check_says_what_run_would_do) {
    expect_check(0, FIRST, "lib.yaml: against the database: new\n");
    cr_expect_eq(number("select count(*) from pgstage.pipeline"), 0);
    make_pipeline();
    cr_expect_eq(cli("submit lib bad")->status, 0);
    process(); /* it is failed at the second stage */
    cr_expect(has(cli("check lib.yaml --against-db")->out, "lib.yaml: against the database: unchanged\n"));
    expect_check(4, FIRST,
                 "lib.yaml: against the database: refused, stage \"second\" still holds 1 task\n"
                 "lib.yaml:   stage 'second' is removed, with 1 unfinished task\n");
    cr_expect(has(cli("apply lib.yaml")->err, "pgstage cancel lib --stage NAME"));
    cr_expect(has(cli("apply lib.yaml")->err, "renamed_from: NAME"));
    const char *renamed = FIRST "  - {name: new, sql: select 1}\n  - {name: other, sql: select 1, renamed_from: second}\n";
    expect_check(0, renamed,
                 "lib.yaml: against the database: changed\n"
                 "lib.yaml:   stage 'new' is new\n"
                 "lib.yaml:   stage 'second' is called 'other', with 1 unfinished task\n");
    cr_expect_eq(number("select max(number) from pgstage.revision"), 1);
    cr_expect_eq(number("select count(*) from pgstage.stage"), 2);
    cli_prints("pipeline 'lib' is at revision 2\n", "apply lib.yaml");
    cr_expect_eq(number("select count(*) from pgstage.task t join pgstage.stage s on s.id = t.stage where s.name = 'other'"), 1);
    cli_prints("1 cancelled\n", "cancel lib bad");
    write_file("lib.yaml", FIRST);
    cli_prints("pipeline 'lib' is at revision 3\n", "apply lib.yaml");
    expect_check(4, renamed, "lib.yaml: against the database: older, it equals revision 2, the current one is 3; pgstage apply");
}
