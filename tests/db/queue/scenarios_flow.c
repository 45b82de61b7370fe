/* Scenarios of the way of a task: routes, an early end, the limit of steps, and the inputs that follow from it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenarios.h"

static bool is_in(const struct row *row, const char *status, int stage) {
    return strcmp(row->status, status) == 0 && row->stage == stage;
}

/* One run of a stage under the world's current definition, claimed anew. `output` NULL: none. */
static struct verdict run_stage(struct world *world, int64_t task, int stage, const char *ending, int route,
                                const char *output) {
    int64_t claim = world_claim(world, NODE_ONE, stage, 1, NULL);
    struct move move = {.task = task,
                        .claim = claim,
                        .count = 1,
                        .first = stage,
                        .ending = ending,
                        .route = route,
                        .output = output,
                        .revision = world->revision};
    return world_complete(world, world->one, &move);
}

/* Claimed, and given back. */
static void run_none(struct world *world, int64_t task, int stage) {
    int64_t claim = world_claim(world, NODE_ONE, stage, 1, NULL);
    struct move release = {
        .task = task, .claim = claim, .first = stage, .ending = "ready", .revision = world->revision};
    world_complete(world, world->one, &release);
}

#define ROUTE(stage) ((stage) + 1)

bool a_route_goes_where_it_says(struct world *world) {
    int64_t task = world_submit(world, "k");
    struct verdict verdict = run_stage(world, task, STAGE_A, "route", ROUTE(STAGE_C), "1");
    struct row row = world_row(world, task);
    EXPECT(world, scenario_is(&verdict, "accepted") && is_in(&row, "ready", STAGE_C), "%s, %s at stage %d",
           verdict.answer, row.status, row.stage);
    EXPECT(world, row.came_from == STAGE_A && row.steps == 1, "from stage %d, %d steps", row.came_from, row.steps);
    EXPECT(world, strcmp(world_claim_input(world, STAGE_C, STAGE_B), "1") == 0, "the input is not the first stage's");
    world_release(world, NODE_ONE, 0, 0);
    run_none(world, task, STAGE_C);
    EXPECT(world, world_row(world, task).came_from == STAGE_A, "a release forgets where it came from");
    run_stage(world, task, STAGE_C, "route", ROUTE(STAGE_B), "2");
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_B) && row.came_from == STAGE_C && row.steps == 2, "%s at stage %d",
           row.status, row.stage);
    EXPECT(world, strcmp(world_claim_input(world, STAGE_B, STAGE_A), "2") == 0, "the input is not the last stage's");
    world_release(world, NODE_ONE, 0, 0);
    /* A chain that goes on in memory, and is routed at its end. */
    int64_t claim = world_claim(world, NODE_ONE, STAGE_B, 1, NULL);
    struct move both = {.task = task,
                        .claim = claim,
                        .count = 2,
                        .first = STAGE_B,
                        .ending = "route",
                        .route = ROUTE(STAGE_A),
                        .output = "3"};
    verdict = world_complete(world, world->one, &both);
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_A) && row.came_from == STAGE_C && row.steps == 4 && verdict.step == 2,
           "%s at stage %d, %d steps", row.status, row.stage, row.steps);
    return world_is_sound(world);
}

bool a_route_is_applied_once(struct world *world) {
    static const char *const endings[] = {"route", "finish"};
    for (int i = 0; i < 2; i++) {
        char key[2] = {(char)('a' + i), '\0'};
        int64_t task = world_submit(world, key);
        int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
        struct move move = {.task = task,
                            .claim = claim,
                            .count = 1,
                            .ending = endings[i],
                            .route = i == 0 ? ROUTE(STAGE_A) : 0,
                            .output = "1"};
        world_complete(world, world->one, &move);
        const char *before = scenario_row_text(world, task);
        struct verdict verdict = world_complete(world, world->one, &move);
        EXPECT(world, scenario_is(&verdict, "applied"), "%s sent again: %s", endings[i], verdict.answer);
        EXPECT(world, strcmp(before, scenario_row_text(world, task)) == 0, "%s changed the row twice", endings[i]);
        move.claim++;
        verdict = world_complete(world, world->one, &move);
        EXPECT(world, scenario_is(&verdict, "refused"), "%s of another claim: %s", endings[i], verdict.answer);
        world_cancel(world, task);
    }
    return world_is_sound(world);
}

