/* What earlier stages and runs left: outputs by name, and progress that is kept. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

TestSuite(past, .timeout = 60);

/* ---- inputs -------------------------------------------------------------------------------------------------------- */

#define READS(n, names) {.kind = SCHED_HANDLER, .workers = (n), .reads = (names)}

Test(past, a_stage_gets_the_outputs_that_it_asks_for) {
    static const struct rig_stage stages[] = {RIG_HANDLER(2), RIG_HANDLER(2), READS(2, "ba"), RIG_HANDLER(2)};
    struct rig rig;
    rig_init(&rig, 4, stages);
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    rig_expect_done(&rig, "k");
    cr_assert_str_eq(rig_last_run(&rig, "c")->inputs, "{\"b\":{\"s\":\"b\",\"v\":1},\"a\":{\"s\":\"a\",\"v\":1}}");
    cr_assert_str_eq(rig_last_run(&rig, "c")->input, "{\"s\":\"b\",\"v\":1}");
    cr_assert_str_eq(rig_last_run(&rig, "b")->inputs, "");
    cr_assert_str_eq(rig_last_run(&rig, "d")->inputs, "", "the next stage asks for none");
    rig_finish(&rig);
}

static char sql_inputs_of_c[128];

static enum status note_inputs(struct rig *rig, const struct fake_row *row, const struct store_effect *effect) {
    (void)rig;
    (void)row;
    if (effect->statements[0].param_count > 5) {
        snprintf(sql_inputs_of_c, sizeof sql_inputs_of_c, "%s", effect->statements[0].params[5].data);
    }
    return STATUS_OK;
}

/* Its claim brings them: nothing is handed over into it, and no tick is spent to fetch them. */
static int64_t claims_seen[3];

static struct fake_plan note_claim(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    claims_seen[run->stage[0] - 'a'] = rig_row(rig, run->key)->claim;
    return usual;
}

Test(past, a_stage_with_inputs_takes_committed_tasks) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_HANDLER(1), READS(1, "a")};
    struct rig rig;
    rig_init(&rig, 3, stages);
    rig.decide = note_claim;
    rig_start(&rig);
    rig_run(&rig, 100);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(claims_seen[0], claims_seen[1]);
    cr_assert_neq(claims_seen[1], claims_seen[2]);
    rig_finish(&rig);
}

Test(past, an_sql_stage_gets_them_too) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_HANDLER(1),
                                              {.kind = SCHED_SQL, .workers = 1, .reads = "a"}};
    struct rig rig;
    rig_init(&rig, 3, stages);
    rig.run_sql = note_inputs;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_str_eq(sql_inputs_of_c, "{\"a\":{\"s\":\"a\",\"v\":1}}");
    rig_finish(&rig);
}

static struct fake_plan slow_a(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    usual.run_ms = run->stage[0] == 'a' ? 1500 : 10;
    return usual;
}

/* It goes from stage to stage under its claim, so no claim brings them: handlers and SQL wait until they are fetched. */
Test(past, a_task_that_is_finished_under_its_claim_gets_them) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), READS(1, "a"), {.kind = SCHED_SQL, .workers = 1, .reads = "ab"},
                                              READS(1, "b")};
    static const enum fake_fate fates[] = {FAKE_FINE, FAKE_CUT_BEFORE, FAKE_CUT_AFTER, FAKE_UNAVAILABLE, FAKE_FINE};
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        struct rig rig;
        rig_init(&rig, 4, stages);
        rig.decide = slow_a;
        rig.run_sql = note_inputs;
        sql_inputs_of_c[0] = '\0';
        rig_start(&rig);
        struct fake_row *row = rig_submit(&rig, "k");
        row->superseded = 3;
        rig_run(&rig, 100);
        rig_submit(&rig, "k");
        rig.script = (struct fake_script){.fate = fates[i], .before_ms = 5, .away_ms = 30};
        rig.script_over = 'a';
        while (row->done_version == 0) {
            rig_run(&rig, 1);
            if (i == 4 && row->locked_until_ms == 0 && rig.script_over == 0) {
                fake_store_lock(rig.store, row, 300); /* what a returned is not stored for a while */
            }
            cr_assert_lt(rig.time.now_ms, 20000, "it was never finished");
        }
        cr_assert_eq(row->done_version, 1);
        cr_assert_str_eq(rig_last_run(&rig, "b")->inputs, "{\"a\":{\"s\":\"a\",\"v\":1}}");
        cr_assert_str_eq(sql_inputs_of_c, "{\"a\":{\"s\":\"a\",\"v\":1},\"b\":{\"s\":\"b\",\"v\":1}}");
        cr_assert_str_eq(rig_last_run(&rig, "d")->inputs, "{\"b\":{\"s\":\"b\",\"v\":1}}");
        rig_until(&rig, "k", FAKE_DONE);
        rig_expect_done(&rig, "k");
        rig_finish(&rig);
    }
}

/* ---- progress ------------------------------------------------------------------------------------------------------ */

static const struct rig_stage two[] = {RIG_HANDLER(1), RIG_HANDLER(1)};

