/* When the scheduler asks the store, and how often: design.md, "Woken", and no loop that spins. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

TestSuite(pace, .timeout = 60);

static const struct rig_stage one[] = {RIG_HANDLER(1)};
static const struct rig_stage two[] = {RIG_HANDLER(1), RIG_HANDLER(1)};

static void set_fault(struct rig *rig, enum fake_kind kind, enum fake_fate fate) {
    struct fake_faults faults = {0};
    faults.per_mille[kind][fate] = 1000;
    fake_client_set_faults(rig->client, &faults);
}

static void no_faults(struct rig *rig) {
    fake_client_set_faults(rig->client, &(struct fake_faults){0});
}

Test(pace, an_idle_node_polls_once_a_second) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    rig_run(&rig, 5000);
    cr_assert(scheduler_is_dry(rig.scheduler));
    int ticks = rig_count_calls(&rig, FAKE_TICK, 10000);
    cr_assert_leq(ticks, 22);
    cr_assert_geq(ticks, 9);
    rig_finish(&rig);
}

/* The row is locked by somebody's long transaction: neither do others wait for it, nor is it asked all the time. */
Test(pace, a_locked_row_is_asked_for_less_and_less_often) {
    struct rig rig;
    rig_init(&rig, 1, one);
    rig_start(&rig);
    rig_submit(&rig, "k");
    while (rig.run_count == 0) {
        rig_run(&rig, 1);
    }
    fake_store_lock(rig.store, rig_row(&rig, "k"), 5000);
    int ticks = rig_count_calls(&rig, FAKE_TICK, 4900);
    cr_assert_leq(ticks, 40, "it spins: %d ticks", ticks);
    rig_submit(&rig, "other");
    rig_run(&rig, 50);
    cr_assert_eq(rig_row(&rig, "other")->status, FAKE_DONE);
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_RUNNING);
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(rig.run_count, 2);
    rig_finish(&rig);
}

Test(pace, failing_ticks_are_not_hammered) {
    static const enum fake_fate fates[] = {FAKE_UNAVAILABLE, FAKE_INTERNAL};
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        struct rig rig;
        rig_init(&rig, 1, one);
        rig_start(&rig);
        set_fault(&rig, FAKE_TICK, fates[i]);
        rig_submit(&rig, "k");
        int ticks = rig_count_calls(&rig, FAKE_TICK, 5000);
        cr_assert_leq(ticks, 15, "it spins: %d ticks", ticks);
        cr_assert_geq(ticks, 4);
        no_faults(&rig);
        rig_run(&rig, 1100);
        cr_assert_eq(rig_row(&rig, "k")->status, FAKE_DONE);
        rig_finish(&rig);
    }
}

/* The release of unknown claims comes before a tick: when it fails, ticks must go on. */
Test(pace, failing_releases_are_not_hammered_and_hold_up_nothing) {
    static const enum fake_fate fates[] = {FAKE_UNAVAILABLE, FAKE_INTERNAL};
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        struct rig rig;
        rig_init(&rig, 1, one);
        rig_start(&rig);
        set_fault(&rig, FAKE_RELEASE, fates[i]);
        scheduler_store_ready(rig.scheduler);
        rig_submit(&rig, "k");
        int releases = rig_count_calls(&rig, FAKE_RELEASE, 5000);
        cr_assert_leq(releases, 7, "it spins: %d releases", releases);
        cr_assert_geq(releases, 3);
        cr_assert_eq(rig_row(&rig, "k")->status, FAKE_DONE);
        cr_assert_not(scheduler_is_empty(rig.scheduler), "what the store holds is still in doubt");
        no_faults(&rig);
        cr_assert(rig_until_empty(&rig, 2000));
        rig_finish(&rig);
    }
}

/* The claim saw nothing, and its answer is under way when the notification comes: it must not be forgotten. */
Test(pace, a_notification_is_not_lost_to_a_claim_under_way) {
    struct rig rig;
    rig_init(&rig, 1, one);
    rig_start(&rig);
    rig_run(&rig, 5000);
    int sent = fake_client_sent(rig.client, FAKE_TICK);
    fake_client_script(rig.client, FAKE_TICK, (struct fake_script){.before_ms = 0, .after_ms = 100});
    while (fake_client_sent(rig.client, FAKE_TICK) == sent) {
        rig_run(&rig, 1);
    }
    rig_run(&rig, 50);
    rig_submit(&rig, "k");
    rig_run(&rig, 70);
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_DONE);
    rig_finish(&rig);
}

static struct fake_plan crashes_once(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)run;
    if (rig->run_count == 1) {
        usual.end = POOL_CRASH;
    }
    return usual;
}

