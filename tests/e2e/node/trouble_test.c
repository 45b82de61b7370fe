/* trouble_test.c - the server refuses, is read-only, full, slow or has another clock; nodes go on by themselves, and no
 * attempt is used: C34, C43, C44, C64, C82 (f), C83.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "rig.h"
#include "support/pg.h"
#include "support/proxy.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint)");
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - {name: a, handler: '%L:step', workers: 2}\n  - {name: b, handler: '%L:ledger'}\n");
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(trouble, .init = init, .fini = finish, .timeout = 180);

static void apply(void) {
    char *output = NULL;
    cr_assert_eq(rig_run(&rig, &output, "apply p.yaml"), 0, "%s", output);
    free(output);
}

static void expect_all_done_once(int count) {
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", count);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), count);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt <> 0"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure"), 0);
    rig_check_counts(&rig);
}

static int count_lines(const char *text, const char *word) {
    int count = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        count++;
    }
    return count;
}

/* ---- a server of the test's own ------------------------------------------------------------------------------------- */

static struct pg_cluster *cluster;

static void use_own_server(void) {
    cluster = pg_cluster_start();
    free(rig.url);
    rig.url = mem_copy_string(pg_cluster_url(cluster));
    rig.node_url = rig.url;
    cr_assert_eq(rig_run(&rig, NULL, "migrate"), 0);
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint)");
}

/* C43 */
Test(trouble, c43_a_server_that_only_reads_for_a_while) {
    use_own_server();
    apply();
    rig_start(&rig, 0, "--lease 2s");
    rig_await_log(&rig, 0, "node.up");
    rig_submit(&rig, "doc", 200, "{}");
    rig_await(&rig, "select least(count(*), 20) from ledger", 20);
    pg_exec(rig.url, "alter system set default_transaction_read_only = on");
    pg_exec(rig.url, "select pg_reload_conf()");
    rig_await_log(&rig, 0, "25006");
    rig_await_log(&rig, 0, "lease.left"); /* it has been so for most of a lease */
    cr_expect_lt(rig_number(&rig, "select count(*) from pgstage.task where status = 'done'"), 200);
    char *writing = mem_format("%s&options=-cdefault_transaction_read_only%%3Doff", rig.url);
    pg_exec(writing, "alter system reset default_transaction_read_only");
    int64_t back = rig_now_ms();
    pg_exec(writing, "select pg_reload_conf()");
    rig_await(&rig, "select count(*) from pgstage.node where not ended and lease_until > pgstage.now()", 1);
    cr_expect_lt(rig_now_ms() - back, 10000);
    expect_all_done_once(200);
    free(writing);
    pg_cluster_remove(cluster);
}

/* C43, in earnest: the primary dies, its standby is promoted a while later, and the URL names both. What the primary had
 * said was committed is on the standby, as synchronous_commit = on promises with a synchronous standby. */
Test(trouble, c43_a_standby_that_is_promoted) {
    use_own_server();
    struct pg_cluster *standby = pg_cluster_start_standby(cluster);
    pg_exec(rig.url, "alter system set synchronous_standby_names = '*'");
    pg_exec(rig.url, "select pg_reload_conf()");
    rig_await(&rig, "select count(*) from pg_stat_replication where sync_state = 'sync'", 1);
    apply();
    char *both = mem_format("postgresql:///postgres?host=%s,%s&port=5432,5432&user=postgres", pg_cluster_folder(standby),
                            pg_cluster_folder(cluster));
    rig.node_url = both;
    char *primary = rig.url; /* of the two, the standby is named first */
    rig.url = both;
    cr_expect_eq(rig_run(&rig, NULL, "submit p first"), 0);
    rig.url = primary;
    rig_start(&rig, 0, "--lease 2s");
    rig_await_log(&rig, 0, "node.up");
    rig_submit(&rig, "doc", 200, "{}");
    rig_await(&rig, "select least(count(*), 20) from ledger", 20);
    pg_cluster_crash_server(cluster);
    rig_await_log(&rig, 0, "lease.left"); /* the standby answers all the while, and only reads */
    char *output = NULL;
    free(rig.url);
    rig.url = mem_copy_string(both);
    cr_expect_eq(rig_run(&rig, &output, "status --json"), 0, "%s", output);
    free(output);
    cr_expect_eq(rig_run(&rig, &output, "submit p more"), 3, "%s", output);
    cr_expect_not_null(strstr(output, "hint: this server only reads"), "%s", output);
    free(output);
    free(rig.url);
    rig.url = mem_copy_string(pg_cluster_url(standby));
    int64_t done = rig_number(&rig, "select count(*) from pgstage.task where status = 'done'");
    cr_expect_lt(done, 201);
    cr_assert_eq(rig_number(&rig, "select pg_promote()::int"), 1);
    int64_t back = rig_now_ms();
    char *more = mem_format("select (count(*) > %" PRId64 ")::int from pgstage.task where status = 'done'", done);
    rig_await(&rig, more, 1);
    cr_expect_lt(rig_now_ms() - back, 10000);
    expect_all_done_once(201);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    free(more);
    free(both);
    pg_cluster_remove(standby);
    pg_cluster_remove(cluster);
}

