/* Requests on a healthy connection: parameters, results, errors, prepared statements. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "link.h"
#include "support/pg.h"

TestSuite(db_request, .timeout = 120);

static struct db_request lone(const struct db_statement *statement) {
    return (struct db_request){.statement_count = 1, .statements = statement};
}

Test(db_request, comes_up_with_name_settings_and_encoding) {
    struct link link = {0};
    link_open(&link, NULL,
              &(struct conn_options){
                  .url = pg_url(),
                  .role = "ledger",
                  .settings = "set statement_timeout = '7s'; set lock_timeout = '3s' -- both",
                  .listen = "a \"strange\" Channel"});
    link_wait(&link, &link.ups, 1, 30000);
    link_ask_text(
        &link, "select current_setting('application_name') || current_setting('statement_timeout')"
               " || current_setting('lock_timeout') || current_setting('client_encoding')");
    cr_assert_str_eq(link.value, "pgstage ledger7s3sUTF8");
    link_ask_text(&link, "show client_connection_check_interval");
    cr_assert_str_eq(link.value, "10s");
    link_ask_text(&link, "select pg_listening_channels()");
    cr_assert_str_eq(link.value, "a \"strange\" Channel");
    link_close(&link);
}

Test(db_request, carries_text_null_and_binary_parameters) {
    struct link link = {0};
    link_open_url(&link, pg_url());
    const struct db_param params[] = {
        DB_TEXT("it's"), DB_NULL, {.data = "\0\xff", .length = 2, .binary = true}, DB_TEXT("")};
    const struct db_statement statement = {.name = "params",
                                           .text =
                                               "select $1::text || ($2::text is null)::text || "
                                               "encode($3::bytea, 'hex') || '[' || $4::text || ']'",
                                           .param_count = 4,
                                           .params = params};
    for (int round = 0; round < 3; round++) {
        struct db_request request = lone(&statement);
        cr_assert_eq(link_ask(&link, &request), STATUS_OK, "%s", link.error.text);
        cr_assert_str_eq(link.value, "it'strue00ff[]");
        cr_assert_eq(link.failed, -1);
    }
    link_close(&link);
}

Test(db_request, results_beyond_any_buffer_arrive) {
    static const char *const texts[] = {
        "select repeat('x', 20 * 1024 * 1024)",
        "select g, repeat('y', 100) from generate_series(1, 50000) g",
        NULL,
    };
    struct link link = {0};
    link_open_url(&link, pg_url());
    cr_assert_eq(link_ask_text(&link, texts[0]), STATUS_OK);
    cr_assert_eq(link.value_bytes, 20 * 1024 * 1024);
    cr_assert_eq(link_ask_texts(&link, texts), STATUS_OK);
    cr_assert_eq(link.result_count, 2);
    cr_assert_eq(link.rows, 50000);
    link_close(&link);
}

Test(db_request, results_belong_to_their_statements) {
    static const char *const texts[] = {"create temp table t (n int)",
                                        "insert into t values (1), (2)", "select sum(n) from t",
                                        NULL};
    struct link link = {0};
    link_open_url(&link, pg_url());
    cr_assert_eq(link_ask_texts(&link, texts), STATUS_OK);
    cr_assert_eq(link.result_count, 3);
    cr_assert_str_eq(link.value, "3");
    link_close(&link);
}

/* ---- errors ---- */

Test(db_request, an_error_leaves_the_connection_usable) {
    struct link link = {0};
    link_open_url(&link, pg_url());
    int backend = link_backend(&link);
    cr_assert_eq(link_ask_text(&link, "select nonsense"), STATUS_INVALID);
    cr_assert_str_eq(link.error.sqlstate, "42703");
    cr_assert_eq(link.failed, 0);
    cr_assert_eq(link.result_count, 0);
    cr_assert_eq(link_ask_text(&link, "syntax error"), STATUS_INVALID);
    cr_assert_eq(link_ask_text(&link, ""), STATUS_OK);
    cr_assert_eq(link_backend(&link), backend);
    cr_assert_eq(link.downs, 0);
    link_close(&link);
}