/* Nobody notifies of rows that a completion makes ready: the node that wrote it looks itself. */
Test(pace, what_goes_back_is_claimed_again_at_once) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = crashes_once;
    rig_start(&rig);
    rig_run(&rig, 5000);
    rig_submit(&rig, "k");
    rig_run(&rig, 60);
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_DONE);
    rig_finish(&rig);
}

Test(pace, a_newer_version_is_claimed_at_once) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    rig_run(&rig, 5000);
    rig_submit(&rig, "k");
    while (rig.run_count < 2) {
        rig_run(&rig, 1);
    }
    rig_submit(&rig, "k");
    rig_run(&rig, 60);
    rig_expect_done(&rig, "k");
    rig_finish(&rig);
}

/* A trickle without notifications: claims that find something, but less than they asked for, do not become rarer. */
Test(pace, a_stage_that_finds_something_is_looked_at_again_soon) {
    static const struct rig_stage wide[] = {RIG_HANDLER(8)};
    struct rig rig;
    rig_init(&rig, 1, wide);
    fake_store_mute(rig.store, true);
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    for (int i = 0; i < 20; i++) {
        rig_submit(&rig, "k")->priority = -i; /* before where the last claim ended */
        rig_run(&rig, 100);
        rig_expect_done(&rig, "k");
    }
    rig_finish(&rig);
}

Test(pace, a_paused_stage_is_not_asked_for) {
    struct rig rig;
    rig_init(&rig, 1, one);
    rig_start(&rig);
    rig_pause(&rig, 0, true);
    rig_submit(&rig, "k");
    rig_run(&rig, 1000);
    cr_assert_eq(rig_count_calls(&rig, FAKE_TICK, 10000), 0);
    rig_pause(&rig, 0, false);
    rig_run(&rig, 100);
    rig_expect_done(&rig, "k");
    rig_finish(&rig);
}

static struct fake_plan forever(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    (void)run;
    usual.run_ms = -1;
    return usual;
}

/* A node that says "busy" will look at the stage by itself: not one whose places are taken for long. */
Test(pace, a_stage_is_busy_while_its_claims_come_back_full) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = forever;
    rig_start(&rig);
    int stages[2];
    cr_assert_eq(scheduler_busy_stages(rig.scheduler, 2, stages), 0);
    rig_submit(&rig, "k");
    rig_run(&rig, 50);
    cr_assert_eq(scheduler_busy_stages(rig.scheduler, 2, stages), 1);
    cr_assert_eq(stages[0], rig_stage_id(0));
    rig_run(&rig, 1000);
    cr_assert_eq(scheduler_busy_stages(rig.scheduler, 2, stages), 0);
    rig_finish(&rig);
}

Test(pace, the_report_tells_what_is_in_hand) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = forever;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 50);
    struct scheduler_stage_report report;
    cr_assert_eq(scheduler_stage_count(rig.scheduler), 2);
    scheduler_report(rig.scheduler, 0, &report);
    cr_assert_eq(report.running, 1);
    cr_assert_eq(report.queued, 0);
    cr_assert_eq(report.stage_id, rig_stage_id(0));
    cr_assert_null(report.parked);
    fake_pools_end(rig.pools, "k", POOL_OK, NULL);
    rig_run(&rig, 5);
    scheduler_report(rig.scheduler, 0, &report);
    cr_assert_eq(report.running, 0);
    cr_assert_eq(report.runs, 1);
    rig_finish(&rig);
}

/* A priority is changed in the middle of a backlog: claims have gone past the place where the task stands now. */
Test(pace, a_woken_node_claims_from_the_front) {
    struct rig rig;
    rig_init(&rig, 1, one);
    rig_start(&rig);
    for (int i = 0; i < 80; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        rig_submit(&rig, key);
    }
    while (rig.run_count < 20) {
        rig_run(&rig, 1);
    }
    rig_row(&rig, "k79")->priority = -5;
    scheduler_woken(rig.scheduler);
    int before = rig.run_count;
    while (rig_runs_of(&rig, "a", "k79") == 0) {
        rig_run(&rig, 1);
    }
    cr_assert_leq(rig.run_count - before, 2, "%d others went before it", rig.run_count - before - 1);
    rig_finish(&rig);
}

/* Nobody was told of it: it is found all the same, while claims of a long backlog come back full. */
Test(pace, the_front_is_looked_at_once_a_second) {
    struct rig rig;
    rig_init(&rig, 1, one);
    rig_start(&rig);
    for (int i = 0; i < 200; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        rig_submit(&rig, key);
    }
    while (rig.run_count < 20) {
        rig_run(&rig, 1);
    }
    rig_row(&rig, "k199")->priority = -5;
    rig_run(&rig, 1050);
    cr_assert_eq(rig_runs_of(&rig, "a", "k199"), 1);
    cr_assert_lt(rig.run_count, 190, "the backlog is over: nothing is shown");
    rig_finish(&rig);
}
