/* isolation_test.c - no fault of one document reaches another: C18, C76, C11, C55, C73, C50, C53. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(isolation, .init = init, .fini = finish, .timeout = 180);

static int64_t count_status(const char *status, const char *prefix) {
    char sql[256];
    snprintf(sql, sizeof sql, "select count(*) from pgstage.task where status = '%s' and key like '%s%%'", status, prefix);
    return rig_number(&rig, sql);
}

/* One document that crashes its parser among fifty healthy ones. */
static void poison(const char *handler, const char *limits, const char *payload, const char *kind, const char *reason) {
    char yaml[1024], sql[512];
    snprintf(yaml, sizeof yaml,
             "pipeline: p\nstages:\n  - name: parse\n    handler: '%%L:by_payload'\n    workers: 2\n    timeout: 20s\n%s"
             "    retry: {attempts: 2, first: 20ms, max: 50ms}\n",
             limits);
    rig_write(&rig, "p.yaml", yaml);
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "good", 50, "{\"do\": \"echo\"}");
    snprintf(sql, sizeof sql, "{\"do\": \"%s\", %s}", handler, payload);
    rig_submit(&rig, "bad", 1, sql);
    rig_start(&rig, 0, "--until-idle --lease 5s");
    cr_expect_eq(rig_wait(&rig, 0), 1);
    cr_expect_eq(count_status("done", "good"), 50);
    cr_expect_eq(count_status("failed", "bad"), 1);
    snprintf(sql, sizeof sql, "select count(*) from pgstage.failure where kind = '%s' and error_text like '%s'", kind,
             reason);
    cr_expect_gt(rig_number(&rig, sql), 0, "no failure of kind %s like %s", kind, reason);
    rig_check_counts(&rig);
}

Test(isolation, c18_a_document_that_kills_its_worker_is_quarantined_alone) {
    poison("crash_abort", "", "\"x\": 1", "quarantine", "%signal 6%");
    /* Three crashes, then one alone; none of them used an attempt. */
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure where kind = 'crash'"), 3);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure where kind = 'quarantine'"), 1);
    cr_expect_eq(rig_number(&rig, "select attempt from pgstage.task where key = 'bad1'"), 0);
}

Test(isolation, c76_a_parser_that_segfaults_costs_its_document) {
    poison("crash_segv", "", "\"x\": 1", "quarantine", "%SIGSEGV%");
}

Test(isolation, c55_a_handler_that_exits_without_an_answer_fails_its_document) {
    poison("exit0", "", "\"x\": 1", "permanent", "%exit(0)%");
}

