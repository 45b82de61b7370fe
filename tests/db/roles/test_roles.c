/* C82 (f): who may do what in the schema, as a matrix of role x function and table, and what that means in practice. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "db/migrate_private.h"
#include "sql/statements.h"
#include "support/pg.h"

#define MATRIX TEST_SOURCE_DIR "/tests/db/roles/matrix.txt"

TestSuite(roles, .timeout = 120);

static struct db_sync *open_sync(const char *url) {
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(url, "roles", &db, &err), STATUS_OK, "%s", err.text);
    return db;
}

static void make_roles(const char *url) {
    struct db_sync *db = open_sync(url);
    struct error err = ERROR_NONE;
    cr_assert_eq(migrate_roles(db, &err), STATUS_OK, "%s", err.text);
    sync_close(db);
}

/* A migrated database with the roles, and a pipeline "p" of one stage in it. */
static char *database_with_roles(void) {
    char *url = pg_new_migrated_database();
    pg_exec(url, "select pgstage.register('p', 'pipeline: p', '{a}', 'apply')");
    make_roles(url);
    return url;
}

/* A connection as `role`, which may be one that cannot log in. */
static PGconn *connect_as(const char *url, const char *role) {
    PGconn *pg = PQconnectdb(url);
    cr_assert_eq(PQstatus(pg), CONNECTION_OK, "%s", PQerrorMessage(pg));
    char *sql = mem_format("set session authorization %s", role);
    PQclear(PQexec(pg, sql));
    free(sql);
    return pg;
}

/* The SQLSTATE; "" when it succeeded. Borrowed until the next call. */
static const char *try(PGconn *pg, const char *sql) {
    static char state[8];
    PGresult *result = PQexec(pg, sql);
    const char *found = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    snprintf(state, sizeof state, "%s", found == NULL ? "" : found);
    PQclear(result);
    return state;
}

#define EXPECT_ALLOWED(pg, sql) cr_expect_str_eq(try (pg, sql), "", "%s: %s", sql, PQerrorMessage(pg))
#define EXPECT_DENIED(pg, sql) cr_expect_str_eq(try (pg, sql), "42501", "%s: %s", sql, PQerrorMessage(pg))

/* ---- the matrix ----------------------------------------------------------------------------------------------------- */

/* One line a function name and a table, as in matrix.txt. */
static const char lines_of_catalogue[] =
    "with role(name, place) as (values ('pgstage_orchestrator', 1), ('pgstage_enqueuer', 2), ('pgstage_viewer', 3)),"
    " rights as ("
    " select 'function ' || p.proname as thing, r.place,"
    "  case when has_function_privilege(r.name, p.oid, 'execute') then 'x' else '-' end as mark"
    "  from pg_proc p, role r where p.pronamespace = 'pgstage'::regnamespace"
    " union"
    " select 'table ' || c.relname, r.place, coalesce(nullif("
    "  case when has_table_privilege(r.name, c.oid, 'select') then 'r'"
    "       when has_any_column_privilege(r.name, c.oid, 'select') then 'c' else '' end"
    "  || case when has_any_column_privilege(r.name, c.oid, 'insert') then 'i' else '' end"
    "  || case when has_any_column_privilege(r.name, c.oid, 'update') then 'u' else '' end"
    "  || case when has_table_privilege(r.name, c.oid, 'delete') then 'd' else '' end"
    "  || case when has_table_privilege(r.name, c.oid, 'truncate, references, trigger') then '!' else '' end, ''), '-')"
    "  from pg_class c, role r where c.relnamespace = 'pgstage'::regnamespace and c.relkind in ('r', 'p', 'v', 'm'))"
    " select string_agg(line, e'\\n' order by line) || e'\\n' from ("
    "  select thing || ' ' || string_agg(mark, ' ' order by place, mark) as line from rights group by thing) x";

