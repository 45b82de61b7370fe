/* Where a task goes when its handler says so: routes, an early end, a snooze; reserved shares and limits. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

TestSuite(flow, .timeout = 60);

static const struct rig_stage three[] = {RIG_HANDLER(1), RIG_HANDLER(1), RIG_HANDLER(1)};

static bool runs_in(const struct fake_run *run, const char *stage) {
    return strcmp(run->stage, stage) == 0;
}

static struct fake_plan a_skips_b(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    if (runs_in(run, "a")) {
        usual.flow = POOL_ROUTE;
        usual.target = "c";
    }
    return usual;
}

Test(flow, a_route_forward_skips_what_lies_between) {
    struct rig rig;
    rig_init(&rig, 3, three);
    rig.decide = a_skips_b;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(rig_runs_of(&rig, "b", NULL), 0);
    cr_assert_eq(rig.run_count, 2);
    cr_assert_str_eq(rig_last_run(&rig, "c")->input, "{\"s\":\"a\",\"v\":1}");
    int64_t done, failed;
    scheduler_totals(rig.scheduler, &done, &failed);
    cr_assert_eq(done, 1);
    cr_assert_eq(failed, 0);
    rig_finish(&rig);
}

/* No poll is waited for: the node looks at the stage that it has sent the task to. */
Test(flow, a_route_is_claimed_at_once) {
    struct rig rig;
    rig_init(&rig, 3, three);
    rig.decide = a_skips_b;
    rig_start(&rig);
    rig_run(&rig, 5000);
    rig_submit(&rig, "k");
    rig_run(&rig, 60);
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_DONE);
    rig_finish(&rig);
}

static struct fake_plan c_goes_back_once(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    if (runs_in(run, "c") && rig_runs_of(rig, "c", NULL) == 1) {
        usual.flow = POOL_ROUTE;
        usual.target = "a";
    }
    return usual;
}

Test(flow, a_route_back_runs_the_stages_again) {
    struct rig rig;
    rig_init(&rig, 3, three);
    rig.decide = c_goes_back_once;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(rig.run_count, 6);
    cr_assert_str_eq(rig_last_run(&rig, "a")->input, "{\"s\":\"c\",\"v\":1}");
    cr_assert_str_eq(rig_last_run(&rig, "b")->input, "{\"s\":\"a\",\"v\":1}");
    rig_expect_done(&rig, "k");
    rig_finish(&rig);
}

static struct fake_plan b_goes_nowhere(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    if (runs_in(run, "b")) {
        usual.flow = POOL_ROUTE;
        usual.target = "d";
    }
    return usual;
}

Test(flow, a_route_to_no_stage_fails_for_good) {
    struct rig rig;
    rig_init(&rig, 3, three);
    rig.decide = b_goes_nowhere;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_FAILED);
    const struct fake_row *row = rig_row(&rig, "k");
    cr_assert_str_eq(row->kind, "permanent");
    cr_assert_eq(row->stage, rig_stage_id(1));
    cr_assert_null(fake_row_output(row, rig_stage_id(1)), "the stage is not done");
    int64_t done, failed;
    scheduler_totals(rig.scheduler, &done, &failed);
    cr_assert_eq(failed, 1);
    rig_finish(&rig);
}

static struct fake_plan b_finishes(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    usual.flow = runs_in(run, "b") ? POOL_FINISH : POOL_GO_ON;
    return usual;
}

static const struct rig_stage sql_in_b[] = {RIG_HANDLER(1), RIG_QUEUES_SQL(1), RIG_HANDLER(1)};

/* The same when the handler queued SQL: then its effect carries the end. */
Test(flow, a_finish_ends_the_document) {
    for (int sql = 0; sql < 2; sql++) {
        struct rig rig;
        rig_init(&rig, 3, sql == 1 ? sql_in_b : three);
        rig.decide = b_finishes;
        rig_start(&rig);
        rig_submit(&rig, "k");
        rig_until(&rig, "k", FAKE_DONE);
        cr_assert_eq(rig_runs_of(&rig, "c", NULL), 0);
        cr_assert_eq(rig_row(&rig, "k")->done_version, 1);
        cr_assert_eq(rig.effects_run, sql);
        rig_run(&rig, 50);
        int64_t done, failed;
        scheduler_totals(rig.scheduler, &done, &failed);
        cr_assert_eq(done, 1);
        cr_assert_eq(failed, 0);
        rig_finish(&rig);
    }
}