/* What the skipped stages returned for an older version goes with the others. */
bool a_finish_skips_the_rest(struct world *world) {
    int64_t task = world_submit(world, "k");
    world_rest(world);
    EXPECT(world, world_int(world, "select count(*) from pgstage.output") == STAGE_COUNT, "outputs are missing");
    world_resubmit(world, task);
    struct verdict verdict = run_stage(world, task, STAGE_A, "finish", 0, "5");
    struct row row = world_row(world, task);
    EXPECT(world, scenario_is(&verdict, "accepted") && is_in(&row, "done", STAGE_C) && row.done_version == 2,
           "%s, %s at stage %d, version %d", verdict.answer, row.status, row.stage, (int)row.done_version);
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.output") == 1 &&
               world_int(world, "select count(*) from pgstage.result where value = '5' and stage = 'a'") == 1,
           "other outputs than that of the only stage");
    return world_is_sound(world);
}

/* The node knew the stage, the current definition does not: the work is kept, the task is not lost. */
bool a_route_to_a_stage_that_is_gone_fails(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_revise(world, "{a,c}");
    struct move move = {.task = task,
                        .claim = claim,
                        .count = 1,
                        .ending = "route",
                        .route = ROUTE(STAGE_B),
                        .output = "1",
                        .revision = 1};
    struct verdict verdict = world_complete(world, world->one, &move);
    struct row row = world_row(world, task);
    EXPECT(world, scenario_is(&verdict, "accepted") && is_in(&row, "failed", STAGE_A) && verdict.step == 1,
           "%s, %s at stage %d", verdict.answer, row.status, row.stage);
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.failure f join pgstage.task t on t.id = f.task"
                            " where kind = 'permanent' and f.error_text = t.error_text and t.error_text ="
                            " 'it was routed to the stage \"b\", which its pipeline does not have any more;"
                            " its stages are: a, c'") == 1,
           "its reason is '%s'", world_text(world, "select error_text from pgstage.task"));
    EXPECT(world, world_int(world, "select count(*) from pgstage.output") == 1, "the stage's output is lost");
    world_sql(world, world->eye, "select pgstage.retry_tasks(array[%" PRId64 "])", task);
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_A), "%s after a retry", row.status);
    return world_is_sound(world);
}

bool a_route_of_an_older_definition_counts_as_far_as_it_agrees(struct world *world) {
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_revise(world, "{a,c}");
    /* b is not there any more: what it decided does not count. */
    struct move two = {.task = task,
                       .claim = claim,
                       .count = 2,
                       .ending = "route",
                       .route = ROUTE(STAGE_A),
                       .output = "1",
                       .revision = 1};
    world_complete(world, world->one, &two);
    struct row row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_C) && row.steps == 1 && row.came_from == STAGE_A, "%s at stage %d",
           row.status, row.stage);
    int64_t second = world_submit(world, "k2");
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    two.task = second;
    two.claim = claim;
    two.ending = "finish";
    two.route = 0;
    world_complete(world, world->one, &two);
    row = world_row(world, second);
    EXPECT(world, is_in(&row, "ready", STAGE_C) && row.done_version == 0, "%s at stage %d", row.status, row.stage);
    /* All of it agrees: then it counts, whatever the number of the revision. */
    int64_t third = world_submit(world, "k3");
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    two.task = third;
    two.claim = claim;
    two.count = 1;
    two.ending = "route";
    two.route = ROUTE(STAGE_C);
    world_complete(world, world->one, &two);
    row = world_row(world, third);
    EXPECT(world, is_in(&row, "ready", STAGE_C), "%s at stage %d", row.status, row.stage);
    return world_is_sound(world);
}

