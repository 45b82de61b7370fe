/* recycle_test.c - workers that are replaced after so many runs, or when they have grown too large. (C18) */
#include <criterion/criterion.h>

#include "rig.h"

TestSuite(recycle, .timeout = 60);

/* Brakes that would be felt: a start that counted as a failure's waits for minutes. */
static struct rig *braked_rig(int recycle_runs) {
    struct rig *rig = rig_create("normal");
    rig->options.restart = (struct backoff){BACKOFF_CONSTANT, 300000, 300000, 0};
    rig->options.short_life_pause_ms = 300000;
    rig->spec.recycle_runs = recycle_runs;
    return rig;
}

Test(recycle, a_worker_is_replaced_after_its_runs) {
    struct rig *rig = braked_rig(3);
    rig_open_up(rig);
    int64_t pids[9];
    for (int i = 0; i < 9; i++) {
        pids[i] = rig_number(rig_run(rig, "pid"));
    }
    for (int i = 1; i < 9; i++) {
        cr_expect_eq(pids[i] == pids[i - 1], i % 3 != 0, "run %d", i);
    }
    rig_wait_log(rig, "worker.end", 3);
    cr_expect_eq(rig_count_in_log(rig, "stopped"), 3);
    cr_expect_eq(rig_count_in_log(rig, "signal=0"), 3, "in order");
    rig_wait_room(rig, 1);
    rig_finish(rig);
}

/* One worker, and more tasks than it may run: they wait for the fresh one. */
Test(recycle, room_ends_where_the_worker_does) {
    struct rig *rig = braked_rig(20);
    rig_open_up(rig);
    for (int i = 0; i < 15; i++) {
        rig_run(rig, "echo"); /* short ones: the pipe gets deep */
    }
    rig_freeze(rig);
    cr_assert_eq(rig->ops.room(rig->pool), 5);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(rig->ops.room(rig->pool), 5 - i);
        rig_start(rig, "echo");
    }
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    cr_assert_not(rig->ops.has_idle(rig->pool));
    cr_assert_eq(rig_try(rig, "echo", false), STATUS_AGAIN);
    rig_thaw(rig);
    rig_wait_ends(rig, 20);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(rig->ends[i].end, POOL_OK);
    }
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), 2);
    rig_finish(rig);
}

static void expect_replaced_when_full(const char *key) {
    struct rig *rig = braked_rig(0);
    rig_open_up(rig);
    int64_t before = rig_number(rig_run(rig, key));
    rig_wait_log(rig, "worker.ready", 2);
    cr_assert_neq(rig_number(rig_run(rig, "pid")), before);
    cr_assert_eq(rig_count_in_log(rig, "worker.end"), 1);
    rig_finish(rig);
}

Test(recycle, a_worker_that_is_full_before_its_answer_is_replaced) {
    expect_replaced_when_full("full:0");
}

Test(recycle, a_worker_that_is_full_behind_its_answer_is_replaced) {
    expect_replaced_when_full("full:1");
}

Test(recycle, what_is_in_the_pipe_of_a_full_worker_is_run_first) {
    struct rig *rig = braked_rig(0);
    rig_open_up(rig);
    for (int i = 0; i < 10; i++) {
        rig_run(rig, "echo");
    }
    rig_freeze(rig);
    uint64_t first = rig_start(rig, "full:0"), last = 0;
    for (int i = 0; i < 10; i++) {
        last = rig_start(rig, "pid");
    }
    rig_thaw(rig);
    rig_wait_ends(rig, 21);
    cr_assert_eq(rig_number(rig_end_of(rig, last)), rig_number(rig_end_of(rig, first)));
    rig_wait_log(rig, "worker.ready", 2);
    rig_finish(rig);
}

/* What wants to be alone gets the fresh worker that comes anyway, or one that is made for it. */
Test(recycle, alone_after_the_last_run) {
    struct rig *rig = braked_rig(1);
    rig_open_up(rig);
    for (int i = 0; i < 3; i++) {
        rig_wait_room(rig, 1);
        rig_start_task(rig, (struct pool_task){.attempt = 1, .alone = true}, "pid");
        rig_wait_ends(rig, i + 1);
    }
    cr_assert_neq(rig_number(&rig->ends[0]), rig_number(&rig->ends[1]));
    cr_assert_neq(rig_number(&rig->ends[1]), rig_number(&rig->ends[2]));
    rig_wait_log(rig, "worker.end", 3);
    rig_finish(rig);
}
