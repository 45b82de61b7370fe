/* Scenarios of complete.sql. C08, C24, C25, I3. */
#include <inttypes.h>
#include <string.h>

#include "exits.h"
#include "scenarios.h"

const char *scenario_row_text(struct world *world, int64_t task) {
    return world_text(world, "select t::text from pgstage.task t where id = %" PRId64, task);
}

bool scenario_is(const struct verdict *verdict, const char *answer) {
    return strcmp(verdict->answer, answer) == 0;
}

#define X(name, way)                                                                               \
    bool name(struct world *world) {                                                               \
        return exits_hold(world, way);                                                             \
    }
EXIT_SCENARIOS(X)
#undef X

static bool is_in(const struct row *row, const char *status, int stage) {
    return strcmp(row->status, status) == 0 && row->stage == stage;
}

/* C08: A is frozen, loses its claim; B claims and runs. Whatever A says then changes no column of
 * the row. */
bool late_completion_is_refused(struct world *world) {
    static const char *const endings[] = {"next", "stay", "ready", "delayed", "failed"};
    int64_t task = world_submit(world, "k");
    int64_t mine = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_end_lease(world, NODE_ONE);
    world_rescue(world);
    int64_t other = world_claim(world, NODE_TWO, STAGE_A, 1, NULL);
    EXPECT(world, world_row(world, task).claim == other, "the second node has no claim");
    const char *before = scenario_row_text(world, task);
    for (int i = 0; i < 5; i++) {
        for (int count = 0; count < 2; count++) {
            struct move late = {
                .task = task, .claim = mine, .count = count, .ending = endings[i], .output = "1"};
            struct verdict verdict = world_complete(world, world->one, &late);
            EXPECT(world, scenario_is(&verdict, "refused"), "%s while B runs: %s", endings[i],
                   verdict.answer);
        }
    }
    EXPECT(world, strcmp(before, scenario_row_text(world, task)) == 0, "the row changed");
    struct move fails = {
        .task = task, .claim = other, .ending = "failed", .attempts = 1, .kind = "error"};
    world_complete(world, world->one, &fails);
    before = scenario_row_text(world, task);
    for (int i = 0; i < 5; i++) {
        struct move late = {.task = task, .claim = mine, .count = 1, .ending = endings[i]};
        struct verdict verdict = world_complete(world, world->one, &late);
        EXPECT(world, scenario_is(&verdict, "refused"), "%s after B failed: %s", endings[i],
               verdict.answer);
    }
    EXPECT(world, strcmp(before, scenario_row_text(world, task)) == 0,
           "the row changed after B failed");
    return world_is_sound(world);
}

/* The row still shows claim and step after the exit: what comes again under them is known, and not
 * done again. */
bool late_completion_of_the_same_claim_is_applied_once(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move next = {.task = task, .claim = claim, .count = 1, .ending = "next", .output = "1"};
    struct verdict verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "accepted"), "%s", verdict.answer);
    const char *before = scenario_row_text(world, task);
    verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "applied"), "sent again: %s", verdict.answer);
    /* Longer, as if it had grown: but the claim was given back. */
    next.count = 2;
    verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "refused"), "longer: %s", verdict.answer);
    EXPECT(world, strcmp(before, scenario_row_text(world, task)) == 0, "the row changed");
    return world_is_sound(world);
}

/* I3: no completion before its predecessor's. */
bool predecessor_first(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move second = {
        .task = task, .claim = claim, .step = 1, .count = 1, .first = STAGE_B, .ending = "stay"};
    struct verdict verdict = world_complete(world, world->one, &second);
    EXPECT(world, scenario_is(&verdict, "refused"), "%s", verdict.answer);
    struct row row = world_row(world, task);
    EXPECT(world, is_in(&row, "running", STAGE_A) && row.step == 0, "it moved");
    return world_is_sound(world);
}

/* A statement that an old backend executes late, under the claim that is still held. */
bool an_old_chain_takes_nothing_back(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move both = {.task = task, .claim = claim, .count = 2, .ending = "stay", .output = "1"};
    world_complete(world, world->one, &both);
    const char *before = scenario_row_text(world, task);
    struct move old = {.task = task, .claim = claim, .count = 1, .ending = "stay", .output = "9"};
    struct verdict verdict = world_complete(world, world->one, &old);
    EXPECT(world, scenario_is(&verdict, "refused"), "%s", verdict.answer);
    old.count = 0;
    old.ending = "failed";
    verdict = world_complete(world, world->one, &old);
    EXPECT(world, scenario_is(&verdict, "refused"), "%s", verdict.answer);
    EXPECT(world, strcmp(before, scenario_row_text(world, task)) == 0, "the row changed");
    EXPECT(world, world_int(world, "select count(*) from pgstage.output where value = '9'") == 0,
           "an output changed");
    return world_is_sound(world);
}