bool too_many_steps_fail(struct world *world) {
    int64_t task = world_submit(world, "k");
    world_sql(world, world->eye, "select pgstage.settle(%d, '{\"max_steps\": 4}')", world->pipeline);
    for (int round = 0; round < 2; round++) {
        run_stage(world, task, STAGE_A, "next", 0, "1");
        run_stage(world, task, STAGE_B, "route", ROUTE(STAGE_A), "1");
    }
    struct row row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_A) && row.steps == 4, "%s, %d steps", row.status, row.steps);
    struct verdict verdict = run_stage(world, task, STAGE_A, "next", 0, "7");
    row = world_row(world, task);
    EXPECT(world, scenario_is(&verdict, "accepted") && is_in(&row, "failed", STAGE_B), "%s at stage %d", row.status,
           row.stage);
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.failure f join pgstage.task t on t.id = f.task"
                            " where kind = 'steps' and f.error_text = t.error_text and t.error_text ="
                            " 'it made more than 4 transitions (max_steps) since this version began;"
                            " the last stages were: b, a, b'") == 1,
           "its reason is '%s'", world_text(world, "select error_text from pgstage.task"));
    EXPECT(world, world_int(world, "select count(*) from pgstage.output where value = '7'") == 1, "its work is lost");
    /* A person can send it on. */
    world_sql(world, world->eye, "select pgstage.retry_tasks(array[%" PRId64 "])", task);
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_B) && row.steps == 0 && row.came_from == STAGE_A, "%s, %d steps",
           row.status, row.steps);
    EXPECT(world, strcmp(world_claim_input(world, STAGE_B, STAGE_C), "7") == 0, "it lost its input");
    world_release(world, NODE_ONE, 0, 0);
    for (int i = 0; i < 4; i++) {
        run_stage(world, task, STAGE_B, "route", ROUTE(STAGE_B), "1");
    }
    /* What is done goes round no more. */
    run_stage(world, task, STAGE_B, "finish", 0, "1");
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "done", STAGE_C), "%s at stage %d", row.status, row.stage);
    /* A run that stays, or failed by itself, is not ended for it. */
    int64_t other = world_submit(world, "k2");
    world_sql(world, world->eye, "update pgstage.task set steps = 4, way_version = 1 where id = %" PRId64, other);
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move stay = {.task = other, .claim = claim, .count = 1, .ending = "stay"};
    world_complete(world, world->one, &stay);
    row = world_row(world, other);
    EXPECT(world, is_in(&row, "running", STAGE_B), "%s at stage %d", row.status, row.stage);
    struct move late = {.task = other,
                        .claim = claim,
                        .step = 1,
                        .count = 1,
                        .first = STAGE_B,
                        .ending = "delayed",
                        .kind = "error",
                        .reason = "why",
                        .attempts = 1};
    world_complete(world, world->one, &late);
    row = world_row(world, other);
    EXPECT(world, is_in(&row, "delayed", STAGE_C) && row.attempt == 1, "%s at stage %d", row.status, row.stage);
    world_cancel(world, other);
    /* A wish and a newer version go first. */
    world_resubmit(world, task);
    world_sql(world, world->eye, "update pgstage.task set steps = 4, way_version = version where id = %" PRId64, task);
    claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_cancel(world, task);
    struct move next = {.task = task, .claim = claim, .count = 1, .ending = "next"};
    world_complete(world, world->one, &next);
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "cancelled", STAGE_B) && !row.has_error, "%s at stage %d", row.status, row.stage);
    return world_is_sound(world);
}

