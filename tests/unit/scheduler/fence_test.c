/* Claims, fences and what is sent again: design.md, "Complete" and "Alive". */
#include <criterion/criterion.h>
#include <string.h>

#include "rig.h"

TestSuite(fence, .timeout = 60);

static struct fake_plan forever(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    (void)run;
    usual.run_ms = -1;
    return usual;
}

/* Documents named x... stay in stage b, the others' runs are the usual ones. */
static struct fake_plan x_stays_in_b(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    if (run->key[0] == 'x' && run->stage[0] == 'b') {
        usual.run_ms = -1;
    }
    return usual;
}

static struct fake_plan b_stays(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    if (run->stage[0] == 'b') {
        usual.run_ms = -1;
    }
    return usual;
}

Test(fence, a_document_passes_all_stages_on_one_claim) {
    static const struct rig_stage stages[] = {RIG_HANDLER(2), RIG_HANDLER(2), RIG_HANDLER(2)};
    struct rig rig;
    rig_init(&rig, 3, stages);
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_eq(rig_row(&rig, "k")->step, 3);
    rig_run(&rig, 1500);
    cr_assert_eq(fake_store_batch_count(rig.store), 0);
    cr_assert(scheduler_is_dry(rig.scheduler));
    rig_finish(&rig);
}

Test(fence, sql_and_after_commit_stages_take_committed_tasks_only) {
    static const struct rig_stage stages[] = {RIG_HANDLER(2), RIG_AFTER_COMMIT(2), RIG_SQL(1)};
    struct rig rig;
    rig_init(&rig, 3, stages);
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_eq(rig_row(&rig, "k")->step, 1, "each stage had a claim of its own");
    cr_assert_str_eq(rig_last_run(&rig, "b")->input, "{\"s\":\"a\",\"v\":1}");
    rig_finish(&rig);
}

/* What is sent while the first ending is lost must be the same ending, though b could take the task by then. */
static void send_again(enum fake_fate fate) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 2, stages);
    rig.decide = x_stays_in_b;
    rig_start(&rig);
    rig_submit(&rig, "x");
    rig_run(&rig, 100);
    cr_assert(fake_pools_is_live(rig.pools, "x"));
    rig_submit(&rig, "k");
    while (!fake_pools_is_live(rig.pools, "k")) {
        rig_run(&rig, 1);
    }
    fake_client_script(rig.client, FAKE_TICK, (struct fake_script){.fate = fate, .before_ms = 20, .away_ms = 300});
    rig_run(&rig, 40);
    fake_pools_end(rig.pools, "x", POOL_OK, NULL);
    rig_until(&rig, "k", FAKE_DONE);
    rig_until(&rig, "x", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_eq(rig_runs_of(&rig, "a", "k"), 1);
    rig_finish(&rig);
}

Test(fence, an_ending_that_was_lost_is_sent_again_as_it_was) {
    send_again(FAKE_CUT_BEFORE);
}

Test(fence, an_ending_whose_answer_was_lost_is_recognised) {
    send_again(FAKE_CUT_AFTER);
}

Test(fence, an_ending_that_an_old_backend_commits_is_recognised) {
    send_again(FAKE_GHOST);
}

/* The tick fails until b is over too: the chain has grown, and is accepted transition by transition. */
Test(fence, a_chain_that_has_grown_is_sent_again_whole) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_HANDLER(1), RIG_HANDLER(1)};
    static const enum fake_fate fates[] = {FAKE_CUT_BEFORE, FAKE_CUT_AFTER, FAKE_UNAVAILABLE};
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        struct rig rig;
        rig_init(&rig, 3, stages);
        rig.script = (struct fake_script){.fate = fates[i], .before_ms = 15, .away_ms = 50};
        rig.script_begin = 'b';
        rig_start(&rig);
        rig_submit(&rig, "k");
        rig_until(&rig, "k", FAKE_DONE);
        rig_expect_done(&rig, "k");
        cr_assert_eq(rig.run_count, 3, "nothing ran twice");
        rig_finish(&rig);
    }
}

Test(fence, a_refused_claim_is_killed_and_dropped) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 2, stages);
    rig.decide = forever;
    rig.overlaps_allowed = 1;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 50);
    cr_assert(fake_pools_is_live(rig.pools, "k"));
    struct fake_row *row = rig_row(&rig, "k");
    row->claim++; /* somebody else has it now */
    fake_pools_end(rig.pools, "k", POOL_OK, NULL);
    rig_run(&rig, 5);
    rig_run(&rig, 200);
    cr_assert_eq(rig_runs_of(&rig, "b", "k"), 1);
    cr_assert_not(fake_pools_is_live(rig.pools, "k"), "what ran under the lost claim was not killed");
    cr_assert(rig_until_empty(&rig, 2000));
    cr_assert_eq(row->all_accepted, 0);
    rig_finish(&rig);
}