static char *read_matrix(void) {
    struct buf text;
    buf_init(&text, 1 << 20);
    FILE *file = fopen(MATRIX, "r");
    cr_assert_not_null(file, "%s", MATRIX);
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] != '#' && line[0] != '\n') {
            buf_append_string(&text, line);
        }
    }
    fclose(file);
    char *taken = buf_take(&text);
    buf_finish(&text);
    return taken;
}

/* Reports the lines of one text that the other has not. */
static void expect_lines(const char *lines, const char *in, const char *message) {
    char *copy = mem_copy_string(lines), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
        char *whole = mem_format("%s\n", line);
        const char *at = strstr(in, whole);
        cr_expect(at != NULL && (at == in || at[-1] == '\n'), "%s: %s", message, line);
        free(whole);
    }
    free(copy);
}

Test(roles, the_matrix_is_what_the_catalogue_says) {
    char *url = database_with_roles();
    char *found = pg_text(url, lines_of_catalogue), *wanted = read_matrix();
    expect_lines(found, wanted, "tests/db/roles/matrix.txt does not have the line");
    expect_lines(wanted, found, "tests/db/roles/matrix.txt has a line that is not true");
    free(found);
    free(wanted);
    free(url);
}

static const char rights_of_all[] =
    "select count(*) from ("
    " select 1 from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
    "  where p.pronamespace = 'pgstage'::regnamespace and a.grantee = 0"
    " union all select 1 from pg_class c, aclexplode(c.relacl) a where c.relnamespace = 'pgstage'::regnamespace and a.grantee = 0"
    " union all select 1 from pg_namespace n, aclexplode(n.nspacl) a where n.nspname = 'pgstage' and a.grantee = 0) x";

Test(roles, nothing_is_everybodys_with_and_without_roles) {
    char *url = pg_new_migrated_database();
    cr_expect_eq(pg_int(url, rights_of_all), 0);
    make_roles(url);
    cr_expect_eq(pg_int(url, rights_of_all), 0);
    free(url);
}

/* A function that runs with its owner's rights, or in plpgsql, looks names up where nobody else can put any. */
Test(roles, functions_have_a_search_path_of_their_own) {
    char *url = database_with_roles();
    char *loose = pg_text(url, "select string_agg(p.oid::regprocedure::text, ', ') from pg_proc p join pg_language l"
                               " on l.oid = p.prolang where p.pronamespace = 'pgstage'::regnamespace"
                               " and (p.prosecdef or l.lanname = 'plpgsql')"
                               " and not coalesce('search_path=pg_catalog, pg_temp' = any(p.proconfig), false)");
    cr_expect_str_eq(loose, "");
    char *definers = pg_text(url, "select string_agg(distinct proname, ', ') from pg_proc"
                                  " where pronamespace = 'pgstage'::regnamespace and prosecdef");
    cr_expect_str_eq(definers, "submit, submit_set", "a new function that runs with its owner's rights: say why, here");
    free(loose);
    free(definers);
    free(url);
}

/* ---- in practice ---------------------------------------------------------------------------------------------------- */

Test(roles, an_enqueuer_submits_and_does_nothing_else) {
    char *url = database_with_roles();
    pg_exec(url, "select pgstage.submit('p', 'secret', '{\"a\": 1}')");
    PGconn *pg = connect_as(url, "pgstage_enqueuer");
    EXPECT_ALLOWED(pg, "select * from pgstage.submit('p', 'k', '{}')");
    EXPECT_ALLOWED(pg, "select * from pgstage.submit_set('p', '{l,m}', null, null, null, null, false)");
    EXPECT_DENIED(pg, "select payload from pgstage.task");
    EXPECT_DENIED(pg, "select key from pgstage.task");
    EXPECT_DENIED(pg, "update pgstage.task set priority = 1");
    EXPECT_DENIED(pg, "insert into pgstage.task_count_delta values (1, 1, 'ready', 1)");
    EXPECT_DENIED(pg, "select pgstage.cancel_tasks('{1}')");
    EXPECT_DENIED(pg, "select pgstage.make_roles()");
    EXPECT_DENIED(pg, "create table pgstage.mine (n int)");
    cr_expect_eq(pg_int(url, "select count(*) from pgstage.task where status = 'ready'"), 4);
    PQfinish(pg);
    free(url);
}