bool steps_are_of_one_version(struct world *world) {
    int64_t task = world_submit(world, "k");
    run_stage(world, task, STAGE_A, "route", ROUTE(STAGE_A), "1");
    EXPECT(world, world_row(world, task).steps == 1, "%d steps", world_row(world, task).steps);
    world_resubmit(world, task);
    struct row row = world_row(world, task);
    EXPECT(world, row.steps == 0 && row.came_from == -1, "%d steps after a submit", row.steps);
    EXPECT(world, world_claim_input(world, STAGE_A, -1)[0] == '\0', "an input of the older version");
    world_release(world, NODE_ONE, 0, 0);
    run_stage(world, task, STAGE_A, "next", 0, "1");
    EXPECT(world, world_row(world, task).steps == 1, "%d steps", world_row(world, task).steps);
    /* While it runs, too: its exit begins the newer version. */
    int64_t claim = world_claim(world, NODE_ONE, STAGE_B, 1, NULL);
    world_resubmit(world, task);
    struct move next = {.task = task, .claim = claim, .count = 1, .first = STAGE_B, .ending = "next"};
    world_complete(world, world->one, &next);
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_A) && row.steps == 0, "%s, %d steps", row.status, row.steps);
    run_stage(world, task, STAGE_A, "next", 0, "1");
    run_stage(world, task, STAGE_B, "next", 0, "1");
    EXPECT(world, world_row(world, task).steps == 2, "%d steps", world_row(world, task).steps);
    world_sql(world, world->eye, "select pgstage.rerun_tasks(array[%" PRId64 "], 'b')", task);
    row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_B) && row.steps == 0, "%d steps after a rerun", row.steps);
    return world_is_sound(world);
}

static int64_t outputs_of(struct world *world, int stage) {
    return world_int(world, "select count(*) from pgstage.output where stage = %d", world->stages[stage]);
}

bool a_stage_that_runs_again_overwrites(struct world *world) {
    int64_t task = world_submit(world, "k");
    run_stage(world, task, STAGE_A, "next", 0, "1");
    run_stage(world, task, STAGE_B, "next", 0, "2");
    run_stage(world, task, STAGE_C, "route", ROUTE(STAGE_A), "3");
    run_stage(world, task, STAGE_A, "next", 0, "4");
    EXPECT(world,
           outputs_of(world, STAGE_A) == 1 &&
               world_int(world, "select count(*) from pgstage.output where value = '4'") == 1,
           "it was not overwritten");
    /* It returns nothing this time: what it returned before is no input of the next one. */
    run_stage(world, task, STAGE_B, "next", 0, NULL);
    EXPECT(world, outputs_of(world, STAGE_B) == 0, "an output of the first pass is left");
    EXPECT(world, outputs_of(world, STAGE_A) == 1 && outputs_of(world, STAGE_C) == 1, "others went with it");
    EXPECT(world, world_claim_input(world, STAGE_C, STAGE_B)[0] == '\0', "an input of the first pass");
    world_release(world, NODE_ONE, 0, 0);
    /* A second document, of which nothing ran twice, keeps all. */
    int64_t other = world_submit(world, "k2");
    run_stage(world, other, STAGE_A, "next", 0, "1");
    run_stage(world, other, STAGE_B, "next", 0, NULL);
    EXPECT(world, outputs_of(world, STAGE_A) == 2, "an output of another document went");
    return world_is_sound(world);
}

bool an_inserted_stage_takes_no_input_away(struct world *world) {
    world_revise(world, "{a,c}");
    int64_t task = world_submit(world, "k");
    run_stage(world, task, STAGE_A, "next", 0, "1");
    struct row row = world_row(world, task);
    EXPECT(world, is_in(&row, "ready", STAGE_C), "%s at stage %d", row.status, row.stage);
    world_revise(world, "{a,b,c}");
    EXPECT(world, strcmp(world_claim_input(world, STAGE_C, STAGE_B), "1") == 0, "it lost its input");
    world_release(world, NODE_ONE, 0, 0);
    int count = 0;
    world_claim_some(world, world->one, NODE_ONE, STAGE_C, 1, true, &count);
    EXPECT(world, count == 1, "%d rows", count);
    return world_is_sound(world);
}

