/* User SQL: design.md, "User SQL", and promise 3. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

TestSuite(effect, .timeout = 60);

static const struct rig_stage queues[] = {RIG_HANDLER(1), RIG_QUEUES_SQL(1), RIG_HANDLER(1)};

/* The tick that would carry the first transition fails, while the second stage ends and queues SQL. */
static void two_in_one(enum fake_fate fate) {
    struct rig rig;
    rig_init(&rig, 3, queues);
    rig.script = (struct fake_script){.fate = fate, .before_ms = 15, .away_ms = 100};
    rig.script_begin = 'b';
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_eq(rig.effects_run, 1);
    cr_assert_eq(rig.run_count, 3);
    cr_assert_eq(rig.most_chain, fate == FAKE_CUT_AFTER ? 1 : 2);
    rig_finish(&rig);
}

Test(effect, carries_the_whole_chain) {
    two_in_one(FAKE_UNAVAILABLE);
}

Test(effect, carries_the_whole_chain_also_when_a_part_is_in_already) {
    two_in_one(FAKE_CUT_AFTER);
}

/* The tick is slow: the effect waits for its answer, or two calls would name the task. */
Test(effect, waits_for_the_tick_that_names_its_task) {
    struct rig rig;
    rig_init(&rig, 3, queues);
    rig.script = (struct fake_script){.before_ms = 200, .after_ms = 100};
    rig.script_begin = 'b';
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 100);
    cr_assert(rig.runs[1].over);
    cr_assert_eq(fake_client_sent(rig.client, FAKE_EFFECTS), 0);
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    rig_finish(&rig);
}

/* The effect is slow: no tick says anything of its task meanwhile, and it is executed once. */
Test(effect, is_not_overtaken_by_a_tick) {
    struct rig rig;
    rig_init(&rig, 3, queues);
    rig_start(&rig);
    fake_client_script(rig.client, FAKE_EFFECTS, (struct fake_script){.before_ms = 1500, .after_ms = 1500});
    rig_submit(&rig, "k");
    rig_run(&rig, 200);
    rig_submit(&rig, "other");
    rig_until(&rig, "k", FAKE_DONE);
    rig_until(&rig, "other", FAKE_DONE);
    cr_assert_eq(rig.effects_run, 2);
    rig_finish(&rig);
}

static void send_again(enum fake_fate fate) {
    static const struct rig_stage stages[] = {RIG_QUEUES_SQL(1), RIG_SQL(1)};
    struct rig rig;
    rig_init(&rig, 2, stages);
    rig_start(&rig);
    fake_client_script(rig.client, FAKE_EFFECTS, (struct fake_script){.fate = fate, .before_ms = 5, .away_ms = 50});
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_eq(rig.run_count, 1);
    cr_assert_eq(rig.effects_run, fate == FAKE_GHOST || fate == FAKE_CUT_BEFORE || fate == FAKE_CUT_AFTER ? 2 : 3);
    cr_assert_eq(rig_row(&rig, "k")->all_attempts, 0);
    rig_finish(&rig);
}

Test(effect, that_was_lost_is_sent_again) {
    send_again(FAKE_CUT_BEFORE);
}

Test(effect, whose_answer_was_lost_is_recognised) {
    send_again(FAKE_CUT_AFTER);
}

Test(effect, that_an_old_backend_commits_is_recognised) {
    send_again(FAKE_GHOST);
}

/* ---- whose fault ------------------------------------------------------------------------------------------------- */

static enum status bad_fails(struct rig *rig, const struct fake_row *row, const struct store_effect *effect) {
    (void)rig;
    (void)effect;
    return strncmp(row->key, "bad", 3) == 0 ? STATUS_INVALID : STATUS_OK;
}

static enum status bad_takes_too_long(struct rig *rig, const struct fake_row *row, const struct store_effect *effect) {
    return bad_fails(rig, row, effect) == STATUS_OK ? STATUS_OK : STATUS_TIMEOUT;
}

/* The store names the bad one, or leaves it to be found by halving: it draws which. */
static void blame(const struct rig_stage *stage, enum status (*run_sql)(struct rig *, const struct fake_row *,
                                                                        const struct store_effect *)) {
    struct rig rig;
    rig_init(&rig, 1, stage);
    rig.run_sql = run_sql;
    rig_start(&rig);
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, i == 7 || i == 13 ? "bad%d" : "good%d", i);
        rig_submit(&rig, key);
    }
    rig_until(&rig, "bad7", FAKE_FAILED);
    rig_until(&rig, "bad13", FAKE_FAILED);
    for (int i = 0; i < fake_store_row_count(rig.store); i++) {
        const struct fake_row *row = fake_store_row(rig.store, i);
        bool bad = row->key[0] == 'b';
        cr_assert_eq(row->status, bad ? FAKE_FAILED : FAKE_DONE, "%s is %s", row->key, fake_status_name(row->status));
        cr_assert_eq(row->all_attempts, bad ? 3 : 0, "%s: %d attempts", row->key, row->all_attempts);
    }
    cr_assert_str_eq(rig_row(&rig, "bad7")->kind, run_sql == bad_takes_too_long ? "timeout" : "statement");
    int64_t done = 0, failed = 0;
    scheduler_totals(rig.scheduler, &done, &failed);
    cr_assert_eq(done, 18);
    cr_assert_eq(failed, 2);
    rig_finish(&rig);
}