/* What the caller has put into its search_path is not what the function runs. */
Test(roles, an_enqueuer_cannot_put_code_into_a_submit) {
    char *url = database_with_roles();
    pg_exec(url, "create schema evil authorization pgstage_enqueuer; grant usage on schema evil to public; set session authorization pgstage_enqueuer;"
                 " create function evil.trap(text, text) returns boolean language plpgsql"
                 "  as $$ begin raise exception 'caught as %', current_user; end $$;"
                 " create operator evil.= (leftarg = text, rightarg = text, function = evil.trap)");
    PGconn *pg = connect_as(url, "pgstage_enqueuer");
    EXPECT_ALLOWED(pg, "set search_path = evil, pg_catalog");
    cr_expect_str_eq(try (pg, "select 'a'::text = 'a'::text"), "P0001", "the trap is not set");
    EXPECT_ALLOWED(pg, "select * from pgstage.submit('p', 'k', '{}')");
    EXPECT_ALLOWED(pg, "select * from pgstage.submit_set('p', '{k,l}', null, null, null, null, true)");
    PQfinish(pg);
    free(url);
}

static void expect_statement(struct db_sync *db, const struct sql_statement *sql, int count, const struct db_param *params,
                             const char *sqlstate) {
    struct error err = ERROR_NONE;
    (void)!sync_run(db, NULL, sql->text, count, params, NULL, &err);
    cr_expect_str_eq(err.sqlstate, sqlstate, "%s: %s", sql->name, err.text);
}

Test(roles, a_viewer_sees_states_and_errors_but_no_documents) {
    char *url = database_with_roles();
    pg_exec(url, "select pgstage.submit('p', 'k', '{\"a\": 1}')");
    struct db_sync *db = open_sync(url);
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_script(db, "set session authorization pgstage_viewer", &err), STATUS_OK);
    cr_expect_eq(migrate_check(db, &err), STATUS_OK, "%s", err.text);
    const struct db_param find[] = {DB_TEXT("p"), DB_NULL, DB_NULL, DB_NULL, DB_NULL,
                                    DB_NULL,      DB_NULL, DB_TEXT("0"), DB_TEXT("10"), DB_TEXT("false")};
    const struct db_param name[] = {DB_TEXT("p"), DB_TEXT("k")};
    const struct db_param reasons[] = {DB_TEXT("p"), DB_TEXT("1")};
    expect_statement(db, &sql_status, 1, &DB_NULL, "");
    expect_statement(db, &sql_status_nodes, 0, NULL, "");
    expect_statement(db, &sql_status_health, 0, NULL, "");
    expect_statement(db, &sql_names, 0, NULL, "");
    expect_statement(db, &sql_find_tasks, 10, find, "");
    expect_statement(db, &sql_failed_reasons, 2, reasons, "");
    expect_statement(db, &sql_show_failures, 1, &DB_TEXT("1"), "");
    expect_statement(db, &sql_show_task, 2, name, "42501");
    expect_statement(db, &sql_show_outputs, 1, &DB_TEXT("1"), "42501");
    expect_statement(db, &sql_retry, 1, &DB_TEXT("{1}"), "42501");
    sync_close(db);
    free(url);
}

