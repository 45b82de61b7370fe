/* pipes_test.c - who gets which run: room, depth, order, runs that want to be alone; leases; large
 * and many messages. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "rig.h"

TestSuite(pipes, .timeout = 60);

Test(pipes, one_task_a_worker_while_nothing_is_known) {
    struct rig *rig = rig_create("normal");
    rig->spec.workers = 3;
    rig_open(rig);
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    cr_assert_eq(rig->ops.state(rig->pool, NULL), POOL_STARTING);
    cr_assert_eq(rig_try(rig, "echo", false), STATUS_AGAIN);
    rig_wait_room(rig, 3);
    cr_assert_geq(rig->changed_count, 3);
    cr_assert_eq(rig->ops.state(rig->pool, NULL), POOL_UP);
    for (int left = 3; left > 0; left--) {
        cr_assert_eq(rig->ops.room(rig->pool), left);
        cr_assert(rig->ops.has_idle(rig->pool));
        rig_start(rig, "sleep:50");
    }
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    cr_assert_not(rig->ops.has_idle(rig->pool));
    cr_assert_eq(rig_try(rig, "echo", false), STATUS_AGAIN);
    rig_wait_ends(rig, 3);
    cr_assert_eq(rig->ops.room(rig->pool), 3);
    rig_finish(rig);
}

Test(pipes, several_while_runs_are_short_and_results_in_order) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    for (int i = 0; i < 10; i++) {
        rig_run(rig, "echo"); /* says 100 us */
    }
    rig_freeze(rig);
    cr_assert_eq(rig->ops.room(rig->pool), 64);
    for (int i = 0; i < 64; i++) {
        rig_start(rig, "echo");
    }
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    cr_assert_eq(rig_try(rig, "echo", false), STATUS_AGAIN);
    rig_thaw(rig);
    rig_wait_ends(rig, 74);
    for (int i = 0; i < 74; i++) {
        cr_assert_eq(rig->ends[i].run, i + 1);
    }
    rig_finish(rig);
}

Test(pipes, a_worker_that_said_its_last_gets_nothing_more) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    for (int i = 0; i < 20; i++) {
        rig_run(rig, "echo");
    }
    rig_freeze(rig);
    uint64_t last = rig_start(rig, "last"), behind = rig_start(rig, "echo");
    rig_thaw(rig);
    rig_wait_ends(rig, 21);
    cr_expect_eq(rig_end_of(rig, last)->end, POOL_CRASH);
    cr_expect_str_eq(rig_end_of(rig, last)->kind, "no_answer");
    cr_expect_eq(rig->ops.room(rig->pool), 0);
    rig_wait_ends(rig, 22);
    cr_expect_eq(rig_end_of(rig, behind)->end, POOL_RETURNED, "%s", rig_end_of(rig, behind)->message);
    cr_expect_eq(rig_run(rig, "echo")->end, POOL_OK);
    rig_finish(rig);
}

Test(pipes, one_again_when_runs_get_long) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    for (int i = 0; i < 10; i++) {
        rig_run(rig, "echo");
    }
    rig_run(rig, "sleep:60");
    cr_assert_eq(rig->ops.room(rig->pool), 1);
    rig_finish(rig);
}

Test(pipes, nothing_more_behind_a_run_that_takes_long) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    for (int i = 0; i < 10; i++) {
        rig_run(rig, "echo");
    }
    rig_freeze(rig);
    rig_start(rig, "sleep:2000");
    cr_assert_eq(rig->ops.room(rig->pool), 63);
    rig_thaw(rig);
    rig_linger(rig, 50);
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    rig_wait_ends(rig, 11);
    rig_finish(rig);
}

Test(pipes, the_shortest_pipe_gets_the_next) {
    struct rig *rig = rig_create("normal");
    rig->spec.workers = 2;
    rig_open_up(rig);
    for (int i = 0; i < 20; i++) {
        rig_run(rig, "echo");
    }
    rig_freeze(rig);
    for (int i = 0; i < 8; i++) {
        rig_start(rig, "pid");
    }
    rig_thaw(rig);
    rig_wait_ends(rig, 28);
    int of_first = 0;
    for (int i = 20; i < 28; i++) {
        of_first += rig_number(&rig->ends[i]) == rig_number(&rig->ends[20]);
    }
    cr_assert_eq(of_first, 4);
    rig_finish(rig);
}

