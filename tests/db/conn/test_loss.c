/* Connections that are lost: what the request in flight is told, and how they come back (C38, C43,
 * C52). */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/memory.h"
#include "db/conn_private.h"
#include "db/sync.h"
#include "link.h"
#include "support/pg.h"
#include "support/proxy.h"

TestSuite(db_loss, .timeout = 180);

static void terminate(int backend) {
    char *sql = mem_format("select pg_terminate_backend(%d, 10000)", backend);
    pg_exec(pg_url(), sql);
    free(sql);
}

/* Every connection has been up for long, so the back-off does not grow. */
static int64_t hasty_now_ms(void *context) {
    int64_t *now = context;
    return *now += 20000;
}

Test(db_loss, an_idle_session_that_is_terminated_comes_back) {
    struct link link = {0};
    link_open_url(&link, pg_url());
    int backend = link_backend(&link);
    terminate(backend);
    link_wait(&link, &link.ups, 2, 30000);
    cr_assert_eq(link.downs, 1);
    cr_assert_str_eq(link.why.sqlstate, "57P01", "%s", link.why.text);
    cr_assert_neq(link_backend(&link), backend);
    link_close(&link);
}

Test(db_loss, a_lone_statement_is_uncertain) {
    struct link link = {0};
    link_open_url(&link, pg_url());
    cr_assert_eq(link_ask_text(&link, "select pg_terminate_backend(pg_backend_pid())"),
                 STATUS_UNCERTAIN);
    cr_assert_str_eq(link.error.sqlstate, "57P01");
    cr_assert_eq(strncmp(link.error.text, "the outcome is not known: ", 26), 0, "%s",
                 link.error.text);
    link_wait(&link, &link.ups, 2, 30000);
    cr_assert_eq(link_ask_text(&link, "select 1"), STATUS_OK);
    link_close(&link);
}

/* The server said that it ends the session in the middle: the COMMIT behind was not looked at. */
Test(db_loss, a_transaction_that_was_terminated_ahead_of_its_commit_is_unavailable) {
    static const char *const texts[] = {"create table gone (n int)",
                                        "select pg_terminate_backend(pg_backend_pid())", NULL};
    char *url = pg_new_database();
    struct link link = {0};
    link_open_url(&link, url);
    cr_assert_eq(link_ask_texts(&link, texts), STATUS_UNAVAILABLE);
    cr_assert_eq(link.failed, 1);
    link_wait(&link, &link.ups, 2, 30000);
    cr_assert_eq(link.downs, 1);
    cr_assert_eq(pg_int(url, "select count(*) from pg_class where relname = 'gone'"), 0);
    link_close(&link);
    free(url);
}

/* A session that ends during its COMMIT may have committed, as far as a client can know. */
static const char dies_at_commit[] =
    "create table t (n int);"
    "create function die() returns trigger language plpgsql as"
    " $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;"
    "create constraint trigger die after insert on t deferrable initially deferred"
    " for each row execute function die()";

Test(db_loss, a_session_that_ends_at_its_commit_is_uncertain) {
    static const char *const texts[] = {"select 1", "insert into t values (1)", NULL};
    char *url = pg_new_database();
    pg_exec(url, dies_at_commit);
    struct link link = {0};
    link_open_url(&link, url);
    cr_assert_eq(link_ask_texts(&link, texts), STATUS_UNCERTAIN);
    cr_assert_eq(link.failed, 2);
    cr_assert_str_eq(link.error.sqlstate, "57P01");
    link_wait(&link, &link.ups, 2, 30000);
    cr_assert_eq(link_ask_text(&link, texts[1]), STATUS_UNCERTAIN);
    link_wait(&link, &link.ups, 3, 30000);
    link_close(&link);

    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(url, "test", &db, &err), STATUS_OK);
    cr_assert_eq(sync_script(db, "begin", &err), STATUS_OK);
    cr_assert_eq(sync_run(db, NULL, texts[1], 0, NULL, NULL, &err), STATUS_OK);
    cr_assert_eq(sync_script(db, " Commit", &err), STATUS_UNCERTAIN);
    sync_close(db);
    free(url);
}

