/* C79: programs of the first schema go on working on the newest one, so that nodes are replaced one by one. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "old.h"
#include "sql/migrations.h"
#include "support/pg.h"

TestSuite(frozen, .timeout = 120);

static PGconn *connect_to(const char *url) {
    PGconn *pg = PQconnectdb(url);
    cr_assert_eq(PQstatus(pg), CONNECTION_OK, "%s", PQerrorMessage(pg));
    old_exec(pg, "set client_min_messages = warning");
    return pg;
}

static void expect_answer(char *answer) {
    cr_assert_str_eq(answer, "accepted");
    free(answer);
}

static void begin(PGconn *pg) {
    PQclear(old_call(pg, "register", 5, "p", "pipeline: p", "{a,b}", "apply", NULL));
    PQclear(old_call(pg, "node_start", 5, "21", "host", "/lock", "1", "600000"));
    PQclear(old_call(pg, "node_start", 5, "22", "host", "/other", "2", "600000"));
}

/* Leaves one task in each state: ready, running, delayed, waiting, done, failed and cancelled. */
static void fill(PGconn *pg) {
    static const char *const endings[] = {"next", "delayed", "failed"};
    for (int i = 0; i < 3; i++) {
        old_submit(pg, endings[i]);
        int64_t task = old_claim(pg, OLD_NODE, "a", 101 + i);
        cr_assert_neq(task, 0);
        expect_answer(old_complete(pg, task, 101 + i, i == 0, "a", endings[i]));
    }
    int64_t done = old_claim(pg, OLD_NODE, "b", 110);
    expect_answer(old_complete(pg, done, 110, 1, "b", "next"));
    old_submit(pg, "running");
    cr_assert_neq(old_claim(pg, OLD_NODE, "a", 111), 0);
    char *cancelled = mem_format("{%lld}", (long long)old_submit(pg, "cancelled"));
    PQclear(old_call(pg, "cancel", 1, cancelled));
    free(cancelled);
    old_submit(pg, "waiting");
    old_exec(pg, "update pgstage.task set status = 'waiting', ready_stage = null, ready_at = null, parked_at = pgstage.now()"
                 " where key = 'waiting'; insert into pgstage.task_count_delta select pipeline, stage, s, n"
                 " from pgstage.task, (values ('ready', -1), ('waiting', 1)) d(s, n) where key = 'waiting'");
    old_submit(pg, "ready");
    old_exec(pg, "update pgstage.task set due_at = pgstage.now() + interval '1 hour' where status = 'delayed'");
}

/* Folded and unfolded counts are those of the rows. */
static void expect_true_counts(PGconn *pg) {
    cr_expect_eq(old_number(pg, "select count(*) from (select stage, status, sum(n) as n from (select stage, status, n from "
                                "pgstage.task_count union all select stage, status, n from pgstage.task_count_delta) a "
                                "group by 1, 2 having sum(n) <> 0) c full join (select stage, status, count(*) as n from "
                                "pgstage.task group by 1, 2) t using (stage, status) where c.n is distinct from t.n"),
                 0);
}

/* All that the first schema knows of its tasks. */
static char *content(PGconn *pg) {
    return old_text(pg, "select string_agg(line, e'\\n' order by line) from ("
                        "select concat_ws(' ', 't', key, id, version, claimed_version, done_version, claim, node,"
                        " task_updated_at, ready_at, due_at, parked_at, run_at, begin_time, end_time, created, updated,"
                        " pipeline, stage, ready_stage, priority, step, attempt, crashes, rescues, superseded, status, goal,"
                        " wish, error_text, payload) as line from pgstage.task"
                        " union all select concat_ws(' ', 'o', task, stage, version, value, made) from pgstage.output"
                        " union all select concat_ws(' ', 'f', task, stage, version, attempt, at, kind, error_text)"
                        " from pgstage.failure"
                        " union all select concat_ws(' ', 'b', claim, node, stage, ids, begun) from pgstage.claim_batch"
                        " union all select concat_ws(' ', 's', id, pipeline, name, paused) from pgstage.stage"
                        " union all select concat_ws(' ', 'r', pipeline, number, definition, path) from pgstage.revision"
                        " union all select concat_ws(' ', 'n', id, host, lock_path, pid, ended) from pgstage.node) x");
}

Test(frozen, tasks_in_every_state_are_kept_by_the_migrations) {
    char *url = old_database();
    PGconn *pg = connect_to(url);
    begin(pg);
    fill(pg);
    cr_assert_eq(old_number(pg, "select count(distinct status) from pgstage.task"), 7);
    char *before = content(pg);
    old_migrate_to_newest(url);
    char *after = content(pg);
    cr_expect_str_eq(after, before);
    expect_true_counts(pg);
    free(before);
    free(after);
    PQfinish(pg);
    free(url);
}

/* "name type, name type" of a prepared statement's parameters and columns. */
static char *shape(PGconn *pg, const char *name) {
    char *text = old_statement(name);
    PGresult *prepared = PQprepare(pg, name, text, 0, NULL);
    cr_assert_eq(PQresultStatus(prepared), PGRES_COMMAND_OK, "%s: %s", name, PQerrorMessage(pg));
    PGresult *described = PQdescribePrepared(pg, name);
    char *all = mem_copy_string("");
    for (int i = 0; i < PQnparams(described); i++) {
        char *more = mem_format("%s$%u ", all, PQparamtype(described, i));
        free(all);
        all = more;
    }
    for (int i = 0; i < PQnfields(described); i++) {
        char *more = mem_format("%s%s %u, ", all, PQfname(described, i), PQftype(described, i));
        free(all);
        all = more;
    }
    PQclear(prepared);
    PQclear(described);
    free(text);
    return all;
}

