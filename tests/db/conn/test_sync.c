/* The blocking connection, results, and what errors become. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "db/conn.h"
#include "db/sync.h"
#include "support/pg.h"

TestSuite(db_sync, .timeout = 120);

static struct db_sync *open_sync(void) {
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(pg_url(), "test", &db, &err), STATUS_OK, "%s", err.text);
    return db;
}

static struct db_result *ask(struct db_sync *db, const char *text) {
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_run(db, NULL, text, 0, NULL, &result, &err), STATUS_OK, "%s", err.text);
    return result;
}

Test(db_sync, results_give_typed_values) {
    struct db_sync *db = open_sync();
    struct db_result *result =
        ask(db, "select 9223372036854775807 as big, (-9223372036854775808)::int8, null::int, true, "
                "false, null::bool, 'x''y' union all select 0, 0, 0, true, true, true, ''");
    cr_assert_eq(db_rows(result), 2);
    cr_assert_eq(db_columns(result), 7);
    cr_assert_str_eq(db_column_name(result, 0), "big");
    cr_assert_eq(db_int64(result, 0, 0), INT64_MAX);
    cr_assert_eq(db_int64(result, 0, 1), INT64_MIN);
    cr_assert(db_is_null(result, 0, 2));
    cr_assert_eq(db_int64(result, 0, 2), 0);
    cr_assert_str_eq(db_value(result, 0, 2), "");
    cr_assert(db_bool(result, 0, 3));
    cr_assert_not(db_bool(result, 0, 4));
    cr_assert_not(db_bool(result, 0, 5));
    cr_assert_str_eq(db_value(result, 0, 6), "x'y");
    cr_assert_eq(db_length(result, 0, 6), 3);
    sync_result_free(result);

    result = ask(db, "create temp table t (n int)");
    cr_assert_eq(db_affected(result), 0);
    sync_result_free(result);
    result = ask(db, "insert into t select generate_series(1, 41)");
    cr_assert_eq(db_affected(result), 41);
    sync_result_free(result);
    sync_result_free(NULL);
    sync_close(db);
    sync_close(NULL);
}

Test(db_sync, takes_text_null_and_binary_parameters) {
    struct db_sync *db = open_sync();
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    const struct db_param params[] = {
        DB_TEXT("a'b"), DB_NULL, {.data = "\0\1\xff", .length = 3, .binary = true}};
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(sync_run(db, "params",
                              "select $1::text, $2::text is null, encode($3::bytea, 'hex')", 3,
                              params, &result, &err),
                     STATUS_OK, "%s", err.text);
        cr_assert_str_eq(db_value(result, 0, 0), "a'b");
        cr_assert(db_bool(result, 0, 1));
        cr_assert_str_eq(db_value(result, 0, 2), "0001ff");
        sync_result_free(result);
    }
    result = ask(db, "select count(*) from pg_prepared_statements where name = 'params'");
    cr_assert_eq(db_int64(result, 0, 0), 1);
    sync_result_free(result);
    sync_close(db);
}

Test(db_sync, the_roles_time_outs_are_put_aside) {
    pg_exec(pg_url(), "create role hurried superuser login; alter role hurried set statement_timeout = '300ms';"
                      " alter role hurried set lock_timeout = '300ms'; alter role hurried set idle_session_timeout = '300ms';"
                      " alter role hurried set idle_in_transaction_session_timeout = '300ms'");
    const char *user = strstr(pg_url(), "user=postgres");
    char *url = mem_format("%.*suser=hurried", (int)(user - pg_url()), pg_url());
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(url, "test", &db, &err), STATUS_OK, "%s", err.text);
    struct db_result *result = ask(db, "select name, setting from pg_settings where name in ('statement_timeout', 'lock_timeout',"
                                       " 'idle_session_timeout', 'idle_in_transaction_session_timeout')");
    cr_assert_eq(db_rows(result), 4);
    for (int row = 0; row < 4; row++) {
        cr_expect_str_eq(db_value(result, row, 1), "0", "%s", db_value(result, row, 0));
    }
    sync_result_free(result);
    cr_expect(sync_has_own_session(db));
    sync_close(db);
    free(url);
}

Test(db_sync, errors_carry_message_detail_hint_and_sqlstate) {
    struct db_sync *db = open_sync();
    struct error err = ERROR_NONE;
    cr_assert_eq(
        sync_script(db,
                    "do $$ begin raise exception E'the\\nmessage' using detail = 'the detail', "
                    "hint = 'the hint', errcode = '23505'; end $$",
                    &err),
        STATUS_INVALID);
    cr_assert_str_eq(err.text, "the; message; the detail; hint: the hint");
    cr_assert_str_eq(err.sqlstate, "23505");
    /* The first error wins, and success does not touch it. */
    cr_assert_eq(sync_script(db, "select 1", &err), STATUS_OK);
    cr_assert_eq(sync_script(db, "nonsense", &err), STATUS_INVALID);
    cr_assert_str_eq(err.sqlstate, "23505");
    cr_assert_eq(sync_script(db, "nonsense", NULL), STATUS_INVALID);
    sync_close(db);
}

