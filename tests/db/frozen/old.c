#include "old.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "db/migrate_private.h"
#include "support/pg.h"

#define FROZEN TEST_SOURCE_DIR "/tests/db/frozen/0005"

static char *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    char *text = mem_alloc(64 * 1024);
    size_t length = fread(text, 1, 64 * 1024 - 1, file);
    cr_assert(length > 0 && feof(file) != 0, "%s", path);
    fclose(file);
    return text;
}

char *old_statement(const char *name) {
    char *path = mem_format("%s/statements/%s.sql", FROZEN, name);
    char *text = read_file(path);
    free(path);
    return text;
}

/* ---- the database ---- */

static void apply(const char *url, const struct migrate_plan *plan) {
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(url, "migrate", &db, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(migrate_apply(db, plan, NULL, &err), STATUS_OK, "%s", err.text);
    sync_close(db);
}

char *old_database(void) {
    char *url = pg_new_database();
    glob_t found;
    struct sql_migration migrations[OLD_LAST];
    cr_assert_eq(glob(FROZEN "/schema/*.sql", 0, NULL, &found), 0);
    cr_assert_eq(found.gl_pathc, OLD_LAST);
    for (int i = 0; i < OLD_LAST; i++) {
        const char *name = strrchr(found.gl_pathv[i], '/') + 1;
        migrations[i] = (struct sql_migration){i + 1, name, read_file(found.gl_pathv[i]), i + 1};
    }
    struct migrate_plan plan = {.migrations = migrations, .count = OLD_LAST, .lock_timeout_ms = 30000};
    apply(url, &plan);
    /* Its programs wrote their migrations down without the column. */
    pg_exec(url, "alter table pgstage.schema_migration drop column compatible");
    for (int i = 0; i < OLD_LAST; i++) {
        free((void *)(uintptr_t)migrations[i].text);
    }
    globfree(&found);
    return url;
}

void old_migrate_to_newest(const char *url) {
    struct migrate_plan plan = {
        .migrations = sql_migrations, .count = sql_migration_count, .lock_timeout_ms = 30000};
    apply(url, &plan);
}

/* ---- statements ---- */

static PGresult *expect_fine(PGconn *pg, const char *what, PGresult *result) {
    ExecStatusType status = PQresultStatus(result);
    cr_assert(status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK, "%s: %s", what, PQerrorMessage(pg));
    return result;
}

PGresult *old_call(PGconn *pg, const char *statement, int count, ...) {
    const char *values[20] = {NULL};
    va_list list;
    va_start(list, count);
    for (int i = 0; i < count; i++) {
        values[i] = va_arg(list, const char *);
    }
    va_end(list);
    char *text = old_statement(statement);
    PGresult *result = PQexecParams(pg, text, count, NULL, values, NULL, NULL, 0);
    free(text);
    return expect_fine(pg, statement, result);
}

char *old_text(PGconn *pg, const char *sql) {
    PGresult *result = expect_fine(pg, sql, PQexec(pg, sql));
    char *text = mem_copy_string(PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return text;
}

int64_t old_number(PGconn *pg, const char *sql) {
    char *text = old_text(pg, sql);
    int64_t number = strtoll(text, NULL, 10);
    free(text);
    return number;
}

void old_exec(PGconn *pg, const char *sql) {
    PQclear(expect_fine(pg, sql, PQexec(pg, sql)));
}

/* ---- what its nodes do ---- */

int64_t old_submit(PGconn *pg, const char *key) {
    char *keys = mem_format("{%s}", key);
    PGresult *result = old_call(pg, "submit", 7, "p", keys, "{null}", "{null}", "{null}", "{null}", "false");
    cr_assert_eq(PQntuples(result), 1);
    int64_t task = strtoll(PQgetvalue(result, 0, 2), NULL, 10);
    PQclear(result);
    free(keys);
    return task;
}

static char *stage_id(PGconn *pg, const char *stage) {
    char *sql = mem_format("select id from pgstage.stage where name = '%s'", stage);
    char *id = old_text(pg, sql);
    free(sql);
    return id;
}

int64_t old_claim(PGconn *pg, int64_t node, const char *stage, int64_t claim) {
    char *id = stage_id(pg, stage), *claim_text = mem_format("%" PRId64, claim), *node_text = mem_format("%" PRId64, node);
    PGresult *result = old_call(pg, "claim", 7, id, "1", claim_text, node_text, NULL, NULL, NULL);
    int64_t task = PQntuples(result) == 1 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    free(id);
    free(claim_text);
    free(node_text);
    return task;
}

char *old_complete(PGconn *pg, int64_t task, int64_t claim, int count, const char *stage, const char *ending) {
    char *id = stage_id(pg, stage), *revision = old_text(pg, "select revision from pgstage.pipeline where name = 'p'");
    char *tasks = mem_format("{%" PRId64 "}", task), *claims = mem_format("{%" PRId64 "}", claim);
    char *counts = mem_format("{%d}", count), *stages = mem_format("{%s}", id), *revisions = mem_format("{%s}", revision);
    char *endings = mem_format("{%s}", ending);
    bool fails = strcmp(ending, "failed") == 0 || strcmp(ending, "delayed") == 0;
    PGresult *result = old_call(pg, "complete", 17, tasks, claims, "{0}", counts, stages, revisions, endings,
                                fails ? "{1}" : "{0}", "{0}", "{0}", "{0}", fails ? "{error}" : "{null}",
                                fails ? "{\"it is broken\"}" : "{null}", "{null}", count > 0 ? tasks : "{}",
                                count > 0 ? "{0}" : "{}", count > 0 ? "{\"{\\\"n\\\": 1}\"}" : "{}");
    cr_assert_eq(PQntuples(result), 1);
    char *answer = mem_copy_string(PQgetvalue(result, 0, 2));
    PQclear(result);
    free(id);
    free(revision);
    free(tasks);
    free(claims);
    free(counts);
    free(stages);
    free(revisions);
    free(endings);
    return answer;
}
