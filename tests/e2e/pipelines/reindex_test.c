/* reindex_test.c - the pipeline `reindex`: whatever sessions do to the table, the index ends as the table is. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "rig.h"
#include "support/pg.h"

enum { SESSIONS = 4 };

static void init(void) {
    pipeline_begin("reindex");
}

TestSuite(reindex, .init = init, .fini = pipeline_end, .timeout = 180);

#define UNFINISHED "select count(*) from pgstage.task where status <> 'done'"

/* The index's texts against the table's, chunks put together again, without the pipeline's own view. */
static void expect_agreement(void) {
    await(UNFINISHED, 0);
    cr_expect_eq(
        number(
            "select count(*) from "
            "(select id, title, btrim(regexp_replace(coalesce(body, ''), '\\s+', ' ', 'g')) as body from documents) d "
            "full join (select e.id, e.title, string_agg(c.text, ' ' order by c.ordinal) as body from reindex.entry e "
            "left join reindex.chunk c using (id) group by e.id) i on i.id = d.id "
            "where (d.id, d.title, d.body) is distinct from (i.id, i.title, i.body)"),
        0, "the index is not what the table is");
    cr_expect_eq(
        number("select count(*) from reindex.chunk where tsv <> reindex.tsv((select title from documents d where "
               "d.id = chunk.id), text)"),
        0);
    cr_expect_eq(number("select count(*) from reindex.difference"), 0);
}

Test(reindex, is_checked_and_started_as_its_readme_says) {
    shell("pgstage check reindex.yaml");
    shell("psql -f example.sql -f schema.sql");
    shell("pgstage apply reindex.yaml");
    shell("psql -f triggers.sql");
    shell("pgstage run reindex.yaml --until-idle");
    expect_agreement();
    const char *found = shell("psql -At -v query='clover -cattle' -f search.sql");
    cr_expect_not_null(strstr(found, "|1|Keeping bees|Bees like «clover»"), "%s", found);
    cr_expect_null(strstr(found, "|Clover|"), "%s", found);
    shell("psql -f schema.sql -f triggers.sql"); /* again: nothing is to be done */
    cr_expect_eq(number(UNFINISHED), 0);
}

static void make_all(void) {
    shell("psql -c 'create table documents (id bigint primary key, title text, body text, views "
          "integer not null default 0)' -f schema.sql");
    shell("pgstage apply reindex.yaml");
    shell("psql -f triggers.sql");
}

/* One session: inserts, updates, deletes, of one row and of many, committed and rolled back; ids are shared with the
 * others. */
static const char session_sql[] =
    "do $$ declare n bigint; begin perform setseed(0.%d); set deadlock_timeout = '50ms'; for i in 1..150 loop n := "
    "floor(random() * 60); begin\n"
    "  case floor(random() * 10)\n"
    "  when 0, 1, 2 then insert into documents select g, 'title ' || g, repeat('word' || i || ' ', (random() * "
    "900)::integer)\n"
    "                      from generate_series(n, n + (random() * 4)::integer) g on conflict (id) do update\n"
    "                      set title = excluded.title || %d, body = excluded.body;\n"
    "  when 3, 4 then update documents set body = body || ' more' || i where id = n;\n"
    "  when 5 then update documents set title = null, views = views + 1 where id between n and n + 7;\n"
    "  when 6 then update documents set id = id + 1000 * (%d + i) where id = n;\n"
    "  when 7 then delete from documents where id between n and n + 2 or id = (select max(id) from documents);\n"
    "  when 8 then delete from documents where id = n; insert into documents values (n, 'anew', 'by ' || i);\n"
    "  else update documents set body = 'undone' where id = n; raise exception 'undone'; end case;\n"
    "exception when raise_exception or deadlock_detected or unique_violation then null; end; commit; end loop; end "
    "$$;\n";

static pid_t start_session(int number_of) {
    pid_t pid = fork();
    if (pid == 0) {
        char *sql = mem_format(session_sql, number_of + 1, number_of, number_of + 1);
        execlp("psql", "psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", database(), "-c", sql, (char *)NULL);
        _exit(127);
    }
    return pid;
}

