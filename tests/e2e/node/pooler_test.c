/* pooler_test.c - a real pgbouncer between nodes and database: C40. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/memory.h"
#include "rig.h"
#include "support/pg.h"
#include "support/pooler.h"

static struct rig rig;
static struct pooler_process *pooler;
static char *pooled;

static void begin(const char *mode, int pool_size, const char *more) {
    pooler = pooler_start(mode, pool_size, more);
    pooled = pooler_url(pooler, pg_database_of(rig.url));
    rig.node_url = pooled;
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
}

static void init(void) {
    rig_init(&rig);
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint); create table stored (key text)");
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - {name: a, handler: '%L:step', workers: 2}\n  - {name: b, handler: '%L:ledger'}\n"
              "  - {name: c, sql: 'insert into stored values (:key)', workers: 2}\n");
}

static void finish(void) {
    rig_finish(&rig);
    pooler_stop(pooler);
    free(pooled);
}

TestSuite(pooler, .init = init, .fini = finish, .timeout = 180);

static void expect_all_done_once(int count) {
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", count);
    cr_expect_eq(rig_number(&rig, "select count(*) from stored"), count);
    cr_expect_eq(rig_number(&rig, "select count(distinct key) from stored"), count);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt <> 0"), 0);
    rig_check_counts(&rig);
}

static void expect_log(int node, const char *text, bool there) {
    char *log = rig_log(&rig, node);
    cr_expect_eq(strstr(log, text) != NULL, there, "'%s' in\n%s", text, log);
    free(log);
}

static bool says(const char *text, const char *arguments) {
    char *output = NULL;
    int status = rig_run(&rig, &output, "%s", arguments);
    bool found = status == 0 && strstr(output, text) != NULL;
    if (!found) {
        fprintf(stderr, "status %d: %s\n", status, output);
    }
    free(output);
    return found;
}

/* C40: two server sessions for everything; one of two nodes is killed. */
Test(pooler, c40_two_sessions_in_transaction_mode_serve_two_nodes_of_which_one_dies) {
    begin("transaction", 2, "");
    rig_start(&rig, 0, "--lease 2s");
    rig_start(&rig, 1, "--lease 2s");
    rig_await_log(&rig, 0, "node.up");
    rig_await_log(&rig, 1, "node.up");
    cr_expect_eq(rig_run(&rig, NULL, "submit p s1"), 0);
    rig_submit(&rig, "doc", 499, "{}");
    rig_await(&rig, "select least(count(*), 50) from stored", 50);
    kill(rig.nodes[0], SIGKILL);
    waitpid(rig.nodes[0], NULL, 0);
    rig.nodes[0] = 0;
    expect_all_done_once(500);
    cr_expect(says("done", "tasks p --status done --limit 3"));
    cr_expect(says("by polling", "status"));
    expect_log(1, "pooler.transactions statements=unnamed notify=off", true);
    expect_log(1, "pooler.polling", true);
    expect_log(1, " error ", false);
    kill(rig.nodes[1], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 1), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from"
                                  " pg_database where datname = current_database())"),
                 0);
    /* No session is left with a setting of ours, or with a name of a statement: the next client gets it as it was. */
    char *left = pg_text(pooled, "select concat_ws(' ', current_setting('search_path'), current_setting('jit'),"
                                 " (select count(*) from pg_prepared_statements), (select count(*) from"
                                 " pg_listening_channels()))");
    cr_expect_str_eq(left, "\"$user\", public on 0 0");
    free(left);
}

Test(pooler, a_url_of_its_own_listens) {
    begin("transaction", 3, "server_round_robin = 1\n");
    char *options = mem_format("--lease 2s --listen-database '%s'", rig.url);
    rig_start(&rig, 0, options);
    rig_await_log(&rig, 0, "node.up");
    expect_log(0, "pooler.polling", false);
    expect_log(0, "notify=listen-database", true);
    rig_submit(&rig, "doc", 100, "{}");
    expect_all_done_once(100);
    char *other = pg_new_database();
    char *wrong = mem_format("run p.yaml --until-idle --listen-database '%s'", other), *output = NULL;
    cr_expect_eq(rig_run(&rig, &output, "%s", wrong), 2);
    cr_expect_not_null(strstr(output, "is another one"), "%s", output);
    free(output);
    free(wrong);
    wrong = mem_format("run p.yaml --until-idle --listen-database '%s'", pooled);
    cr_expect_eq(rig_run(&rig, &output, "%s", wrong), 2);
    cr_expect_not_null(strstr(output, "in transaction mode as well"), "%s", output);
    free(output);
    free(wrong);
    free(other);
    free(options);
}

Test(pooler, one_of_sessions_is_served_as_the_server_itself) {
    begin("session", 20, "");
    rig_start(&rig, 0, "--lease 2s");
    rig_await_log(&rig, 0, "node.up");
    rig_submit(&rig, "doc", 50, "{}");
    expect_all_done_once(50);
    expect_log(0, "pooler.", false);
}
