/* Leases, stops and the end: design.md, "Alive", and promise 6. */
#include <criterion/criterion.h>
#include <string.h>

#include "rig.h"

TestSuite(stop, .timeout = 60);

static struct fake_plan forever(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    (void)run;
    usual.run_ms = -1;
    return usual;
}

static const struct rig_stage two[] = {RIG_HANDLER(1), RIG_HANDLER(1)};

/* A claim whose answer takes `after_ms`. */
static void claim_slowly(struct rig *rig, const char *key, int64_t after_ms) {
    int sent = fake_client_sent(rig->client, FAKE_TICK);
    fake_client_script(rig->client, FAKE_TICK, (struct fake_script){.before_ms = 5, .after_ms = after_ms});
    rig_submit(rig, key);
    while (fake_client_sent(rig->client, FAKE_TICK) == sent) {
        rig_run(rig, 1);
    }
    rig_run(rig, 6);
    cr_assert_eq(rig_row(rig, key)->status, FAKE_RUNNING);
}

Test(stop, nothing_is_started_at_the_end_of_the_lease) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    claim_slowly(&rig, "k", 100);
    scheduler_set_lease_end(rig.scheduler, rig.time.now_ms + 120);
    rig_run(&rig, 110);
    cr_assert_eq(rig.run_count, 0);
    scheduler_set_lease_end(rig.scheduler, rig.time.now_ms + 100000);
    rig_until(&rig, "k", FAKE_DONE);
    rig_finish(&rig);
}

Test(stop, nothing_is_claimed_at_the_end_of_the_lease) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    rig_run(&rig, 500);
    scheduler_set_lease_end(rig.scheduler, rig.time.now_ms + 40);
    rig_submit(&rig, "k");
    rig_run(&rig, 39); /* the rig fails when the scheduler asks for turns all the time */
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_READY);
    scheduler_set_lease_end(rig.scheduler, rig.time.now_ms + 100000);
    rig_until(&rig, "k", FAKE_DONE);
    rig_finish(&rig);
}

Test(stop, no_statement_is_sent_at_the_end_of_the_lease) {
    static const struct rig_stage stages[] = {RIG_SQL(1)};
    struct rig rig;
    rig_init(&rig, 1, stages);
    rig_start(&rig);
    claim_slowly(&rig, "k", 100);
    scheduler_set_lease_end(rig.scheduler, rig.time.now_ms + 120);
    rig_run(&rig, 110);
    cr_assert_eq(rig.effects_run, 0);
    scheduler_set_lease_end(rig.scheduler, rig.time.now_ms + 100000);
    rig_until(&rig, "k", FAKE_DONE);
    rig_finish(&rig);
}

static void on_freed(void *context, const struct store_done_answer *answer) {
    (void)context;
    cr_assert_eq(answer->code, STATUS_OK);
}

/* As a node does that finds its identity ended: the claims are rescued, and a new one begins. */
static void begin_anew(struct rig *rig) {
    struct error err = ERROR_NONE;
    int64_t old = rig->node;
    cr_assert_eq(rig->ops->end_peers(rig->ops->context, "host", 1, &old, on_freed, NULL, &err), STATUS_OK);
    rig_run(rig, 10);
    rig_begin(rig);
}

Test(stop, abandoning_kills_at_once_and_forgets) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = forever;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 50);
    cr_assert(fake_pools_is_live(rig.pools, "k"));
    scheduler_abandon(rig.scheduler);
    int ticks = rig_count_calls(&rig, FAKE_TICK, 20);
    cr_assert_eq(ticks, 0);
    cr_assert_eq(fake_pools_live(rig.pools), 0);
    cr_assert(scheduler_is_empty(rig.scheduler));
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_RUNNING, "others give it back, when the lease has ended");
    rig.decide = NULL;
    begin_anew(&rig);
    rig_until(&rig, "k", FAKE_DONE);
    rig_run(&rig, 1500);
    cr_assert_eq(fake_store_batch_count(rig.store), 0);
    rig_finish(&rig);
}

Test(stop, what_is_claimed_for_an_abandoned_identity_is_not_taken) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    claim_slowly(&rig, "k", 100);
    scheduler_abandon(rig.scheduler);
    cr_assert_not(scheduler_is_empty(rig.scheduler), "its answer is still to come");
    cr_assert(rig_until_empty(&rig, 200), "a new identity could never begin");
    cr_assert_eq(rig.run_count, 0);
    begin_anew(&rig);
    rig_until(&rig, "k", FAKE_DONE);
    rig_finish(&rig);
}

Test(stop, a_reconnect_after_the_identity_was_abandoned_leaves_no_doubt) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    fake_client_script(rig.client, FAKE_TICK, (struct fake_script){.fate = FAKE_CUT_AFTER, .before_ms = 50, .away_ms = 30});
    rig_submit(&rig, "k");
    rig_run(&rig, 20);
    scheduler_abandon(rig.scheduler);
    rig_run(&rig, 100);
    cr_assert(scheduler_is_empty(rig.scheduler));
    begin_anew(&rig);
    rig_until(&rig, "k", FAKE_DONE);
    rig_finish(&rig);
}

/* ---- drain and kill ----------------------------------------------------------------------------------------------- */

