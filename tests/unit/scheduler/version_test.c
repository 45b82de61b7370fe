/* Newer versions and wishes: design.md, "On update" and "Told", and promise 4. */
#include <criterion/criterion.h>
#include <string.h>

#include "rig.h"

TestSuite(version, .timeout = 60);

static struct fake_plan long_a(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    usual.run_ms = run->stage[0] == 'a' ? 2500 : 10;
    return usual;
}

static struct fake_plan forever(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    (void)run;
    usual.run_ms = -1;
    return usual;
}

static const struct rig_stage two[] = {RIG_HANDLER(1), RIG_HANDLER(1)};

Test(version, several_updates_of_one_run_cost_one_more) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = long_a;
    rig_start(&rig);
    rig_submit(&rig, "k");
    for (int i = 0; i < 3; i++) {
        rig_run(&rig, 400);
        rig_submit(&rig, "k");
    }
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_eq(rig_row(&rig, "k")->done_version, 4);
    cr_assert_eq(rig_runs_of(&rig, "a", "k"), 2);
    cr_assert_eq(rig_runs_of(&rig, "b", "k"), 1, "a superseded document goes back when the stage in hand ends");
    cr_assert_eq(rig.told_superseded, 1, "told once, not each second");
    rig_finish(&rig);
}

Test(version, an_update_that_nobody_was_told_of_is_processed) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    rig_submit(&rig, "k");
    while (rig.run_count < 2) {
        rig_run(&rig, 1);
    }
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_eq(rig_row(&rig, "k")->done_version, 2);
    rig_finish(&rig);
}

/* ---- keep --------------------------------------------------------------------------------------------------------- */

static int versions[8], version_count;

static enum status note_version(struct rig *rig, const struct fake_row *row, const struct store_effect *effect) {
    (void)rig;
    (void)row;
    if (effect->statements[0].param_count > 1) {
        versions[version_count++] = effect->statements[0].params[1].data[0] - '0';
    }
    return STATUS_OK;
}

static struct fake_plan slow_a(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    usual.run_ms = run->stage[0] == 'a' ? 1500 : 10;
    return usual;
}

/* Superseded three times: it is finished at the version in hand, on one claim, through statements of all kinds. */
static void finish_once(int stage_count, const struct rig_stage *stages, enum fake_fate fate) {
    struct rig rig;
    rig_init(&rig, stage_count, stages);
    rig.decide = slow_a;
    rig.run_sql = note_version;
    version_count = 0;
    rig_start(&rig);
    rig_submit(&rig, "k")->superseded = 3;
    rig_run(&rig, 100);
    rig_submit(&rig, "k");
    fake_client_script(rig.client, FAKE_EFFECTS, (struct fake_script){.fate = fate, .before_ms = 5, .away_ms = 30});
    struct fake_row *row = rig_row(&rig, "k");
    while (row->done_version == 0) {
        rig_run(&rig, 1);
        cr_assert_lt(rig.time.now_ms, 20000, "it was never finished");
    }
    cr_assert_eq(row->done_version, 1);
    cr_assert_eq(rig_runs_at(&rig, "a", 1), 1);
    cr_assert_eq(rig.told_superseded, 0, "a run that shall be finished is not told to give up");
    for (int i = 0; i < stage_count; i++) {
        cr_assert_eq(fake_row_output(row, rig_stage_id(i))->version, 1);
    }
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_eq(row->superseded, 0);
    rig_finish(&rig);
}

Test(version, a_much_edited_document_is_finished_once) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_HANDLER(1), RIG_AFTER_COMMIT(1)};
    finish_once(3, stages, FAKE_FINE);
}

Test(version, a_much_edited_document_is_finished_also_through_sql) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_QUEUES_SQL(1), RIG_SQL(1), RIG_HANDLER(1)};
    static const enum fake_fate fates[] = {FAKE_FINE, FAKE_CUT_BEFORE, FAKE_CUT_AFTER, FAKE_GHOST, FAKE_UNAVAILABLE};
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        finish_once(4, stages, fates[i]);
        cr_assert_eq(versions[0], 1);
        cr_assert_eq(versions[version_count - 1], 2);
    }
}

Test(version, what_is_finished_starts_an_sql_stage_when_its_predecessor_is_committed) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_SQL(1)};
    struct rig rig;
    rig_init(&rig, 2, stages);
    rig.decide = slow_a;
    rig_start(&rig);
    rig_submit(&rig, "k")->superseded = 3;
    rig_run(&rig, 100);
    rig_submit(&rig, "k");
    rig.script = (struct fake_script){.before_ms = 300};
    rig.script_over = 'a';
    while (rig.script_over != 0) {
        rig_run(&rig, 1);
    }
    rig_run(&rig, 200);
    cr_assert_eq(fake_client_sent(rig.client, FAKE_EFFECTS), 0);
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_geq(rig.effects_run, 2);
    rig_finish(&rig);
}

