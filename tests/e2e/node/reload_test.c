/* reload_test.c - another definition without a stop: C71, C17, C04; and nodes that serve some stages only. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"
#include "support/pg.h"
#include "support/proxy.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint)");
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(reload, .init = init, .fini = finish, .timeout = 180);

static void write_sleepers(int workers, const char *more) {
    char text[1024];
    snprintf(text, sizeof text,
             "pipeline: p\nstages:\n  - name: work\n    handler: '%%L:by_payload'\n    workers: %d\n    timeout: 60s\n%s",
             workers, more);
    rig_write(&rig, "p.yaml", text);
}

static int count_in_log(int index, const char *text) {
    char *log = rig_log(&rig, index);
    int count = 0;
    for (const char *at = log; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    free(log);
    return count;
}

static void expect_no_run_was_lost(int tasks) {
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), tasks);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt + crashes + rescues <> 0"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure"), 0);
    rig_check_counts(&rig);
}

Test(reload, c71_a_hup_changes_the_workers_and_disturbs_no_run) {
    write_sleepers(2, "");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 30, "{\"do\": \"sleep\", \"ms\": 300}");
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 2);
    write_sleepers(4, "");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "workers 2 -> 4");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 4);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 30);
    rig_await(&rig, "select count(*) from pgstage.node where not ended", 1);
    expect_no_run_was_lost(30);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.node where not ended"), 0);
}

static void begin_sleepers(int tasks, int ms) {
    char payload[64];
    snprintf(payload, sizeof payload, "{\"do\": \"sleep\", \"ms\": %d}", ms);
    write_sleepers(2, "");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", tasks, payload);
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 2);
}

static void await_status(const char *text) {
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
    for (bool found = false; !found; rig_pause()) {
        char *status = NULL;
        cr_assert_eq(rig_run(&rig, &status, "status"), 0, "%s", status);
        found = strstr(status, text) != NULL;
        cr_assert(found || rig_now_ms() < deadline, "status does not say '%s':\n%s", text, status);
        free(status);
    }
}

/* Each is refused whole, said once, shown by status, and what runs does not notice. */
Test(reload, c71_what_cannot_be_taken_is_said_and_the_old_stays) {
    begin_sleepers(20, 300);
    char path[128];
    snprintf(path, sizeof path, "%s/p.yaml", rig.folder);
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - name: work\n    handler: '%L:by_payload'\n    workrs: 4\n");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "the file on disk is rejected: p.yaml:5:5: unknown key 'workrs'");
    await_status("the file on disk is rejected: p.yaml:5:5");
    unlink(path);
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "the file on disk is rejected: p.yaml: No such file");
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: other, handler: '%L:step'}\n");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "refused, stage \\\"work\\\" still holds");
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: work, handler: 'gone.so:step'}\n");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "the handler of stage 'work' cannot be read");
    rig_write(&rig, "p.yaml", "pipeline: q\nstages:\n  - {name: work, handler: '%L:step'}\n");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "it is of pipeline 'q' now");
    cr_expect_eq(rig_number(&rig, "select max(number) from pgstage.revision"), 1);
    /* A symbol that the shared object does not have is only noticed by its workers. */
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: work, handler: '%L:nothing'}\n");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "reload.rejected pipeline=p stage=work");
    await_status("the new definition is rejected: stage 'work'");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 20);
    cr_expect_eq(count_in_log(0, "reload.done"), 0);
    /* Mended. */
    write_sleepers(3, "");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "reload.done");
    rig_submit(&rig, "more", 5, "{\"do\": \"ledger\"}");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 25);
    expect_no_run_was_lost(25);
}

Test(reload, c71_a_hundred_hups_in_a_second_do_no_harm) {
    begin_sleepers(20, 300);
    for (int i = 0; i < 100; i++) {
        write_sleepers(2 + i % 3, "");
        kill(rig.nodes[0], SIGHUP);
        rig_pause();
    }
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 20);
    rig_await(&rig, "select count(*) from pgstage.node where not ended", 1);
    cr_expect_leq(count_in_log(0, "reload.begun"), 10);
    expect_no_run_was_lost(20);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
}