static struct fake_plan b_skips_nothing(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    if (runs_in(run, "b") && rig_runs_of(rig, "b", NULL) == 1) {
        usual.flow = POOL_ROUTE;
        usual.target = "b";
    }
    return usual;
}

Test(flow, an_effect_carries_a_route) {
    struct rig rig;
    rig_init(&rig, 3, sql_in_b);
    rig.decide = b_skips_nothing;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(rig_runs_of(&rig, "b", NULL), 2);
    cr_assert_eq(rig.effects_run, 2);
    cr_assert_str_eq(rig_last_run(&rig, "b")->input, "{\"s\":\"b\",\"v\":1}");
    rig_expect_done(&rig, "k");
    rig_finish(&rig);
}

/* Its answer is lost with the connection: what is sent again is the same route, and it counts once. */
Test(flow, a_route_is_sent_again_as_it_was) {
    static const enum fake_fate fates[] = {FAKE_CUT_BEFORE, FAKE_CUT_AFTER, FAKE_GHOST};
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        struct rig rig;
        rig_init(&rig, 3, three);
        rig.decide = a_skips_b;
        rig.script_over = 'a';
        rig.script = (struct fake_script){.fate = fates[i], .away_ms = 50};
        rig_start(&rig);
        rig_submit(&rig, "k");
        rig_until(&rig, "k", FAKE_DONE);
        cr_assert_eq(rig_runs_of(&rig, "b", NULL), 0);
        cr_assert_eq(rig_row(&rig, "k")->all_accepted, 2);
        rig_finish(&rig);
    }
}

/* A newer version that was stored meanwhile goes before a route and an early end. */
Test(flow, a_newer_version_goes_first) {
    static struct fake_plan (*const decides[])(struct rig *, const struct fake_run *, struct fake_plan) = {a_skips_b,
                                                                                                           b_finishes};
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        rig_init(&rig, 3, three);
        rig.decide = decides[i];
        rig_start(&rig);
        rig_submit(&rig, "k");
        while (rig_runs_of(&rig, i == 0 ? "a" : "b", NULL) == 0) {
            rig_run(&rig, 1);
        }
        rig_submit(&rig, "k");
        rig_until(&rig, "k", FAKE_DONE);
        cr_assert_eq(rig_row(&rig, "k")->done_version, 2);
        cr_assert_eq(rig_runs_at(&rig, "a", 2), 1);
        rig_finish(&rig);
    }
}

static struct fake_plan b_snoozes_twice(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    if (runs_in(run, "b") && rig_runs_of(rig, "b", NULL) <= 2) {
        usual.flow = POOL_SNOOZE;
        usual.delay_ms = 3000;
        usual.sql = "insert";
    }
    return usual;
}

Test(flow, a_snooze_waits_and_uses_no_attempt) {
    struct rig rig;
    rig_init(&rig, 3, three);
    rig.decide = b_snoozes_twice;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DELAYED);
    const struct fake_row *row = rig_row(&rig, "k");
    cr_assert_eq(row->stage, rig_stage_id(1));
    cr_assert_null(fake_row_output(row, rig_stage_id(1)), "its output does not count");
    int64_t began_ms = rig_last_run(&rig, "b")->began_ms;
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(rig_runs_of(&rig, "b", NULL), 3);
    cr_assert_geq(rig_last_run(&rig, "b")->began_ms, began_ms + 6000);
    cr_assert_eq(rig_last_run(&rig, "b")->attempt, 1);
    cr_assert_eq(row->all_attempts, 0);
    cr_assert_eq(rig.effects_run, 0, "its statements do not count");
    rig_expect_done(&rig, "k");
    rig_finish(&rig);
}

/* ---- a reserved share ----------------------------------------------------------------------------------------- */

static const struct rig_stage shared[] = {{.kind = SCHED_HANDLER, .workers = 2, .share_percent = 20}};

