/* Whose fault a failure is, and what follows: design.md, promises 5 and 6, and the counters of §3. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

TestSuite(failure, .timeout = 60);

static const struct rig_stage one[] = {RIG_HANDLER(1)};
static const struct rig_stage two[] = {RIG_HANDLER(1), RIG_HANDLER(1)};

static enum pool_end given_end;

/* Runs of keys that begin with b end as the test says. */
static struct fake_plan b_ends(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    if (run->key[0] == 'b') {
        usual.end = given_end;
    }
    return usual;
}

Test(failure, errors_use_attempts_up_to_the_limit) {
    struct rig rig;
    rig_init(&rig, 1, one);
    rig.decide = b_ends;
    given_end = POOL_RETRY;
    rig_start(&rig);
    rig_submit(&rig, "bad");
    rig_submit(&rig, "good");
    rig_until(&rig, "bad", FAKE_FAILED);
    cr_assert_eq(rig_runs_of(&rig, "a", "bad"), 3);
    cr_assert_eq(rig.runs[0].attempt, 1);
    cr_assert_eq(rig_last_run(&rig, "a")->attempt, 3);
    cr_assert_eq(rig_row(&rig, "bad")->attempt, 3);
    cr_assert_str_eq(rig_row(&rig, "bad")->kind, "error");
    rig_expect_done(&rig, "good");
    cr_assert_eq(rig_row(&rig, "good")->all_attempts, 0);
    int64_t done = 0, failed = 0;
    scheduler_totals(rig.scheduler, &done, &failed);
    cr_assert_eq(done, 1);
    cr_assert_eq(failed, 1);
    rig_finish(&rig);
}

Test(failure, a_permanent_error_fails_at_once) {
    struct rig rig;
    rig_init(&rig, 1, one);
    rig.decide = b_ends;
    given_end = POOL_FAIL;
    rig_start(&rig);
    rig_submit(&rig, "bad");
    rig_until(&rig, "bad", FAKE_FAILED);
    cr_assert_eq(rig.run_count, 1);
    rig_finish(&rig);
}

/* Three deaths, then alone in a fresh process, and only a death there quarantines it; attempts are not used. */
static void dies_always(enum pool_end end) {
    struct rig rig;
    rig_init(&rig, 1, one);
    rig.decide = b_ends;
    given_end = end;
    rig_start(&rig);
    rig_submit(&rig, "bad");
    rig_submit(&rig, "good");
    rig_until(&rig, "bad", FAKE_FAILED);
    rig_until(&rig, "good", FAKE_DONE);
    cr_assert_eq(rig_runs_of(&rig, "a", "bad"), 4);
    int alone = 0;
    for (int i = 0; i < rig.run_count; i++) {
        alone += rig.runs[i].alone;
    }
    cr_assert_eq(alone, 1);
    cr_assert(rig_last_run(&rig, "a")->alone);
    const struct fake_row *row = rig_row(&rig, "bad");
    cr_assert_str_eq(row->kind, "quarantine");
    cr_assert_eq(row->all_attempts, 0);
    cr_assert_eq(row->all_crashes, end == POOL_CRASH ? 4 : 0);
    cr_assert_eq(row->all_rescues, end == POOL_LOST ? 4 : 0);
    rig_finish(&rig);
}

Test(failure, crashes_are_counted_apart_and_the_last_ones_alone) {
    dies_always(POOL_CRASH);
}

Test(failure, lost_workers_are_counted_apart_and_the_last_ones_alone) {
    dies_always(POOL_LOST);
}

/* Alone and superseded three times: the claim stays, and still each stage is committed before the next begins. */
static struct fake_plan committed_before_b(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    cr_assert_eq(run->alone, run->version == 1);
    if (run->stage[0] == 'b' && run->alone) {
        const struct fake_output *output = fake_row_output(rig_row(rig, run->key), rig_stage_id(0));
        cr_assert_not_null(output, "b begins before a is committed");
        cr_assert_eq(output->version, run->version);
    }
    return usual;
}

Test(failure, a_task_alone_has_each_stage_committed_before_the_next) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = committed_before_b;
    rig.script = (struct fake_script){.before_ms = 50};
    rig.script_over = 'a';
    rig_start(&rig);
    struct fake_row *row = rig_submit(&rig, "k");
    row->crashes = 3;
    row->superseded = 3;
    while (rig.run_count == 0) {
        rig_run(&rig, 1);
    }
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_eq(rig_runs_at(&rig, "b", 1), 1);
    rig_finish(&rig);
}

Test(failure, a_task_alone_is_not_handed_over) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    rig_submit(&rig, "k")->rescues = 3;
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert(rig.runs[0].alone);
    cr_assert_not(rig.runs[1].alone, "the stage that was passed is not the next one's fault");
    cr_assert_eq(rig_row(&rig, "k")->step, 1);
    rig_finish(&rig);
}

Test(failure, those_behind_a_crash_in_the_pipe_are_not_blamed) {
    struct rig rig;
    rig_init(&rig, 1, one);
    fake_pools_set(rig.pools, 4, 0, 5);
    rig.decide = b_ends;
    given_end = POOL_CRASH;
    rig_start(&rig);
    rig_submit(&rig, "bad");
    for (int i = 0; i < 3; i++) {
        char key[8];
        snprintf(key, sizeof key, "good%d", i);
        rig_submit(&rig, key);
    }
    rig_until(&rig, "bad", FAKE_FAILED);
    for (int i = 1; i < 4; i++) {
        const struct fake_row *row = fake_store_row(rig.store, i);
        cr_assert_eq(row->status, FAKE_DONE);
        cr_assert_eq(row->all_attempts + row->all_crashes + row->all_rescues, 0);
        cr_assert_eq(rig_runs_of(&rig, "a", row->key), 1);
    }
    rig_finish(&rig);
}

