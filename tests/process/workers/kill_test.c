/* kill_test.c - runs that are ended from outside: time-outs and interrupts reach the whole group,
 * and nothing of it lives when the end is told. (C11, C47, C48) */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "rig.h"

TestSuite(kills, .timeout = 60);

static struct rig *impatient_rig(int64_t timeout_ms, int64_t grace_ms) {
    struct rig *rig = rig_create("normal");
    rig->spec.timeout_ms = timeout_ms;
    rig->spec.grace_ms = grace_ms;
    rig_open_up(rig);
    return rig;
}

Test(kills, a_time_out_ends_a_run_by_term) {
    struct rig *rig = impatient_rig(1000, 10000);
    const struct rig_end *end = rig_run(rig, "hang");
    cr_assert_eq(end->end, POOL_TIMEOUT);
    cr_assert_str_eq(end->kind, "timeout");
    cr_assert_str_eq(end->message, "no answer within 1s");
    cr_assert_str_eq(end->last_output, "hanging");
    cr_assert(end->run_us >= 1000000 && end->run_us < 9000000, "%ld us", (long)end->run_us);
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    rig_finish(rig);
}

/* The grandchild's death is looked at in the event itself. */
static void no_process_of_the_run_lives(struct rig *rig, const struct rig_end *end) {
    (void)rig;
    if (end->end == POOL_TIMEOUT || end->end == POOL_INTERRUPTED || end->end == POOL_CRASH) {
        cr_assert_not(rig_process_lives(rig_pid_in(end->last_output, "grandchild")));
    }
}

Test(kills, a_time_out_ends_the_group_when_term_is_ignored) {
    struct rig *rig = impatient_rig(1000, 200);
    rig->on_ended = no_process_of_the_run_lives;
    int64_t started_ms = clock_now_ms(&clock_boottime);
    const struct rig_end *end = rig_run(rig, "stubborn");
    cr_assert_eq(end->end, POOL_TIMEOUT);
    cr_assert_geq(end->at_ms - started_ms, 1199, "the grace was not waited for");
    rig_finish(rig);
}

Test(kills, a_time_out_without_a_grace) {
    struct rig *rig = impatient_rig(1000, 0);
    rig->on_ended = no_process_of_the_run_lives;
    cr_assert_eq(rig_run(rig, "stubborn")->end, POOL_TIMEOUT);
    rig_finish(rig);
}

Test(kills, what_a_crashed_worker_left_in_its_group_is_killed) {
    struct rig *rig = impatient_rig(0, 10000);
    rig->on_ended = no_process_of_the_run_lives;
    cr_assert_eq(rig_run(rig, "orphan:11")->end, POOL_CRASH);
    rig_finish(rig);
}

/* As the node is process 1 of a container: what it inherits it has to reap. */
Test(kills, what_is_left_to_us_is_reaped) {
    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    struct rig *rig = impatient_rig(0, 10000);
    rig->on_ended = no_process_of_the_run_lives;
    cr_assert_eq(rig_run(rig, "orphan:11")->end, POOL_CRASH);
    rig_finish(rig); /* no child is left, not even a dead one */
}

/* As under an init that does not reap: a dead member of the group is no living one. */
Test(kills, a_dead_process_that_nobody_reaps_does_not_hold_up_the_end) {
    struct rig *rig = impatient_rig(0, 10000);
    const struct rig_end *end = rig_run(rig, "unreaped:11");
    cr_assert_eq(end->end, POOL_CRASH);
    pid_t daemon = rig_pid_in(end->last_output, "daemon");
    cr_assert(rig_process_lives(daemon));
    kill(daemon, SIGKILL);
    rig_finish(rig);
}

Test(kills, a_process_that_left_the_group_does_not_hold_up_the_end) {
    struct rig *rig = impatient_rig(0, 10000);
    cr_assert_eq(rig_run(rig, "daemon:0")->end, POOL_OK);
    while (rig_count_in_log(rig, "worker.ready") < 2) {
        rig_linger(rig, 1);
    }
    pid_t daemon = rig_pid_in(rig->log, "daemon");
    cr_assert(rig_process_lives(daemon));
    kill(daemon, SIGKILL);
    rig_finish(rig);
}

