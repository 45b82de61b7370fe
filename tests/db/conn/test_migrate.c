/* The schema: made once, by however many at once, whole or not at all (C78, C79). */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "db/migrate_private.h"
#include "support/pg.h"

TestSuite(db_migrate, .timeout = 300);

static struct db_sync *open_sync(const char *url, const char *role) {
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(url, role, &db, &err), STATUS_OK, "%s", err.text);
    return db;
}

static const struct sql_migration small[] = {
    {1, "0001_a", "create table pgstage.a (n int); insert into pgstage.a values (1)", 1},
    {2, "0002_b", "create table pgstage.b (n int)", 2},
    {3, "0003_c", "alter table pgstage.a add column m int", 3},
};

static const struct sql_migration broken[] = {
    {1, "0001_a", "create table pgstage.a (n int)", 1},
    {2, "0002_b", "create table pgstage.b (n int); select nonsense", 2},
    {3, "0003_c", "create table pgstage.c (n int)", 3},
};

static struct migrate_plan plan_of(const struct sql_migration *migrations, int count) {
    return (struct migrate_plan){
        .migrations = migrations, .count = count, .lock_timeout_ms = 30000};
}

static int64_t applied_count(const char *url) {
    return pg_int(url, "select count(*) from pgstage.schema_migration");
}

