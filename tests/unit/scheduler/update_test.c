/* on_update: each policy, with the update at each moment of a task's life. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

TestSuite(update, .timeout = 120);

enum moment {
    BEFORE_CLAIM,
    FIRST_STAGE,
    LATER_STAGE,
    IN_EFFECT,     /* the statements that the third stage queued are under way */
    IN_SQL,        /* those of the fourth, an sql stage */
    FAILING_RUN,   /* the first stage runs, and is to fail */
    BEFORE_RETRY,  /* it failed, and is to run again later */
    MOMENTS,
};

static const char *const moment_names[] = {"before the claim", "in the first stage", "in a later stage", "in an effect",
                                           "in an sql stage",  "in a run that fails", "before a retry"};
static const char *const policy_names[] = {
    [SCHED_RESTART] = "restart", [SCHED_FINISH] = "finish", [SCHED_INTERRUPT] = "interrupt"};

/* a, b, and c, which queues statements; d in SQL; e gets what a and c returned. */
static const struct rig_stage five[] = {RIG_HANDLER(1), RIG_HANDLER(1), RIG_QUEUES_SQL(1), RIG_SQL(1),
                                        {.kind = SCHED_HANDLER, .workers = 1, .reads = "ac"}};
enum { STAGES = sizeof five / sizeof five[0] };

static struct {
    enum moment moment;
    bool told; /* the node hears of the update before the run is over */
    bool stubborn; /* the run of the old version does not end by itself */
} it;

static struct fake_plan decide(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    bool first = run->stage[0] == 'a', second = run->stage[0] == 'b';
    bool here = (first && (it.moment == FIRST_STAGE || it.moment == FAILING_RUN)) || (second && it.moment == LATER_STAGE);
    if (run->version == 1 && here) {
        usual.run_ms = it.stubborn ? -1 : it.told ? 2500 : 25;
    }
    if (run->version == 1 && first && (it.moment == FAILING_RUN || it.moment == BEFORE_RETRY)) {
        usual.end = POOL_RETRY;
        usual.message = "not yet";
    }
    return usual;
}

static bool runs(const struct rig *rig, const char *stage) {
    return rig->run_count > 0 && !rig->runs[rig->run_count - 1].over &&
           strcmp(rig->runs[rig->run_count - 1].stage, stage) == 0;
}

static void until_moment(struct rig *rig) {
    int lanes = it.moment == IN_SQL ? 2 : 1; /* of which the first is c's */
    for (int i = 0; i < 5000; i++) {
        bool there = it.moment == BEFORE_CLAIM                                  ? true
                     : it.moment == FIRST_STAGE || it.moment == FAILING_RUN     ? runs(rig, "a")
                     : it.moment == LATER_STAGE                                 ? runs(rig, "b")
                     : it.moment == BEFORE_RETRY ? rig_row(rig, "k")->status == FAKE_DELAYED
                                                 : fake_client_sent(rig->client, FAKE_EFFECTS) == lanes;
        if (there) {
            return;
        }
        rig_run(rig, 1);
    }
    cr_assert_fail("it never came %s", moment_names[it.moment]);
}

/* Which stages have run at the first version, an sql stage by what it left. */
static void expect_runs(const struct rig *rig, const char *expected, enum sched_on_update policy) {
    char ran[STAGES + 1] = "";
    for (int i = 0; i < STAGES; i++) {
        bool sql = five[i].kind == SCHED_SQL;
        ran[i] = sql ? '?' : rig_runs_at(rig, rig->names[i], 1) > 0 ? '1' : '0';
    }
    for (int i = 0; i < STAGES; i++) {
        cr_expect(expected[i] == '?' || expected[i] == ran[i], "%s, %s, %s: stages ran as %s, expected %s",
                  policy_names[policy], moment_names[it.moment], it.told ? "told" : "not told", ran, expected);
    }
}