/* Another process registers a definition: the node takes it, tells what is different, and under --until-idle goes on until
 * also what the new stage does is done. */
Test(reload, a_new_revision_is_taken_within_seconds) {
    write_sleepers(2, "");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 12, "{\"do\": \"sleep\", \"ms\": 1000}");
    rig_start(&rig, 0, "--lease 5s --until-idle --log info");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 2);
    write_sleepers(4, "  - name: more\n    sql: insert into ledger (key, stage, version) values (:key, 'more', :version)\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    int64_t early = rig_number(&rig, "select count(*) from pgstage.task where status = 'done'"); /* maybe before it */
    rig_await_log(&rig, 0, "stage 'work': workers 2 -> 4, stage 'more' added");
    cr_expect_eq(rig_wait(&rig, 0), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'done'"), 12);
    char *log = rig_log(&rig, 0);
    cr_expect_not_null(strstr(log, "12 documents in"), "%s", log);
    free(log);
    int64_t more = rig_number(&rig, "select count(*) from ledger where stage = 'more'");
    cr_expect(more > 0 && more >= 12 - early && more <= 12, "%lld went through the new stage", (long long)more);
    expect_no_run_was_lost(12 + (int)more);
}

/* At any moment of it: reading, starting, taking over, draining. */
Test(reload, a_stop_during_a_reload_stops_both) {
    begin_sleepers(200, 100);
    for (int i = 0; i < 6; i++) {
        write_sleepers(2 + i, "");
        kill(rig.nodes[0], SIGHUP);
        if (i % 3 > 0) {
            rig_await_log(&rig, 0, "reload.begun");
        }
        for (int k = 0; k < i * 10; k++) {
            rig_pause();
        }
        kill(-rig.nodes[0], SIGINT);
        cr_expect_eq(rig_wait(&rig, 0), 0);
        cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.node where not ended"), 0);
        cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'running'"), 0);
        rig_start(&rig, 0, "--lease 5s");
        rig_await(&rig, "select least(count(*), 1) from pgstage.task where status = 'running'", 1);
    }
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt + crashes + rescues <> 0"), 0);
    rig_check_counts(&rig);
}

/* C17: the stage has another name, and its tasks have moved nowhere. */
Test(reload, c17_a_stage_is_renamed_while_its_tasks_run) {
    begin_sleepers(8, 300);
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: labour, renamed_from: work, handler: '%L:by_payload'}\n");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "stage 'work' is 'labour' now");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 8);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.stage"), 1);
    expect_no_run_was_lost(8);
}

/* A file that was the current definition once does not become current by a start; the current one is run. Where its own file
 * lay is not on this host: handlers are looked for beside the file that is named here. */
Test(reload, an_older_file_runs_the_current_definition) {
    write_sleepers(2, "");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_write(&rig, "new.yaml", "pipeline: p\nstages:\n  - {name: work, handler: '%L:step'}\n"
                                "  - {name: more, handler: 'more.so:ledger'}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply new.yaml"), 0);
    pg_exec(rig.url, "update pgstage.revision set path = '/nowhere/at/all/new.yaml' where number = 2");
    rig_submit(&rig, "doc", 3, "{}");
    char *output = NULL;
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle --only work"), 0);
    cr_expect_not_null(strstr(output, "the current one, revision 2, is run instead"), "%s", output);
    free(output);
    rig_copy(&rig, LEDGER_HANDLERS, "more.so");
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle"), 0);
    cr_expect_not_null(strstr(output, "it equals revision 1; the current one, revision 2, is run instead"), "%s", output);
    free(output);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where stage = 'more'"), 3);
}

/* So does a reload, and it says so: what was in force once does not come back by chance. */
Test(reload, c71_a_file_that_is_an_earlier_revision_is_not_taken_silently) {
    begin_sleepers(4, 100);
    write_sleepers(3, "");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "workers 2 -> 3");
    rig_await_log(&rig, 0, "reload.done");
    write_sleepers(2, "");
    kill(rig.nodes[0], SIGHUP);
    rig_await_log(&rig, 0, "the file on disk is not taken: it equals revision 1, the current one is 2; pgstage apply p.yaml");
    await_status("the file on disk is not taken: it equals revision 1");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_await_log(&rig, 0, "workers 3 -> 2");
}