static struct fake_plan takes_100_ms(struct rig *rig, const struct fake_run *run, struct fake_plan usual) {
    (void)rig;
    (void)run;
    usual.run_ms = 100;
    return usual;
}

Test(stop, a_drain_lets_what_runs_end_and_writes_it) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = takes_100_ms;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 50);
    scheduler_drain(rig.scheduler);
    rig_run(&rig, 20);
    cr_assert(fake_pools_is_live(rig.pools, "k"));
    cr_assert(rig_until_empty(&rig, 200));
    const struct fake_row *row = rig_row(&rig, "k");
    cr_assert_eq(row->status, FAKE_READY);
    cr_assert_eq(row->stage, rig_stage_id(1), "what it has done is kept");
    cr_assert_eq(row->all_accepted, 1);
    cr_assert_eq(rig_runs_of(&rig, "b", NULL), 0, "nothing was begun");
    rig_submit(&rig, "l");
    rig_run(&rig, 3000);
    cr_assert_eq(rig_row(&rig, "l")->status, FAKE_READY, "nothing is claimed any more");
    rig_finish(&rig);
}

Test(stop, a_drain_gives_back_what_was_not_begun) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    claim_slowly(&rig, "k", 100);
    scheduler_drain(rig.scheduler);
    cr_assert(rig_until_empty(&rig, 300));
    const struct fake_row *row = rig_row(&rig, "k");
    cr_assert_eq(row->status, FAKE_READY);
    cr_assert_eq(row->all_attempts + row->all_rescues, 0);
    cr_assert_eq(rig.run_count, 0);
    rig_finish(&rig);
}

Test(stop, a_drain_finishes_the_effects_that_wait) {
    static const struct rig_stage stages[] = {RIG_QUEUES_SQL(1), RIG_HANDLER(1)};
    struct rig rig;
    rig_init(&rig, 2, stages);
    rig_start(&rig);
    fake_client_script(rig.client, FAKE_EFFECTS, (struct fake_script){.fate = FAKE_UNAVAILABLE, .before_ms = 20});
    rig_submit(&rig, "k");
    rig_run(&rig, 30);
    scheduler_drain(rig.scheduler);
    cr_assert(rig_until_empty(&rig, 500));
    cr_assert_eq(rig_row(&rig, "k")->stage, rig_stage_id(1));
    cr_assert_eq(rig_row(&rig, "k")->all_accepted, 1);
    rig_finish(&rig);
}

Test(stop, a_kill_uses_no_attempt) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.decide = forever;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 50);
    scheduler_drain(rig.scheduler);
    rig_run(&rig, 500);
    cr_assert(fake_pools_is_live(rig.pools, "k"));
    scheduler_kill(rig.scheduler);
    cr_assert(rig_until_empty(&rig, 100));
    const struct fake_row *row = rig_row(&rig, "k");
    cr_assert_eq(row->status, FAKE_READY);
    cr_assert_eq(row->all_attempts + row->all_crashes + row->all_rescues, 0);
    rig_finish(&rig);
}

Test(stop, a_kill_gives_back_what_waits_for_its_sql) {
    static const struct rig_stage stages[] = {RIG_QUEUES_SQL(1)};
    struct rig rig;
    rig_init(&rig, 1, stages);
    rig_start(&rig);
    struct fake_faults faults = {0};
    faults.per_mille[FAKE_EFFECTS][FAKE_UNAVAILABLE] = 1000;
    fake_client_set_faults(rig.client, &faults);
    rig_submit(&rig, "k");
    rig_run(&rig, 500);
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_RUNNING);
    scheduler_kill(rig.scheduler);
    cr_assert(rig_until_empty(&rig, 1000));
    cr_assert_eq(rig_row(&rig, "k")->status, FAKE_READY);
    cr_assert_eq(rig_row(&rig, "k")->all_attempts, 0);
    rig_finish(&rig);
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

Test(stop, closing_waits_for_what_is_in_flight) {
    static const struct rig_stage stages[] = {RIG_QUEUES_SQL(1), RIG_SQL(1)};
    static const enum fake_kind kinds[] = {FAKE_TICK, FAKE_EFFECTS, FAKE_RELEASE};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct rig rig;
        rig_init(&rig, 2, stages);
        rig_start(&rig);
        fake_client_script(rig.client, kinds[i], (struct fake_script){.before_ms = 100, .after_ms = 100});
        rig_submit(&rig, "k");
        scheduler_store_ready(rig.scheduler);
        int sent = fake_client_sent(rig.client, kinds[i]);
        while (fake_client_sent(rig.client, kinds[i]) == sent) {
            rig_run(&rig, 1);
        }
        rig_finish(&rig);
    }
}

Test(stop, a_scheduler_that_never_began_closes) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig_start(&rig);
    scheduler_abandon(rig.scheduler);
    rig_finish(&rig);
}

Test(stop, a_scheduler_whose_pools_do_not_open_closes) {
    struct rig rig;
    rig_init(&rig, 2, two);
    rig.stages[1].pool.workers = 0;
    struct scheduler_options options = rig_options(&rig);
    struct error err = ERROR_NONE;
    cr_assert_eq(scheduler_create(&options, &rig.scheduler, &err), STATUS_INVALID);
    cr_assert_not_null(strstr(err.text, "stage 'b'"));
    rig_finish(&rig);
}
