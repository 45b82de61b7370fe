/* errors_test.c - pgstage errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/pg.h"

static void begin(void) {
    cli_begin();
    make_pipeline();
}

TestSuite(errors, .init = begin, .fini = cli_end, .timeout = 120);

/* Each kind of text, and what is the same in it. */
Test(errors, kinds_fold_what_differs) {
    static const struct {
        const char *text, *kind;
    } cases[] = {
        {"exit status 7", "exit status *"},
        {"took 3.25 s, 1,024 bytes at 12:30:01", "took * s, * bytes at *"},
        {"cannot open ''/tmp/a b.pdf'': No such file", "cannot open ''*'': No such file"},
        {"column \"words\" does not exist", "column \"*\" does not exist"},
        {"can''t read what isn''t there", "can''t read what isn''t there"},
        {"no object 0xdeadBEEF", "no object *"},
        {"hash 5f3a99c0d1e2 of id 123e4567-e89b-12d3-a456-426614174000", "hash * of id *"},
        {"decade of facades", "decade of facades"},
        {"/var/lib/doc12/page007.html", "/var/lib/doc*/page*.html"},
        {"what? a * and a \\ too", "what\\? a \\* and a \\\\ too"},
        {"first line\nat 0x12", "first line*"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char sql[512];
        snprintf(sql, sizeof sql, "set standard_conforming_strings = on; select pgstage.error_kind('%s')", cases[i].text);
        char *kind = text(sql), *wanted;
        snprintf(sql, sizeof sql, "select '%s'", cases[i].kind);
        wanted = text(sql);
        cr_expect_str_eq(kind, wanted, "%s\n  wanted %s\n  got    %s", cases[i].text, wanted, kind);
        free(kind);
        free(wanted);
    }
}

Test(errors, long_texts_are_cut) {
    cr_expect_eq(number("select length(pgstage.error_kind(repeat('ab ', 1000)))"), 161);
    cr_expect_eq(number("select (pgstage.error_kind(repeat('*', 1000)) ~ '[*]$')::int"), 1);
}

static void fail(const char *key, const char *text, int minutes, const char *status) {
    char sql[1024];
    snprintf(sql, sizeof sql,
             "select count(*) from pgstage.submit_set('lib', '{%s}', '{1}', '{NULL}', '{0}', '{NULL}', false);"
             "update pgstage.task set status = '%s', ready_stage = null, error_text = '%s', updated = now() - %d * interval "
             "'1 min', parked_at = case when '%s' <> 'delayed' then now() - %d * interval '1 min' end, due_at = case when "
             "'%s' = 'delayed' then now() + interval '1 hour' end where key = '%s'",
             key, status, text, minutes, status, minutes, status, key);
    pg_exec(cli_url(), sql);
}

Test(errors, groups_what_is_wrong_now) {
    struct run *run = cli("errors lib");
    cr_expect_eq(run->status, 0);
    cr_expect_str_eq(run->err, "no task is in error\n");
    fail("a", "page 7 is broken", 30, "failed");
    fail("b", "page 9 is broken", 10, "failed");
    fail("c", "page 12 is broken", 20, "delayed");
    fail("d", "disk full", 5, "delayed");
    fail("e", "over", 5, "cancelled");
    cli("submit lib later --in 1h");
    run = cli("errors lib --json");
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect(has(run->out, "{\"stage\":\"first\",\"kind\":\"page * is broken\",\"failed\":2,\"retrying\":1,"), "%s",
              run->out);
    cr_expect(has(run->out, ",\"key\":\"b\",\"error_text\":\"page 9 is broken\"}\n{\"stage\":\"first\",\"kind\":\"disk full\","
                            "\"failed\":0,\"retrying\":1,"),
              "%s", run->out);
    cr_expect(!has(run->out, "over") && !has(run->out, "later"), "%s", run->out);
    run = cli("errors lib");
    cr_expect(has(run->out, "page * is broken\n") && has(first_line(run->out), "  REASON"), "%s", run->out);
    cr_expect(has(run->out, "\nnewest in first: b: page 9 is broken\n"), "%s", run->out);
    /* The kind is a pattern. */
    cli_refuses(4, "pgstage: 3 tasks of pipeline 'lib' match; say --yes to retry them",
                "retry lib --error 'page * is broken'");
    cli_prints("1 retried\n", "retry lib --error 'disk full' --yes");
}

/* A task that failed several times was first seen failing by its first failed run of that kind, not by its last. */
Test(errors, the_first_failed_run_counts) {
    fail("a", "page 7 is broken", 10, "failed");
    pg_exec(cli_url(), "update pgstage.task set attempt = 3;"
                       "insert into pgstage.failure (task, stage, version, attempt, at, kind, error_text)"
                       " select t.id, t.stage, t.version + v.more, v.attempt, now() - v.ago * interval '1 min', 'error', v.why"
                       "   from pgstage.task t cross join (values (0, 1, 40, 'disk full'), (0, 2, 30, 'page 5 is broken'),"
                       " (0, 3, 10, 'page 7 is broken'), (-1, 1, 99, 'page 1 is broken')) v(more, attempt, ago, why)");
    struct run *run = cli("errors lib --json");
    cr_expect(!has(run->out, "disk full"), "%s", run->out);
    cr_expect(has(run->out, "\"failed\":1,\"retrying\":0,"), "%s", run->out);
    cr_expect(has(run->out, "\"error_text\":\"page 7 is broken\""), "%s", run->out);
    char *seen = text("select to_jsonb(min(at)) #>> '{}' from pgstage.failure where error_text = 'page 5 is broken'");
    cr_expect(has(run->out, seen), "%s: %s", seen, run->out);
    free(seen);
}

/* What stands in the table can be pasted. */
Test(errors, shows_kinds_whole) {
    char reason[200];
    snprintf(reason, sizeof reason, "cannot\tread page 7: %0120d is not a number, nor is it anything else that is known", 0);
    memset(strchr(reason, '0'), 'x', 120);
    fail("a", reason, 1, "failed");
    struct run *run = shell("\"$PGSTAGE\" errors lib | sed -n '2s/.*\\(cannot.*\\)/\\1/p' | tr -d '\\n' >kind");
    cr_expect_eq(run->status, 0, "%s", run->err);
    run = shell("cat kind");
    cr_expect(has(run->out, "cannot?read page *: xxx") && run->out[strlen(run->out) - 1] == '*', "%s", run->out);
    run = shell("\"$PGSTAGE\" retry lib --yes --error \"$(cat kind)\"");
    cr_expect_str_eq(run->out, "1 retried\n", "%s%s", run->out, run->err);
}

Test(errors, shows_the_largest_groups) {
    pg_exec(cli_url(), "select count(*) from pgstage.submit_set('lib', array(select 'k' || i from generate_series(1, 25) i), "
                       "array_fill(null::jsonb, array[25]), array_fill(null::timestamptz, array[25]), array_fill(0, "
                       "array[25]), array_fill(null::timestamptz, array[25]), false); update pgstage.task set status = "
                       "'failed', ready_stage = null, parked_at = now(), error_text = 'wrong ' || chr(64 + substr(key, "
                       "2)::int)");
    struct run *run = cli("errors lib");
    cr_expect_str_eq(run->err, "the 20 largest of 25 groups are shown, --all shows all\n");
    run = shell("\"$PGSTAGE\" errors lib --all --json | wc -l");
    cr_expect_str_eq(run->out, "25\n");
}

/* A million documents that are done cost nothing. */
Test(errors, never_reads_what_is_done) {
    fail("a", "broken", 1, "failed");
    pg_exec(cli_url(), "insert into pgstage.task (pipeline, key, stage, status, task_updated_at, done_version) select 1, "
                       "'d' || i, 1, 'done', now(), 1 from generate_series(1, 20000) i");
    pg_exec(cli_url(), "vacuum analyze pgstage.task");
    const char *scans = "select seq_scan from pg_stat_user_tables where schemaname = 'pgstage' and relname = 'task'";
    int64_t before = number(scans);
    struct run *run = cli("errors lib --json");
    cr_expect(has(run->out, "\"key\":\"a\""), "%s%s", run->out, run->err);
    cr_expect_eq(number(scans), before); /* a session tells of its scans when it ends */
}
