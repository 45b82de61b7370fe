/* Statements for the completing transaction. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_rig.h"

static pgstage_task *task;

static void init(void) {
    task = new_task(NULL, NULL);
}

static void finish(void) {
    pgstage_host_task_destroy(task);
}

TestSuite(sdk_sql, .init = init, .fini = finish, .timeout = 120);

static size_t statement_count(void) {
    size_t count;
    pgstage_host_statements(task, &count);
    return count;
}

Test(sdk_sql, is_kept_in_order_with_its_parameters) {
    char sql[64] = "select $1, $2, $3", word[] = "w\xC3\xB6rd";
    const char *parameters[] = {word, NULL, ""};
    cr_assert_eq(statement_count(), 0);
    cr_assert_eq(pgstage_sql(task, sql, 3, parameters), 0);
    memset(sql, 'x', 10);
    memset(word, 'x', 4);
    parameters[1] = "changed";
    for (int i = 0; i < 100; i++) {
        snprintf(sql, sizeof sql, "select %d", i);
        cr_assert_eq(pgstage_sql(task, sql, 0, NULL), 0);
    }
    size_t count;
    const struct pgstage_host_statement *statements = pgstage_host_statements(task, &count);
    cr_assert_eq(count, 101);
    cr_assert_str_eq(statements[0].sql.data, "select $1, $2, $3");
    cr_assert_eq(statements[0].sql.length, 17);
    cr_assert_eq(statements[0].parameter_count, 3);
    cr_assert_str_eq(statements[0].parameters[0].data, "w\xC3\xB6rd");
    cr_assert_eq(statements[0].parameters[0].length, 5);
    cr_assert_null(statements[0].parameters[1].data);
    cr_assert_str_eq(statements[0].parameters[2].data, "");
    cr_assert_str_eq(statements[100].sql.data, "select 99");
    cr_assert_eq(statements[100].parameter_count, 0);
}

static void want_refused(int got, int code, const char *message) {
    cr_assert_eq(got, code);
    cr_assert_str_eq(pgstage_host_message(task).data, message);
}

Test(sdk_sql, says_what_is_wrong) {
    const char *bad[] = {"ok", "\xC3"};
    cr_assert_eq(pgstage_sql(task, "select 1", 0, NULL), 0);
    want_refused(pgstage_sql(task, NULL, 0, NULL), PGSTAGE_E_INVALID, "SQL statement 2 is empty");
    want_refused(pgstage_sql(task, "", 0, NULL), PGSTAGE_E_INVALID, "SQL statement 2 is empty");
    want_refused(pgstage_sql(task, "select '\xFF'", 0, NULL), PGSTAGE_E_INVALID,
                 "SQL statement 2 is not UTF-8");
    want_refused(pgstage_sql(task, "select $2", 2, bad), PGSTAGE_E_INVALID,
                 "parameter $2 of SQL statement 2 is not UTF-8");
    want_refused(pgstage_sql(task, "select $1", 1, NULL), PGSTAGE_E_INVALID,
                 "SQL statement 2: 1 is no parameter count");
    want_refused(pgstage_sql(task, "select 1", -1, bad), PGSTAGE_E_INVALID,
                 "SQL statement 2: -1 is no parameter count");
    want_refused(pgstage_sql(task, "select 1", 65536, bad), PGSTAGE_E_INVALID,
                 "SQL statement 2: 65536 is no parameter count");
    want_refused(pgstage_sql(task, "select 1", INT_MAX, bad), PGSTAGE_E_INVALID,
                 "SQL statement 2: 2147483647 is no parameter count");
    cr_assert_eq(statement_count(), 1);
}

Test(sdk_sql, statements_have_a_limit) {
    for (int i = 0; i < PGSTAGE_STATEMENTS_MAX; i++) {
        cr_assert_eq(pgstage_sql(task, "s", 0, NULL), 0);
    }
    want_refused(pgstage_sql(task, "s", 0, NULL), PGSTAGE_E_LIMIT,
                 "more than 100000 SQL statements or 1000000 parameters in one run");
    cr_assert_eq(statement_count(), PGSTAGE_STATEMENTS_MAX);
}

Test(sdk_sql, parameters_have_a_limit) {
    const char **parameters = calloc(65535, sizeof *parameters);
    cr_assert_not_null(parameters);
    for (int left = PGSTAGE_PARAMETERS_MAX; left > 0; left -= 65535) {
        cr_assert_eq(pgstage_sql(task, "s", left < 65535 ? left : 65535, parameters), 0);
    }
    want_refused(pgstage_sql(task, "s", 1, parameters), PGSTAGE_E_LIMIT,
                 "more than 100000 SQL statements or 1000000 parameters in one run");
    cr_assert_eq(pgstage_sql(task, "s", 0, NULL), 0);
    free(parameters);
}

Test(sdk_sql, bytes_have_a_limit_together) {
    size_t half = PGSTAGE_SQL_MAX / 2;
    char *text = malloc(half + 1);
    cr_assert_not_null(text);
    memset(text, 'x', half);
    text[half] = '\0';
    const char *parameters[] = {text};
    cr_assert_eq(pgstage_sql(task, text, 0, NULL), 0);
    want_refused(pgstage_sql(task, "s", 1, parameters), PGSTAGE_E_LIMIT,
                 "the SQL statements of one run exceed the limit of 134217728 bytes");
    cr_assert_eq(pgstage_sql(task, "s", 1, (const char *[]){text + 1}), 0, "exactly the limit");
    cr_assert_eq(pgstage_sql(task, "s", 0, NULL), PGSTAGE_E_LIMIT);
    cr_assert_eq(statement_count(), 2);
    free(text);
}