Test(db_migrate, applies_what_is_missing_once) {
    char *url = pg_new_database();
    struct db_sync *db = open_sync(url, "migrate");
    struct migrate_plan first = plan_of(small, 2), all = plan_of(small, 3);
    struct error err = ERROR_NONE;
    int applied = -1;
    cr_assert_eq(migrate_apply(db, &first, &applied, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(applied, 2);
    cr_assert_eq(migrate_apply(db, &first, &applied, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(applied, 0);
    cr_assert_eq(migrate_apply(db, &all, &applied, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(applied, 1);
    char *names = pg_text(url, "select string_agg(number || ' ' || name, ',' order by number) from "
                               "pgstage.schema_migration");
    cr_assert_str_eq(names, "1 0001_a,2 0002_b,3 0003_c");
    cr_assert_eq(pg_int(url, "select count(*) from pgstage.a"), 1);
    free(names);
    sync_close(db);
    free(url);
}

Test(db_migrate, the_embedded_migrations_apply) {
    char *url = pg_new_database();
    struct db_sync *db = open_sync(url, "migrate");
    struct error err = ERROR_NONE;
    int applied = -1;
    cr_assert_eq(migrate_check(db, &err), STATUS_NOT_FOUND);
    cr_assert_str_eq(err.text, "the database has no pgstage schema: run `pgstage migrate`");
    error_clear(&err);
    cr_assert_eq(migrate_up(db, &applied, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(applied, sql_migration_count);
    cr_assert_eq(migrate_check(db, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(applied_count(url), sql_migration_count);
    sync_close(db);
    free(url);
}

Test(db_migrate, a_failing_migration_leaves_nothing_of_itself) {
    char *url = pg_new_database();
    struct db_sync *db = open_sync(url, "migrate");
    struct migrate_plan plan = plan_of(broken, 3);
    struct error err = ERROR_NONE;
    int applied = -1;
    cr_assert_eq(migrate_apply(db, &plan, &applied, &err), STATUS_INVALID);
    cr_assert_str_eq(err.text, "migration 0002_b: column \"nonsense\" does not exist");
    cr_assert_eq(applied, 1);
    cr_assert_eq(pg_int(url, "select count(*) from pg_class where relname in ('b', 'c')"), 0);
    cr_assert_eq(applied_count(url), 1);
    /* The connection is not left in a transaction, and the lock is free. */
    error_clear(&err);
    struct migrate_plan good = plan_of(small, 3);
    cr_assert_eq(migrate_apply(db, &good, &applied, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(applied, 2);
    sync_close(db);
    free(url);
}

/* C79 */
Test(db_migrate, older_and_newer_schemas_are_refused_in_words) {
    char *url = pg_new_database();
    struct db_sync *db = open_sync(url, "migrate");
    struct migrate_plan two = plan_of(small, 2), three = plan_of(small, 3);
    struct error err = ERROR_NONE;
    cr_assert_eq(migrate_apply(db, &two, NULL, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(migrate_compare(db, &two, &err), STATUS_OK);
    cr_assert_eq(migrate_compare(db, &three, &err), STATUS_CONFLICT);
    cr_assert_str_eq(
        err.text,
        "the database's pgstage schema (migration 2) is older than this program (migration 3): "
        "run `pgstage migrate`");
    error_clear(&err);
    cr_assert_eq(migrate_apply(db, &three, NULL, &err), STATUS_OK);
    cr_assert_eq(migrate_compare(db, &two, &err), STATUS_CONFLICT);
    const char *newer =
        "the database's pgstage schema (migration 3) is newer than this program (migration 2), and works with "
        "programs from migration 3 on: use a newer pgstage";
    cr_assert_str_eq(err.text, newer);
    error_clear(&err);
    cr_assert_eq(migrate_apply(db, &two, NULL, &err), STATUS_CONFLICT);
    cr_assert_str_eq(err.text, newer);
    cr_assert_eq(applied_count(url), 3);
    sync_close(db);
    free(url);
}

/* C79: a rolling deploy. */
Test(db_migrate, a_newer_schema_that_is_compatible_serves_an_older_program) {
    static const struct sql_migration list[] = {
        {1, "0001_a", "create table pgstage.a (n int)", 1},
        {2, "0002_b", "create table pgstage.b (n int)", 1},
        {3, "0003_c", "alter table pgstage.a drop column n", 3},
        {4, "0004_d", "create table pgstage.d (n int)", 2},
    };
    char *url = pg_new_database();
    struct db_sync *db = open_sync(url, "migrate");
    struct migrate_plan one = plan_of(list, 1), two = plan_of(list, 2), four = plan_of(list, 4);
    struct error err = ERROR_NONE;
    int applied = -1;
    cr_assert_eq(migrate_apply(db, &two, NULL, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(migrate_compare(db, &one, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(migrate_apply(db, &one, &applied, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(applied, 0);
    /* The last one alone would let migration 2 work; the one before it does not. */
    cr_assert_eq(migrate_apply(db, &four, NULL, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(migrate_compare(db, &two, &err), STATUS_CONFLICT);
    cr_assert(strstr(err.text, "from migration 3 on") != NULL, "%s", err.text);
    sync_close(db);
    free(url);
}

Test(db_migrate, a_table_of_the_first_migrations_gets_the_column) {
    char *url = pg_new_database();
    pg_exec(url, "create schema pgstage; create table pgstage.schema_migration (number int primary key, name text not null,"
                 " applied_at timestamptz not null default now()); create table pgstage.a (n int);"
                 " insert into pgstage.schema_migration values (1, '0001_a')");
    struct db_sync *db = open_sync(url, "migrate");
    struct migrate_plan one = plan_of(small, 1), two = plan_of(small, 2);
    struct error err = ERROR_NONE;
    cr_assert_eq(migrate_compare(db, &one, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(migrate_compare(db, &two, &err), STATUS_CONFLICT);
    error_clear(&err);
    cr_assert_eq(migrate_apply(db, &two, NULL, &err), STATUS_OK, "%s", err.text);
    char *rows = pg_text(url, "select string_agg(format('%s %s', number, compatible), ',' order by number)"
                              " from pgstage.schema_migration");
    cr_assert_str_eq(rows, "1 ,2 2");
    free(rows);
    sync_close(db);
    free(url);
}

Test(db_migrate, a_schema_of_somebody_else_is_none_of_ours) {
    char *url = pg_new_database();
    pg_exec(url, "create schema pgstage");
    struct db_sync *db = open_sync(url, "migrate");
    struct migrate_plan plan = plan_of(small, 3);
    struct error err = ERROR_NONE;
    cr_assert_eq(migrate_compare(db, &plan, &err), STATUS_NOT_FOUND);
    error_clear(&err);
    cr_assert_eq(migrate_apply(db, &plan, NULL, &err), STATUS_OK, "%s", err.text);
    sync_close(db);
    free(url);
}

Test(db_migrate, a_held_lock_names_its_holder) {
    char *url = pg_new_database();
    PGconn *holder = PQconnectdb(url);
    char *sql =
        mem_format("begin; select pg_advisory_xact_lock(%lld)", (long long)MIGRATE_LOCK_KEY);
    PQclear(PQexec(holder, sql));
    struct db_sync *db = open_sync(url, "migrate");
    struct migrate_plan plan = plan_of(small, 3);
    plan.lock_timeout_ms = 100;
    struct error err = ERROR_NONE;
    int applied = -1;
    cr_assert_eq(migrate_apply(db, &plan, &applied, &err), STATUS_TIMEOUT);
    char *expected =
        mem_format("another migration is running (server process %d): ", PQbackendPID(holder));
    cr_assert_eq(strncmp(err.text, expected, strlen(expected)), 0, "%s", err.text);
    cr_assert_eq(applied, 0);
    PQfinish(holder);
    error_clear(&err);
    plan.lock_timeout_ms = 30000;
    cr_assert_eq(migrate_apply(db, &plan, &applied, &err), STATUS_OK, "%s", err.text);
    sync_close(db);
    free(expected);
    free(sql);
    free(url);
}

/* ---- C78: ten at once, and the one that holds the lock is killed ---- */

enum { PROCESSES = 10, ROUNDS = 5 };

#define URL_VARIABLE "PGSTAGE_TEST_MIGRATE_URL"
#define ROLE_VARIABLE "PGSTAGE_TEST_MIGRATE_ROLE"

/* This program again, as one that only migrates: no forked copy of a process that has threads. */
static __attribute__((constructor)) void migrate_instead(void) {
    const char *url = getenv(URL_VARIABLE), *role = getenv(ROLE_VARIABLE);
    if (url == NULL || role == NULL) {
        return;
    }
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    if (sync_open(url, role, &db, &err) != STATUS_OK || migrate_up(db, NULL, &err) != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", role, err.text);
        _exit(1);
    }
    sync_close(db);
    _exit(0);
}

/* Its role is in pg_stat_activity. */
static pid_t start_migrating(const char *url, int number) {
    char *variables[] = {mem_format("%s=%s", URL_VARIABLE, url),
                         mem_format("%s=m%d", ROLE_VARIABLE, number), NULL};
    char *const arguments[] = {"migrate", NULL};
    pid_t pid = 0;
    cr_assert_eq(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, variables), 0);
    free(variables[0]);
    free(variables[1]);
    return pid;
}

/* Number of the process whose session holds the lock in the middle of a migration; -1 when none
 * does. */
static int holder_of(PGconn *watcher) {
    PGresult *result = PQexec(
        watcher,
        "select substr(application_name, 10) from pg_stat_activity a join pg_locks l using (pid)"
        " where locktype = 'advisory' and granted and datname = current_database()"
        " and query like '%create%pgstage.%'");
    int number = PQntuples(result) > 0 ? (int)strtol(PQgetvalue(result, 0, 0), NULL, 10) : -1;
    PQclear(result);
    return number;
}

static int running(const pid_t *pids) {
    int count = 0;
    for (int i = 0; i < PROCESSES; i++) {
        siginfo_t info = {0};
        count += waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                 info.si_pid == 0;
    }
    return count;
}

static char *fingerprint(const char *url) {
    return pg_text(
        url,
        "select md5(string_agg(line, ',' order by line)) from ("
        " select format('%s.%s %s', c.relname, a.attname, format_type(atttypid, atttypmod)) as line"
        "  from pg_attribute a join pg_class c on c.oid = attrelid"
        "  where relnamespace = 'pgstage'::regnamespace"
        " union all select pg_get_functiondef(oid) from pg_proc"
        "  where pronamespace = 'pgstage'::regnamespace and prokind in ('f', 'p')"
        " union all select number || name from pgstage.schema_migration) lines");
}

static int race(const char *url) {
    pid_t pids[PROCESSES];
    int killed = -1;
    PGconn *watcher = PQconnectdb(url);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = start_migrating(url, i);
    }
    while (killed < 0 && running(pids) > 0) {
        killed = holder_of(watcher);
    }
    if (killed >= 0) {
        kill(pids[killed], SIGKILL);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        cr_assert_eq(waitpid(pids[i], &status, 0), pids[i]);
        cr_assert(status == 0 || (i == killed && WIFSIGNALED(status)), "process %d: status %d", i,
                  status);
    }
    PQfinish(watcher);
    return killed;
}

/* With a snapshot from before it waited, a migrator would not see what the one ahead of it did. */
static void make_serializable(const char *url) {
    char *sql = mem_format("alter database %s set default_transaction_isolation = 'serializable'",
                           pg_database_of(url));
    pg_exec(url, sql);
    free(sql);
}

Test(db_migrate, ten_at_once_make_one_schema_though_the_first_is_killed) {
    char *expected = NULL;
    int kills = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char *url = pg_new_database();
        if (round % 2 != 0) {
            make_serializable(url);
        }
        kills += race(url) >= 0;
        cr_assert_eq(applied_count(url), sql_migration_count);
        struct db_sync *db = open_sync(url, "check");
        cr_assert_eq(migrate_check(db, NULL), STATUS_OK);
        sync_close(db);
        char *found = fingerprint(url);
        cr_assert(expected == NULL || strcmp(expected, found) == 0, "round %d made another schema",
                  round);
        free(expected);
        expected = found;
        free(url);
    }
    cr_assert_gt(kills, 0, "nobody was caught in the middle");
    free(expected);
}
