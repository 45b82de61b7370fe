#include "producer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "sql/statements.h"
#include "support/pg.h"

PGconn *producer;
char *producer_url;
static PGconn *other;

static PGconn *open_connection(void) {
    PGconn *pg = PQconnectdb(producer_url);
    cr_assert_eq(PQstatus(pg), CONNECTION_OK, "%s", PQerrorMessage(pg));
    PQclear(PQexec(pg, "set client_min_messages = error"));
    return pg;
}

void producer_open(void) {
    producer_url = pg_new_migrated_database();
    producer = open_connection();
    other = open_connection();
    producer_exec("select pgstage.register('p', 'pipeline: p', '{a}', 'apply')");
}

void producer_close(void) {
    PQfinish(producer);
    PQfinish(other);
    free(producer_url);
}

static const char *state_of(const PGresult *result) {
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return state == NULL ? "" : state;
}

static void expect_state_on(PGconn *pg, const char *sql, const char *sqlstate) {
    PGresult *result = PQexec(pg, sql);
    cr_expect_str_eq(state_of(result), sqlstate, "%.200s: %s", sql, PQerrorMessage(pg));
    PQclear(result);
}

void expect_state(const char *sql, const char *sqlstate) {
    expect_state_on(producer, sql, sqlstate);
}

void expect_other_state(const char *sql, const char *sqlstate) {
    expect_state_on(other, sql, sqlstate);
}

void producer_exec(const char *sql) {
    expect_state_on(other, sql, "");
}

void expect_text(const char *sql, const char *text) {
    PGresult *result = PQexec(producer, sql);
    cr_assert_eq(PQntuples(result), 1, "%s: %s", sql, PQerrorMessage(producer));
    cr_expect_str_eq(PQgetvalue(result, 0, 0), text, "%s: %s", sql, PQgetvalue(result, 0, 0));
    PQclear(result);
}

int64_t producer_number(const char *sql) {
    PGresult *result = PQexec(other, sql);
    cr_assert_eq(PQntuples(result), 1, "%s: %s", sql, PQerrorMessage(other));
    int64_t number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return number;
}

int producer_notices(void) {
    int count = 0;
    producer_exec("select 1"); /* what was sent before is here after that */
    for (PGnotify *notice; (notice = PQnotifies(other)) != NULL; count++) {
        cr_expect_str_eq(notice->extra, "");
        cr_expect_str_eq(notice->relname, "pgstage");
        PQfreemem(notice);
    }
    return count;
}

int producer_claim(void) {
    static int claim = 100;
    char stage[16], number[16];
    snprintf(stage, sizeof stage, "%d", (int)producer_number("select id from pgstage.stage where name = 'a'"));
    snprintf(number, sizeof number, "%d", ++claim);
    const char *const values[] = {stage, "1000", number, "1", NULL, NULL, NULL};
    PGresult *result = PQexecParams(other, sql_claim.text, 7, NULL, values, NULL, NULL, 0);
    cr_expect_str_eq(state_of(result), "", "%s", PQerrorMessage(other));
    int count = PQntuples(result);
    PQclear(result);
    return count;
}