static struct fake_plan forever(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    (void)run;
    usual.run_ms = -1;
    return usual;
}

static void begin(struct rig *rig) {
    rig_init(rig, 2, two);
    rig->decide = forever;
    rig_start(rig);
    rig_submit(rig, "k");
    rig_run(rig, 100);
}

static void say(struct rig *rig, double fraction, const char *text) {
    fake_pools_say(rig->pools, "k", fraction, text);
}

Test(past, progress_is_stored_once_a_second_at_most) {
    struct rig rig;
    begin(&rig);
    int64_t began_ms = rig.time.now_ms;
    for (int i = 1; i <= 400; i++) { /* for four seconds */
        say(&rig, i / 400.0, "page");
        rig_run(&rig, 10);
    }
    const struct fake_row *row = rig_row(&rig, "k");
    int64_t seconds = (rig.time.now_ms - began_ms) / 1000;
    cr_assert(row->all_progress >= seconds - 1 && row->all_progress <= seconds, "%d times in %d s", row->all_progress,
              (int)seconds);
    rig_run(&rig, 1100);
    cr_assert_eq(row->progress, 1.0, "the last one comes after a second at the latest: %f", row->progress);
    cr_assert_str_eq(row->progress_text, "page");
    int before = row->all_progress;
    rig_run(&rig, 5000);
    cr_assert_eq(row->all_progress, before, "nothing was said");
    rig.decide = NULL;
    fake_pools_end(rig.pools, "k", POOL_OK, "{\"s\":\"a\",\"v\":1}");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(row->progress_stage, 0, "the stage ended well");
    rig_finish(&rig);
}

/* It does not wait for a tick that goes for another reason. */
Test(past, progress_is_stored_after_a_second) {
    struct rig rig;
    begin(&rig);
    rig_run(&rig, 3000);
    int ticks = fake_client_sent(rig.client, FAKE_TICK);
    while (fake_client_sent(rig.client, FAKE_TICK) == ticks) {
        rig_run(&rig, 1);
    }
    rig_run(&rig, 200);
    say(&rig, 0.5, "half");
    rig_run(&rig, 950);
    cr_assert_eq(rig_row(&rig, "k")->all_progress, 0);
    rig_run(&rig, 80);
    cr_assert_eq(rig_row(&rig, "k")->all_progress, 1);
    rig_finish(&rig);
}


/* However the run ends, but well: what it said last is stored with the end, and the next run gets it. */
Test(past, progress_outlives_the_run) {
    static const enum pool_end ends[] = {POOL_RETRY, POOL_CRASH, POOL_TIMEOUT, POOL_LOST, POOL_INTERRUPTED};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct rig rig;
        begin(&rig);
        say(&rig, 0.25, "page 1");
        say(&rig, 0.5, "page 2");
        fake_pools_end(rig.pools, "k", ends[i], NULL);
        rig_run(&rig, 20);
        const struct fake_row *row = rig_row(&rig, "k");
        cr_assert_eq(row->all_progress, 1, "end %d", (int)ends[i]);
        cr_assert_eq(row->progress_stage, rig_stage_id(0));
        while (rig.run_count < 2) {
            rig_run(&rig, 10);
            rig_tend(&rig);
            cr_assert_lt(rig.time.now_ms, 10000);
        }
        cr_assert(rig.runs[1].has_progress);
        cr_assert_eq(rig.runs[1].progress, 0.5);
        cr_assert_str_eq(rig.runs[1].progress_text, "page 2");
        /* The second run says nothing and ends well: the next stage has none, and nothing is left. */
        rig.decide = NULL;
        fake_pools_end(rig.pools, "k", POOL_OK, "{\"s\":\"a\",\"v\":1}");
        rig_until(&rig, "k", FAKE_DONE);
        cr_assert_not(rig_last_run(&rig, "b")->has_progress);
        cr_assert_eq(row->progress_stage, 0);
        rig_finish(&rig);
    }
}

Test(past, progress_of_a_failed_task_is_there_for_people) {
    struct rig rig;
    begin(&rig);
    say(&rig, 0.75, "page 3");
    fake_pools_end(rig.pools, "k", POOL_FAIL, NULL);
    rig_until(&rig, "k", FAKE_FAILED);
    cr_assert_eq(rig_row(&rig, "k")->progress, 0.75);
    fake_store_retry(rig.store, rig_row(&rig, "k"));
    rig_run(&rig, 1500);
    cr_assert_eq(rig.run_count, 2);
    cr_assert_eq(rig.runs[1].progress, 0.75);
    rig_finish(&rig);
}

/* Nothing is stored of a run that is over before its second. */
Test(past, progress_of_a_short_run_costs_nothing) {
    struct rig rig;
    begin(&rig);
    say(&rig, 0.5, "half");
    rig.decide = NULL;
    fake_pools_end(rig.pools, "k", POOL_OK, "{\"s\":\"a\",\"v\":1}");
    rig_until(&rig, "k", FAKE_DONE);
    rig_run(&rig, 3000);
    cr_assert_eq(rig_row(&rig, "k")->all_progress, 0);
    rig_finish(&rig);
}