Test(kills, the_time_out_runs_from_the_moment_a_run_became_the_first) {
    struct rig *rig = rig_create("normal");
    rig->spec.timeout_ms = 2000;
    rig_open_up(rig);
    for (int i = 0; i < 20; i++) {
        rig_run(rig, "echo"); /* so fast that the pipe may hold several */
    }
    rig_freeze(rig);
    for (int i = 0; i < 4; i++) {
        rig_start(rig, "sleep:700");
    }
    rig_thaw(rig);
    rig_wait_ends(rig, 24);
    for (int i = 0; i < 24; i++) {
        cr_assert_eq(rig->ends[i].end, POOL_OK);
    }
    rig_finish(rig);
}

/* A run whose time-out passed is not saved by an answer during the grace. */
Test(kills, an_answer_during_the_grace_is_too_late) {
    struct rig *rig = impatient_rig(100, 400);
    cr_assert_eq(rig_run(rig, "late:250")->end, POOL_TIMEOUT);
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    rig_finish(rig);
}

/* The node was stopped, or its machine suspended: what the workers said meanwhile comes first. */
Test(kills, an_answer_that_waits_unread_is_in_time) {
    struct rig *rig = impatient_rig(300, 10000);
    rig_start(rig, "sleep:50");
    rig_linger(rig, 10);
    usleep(1500 * 1000); /* the loop stands still: that is the case */
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig->ends[0].end, POOL_OK);
    rig_finish(rig);
}

Test(kills, interrupt_kills_the_run_in_hand) {
    struct rig *rig = impatient_rig(0, 200);
    rig->on_ended = no_process_of_the_run_lives;
    uint64_t run = rig_start(rig, "stubborn");
    rig_wait_log(rig, "grandchild=", 1);
    rig->ops.interrupt(rig->pool, run);
    rig->ops.interrupt(rig->pool, run);
    rig->ops.interrupt(rig->pool, 4711);
    cr_assert_eq(rig->end_count, 0);
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig->ends[0].end, POOL_INTERRUPTED);
    rig_finish(rig);
}

/* Fills one worker's pipe: what is first in it hangs, the others wait behind. */
static struct rig *rig_with_deep_pipe(const char *first, int64_t grace_ms, const char *behind,
                                      int behind_count) {
    struct rig *rig = rig_create("normal");
    rig->spec.grace_ms = grace_ms;
    rig_open_up(rig);
    for (int i = 0; i < 20; i++) {
        rig_run(rig, "echo");
    }
    rig_freeze(rig);
    rig_start(rig, first); /* run 21 */
    for (int i = 0; i < behind_count; i++) {
        rig_start(rig, behind);
    }
    rig_thaw(rig);
    return rig;
}

Test(kills, runs_behind_one_that_is_interrupted_come_back_untouched) {
    struct rig *rig = rig_with_deep_pipe("hang", 100, "echo", 3);
    rig->ops.interrupt(rig->pool, 21);
    rig_wait_ends(rig, 24);
    cr_assert_eq(rig_end_of(rig, 21)->end, POOL_INTERRUPTED);
    for (uint64_t run = 22; run <= 24; run++) {
        cr_assert_eq(rig_end_of(rig, run)->end, POOL_RETURNED);
        cr_assert_eq(rig_end_of(rig, run)->run_us, 0);
    }
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    rig_finish(rig);
}

Test(kills, the_run_in_hand_may_finish_when_one_behind_it_is_interrupted) {
    struct rig *rig = rig_with_deep_pipe("sleep:30", 100, "echo", 3);
    rig->ops.interrupt(rig->pool, 23);
    rig_wait_ends(rig, 24);
    cr_assert_eq(rig_end_of(rig, 21)->end, POOL_OK);
    cr_assert_eq(rig_end_of(rig, 22)->end, POOL_OK);
    cr_assert_eq(rig_end_of(rig, 23)->end, POOL_INTERRUPTED);
    rig_finish(rig);
}