/* ---- nodes that serve some stages only ---- */

static const char *const two_stages =
    "pipeline: p\nstages:\n  - {name: read, handler: '%L:ledger'}\n"
    "  - {name: gpu, handler: '%L:ledger', requires: [gpu, zone=a]}\n"
    "  - {name: write, handler: '%L:ledger'}\n";

static void begin_two_stages(int tasks) {
    rig_write(&rig, "p.yaml", two_stages);
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", tasks, "{}");
}

static int64_t ready_at(const char *stage) {
    char sql[256];
    snprintf(sql, sizeof sql, "select count(*) from pgstage.task t join pgstage.stage s on s.id = t.stage where s.name = '%s' "
             "and t.status = 'ready'", stage);
    return rig_number(&rig, sql);
}

Test(reload, a_stage_is_served_by_nodes_with_its_labels) {
    begin_two_stages(6);
    rig_start(&rig, 0, "--lease 5s --label gpu");
    rig_await(&rig, "select count(*) from ledger where stage = 'read'", 6);
    await_status("no living node runs this stage: it wants pgstage run FILE with --label gpu,zone=a");
    cr_expect_eq(ready_at("gpu"), 6);
    rig_start(&rig, 1, "--lease 5s --label gpu --label zone=a,other --only gpu");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 6);
    cr_expect_eq(count_in_log(1, "worker.ready pipeline=p stage=read"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), 18);
    expect_no_run_was_lost(18);
}

Test(reload, only_these_stages_are_run_until_they_are_idle) {
    begin_two_stages(4);
    char *output = NULL;
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle --only p/read --log warn"), 0, "%s", output);
    cr_expect_str_eq(output, "0 documents done; 4 runs here; 4 tasks wait at stages that this node does not serve\n");
    free(output);
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle --only p/read --log warn"), 0, "%s", output);
    cr_expect_str_eq(output, "0 documents: nothing to do here; 4 tasks wait at stages that this node does not serve\n");
    free(output);
    cr_expect_eq(ready_at("gpu"), 4);
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle --label gpu,zone=a --stage write=0 --stage read=2"), 0, "%s", output);
    free(output);
    cr_expect_eq(ready_at("write"), 4);
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --only gpu"), 2);
    cr_expect_not_null(strstr(output, "this node would serve no stage: stages require gpu, zone=a"), "%s", output);
    free(output);
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --only nothing"), 2);
    cr_expect_not_null(strstr(output, "no stage is named 'nothing'"), "%s", output);
    free(output);
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --label 'two words'"), 2);
    free(output);
    cr_expect_eq(rig_run(&rig, NULL, "run p.yaml --until-idle"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'done'"), 4);
    expect_no_run_was_lost(12);
}

/* The database goes away while the old node drains: it ends without having given back what it had. The process goes on, and
 * is stopped in peace later. */
Test(reload, what_a_replaced_node_left_does_not_spoil_a_later_stop) {
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *proxied = proxy_url(proxy, "127.0.0.1", pg_database_of(rig.url));
    rig.node_url = proxied;
    write_sleepers(2, "");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 2, "{\"do\": \"sleep\", \"ms\": 60000}");
    rig_start(&rig, 0, "--lease 2s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 2);
    kill(rig.nodes[0], SIGHUP);
    cr_assert(rig_await_log(&rig, 0, "node.draining"));
    proxy_set_mode(proxy, PROXY_REFUSE);
    proxy_cut(proxy);
    cr_assert(rig_await_log(&rig, 0, "node.unclean"));
    proxy_set_mode(proxy, PROXY_FORWARD);
    rig_await(&rig, "select count(*) from pgstage.node where not ended and lease_until > pgstage.now()", 1);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running' and rescues > 0", 2);
    kill(rig.nodes[0], SIGTERM);
    cr_assert(rig_await_log(&rig, 0, "reason=\"SIGTERM\""));
    rig_insist(&rig, 0, SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    proxy_stop(proxy);
    free(proxied);
}