Test(frozen, every_statement_prepares_as_it_did) {
    char *old_url = old_database(), *new_url = pg_new_migrated_database();
    PGconn *old = connect_to(old_url), *new = connect_to(new_url);
    glob_t found;
    cr_assert_eq(glob(TEST_SOURCE_DIR "/tests/db/frozen/0005/statements/*.sql", 0, NULL, &found), 0);
    cr_assert_gt(found.gl_pathc, 50);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", strrchr(found.gl_pathv[i], '/') + 1);
        *strrchr(name, '.') = '\0';
        char *was = shape(old, name), *is = shape(new, name);
        cr_expect_str_eq(is, was, "%s", name);
        free(was);
        free(is);
    }
    globfree(&found);
    PQfinish(old);
    PQfinish(new);
    free(old_url);
    free(new_url);
}

static void expect_status(PGconn *pg, const char *key, const char *status) {
    char *sql = mem_format("select status from pgstage.task where key = '%s'", key), *found = old_text(pg, sql);
    cr_expect_str_eq(found, status, "%s is %s", key, found);
    free(found);
    free(sql);
}

static int call_rows(PGresult *result) {
    int rows = PQntuples(result);
    PQclear(result);
    return rows;
}

/* What the old programs left behind is gone on with by them, on the new schema. */
static void go_on_with_the_old_tasks(PGconn *pg) {
    int64_t running = old_number(pg, "select id from pgstage.task where key = 'running'");
    expect_answer(old_complete(pg, running, 111, 1, "a", "next"));
    expect_status(pg, "running", "ready");
    char *failed = old_text(pg, "select array_agg(id) from pgstage.task where key = 'failed'");
    PQclear(old_call(pg, "retry", 1, failed));
    expect_status(pg, "failed", "ready");
    char *done = old_text(pg, "select array_agg(id) from pgstage.task where key = 'next'");
    PQclear(old_call(pg, "rerun", 2, done, "b"));
    expect_status(pg, "next", "ready");
    old_exec(pg, "update pgstage.task set due_at = pgstage.now() where status = 'delayed'");
    PQclear(old_call(pg, "stage_due", 1, "10"));
    expect_status(pg, "delayed", "ready");
    char *waiting = old_text(pg, "select array_agg(id) from pgstage.task where key = 'waiting'");
    PQclear(old_call(pg, "cancel", 1, waiting));
    expect_status(pg, "waiting", "cancelled");
    free(failed);
    free(done);
    free(waiting);
}

/* A node of it is lost, another takes over; one that knows nothing of a claim gives it back. */
static void lose_a_node(PGconn *pg) {
    cr_expect_eq(call_rows(old_call(pg, "beat", 2, "21", "600000")), 1);
    cr_expect_eq(call_rows(old_call(pg, "lead", 2, "21", "600000")), 1);
    cr_assert_neq(old_claim(pg, OLD_OTHER_NODE, "a", 301), 0);
    old_exec(pg, "update pgstage.node set lease_until = pgstage.now() - interval '1 second' where id = 22");
    cr_expect_eq(call_rows(old_call(pg, "end_leases", 0)), 1);
    cr_expect_eq(call_rows(old_call(pg, "beat", 2, "22", "600000")), 0);
    cr_expect_eq(call_rows(old_call(pg, "rescue", 1, "10")), 1);
    cr_assert_neq(old_claim(pg, OLD_NODE, "a", 302), 0);
    cr_expect_eq(call_rows(old_call(pg, "release_unknown", 3, "21", "{}", "{}")), 1);
    cr_expect_eq(old_number(pg, "select count(*) from pgstage.task where status = 'running'"), 0);
    PQclear(old_call(pg, "drop_empty_claims", 2, "21", "{}"));
    PQclear(old_call(pg, "forget_nodes", 0));
    PQclear(old_call(pg, "fold_counts", 0));
}

static void finish_all(PGconn *pg) {
    static const char *const stages[] = {"a", "b"};
    int64_t claim = 400;
    for (int i = 0; i < 2; i++) {
        for (int64_t task; (task = old_claim(pg, OLD_NODE, stages[i], ++claim)) != 0;) {
            expect_answer(old_complete(pg, task, claim, 1, stages[i], "next"));
        }
    }
}

Test(frozen, its_programs_work_on_the_newest_schema) {
    char *url = old_database();
    PGconn *pg = connect_to(url);
    begin(pg);
    fill(pg);
    old_migrate_to_newest(url);
    go_on_with_the_old_tasks(pg);
    lose_a_node(pg);
    old_submit(pg, "new");
    expect_status(pg, "new", "ready");
    old_submit(pg, "new"); /* a newer stamp */
    cr_expect_eq(old_number(pg, "select version from pgstage.task where key = 'new'"), 2);
    finish_all(pg);
    cr_expect_eq(old_number(pg, "select count(*) from pgstage.task where status = 'done' and done_version = version"),
                 old_number(pg, "select count(*) from pgstage.task where status <> 'cancelled'"));
    expect_true_counts(pg);
    PQclear(old_call(pg, "node_end", 1, "21"));
    PQfinish(pg);
    free(url);
}

/* Every migration behind the first five says that the programs of that time work with it: without the line they would
 * refuse the schema at their start. */
Test(frozen, the_newest_schema_lets_its_programs_start) {
    for (int i = 0; i < sql_migration_count; i++) {
        if (sql_migrations[i].number > OLD_LAST) {
            cr_expect_leq(sql_migrations[i].compatible, OLD_LAST,
                          "%s wants the line `-- compatible: %d`, or a frozen folder of its own", sql_migrations[i].name,
                          OLD_LAST);
        }
    }
}
