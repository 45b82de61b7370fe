/* definitions_test.c - what becomes of a definition in the database. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
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

/* Handlers are looked for where the file lies now. A program that says no place leaves the one that is known. */
Test(definitions, a_file_that_was_moved_is_known_where_it_is) {
    make_pipeline();
    cr_assert_eq(shell("mkdir sub && mv lib.yaml sub/")->status, 0);
    cr_expect_eq(cli("apply sub/lib.yaml")->status, 0);
    cr_expect_eq(number("select count(*) from pgstage.revision where path like '%/sub/lib.yaml'"), 1);
    cr_expect_eq(number("select count(*) from pgstage.register('lib', (select definition from pgstage.revision),"
                        " array['first', 'second'], 'run', null) where outcome = 'unchanged'"),
                 1);
    cr_expect_eq(number("select count(*) from pgstage.revision where path like '%/sub/lib.yaml'"), 1);
    cr_assert_eq(shell("mv sub/lib.yaml .")->status, 0);
    cr_expect_eq(cli("run lib.yaml --until-idle")->status, 0);
    cr_expect_eq(number("select count(*) from pgstage.revision where path not like '%/sub/lib.yaml'"), 1);
}

static void expect_check(int status, const char *stages, const char *part) {
    write_file("lib.yaml", stages);
    struct run *run = cli("check lib.yaml --against-db");
    cr_expect_eq(run->status, status, "%s%s", run->out, run->err);
    cr_expect(has(run->out, part), "%s%s", run->out, run->err);
}

#define FIRST "pipeline: lib\nstages:\n  - {name: first, sql: select 1}\n"

/* The URL of a role of its own. Ownership: free() it. */
static char *as_role(const char *prefix, const char *attributes) {
    const char *user = strstr(cli_url(), "user=postgres");
    cr_assert_not_null(user);
    char *name = mem_format("%s_%lld", prefix, (long long)number("select oid::bigint from pg_database where datname = "
                                                                 "current_database()"));
    char *sql = mem_format("create role %s login %s; select ''", name, attributes);
    free(text(sql));
    char *url = mem_format("%.*suser=%s", (int)(user - cli_url()), cli_url(), name);
    free(sql);
    free(name);
    return url;
}

/* The connections of a node, beforehand: as many as `run` counts. */
Test(definitions, a_check_says_how_many_connections_a_node_needs) {
    write_file("a.yaml", "pipeline: a\nstages:\n  - {name: x, sql: select 1, workers: 5}\n  - {name: y, sql: select 1}\n");
    write_file("b.yaml", "pipeline: b\nsource: {files: {path: .}}\nstages:\n  - {name: z, handler: 'x.so:x', workers: 9}\n");
    struct run *run = cli("check a.yaml");
    cr_expect(has(run->out, "a.yaml: pipeline 'a', 2 stages: ok\na node that runs it needs "), "%s%s", run->out, run->err);
    write_file("a.yaml", "pipeline: a\nstages: [{name: x, sql: select 1, workers: 6}]\n");
    cli_prints("a.yaml: pipeline 'a', 1 stage: ok\n"
               "a node that runs it needs 9 connections (3, and one for each of 6 workers of sql stages)\n", "check a.yaml");
    cli_prints("a.yaml: pipeline 'a', 1 stage: ok\nb.yaml: pipeline 'b', 1 stage: ok\n"
               "a node that runs them needs 9 connections (3, and one for each of 6 workers of sql stages), and up to 12 with the "
               "SQL that handlers queue, and scans\n", "check a.yaml b.yaml");
    cli_prints("b.yaml: pipeline 'b', 1 stage: ok\n"
               "a node that runs it needs 3 connections, and up to 6 with the SQL that handlers queue, and scans\n", "check b.yaml");
    write_file("c.yaml", "pipeline: c\nsource: {files: {path: .}}\nstages: [{name: x, sql: select 1}]\n");
    cr_expect(has(cli("check c.yaml")->out, ", and up to 5 with scans\n"));
    write_file("d.yaml", "pipeline: d\nstages: [{name: x, command: [cat]}]\n");
    cr_expect(has(cli("check d.yaml")->out, ", and up to 4 with the SQL that programs queue\n"));
    cr_expect(has(cli("check b.yaml d.yaml")->out, " with the SQL that handlers and programs queue, and scans\n"));
    char *few = as_role("few", "superuser connection limit 10");
    run = cli("check a.yaml b.yaml --against-db --database '%s'", few);
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect_str_eq(run->err, "pgstage: warning: this node may come to want 12 connections, and there are 10 for it now\n");
    run = cli("check a.yaml --against-db --database '%s'", few);
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect_str_empty(run->err);
    write_file("a.yaml", "pipeline: a\nstages: [{name: x, sql: select 1, workers: 8}]\n");
    run = cli("check a.yaml --against-db --database '%s'", few);
    cr_expect_eq(run->status, 4);
    cr_expect_str_eq(run->err, "pgstage: this node needs 11 connections (3, and one for each of 8 workers of sql stages), and "
                         "the server gives this role 10: lower `workers`, or raise max_connections\n");
    free(few);
}

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

