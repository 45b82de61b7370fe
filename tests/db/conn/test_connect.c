/* Getting connected: names, several hosts, time-outs, set-up that fails, and secrets (C82b). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "link.h"
#include "support/pg.h"
#include "support/proxy.h"

TestSuite(db_connect, .timeout = 120);

static int count_of(const char *text, const char *piece) {
    int count = 0;
    for (; (text = strstr(text, piece)) != NULL; text++) {
        count++;
    }
    return count;
}

Test(db_connect, a_host_name_is_looked_up_off_the_loop) {
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "localhost", "postgres");
    struct link link = {0};
    link_open_url(&link, url);
    cr_assert_eq(link_ask_text(&link, "select 1"), STATUS_OK);
    link_close(&link);
    proxy_stop(proxy);
    free(url);
}

Test(db_connect, an_unknown_host_is_tried_again_and_others_are_used) {
    capture_log();
    struct link link = {0};
    link_open(&link, NULL,
              &(struct conn_options){.url = "postgresql://u:canary77@no.such.host.invalid/db"});
    while (strstr(captured_log(), "conn.failed") == NULL) {
        uv_run(link.loop, UV_RUN_ONCE);
    }
    cr_assert_not_null(
        strstr(captured_log(), "the host name \\\"no.such.host.invalid\\\" cannot be looked up"),
        "%s", captured_log());
    cr_assert_eq(link.downs, 0, "down without having been up");
    link_close(&link);

    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = mem_format("postgresql://postgres@no.such.host.invalid:1,localhost:%d/postgres",
                           proxy_port(proxy));
    struct link second = {0};
    link_open_url(&second, url);
    link_close(&second);
    proxy_stop(proxy);
    free(url);
}

/* The order of the string is kept: the first that answers is used, however often. */
Test(db_connect, the_first_host_that_answers_is_used) {
    struct proxy *proxies[2] = {proxy_start(pg_socket_path()), proxy_start(pg_socket_path())};
    char *url = mem_format("postgresql://postgres@localhost:1,localhost:%d,127.0.0.1:%d/postgres",
                           proxy_port(proxies[0]), proxy_port(proxies[1]));
    struct link link = {0};
    link_open_url(&link, url);
    cr_assert_eq(proxy_accepted(proxies[0]), 1);
    cr_assert_eq(proxy_accepted(proxies[1]), 0);
    proxy_set_mode(proxies[0], PROXY_REFUSE);
    proxy_cut(proxies[0]);
    link_wait(&link, &link.ups, 2, 30000);
    cr_assert_eq(proxy_accepted(proxies[1]), 1);
    proxy_set_mode(proxies[0], PROXY_FORWARD);
    proxy_cut(proxies[1]);
    link_wait(&link, &link.ups, 3, 30000);
    cr_assert_eq(proxy_accepted(proxies[0]), 2);
    link_close(&link);
    proxy_stop(proxies[0]);
    proxy_stop(proxies[1]);
    free(url);
}

/* A host that takes the connection and never answers must not keep the one behind it from being
 * tried. */
Test(db_connect, a_silent_first_host_is_passed_over) {
    struct proxy *silent = proxy_start(pg_socket_path()), *good = proxy_start(pg_socket_path());
    proxy_set_mode(silent, PROXY_BLACKHOLE);
    char *url =
        mem_format("postgresql://postgres@localhost:%d,localhost:%d/postgres?connect_timeout=5",
                   proxy_port(silent), proxy_port(good));
    struct link link = {0};
    link_open(&link, NULL, &(struct conn_options){.url = url, .connect_timeout_ms = 300});
    link_wait(&link, &link.ups, 1, 30000);
    cr_assert_eq(proxy_accepted(good), 1);
    link_close(&link);
    proxy_stop(silent);
    proxy_stop(good);
    free(url);
}

/* Chosen by what the server is, not by the order only. */
Test(db_connect, target_session_attrs_of_the_string_hold) {
    struct link link = {0};
    char *url = mem_format("%s&target_session_attrs=standby", pg_url());
    capture_log();
    link_open(&link, NULL, &(struct conn_options){.url = url});
    while (strstr(captured_log(), "conn.failed") == NULL) {
        uv_run(link.loop, UV_RUN_ONCE);
    }
    cr_assert_not_null(strstr(captured_log(), "server is not in hot standby mode"), "%s",
                       captured_log());
    cr_assert_eq(link.ups, 0);
    link_close(&link);
    free(url);
}

/* libpq closes the socket of a server that does not fit within a call; the next one gets the lowest
 * free number, which is the same or another. */
