/* leader_test.c - one node leads, another takes over when it cannot, and a lease is no limit of run time: C06, C10, C41. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/memory.h"
#include "rig.h"
#include "support/pg.h"
#include "support/proxy.h"

static struct rig rig;
static struct proxy *proxy;
static char *proxied;

/* Replaced within five sixths of it: what is left is for a slow machine. */
enum { LEASE_MS = 8000 };
#define LEASE_TEXT "8s"
#define LEASE "--lease " LEASE_TEXT

static void init(void) {
    rig_init(&rig);
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint)");
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: work, handler: '%L:by_payload', workers: 2, timeout: none}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    proxy = proxy_start(pg_socket_path());
    proxied = proxy_url(proxy, "127.0.0.1", pg_database_of(rig.url));
}

static void finish(void) {
    rig_finish(&rig);
    proxy_stop(proxy);
    free(proxied);
}

TestSuite(leader, .init = init, .fini = finish, .timeout = 180);

static int64_t term(void) {
    return rig_number(&rig, "select term from pgstage.leader");
}

/* The process that leads; 0: none. */
static int64_t leading_pid(void) {
    return rig_number(&rig, "select coalesce(max(n.pid), 0) from pgstage.leader l join pgstage.node n on n.id = l.node "
                            "where l.until > pgstage.now() and not n.ended");
}

static void await_leader(pid_t pid) {
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
    while (leading_pid() != pid) {
        cr_assert(rig_now_ms() < deadline, "%d does not lead", (int)pid);
        rig_pause();
    }
}

/* Two nodes, of which the first leads; what is due is made ready by whoever leads. */
static void start_two_with(const char *lease) {
    rig_start(&rig, 0, lease);
    await_leader(rig.nodes[0]);
    rig.node_url = rig.url;
    rig_start(&rig, 1, lease);
    cr_assert(rig_await_log(&rig, 1, "node.up"));
}

static void start_two(void) {
    start_two_with(LEASE);
}

static void expect_due_tasks_begin(void) {
    cr_assert_eq(rig_run(&rig, NULL, "submit p later --payload '{\"do\": \"sleep\", \"ms\": 0}' --in 1ms"), 0);
    rig_await(&rig, "select count(*) from pgstage.task where key = 'later' and status = 'done'", 1);
}

/* The first node is back, whether its lease has ended meanwhile or not, and has had time to ask; it does not lead. */
static void expect_it_follows(int64_t term_now) {
    for (int beat = 0; beat < 2; beat++) {
        char *after = pg_text(rig.url, "select pgstage.now() + interval '" LEASE_TEXT "'");
        char *renewed = mem_format("select count(*) from pgstage.node where not ended and pid = %d and lease_until > '%s'",
                                   (int)rig.nodes[0], after);
        rig_await(&rig, renewed, 1);
        free(renewed);
        free(after);
    }
    cr_expect_eq(leading_pid(), rig.nodes[1]);
    cr_expect_eq(term(), term_now);
}

/* It thinks that it leads when it wakes; nothing that it then writes may count. */
Test(leader, c10_a_leader_that_is_stopped_is_replaced_and_does_not_lead_when_it_goes_on) {
    start_two();
    int64_t before = term(), begin = rig_now_ms();
    kill(rig.nodes[0], SIGSTOP);
    await_leader(rig.nodes[1]);
    cr_expect_lt(rig_now_ms() - begin, LEASE_MS);
    cr_expect_gt(term(), before);
    expect_due_tasks_begin();
    int64_t after = term();
    kill(rig.nodes[0], SIGCONT);
    expect_it_follows(after);
}

/* Its connections stand, and nothing comes through. */
Test(leader, c10_a_leader_that_is_cut_off_is_replaced) {
    rig.node_url = proxied;
    start_two();
    int64_t begin = rig_now_ms();
    proxy_set_mode(proxy, PROXY_BLACKHOLE);
    await_leader(rig.nodes[1]);
    cr_expect_lt(rig_now_ms() - begin, LEASE_MS);
    expect_due_tasks_begin();
    int64_t after = term();
    proxy_set_mode(proxy, PROXY_FORWARD);
    proxy_cut(proxy);
    expect_it_follows(after);
}

/* The server's process behind one of the first node's connections. */
static pid_t backend_of(const char *role) {
    char *sql = mem_format("select a.pid from pg_stat_activity a where a.datname = current_database() and"
                           " a.application_name = 'pgstage %s' order by a.backend_start limit 1",
                           role);
    pid_t pid = (pid_t)rig_number(&rig, sql);
    free(sql);
    cr_assert_gt(pid, 0, "no backend of '%s'", role);
    return pid;
}

/* Half cut off: one connection is stuck, the other works. */
static void half_cut_off(const char *role) {
    start_two();
    pid_t stuck = backend_of(role);
    int64_t begin = rig_now_ms();
    cr_assert_eq(kill(stuck, SIGSTOP), 0);
    await_leader(rig.nodes[1]);
    int64_t took = rig_now_ms() - begin;
    kill(stuck, SIGCONT);
    cr_expect_lt(took, LEASE_MS);
    expect_due_tasks_begin();
}

Test(leader, c10_a_leader_whose_heartbeats_are_stuck_is_replaced) {
    half_cut_off("watch");
}

Test(leader, c10_a_leader_whose_duties_are_stuck_is_replaced) {
    half_cut_off("duty");
}

/* One that is killed leaves at once what its successor on the host can see is dead; its term ends with its lease. */
Test(leader, a_leader_that_is_killed_is_replaced_within_the_lease) {
    start_two();
    int64_t begin = rig_now_ms();
    kill(rig.nodes[0], SIGKILL);
    waitpid(rig.nodes[0], NULL, 0);
    rig.nodes[0] = 0;
    await_leader(rig.nodes[1]);
    cr_expect_lt(rig_now_ms() - begin, LEASE_MS);
}

/* A run of many leases: the node's heartbeat renews the claim, not the handler; and nobody steps down without a fault. */
Test(leader, c06_c41_a_long_run_is_not_rescued_and_the_leader_stays) {
    start_two_with("--lease 3s");
    int64_t before = term();
    rig_submit(&rig, "long", 4, "{\"do\": \"sleep\", \"ms\": 15000}"); /* one a worker, for five leases */
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 4);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where rescues + attempt + crashes > 0"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), 4);
    cr_expect_eq(rig_number(&rig, "select count(distinct key) from ledger"), 4);
    cr_expect_eq(term(), before);
    cr_expect_eq(leading_pid(), rig.nodes[0]);
}