static struct fake_plan takes_100_ms(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    (void)run;
    usual.run_ms = 100;
    return usual;
}

static void submit_urgent(struct rig *rig, int number) {
    char key[16];
    snprintf(key, sizeof key, "urgent%d", number);
    rig_submit(rig, key)->priority = -9;
}

static int starts_until(const struct rig *rig, const char *key) {
    for (int i = 0; i < rig->run_count; i++) {
        if (strcmp(rig->runs[i].key, key) == 0) {
            return i + 1;
        }
    }
    return -1;
}

/* C22: urgent ones come at 110 % of what two workers can do; the others start within the bound all the same. */
static void feed(struct rig *rig, int64_t for_ms) {
    for (int64_t at = 0, next_us = 0, number = 0; at < for_ms * 1000; at += 1000) {
        for (; next_us <= at; next_us += 45454) {
            submit_urgent(rig, (int)number++);
        }
        rig_run(rig, 1);
    }
}

Test(flow, an_endless_urgent_feed_starves_nobody) {
    struct rig rig;
    rig_init(&rig, 1, shared);
    rig.decide = takes_100_ms;
    rig_start(&rig);
    for (int i = 0; i < 5; i++) {
        char key[16];
        snprintf(key, sizeof key, "patient%d", i);
        rig_submit(&rig, key)->priority = 5;
    }
    feed(&rig, 5000);
    for (int i = 0; i < 5; i++) {
        char key[16];
        snprintf(key, sizeof key, "patient%d", i);
        int starts = starts_until(&rig, key);
        /* i older ones: at the latest the start number (i + 1) / 20 %. */
        cr_assert(starts > 0 && starts <= (i + 1) * 5, "%s was start number %d", key, starts);
    }
    rig_finish(&rig);
}

Test(flow, without_a_share_the_urgent_go_first) {
    static const struct rig_stage plain[] = {RIG_HANDLER(2)};
    struct rig rig;
    rig_init(&rig, 1, plain);
    rig.decide = takes_100_ms;
    rig_start(&rig);
    submit_urgent(&rig, 100000);
    submit_urgent(&rig, 100001);
    rig_run(&rig, 50);
    rig_submit(&rig, "patient")->priority = 5;
    feed(&rig, 5000);
    cr_assert_eq(starts_until(&rig, "patient"), -1);
    rig_finish(&rig);
}

Test(flow, a_locked_urgent_row_holds_up_nobody) {
    struct rig rig;
    rig_init(&rig, 1, shared);
    rig_start(&rig);
    struct fake_row *urgent = rig_submit(&rig, "urgent");
    urgent->priority = -9;
    fake_store_lock(rig.store, urgent, 3000);
    rig_submit(&rig, "patient");
    rig_run(&rig, 100);
    cr_assert_eq(rig_row(&rig, "patient")->status, FAKE_DONE);
    rig_until(&rig, "urgent", FAKE_DONE);
    rig_finish(&rig);
}

/* What was taken out of turn is not where the next claim begins. */
Test(flow, a_share_is_no_more_than_was_asked_for) {
    static const struct rig_stage alone[] = {{.kind = SCHED_HANDLER, .workers = 1, .share_percent = 20}};
    struct rig rig;
    rig_init(&rig, 1, alone);
    rig_start(&rig);
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "patient%d", i);
        rig_submit(&rig, key)->priority = 5;
    }
    rig_run(&rig, 1);
    for (int i = 0; i < 40; i++) {
        submit_urgent(&rig, i);
    }
    while (rig.run_count < 40) {
        rig_run(&rig, 1);
    }
    int patient = 0;
    for (int i = 10; i < 40; i++) {
        patient += strncmp(rig.runs[i].key, "patient", 7) == 0;
    }
    cr_assert_eq(patient, 6, "%d of 30", patient);
    rig_finish(&rig);
}

static int handed_over;

/* A run under a claim of its own begins where its row stands, at the claim's first step. */
static struct fake_plan counts_hand_overs(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    const struct fake_row *row = rig_row(rig, run->key);
    handed_over += runs_in(run, "b") && (row->stage != rig_stage_id(1) || row->step != 0);
    return usual;
}

