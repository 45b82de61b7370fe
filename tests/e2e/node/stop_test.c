/* stop_test.c - a stop costs nothing: C54, C47; and what dies with a node: C13, C48, C03. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "support/pg.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint)");
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(stop, .init = init, .fini = finish, .timeout = 180);

static const char *const sleepers =
    "pipeline: p\nstages:\n  - name: work\n    handler: '%L:by_payload'\n    workers: 4\n    timeout: 60s\n"
    "    grace: 300ms\n";

/* A claimed task is begun when its worker is ready: what has not begun would go back at a stop. */
static void await_four_begun(void) {
    rig_await(&rig, "select least(count(*), 4) from pgstage.task where status = 'running'", 4);
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
    for (int ready = 0; ready < 4; rig_pause()) {
        cr_assert(rig_now_ms() < deadline, "%d workers are ready", ready);
        char *log = rig_log(&rig, 0);
        ready = 0;
        for (const char *at = log; (at = strstr(at, "worker.ready")) != NULL; at++) {
            ready++;
        }
        free(log);
    }
}

static void start_sleepers(int count, const char *payload, const char *options) {
    rig_write(&rig, "p.yaml", sleepers);
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", count, payload);
    rig_start(&rig, 0, options);
    await_four_begun();
}

static void expect_untouched(void) {
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'running'"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt + crashes + rescues <> 0"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.claim_batch"), 0);
    rig_check_counts(&rig);
}

Test(stop, c54_the_first_signal_lets_running_tasks_finish) {
    start_sleepers(12, "{\"do\": \"sleep\", \"ms\": 700}", "--lease 5s");
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    int64_t done = rig_number(&rig, "select count(*) from pgstage.task where status = 'done'");
    cr_expect(done >= 4 && done <= 8, "%lld done", (long long)done);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), done);
    expect_untouched();
}

static bool catches_term(pid_t pid) {
    char path[64], line[256];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "SigCgt: %llx", &caught) != 1) {
    }
    if (file != NULL) {
        fclose(file);
    }
    return (caught >> (SIGTERM - 1) & 1) != 0;
}

/* From the moment at which it listens, at whatever it is: connecting, registering, starting workers, claiming. */
Test(stop, c54_a_signal_at_any_moment_of_the_start_ends_it_with_0) {
    rig_write(&rig, "p.yaml", sleepers);
    for (int i = 0; i < 16; i++) {
        int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
        rig_start(&rig, 0, "--lease 5s");
        while (!catches_term(rig.nodes[0])) {
            cr_assert(rig_now_ms() < deadline, "it does not listen to signals");
        }
        for (int k = 0; k < i; k++) {
            rig_pause();
        }
        kill(rig.nodes[0], SIGTERM);
        cr_expect_eq(rig_wait(&rig, 0), 0, "start %d", i);
    }
    expect_untouched();
}

Test(stop, a_run_until_idle_that_is_stopped_says_that_there_is_more) {
    start_sleepers(12, "{\"do\": \"sleep\", \"ms\": 700}", "--lease 5s --until-idle");
    kill(rig.nodes[0], SIGINT);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    char *log = rig_log(&rig, 0);
    cr_expect_not_null(strstr(log, "stopped before all was done"), "%s", log);
    free(log);
    expect_untouched();
}

/* What comes with the first is the first: Ctrl-C in a terminal, which a wrapper passes on, and a supervisor's own. */
Test(stop, a_request_that_comes_several_ways_is_one) {
    start_sleepers(12, "{\"do\": \"sleep\", \"ms\": 700}", "--lease 5s");
    kill(-rig.nodes[0], SIGINT);
    kill(rig.nodes[0], SIGTERM);
    kill(rig.nodes[0], SIGINT);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    char *log = rig_log(&rig, 0);
    cr_expect_null(strstr(log, "node.killing"), "%s", log);
    free(log);
    int64_t done = rig_number(&rig, "select count(*) from pgstage.task where status = 'done'");
    cr_expect(done >= 4 && done <= 8, "%lld done", (long long)done);
    expect_untouched();
}