Test(db_sync, copy_is_refused) {
    struct db_sync *db = open_sync();
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_run(db, NULL, "copy (select 1) to stdout", 0, NULL, NULL, &err),
                 STATUS_INVALID);
    cr_assert_str_eq(err.text, "COPY to or from the client is not possible here");
    sync_close(db);
}

/* ---- loss ---- */

static int backend_of(struct db_sync *db) {
    struct db_result *result = ask(db, "select pg_backend_pid()");
    int pid = (int)db_int64(result, 0, 0);
    sync_result_free(result);
    return pid;
}

static void terminate(int backend) {
    char *sql = mem_format("select pg_terminate_backend(%d, 10000)", backend);
    pg_exec(pg_url(), sql);
    free(sql);
}

Test(db_sync, loss_while_idle_is_unavailable) {
    struct db_sync *db = open_sync();
    struct error err = ERROR_NONE;
    terminate(backend_of(db));
    cr_assert_eq(sync_run(db, NULL, "select 1", 0, NULL, NULL, &err), STATUS_UNAVAILABLE, "%s",
                 err.text);
    sync_close(db);
}

Test(db_sync, loss_of_a_lone_statement_is_uncertain) {
    struct db_sync *db = open_sync();
    struct error err = ERROR_NONE;
    cr_assert_eq(
        sync_run(db, NULL, "select pg_terminate_backend(pg_backend_pid())", 0, NULL, NULL, &err),
        STATUS_UNCERTAIN);
    sync_close(db);
}

Test(db_sync, loss_within_a_transaction_is_unavailable) {
    struct db_sync *db = open_sync();
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_script(db, "begin", &err), STATUS_OK);
    cr_assert_eq(
        sync_run(db, NULL, "select pg_terminate_backend(pg_backend_pid())", 0, NULL, NULL, &err),
        STATUS_UNAVAILABLE);
    sync_close(db);
}

Test(db_sync, a_server_that_is_not_there_is_unavailable_and_no_password_shows) {
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open("postgresql://u:canary77@127.0.0.1:1/x", "test", &db, &err),
                 STATUS_UNAVAILABLE);
    cr_assert_null(strstr(err.text, "canary77"), "%s", err.text);
    cr_assert_null(strchr(err.text, '\n'));
    cr_assert_not_null(strstr(err.text, "127.0.0.1"), "%s", err.text);
}

/* ---- waiting ---- */

Test(db_sync, wait_ends_with_a_notification_or_at_its_deadline) {
    struct db_sync *db = open_sync();
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_script(db, "listen sync_wait", &err), STATUS_OK);
    int64_t start = clock_now_ms(&clock_boottime);
    cr_assert_eq(sync_wait(db, 50, &err), STATUS_OK);
    cr_assert_geq(clock_now_ms(&clock_boottime) - start, 50);
    pg_exec(pg_url(), "notify sync_wait");
    start = clock_now_ms(&clock_boottime);
    cr_assert_eq(sync_wait(db, 30000, &err), STATUS_OK);
    cr_assert_lt(clock_now_ms(&clock_boottime) - start, 20000);
    int backend = backend_of(db);
    terminate(backend);
    cr_assert_eq(sync_wait(db, 30000, &err), STATUS_UNAVAILABLE);
    sync_close(db);
}

/* ---- sqlstates ---- */

Test(db_sync, each_sqlstate_has_its_code) {
    static const struct {
        const char *sqlstate;
        enum status code;
    } cases[] = {
        {"08006", STATUS_UNAVAILABLE}, {"08P01", STATUS_UNAVAILABLE}, {"53100", STATUS_UNAVAILABLE},
        {"53300", STATUS_UNAVAILABLE}, {"57P01", STATUS_UNAVAILABLE}, {"57P03", STATUS_UNAVAILABLE},
        {"25006", STATUS_UNAVAILABLE}, {"40001", STATUS_CONFLICT},    {"40P01", STATUS_CONFLICT},
        {"P0F01", STATUS_CONFLICT},    {"57014", STATUS_TIMEOUT},     {"55P03", STATUS_TIMEOUT},
        {"22P02", STATUS_INVALID},     {"23505", STATUS_INVALID},     {"42601", STATUS_INVALID},
        {"25001", STATUS_INVALID},     {"40002", STATUS_INVALID},     {"P0001", STATUS_INVALID},
        {"XX000", STATUS_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(conn_status_of_sqlstate(cases[i].sqlstate), cases[i].code, "%s",
                     cases[i].sqlstate);
    }
}