static int chained;

static void start_the_next(struct rig *rig, const struct rig_end *end) {
    cr_assert_eq(end->end, POOL_OK);
    if (chained > 0) {
        chained--;
        rig_start(rig, "echo");
    }
}

static bool chain_is_over(const struct rig *rig) {
    return chained == 0 && (uint64_t)rig->end_count == rig->next_run - 1;
}

Test(pipes, the_next_may_be_started_inside_of_ended) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    chained = 500;
    rig->on_ended = start_the_next;
    rig_start(rig, "echo");
    rig_wait(rig, chain_is_over);
    cr_assert_eq(rig->end_count, 501);
    rig_finish(rig);
}

/* ---- alone ---------------------------------------------------------------------------------- */

static uint64_t start_alone(struct rig *rig, const char *key) {
    return rig_start_task(rig, (struct pool_task){.attempt = 1, .alone = true}, key);
}

Test(pipes, alone_takes_a_worker_that_ran_nothing) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    start_alone(rig, "pid");
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig->ops.room(rig->pool), 1);
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), 1);
    rig_finish(rig);
}

Test(pipes, alone_waits_for_a_fresh_worker) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    for (int i = 0; i < 10; i++) {
        rig_run(rig, "echo");
    }
    int64_t used = rig_number(rig_run(rig, "pid"));
    uint64_t run = start_alone(rig, "pid");
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    rig_wait_ends(rig, 12);
    cr_assert_neq(rig_number(rig_end_of(rig, run)), used);
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), 2);
    rig_finish(rig);
}

Test(pipes, nothing_else_goes_to_a_worker_with_a_run_that_is_alone) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    for (int i = 0; i < 10; i++) {
        rig_run(rig, "echo");
    }
    start_alone(rig, "sleep:3000");
    for (int i = 0; i < 20; i++) {
        rig_linger(rig, 2);
        cr_assert_eq(rig->ops.room(rig->pool), 0);
    }
    rig_wait_ends(rig, 11);
    cr_assert_geq(rig->ops.room(rig->pool), 1);
    rig_finish(rig);
}

Test(pipes, alone_is_refused_while_every_worker_is_busy) {
    struct rig *rig = rig_create("normal");
    rig->spec.workers = 2;
    rig_open_up(rig);
    rig_start(rig, "sleep:100");
    rig_start(rig, "sleep:100");
    cr_assert_eq(rig_try(rig, "echo", true), STATUS_AGAIN);
    rig_wait_ends(rig, 2);
    start_alone(rig, "echo");
    start_alone(rig, "echo");
    cr_assert_eq(rig_try(rig, "echo", true), STATUS_AGAIN);
    rig_wait_ends(rig, 4);
    rig_finish(rig);
}

Test(pipes, alone_survives_a_fresh_worker_that_dies_first) {
    struct rig *rig = rig_create("slow:300");
    rig_open(rig);
    uint64_t run = start_alone(rig, "echo");
    rig_linger(rig, 50);
    kill(rig_pid_in(rig->log, "pid"), SIGKILL);
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig_end_of(rig, run)->end, POOL_OK);
    rig_finish(rig);
}

Test(pipes, one_that_waits_to_be_alone_can_be_interrupted_and_told) {
    struct rig *rig = rig_create("slow:100");
    rig->spec.workers = 2;
    rig_open(rig);
    uint64_t first = start_alone(rig, "told");
    uint64_t second = start_alone(rig, "echo");
    rig->ops.interrupt(rig->pool, second);
    rig->ops.interrupt(rig->pool, second);
    cr_assert_eq(rig->end_count, 0, "not inside of the call");
    rig->ops.tell(rig->pool, first, false, true);
    rig->ops.tell(rig->pool, first, true, false);
    rig_wait_ends(rig, 2);
    cr_assert_eq(rig_end_of(rig, second)->end, POOL_INTERRUPTED);
    cr_assert_eq(rig_number(rig_end_of(rig, first)), 3);
    rig_finish(rig);
}

