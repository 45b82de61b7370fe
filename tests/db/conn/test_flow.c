/* Much data, slow lines and many notifications: the loop goes on (C39, C45). */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "link.h"
#include "support/pg.h"
#include "support/proxy.h"

TestSuite(db_flow, .timeout = 240);

enum { LAG_MAX_MS = 100 };

static void check_lag(const struct link *link) {
    cr_assert_leq(link->worst_lag_ms, LAG_MAX_MS, "the loop was %d ms late",
                  (int)link->worst_lag_ms);
}

/* C45: a parameter that takes seconds to send, a result that takes seconds to come, and
 * notifications meanwhile; a second connection on the same loop stands for the heartbeat. */
Test(db_flow, a_slow_line_holds_up_nothing_else) {
    enum { LARGE = 3 * 1024 * 1024, RATE = 1024 * 1024 };
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", "postgres");
    struct link slow = {0}, beat = {0}, noisy = {0};
    /* The time-out is shorter than the sending takes: progress counts as life. */
    link_open(&slow, NULL,
              &(struct conn_options){
                  .url = url, .role = "slow", .listen = "flow", .request_timeout_ms = 1500});
    link_open(&beat, slow.loop, &(struct conn_options){.url = pg_url(), .role = "beat"});
    link_open(&noisy, slow.loop, &(struct conn_options){.url = pg_url(), .role = "noisy"});
    link_wait(&slow, &slow.ups, 1, 30000);
    link_wait(&slow, &beat.ups, 1, 30000);
    link_wait(&slow, &noisy.ups, 1, 30000);

    char *text = mem_alloc(LARGE + 1);
    memset(text, 'x', LARGE);
    const struct db_statement statement = {.name = "length",
                                           .text = "select length($1::text)",
                                           .param_count = 1,
                                           .params = &DB_TEXT(text)};
    proxy_set_rate(proxy, RATE);
    slow.worst_lag_ms = 0;
    int64_t start = clock_now_ms(&clock_boottime), next_noise = start;
    link_send(&slow, &(struct db_request){
                         .transaction = true, .statement_count = 1, .statements = &statement});
    while (slow.answers == 0) {
        if (conn_is_ready(beat.conn)) {
            link_send_text(&beat, "select 1");
        }
        /* As much as the line can carry beside the answer, and not more. */
        int64_t now = clock_now_ms(&clock_boottime);
        if (conn_is_ready(noisy.conn) && now >= next_noise) {
            next_noise = now + 10;
            link_send_text(&noisy, "do $$ begin for i in 1..100 loop perform pg_notify('flow', "
                                   "i::text); end loop; end $$");
        }
        uv_run(slow.loop, UV_RUN_ONCE);
    }
    int64_t sending_ms = clock_now_ms(&clock_boottime) - start;
    cr_assert_eq(slow.code, STATUS_OK, "%s", slow.error.text);
    cr_assert_str_eq(slow.value, "3145728");
    cr_assert_geq(sending_ms, 2500, "took %d ms only", (int)sending_ms);
    cr_assert_gt(slow.notifications, 0);
    cr_assert_gt(beat.answers, 20);
    cr_assert_eq(beat.downs, 0);
    check_lag(&slow);

    link_wait_ready(&noisy);
    proxy_set_rate(proxy, 0);
    link_close(&noisy);
    link_close(&beat);
    link_close(&slow);
    proxy_stop(proxy);
    free(text);
    free(url);
}

Test(db_flow, a_large_result_over_a_slow_line_holds_up_nothing) {
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", "postgres");
    struct link link = {0};
    link_open_url(&link, url);
    proxy_set_rate(proxy, 4 * 1024 * 1024);
    link.worst_lag_ms = 0;
    cr_assert_eq(
        link_ask_text(&link, "select g, repeat('x', 1000) from generate_series(1, 4000) g"),
        STATUS_OK);
    cr_assert_eq(link.rows, 4000);
    check_lag(&link);
    link_close(&link);
    proxy_stop(proxy);
    free(url);
}