Test(stop, c54_the_second_signal_kills_and_uses_no_attempt) {
    start_sleepers(6, "{\"do\": \"sleep\", \"ms\": 60000}", "--lease 5s");
    kill(rig.nodes[0], SIGTERM);
    rig_await_log(&rig, 0, "node.draining");
    rig_insist(&rig, 0, SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'ready'"), 6);
    expect_untouched();
}

Test(stop, c54_a_drain_that_takes_too_long_becomes_a_kill) {
    start_sleepers(4, "{\"do\": \"sleep\", \"ms\": 60000}", "--lease 5s --grace 500ms");
    kill(rig.nodes[0], SIGINT);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    expect_untouched();
}

static void signal_to_the_group_drains(int signal) {
    start_sleepers(4, "{\"do\": \"sleep\", \"ms\": 700}", "--lease 5s");
    kill(-rig.nodes[0], signal);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'done'"), 4);
    expect_untouched();
}

/* Ctrl-C, and what a supervisor sends. */
Test(stop, c47_ctrl_c_reaches_the_node_alone) {
    signal_to_the_group_drains(SIGINT);
}

Test(stop, c47_a_signal_to_the_group_reaches_the_node_alone) {
    signal_to_the_group_drains(SIGTERM);
}

Test(stop, c47_as_the_first_process_of_a_container) {
    rig_write(&rig, "p.yaml", sleepers);
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 4, "{\"do\": \"sleep\", \"ms\": 700}");
    if (system("unshare --pid --fork --mount-proc true 2>/dev/null") != 0) {
        cr_skip_test("process namespaces cannot be made here");
    }
    pid_t pid = fork();
    if (pid == 0) {
        char command[2048];
        setenv("PGSTAGE_DATABASE_URL", rig.url, 1);
        setenv("PGSTAGE_HOME", rig.folder, 1);
        snprintf(command, sizeof command, "cd %s && exec unshare --pid --fork --kill-child --mount-proc %s run p.yaml "
                 "--lease 5s >node0.log 2>&1", rig.folder, PGSTAGE_PROGRAM);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    await_four_begun();
    /* The first process of the namespace is unshare's only child. */
    char command[128], line[32] = "";
    snprintf(command, sizeof command, "pgrep -P %d", (int)pid);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(fgets(line, sizeof line, pipe));
    pclose(pipe);
    kill((pid_t)strtol(line, NULL, 10), SIGTERM);
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'done'"), 4);
    expect_untouched();
}

Test(stop, c13_tasks_of_a_killed_node_are_taken_over_within_the_lease) {
    start_sleepers(10, "{\"do\": \"sleep\", \"ms\": 60000}", "--lease 2s");
    /* A peer of another host, as it were: it may not look at our lock file. */
    pg_exec(rig.url, "update pgstage.node set host = 'elsewhere'");
    kill(rig.nodes[0], SIGKILL);
    waitpid(rig.nodes[0], NULL, 0);
    rig.nodes[0] = 0;
    int64_t begin = rig_now_ms();
    rig_start(&rig, 1, "--lease 2s");
    rig_await(&rig, "select count(*) from pgstage.task where rescues = 1", 4);
    /* The dead node's lease, the whole lease of the new leader's own term, and a sweep. */
    cr_expect_lt(rig_now_ms() - begin, 15000);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where attempt <> 0"), 0);
    rig_check_counts(&rig);
}

Test(stop, c03_a_start_on_the_same_host_frees_the_dead_at_once) {
    start_sleepers(10, "{\"do\": \"sleep\", \"ms\": 60000}", "--lease 60s");
    kill(rig.nodes[0], SIGKILL);
    waitpid(rig.nodes[0], NULL, 0);
    rig.nodes[0] = 0;
    char worker[64];
    rig_start(&rig, 1, "--lease 60s");
    rig_await(&rig, "select count(*) from pgstage.task where rescues = 1", 4);
    snprintf(worker, sizeof worker, "pgstage-worker %d", (int)rig.nodes[0]);
    rig_check_counts(&rig);
}

Test(stop, c03_claims_of_a_node_whose_row_is_gone_are_rescued) {
    start_sleepers(4, "{\"do\": \"sleep\", \"ms\": 60000}", "--lease 2s");
    kill(rig.nodes[0], SIGKILL);
    waitpid(rig.nodes[0], NULL, 0);
    rig.nodes[0] = 0;
    pg_exec(rig.url, "delete from pgstage.node");
    rig_start(&rig, 1, "--lease 2s");
    rig_await(&rig, "select count(*) from pgstage.task where rescues = 1", 4);
}

Test(stop, c48_nothing_of_a_killed_node_lives_on) {
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - name: work\n    handler: '%L:shell'\n    workers: 3\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 3, "{}");
    char worker[64];
    snprintf(worker, sizeof worker, "pgstage-worker %d", (int)rig_start(&rig, 0, "--lease 60s"));
    int before = rig_count_processes("sleep 100");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 3);
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
    while (rig_count_processes("sleep 100") < before + 3) {
        cr_assert(rig_now_ms() < deadline, "the handlers did not start their shells");
        rig_pause();
    }
    kill(rig.nodes[0], SIGKILL);
    waitpid(rig.nodes[0], NULL, 0);
    rig.nodes[0] = 0;
    deadline = rig_now_ms() + 5000;
    while (rig_count_processes(worker) > 0 || rig_count_processes("sleep 100") > before) {
        cr_assert(rig_now_ms() < deadline, "workers or what they started live on after their node");
        rig_pause();
    }
}