/* Rights that were given by hand, as documented before there were roles. */
Test(roles, whoever_had_the_tables_keeps_the_functions) {
    char *url = pg_new_migrated_database();
    char *role = mem_format("hand_%s", pg_database_of(url));
    char *sql = mem_format("create role %s; grant usage on schema pgstage to %s; grant select on pgstage.pipeline,"
                           " pgstage.revision_stage, pgstage.stage to %s; grant select, insert, update on pgstage.task to %s;"
                           " grant select, insert on pgstage.task_count_delta to %s; select pgstage.settle_rights()",
                           role, role, role, role, role);
    pg_exec(url, sql);
    pg_exec(url, "select pgstage.register('p', 'pipeline: p', '{a}', 'apply')");
    PGconn *pg = connect_as(url, role);
    EXPECT_ALLOWED(pg, "select * from pgstage.submit_set('p', '{a}', null, null, null, null, false)");
    EXPECT_DENIED(pg, "select pgstage.settle_rights()");
    PQfinish(pg);
    /* One that runs nodes gets the tables that are new. */
    char *runner = mem_format("create role node_%s; grant select, insert, update, delete on all tables in schema pgstage"
                              " to node_%s; create table pgstage.new_one (n int); select pgstage.settle_rights()",
                              pg_database_of(url), pg_database_of(url));
    char *allowed = mem_format("select has_table_privilege('node_%s', 'pgstage.new_one', 'delete')::int"
                               " - has_table_privilege('%s', 'pgstage.new_one', 'select')::int",
                               pg_database_of(url), role);
    pg_exec(url, runner);
    cr_expect_eq(pg_int(url, allowed), 1);
    free(allowed);
    free(runner);
    char *reader = mem_format("create role read_%s; grant usage on schema pgstage to read_%s;"
                              " grant select on all tables in schema pgstage to read_%s; select pgstage.settle_rights();"
                              " set session authorization read_%s; select pgstage.now(), pgstage.stage_order(1, 1)",
                              pg_database_of(url), pg_database_of(url), pg_database_of(url), pg_database_of(url));
    pg_exec(url, reader);
    char *as_reader = mem_format("read_%s", pg_database_of(url));
    pg = connect_as(url, as_reader);
    EXPECT_ALLOWED(pg, sql_status_nodes.text);
    EXPECT_DENIED(pg, "select * from pgstage.submit('p', 'k')");
    PQfinish(pg);
    free(as_reader);
    free(reader);
    free(sql);
    free(role);
    free(url);
}

/* ---- who migrates --------------------------------------------------------------------------------------------------- */

/* Nodes that run as the role that made the schema go on when a superuser makes the roles. */
Test(roles, the_owner_before_loses_nothing) {
    char *url = pg_new_migrated_database(), *owner = mem_format("before_%s", pg_database_of(url));
    char *sql = mem_format("create role %s; alter schema pgstage owner to %s; alter table pgstage.task owner to %s", owner, owner,
                           owner);
    pg_exec(url, sql);
    make_roles(url);
    PGconn *pg = connect_as(url, owner);
    EXPECT_ALLOWED(pg, "update pgstage.task set priority = 1");
    EXPECT_ALLOWED(pg, "delete from pgstage.node");
    PQfinish(pg);
    free(sql);
    free(owner);
    free(url);
}