Test(db_connect, the_next_host_is_tried_on_another_socket) {
    int lower = dup(0);
    char *database = pg_new_database();
    char *sql = mem_format("alter database %s set default_transaction_read_only = on",
                           pg_database_of(database));
    pg_exec(database, sql);
    struct proxy *proxies[2] = {proxy_start(pg_socket_path()), proxy_start(pg_socket_path())};
    char *url =
        mem_format("postgresql://postgres@127.0.0.1:%d,127.0.0.1:%d/%s", proxy_port(proxies[0]),
                   proxy_port(proxies[1]), pg_database_of(database));
    capture_log();
    struct link link = {0};
    link_open(&link, NULL, &(struct conn_options){.url = url, .connect_timeout_ms = 100000});
    for (int failures = 1; failures <= 2; failures++) {
        while (count_of(captured_log(), "conn.failed") < failures) {
            uv_run(link.loop, UV_RUN_ONCE);
            if (failures == 2 && lower >= 0 && proxy_accepted(proxies[0]) == 2) {
                close(lower);
                lower = -1;
            }
        }
    }
    cr_assert_eq(lower, -1);
    cr_assert_eq(count_of(captured_log(), "session is read-only"), 4, "%s", captured_log());
    cr_assert_eq(proxy_accepted(proxies[1]), 2);
    link_close(&link);
    proxy_stop(proxies[0]);
    proxy_stop(proxies[1]);
    free(url);
    free(sql);
    free(database);
}

Test(db_connect, settings_that_fail_are_tried_again) {
    char *database = pg_new_database();
    struct link link = {0};
    link_open(
        &link, NULL,
        &(struct conn_options){.url = database, .settings = "select * from late", .listen = "x"});
    link_run_for(&link, 300);
    cr_assert_eq(link.ups, 0);
    pg_exec(database, "create table late (n int)");
    link_wait(&link, &link.ups, 1, 30000);
    cr_assert_eq(link_ask_text(&link, "select 1"), STATUS_OK);
    link_close(&link);
    free(database);
}

Test(db_connect, slow_settings_have_a_deadline) {
    capture_log();
    struct link link = {0};
    link_open(&link, NULL,
              &(struct conn_options){
                  .url = pg_url(), .settings = "select pg_sleep(600)", .connect_timeout_ms = 200});
    while (strstr(captured_log(), "the session was not set up within 200 ms") == NULL) {
        uv_run(link.loop, UV_RUN_ONCE);
    }
    link_close(&link);
}

Test(db_connect, a_malformed_string_opens_nothing) {
    uv_loop_t loop;
    uv_loop_init(&loop);
    const struct conn_events events = {0};
    struct db_conn *conn = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(
        conn_open(&loop, &(struct conn_options){.url = "postgresql://u:canary@77@h/", .role = "x"},
                  &events, &conn, &err),
        STATUS_INVALID);
    cr_assert_null(strstr(err.text, "canary"));
    cr_assert_eq(uv_loop_close(&loop), 0);
}

/* ---- what is logged ---- */

/* Password wrong, host unknown, port closed, server gone: at the finest log level. */
Test(db_connect, no_password_is_ever_logged) {
    capture_log();
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *urls[4] = {
        mem_format("postgresql://nobody:canary77@localhost:%d/postgres?sslmode=disable",
                   proxy_port(proxy)),
        mem_copy_string("postgresql://nobody:canary77@no.such.host.invalid/postgres"),
        mem_copy_string("host=127.0.0.1 port=1 user=u password='canary77' dbname=d"),
        mem_format("postgresql://postgres:canary77@localhost:%d/postgres", proxy_port(proxy)),
    };
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct link links[4] = {{0}, {0}, {0}, {0}};
    for (int i = 0; i < 4; i++) {
        link_open(&links[i], &loop, &(struct conn_options){.url = urls[i], .role = "redacted"});
    }
    link_wait(&links[3], &links[3].ups, 1, 30000);
    link_send_text(&links[3], "select pg_sleep(600)");
    proxy_cut(proxy);
    link_wait(&links[3], &links[3].downs, 1, 30000);
    cr_assert_null(strstr(links[3].error.text, "canary77"));
    cr_assert_null(strstr(links[3].why.text, "canary77"));
    while (count_of(captured_log(), "conn.failed") < 6) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    for (int i = 0; i < 4; i++) {
        link_close(&links[i]);
        free(urls[i]);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
    cr_assert_not_null(strstr(captured_log(), "conn.up role="));
    cr_assert_not_null(strstr(captured_log(), "conn.down role=\"redacted\""));
    cr_assert_null(strstr(captured_log(), "canary77"), "%s", captured_log());
    proxy_stop(proxy);
}

Test(db_connect, failures_are_logged_six_times_a_minute) {
    capture_log();
    struct link link = {0};
    link_open(&link, NULL, &(struct conn_options){.url = "postgresql://127.0.0.1:1/x"});
    while (count_of(captured_log(), "from=lost to=down") < 7) {
        uv_run(link.loop, UV_RUN_ONCE);
    }
    cr_assert_eq(count_of(captured_log(), "conn.failed"), 6);
    link_close(&link);
}