static const struct rig_stage sql[] = {RIG_SQL(2)};
static const struct rig_stage handler_sql[] = {RIG_QUEUES_SQL(4)};

Test(effect, a_bad_statement_fails_its_own_task_in_an_sql_stage) {
    blame(sql, bad_fails);
}

Test(effect, a_bad_statement_fails_its_own_task_after_a_handler) {
    blame(handler_sql, bad_fails);
}

Test(effect, a_statement_that_takes_too_long_fails_its_own_task) {
    blame(sql, bad_takes_too_long);
    blame(handler_sql, bad_takes_too_long);
}

static void every_effect_meets(struct rig *rig, enum fake_fate fate) {
    struct fake_faults faults = {0};
    faults.per_mille[FAKE_EFFECTS][fate] = 1000;
    fake_client_set_faults(rig->client, &faults);
}

/* ---- without end -------------------------------------------------------------------------------------------------- */

static enum status bad_clashes(struct rig *rig, const struct fake_row *row, const struct store_effect *effect) {
    return bad_fails(rig, row, effect) == STATUS_OK ? STATUS_OK : STATUS_CONFLICT;
}

Test(effect, a_statement_that_always_clashes_fails_its_own_task) {
    blame(sql, bad_clashes);
    blame(handler_sql, bad_clashes);
}

/* Each sending ends the connection: three in company, ten alone, and then it is the task's fault. */
Test(effect, a_statement_that_always_ends_its_connection_fails_its_task) {
    const struct rig_stage *stages[] = {sql, handler_sql};
    for (size_t i = 0; i < 2; i++) {
        struct rig rig;
        rig_init(&rig, 1, stages[i]);
        rig_start(&rig);
        every_effect_meets(&rig, FAKE_CUT_BEFORE);
        rig_submit(&rig, "k");
        rig_until(&rig, "k", FAKE_FAILED);
        cr_assert_eq(rig_row(&rig, "k")->all_attempts, 3);
        cr_assert_str_eq(rig_row(&rig, "k")->kind, "statement");
        cr_assert_eq(fake_client_sent(rig.client, FAKE_EFFECTS), 3 * (3 + 10));
        rig_finish(&rig);
    }
}

static enum status all_are_read_only(struct rig *rig, const struct fake_row *row, const struct store_effect *effect) {
    (void)row;
    (void)effect;
    return rig->effects_run <= 30 ? STATUS_UNAVAILABLE : STATUS_OK;
}

/* C43: after a fail-over the server that is reached refuses every write, until another is. */
Test(effect, a_server_that_is_read_only_is_nobodys_fault) {
    struct rig rig;
    rig_init(&rig, 1, sql);
    rig.run_sql = all_are_read_only;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(rig.effects_run, 31);
    cr_assert_eq(rig_row(&rig, "k")->all_attempts, 0);
    rig_finish(&rig);
}

/* A server that comes and goes: twelve times in a row are nobody's fault. */
Test(effect, a_connection_that_ends_now_and_then_is_nobodys_fault) {
    struct rig rig;
    rig_init(&rig, 1, sql);
    rig_start(&rig);
    every_effect_meets(&rig, FAKE_CUT_BEFORE);
    rig_submit(&rig, "k");
    while (fake_client_sent(rig.client, FAKE_EFFECTS) < 12) {
        rig_run(&rig, 10);
    }
    fake_client_set_faults(rig.client, &(struct fake_faults){0});
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(rig_row(&rig, "k")->all_attempts, 0);
    rig_finish(&rig);
}

/* ---- nobody's fault ----------------------------------------------------------------------------------------------- */

static void nobody(enum fake_fate fate) {
    const struct rig_stage *stages[] = {sql, handler_sql};
    for (size_t i = 0; i < 2; i++) {
        struct rig rig;
        rig_init(&rig, 1, stages[i]);
        rig_start(&rig);
        every_effect_meets(&rig, fate);
        rig_submit(&rig, "k");
        int sent = rig_count_calls(&rig, FAKE_EFFECTS, 4000);
        cr_assert_leq(sent, 30, "it spins: %d effects", sent);
        cr_assert_geq(sent, 4);
        fake_client_set_faults(rig.client, &(struct fake_faults){0});
        rig_until(&rig, "k", FAKE_DONE);
        cr_assert_eq(rig_row(&rig, "k")->all_attempts, 0, "it was nobody's fault");
        rig_finish(&rig);
    }
}

Test(effect, an_unreachable_database_blames_nobody_and_is_not_hammered) {
    nobody(FAKE_UNAVAILABLE);
}

Test(effect, a_fault_of_our_own_blames_nobody_and_is_not_hammered) {
    nobody(FAKE_INTERNAL);
}

Test(effect, a_conflict_blames_nobody_and_is_not_hammered) {
    nobody(FAKE_CONFLICT);
}

/* What an sql stage makes ready is claimed at once, though the next stage has long been dry. */
Test(effect, what_it_makes_ready_is_claimed_at_once) {
    static const struct rig_stage stages[] = {RIG_SQL(1), RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 2, stages);
    rig_start(&rig);
    rig_run(&rig, 5000);
    int64_t before_ms = rig.time.now_ms;
    rig_submit(&rig, "k");
    while (rig.run_count == 0) {
        rig_run(&rig, 1);
    }
    cr_assert_leq(rig.time.now_ms - before_ms, 20);
    rig_finish(&rig);
}