Test(past, progress_is_of_one_version) {
    struct rig rig;
    begin(&rig);
    say(&rig, 0.5, "half");
    rig_run(&rig, 1200);
    cr_assert_eq(rig_row(&rig, "k")->progress_version, 1);
    rig_submit(&rig, "k");
    fake_pools_end(rig.pools, "k", POOL_RETRY, NULL);
    rig_run(&rig, 100);
    cr_assert_eq(rig.run_count, 2);
    cr_assert_eq(rig.runs[1].version, 2);
    cr_assert_not(rig.runs[1].has_progress);
    rig.decide = NULL;
    fake_pools_end(rig.pools, "k", POOL_OK, "{\"s\":\"a\",\"v\":2}");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(rig_row(&rig, "k")->progress_stage, 0, "the older version's goes with the first stage that ends well");
    rig_finish(&rig);
}

/* A tick that fails, and a row that somebody has locked: it is sent again. */
Test(past, progress_that_was_not_stored_is_sent_again) {
    struct rig rig;
    begin(&rig);
    const struct fake_row *row = rig_row(&rig, "k");
    fake_store_lock(rig.store, rig_row(&rig, "k"), 2500);
    say(&rig, 0.5, "half");
    rig_run(&rig, 2000);
    cr_assert_eq(row->all_progress, 0);
    rig_run(&rig, 2000);
    cr_assert_eq(row->all_progress, 1);
    struct fake_faults faults = {0};
    faults.per_mille[FAKE_TICK][FAKE_UNAVAILABLE] = 1000;
    fake_client_set_faults(rig.client, &faults);
    say(&rig, 0.6, "more");
    rig_run(&rig, 3000);
    cr_assert_eq(row->all_progress, 1);
    fake_client_set_faults(rig.client, &(struct fake_faults){0});
    rig_run(&rig, 2000);
    cr_assert_eq(row->progress, 0.6);
    cr_assert_eq(row->all_progress, 2);
    rig_finish(&rig);
}

/* What is said while a tick is under way is not taken for stored with its answer. */
Test(past, progress_said_meanwhile_is_sent_too) {
    struct rig rig;
    begin(&rig);
    say(&rig, 0.1, "one");
    fake_client_script(rig.client, FAKE_TICK, (struct fake_script){.before_ms = 1, .after_ms = 300});
    int sent = fake_client_sent(rig.client, FAKE_TICK);
    while (rig_row(&rig, "k")->all_progress == 0) {
        if (fake_client_sent(rig.client, FAKE_TICK) != sent) {
            sent = fake_client_sent(rig.client, FAKE_TICK);
            fake_client_script(rig.client, FAKE_TICK, (struct fake_script){.before_ms = 1, .after_ms = 300});
        }
        rig_run(&rig, 1);
        cr_assert_lt(rig.time.now_ms, 9000);
    }
    say(&rig, 0.2, "two");
    rig_run(&rig, 2500);
    cr_assert_eq(rig_row(&rig, "k")->progress, 0.2);
    rig_finish(&rig);
}

static enum status refuse(struct rig *rig, const struct fake_row *row, const struct store_effect *effect) {
    (void)row;
    (void)effect;
    return rig->effects_run == 1 ? STATUS_INVALID : STATUS_OK;
}

/* The handler ended well, its statements did not: the stage is to run again, and knows how far it was. */
Test(past, progress_outlives_statements_that_fail) {
    static const struct rig_stage stages[] = {RIG_QUEUES_SQL(1)};
    struct rig rig;
    rig_init(&rig, 1, stages);
    rig.decide = forever;
    rig.run_sql = refuse;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 100);
    say(&rig, 0.9, "nearly");
    rig.decide = NULL;
    fake_pools_end(rig.pools, "k", POOL_OK, "{\"s\":\"a\",\"v\":1}");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(rig.run_count, 2);
    cr_assert_eq(rig.runs[1].progress, 0.9);
    cr_assert_eq(rig_row(&rig, "k")->progress_stage, 0);
    rig_finish(&rig);
}

/* A run that was never begun comes back, and is begun: it gets what it would have got. */
Test(past, progress_is_given_to_a_run_that_came_back_unbegun) {
    static const struct rig_stage one[] = {RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 1, one);
    fake_pools_set(rig.pools, 2, 0, 5);
    rig.decide = forever;
    rig_start(&rig);
    struct fake_row *row = rig_submit(&rig, "k");
    row->progress_stage = rig_stage_id(0);
    row->progress_version = 1;
    row->progress = 0.3;
    row->priority = 1;
    rig_submit(&rig, "x");
    rig_run(&rig, 100);
    cr_assert_str_eq(rig.runs[0].key, "x");
    rig.decide = NULL;
    fake_pools_end(rig.pools, "x", POOL_CRASH, NULL);
    rig_until(&rig, "k", FAKE_DONE);
    for (int i = 0; i < rig.run_count; i++) {
        cr_assert_eq(rig.runs[i].has_progress, rig.runs[i].key[0] == 'k');
    }
    rig_until(&rig, "x", FAKE_DONE);
    rig_finish(&rig);
}