/* What is run is looked at, not what the file says: a stage that has another name now would be left to nobody. */
Test(definitions, an_older_file_is_judged_by_the_definition_that_is_run) {
    const char *older = "pipeline: lib\nstages:\n  - {name: a, sql: select 1}\n";
    write_file("lib.yaml", older);
    cr_assert_eq(cli("apply lib.yaml")->status, 0);
    write_file("lib.yaml", "pipeline: lib\nstages:\n  - {name: b, sql: select 1, renamed_from: a, workers: 900}\n");
    cr_assert_eq(cli("apply lib.yaml")->status, 0);
    write_file("lib.yaml", older);
    struct run *run = cli("run lib.yaml --only a --until-idle");
    cr_expect_eq(run->status, 2, "%d %s", run->status, run->err);
    cr_expect(has(run->err, "the current one, revision 2, is run instead"), "%s", run->err);
    cr_expect(has(run->err, "pgstage run: no stage is named 'a'"), "%s", run->err);
    run = cli("run lib.yaml --until-idle");
    cr_expect_eq(run->status, 4, "%d %s", run->status, run->err);
    cr_expect(has(run->err, "this node needs 903 connections"), "%s", run->err);
}

/* Both stages are there, with tasks of their own. What has been done already is not advised. */
Test(definitions, a_rename_to_a_stage_that_is_there_is_told_of) {
    static const char why[] = "refused, stage \"second\" still holds 1 task; renamed_from: second is not followed, because the "
                              "definition has a stage first already\n";
    make_pipeline();
    cr_expect_eq(cli("submit lib bad")->status, 0);
    process();
    const char *merged = "pipeline: lib\nstages:\n  - {name: first, sql: select 1, renamed_from: second}\n";
    char *line = mem_format("lib.yaml: against the database: %s", why);
    expect_check(4, merged, line);
    free(line);
    line = mem_format("pgstage: lib.yaml: %s", why);
    struct run *run = cli("apply lib.yaml");
    cr_expect_eq(run->status, 4);
    cr_expect(has(run->err, line), "%s", run->err);
    cr_expect(has(run->err, ", or send\nthem elsewhere (pgstage rerun lib --stage NAME --from STAGE).\n"), "%s", run->err);
    cr_expect(!has(run->err, "renamed_from: NAME"), "%s", run->err);
    free(line);
    write_file("lib.yaml", "pipeline: lib\nstages:\n  - {name: first, sql: select 1, renamed_from: earlier}\n");
    run = cli("apply lib.yaml"); /* that one was renamed long ago */
    cr_expect_eq(run->status, 4);
    cr_expect(!has(run->err, "is not followed") && has(run->err, "renamed_from: NAME"), "%s", run->err);
}

/* What a script keeps, a schema or a copy of the migrations, is not there: that is no success. */
Test(definitions, output_that_is_lost_is_told_of) {
    static const char *const arguments[] = {"--help", "--version", "help apply", "apply --help", "schema", "migrate --print",
                                            "check lib.yaml", "check lib.yaml --against-db", "apply lib.yaml"};
    write_file("lib.yaml", FIRST);
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
        struct run *run = shell("\"$PGSTAGE\" %s >/dev/full", arguments[i]);
        cr_expect_eq(run->status, 1, "%s: %d", arguments[i], run->status);
        cr_expect_str_eq(run->err, "pgstage: cannot write to standard output: No space left on device\n", "%s: %s",
                         arguments[i], run->err);
    }
    cr_expect_eq(number("select revision from pgstage.pipeline"), 1);
    struct run *run = shell("\"$PGSTAGE\" check nope.yaml >/dev/full");
    cr_expect_eq(run->status, 2, "%d", run->status);
}
