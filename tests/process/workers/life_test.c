/* life_test.c - starts that fail, brakes, parking, closing; nothing is left behind after many
 * deaths. (C18, C53) */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

TestSuite(life, .timeout = 60);

static bool is_parked(const struct rig *rig) {
    return rig->ops.state(rig->pool, NULL) == POOL_PARKED;
}

struct park_case {
    const char *handler_name, *reason;
    int starts;
};

static struct park_case park_cases[] = {
    {"exit:1", "exited with status 1 before it was ready: boot: the model file is missing", 11},
    {"signal:11", "crashed: signal 11 (SIGSEGV)", 11},
    {"signal:9", "killed by signal 9 (SIGKILL)", 11},
    {"refuse", "no such handler: \"shout\"", 3},
    {"refuse_and_stay", "cannot work", 3},
    {"silent", "silence at start", 11},
    {"garbage", NULL, 11},
    {"result", "a result without a task in hand", 11},
    {"stop", "a message of type 5, which only a node sends", 11},
    {"old", NULL, 11},
    {"ready_twice", "READY out of place", 11},
    {"full", "FULL before its first task", 11},
    {"idle_exit:0", "exited with status 5 before it was told to", 11},
};

ParameterizedTestParameters(life, bad_starts_park_the_pool) {
    return cr_make_param_array(struct park_case, park_cases,
                               sizeof park_cases / sizeof park_cases[0]);
}

ParameterizedTest(struct park_case *wanted, life, bad_starts_park_the_pool, .timeout = 60) {
    struct rig *rig = rig_create(wanted->handler_name);
    rig->options.start_timeout_ms = strcmp(wanted->handler_name, "silent") == 0 ? 100 : 0;
    rig_open(rig);
    rig_wait(rig, is_parked);
    const char *reason = NULL;
    rig->ops.state(rig->pool, &reason);
    if (wanted->reason != NULL) {
        cr_assert_str_eq(reason, wanted->reason);
    } else {
        cr_assert_str_not_empty(reason);
    }
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), wanted->starts);
    cr_assert_eq(rig_count_in_log(rig, "pool.parked"), 1);
    rig_linger(rig, 50);
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), wanted->starts);
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    cr_assert_eq(rig_try(rig, "echo", false), STATUS_AGAIN);
    cr_assert_eq(rig_try(rig, "echo", true), STATUS_UNAVAILABLE);
    rig_finish(rig);
}

Test(life, many_workers_do_not_multiply_the_starts_of_a_pool_that_fails) {
    struct rig *rig = rig_create("exit:1");
    rig->spec.workers = 4;
    rig_open(rig);
    rig_wait(rig, is_parked);
    rig_linger(rig, 50);
    cr_assert_leq(rig_count_in_log(rig, "worker.start"), 12);
    rig_finish(rig);
}

Test(life, the_defaults_wait_between_starts) {
    struct rig *rig = rig_create("exit:1");
    rig->options.restart = (struct backoff){0};
    rig->options.short_life_pause_ms = 0;
    rig_open(rig);
    rig_linger(rig, 2500);
    int starts = rig_count_in_log(rig, "worker.start");
    cr_assert(starts >= 2 && starts <= 3, "%d starts", starts);
    rig_finish(rig);
}

Test(life, one_that_waits_to_be_alone_comes_back_when_the_pool_is_parked) {
    struct rig *rig = rig_create("refuse");
    rig_open(rig);
    rig_start_task(rig, (struct pool_task){.alone = true}, "echo");
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig->ends[0].end, POOL_RETURNED);
    cr_assert(is_parked(rig));
    rig_finish(rig);
}

Test(life, a_program_that_is_missing_is_refused_at_once) {
    struct rig *rig = rig_create("normal");
    struct error err = ERROR_NONE;
    rig->options.program = "/nonexistent/pgstage-worker";
    cr_assert_eq(workers_create(&rig->loop, &rig->options, &rig->ops, &rig->workers, &err),
                 STATUS_INVALID);
    cr_assert_str_eq(err.text,
                     "worker program /nonexistent/pgstage-worker: No such file or directory");
    uv_loop_close(&rig->loop);
}