Test(failure, a_task_that_no_worker_can_take_fails_alone) {
    struct rig rig;
    rig_init(&rig, 1, one);
    rig_start(&rig);
    struct fake_row *row = rig_submit(&rig, "large");
    snprintf(row->payload, sizeof row->payload, "\"%s\"", "123456789012345678901234");
    rig_submit(&rig, "good");
    rig_until(&rig, "large", FAKE_FAILED);
    rig_until(&rig, "good", FAKE_DONE);
    cr_assert_str_eq(row->kind, "permanent");
    rig_finish(&rig);
}

/* ---- what the store refuses --------------------------------------------------------------------------------------- */

/* Keys that begin with b return in stage a what jsonb refuses; b of such a key goes on, or fails. */
static int64_t b_run_ms;
static enum pool_end b_end;

static struct fake_plan bad_output(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    if (run->key[0] == 'b' && run->stage[0] == 'a') {
        usual.output = "\"\\u0000\"";
    } else if (run->key[0] == 'b') {
        usual.run_ms = b_run_ms;
        usual.end = b_end;
    }
    return usual;
}

static void refuse_output(int stage_count) {
    struct rig rig;
    rig_init(&rig, stage_count, two);
    rig.stages[0].workers = rig.stages[0].pool.workers = 8;
    rig.stages[1].workers = rig.stages[1].pool.workers = 8;
    rig.decide = bad_output;
    rig_start(&rig);
    for (int i = 0; i < 8; i++) {
        char key[8];
        snprintf(key, sizeof key, i == 3 || i == 6 ? "bad%d" : "good%d", i);
        rig_submit(&rig, key);
    }
    rig_until(&rig, "bad3", FAKE_FAILED);
    rig_until(&rig, "bad6", FAKE_FAILED);
    rig_run(&rig, 500);
    for (int i = 0; i < 8; i++) {
        const struct fake_row *row = fake_store_row(rig.store, i);
        bool bad = row->key[0] == 'b';
        cr_assert_eq(row->status, bad ? FAKE_FAILED : FAKE_DONE, "%s is %s", row->key, fake_status_name(row->status));
        cr_assert_eq(row->all_attempts, bad ? 1 : 0);
        cr_assert_eq(rig_runs_of(&rig, "a", row->key), 1, "%s ran again and again", row->key);
        if (bad) {
            cr_assert_str_eq(row->kind, "output");
            cr_assert_eq(row->stage, rig_stage_id(0));
        }
    }
    rig_finish(&rig);
}

Test(failure, a_refused_output_fails_its_own_task) {
    refuse_output(1);
}

/* It was handed over: the store hears of the bad output when the next stage runs already. */
Test(failure, a_refused_output_fails_its_own_task_while_the_next_stage_runs) {
    b_run_ms = -1;
    b_end = POOL_OK;
    refuse_output(2);
}

Test(failure, a_refused_output_fails_its_own_task_when_the_next_stage_has_failed) {
    b_run_ms = 0;
    b_end = POOL_FAIL;
    refuse_output(2);
}

Test(failure, a_refused_output_fails_its_own_task_in_an_effect) {
    static const struct rig_stage stages[] = {RIG_QUEUES_SQL(4)};
    struct rig rig;
    rig_init(&rig, 1, stages);
    rig.decide = bad_output;
    rig_start(&rig);
    rig_submit(&rig, "good");
    rig_submit(&rig, "bad");
    rig_submit(&rig, "fine");
    rig_until(&rig, "bad", FAKE_FAILED);
    rig_until(&rig, "good", FAKE_DONE);
    rig_until(&rig, "fine", FAKE_DONE);
    cr_assert_eq(rig_row(&rig, "good")->all_attempts + rig_row(&rig, "fine")->all_attempts, 0);
    rig_finish(&rig);
}

/* ---- pauses and parked pools -------------------------------------------------------------------------------------- */

static void claim_slowly(struct rig *rig, const char *key) {
    int sent = fake_client_sent(rig->client, FAKE_TICK);
    fake_client_script(rig->client, FAKE_TICK, (struct fake_script){.before_ms = 5, .after_ms = 50});
    rig_submit(rig, key);
    while (fake_client_sent(rig->client, FAKE_TICK) == sent) {
        rig_run(rig, 1);
    }
    rig_run(rig, 6);
    cr_assert_eq(rig_row(rig, key)->status, FAKE_RUNNING);
}

Test(failure, a_paused_stage_starts_nothing_and_keeps_nothing) {
    struct rig rig;
    rig_init(&rig, 1, one);
    rig_start(&rig);
    claim_slowly(&rig, "k");
    rig_pause(&rig, 0, true);
    rig_run(&rig, 3000);
    cr_assert_eq(rig.run_count, 0);
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_READY);
    cr_assert(scheduler_is_empty(rig.scheduler));
    rig_pause(&rig, 0, false);
    rig_run(&rig, 30);
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_DONE, "and goes on at once");
    rig_finish(&rig);
}

Test(failure, what_waits_for_a_parked_pool_is_given_back) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    claim_slowly(&rig, "k");
    fake_pools_park(rig.pools, "a");
    cr_assert(rig_until_empty(&rig, 500));
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_READY);
    cr_assert_eq(rig_row(&rig, "k")->all_attempts, 0);
    struct scheduler_stage_report report;
    scheduler_report(rig.scheduler, 0, &report);
    cr_assert_not_null(report.parked);
    rig_run(&rig, 3000);
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_READY, "and is left to others");
    cr_assert(scheduler_is_dry(rig.scheduler), "a stage that can claim nothing is dry");
    rig_finish(&rig);
}