bool a_locked_row_is_busy(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_script(world, world->two, "begin; select * from pgstage.task for update");
    struct move next = {.task = task, .claim = claim, .count = 1, .ending = "next"};
    struct verdict verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "busy"), "%s", verdict.answer);
    world_script(world, world->two, "commit");
    verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "accepted"), "then %s", verdict.answer);
    return world_is_sound(world);
}

bool a_row_that_is_gone_is_refused(struct world *world) {
    struct move next = {.task = 987, .claim = 5, .count = 1, .ending = "next"};
    struct verdict verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "refused"), "%s", verdict.answer);
    return world_is_sound(world);
}

/* Lost answers: each sending holds one transition more; each transition counts once. */
bool a_chain_may_grow_while_its_answer_is_lost(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    for (int count = 1; count <= 2; count++) {
        for (int times = 0; times < 2; times++) {
            struct move stay = {
                .task = task, .claim = claim, .count = count, .ending = "stay", .output = "1"};
            struct verdict verdict = world_complete(world, world->one, &stay);
            EXPECT(world,
                   scenario_is(&verdict, "accepted") && verdict.step == count &&
                       verdict.stage == count,
                   "%d: %s, step %d", count, verdict.answer, verdict.step);
            EXPECT(world, strcmp(verdict.status, "running") == 0, "%d: %s", count, verdict.status);
        }
    }
    struct move last = {.task = task, .claim = claim, .count = 3, .ending = "next", .output = "1"};
    struct verdict verdict = world_complete(world, world->one, &last);
    EXPECT(world, scenario_is(&verdict, "accepted") && strcmp(verdict.status, "done") == 0,
           "last: %s", verdict.answer);
    verdict = world_complete(world, world->one, &last);
    EXPECT(world, scenario_is(&verdict, "applied"), "last again: %s", verdict.answer);
    EXPECT(world,
           world_int(world, "select count(distinct stage) from pgstage.output where version = 1") ==
               3,
           "an output is missing");
    EXPECT(world, world_row(world, task).done_version == 1, "it is not done");
    return world_is_sound(world);
}

bool applied_means_this_very_chain(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t mine = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move stay = {.task = task, .claim = mine, .count = 1, .ending = "stay"};
    world_complete(world, world->one, &stay);
    world_release(world, NODE_ONE, 0, 0);
    /* A chain that was to stay under a claim that was taken away: its node must learn that. */
    struct verdict verdict = world_complete(world, world->one, &stay);
    EXPECT(world, scenario_is(&verdict, "refused"), "stay after a release: %s", verdict.answer);
    /* The same step under another claim. */
    int64_t other = world_claim(world, NODE_TWO, STAGE_B, 1, NULL);
    struct move next = {
        .task = task, .claim = other, .count = 1, .first = STAGE_B, .ending = "next"};
    world_complete(world, world->one, &next);
    struct move late = {.task = task, .claim = mine, .count = 1, .ending = "next"};
    verdict = world_complete(world, world->one, &late);
    EXPECT(world, scenario_is(&verdict, "refused"), "another claim's step: %s", verdict.answer);
    /* Another step of the same claim. */
    next.step = 1;
    verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "refused"), "another step: %s", verdict.answer);
    return world_is_sound(world);
}

bool an_older_definition_counts_as_far_as_it_agrees(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_revise(world, "{a,c}");
    struct move all = {.task = task, .claim = claim, .count = 3, .ending = "next", .output = "1"};
    struct verdict verdict = world_complete(world, world->one, &all);
    EXPECT(world, scenario_is(&verdict, "accepted") && verdict.step == 1, "%s, step %d",
           verdict.answer, verdict.step);
    struct row row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_C), "%s at stage %d", row.status, row.stage);
    EXPECT(world, world_int(world, "select count(*) from pgstage.output") == 1,
           "outputs of stages that do not agree");
    verdict = world_complete(world, world->one, &all);
    EXPECT(world, scenario_is(&verdict, "refused"), "again: %s", verdict.answer);
    /* One that agrees with the whole of it goes through, whatever the number of its revision. */
    int64_t second = world_submit(world, "k2");
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_revise(world, "{a,b,c}");
    struct move same = {
        .task = second, .claim = claim, .count = 3, .ending = "next", .output = "1"};
    verdict = world_complete(world, world->one, &same);
    EXPECT(world, scenario_is(&verdict, "accepted") && strcmp(verdict.status, "done") == 0,
           "%s, %s", verdict.answer, verdict.status);
    return world_is_sound(world);
}