Test(db_request, an_error_undoes_its_whole_transaction) {
    static const char *const broken[] = {"create table half (n int)", "select 1 / 0",
                                         "create table other (n int)", NULL};
    char *url = pg_new_database();
    struct link link = {0};
    link_open_url(&link, url);
    int backend = link_backend(&link);
    cr_assert_eq(link_ask_texts(&link, broken), STATUS_INVALID);
    cr_assert_str_eq(link.error.sqlstate, "22012");
    cr_assert_eq(link.failed, 1);
    link_ask_text(&link, "select count(*) from pg_class where relname in ('half', 'other')");
    cr_assert_str_eq(link.value, "0");
    cr_assert_eq(link_backend(&link), backend);
    link_close(&link);
    free(url);
}

Test(db_request, an_error_at_commit_is_the_commits) {
    static const char *const create[] = {
        "create table p (n int primary key)",
        "create table c (n int references p deferrable initially deferred)", NULL};
    static const char *const insert[] = {"insert into c values (7)", "select 1", NULL};
    char *url = pg_new_database();
    struct link link = {0};
    link_open_url(&link, url);
    cr_assert_eq(link_ask_texts(&link, create), STATUS_OK);
    cr_assert_eq(link_ask_texts(&link, insert), STATUS_INVALID);
    cr_assert_str_eq(link.error.sqlstate, "23503");
    cr_assert_eq(link.failed, 2);
    /* A lone statement commits at the sync. */
    cr_assert_eq(link_ask_text(&link, insert[0]), STATUS_INVALID);
    cr_assert_str_eq(link.error.sqlstate, "23503");
    cr_assert_eq(link.failed, 1);
    cr_assert_eq(link_ask_text(&link, "select count(*) from c"), STATUS_OK);
    cr_assert_str_eq(link.value, "0");
    cr_assert_eq(link.downs, 0);
    link_close(&link);
    free(url);
}

Test(db_request, codes_follow_the_sqlstate) {
    struct link link = {0};
    link_open_url(&link, pg_url());
    cr_assert_eq(link_ask_text(&link, "do $$ begin raise 'fence' using errcode = 'P0F01'; end $$"),
                 STATUS_CONFLICT);
    static const char *const slow[] = {"set local statement_timeout = 20", "select pg_sleep(60)",
                                       NULL};
    cr_assert_eq(link_ask_texts(&link, slow), STATUS_TIMEOUT);
    cr_assert_eq(link.failed, 1);
    cr_assert_eq(link_ask_text(&link, "do $$ begin raise 'full' using errcode = '53100'; end $$"),
                 STATUS_UNAVAILABLE);
    cr_assert_eq(link.downs, 0);
    link_close(&link);
}

Test(db_request, no_statement_leaves_a_transaction_open) {
    struct link link = {0};
    link_open_url(&link, pg_url());
    char *sql =
        mem_format("select state from pg_stat_activity where pid = %d", link_backend(&link));
    cr_assert_eq(link_ask_text(&link, "begin"), STATUS_INVALID);
    cr_assert_str_eq(link.error.text, "the statement left a transaction open");
    char *state = pg_text(pg_url(), sql);
    cr_assert_str_eq(state, "idle");
    free(state);
    free(sql);
    cr_assert_eq(link.downs, 0);
    link_close(&link);
}

Test(db_request, copy_is_refused_and_costs_the_session_only) {
    static const char *const lists[][3] = {
        {"copy (select 1) to stdout", NULL},
        {"select 1", "copy (select 1) to stdout", NULL},
        {"create temp table c (n int)", "copy c from stdin", NULL}};
    struct link link = {0};
    link_open_url(&link, pg_url());
    for (size_t i = 0; i < 3; i++) {
        link_wait_ready(&link);
        cr_assert_eq(link_ask_texts(&link, lists[i]), STATUS_INVALID, "%s", link.error.text);
    }
    link_wait_ready(&link);
    cr_assert_eq(link_ask_text(&link, "copy (select 1) to stdout"), STATUS_INVALID);
    link_wait_ready(&link);
    cr_assert_eq(link_ask_text(&link, "select 1"), STATUS_OK);
    link_close(&link);
}

/* ---- what is not sent ---- */

static void fail_on_call(void *context, const struct db_reply *reply) {
    (void)context;
    (void)reply;
    cr_assert_fail("a request that was refused was answered");
}