static void run_case(enum sched_on_update policy, const char *expected) {
    struct rig rig;
    rig_init(&rig, STAGES, five);
    rig.pipeline.on_update = policy;
    rig.decide = decide;
    fake_pools_set(rig.pools, 1, 0, 5);
    rig_start(&rig);
    struct fake_row *row = rig_submit(&rig, "k");
    if (it.moment == IN_EFFECT || it.moment == IN_SQL) {
        struct fake_faults slow = {.sql_ms = it.told ? 1500 : 30};
        fake_client_set_faults(rig.client, &slow);
    }
    until_moment(&rig);
    rig_submit(&rig, "k");
    int64_t updated_ms = rig.time.now_ms, finished_ms = 0;
    for (int i = 0; i < 60000 && row->status != FAKE_DONE; i++) {
        rig_run(&rig, 1);
        finished_ms = finished_ms == 0 && row->done_version == 1 ? rig.time.now_ms : finished_ms;
        if (i % 50 == 0) {
            rig_tend(&rig);
        }
    }
    rig_expect_done(&rig, "k");
    cr_expect_eq(row->done_version, 2);
    expect_runs(&rig, expected, policy);
    bool whole = strchr(expected, '0') == NULL;
    cr_expect_eq(finished_ms != 0, whole, "%s, %s: the first version was %sfinished", policy_names[policy],
                 moment_names[it.moment], finished_ms != 0 ? "" : "not ");
    const struct rig_run *again = NULL;
    for (int i = 0; i < rig.run_count && again == NULL; i++) {
        again = rig.runs[i].version == 2 ? &rig.runs[i] : NULL;
    }
    if (whole) {
        cr_expect_leq(again->began_ms, finished_ms + 50, "the newer version waits %d ms", (int)(again->began_ms - finished_ms));
    }
    if (it.stubborn) {
        cr_expect_leq(again->began_ms, updated_ms + 1000 + 30 + 20 + 100, "it goes on for %d ms",
                      (int)(again->began_ms - updated_ms));
    }
    bool fails = it.moment == BEFORE_RETRY || (it.moment == FAILING_RUN && (policy == SCHED_FINISH || !it.told));
    cr_expect_eq(row->all_attempts, fails, "%s, %s: %d attempts were used", policy_names[policy], moment_names[it.moment],
                 row->all_attempts);
    cr_expect_eq(row->kind[0] != '\0', fails, "a failed run is noted: '%s'", row->kind);
    cr_expect(policy != SCHED_FINISH || rig.told_superseded == 0, "a run that is to be finished is told to give up");
    if (whole) {
        cr_expect_str_eq(rig_last_run(&rig, "e")->inputs, "{\"a\":{\"s\":\"a\",\"v\":2},\"c\":{\"s\":\"c\",\"v\":2}}");
        cr_expect_eq(rig_runs_at(&rig, "e", 1), 1);
    }
    rig_finish(&rig);
}

/* As long as nobody has told it, a node hands a task over as ever: until its claim ends, with the statements of c. */
static const char *const not_told[MOMENTS] = {"000?0", "111?0", "111?0", "111?0", "111?0", "100?0", "100?0"};

static void run_policy(enum sched_on_update policy, const char *const expected[MOMENTS], const char *const late[MOMENTS]) {
    for (enum moment moment = 0; moment < MOMENTS; moment++) {
        for (int told = 0; told < 2; told++) {
            it.moment = moment;
            it.told = told == 1;
            it.stubborn = policy == SCHED_INTERRUPT && it.told && (moment == FIRST_STAGE || moment == LATER_STAGE);
            run_case(policy, it.told ? expected[moment] : late[moment]);
        }
    }
}

Test(update, restart_goes_back_when_the_stage_in_hand_ends) {
    static const char *const expected[MOMENTS] = {"000?0", "100?0", "110?0", "111?0", "111?0", "100?0", "100?0"};
    run_policy(SCHED_RESTART, expected, not_told);
}

Test(update, finish_goes_through_all_stages_first) {
    static const char *const expected[MOMENTS] = {"000?0", "111?1", "111?1", "111?1", "111?1", "100?0", "100?0"};
    run_policy(SCHED_FINISH, expected, expected);
}

Test(update, interrupt_ends_the_run) {
    static const char *const expected[MOMENTS] = {"000?0", "100?0", "110?0", "111?0", "111?0", "100?0", "100?0"};
    run_policy(SCHED_INTERRUPT, expected, not_told);
}

/* What the interrupted handler says does not count, be it that it failed for good. */
static struct fake_plan forever(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    usual.run_ms = run->version == 1 ? -1 : 10;
    return usual;
}

Test(update, an_interrupted_handler_may_fail_as_it_likes) {
    static const struct rig_stage one[] = {RIG_HANDLER(1)};
    static const enum pool_end ends[] = {POOL_RETRY, POOL_FAIL};
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        rig_init(&rig, 1, one);
        rig.pipeline.on_update = SCHED_INTERRUPT;
        rig.stages[0].grace_ms = 60000;
        rig.decide = forever;
        rig_start(&rig);
        rig_submit(&rig, "k");
        rig_run(&rig, 100);
        rig_submit(&rig, "k");
        while (rig.told_superseded == 0) {
            rig_run(&rig, 1);
            cr_assert_lt(rig.time.now_ms, 5000, "it is never told");
        }
        fake_pools_end(rig.pools, "k", ends[i], NULL);
        int64_t before_ms = rig.time.now_ms;
        rig_until(&rig, "k", FAKE_DONE);
        cr_assert_leq(rig.time.now_ms, before_ms + 100, "the newer version begins at once");
        cr_assert_eq(rig_row(&rig, "k")->all_attempts, 0);
        cr_assert_str_eq(rig_row(&rig, "k")->kind, "");
        rig_finish(&rig);
    }
}