/* How a run ended at a stage that no longer follows is not held against the stage that does. */
bool a_failure_counts_at_its_own_stage_only(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_revise(world, "{a,c}");
    struct move fails = {.task = task,
                         .claim = claim,
                         .count = 1,
                         .ending = "failed",
                         .attempts = 1,
                         .kind = "permanent",
                         .reason = "b",
                         .output = "1"};
    struct verdict verdict = world_complete(world, world->one, &fails);
    struct row row = world_row(world, task);
    EXPECT(world,
           scenario_is(&verdict, "accepted") && is_in(&row, "ready", STAGE_C) && row.attempt == 0,
           "%s, %s at stage %d", verdict.answer, row.status, row.stage);
    EXPECT(world, world_int(world, "select count(*) from pgstage.failure") == 0,
           "the failure was noted");
    /* The part that agrees is taken, what came behind it is not counted either. */
    int64_t second = world_submit(world, "k2");
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    fails.task = second;
    fails.claim = claim;
    fails.count = 2;
    fails.ending = "delayed";
    verdict = world_complete(world, world->one, &fails);
    row = world_row(world, second);
    EXPECT(world,
           scenario_is(&verdict, "accepted") && is_in(&row, "ready", STAGE_C) && row.attempt == 0 &&
               row.step == 1,
           "%s, %s at stage %d", verdict.answer, row.status, row.stage);
    /* The stage in hand is the row's own: then it counts. */
    int64_t third = world_submit(world, "k3");
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    fails.task = third;
    fails.claim = claim;
    fails.count = 0;
    world_complete(world, world->one, &fails);
    row = world_row(world, third);
    EXPECT(world, is_in(&row, "delayed", STAGE_A) && row.attempt == 1, "%s, %d attempts",
           row.status, row.attempt);
    return world_is_sound(world);
}

bool a_stage_that_is_gone_is_not_done(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_revise(world, "{b,c}");
    for (int revision = 1; revision <= 2; revision++) {
        struct move next = {.task = task,
                            .claim = claim,
                            .count = 1,
                            .ending = "next",
                            .output = "1",
                            .revision = revision};
        struct verdict verdict = world_complete(world, world->one, &next);
        struct row row = world_row(world, task);
        EXPECT(world,
               scenario_is(&verdict, "accepted") && is_in(&row, "ready", STAGE_A) && row.step == 0,
               "revision %d: %s, %s at stage %d", revision, verdict.answer, row.status, row.stage);
        EXPECT(world, world_int(world, "select count(*) from pgstage.output") == 0,
               "an output of it was kept");
        claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    }
    return world_is_sound(world);
}

/* The first stage was committed, then removed; the chain comes again and is longer. */
bool a_chain_sent_again_under_a_new_definition(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move stay = {.task = task, .claim = claim, .count = 1, .ending = "stay", .output = "1"};
    world_complete(world, world->one, &stay);
    world_revise(world, "{b,c}");
    struct move grown = {.task = task, .claim = claim, .count = 2, .ending = "next", .output = "2"};
    struct verdict verdict = world_complete(world, world->one, &grown);
    struct row row = world_row(world, task);
    EXPECT(world, scenario_is(&verdict, "accepted") && is_in(&row, "ready", STAGE_C),
           "%s, %s at stage %d", verdict.answer, row.status, row.stage);
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.output where stage = %d and value = '1'",
                     world->stages[STAGE_A]) == 1,
           "the first stage's output changed");
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.output where stage = %d and value = '2'",
                     world->stages[STAGE_B]) == 1,
           "the second stage's output is missing");
    return world_is_sound(world);
}

/* C24: never none, never one for each. */
bool three_submits_in_a_run_cost_one_more(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    for (int i = 0; i < 3; i++) {
        world_resubmit(world, task);
    }
    struct move all = {.task = task, .claim = claim, .count = 3, .ending = "next", .output = "1"};
    world_complete(world, world->one, &all);
    struct row row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_A), "%s at stage %d", row.status, row.stage);
    claim = world_claim(world, NODE_TWO, STAGE_A, 5, NULL);
    row = world_row(world, task);
    EXPECT(world, row.claim == claim && row.claimed_version == 4, "version %d was claimed",
           (int)row.claimed_version);
    all.claim = claim;
    world_complete(world, world->one, &all);
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "done", STAGE_C) && row.done_version == 4, "%s, version %d",
           row.status, (int)row.done_version);
    int again = 0;
    world_claim(world, NODE_TWO, STAGE_A, 5, &again);
    EXPECT(world, again == 0, "it runs once more");
    return world_is_sound(world);
}

/* While any handler started under the claim may live, no other of the document starts. */
bool a_run_goes_on_while_its_claim_stays(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_resubmit(world, task);
    struct row row = world_row(world, task);
    EXPECT(world, is_in(&row, "running", STAGE_A) && row.claim == claim && row.claimed_version == 1,
           "the submit moved it");
    struct move stay = {.task = task, .claim = claim, .count = 1, .ending = "stay"};
    world_complete(world, world->one, &stay);
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "running", STAGE_B), "%s at stage %d", row.status, row.stage);
    world_cancel(world, task);
    stay.step = 1;
    stay.first = STAGE_B;
    world_complete(world, world->one, &stay);
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "running", STAGE_C) && row.has_wish, "%s at stage %d", row.status,
           row.stage);
    return world_is_sound(world);
}