Test(reindex, index_and_table_agree_whatever_sessions_do_meanwhile) {
    make_all();
    node_start("");
    pid_t sessions[SESSIONS];
    for (int i = 0; i < SESSIONS; i++) {
        sessions[i] = start_session(i);
    }
    await("select (count(*) > 20)::int from reindex.entry", 1);
    node_kill(); /* and a node dies in the middle of it */
    node_start("");
    for (int i = 0; i < SESSIONS; i++) {
        int status = -1;
        cr_assert_eq(waitpid(sessions[i], &status, 0), sessions[i]);
        cr_assert_eq(status, 0, "session %d", i);
    }
    expect_agreement();
    cr_expect_gt(number("select count(*) from documents"), 10);
    cr_expect_gt(
        number("select count(*) from pgstage.task t where not exists (select from documents where id = t.key::bigint)"),
        10, "none was deleted");
    cr_expect_eq(number("select count(*) from documents where body like '%undone%'"), 0);
    node_stop();
}

Test(reindex, a_deleted_document_is_not_shown_and_goes) {
    make_all();
    pg_exec(database(),
            "insert into documents values (1, 'one', 'alpha'), (2, 'two', 'alpha beta'), (3, 'three', null)");
    node_start("");
    await("select count(*) from reindex.entry", 3);
    await(UNFINISHED, 0);
    node_stop();
    pg_exec(database(), "delete from documents where id = 2");
    expect_text("select string_agg(id::text, ',') from reindex.search('alpha')", "1"); /* no node was there to see it */
    expect_text("select string_agg(id::text, ',') from reindex.search('three')", "3"); /* without text: by its title */
    expect_text("select id || what from reindex.difference", "2deleted");
    node_start("");
    await("select count(*) from reindex.entry", 2);
    pg_exec(database(), "truncate documents");
    await("select count(*) from reindex.entry", 0);
    expect_agreement();
    node_stop();
}

Test(reindex, what_is_not_indexed_submits_nothing) {
    make_all();
    pg_exec(database(), "insert into documents select i, 'title', 'body' from generate_series(1, 1000) i");
    shell("pgstage run reindex.yaml --until-idle");
    cr_expect_eq(number("select count(*) from reindex.chunk"), 1000);
    pg_exec(database(),
            "update documents set views = 1; update documents set title = title; delete from documents where false");
    cr_expect_eq(number(UNFINISHED), 0);
    pg_exec(database(), "begin; update documents set body = 'new'; rollback");
    cr_expect_eq(number(UNFINISHED), 0);
    pg_exec(database(), "update documents set body = 'new' where id = 7");
    cr_expect_eq(number(UNFINISHED), 1);
}

Test(reindex, writes_while_the_triggers_were_off_are_caught_up_with) {
    make_all();
    pg_exec(database(), "insert into documents select i, 'title', 'body' from generate_series(1, 2500) i");
    shell("pgstage run reindex.yaml --until-idle");
    pg_exec(database(),
            "alter table documents disable trigger user; update documents set body = 'new' where id % 2 = 0; "
            "delete from documents where id = 1; insert into documents values (3000, 'late', 'late'); "
            "alter table documents enable trigger user");
    cr_expect_eq(number(UNFINISHED), 0);
    cr_expect_eq(number("select count(*) from reindex.difference"), 1252);
    shell("psql -c 'call reindex.catch_up()'");
    cr_expect_eq(number(UNFINISHED), 1252);
    shell("pgstage run reindex.yaml --until-idle");
    expect_agreement();
}

/* Who writes documents needs no right on pgstage, nor on the index. */
Test(reindex, a_writer_needs_no_rights_of_pgstage) {
    make_all();
    pg_exec(database(),
            "do $$ begin create role reindex_test_writer; exception when duplicate_object then null; end $$; "
            "grant insert, update, delete, select on documents to reindex_test_writer; "
            "set role reindex_test_writer; insert into documents values (1, 'a', 'b'); "
            "update documents set body = 'c'; reset role");
    cr_expect_eq(number("select version from pgstage.task where key = '1'"), 2);
    pg_exec(database(), "drop owned by reindex_test_writer; drop role reindex_test_writer");
}
