/* pg.c - the cluster that the tests of a program share, and databases in it. */
#include "support/pg.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "db/migrate.h"
#include "support/leaks.h"

#define FOLDER_VARIABLE "PGSTAGE_TEST_CLUSTER"

/* ---- the shared one ---- */

static struct pg_cluster *shared; /* in a test's process only its names are set */

static void forget_environment(void) {
    static const char *const names[] = {"PGHOST",
                                        "PGHOSTADDR",
                                        "PGPORT",
                                        "PGDATABASE",
                                        "PGUSER",
                                        "PGPASSWORD",
                                        "PGSERVICE",
                                        "PGOPTIONS",
                                        "PGPASSFILE",
                                        "PGSSLMODE",
                                        "PGTARGETSESSIONATTRS",
                                        "PGSTAGE_DATABASE_URL",
                                        "PGSTAGE_LISTEN_DATABASE_URL"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
}

ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    leaks_fail_tests();
    forget_environment();
    shared = pg_cluster_start();
    setenv(FOLDER_VARIABLE, pg_cluster_folder(shared), 1);
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
    (void)stats;
    if (shared != NULL) {
        pg_cluster_remove(shared);
        shared = NULL;
    }
}

static void forget_shared(void) {
    pg_cluster_remove(shared);
    shared = NULL;
}

static const struct pg_cluster *get_shared(void) {
    if (shared == NULL) {
        const char *folder = getenv(FOLDER_VARIABLE);
        if (folder == NULL) {
            pg_die("%s is not set: not run by the test runner", FOLDER_VARIABLE);
        }
        shared = pg_cluster_find(folder);
        atexit(forget_shared);
    }
    return shared;
}

const char *pg_url(void) {
    return pg_cluster_url(get_shared());
}

const char *pg_socket_path(void) {
    return pg_cluster_socket_path(get_shared());
}

/* ---- statements ---- */

static void on_notice(void *context, const char *message) {
    (void)context;
    (void)message;
}

static PGconn *connect_to(const char *url) {
    PGconn *pg = PQconnectdb(url);
    if (PQstatus(pg) != CONNECTION_OK) {
        pg_die("%s", PQerrorMessage(pg));
    }
    PQsetNoticeProcessor(pg, on_notice, NULL);
    return pg;
}

static bool is_fine(const PGresult *result) {
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static PGresult *query(const char *url, const char *sql, PGconn **pg) {
    *pg = connect_to(url);
    PGresult *result = PQexec(*pg, sql);
    if (!is_fine(result)) {
        pg_die("%s: %s", sql, PQerrorMessage(*pg));
    }
    return result;
}

void pg_exec(const char *url, const char *sql) {
    PGconn *pg;
    PQclear(query(url, sql, &pg));
    PQfinish(pg);
}

/* Tests look at one database again and again: the connection of the last look is kept. */
static struct {
    char *url;
    PGconn *pg;
} last_look;

static void forget_look(void) {
    PQfinish(last_look.pg);
    free(last_look.url);
    last_look.pg = NULL;
    last_look.url = NULL;
}

/* NULL: there is none to this database, or it has been lost. */
static PGresult *look_again(const char *url, const char *sql) {
    if (last_look.pg == NULL || strcmp(last_look.url, url) != 0) {
        return NULL;
    }
    PGresult *result = PQexec(last_look.pg, sql);
    if (PQstatus(last_look.pg) == CONNECTION_OK) {
        return result;
    }
    PQclear(result);
    return NULL;
}

static PGresult *look(const char *url, const char *sql) {
    PGresult *result = look_again(url, sql);
    if (result == NULL) {
        forget_look();
        last_look.pg = connect_to(url);
        last_look.url = mem_copy_string(url);
        result = PQexec(last_look.pg, sql);
    }
    if (!is_fine(result)) {
        pg_die("%s: %s", sql, PQerrorMessage(last_look.pg));
    }
    if (PQtransactionStatus(last_look.pg) != PQTRANS_IDLE) {
        forget_look(); /* what a look began ends with it */
    }
    return result;
}

char *pg_text(const char *url, const char *sql) {
    PGresult *result = look(url, sql);
    char *text = mem_copy_string(
        PQntuples(result) > 0 && PQnfields(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return text;
}

int64_t pg_int(const char *url, const char *sql) {
    char *text = pg_text(url, sql);
    int64_t value = strtoll(text, NULL, 10);
    free(text);
    return value;
}

/* ---- databases ---- */

const char *pg_database_of(const char *url) {
    static char name[64];
    const char *start = strstr(url, ":///");
    if (start == NULL) {
        pg_die("not a URL of this module");
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(start + 4, "?"), start + 4);
    return name;
}

static char *url_of(const char *database) {
    return mem_format("postgresql:///%s?host=%s&port=5432&user=postgres", database,
                      pg_cluster_folder(get_shared()));
}

static char *create_database(const char *template) {
    static int number;
    char name[64], sql[256];
    snprintf(name, sizeof name, "t_%d_%d", (int)getpid(), ++number);
    snprintf(sql, sizeof sql, "create database %s template %s", name, template);
    pg_exec(pg_url(), sql);
    return url_of(name);
}

char *pg_new_database(void) {
    return create_database("template0");
}

static void migrate(const char *url) {
    struct error err = ERROR_NONE;
    struct db_sync *db = NULL;
    if (sync_open(url, "template", &db, &err) != STATUS_OK ||
        migrate_up(db, NULL, &err) != STATUS_OK) {
        pg_die("migrating: %s", err.text);
    }
    sync_close(db);
}

/* Test processes run side by side: the first one makes the template, under a lock. */
static void ensure_template(void) {
    PGconn *pg;
    PQclear(query(pg_url(), "select pg_advisory_lock(1)", &pg));
    if (pg_int(pg_url(), "select count(*) from pg_database where datname = 'migrated'") == 0) {
        pg_exec(pg_url(), "drop database if exists migrating");
        pg_exec(pg_url(), "create database migrating template template0");
        char *url = url_of("migrating");
        migrate(url);
        free(url);
        pg_exec(pg_url(), "alter database migrating rename to migrated");
    }
    PQfinish(pg);
}

char *pg_new_migrated_database(void) {
    ensure_template();
    return create_database("migrated");
}