bool outputs_of_older_versions_go(struct world *world) {
    int64_t task = world_submit(world, "k");
    for (int version = 1; version <= 3; version++) {
        int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
        bool stays = version < 3;
        struct move first = {.task = task,
                             .claim = claim,
                             .count = 1,
                             .ending = stays ? "stay" : "next",
                             .output = "1"};
        world_complete(world, world->one, &first);
        EXPECT(world,
               world_int(world, "select count(distinct version) from pgstage.output") ==
                   (version > 1 ? 2 : 1),
               "outputs went before the task was done");
        claim = stays ? claim : world_claim(world, NODE_ONE, STAGE_B, 1, NULL);
        struct move rest = {.task = task,
                            .claim = claim,
                            .step = stays,
                            .count = 2,
                            .first = STAGE_B,
                            .ending = "next",
                            .output = "2"};
        world_complete(world, world->one, &rest);
        EXPECT(world,
               world_int(world, "select count(*) from pgstage.output") == STAGE_COUNT &&
                   world_int(world, "select count(*) from pgstage.output where version = %d",
                             version) == STAGE_COUNT,
               "version %d: other outputs than its own", version);
        EXPECT(world, world_int(world, "select count(*) from pgstage.result") == STAGE_COUNT,
               "the view shows others");
        world_resubmit(world, task);
    }
    return world_is_sound(world);
}

/* C21: what is given back unharmed is still the longest ready; what failed comes behind its time.
 */
bool a_release_keeps_its_place(struct world *world) {
    int64_t first = world_submit(world, "k1");
    int64_t second = world_submit(world, "k2");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, world_row(world, first).claim == claim, "the second came first");
    struct move release = {.task = first, .claim = claim, .ending = "ready"};
    world_complete(world, world->one, &release);
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, world_row(world, first).claim == claim, "a release lost its place");
    release.claim = claim;
    release.crashes = 1;
    release.kind = "crash";
    world_complete(world, world->one, &release);
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, world_row(world, second).claim == claim, "a crash kept its place");
    world_release(world, NODE_ONE, 0, 0);
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, world_row(world, second).claim == claim, "release_unknown lost its place");
    return world_is_sound(world);
}

/* A newer version that was submitted for a later time, while the old one ran. */
bool a_version_for_later_waits(struct world *world) {
    static const char *const ways[] = {"complete", "release", "rescue"};
    for (int i = 0; i < 3; i++) {
        char key[2] = {(char)('a' + i), '\0'};
        int64_t task = world_submit(world, key);
        int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
        world_sql(world, world->eye,
                  "select * from pgstage.submit_set('p', '{%s}', '{1}', '{2030-01-01}', '{0}',"
                  " array[now() + interval '1 hour'], false)",
                  key);
        if (i == 0) {
            struct move next = {.task = task, .claim = claim, .count = 1, .ending = "next"};
            world_complete(world, world->one, &next);
        } else if (i == 1) {
            world_release(world, NODE_ONE, 0, 0);
        } else {
            world_end_lease(world, NODE_ONE);
            world_rescue(world);
        }
        struct row row = world_row(world, task);
        EXPECT(world, is_in(&row, "delayed", STAGE_A), "%s: %s at stage %d", ways[i], row.status,
               row.stage);
        EXPECT(world,
               world_int(world,
                         "select count(*) from pgstage.task where id = %" PRId64
                         " and due_at = run_at",
                         task) == 1,
               "%s: it waits for another time", ways[i]);
    }
    return world_is_sound(world);
}

bool an_exit_clears_the_error(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move fails = {.task = task,
                         .claim = claim,
                         .ending = "delayed",
                         .attempts = 1,
                         .kind = "error",
                         .reason = "r"};
    world_complete(world, world->one, &fails);
    EXPECT(world, world_row(world, task).has_error, "the error is not shown");
    world_sql(world, world->eye, "update pgstage.task set due_at = now() - interval '1 s'");
    world_call(world, world->one, &sql_stage_due, 1, "1");
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    EXPECT(world, world_row(world, task).has_error && world_row(world, task).attempt == 1,
           "the error went with the retry");
    struct move next = {.task = task, .claim = claim, .count = 1, .ending = "next"};
    world_complete(world, world->one, &next);
    EXPECT(world, !world_row(world, task).has_error, "an error that is over is shown");
    EXPECT(world, world_int(world, "select count(*) from pgstage.failure") == 1,
           "the failure is forgotten");
    return world_is_sound(world);
}
