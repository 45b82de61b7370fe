/* Stages that other nodes serve: this one neither claims nor begins anything there, and hands nothing over into them. */
#include <criterion/criterion.h>
#include <string.h>

#include "rig.h"

TestSuite(elsewhere, .timeout = 60);

static const struct rig_stage three[] = {RIG_HANDLER(1), RIG_HANDLER(1), RIG_HANDLER(1)};

Test(elsewhere, a_task_is_left_ready_at_the_stage) {
    struct rig rig;
    rig_init(&rig, 3, three);
    rig.stages[1].elsewhere = true;
    rig_start(&rig);
    rig_submit(&rig, "k");
    rig_run(&rig, 3000);
    struct fake_row *row = rig_row(&rig, "k");
    cr_assert_eq(row->status, FAKE_READY);
    cr_assert_eq(row->stage, rig_stage_id(1));
    cr_assert_eq(rig_runs_of(&rig, "a", "k"), 1);
    cr_assert_eq(rig_runs_of(&rig, "b", "k"), 0);
    cr_assert(scheduler_is_dry(rig.scheduler), "what is left to others is waited for");
    struct scheduler_stage_report report;
    scheduler_report(rig.scheduler, 1, &report);
    cr_assert(report.elsewhere && !report.starting && report.parked == NULL);
    rig_finish(&rig);
}

/* Also of a claim that is to be finished, whose effects say beforehand that it goes on. */
Test(elsewhere, a_claim_that_shall_be_finished_ends_before_the_stage) {
    static const struct rig_stage stages[] = {RIG_QUEUES_SQL(1), RIG_HANDLER(1)};
    static const struct rig_stage sql[] = {RIG_SQL(1), RIG_SQL(1)};
    const struct rig_stage *const kinds[] = {stages, sql, three};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct rig rig;
        rig_init(&rig, 2, kinds[i]);
        rig.stages[1].elsewhere = true;
        rig_start(&rig);
        rig_submit(&rig, "k")->superseded = 3;
        rig_run(&rig, 3000);
        struct fake_row *row = rig_row(&rig, "k");
        cr_assert_eq(row->status, FAKE_READY, "kind %zu", i);
        cr_assert_eq(row->stage, rig_stage_id(1));
        rig_finish(&rig);
    }
}
