/* network_test.c - the database goes away in the ways that networks know, and everything goes on by itself: C38, C39, C45, C54.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "rig.h"
#include "support/pg.h"
#include "support/proxy.h"

static struct rig rig;
static struct proxy *proxy;
static char *proxied;

static void init(void) {
    rig_init(&rig);
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint)");
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - {name: a, handler: '%L:step', workers: 2}\n  - {name: b, handler: '%L:ledger'}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    proxy = proxy_start(pg_socket_path());
    proxied = proxy_url(proxy, "127.0.0.1", pg_database_of(rig.url));
    rig.node_url = proxied;
}

static void finish(void) {
    rig_finish(&rig);
    proxy_stop(proxy);
    free(proxied);
}

TestSuite(network, .init = init, .fini = finish, .timeout = 180);

static void expect_all_done_once(int count) {
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", count);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), count);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt <> 0"), 0);
    rig_check_counts(&rig);
}

Test(network, c38_a_silent_network_costs_time_only) {
    rig_start(&rig, 0, "--lease 3s");
    rig_await_log(&rig, 0, "node.up");
    rig_submit(&rig, "doc", 100, "{}");
    rig_await(&rig, "select least(count(*), 5) from ledger", 5);
    proxy_set_mode(proxy, PROXY_BLACKHOLE);
    rig_await_log(&rig, 0, "lease.left"); /* its workers are gone by the time that others may take over */
    proxy_set_mode(proxy, PROXY_FORWARD);
    proxy_cut(proxy);
    expect_all_done_once(100);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
}

Test(network, c39_a_listener_that_dies_again_and_again_delays_nothing) {
    rig_start(&rig, 0, "--lease 5s");
    rig_await_log(&rig, 0, "node.up");
    for (int i = 1; i <= 20; i++) {
        char sql[128], prefix[16];
        pg_exec(rig.url, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgstage watch' "
                         "and datname = current_database()");
        snprintf(prefix, sizeof prefix, "r%d-", i);
        rig_submit(&rig, prefix, 1, "{}");
        int64_t begin = rig_now_ms();
        snprintf(sql, sizeof sql, "select count(*) from ledger where key = 'r%d-1'", i);
        rig_await(&rig, sql, 1);
        cr_expect_lt(rig_now_ms() - begin, 5000, "round %d took %lld ms", i, (long long)(rig_now_ms() - begin));
    }
    rig_await(&rig, "select count(*) from pg_stat_activity where application_name = 'pgstage watch' and datname = "
                    "current_database()", 1);
    expect_all_done_once(20);
}

Test(network, lost_replies_of_everything_cost_no_attempt_and_no_effect) {
    rig_start(&rig, 0, "--lease 5s");
    rig_await_log(&rig, 0, "node.up");
    rig_submit(&rig, "doc", 200, "{}");
    for (int i = 0; i < 8; i++) {
        char sql[128];
        int wanted = (i + 1) * 15;
        snprintf(sql, sizeof sql, "select least(count(*), %d) from ledger", wanted);
        rig_await(&rig, sql, wanted);
        proxy_set_mode(proxy, PROXY_HOLD_REPLIES); /* what is sent now is committed, and its answer never comes */
        int64_t sent = proxy_bytes_to_server(proxy), deadline = rig_now_ms() + 2000;
        while (proxy_bytes_to_server(proxy) == sent && rig_now_ms() < deadline) {
            rig_pause();
        }
        proxy_set_mode(proxy, PROXY_FORWARD);
        proxy_cut(proxy);
    }
    expect_all_done_once(200);
}

Test(network, c45_a_large_document_over_a_slow_line_stops_no_heartbeat) {
    rig_submit(&rig, "small", 10, "{}");
    pg_exec(rig.url, "select pgstage.submit_set('p', array['large'], array[jsonb_build_object('text', repeat('x', 6000000))],"
                     " null, null, null, false)");
    proxy_set_rate(proxy, 2 * 1000 * 1000);
    rig_start(&rig, 0, "--lease 2s");
    expect_all_done_once(11);
    char *log = rig_log(&rig, 0);
    cr_expect_null(strstr(log, "lease.left"), "the lease was lost while the document came:\n%s", log);
    free(log);
}