/* ---- leases --------------------------------------------------------------------------------- */

Test(pipes, run_and_beat_carry_the_lease) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    int64_t lease_end_ms = clock_now_ms(&clock_boottime) + 60000;
    rig->ops.set_lease_end(rig->ops.context, lease_end_ms);
    cr_assert_eq(rig_number(rig_run(rig, "lease")), lease_end_ms);
    rig_start(rig, "beat");
    rig_linger(rig, 20);
    rig->ops.set_lease_end(rig->ops.context, lease_end_ms + 1);
    rig_wait_ends(rig, 2);
    cr_assert_eq(rig_number(&rig->ends[1]), lease_end_ms + 1);
    rig_finish(rig);
}

Test(pipes, a_run_that_waited_to_be_alone_has_the_newest_lease) {
    struct rig *rig = rig_create("slow:100");
    rig_open(rig);
    int64_t lease_end_ms = clock_now_ms(&clock_boottime) + 60000;
    rig->ops.set_lease_end(rig->ops.context, lease_end_ms);
    start_alone(rig, "lease");
    rig->ops.set_lease_end(rig->ops.context, lease_end_ms + 5000);
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig_number(&rig->ends[0]), lease_end_ms + 5000);
    rig_finish(rig);
}

Test(pipes, no_worker_is_started_without_a_lease) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    pid_t pid = (pid_t)rig_number(rig_run(rig, "pid"));
    rig->ops.set_lease_end(rig->ops.context, 1);
    kill(pid, SIGKILL); /* as its watchdog would */
    while (rig->ops.has_idle(rig->pool)) {
        rig_linger(rig, 1);
    }
    rig_linger(rig, 100);
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), 1);
    rig->ops.set_lease_end(rig->ops.context, clock_now_ms(&clock_boottime) + 60000);
    rig_wait_room(rig, 1);
    rig_finish(rig);
}

/* BEATs to a worker that does not read do not pile up. */
Test(pipes, a_thousand_beats_to_a_deaf_worker_cost_little) {
    struct rig *rig = rig_create("deaf");
    rig->spec.grace_ms = 0;
    rig_open_up(rig);
    char *payload = mem_alloc(3000000);
    memset(payload, ' ', 3000000);
    rig_start_task(rig, (struct pool_task){.payload = {payload, 3000000}}, "echo");
    free(payload);
    rig_linger(rig, 20);
    int64_t lease_end_ms = clock_now_ms(&clock_boottime) + 60000;
    for (int i = 0; i < 1000; i++) {
        rig->ops.set_lease_end(rig->ops.context, lease_end_ms + i);
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    }
    cr_assert_gt(rig_queued_bytes(rig), 1000000);
    cr_assert_lt(rig_queued_bytes(rig), 3000100);
    rig->ops.interrupt_all(rig->ops.context, true);
    rig_wait_ends(rig, 1);
    rig_finish(rig);
}

/* ---- descriptors, large and loud ------------------------------------------------------------ */

Test(pipes, a_worker_inherits_its_five_descriptors_only) {
    struct rig *rig = rig_create("normal");
    int leaky = open("/dev/null", O_RDONLY); /* a library that forgot O_CLOEXEC */
    int lock = open("/dev/null", O_RDONLY);
    cr_assert(leaky >= 0 && lock >= 0);
    rig->options.lock_fd = lock;
    rig_open_up(rig);
    cr_assert_eq(rig_number(rig_run(rig, "fds")), 0x1F);
    rig_finish(rig);
    close(leaky);
    close(lock);
}

Test(pipes, without_a_lock_there_are_four) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    cr_assert_eq(rig_number(rig_run(rig, "fds")), 0x0F);
    rig_finish(rig);
}