/* A stage with a share or a limit counts what it claims: nothing gets into it in the node's memory. Nor does what must be
 * committed before. */
Test(flow, such_stages_take_committed_tasks_only) {
    static const struct rig_stage kinds[][2] = {
        {RIG_HANDLER(1), {.kind = SCHED_HANDLER, .workers = 1, .share_percent = 10}},
        {RIG_HANDLER(1), {.kind = SCHED_HANDLER, .workers = 1, .limited = true}},
        {RIG_HANDLER(1), RIG_AFTER_COMMIT(1)},
        {RIG_HANDLER(1), RIG_HANDLER(1)},
    };
    for (int i = 0; i < 4; i++) {
        struct rig rig;
        rig_init(&rig, 2, kinds[i]);
        rig.decide = counts_hand_overs;
        handed_over = 0;
        rig_start(&rig);
        for (int k = 0; k < 10; k++) {
            char key[8];
            snprintf(key, sizeof key, "k%d", k);
            rig_submit(&rig, key);
            rig_until(&rig, key, FAKE_DONE);
        }
        cr_assert_eq(handed_over > 0, i == 3, "kind %d: %d", i, handed_over);
        rig_finish(&rig);
    }
}

/* ---- a limit on all nodes --------------------------------------------------------------------------------------- */

static int running_at_once(const struct rig *rig) {
    int most = 0;
    for (int i = 0; i < rig->run_count; i++) {
        int others = 0;
        for (int k = 0; k < rig->run_count; k++) {
            others += rig->runs[k].began_ms <= rig->runs[i].began_ms &&
                      (!rig->runs[k].over || rig->runs[k].over_ms > rig->runs[i].began_ms);
        }
        most = others > most ? others : most;
    }
    return most;
}

/* The node's own definition says nothing of the limit: it hears of it, and then its claims say so. */
Test(flow, a_limit_that_the_node_hears_of_holds) {
    static const struct rig_stage wide[] = {RIG_HANDLER(8)};
    struct rig rig;
    rig_init(&rig, 1, wide);
    rig.decide = takes_100_ms;
    rig_start(&rig);
    fake_store_limit(rig.store, rig_stage_id(0), 2);
    for (int i = 0; i < 10; i++) {
        submit_urgent(&rig, i);
    }
    rig_run(&rig, 200);
    cr_assert_eq(rig.run_count, 0, "it claims what it may not");
    rig_limit(&rig, 0, 2);
    rig_run(&rig, 1000 + 700);
    cr_assert_eq(rig.run_count, 10, "a place that it leaves is taken again at once: %d", rig.run_count);
    cr_assert_eq(running_at_once(&rig), 2);
    rig_finish(&rig);
}

static struct fake_plan other_stays_in_b(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    usual.run_ms = runs_in(run, "b") && strcmp(run->key, "other") == 0 ? -1 : usual.run_ms;
    return usual;
}

/* Also for a claim that is to be kept to the end: only what is claimed there is counted. */
Test(flow, a_kept_claim_ends_before_a_stage_with_a_limit) {
    static const struct rig_stage plain[] = {RIG_HANDLER(2), RIG_HANDLER(2)}, sql[] = {RIG_QUEUES_SQL(2), RIG_HANDLER(2)};
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        rig_init(&rig, 2, i == 0 ? plain : sql);
        rig.decide = other_stays_in_b;
        rig_start(&rig);
        rig_limit(&rig, 1, 1);
        rig_submit(&rig, "other");
        while (rig_runs_of(&rig, "b", "other") == 0) {
            rig_run(&rig, 1);
        }
        rig_submit(&rig, "k")->superseded = 3;
        rig_run(&rig, 3000);
        cr_assert_eq(rig_runs_of(&rig, "a", "k"), 1);
        cr_assert_eq(rig_runs_of(&rig, "b", "k"), 0, "two run where one may");
        cr_assert_eq(rig_row(&rig, "k")->status, FAKE_READY);
        fake_pools_end(rig.pools, "other", POOL_OK, NULL);
        rig_until(&rig, "k", FAKE_DONE);
        rig_finish(&rig);
    }
}