Test(isolation, c11_a_time_out_kills_the_group_before_the_next_attempt) {
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - name: parse\n    handler: '%H:hang'\n    timeout: 700ms\n    grace: 200ms\n"
              "    retry: {attempts: 2, first: 20ms, max: 50ms}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "slow", 1, "{}");
    char worker[64];
    snprintf(worker, sizeof worker, "pgstage-worker %d", (int)rig_start(&rig, 0, "--until-idle --lease 5s"));
    cr_expect_eq(rig_wait(&rig, 0), 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure where kind = 'timeout'"), 2);
    cr_expect_eq(rig_number(&rig, "select attempt from pgstage.task"), 2);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'failed'"), 1);
    cr_expect_eq(rig_count_processes(worker), 0, "something of the handler outlived its run");
}

Test(isolation, c73_any_bytes_in_the_last_words_can_be_stored) {
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - name: parse\n    handler: '%H:noisy'\n    timeout: 30s\n"
              "    retry: {attempts: 1}\n  - name: die\n    handler: '%H:crash_segv'\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "loud", 1, "{}");
    rig_start(&rig, 0, "--until-idle --lease 5s --log warn");
    cr_expect_eq(rig_wait(&rig, 0), 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'failed' and stage = (select max(id) "
                                  "from pgstage.stage)"),
                 1);
}

Test(isolation, c53_a_pool_that_cannot_start_is_parked_and_the_rest_runs_on) {
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - name: work\n    handler: '%H:echo'\n  - name: broken\n"
              "    handler: '%H:init_fail'\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 20, "{}");
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'ready' and stage = (select max(id) from "
                    "pgstage.stage)", 20);
    rig_await_log(&rig, 0, "pool.parked");
    char *log = rig_log(&rig, 0);
    int starts = 0;
    for (const char *at = log; (at = strstr(at, "worker.start pipeline=p stage=broken")) != NULL; at++) {
        starts++;
    }
    cr_expect_leq(starts, 12);
    free(log);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt <> 0 or status <> 'ready'"), 0);
}

/* Runs `status` until it shows the text. */
static void await_status(const char *wanted) {
    int64_t deadline_ms = rig_now_ms() + RIG_DEADLINE_MS;
    char *shown = NULL;
    while (rig_run(&rig, &shown, "status") != 0 || strstr(shown, wanted) == NULL) {
        cr_assert_lt(rig_now_ms(), deadline_ms, "'%s' did not come: %s", wanted, shown);
        free(shown);
        rig_pause();
    }
    free(shown);
}

static int count_starts(const char *stage) {
    char text[128], *log = rig_log(&rig, 0);
    int starts = 0;
    snprintf(text, sizeof text, "worker.start pipeline=p stage=%s ", stage);
    for (const char *at = log; (at = strstr(at, text)) != NULL; at++) {
        starts++;
    }
    free(log);
    return starts;
}

static void expect_parked(const char *stage, const char *reason) {
    char wanted[128], *shown = NULL;
    snprintf(wanted, sizeof wanted, "\nwarning: p/%s: parked: ", stage);
    await_status(wanted);
    cr_assert_eq(rig_run(&rig, &shown, "status"), 0);
    const char *line = strstr(shown, wanted);
    cr_assert_not_null(line, "%s", shown);
    cr_expect(memmem(line + 1, strcspn(line + 1, "\n"), reason, strlen(reason)) != NULL, "%s: %s", stage, shown);
    free(shown);
    int starts = count_starts(stage);
    cr_expect(starts >= 1 && starts <= 12, "%s: %d starts", stage, starts);
}

/* Each pool by itself: a handler, a command and workers that cannot work are parked, and `status` says why; what is before and
 * behind them runs on. */
Test(isolation, c53_pools_of_every_kind_are_parked_and_status_says_why) {
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - {name: steer, handler: '%H:steer'}\n"
              "  - {name: library, handler: '%H:init_fail', workers: 3}\n"
              "  - {name: placeholder, command: [echo, '{with.nonesuch}']}\n"
              "  - {name: crasher, worker: [sh, -c, 'echo no model file >&2; exit 7'], workers: 3}\n"
              "  - {name: refuser, worker: [sh, refuse.sh]}\n  - {name: last, command: [cat]}\n");
    rig_write(&rig, "refuse.sh", "read hello; echo '{\"type\":\"refused\",\"message\":\"no model\"}'\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_start(&rig, 0, "--lease 5s");
    expect_parked("library", "the model file x.bin is missing");
    expect_parked("placeholder", "nonesuch");
    expect_parked("crasher", "exited with status 7 before it was ready: no model file");
    expect_parked("refuser", "no model");
    rig_submit(&rig, "round", 10, "{\"steer\": [\"last\"]}");
    rig_submit(&rig, "stuck", 10, "{}");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done' and key like 'round%'", 10);
    rig_await(&rig, "select count(*) from pgstage.task t join pgstage.stage s on s.id = t.stage where t.status = 'ready' and "
                    "s.name = 'library' and t.key like 'stuck%'", 10);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt + crashes + rescues > 0"), 0);
}

/* Every run of such a document ends its worker: that is for the document to pay, and the pool is there for the next one. */
Test(isolation, c53_a_worker_that_dies_under_its_tasks_is_not_parked) {
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - {name: dies, worker: [sh, dies.sh], workers: 2}\n  - {name: last, command: [cat]}\n");
    rig_write(&rig, "dies.sh",
              "read hello; echo '{\"type\":\"ready\"}'\nread task; case $task in *bad*) kill -SEGV $$;; esac\n"
              "id=${task#*\\\"id\\\":\\\"}; id=${id%%\\\"*}; echo '{\"type\":\"result\",\"id\":\"'$id'\"}'; read stop\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "bad", 2, "{}");
    rig_submit(&rig, "good", 2, "{}");
    rig_start(&rig, 0, "--until-idle --lease 5s");
    cr_expect_eq(rig_wait(&rig, 0), 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'done' and key like 'good%'"), 2);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'failed' and key like 'bad%'"), 2);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure where kind = 'quarantine'"), 2);
    char *log = rig_log(&rig, 0);
    cr_expect_null(strstr(log, "pool.parked"), "%s", log);
    free(log);
}

Test(isolation, c53_until_idle_ends_and_says_which_pool_is_parked) {
    rig_write(&rig, "p.yaml",
              "pipeline: p\nstages:\n  - name: work\n    handler: '%H:echo'\n  - name: broken\n"
              "    handler: '%H:there_is_no_such_handler'\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 5, "{}");
    char *output = NULL;
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle --log error"), 1);
    cr_expect_not_null(strstr(output, "5 tasks cannot go on: stage 'broken' is parked"), "%s", output);
    free(output);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'ready' and attempt = 0"), 5);
    rig_check_counts(&rig);
}