Test(pipes, noise_and_a_large_payload_at_once) { /* C50 */
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    size_t length = 5 * 1024 * 1024;
    char *payload = mem_alloc(length);
    memset(payload, 'x', length);
    payload[0] = payload[length - 1] = '"';
    rig_start_task(rig, (struct pool_task){.attempt = 1, .payload = {payload, length}},
                   "quiet_noise:2");
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig->ends[0].end, POOL_OK);
    cr_assert_eq(rig->ends[0].output_length, length);
    cr_assert_arr_eq(rig->ends[0].output, payload, length);
    free(payload);
    rig_finish(rig);
}

static long resident_kb(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    cr_assert_eq(fscanf(file, "%*d %ld", &pages), 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

Test(pipes, noise_costs_no_memory) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    rig_run(rig, "noise:1");
    long before_kb = resident_kb();
    for (int i = 0; i < 4; i++) {
        const struct rig_end *end = rig_run(rig, "noise:2");
        cr_assert_eq(end->end, POOL_FAIL);
        cr_assert_leq(strlen(end->last_output), 4096);
        const char *last = strrchr(end->last_output, '\n');
        cr_assert_str_eq(last, "\nthe very last line");
    }
    cr_assert_lt(resident_kb() - before_kb, 8 * 1024);
    cr_assert_lt(rig_count_in_log(rig, "worker.output "), 250, "the log has a brake");
    rig_finish(rig);
}

static int64_t cpu_ms(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static void go_on(struct rig *rig, const struct rig_end *end) {
    if (end->end == POOL_OK && rig->end_count < RIG_ENDS_MAX - 10) {
        rig_start(rig, "echo");
    }
}

static uint64_t talkative;

static bool talkative_is_over(const struct rig *rig) {
    return rig_end_of(rig, talkative) != NULL;
}

/* 32 million lines: one by one they would take the loop half a minute. */
Test(pipes, short_lines_without_end_cost_the_loop_little) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    int64_t before_ms = cpu_ms();
    talkative = rig_start(rig, "chatter:64");
    rig_wait(rig, talkative_is_over);
    int64_t used_ms = cpu_ms() - before_ms;
    cr_expect_lt(used_ms, 64 * 40, "%d ms", (int)used_ms);
    const struct rig_end *end = rig_end_of(rig, talkative);
    cr_expect_str_eq(strrchr(end->last_output, '\n'), "\nthe very last line");
    cr_expect_leq(rig_count_in_log(rig, "worker.output "), 250);
    rig_finish(rig);
}

/* The writer has to wait now and then: a share of the time is the loop's own. */
Test(pipes, one_that_talks_without_end_leaves_room_for_others) {
    struct rig *rig = rig_create("normal");
    rig->spec.workers = 2;
    rig_open_up(rig);
    rig->on_ended = go_on;
    talkative = rig_start(rig, "chatter:64");
    rig_start(rig, "echo");
    rig_wait(rig, talkative_is_over);
    cr_expect_gt(rig->end_count, 100, "%d", rig->end_count);
    rig->on_ended = NULL;
    rig_wait_ends(rig, (int)rig->next_run - 1);
    rig_finish(rig);
}

Test(pipes, a_large_output_and_then_small_ones) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    const struct rig_end *end = rig_run(rig, "large:20000000");
    cr_assert_eq(end->output_length, 20000000);
    cr_assert_eq(end->output[19999999], '"');
    cr_assert_eq(end->output[19999998], 'x');
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    rig_finish(rig);
}

/* The worker dies with most of the payload unread: the write fails, and nothing else. (C52) */
Test(pipes, a_worker_that_goes_without_reading) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    pid_t pid = (pid_t)rig_number(rig_run(rig, "pid"));
    kill(pid, SIGSTOP);
    char *payload = mem_alloc(8000000);
    memset(payload, ' ', 8000000);
    rig_start_task(rig, (struct pool_task){.payload = {payload, 8000000}}, "echo");
    free(payload);
    rig_linger(rig, 50);
    kill(pid, SIGKILL);
    rig_wait_ends(rig, 2);
    cr_assert_eq(rig->ends[1].end, POOL_LOST);
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    rig_finish(rig);
}