/* ---- a full disk ---------------------------------------------------------------------------------------------------- */

/* Real: a small file system that holds the outputs, filled by a file. */
static bool fill_disk(const char *place) {
    char *path = mem_format("%s/filler", place);
    char block[4096] = {0};
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    while (fd >= 0 && write(fd, block, sizeof block) > 0) {
    }
    bool filled = fd >= 0;
    close(fd);
    free(path);
    return filled;
}

static void empty_disk(const char *place) {
    char *path = mem_format("%s/filler", place);
    cr_expect_eq(unlink(path), 0);
    free(path);
}

/* Where nothing can be mounted, the server says of every output that there is no room for it. */
static const char refuse_outputs[] =
    "create function full_disk() returns trigger language plpgsql as $$ begin"
    " raise 'could not extend file: No space left on device' using errcode = '53100'; end $$;"
    "create trigger full_disk before insert on pgstage.output for each row execute function full_disk()";

static void make_full(bool mounted, const char *place) {
    if (mounted) {
        cr_assert(fill_disk(place));
    } else {
        pg_exec(rig.url, refuse_outputs);
    }
}

static void make_room(bool mounted, const char *place) {
    if (mounted) {
        empty_disk(place);
    } else {
        pg_exec(rig.url, "drop trigger full_disk on pgstage.output");
    }
}

/* Until the server has undone so many more transactions: each tick that it refuses is one. */
static void await_refusals(int count) {
    int64_t before = rig_number(&rig, "select xact_rollback from pg_stat_database where datname = current_database()");
    char *sql = mem_format("select (xact_rollback >= %" PRId64 ")::int from pg_stat_database where datname = current_database()",
                           before + count);
    rig_await(&rig, sql, 1);
    free(sql);
}

/* C83. Outputs are large, so that they need new pages at once. */
Test(trouble, c83_a_full_disk_stops_claims_costs_no_attempt_and_few_lines) {
    char place[] = "/tmp/pgstage-disk-XXXXXX";
    cr_assert_not_null(mkdtemp(place));
    use_own_server();
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - {name: a, handler: '%L:step', workers: 2, after_commit: true}\n"
              "  - {name: b, handler: '%L:ledger'}\n");
    apply();
    bool mounted = mount("none", place, "tmpfs", 0, "size=16m,mode=777") == 0;
    if (mounted) {
        char *sql = mem_format("create tablespace small location '%s/data'", place), *data = mem_format("mkdir -m 777 %s/data", place);
        cr_assert_eq(system(data), 0);
        char *owner = mem_format("chown postgres %s/data", place);
        mounted = system(owner) == 0;
        pg_exec(rig.url, sql);
        pg_exec(rig.url, "alter table pgstage.output set tablespace small");
        free(sql);
        free(data);
        free(owner);
    }
    make_full(mounted, place);
    rig_start(&rig, 0, "--lease 10s");
    rig_await_log(&rig, 0, "node.up");
    rig_submit(&rig, "doc", 100, "{}");
    rig_await_log(&rig, 0, "53100");
    await_refusals(8);
    char *log = rig_log(&rig, 0);
    cr_expect_leq(count_lines(log, " error ") + count_lines(log, " warn "), 10, "%s", log);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'done'"), 0);
    free(log);
    make_room(mounted, place);
    expect_all_done_once(100);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    pg_cluster_remove(cluster);
    if (mounted) {
        cr_expect_eq(umount2(place, MNT_DETACH), 0);
    }
    rmdir(place);
}