Test(db_request, refused_requests_are_never_answered) {
    struct link link = {0};
    link_open(&link, NULL, &(struct conn_options){.url = pg_url()});
    const struct db_statement statement = {.text = "select 1"};
    struct db_request request = lone(&statement);
    cr_assert_eq(conn_send(link.conn, &request, fail_on_call, NULL, NULL), STATUS_AGAIN);
    link_wait(&link, &link.ups, 1, 30000);

    struct db_param *params = mem_alloc(65536 * sizeof *params);
    const struct db_statement wide = {.text = "select 1", .param_count = 65536, .params = params};
    request = lone(&wide);
    struct error err = ERROR_NONE;
    cr_assert_eq(conn_send(link.conn, &request, fail_on_call, NULL, &err), STATUS_LIMIT);
    cr_assert_not_null(strstr(err.text, "65535"));
    free(params);

    link_send_text(&link, "select pg_sleep(0.01)");
    request = lone(&statement);
    cr_assert_eq(conn_send(link.conn, &request, fail_on_call, NULL, NULL), STATUS_AGAIN);
    link_wait(&link, &link.answers, 1, 30000);
    cr_assert_eq(link_ask_text(&link, "select 2"), STATUS_OK);
    link_close(&link);
}

/* ---- prepared statements ---- */

static int prepared_count(struct link *link) {
    cr_assert_eq(
        link_ask_text(link, "select count(*) from pg_prepared_statements where name <> ''"),
        STATUS_OK);
    return atoi(link->value);
}

Test(db_request, a_name_is_prepared_once_a_connection) {
    struct link link = {0};
    link_open_url(&link, pg_url());
    const struct db_statement twice[] = {{.name = "one", .text = "select 1"},
                                         {.name = "one", .text = "select 1"}};
    const struct db_request request = {
        .transaction = true, .statement_count = 2, .statements = twice};
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(link_ask(&link, &request), STATUS_OK, "%s", link.error.text);
        cr_assert_str_eq(link.value, "1");
    }
    cr_assert_eq(prepared_count(&link), 1);
    conn_reset(link.conn, "test");
    link_wait(&link, &link.ups, 2, 30000);
    cr_assert_eq(prepared_count(&link), 0);
    cr_assert_eq(link_ask(&link, &request), STATUS_OK, "%s", link.error.text);
    cr_assert_eq(prepared_count(&link), 1);
    link_close(&link);
}

Test(db_request, a_failed_prepare_is_forgotten) {
    char *url = pg_new_database();
    struct link link = {0};
    link_open_url(&link, url);
    /* The first fails itself; the second is never looked at by the server, for the pipeline is
     * aborted. */
    const struct db_statement pair[] = {{.name = "first", .text = "select n from late"},
                                        {.name = "second", .text = "select 2"}};
    const struct db_request request = {
        .transaction = true, .statement_count = 2, .statements = pair};
    cr_assert_eq(link_ask(&link, &request), STATUS_INVALID);
    cr_assert_str_eq(link.error.sqlstate, "42P01");
    cr_assert_eq(link.failed, 0);
    pg_exec(url, "create table late as select 5 as n");
    cr_assert_eq(link_ask(&link, &request), STATUS_OK, "%s", link.error.text);
    cr_assert_str_eq(link.value, "2");
    link_close(&link);
    free(url);
}

Test(db_request, a_prepare_outlives_the_transaction_that_failed_behind_it) {
    struct link link = {0};
    link_open_url(&link, pg_url());
    const struct db_statement bad[] = {{.name = "kept", .text = "select 3"},
                                       {.text = "select 1 / 0"}};
    const struct db_request failing = {
        .transaction = true, .statement_count = 2, .statements = bad};
    cr_assert_eq(link_ask(&link, &failing), STATUS_INVALID);
    struct db_request alone = lone(&bad[0]);
    cr_assert_eq(link_ask(&link, &alone), STATUS_OK, "%s", link.error.text);
    cr_assert_str_eq(link.value, "3");
    link_close(&link);
}

/* A plan that a changed table has spoilt, and statements that were discarded: the session is
 * replaced. */