/* It is never finished at an older version: that is what was asked for. */
Test(update, interrupt_holds_for_a_much_edited_document_too) {
    static const struct rig_stage one[] = {RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 1, one);
    rig.pipeline.on_update = SCHED_INTERRUPT;
    rig.decide = forever;
    rig_start(&rig);
    rig_submit(&rig, "k")->superseded = 3;
    rig_run(&rig, 100);
    rig_submit(&rig, "k");
    rig_until(&rig, "k", FAKE_DONE);
    cr_assert_eq(rig_row(&rig, "k")->done_version, 2);
    cr_assert_leq(rig.time.now_ms, 4000);
    rig_finish(&rig);
}

/* An answer that is lost changes nothing of what was settled. */
Test(update, finish_goes_on_after_a_lost_answer) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_AFTER_COMMIT(1), RIG_HANDLER(1)};
    static const enum fake_fate fates[] = {FAKE_CUT_BEFORE, FAKE_CUT_AFTER, FAKE_GHOST, FAKE_UNAVAILABLE, FAKE_INTERNAL};
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        struct rig rig;
        rig_init(&rig, 3, stages);
        rig.pipeline.on_update = SCHED_FINISH;
        rig_start(&rig);
        struct fake_row *row = rig_submit(&rig, "k");
        rig.script = (struct fake_script){.fate = fates[i], .before_ms = 5, .away_ms = 40};
        rig.script_over = 'a';
        while (rig.run_count == 0) {
            rig_run(&rig, 1);
        }
        rig_submit(&rig, "k");
        while (row->done_version == 0) {
            rig_run(&rig, 1);
            cr_assert_lt(rig.time.now_ms, 20000, "it was never finished");
        }
        cr_assert_eq(row->done_version, 1, "fate %d", (int)fates[i]);
        cr_assert_eq(rig_runs_at(&rig, "a", 1), 1);
        rig_until(&rig, "k", FAKE_DONE);
        rig_expect_done(&rig, "k");
        rig_finish(&rig);
    }
}

/* A node that stops gives the task back: the claim is over, and so is what it held. */
Test(update, finish_holds_while_the_claim_is_held) {
    static const struct rig_stage stages[] = {RIG_HANDLER(1), RIG_AFTER_COMMIT(1)};
    struct rig rig;
    rig_init(&rig, 2, stages);
    rig.pipeline.on_update = SCHED_FINISH;
    rig_start(&rig);
    rig_submit(&rig, "k");
    while (rig.run_count == 0) {
        rig_run(&rig, 1);
    }
    rig_submit(&rig, "k");
    scheduler_drain(rig.scheduler);
    cr_assert(rig_until_empty(&rig, 3000));
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_READY);
    cr_assert_eq(rig_row(&rig, "k")->stage, rig_stage_id(0));
    cr_assert_eq(rig_runs_of(&rig, "b", NULL), 0);
    rig_finish(&rig);
}

static struct fake_plan slow_first(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    usual.run_ms = run->stage[0] == 'a' && run->version == 1 ? 3333 : run->stage[0] == 'a' ? 100 : 10;
    return usual;
}

/* No poll is waited for: not by the next stage, nor by the newer version when that is the only stage there is. */
Test(update, finish_goes_on_at_once) {
    static const struct rig_stage stages[][2] = {{RIG_HANDLER(2), RIG_AFTER_COMMIT(2)}, {RIG_HANDLER(2)}, {RIG_SQL(2)}};
    static const int counts[] = {2, 1, 1};
    for (int i = 0; i < 3; i++) {
        struct rig rig;
        rig_init(&rig, counts[i], stages[i]);
        rig.pipeline.on_update = SCHED_FINISH;
        fake_client_set_faults(rig.client, &(struct fake_faults){.sql_ms = 3333});
        rig.decide = slow_first;
        rig_start(&rig);
        fake_store_mute(rig.store, true);
        struct fake_row *row = rig_submit(&rig, "k");
        while (row->status != FAKE_RUNNING) {
            rig_run(&rig, 1);
        }
        rig_run(&rig, 1500);
        if (i > 0) {
            rig_submit(&rig, "k");
        }
        while (row->all_accepted == 0) {
            rig_run(&rig, 1);
        }
        rig_run(&rig, 40);
        cr_assert_eq(row->status, i == 0 ? FAKE_DONE : FAKE_RUNNING, "case %d: it waits", i);
        cr_assert_eq(row->claimed_version, i == 0 ? 1 : 2);
        rig_finish(&rig);
    }
}

/* Nobody is kept who is not superseded: stages with few places are not run over. */
Test(update, finish_hands_over_as_ever) {
    static const struct rig_stage stages[] = {RIG_HANDLER(4), RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 2, stages);
    rig.pipeline.on_update = SCHED_FINISH;
    rig_start(&rig);
    for (int i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        rig_submit(&rig, key);
    }
    int most = 0;
    for (int i = 0; i < 300; i++) {
        rig_run(&rig, 1);
        struct scheduler_stage_report report;
        scheduler_report(rig.scheduler, 1, &report);
        most = report.queued > most ? report.queued : most;
    }
    cr_assert_leq(most, 1, "%d tasks wait here for one place", most);
    for (int i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        rig_until(&rig, key, FAKE_DONE);
    }
    rig_finish(&rig);
}