/* A server that refuses the very first thing, again and again. */
Test(trouble, c83_a_full_disk_at_the_start_says_little_and_is_waited_for) {
    apply();
    pg_exec(rig.url, "create sequence tries; create function full_disk() returns trigger language plpgsql as $$ begin"
                     " perform nextval('public.tries'); raise 'no space left' using errcode = '53100'; end $$;"
                     "create trigger full_disk before insert on pgstage.node for each row execute function full_disk()");
    rig_submit(&rig, "doc", 10, "{}");
    rig_start(&rig, 0, "--lease 5s");
    rig_await_log(&rig, 0, "node.start reason=");
    rig_await(&rig, "select (last_value >= 8)::int from tries", 1);
    char *log = rig_log(&rig, 0);
    cr_expect_leq(count_lines(log, " error ") + count_lines(log, " warn "), 5, "%s", log);
    free(log);
    pg_exec(rig.url, "drop trigger full_disk on pgstage.node");
    expect_all_done_once(10);
}

/* ---- connections and rights ----------------------------------------------------------------------------------------- */

/* A role that may run nodes and nothing else of pgstage, with the tables of the pipeline's own SQL. */
static char *runner_url(void) {
    const char *name = pg_database_of(rig.url), *user = strstr(rig.url, "user=postgres");
    cr_assert_not_null(user);
    char *sql = mem_format("create role run_%s login; grant pgstage_orchestrator to run_%s; grant all on ledger to run_%s;"
                           " revoke all on schema public from public; grant usage on schema public to run_%s",
                           name, name, name, name);
    cr_assert_eq(rig_run(&rig, NULL, "migrate --roles"), 0);
    pg_exec(rig.url, sql);
    free(sql);
    return mem_format("%.*suser=run_%s", (int)(user - rig.url), rig.url, name);
}

/* C82 (f): the orchestrator's grants are enough for all that a node does. C44: without a connection it waits for one. */
Test(trouble, c44_no_connection_is_left_and_c82_a_role_that_runs_nodes_only) {
    char *url = runner_url();
    rig.node_url = url;
    apply();
    char *limit = mem_format("alter role run_%s connection limit 0", pg_database_of(rig.url)), *output = NULL;
    pg_exec(rig.url, limit);
    rig_start(&rig, 0, "--lease 2s");
    rig_await_log(&rig, 0, "trying again until the database is there");
    cr_expect_eq(rig_run(&rig, &output, "status"), 3, "%s", output);
    free(output);
    char *open = mem_format("alter role run_%s connection limit 8", pg_database_of(rig.url));
    pg_exec(rig.url, open);
    rig_await_log(&rig, 0, "node.up");
    rig_submit(&rig, "doc", 100, "{}");
    expect_all_done_once(100);
    static const char *const commands[] = {"status",          "tasks p --limit 3",         "show p doc1", "submit p more",
                                           "retry p doc1",    "rerun p doc1 --yes",        "cancel p doc2", "apply p.yaml"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        int status = rig_run(&rig, &output, "%s", commands[i]);
        cr_expect(status <= 1 && strstr(output, "denied") == NULL, "%s: %d, %s", commands[i], status, output);
        free(output);
    }
    char *log = rig_log(&rig, 0);
    cr_expect_null(strstr(log, "permission denied"), "%s", log);
    cr_expect_leq(count_lines(log, "conn.failed"), 10, "%s", log);
    free(log);
    cr_expect_eq(rig_run(&rig, &output, "migrate --roles"), 2, "%s", output);
    free(output);
    free(limit);
    free(open);
    free(url);
}

Test(trouble, c44_more_connections_than_the_server_gives_are_refused_in_words) {
    char *url = runner_url(), *output = NULL;
    char *limit = mem_format("alter role run_%s connection limit 8", pg_database_of(rig.url));
    pg_exec(rig.url, limit);
    rig.node_url = url;
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: a, sql: select 1, workers: 6}\n");
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle"), 4, "%s", output);
    cr_expect_not_null(strstr(output, "needs 9 connections"), "%s", output);
    free(output);
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: a, sql: select 1, workers: 5}\n");
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle"), 0, "%s", output);
    free(output);
    free(limit);
    free(url);
}

/* ---- slow, away, and in another time -------------------------------------------------------------------------------- */