/* As during an upgrade. */
Test(life, a_program_that_vanishes_parks_the_pool) {
    char path[] = "/tmp/pgstage-worker-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && fchmod(fd, 0755) == 0);
    close(fd);
    struct rig *rig = rig_create("normal");
    rig->options.program = path;
    rig->before_pool = unlink;
    rig_open(rig);
    rig_wait(rig, is_parked);
    const char *reason;
    rig->ops.state(rig->pool, &reason);
    cr_assert_not_null(strstr(reason, "cannot start /tmp/pgstage-worker-"), "%s", reason);
    cr_assert_not_null(strstr(reason, "no such file"), "%s", reason);
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), 0);
    rig_finish(rig);
}

Test(life, bad_pools_are_refused) {
    struct rig *rig = rig_create("normal");
    rig_open(rig);
    struct pool *pool = NULL;
    struct pool_spec none = rig->spec;
    none.workers = 0;
    const struct pool_events events = {.context = rig};
    cr_assert_eq(rig->ops.open(rig->ops.context, &none, &events, &pool, NULL), STATUS_INVALID);
    cr_assert_null(pool);
    rig_finish(rig);
}

/* ---- deaths under tasks --------------------------------------------------------------------- */

static int count_zombies(void) {
    siginfo_t info = {0};
    int count = 0;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        count++;
    }
    return count;
}

Test(life, two_hundred_crashes_leave_nothing, .timeout = 300) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    cr_assert_eq(rig_run(rig, "signal:11")->end, POOL_CRASH);
    rig_wait_room(rig, 1);
    rig_linger(rig, 20);
    int fds = rig_count_fds();
    for (int i = 0; i < 200; i++) {
        cr_assert_eq(rig_run(rig, i % 2 == 0 ? "signal:11" : "exit:1")->end, POOL_CRASH);
    }
    rig_wait_room(rig, 1);
    rig_linger(rig, 20);
    cr_assert_eq(rig_count_fds(), fds);
    cr_assert_eq(count_zombies(), 0);
    cr_assert_eq(rig->ops.state(rig->pool, NULL), POOL_UP, "crashes under tasks do not park");
    rig_finish(rig);
}

Test(life, crashes_without_a_result_in_between_are_slowed) {
    struct rig *rig = rig_create("normal");
    rig->options.restart = (struct backoff){BACKOFF_CONSTANT, 3000, 3000, 0};
    rig_open_up(rig);
    for (int i = 0; i < 5; i++) {
        rig_run(rig, "signal:11");
    }
    rig_wait_room(rig, 1);
    int64_t before_ms = clock_now_ms(&clock_boottime);
    rig_run(rig, "signal:11");
    rig_wait_room(rig, 1);
    cr_assert_geq(clock_now_ms(&clock_boottime) - before_ms, 2999);
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    before_ms = clock_now_ms(&clock_boottime);
    rig_run(rig, "signal:11");
    rig_wait_room(rig, 1);
    cr_assert_lt(clock_now_ms(&clock_boottime) - before_ms, 2900, "a result made them forgiven");
    rig_finish(rig);
}

Test(life, healthy_workers_go_on_beside_a_poison_task) {
    struct rig *rig = rig_create("normal");
    rig->spec.workers = 2;
    rig_open_up(rig);
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(rig_run(rig, i % 10 == 5 ? "signal:6" : "echo")->end,
                     i % 10 == 5 ? POOL_CRASH : POOL_OK);
    }
    rig_finish(rig);
}

/* ---- closing -------------------------------------------------------------------------------- */

static bool is_closed(const struct rig *rig) {
    return rig->closed_count > 0;
}

Test(life, close_lets_runs_finish) {
    struct rig *rig = rig_create("normal");
    rig->spec.workers = 2;
    rig_open_up(rig);
    rig_start(rig, "sleep:3000");
    rig->ops.close(rig->pool);
    rig->ops.close(rig->pool);
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    cr_assert_not(rig->ops.has_idle(rig->pool));
    cr_assert_eq(rig_try(rig, "echo", false), STATUS_UNAVAILABLE);
    rig_linger(rig, 100);
    cr_assert_eq(rig->closed_count, 0);
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig->ends[0].end, POOL_OK);
    rig_finish(rig);
}