Test(db_request, stale_prepared_statements_heal) {
    static const char *const spoil[] = {"alter table shape add column m int", "", NULL};
    char *url = pg_new_database();
    pg_exec(url, "create table shape as select 1 as n");
    struct link link = {0};
    link_open_url(&link, url);
    const struct db_statement statement = {.name = "shape", .text = "select * from shape"};
    struct db_request request = lone(&statement);
    for (int round = 0; spoil[round] != NULL; round++) {
        link_wait_ready(&link);
        cr_assert_eq(link_ask(&link, &request), STATUS_OK, "%s", link.error.text);
        if (round == 0) {
            pg_exec(url, spoil[round]);
        } else {
            cr_assert_eq(link_ask_text(&link, "deallocate all"), STATUS_OK);
        }
        cr_assert_eq(link_ask(&link, &request), STATUS_UNAVAILABLE, "%s", link.error.text);
        link_wait(&link, &link.downs, round + 1, 30000);
        link_wait_ready(&link);
        cr_assert_eq(link_ask(&link, &request), STATUS_OK, "%s", link.error.text);
    }
    link_close(&link);
    free(url);
}

/* ---- from within callbacks ---- */

static void send_next(struct link *link) {
    if (link->answers < 200) {
        link_send_text(link, "select 1");
    }
}

Test(db_request, the_next_may_be_sent_from_the_answer) {
    struct link link = {.on_up = send_next, .on_answer = send_next};
    link_open_url(&link, pg_url());
    link_wait(&link, &link.answers, 200, 60000);
    cr_assert_eq(link.code, STATUS_OK);
    link_close(&link);
}

static void close_now(struct link *link) {
    link_begin_close(link);
}

static void reset_now(struct link *link) {
    if (link->downs < 3) {
        conn_reset(link->conn, "from a callback");
    }
}

Test(db_request, may_be_closed_from_any_callback) {
    for (int kind = 0; kind < 4; kind++) {
        struct link link = {0};
        link_open(&link, NULL, &(struct conn_options){.url = pg_url(), .listen = "closing"});
        void (**hooks[])(struct link *) = {&link.on_up, &link.on_answer, &link.on_notified,
                                           &link.on_down};
        *hooks[kind] = close_now;
        while (!link.closed) {
            if (!link.closing && conn_is_ready(link.conn)) {
                link_send_text(&link, kind == 2   ? "notify closing"
                                      : kind == 3 ? "select pg_terminate_backend(pg_backend_pid())"
                                                  : "select 1");
            }
            uv_run(link.loop, UV_RUN_ONCE);
        }
        cr_assert_eq(link.downs, kind == 3);
        cr_assert_eq(link.answers, kind != 0);
        link_close(&link);
    }
}

Test(db_request, may_be_reset_from_any_callback) {
    struct link link = {.on_up = reset_now, .on_answer = reset_now};
    link_open(&link, NULL, &(struct conn_options){.url = pg_url()});
    link_wait(&link, &link.downs, 3, 30000);
    link_wait_ready(&link);
    link.on_up = NULL;
    link_send_text(&link, "select 1");
    link.downs = 0;
    link_wait(&link, &link.downs, 1, 30000);
    cr_assert_eq(link.answers, 1);
    cr_assert_eq(link.code, STATUS_OK);
    cr_assert_str_eq(link.why.text, "reset: from a callback");
    link.on_answer = NULL;
    link_close(&link);
}

Test(db_request, closing_answers_what_is_in_flight) {
    struct link link = {0};
    link_open_url(&link, pg_url());
    link_send_text(&link, "select pg_sleep(60)");
    link_begin_close(&link);
    cr_assert_eq(link.answers, 0, "answered within conn_close");
    link_close(&link);
    cr_assert_eq(link.answers, 1);
    cr_assert_eq(link.code, STATUS_UNCERTAIN);
    cr_assert_eq(link.downs, 0);
}

Test(db_request, closes_in_every_state) {
    /* Down, resolving, connecting, setting up, ...: as many loop turns as it takes to be up. */
    for (int turns = 0; turns < 40; turns++) {
        struct link link = {0};
        link_open(&link, NULL, &(struct conn_options){.url = pg_url(), .settings = "select 1"});
        for (int turn = 0; turn < turns && link.ups == 0; turn++) {
            uv_run(link.loop, UV_RUN_NOWAIT);
        }
        link_close(&link);
    }
}