/* Both sides write at once: neither may wait for the other to read first. */
Test(db_flow, large_both_ways_does_not_lock_up) {
    enum { COUNT = 6, LARGE = 3 * 1024 * 1024 };
    char *text = mem_alloc(LARGE + 1);
    memset(text, 'x', LARGE);
    const struct db_param param = DB_TEXT(text);
    struct db_statement statements[COUNT];
    for (int i = 0; i < COUNT; i++) {
        statements[i] = (struct db_statement){
            .name = "echo", .text = "select $1::text", .param_count = 1, .params = &param};
    }
    struct link link = {0};
    link_open_url(&link, pg_url());
    cr_assert_eq(link_ask(&link, &(struct db_request){.transaction = true,
                                                      .statement_count = COUNT,
                                                      .statements = statements}),
                 STATUS_OK, "%s", link.error.text);
    cr_assert_eq(link.result_count, COUNT);
    cr_assert_eq(link.value_bytes, LARGE);
    link_close(&link);
    free(text);
}

/* 100,000 notifications, in transactions of 5,000. */
Test(db_flow, a_flood_of_notifications_is_taken) {
    struct link link = {0}, noisy = {0};
    link_open(&link, NULL, &(struct conn_options){.url = pg_url(), .listen = "flood"});
    link_open(&noisy, link.loop, &(struct conn_options){.url = pg_url()});
    link_wait(&link, &link.ups, 1, 30000);
    link_wait(&link, &noisy.ups, 1, 30000);
    link.worst_lag_ms = 0;
    for (int round = 1; round <= 20; round++) {
        link_send_text(&noisy, "do $$ begin for i in 1..5000 loop perform pg_notify('flood', "
                               "i::text); end loop; end $$");
        while (noisy.answers < round) {
            if (conn_is_ready(link.conn)) {
                link_send_text(&link, "select 1");
            }
            uv_run(link.loop, UV_RUN_ONCE);
        }
    }
    link_send_text(&noisy, "select pg_notify('flood', 'last')");
    link_wait(&link, &link.notifications, 1, 30000);
    link_wait(&link, &noisy.answers, 21, 30000);
    cr_assert_str_eq(link.channel, "flood");
    cr_assert_lt(link.notifications, 20000, "told %d times", link.notifications);
    cr_assert_gt(link.answers, 20);
    check_lag(&link);
    link_wait_ready(&link);
    cr_assert_eq(link_ask_text(&link, "select 1"), STATUS_OK);
    link_close(&noisy);
    link_close(&link);
}

/* ---- C39: LISTEN, then up, then the scan ---- */

static void scan(struct link *link) {
    if (conn_is_ready(link->conn)) {
        link_send_text(link, "select count(*) from job");
    }
}

/* The listener is terminated again and again while jobs are added; whatever the moment, each is
 * seen by the scan that follows `up` or a notification. */
Test(db_flow, no_wake_up_is_missed_at_a_reconnect) {
    char *database = pg_new_database();
    pg_exec(database, "create table job (n int)");
    struct link link = {.on_up = scan};
    link_open(&link, NULL, &(struct conn_options){.url = database, .listen = "job"});
    link_wait(&link, &link.answers, 1, 30000);
    PGconn *producer = PQconnectdb(database);
    for (int i = 1; i <= 6; i++) {
        int ups = link.ups;
        PQclear(PQexec(
            producer, "select pg_terminate_backend(pid) from pg_stat_activity"
                      " where application_name = 'pgstage test' and datname = current_database()"));
        /* Anywhere between the loss and the new session. */
        for (int turn = 0; turn < i * 7; turn++) {
            uv_run(link.loop, UV_RUN_ONCE);
        }
        PQclear(PQexec(producer, "insert into job values (1); notify job"));
        int64_t deadline = clock_now_ms(&clock_boottime) + 20000;
        int heard = link.notifications;
        while (strtol(link.value, NULL, 10) < i) {
            cr_assert_lt(clock_now_ms(&clock_boottime), deadline, "job %d was not seen", i);
            uv_run(link.loop, UV_RUN_ONCE);
            if (link.notifications > heard && conn_is_ready(link.conn)) {
                heard = link.notifications;
                scan(&link);
            }
        }
        link_wait(&link, &link.ups, ups + 1, 30000);
    }
    PQfinish(producer);
    link.on_up = NULL;
    link_close(&link);
    free(database);
}