/* C64: what a tick carries takes longer than a lease lasts. Nothing is sent again and again; it drains when it is quick. */
Test(trouble, c64_a_slow_line_loses_nothing_and_drains) {
    apply();
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", pg_database_of(rig.url));
    rig.node_url = url;
    pg_exec(rig.url, "select pgstage.submit('p', 'doc' || i, jsonb_build_object('text', repeat('x', 20000)))"
                     " from generate_series(1, 200) i");
    rig_start(&rig, 0, "--lease 1s");
    rig_await_log(&rig, 0, "node.up");
    rig_await(&rig, "select least(count(*), 3) from ledger", 3);
    int accepted = proxy_accepted(proxy);
    proxy_set_rate(proxy, 50 * 1000); /* a claim of a few dozen takes ten seconds and more */
    int64_t until = rig_now_ms() + 4000;
    while (rig_now_ms() < until) {
        rig_pause();
    }
    cr_expect_leq(proxy_accepted(proxy) - accepted, 4, "it asks again and again");
    proxy_set_rate(proxy, 0);
    expect_all_done_once(200);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    proxy_stop(proxy);
    free(url);
}

static int64_t resident_kb(pid_t pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    int64_t kb = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kb = strtoll(line + 6, NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kb;
}

/* Twenty leases long, as ten minutes are with the usual one; as long as PGSTAGE_OUTAGE_MS says, with the usual lease, when
 * that is given. */
Test(trouble, a_long_outage_grows_nothing_and_ends_by_itself, .timeout = 7200) {
    const char *asked = getenv("PGSTAGE_OUTAGE_MS");
    int64_t outage_ms = asked == NULL ? 6000 : strtoll(asked, NULL, 10);
    cr_assert_geq(outage_ms, 6000, "PGSTAGE_OUTAGE_MS: %s", asked);
    apply();
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", pg_database_of(rig.url));
    rig.node_url = url;
    rig_start(&rig, 0, asked == NULL ? "--lease 300ms" : "");
    rig_await_log(&rig, 0, "node.up");
    rig_submit(&rig, "doc", 300, "{}");
    rig_await(&rig, "select least(count(*), 5) from ledger", 5);
    proxy_set_mode(proxy, PROXY_REFUSE);
    proxy_cut(proxy);
    rig_await_log(&rig, 0, "lease.left");
    int64_t before_kb = resident_kb(rig.nodes[0]), until = rig_now_ms() + outage_ms;
    while (rig_now_ms() < until) {
        rig_pause();
    }
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
    cr_expect_lt(resident_kb(rig.nodes[0]) - before_kb, 1024);
#endif
    cr_expect_gt(before_kb, 0);
    char *log = rig_log(&rig, 0);
    /* Six a minute for each of the three connections and the effects, and once what happened to the lease. */
    int64_t minutes = 1 + outage_ms / 60000;
    cr_expect_leq(count_lines(log, " warn ") + count_lines(log, " error "), 6 * 5 * minutes + 5, "%s", log);
    free(log);
    proxy_set_mode(proxy, PROXY_FORWARD);
    expect_all_done_once(300);
    proxy_stop(proxy);
    free(url);
}

/* C34: the server's clock is ten minutes off the node's, either way. Retries, delays and leases are as ever. */
static void with_a_skewed_clock(const char *shift) {
    char *sql = mem_format("create or replace function pgstage.now() returns timestamptz language sql stable parallel safe"
                           " as $$ select statement_timestamp() + interval '%s' $$",
                           shift);
    pg_exec(rig.url, sql);
    free(sql);
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - name: a\n    handler: '%L:by_payload'\n    retry: {attempts: 3, first: 200ms, "
              "max: 200ms, jitter: 0%}\n");
    apply();
    rig_start(&rig, 0, "--lease 1s");
    rig_await_log(&rig, 0, "node.up");
    cr_assert_eq(rig_run(&rig, NULL, "submit p fails --payload '{\"do\": \"retry\"}'"), 0);
    cr_assert_eq(rig_run(&rig, NULL, "submit p later --payload '{\"do\": \"echo\"}' --in 1s"), 0);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'failed' and attempt = 3", 1);
    rig_await(&rig, "select count(*) from pgstage.task where key = 'later' and status = 'done'", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where key = 'later' and"
                                  " begin_time between run_at and run_at + interval '1 s'"),
                 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where abs(extract(epoch from updated - pgstage.now())) > 60"),
                 0);
    char *log = rig_log(&rig, 0);
    cr_expect_null(strstr(log, "lease.left"), "%s", log);
    cr_expect_eq(count_lines(log, "clock.skew"), 1, "%s", log);
    free(log);
}

Test(trouble, c34_a_server_that_is_ten_minutes_ahead) {
    with_a_skewed_clock("10 minutes");
}

Test(trouble, c34_a_server_that_is_ten_minutes_behind) {
    with_a_skewed_clock("-10 minutes");
}