Test(db_loss, a_commit_whose_answer_was_lost_is_uncertain) {
    static const char *const texts[] = {"insert into t values (1)", NULL};
    char *database = pg_new_database();
    pg_exec(database, "create table t (n int)");
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", pg_database_of(database));
    struct link link = {0};
    link_open_url(&link, url);
    proxy_set_mode(proxy, PROXY_HOLD_REPLIES);
    const struct db_statement statement = {.text = texts[0]};
    link_send(&link, &(struct db_request){
                         .transaction = true, .statement_count = 1, .statements = &statement});
    while (pg_int(database, "select count(*) from t") == 0) {
        uv_run(link.loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(link.answers, 0);
    proxy_cut(proxy);
    link_wait(&link, &link.answers, 1, 30000);
    cr_assert_eq(link.code, STATUS_UNCERTAIN);
    cr_assert_eq(link.failed, -1);
    proxy_set_mode(proxy, PROXY_FORWARD);
    link_wait(&link, &link.ups, 2, 30000);
    link_close(&link);
    proxy_stop(proxy);
    free(url);
    free(database);
}

/* A large request keeps its COMMIT back until all else is gone, so one that is cut before is known
 * not to be done. */
Test(db_loss, a_large_transaction_that_is_cut_early_is_unavailable) {
    enum { LARGE = 8 * 1024 * 1024 };
    char *database = pg_new_database();
    pg_exec(database, "create table t (n int)");
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", pg_database_of(database));
    struct link link = {0};
    link_open_url(&link, url);
    proxy_set_rate(proxy, 1024 * 1024);
    char *text = mem_alloc(LARGE + 1);
    memset(text, 'x', LARGE);
    for (int transaction = 0; transaction <= 1; transaction++) {
        const struct db_statement statements[] = {
            {.text = "insert into t values (1)"},
            {.text = "select length($1::text)", .param_count = 1, .params = &DB_TEXT(text)}};
        int64_t before = proxy_bytes_to_server(proxy);
        link_send(&link, &(struct db_request){.transaction = transaction != 0,
                                              .statement_count = 2,
                                              .statements = statements});
        while (proxy_bytes_to_server(proxy) < before + 100000) {
            uv_run(link.loop, UV_RUN_ONCE);
        }
        proxy_cut(proxy);
        link_wait(&link, &link.answers, transaction + 1, 30000);
        cr_assert_eq(link.code, STATUS_UNAVAILABLE);
        link_wait(&link, &link.ups, transaction + 2, 30000);
    }
    cr_assert_eq(pg_int(database, "select count(*) from t"), 0);
    link_close(&link);
    proxy_stop(proxy);
    free(text);
    free(url);
    free(database);
}

/* C38: nothing comes back, and nothing says so. */
Test(db_loss, a_silent_peer_costs_the_request_timeout) {
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", "postgres");
    struct link link = {0};
    link_open(
        &link, NULL,
        &(struct conn_options){
            .url = url, .listen = "c38", .request_timeout_ms = 200, .connect_timeout_ms = 300});
    link_wait(&link, &link.ups, 1, 30000);
    proxy_set_mode(proxy, PROXY_BLACKHOLE);
    int64_t start = clock_now_ms(&clock_boottime);
    cr_assert_eq(link_ask_text(&link, "select 1"), STATUS_UNCERTAIN);
    cr_assert_geq(clock_now_ms(&clock_boottime) - start, 200);
    link_wait(&link, &link.downs, 1, 30000);
    cr_assert_not_null(strstr(link.why.text, "not answered within 200 ms"), "%s", link.why.text);
    link_run_for(&link, 700); /* attempts to connect are not answered either */
    cr_assert_eq(link.ups, 1);
    proxy_set_mode(proxy, PROXY_FORWARD);
    link_wait(&link, &link.ups, 2, 30000);
    /* Exactly one live listener afterwards. */
    proxy_set_mode(proxy, PROXY_FORWARD);
    pg_exec(pg_url(), "notify c38");
    link_wait(&link, &link.notifications, 1, 30000);
    link_close(&link);
    proxy_stop(proxy);
    free(url);
}

/* One that comes up and is lost again and again waits a little longer each time, for a second at most. */
Test(db_loss, a_relapse_is_answered_soon_but_not_at_once) {
    struct link link = {0};
    link_open(&link, NULL, &(struct conn_options){.url = pg_url()});
    uint64_t first = 0, due = 0;
    for (int i = 1; i <= 6; i++) {
        link_wait(&link, &link.ups, i, 30000);
        terminate(link_backend(&link));
        link_wait(&link, &link.downs, i, 30000);
        due = uv_timer_get_due_in(&link.conn->timer);
        first = i == 1 ? due : first;
    }
    cr_assert(first > 50 && first <= 120, "%d ms", (int)first);
    cr_assert(due > 700 && due <= 1000, "%d ms", (int)due);
    link_close(&link);
}

static void block_loop(struct link *link) {
    int64_t deadline = clock_now_ms(&clock_boottime) + 300;
    while (clock_now_ms(&clock_boottime) < deadline) {
    }
    (void)link;
}

static void block_and_send(struct link *link) {
    cr_assert_eq(link->code, STATUS_OK, "%s", link->error.text);
    block_loop(link);
    link_send_text(link, "select 1");
}

/* The answer lay in the socket while the loop was held up for longer than the time-out. */
Test(db_loss, a_loop_that_was_held_up_times_nothing_out) {
    struct link link = {0};
    link_open(&link, NULL, &(struct conn_options){.url = pg_url(), .request_timeout_ms = 150});
    link_wait(&link, &link.ups, 1, 30000);
    for (int i = 0; i < 5; i++) {
        link_send_text(&link, "select 1");
        block_loop(&link);
        link_wait(&link, &link.answers, i + 1, 30000);
        cr_assert_eq(link.code, STATUS_OK, "%s", link.error.text);
    }
    link.on_answer = block_and_send;
    link_send_text(&link, "select 1");
    link_wait(&link, &link.answers, 10, 30000);
    link.on_answer = NULL;
    cr_assert_eq(link.downs, 0, "%s", link.why.text);
    link_close(&link);
}

/* C52: the peer has gone; SIGPIPE has its default action here. */
Test(db_loss, writing_to_a_closed_peer_raises_no_signal) {
    signal(SIGPIPE, SIG_DFL);
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", "postgres");
    struct link link = {0};
    link_open_url(&link, url);
    for (int i = 0; i < 5; i++) {
        proxy_cut(proxy);
        link_send_text(&link, "select 1");
        link_wait(&link, &link.answers, i + 1, 30000);
        cr_assert_eq(link.code, STATUS_UNCERTAIN);
        link_wait(&link, &link.ups, i + 2, 30000);
    }
    link_close(&link);
    proxy_stop(proxy);
    free(url);
}

static int open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

/* libpq's sockets get the same few numbers again and again: no old one may still be polled. */
Test(db_loss, many_losses_leak_nothing) {
    int64_t now = 0;
    const struct clock_ops hasty = {hasty_now_ms, &now};
    struct link links[2] = {{0}, {0}};
    link_open(&links[0], NULL, &(struct conn_options){.url = pg_url(), .clock = &hasty});
    link_open(&links[1], links[0].loop,
              &(struct conn_options){.url = pg_url(), .listen = "x", .clock = &hasty});
    int files = 0;
    for (int i = 1; i <= 20; i++) {
        link_wait(&links[0], &links[0].ups, i, 60000);
        link_wait(&links[0], &links[1].ups, i, 60000);
        cr_assert_eq(link_ask_text(&links[0], "select 1"), STATUS_OK);
        cr_assert_eq(link_ask_text(&links[1], "select 1"), STATUS_OK);
        files = i == 1 ? open_files() : files;
        cr_assert_eq(open_files(), files);
        conn_reset(links[0].conn, "test");
        conn_reset(links[1].conn, "test");
    }
    link_close(&links[1]);
    link_close(&links[0]);
}

/* ---- a server that goes ---- */

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void on_end(uv_timer_t *timer) {
    (void)timer;
}

Test(db_loss, the_server_stops_crashes_and_comes_back) {
    struct pg_cluster *cluster = pg_cluster_start();
    int64_t now = 0;
    const struct clock_ops hasty = {hasty_now_ms, &now};
    struct link link = {0};
    link_open(
        &link, NULL,
        &(struct conn_options){.url = pg_cluster_url(cluster), .listen = "x", .clock = &hasty});
    link_wait(&link, &link.ups, 1, 30000);

    link_send_text(&link, "select pg_sleep(600)");
    pg_cluster_stop_server(cluster);
    link_wait(&link, &link.downs, 1, 30000);
    cr_assert_eq(link.answers, 1);
    cr_assert_eq(link.code, STATUS_UNCERTAIN);
    cr_assert_str_eq(link.why.sqlstate, "57P01", "%s", link.why.text);

    /* C39: no hot loop while it is away. */
    uv_timer_stop(&link.tick);
    uv_timer_t end;
    uv_timer_init(link.loop, &end);
    double before = cpu_seconds();
    int64_t start = clock_now_ms(&clock_boottime);
    uv_timer_start(&end, on_end, 3000, 0);
    while (uv_is_active((uv_handle_t *)&end)) {
        uv_run(link.loop, UV_RUN_ONCE);
    }
    double share =
        (cpu_seconds() - before) * 1000 / (double)(clock_now_ms(&clock_boottime) - start);
    cr_assert_lt(share, 0.05, "used %.1f %% of a processor", share * 100);
    uv_close((uv_handle_t *)&end, NULL);
    uv_timer_again(&link.tick);
    cr_assert_eq(link.ups, 1);

    pg_cluster_start_server(cluster);
    start = clock_now_ms(&clock_boottime);
    link_wait(&link, &link.ups, 2, 30000);
    cr_assert_lt(clock_now_ms(&clock_boottime) - start, 10000);

    pg_cluster_crash_server(cluster);
    link_wait(&link, &link.downs, 2, 30000);
    pg_cluster_start_server(cluster);
    link_wait(&link, &link.ups, 3, 30000);
    cr_assert_eq(link_ask_text(&link, "select 1"), STATUS_OK);
    link_close(&link);
    pg_cluster_remove(cluster);
}

/* C43: a server that only reads is none. */
Test(db_loss, a_read_only_server_is_left_until_it_can_be_written_to) {
    struct pg_cluster *cluster = pg_cluster_start();
    const char *url = pg_cluster_url(cluster);
    pg_exec(url, "create table t (n int)");
    struct link link = {0};
    link_open(&link, NULL, &(struct conn_options){.url = url});
    link_wait(&link, &link.ups, 1, 30000);
    pg_exec(url, "alter system set default_transaction_read_only = on");
    pg_exec(url, "select pg_reload_conf()");
    static const char *const insert[] = {"insert into t values (1)", NULL};
    while (link.downs == 0) { /* the backend reads its configuration between two statements */
        enum status code = link_ask_texts(&link, insert);
        cr_assert(code == STATUS_OK || code == STATUS_UNAVAILABLE, "%s", link.error.text);
        link_run_for(&link, 10);
    }
    cr_assert_str_eq(link.error.sqlstate, "25006");
    cr_assert_str_eq(link.why.sqlstate, "25006");
    link_run_for(&link, 500);
    cr_assert_eq(link.ups, 1);
    char *writing = mem_format("%s&options=-cdefault_transaction_read_only%%3Doff", url);
    pg_exec(writing, "alter system reset default_transaction_read_only");
    free(writing);
    pg_exec(url, "select pg_reload_conf()");
    link_wait(&link, &link.ups, 2, 10000);
    cr_assert_eq(link_ask_texts(&link, insert), STATUS_OK, "%s", link.error.text);
    link_close(&link);
    pg_cluster_remove(cluster);
}