/* A program that knows nothing of routes moves rows on, and leaves the columns of the way as they were. */
bool what_an_older_program_leaves_is_not_believed(struct world *world) {
    int64_t task = world_submit(world, "k");
    run_stage(world, task, STAGE_A, "route", ROUTE(STAGE_B), "1");
    world_sql(world, world->eye,
              "insert into pgstage.output (task, stage, version, value) values (%" PRId64 ", %d, 1, '2')", task,
              world->stages[STAGE_B]);
    world_sql(world, world->eye, "update pgstage.task set stage = %d, ready_stage = %d", world->stages[STAGE_C],
              world->stages[STAGE_C]);
    world_sql(world, world->eye, "delete from pgstage.task_count_delta");
    world_sql(world, world->eye,
              "insert into pgstage.task_count_delta select pipeline, stage, status, 1 from pgstage.task");
    EXPECT(world, strcmp(world_claim_input(world, STAGE_C, STAGE_B), "2") == 0, "it got a stale input");
    return world_is_sound(world);
}

bool a_rerun_gives_the_input_that_it_had(struct world *world) {
    int64_t task = world_submit(world, "k");
    run_stage(world, task, STAGE_A, "next", 0, "1");
    run_stage(world, task, STAGE_B, "route", ROUTE(STAGE_A), "2");
    run_stage(world, task, STAGE_A, "route", ROUTE(STAGE_C), "3");
    run_stage(world, task, STAGE_C, "next", 0, "4");
    EXPECT(world, strcmp(world_row(world, task).status, "done") == 0, "it is not done");
    /* The last stage was fed by the first, though the second returned something, too. */
    world_sql(world, world->eye, "select pgstage.rerun_tasks(array[%" PRId64 "], 'c')", task);
    EXPECT(world, strcmp(world_claim_input(world, STAGE_C, STAGE_B), "3") == 0, "the input is another one");
    world_release(world, NODE_ONE, 0, 0);
    run_stage(world, task, STAGE_C, "next", 0, "4");
    /* Where it came from then is not known any more: the nearest one before it that has an output. */
    world_sql(world, world->eye, "select pgstage.rerun_tasks(array[%" PRId64 "], 'b')", task);
    EXPECT(world, strcmp(world_claim_input(world, STAGE_B, -1), "3") == 0, "the second has no input");
    world_release(world, NODE_ONE, 0, 0);
    /* Fed by a later one, whose output is kept for it. */
    run_stage(world, task, STAGE_B, "next", 0, "5");
    run_stage(world, task, STAGE_C, "route", ROUTE(STAGE_B), "6");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_B, 1, NULL);
    struct move fails = {.task = task, .claim = claim, .first = STAGE_B, .ending = "failed", .kind = "permanent"};
    world_complete(world, world->one, &fails);
    world_sql(world, world->eye, "select pgstage.rerun_tasks(array[%" PRId64 "], 'b')", task);
    EXPECT(world, strcmp(world_claim_input(world, STAGE_B, STAGE_A), "6") == 0, "the last one's output was not kept");
    world_release(world, NODE_ONE, 0, 0);
    /* From the front on nothing fed it. */
    run_stage(world, task, STAGE_B, "route", ROUTE(STAGE_A), "7");
    world_sql(world, world->eye, "select pgstage.rerun_tasks(array[%" PRId64 "], null)", task);
    EXPECT(world, world_claim_input(world, STAGE_A, -1)[0] == '\0', "the first stage has an input");
    return world_is_sound(world);
}

bool a_snooze_uses_no_attempt(struct world *world) {
    int64_t task = world_submit(world, "k");
    world_sql(world, world->eye, "update pgstage.task set attempt = 2");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    struct move snooze = {.task = task, .claim = claim, .ending = "delayed", .delay_ms = 3600000};
    world_complete(world, world->one, &snooze);
    struct row row = world_row(world, task);
    EXPECT(world, is_in(&row, "delayed", STAGE_A) && row.attempt == 2 && row.steps == 0, "%s, %d attempts", row.status,
           row.attempt);
    EXPECT(world, world_int(world, "select count(*) from pgstage.failure") == 0, "it was noted as a failure");
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.task where due_at between now() + interval '59 min'"
                            " and now() + interval '61 min'") == 1,
           "it waits for another time");
    return world_is_sound(world);
}
