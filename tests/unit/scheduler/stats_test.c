/* Runs and waits as the store hears of them: each counted once, and said once a second at most. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "rig.h"

TestSuite(stats, .timeout = 60);

static const struct rig_stage two[] = {RIG_HANDLER(1), RIG_HANDLER(1)};

static void submit_many(struct rig *rig, int count) {
    for (int i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        rig_submit(rig, key);
    }
}

static void expect_all_counted(struct rig *rig) {
    const struct fake_stats *stats = fake_store_stats(rig->store);
    cr_assert_eq(stats->runs, rig->run_count, "%d of %d runs are counted", (int)stats->runs, rig->run_count);
    cr_assert_eq(stats->waits, rig->run_count);
    cr_assert_eq(stats->in_buckets, 2 * rig->run_count);
    cr_assert_eq(stats->run_us, 1000 * rig->run_count); /* what the fake pools say of each */
}

Test(stats, are_said_once_a_second) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    submit_many(&rig, 100);
    rig_run(&rig, 5000);
    cr_assert_eq(rig.run_count, 200);
    expect_all_counted(&rig);
    const struct fake_stats *stats = fake_store_stats(rig.store);
    cr_assert_leq(stats->ticks, 4);
    cr_assert_geq(stats->ticks, 2);
    cr_assert_geq(stats->shortest_ms, 990);
    int ticks = rig_count_calls(&rig, FAKE_TICK, 10000);
    cr_assert_leq(ticks, 22, "nothing is new: %d ticks", ticks);
    cr_assert_eq(fake_store_stats(rig.store)->ticks, stats->ticks);
    rig_finish(&rig);
}

Test(stats, count_once_though_answers_are_lost) {
    static const enum fake_fate fates[] = {FAKE_CUT_AFTER, FAKE_CUT_BEFORE, FAKE_GHOST, FAKE_UNAVAILABLE};
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        struct rig rig;
        struct fake_faults faults = {.away_ms = 50, .ghost_ms = 300};
        rig_init(&rig, 2, two);
        rig_start(&rig);
        faults.per_mille[FAKE_TICK][fates[i]] = 300;
        fake_client_set_faults(rig.client, &faults);
        submit_many(&rig, 50);
        rig_run(&rig, 4000);
        fake_client_set_faults(rig.client, &(struct fake_faults){0});
        cr_assert(rig_until_empty(&rig, 60000));
        rig_run(&rig, 3000);
        expect_all_counted(&rig);
        rig_finish(&rig);
    }
}

/* The second is not over, and the node ends: what it knows is said before. */
Test(stats, are_said_before_the_end) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    submit_many(&rig, 1);
    rig_until(&rig, "k0", FAKE_DONE);
    submit_many(&rig, 7);
    rig_run(&rig, 35);
    scheduler_drain(rig.scheduler);
    cr_assert(rig_until_empty(&rig, 900));
    cr_assert_gt(rig.run_count, 2);
    expect_all_counted(&rig);
    rig_finish(&rig);
}

/* A wait is from when the row was ready to when the run began; at a hand-over, from the end of the stage before. */
Test(stats, tell_how_long_a_task_was_ready) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    rig_pause(&rig, 0, true);
    rig_submit(&rig, "k0");
    rig_run(&rig, 5000);
    rig_pause(&rig, 0, false);
    rig_until(&rig, "k0", FAKE_DONE);
    rig_run(&rig, 1500);
    const struct fake_stats *stats = fake_store_stats(rig.store);
    cr_assert_eq(stats->waits, 2);
    cr_assert(stats->wait_us >= 5000 * 1000 && stats->wait_us < 5200 * 1000, "%lld us", (long long)stats->wait_us);
    rig_finish(&rig);
}

static enum status fails_once(struct rig *rig, const struct fake_row *row, const struct store_effect *effect) {
    (void)row;
    (void)effect;
    return rig->effects_run == 1 ? STATUS_INVALID : STATUS_OK;
}

Test(stats, count_runs_of_sql_stages_and_their_failures) {
    static const struct rig_stage sql[] = {RIG_SQL(1)};
    struct rig rig;
    rig_init(&rig, 1, sql);
    rig.run_sql = fails_once;
    rig_start(&rig);
    rig_submit(&rig, "k0");
    rig_run(&rig, 100);
    for (int i = 0; i < 100 && rig_row(&rig, "k0")->status != FAKE_DONE; i++) {
        rig_run(&rig, 1000);
        rig_tend(&rig);
    }
    rig_run(&rig, 1500);
    const struct fake_stats *stats = fake_store_stats(rig.store);
    cr_assert_eq(stats->runs, 2);
    cr_assert_eq(stats->failed, 1);
    cr_assert_eq(stats->waits, 2);
    rig_finish(&rig);
}

static struct fake_plan says_nonsense(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    usual.run_us = run->stage[0] == 'a' ? INT64_MAX : (int64_t)3600 * 1000 * 1000;
    return usual;
}

/* A worker's word for how long a run took is not trusted: neither a sum nor a wait may come out below nothing. */
Test(stats, of_a_run_that_claims_to_have_been_endless_are_bounded) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = says_nonsense;
    rig_start(&rig);
    submit_many(&rig, 20);
    rig_run(&rig, 5000);
    const struct fake_stats *stats = fake_store_stats(rig.store);
    cr_assert_eq(stats->runs, 40);
    cr_assert_eq(stats->in_buckets, 80);
    cr_assert_gt(stats->run_us, (int64_t)20 * 3600 * 1000 * 1000);
    cr_assert(stats->wait_us >= 0 && stats->wait_us < INT64_C(40) * 5000 * 1000, "%lld us", (long long)stats->wait_us);
    rig_finish(&rig);
}