/* ---- claims that the node does not know of ------------------------------------------------------------------------ */

static void lose_claim(enum fake_fate fate) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 1, stages);
    rig_start(&rig);
    rig_run(&rig, 3000);
    fake_client_set_faults(rig.client, &(struct fake_faults){.ghost_ms = 1500});
    fake_client_script(rig.client, FAKE_TICK, (struct fake_script){.fate = fate, .before_ms = 5, .away_ms = 100});
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_lt(rig.time.now_ms, 4000 + 3500);
    cr_assert_eq(rig_row(&rig, "k")->all_rescues, 0);
    cr_assert_eq(rig.run_count, 1);
    rig_run(&rig, 5000);
    cr_assert_eq(fake_store_batch_count(rig.store), 0);
    rig_finish(&rig);
}

Test(fence, a_claim_whose_answer_was_lost_is_released) {
    lose_claim(FAKE_CUT_AFTER);
}

Test(fence, a_claim_that_an_old_backend_commits_late_is_released) {
    lose_claim(FAKE_GHOST);
}

/* A stop waits until what the store may hold for it is given back: or others would have to rescue it. */
Test(fence, a_node_with_claims_in_doubt_is_not_empty) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 1, stages);
    rig_start(&rig);
    rig_run(&rig, 3000);
    fake_client_script(rig.client, FAKE_TICK, (struct fake_script){.fate = FAKE_CUT_AFTER, .before_ms = 5, .away_ms = 100});
    rig_submit(&rig, "k");
    rig_run(&rig, 30);
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_RUNNING);
    scheduler_drain(rig.scheduler);
    cr_assert(rig_until_empty(&rig, 3000));
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_READY);
    rig_finish(&rig);
}

/* ---- one handler at a time ---------------------------------------------------------------------------------------- */

/* The definition changes under a chain: the row must stay running until what runs beyond it is dead. */
static struct fake_plan redefine_at_b(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    if (run->stage[0] == 'b') {
        const int order[] = {rig_stage_id(0), 40, rig_stage_id(1)};
        fake_store_define(rig->store, RIG_PIPELINE, 3, order);
        usual.run_ms = -1;
    }
    return usual;
}

Test(fence, a_chain_that_a_new_definition_cuts_is_over_before_the_row_goes) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 2, stages);
    rig.decide = redefine_at_b;
    rig_start(&rig);
    rig_submit(&rig, "k");
    while (rig.run_count < 2) {
        rig_run(&rig, 1);
    }
    rig_run(&rig, 2);
    scheduler_store_ready(rig.scheduler); /* the release of what is not known comes at once */
    rig_until(&rig, "k", FAKE_READY);
    const struct fake_row *row = rig_row(&rig, "k");
    cr_assert_eq(row->stage, 40);
    cr_assert_eq(row->all_attempts, 0);
    cr_assert_eq(rig_runs_of(&rig, "b", "k"), 1);
    cr_assert(rig_until_empty(&rig, 3000));
    rig_finish(&rig);
}

Test(fence, a_lost_claim_is_not_released_while_its_handler_lives) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 2, stages);
    rig.decide = b_stays;
    rig_start(&rig);
    rig_submit(&rig, "k");
    while (rig.run_count < 1) {
        rig_run(&rig, 1);
    }
    struct fake_row *row = rig_row(&rig, "k");
    row->step = 5; /* whatever made them differ: the store refuses, though the claim is this node's still */
    while (rig.run_count < 2) {
        rig_run(&rig, 1);
    }
    rig_run(&rig, 3);
    scheduler_store_ready(rig.scheduler);
    rig_until(&rig, "k", FAKE_READY);
    cr_assert(rig.runs[1].over);
    cr_assert_geq(rig.time.now_ms, rig.runs[1].over_ms);
    rig.decide = NULL;
    rig_until(&rig, "k", FAKE_DONE);
    rig_finish(&rig);
}

Test(fence, a_task_that_is_given_again_waits_for_the_end_of_its_older_run) {
    static const struct rig_stage stages[] = {RIG_HANDLER(2)};
    struct rig rig;
    rig_init(&rig, 1, stages);
    rig.decide = forever;
    rig.overlaps_allowed = 1;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 50);
    struct fake_row *row = rig_row(&rig, "k");
    row->status = FAKE_READY; /* by hand, in psql */
    scheduler_woken(rig.scheduler);
    rig_run(&rig, 100); /* the rig fails when two handlers of a task live */
    cr_assert_eq(rig.run_count, 2);
    cr_assert_geq(rig.runs[1].began_ms, rig.runs[0].over_ms);
    rig.decide = NULL;
    fake_pools_end(rig.pools, "k", POOL_OK, NULL);
    rig_until(&rig, "k", FAKE_DONE);
    rig_finish(&rig);
}