Test(kills, one_behind_a_run_that_hangs_is_interrupted_all_the_same) {
    struct rig *rig = rig_with_deep_pipe("hang", 100, "echo", 2);
    rig->ops.interrupt(rig->pool, 22);
    rig_wait_ends(rig, 23);
    cr_assert_eq(rig_end_of(rig, 21)->end, POOL_RETURNED);
    cr_assert_eq(rig_end_of(rig, 22)->end, POOL_INTERRUPTED);
    cr_assert_eq(rig_end_of(rig, 23)->end, POOL_RETURNED);
    rig_finish(rig);
}

Test(kills, a_crash_is_the_first_runs_fault_alone) {
    struct rig *rig = rig_with_deep_pipe("signal:11", 100, "echo", 3);
    rig_wait_ends(rig, 24);
    cr_assert_eq(rig_end_of(rig, 21)->end, POOL_CRASH);
    for (uint64_t run = 22; run <= 24; run++) {
        cr_assert_eq(rig_end_of(rig, run)->end, POOL_RETURNED);
    }
    rig_finish(rig);
}

/* It ignores TERM and answers: what lies behind must not be begun in the grace. */
Test(kills, nothing_is_begun_after_a_run_that_is_being_interrupted) {
    struct rig *rig = rig_with_deep_pipe("late:3000", 60000, "sleep:60000", 1);
    rig_wait_log(rig, "ignoring TERM", 1);
    rig->ops.interrupt(rig->pool, 21);
    rig_wait_ends(rig, 22);
    cr_assert_eq(rig_end_of(rig, 21)->end, POOL_INTERRUPTED);
    cr_assert_eq(rig_end_of(rig, 22)->end, POOL_RETURNED);
    rig_finish(rig);
}

static void interrupt_everything(bool now, int64_t grace_ms, int64_t at_most_ms) {
    struct rig *rig = rig_create("normal");
    rig->spec.workers = 3;
    rig->spec.grace_ms = grace_ms;
    rig->on_ended = no_process_of_the_run_lives;
    rig_open_up(rig);
    rig_start(rig, "stubborn");
    rig_start(rig, "stubborn");
    rig_wait_log(rig, "grandchild=", 2);
    int64_t asked_ms = clock_now_ms(&clock_boottime);
    rig->ops.interrupt_all(rig->ops.context, now);
    cr_assert_eq(rig->end_count, 0);
    rig_wait_ends(rig, 2);
    cr_assert_eq(rig->ends[0].end, POOL_INTERRUPTED);
    cr_assert_eq(rig->ends[1].end, POOL_INTERRUPTED);
    cr_assert_lt(clock_now_ms(&clock_boottime) - asked_ms, at_most_ms);
    rig_wait_room(rig, 3);
    rig_finish(rig);
}

Test(kills, interrupt_all_gives_a_grace) {
    interrupt_everything(false, 300, 15000);
}

Test(kills, interrupt_all_now_gives_none) {
    interrupt_everything(true, 60000, 15000);
}

Test(kills, a_second_interrupt_all_cuts_the_grace_short) {
    struct rig *rig = rig_create("normal");
    rig->spec.grace_ms = 60000;
    rig_open_up(rig);
    rig_start(rig, "stubborn");
    rig_wait_log(rig, "grandchild=", 1);
    rig->ops.interrupt_all(rig->ops.context, false);
    rig_linger(rig, 50);
    cr_assert_eq(rig->end_count, 0);
    rig->ops.interrupt_all(rig->ops.context, true);
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig->ends[0].end, POOL_INTERRUPTED);
    rig_finish(rig);
}

static int terms;

static void on_term(int number) {
    (void)number;
    terms++;
}

Test(kills, no_signal_reaches_our_own_group) {
    signal(SIGTERM, on_term);
    struct rig *rig = impatient_rig(50, 50);
    pid_t worker = (pid_t)rig_number(rig_run(rig, "pid"));
    cr_assert_eq(getpgid(worker), worker);
    cr_assert_eq(getsid(worker), worker);
    cr_assert_eq(rig_run(rig, "hang")->end, POOL_TIMEOUT);
    rig_finish(rig);
    cr_assert_eq(terms, 0);
}