/* A role that is no superuser makes the schema, then the roles, without a right on "public". */
Test(roles, an_ordinary_role_migrates_and_makes_the_roles) {
    char *url = pg_new_database();
    const char *database = pg_database_of(url);
    char *sql = mem_format("create role deploy_%s login createrole; grant create on database %s to deploy_%s;"
                           " revoke all on schema public from public",
                           database, database, database);
    pg_exec(url, sql);
    free(sql);
    const char *at = strstr(url, "user=postgres");
    cr_assert_not_null(at);
    char *deployer = mem_format("%.*suser=deploy_%s", (int)(at - url), url, pg_database_of(url));
    struct db_sync *db = open_sync(deployer);
    struct error err = ERROR_NONE;
    cr_assert_eq(migrate_up(db, NULL, &err), STATUS_OK, "%s", err.text);
    pg_exec(url, "do $$ begin create role pgstage_owner; exception when duplicate_object or unique_violation then null; end $$");
    sql = mem_format("grant pgstage_owner to deploy_%s", pg_database_of(url));
    pg_exec(url, sql);
    cr_assert_eq(migrate_roles(db, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(migrate_roles(db, &err), STATUS_OK, "again: %s", err.text);
    cr_expect_eq(pg_int(url, "select count(*) from pg_class where relnamespace = 'pgstage'::regnamespace"
                             " and relowner <> 'pgstage_owner'::regrole"),
                 0);
    /* What a later migration brings belongs to the owner and to nobody else. */
    struct sql_migration list[200];
    for (int i = 0; i < sql_migration_count; i++) {
        list[i] = sql_migrations[i];
    }
    list[sql_migration_count] = (struct sql_migration){
        9001, "9001_more", "create table pgstage.more (n int, payload jsonb); create function pgstage.more() returns int"
                           " language plpgsql as $$ begin return 1; end $$", 9001};
    struct migrate_plan plan = {.migrations = list, .count = sql_migration_count + 1, .lock_timeout_ms = 30000};
    cr_assert_eq(migrate_apply(db, &plan, NULL, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(pg_int(url, "select count(*) from pg_class c, pg_proc p where c.relname = 'more' and p.proname = 'more'"
                             " and relowner = 'pgstage_owner'::regrole and proowner = relowner"),
                 1);
    cr_expect_eq(pg_int(url, rights_of_all), 0);
    PGconn *pg = connect_as(url, "pgstage_viewer");
    EXPECT_ALLOWED(pg, "select n from pgstage.more");
    EXPECT_DENIED(pg, "select payload from pgstage.more");
    EXPECT_DENIED(pg, "select pgstage.more()");
    PQfinish(pg);
    pg = connect_as(url, "pgstage_orchestrator");
    EXPECT_ALLOWED(pg, "insert into pgstage.more values (pgstage.more())");
    PQfinish(pg);
    sync_close(db);
    free(sql);
    free(deployer);
    free(url);
}

/* On a thread, which may not end the test: NULL when all went well, else the session's last words. */
static void *make_roles_by(void *db) {
    static struct error err;
    return migrate_roles(db, &err) == STATUS_OK ? NULL : err.text;
}

/* The tables of the schema in the order in which make_roles comes to them. */
#define FIRST_TABLE "select c.oid::regclass::text from pg_class c where c.relnamespace = 'pgstage'::regnamespace and" \
                    " c.relkind = 'r' order by c.ctid limit 1"
#define LAST_TABLE  "select c.oid::regclass::text from pg_class c where c.relnamespace = 'pgstage'::regnamespace and" \
                    " c.relkind = 'r' order by c.ctid desc limit 1"

/* A node holds what the roles want, and wants what they hold: they are the ones that give way, and come again. */
Test(roles, a_deadlock_with_a_nodes_work_is_tried_again) {
    char *url = pg_new_migrated_database(), *first = pg_text(url, FIRST_TABLE), *last = pg_text(url, LAST_TABLE);
    PGconn *node = PQconnectdb(url);
    char *lock_last = mem_format("set deadlock_timeout = '60s'; begin; lock table %s in access share mode", last);
    char *lock_first = mem_format("lock table %s in access share mode", first);
    EXPECT_ALLOWED(node, lock_last);
    struct db_sync *db = open_sync(url);
    void *why = NULL;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, make_roles_by, db), 0);
    int64_t deadline = clock_now_ms(&clock_boottime) + 60000;
    while (pg_int(url, "select count(*) from pg_locks l join pg_database d on d.oid = l.database"
                       " where d.datname = current_database() and not l.granted") == 0) {
        cr_assert_lt(clock_now_ms(&clock_boottime), deadline);
    }
    EXPECT_ALLOWED(node, lock_first); /* granted once the roles have given way */
    EXPECT_ALLOWED(node, "commit");
    pthread_join(thread, &why);
    sync_close(db);
    cr_expect_null(why, "%s", (const char *)why);
    cr_expect_eq(pg_int(url, "select count(*) from pg_class c where c.relnamespace = 'pgstage'::regnamespace and c.relkind = 'r'"
                             " and c.relowner <> 'pgstage_owner'::regrole"),
                 0);
    PQfinish(node);
    free(lock_first);
    free(lock_last);
    free(last);
    free(first);
    free(url);
}