Test(life, close_with_a_full_pipe) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    for (int i = 0; i < 10; i++) {
        rig_run(rig, "echo");
    }
    rig_freeze(rig);
    for (int i = 0; i < 64; i++) {
        rig_start(rig, "echo");
    }
    rig_thaw(rig);
    rig->ops.close(rig->pool);
    rig_wait(rig, is_closed);
    cr_assert_eq(rig->end_count, 74);
    rig_finish(rig);
}

Test(life, close_while_workers_start) {
    struct rig *rig = rig_create("slow:30000");
    rig->spec.workers = 3;
    rig_open(rig);
    rig_start_task(rig, (struct pool_task){.alone = true}, "echo");
    rig->ops.close(rig->pool);
    cr_assert_eq(rig->end_count, 0);
    rig_wait(rig, is_closed);
    cr_assert_eq(rig->ends[0].end, POOL_RETURNED);
    rig_finish(rig);
}

Test(life, close_before_the_loop_turned) {
    struct rig *rig = rig_create("normal");
    rig_open(rig);
    rig->ops.close(rig->pool);
    cr_assert_eq(rig->closed_count, 0);
    rig_finish(rig);
}

Test(life, close_then_interrupt) {
    struct rig *rig = rig_create("normal");
    rig->spec.grace_ms = 100;
    rig_open_up(rig);
    rig_start(rig, "stubborn");
    rig_wait_log(rig, "grandchild=", 1);
    rig->ops.close(rig->pool);
    rig->ops.interrupt_all(rig->ops.context, false);
    rig_wait(rig, is_closed);
    cr_assert_eq(rig->ends[0].end, POOL_INTERRUPTED);
    rig_finish(rig);
}

Test(life, interrupt_all_now_ends_a_worker_that_does_not_stop) {
    struct rig *rig = rig_create("slow_fini");
    rig->spec.grace_ms = 60000;
    rig_open_up(rig);
    rig->ops.close(rig->pool);
    rig_linger(rig, 50);
    cr_assert_eq(rig->closed_count, 0);
    rig->ops.interrupt_all(rig->ops.context, true);
    rig_wait(rig, is_closed);
    rig_finish(rig);
}

static void close_the_pool(struct rig *rig, const struct rig_end *end) {
    (void)end;
    rig->ops.close(rig->pool);
}

Test(life, close_inside_of_ended) {
    struct rig *rig = rig_create("normal");
    rig->on_ended = close_the_pool;
    rig_open_up(rig);
    rig_start(rig, "echo");
    rig_wait(rig, is_closed);
    rig_finish(rig);
}

Test(life, close_inside_of_the_end_of_a_crashed_run) {
    struct rig *rig = rig_create("normal");
    rig->on_ended = close_the_pool;
    rig_open_up(rig);
    rig_start(rig, "signal:11");
    rig_wait(rig, is_closed);
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), 1);
    rig_finish(rig);
}

Test(life, a_worker_that_crashes_while_stopping_harms_nobody) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    pid_t pid = (pid_t)rig_number(rig_run(rig, "pid"));
    rig->ops.close(rig->pool);
    kill(pid, SIGSEGV);
    rig_wait(rig, is_closed);
    rig_finish(rig);
}

/* Killed as soon as it was started, by somebody. (C48) */
Test(life, killing_a_worker_right_after_its_start) {
    struct rig *rig = rig_create("normal");
    rig_open(rig);
    for (int starts = 1; starts <= 9; starts++) {
        cr_assert_eq(rig_count_in_log(rig, "worker.start "), starts);
        const char *last = rig->log, *next;
        while ((next = strstr(last + 1, "worker.start ")) != NULL) {
            last = next;
        }
        kill(rig_pid_in(last, "pid"), SIGKILL);
        while (rig_count_in_log(rig, "worker.start ") == starts) {
            uv_run(&rig->loop, UV_RUN_ONCE);
        }
    }
    rig_wait_room(rig, 1);
    rig_finish(rig);
}