/* ---- cancel ------------------------------------------------------------------------------------------------------- */

Test(version, a_cancelled_run_is_told_then_killed_and_uses_no_attempt) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = forever;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 100);
    fake_store_cancel(rig.store, rig_row(&rig, "k"));
    rig_until(&rig, "k", FAKE_CANCELLED);
    cr_assert_leq(rig.time.now_ms, 1000 + 5 + 100 + 1000 + 30 + 30 + 30, "later than is documented");
    cr_assert_eq(rig.told_cancelled, 1);
    cr_assert_eq(rig_row(&rig, "k")->all_attempts, 0);
    cr_assert(rig_until_empty(&rig, 50));
    rig_finish(&rig);
}

Test(version, a_submit_takes_an_older_wish_away) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = long_a;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 100);
    fake_store_cancel(rig.store, rig_row(&rig, "k"));
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_eq(rig_runs_of(&rig, "a", "k"), 2);
    rig_finish(&rig);
}

Test(version, a_cancelled_task_that_comes_back_unbegun_is_not_run) {
    static const struct rig_stage one[] = {RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 1, one);
    fake_pools_set(rig.pools, 2, 0, 5);
    rig.decide = forever;
    rig_start(&rig);
    rig_submit(&rig, "x");
    rig_submit(&rig, "k");
    rig_run(&rig, 100);
    cr_assert_eq(rig.run_count, 1, "the other one is in the worker's pipe");
    const char *running = rig.runs[0].key, *waiting = running[0] == 'x' ? "k" : "x";
    fake_store_cancel(rig.store, rig_row(&rig, waiting));
    int told = fake_client_sent(rig.client, FAKE_TICK);
    while (fake_client_sent(rig.client, FAKE_TICK) == told) {
        rig_run(&rig, 1);
    }
    rig_run(&rig, 2);
    rig.decide = NULL;
    fake_pools_end(rig.pools, running, POOL_CRASH, NULL);
    rig_until(&rig, waiting, FAKE_CANCELLED);
    cr_assert_eq(rig_runs_of(&rig, "a", waiting), 0);
    rig_until(&rig, running, FAKE_DONE);
    rig_finish(&rig);
}

/* Whether the effect was committed is not known: it is sent again as it was, whatever was told meanwhile. */
Test(version, a_wish_does_not_change_an_effect_whose_outcome_is_open) {
    static const struct rig_stage stages[][2] = {{RIG_QUEUES_SQL(1), RIG_HANDLER(1)}, {RIG_SQL(1), RIG_HANDLER(1)}};
    for (int kind = 0; kind < 2; kind++) {
        for (int superseded = 0; superseded < 2; superseded++) {
            struct rig rig;
            rig_init(&rig, 2, stages[kind]);
            rig_start(&rig);
            rig_submit(&rig, "k")->superseded = superseded == 0 ? 0 : 3;
            fake_client_script(rig.client, FAKE_EFFECTS,
                               (struct fake_script){.fate = FAKE_CUT_BEFORE, .before_ms = 20, .away_ms = 2500});
            while (fake_client_sent(rig.client, FAKE_EFFECTS) == 0) {
                rig_run(&rig, 1);
            }
            fake_store_cancel(rig.store, rig_row(&rig, "k"));
            rig_until(&rig, "k", FAKE_CANCELLED);
            cr_assert_eq(fake_client_sent(rig.client, FAKE_EFFECTS), 2);
            rig_finish(&rig);
        }
    }
}

Test(version, a_wish_takes_a_task_back_that_waits_for_its_sql) {
    static const struct rig_stage stages[] = {RIG_QUEUES_SQL(1)};
    struct rig rig;
    rig_init(&rig, 1, stages);
    struct fake_faults faults = {0};
    faults.per_mille[FAKE_EFFECTS][FAKE_UNAVAILABLE] = 1000;
    fake_client_set_faults(rig.client, &faults);
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 100);
    fake_store_cancel(rig.store, rig_row(&rig, "k"));
    rig_until(&rig, "k", FAKE_CANCELLED);
    cr_assert_eq(rig.effects_run, 0);
    cr_assert(rig_until_empty(&rig, 50));
    rig_finish(&rig);
}