Test(network, c54_a_stop_while_the_database_is_away_ends_and_says_so) {
    rig_start(&rig, 0, "--lease 3s");
    rig_await_log(&rig, 0, "node.up");
    rig_submit(&rig, "doc", 300, "{}");
    rig_await(&rig, "select least(count(*), 5) from ledger", 5);
    proxy_set_mode(proxy, PROXY_REFUSE);
    proxy_cut(proxy);
    kill(rig.nodes[0], SIGTERM);
    int status = rig_wait(&rig, 0);
    cr_expect(status == 3 || status == 0, "status %d", status);
    rig.node_url = rig.url;
    rig_start(&rig, 1, "--lease 3s");
    expect_all_done_once(300);
}

/* Its identity was lost before the signal, and is not replaced any more: what it held goes back all the same. */
Test(network, c54_a_stop_after_the_lease_was_lost_gives_everything_back) {
    rig_start(&rig, 0, "--lease 2s");
    rig_await_log(&rig, 0, "node.up");
    rig_submit(&rig, "doc", 300, "{}");
    rig_await(&rig, "select least(count(*), 5) from ledger", 5);
    proxy_set_mode(proxy, PROXY_BLACKHOLE);
    rig_await_log(&rig, 0, "lease.left");
    int64_t stale_ms = rig_now_ms() + 1000; /* a third of the lease: an identity that is started so late is not used */
    kill(rig.nodes[0], SIGTERM);
    rig_await_log(&rig, 0, "node.draining");
    while (rig_now_ms() < stale_ms) {
        rig_pause();
    }
    proxy_set_mode(proxy, PROXY_FORWARD);
    proxy_cut(proxy);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'running'"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.node where not ended"), 0);
    rig_check_counts(&rig);
}

/* ---- the start ------------------------------------------------------------------------------------------------------ */

Test(network, a_node_waits_for_its_database_at_its_start) {
    proxy_set_mode(proxy, PROXY_REFUSE);
    rig_start(&rig, 0, "--lease 5s");
    cr_assert(rig_await_log(&rig, 0, "trying again until the database is there"));
    rig_submit(&rig, "doc", 10, "{}");
    proxy_set_mode(proxy, PROXY_FORWARD);
    expect_all_done_once(10);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
}

Test(network, c54_a_signal_while_it_waits_ends_it_with_0) {
    proxy_set_mode(proxy, PROXY_REFUSE);
    rig_start(&rig, 0, "--lease 5s");
    cr_assert(rig_await_log(&rig, 0, "trying again until the database is there"));
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
}

/* The first signal waits for the attempt in hand, which nobody answers; the second does not. */
Test(network, c54_a_second_signal_does_not_wait) {
    proxy_set_mode(proxy, PROXY_HOLD_REPLIES);
    rig_start(&rig, 0, "--lease 5s");
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
    while (proxy_accepted(proxy) == 0) {
        cr_assert(rig_now_ms() < deadline);
        rig_pause();
    }
    int status = 0;
    do {
        kill(rig.nodes[0], SIGTERM); /* again: one that comes before the first was handled counts as the same */
        cr_assert(rig_now_ms() < deadline);
        rig_pause();
    } while (waitpid(rig.nodes[0], &status, WNOHANG) == 0);
    rig.nodes[0] = 0;
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "%x", (unsigned)status);
}

Test(network, run_until_idle_does_not_wait_for_a_database) {
    proxy_set_mode(proxy, PROXY_REFUSE);
    rig_start(&rig, 0, "--until-idle");
    cr_expect_eq(rig_wait(&rig, 0), 3);
}
