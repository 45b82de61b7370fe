/* Scenarios of what people ask for: urgency and pauses (C21). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "scenarios.h"

static int64_t set_priority(struct world *world, int64_t task, int priority) {
    const struct db_result *result =
        world_sql(world, world->eye, "select pgstage.set_priority(array[%" PRId64 "], %d)", task, priority);
    return result == NULL ? -1 : db_int64(result, 0, 0);
}

static int64_t priority_of(struct world *world, int64_t task) {
    return world_int(world, "select priority from pgstage.task where id = %" PRId64, task);
}

/* The hurried one is taken by the very next claim, whatever status others have. */
bool a_hurried_task_is_claimed_next(struct world *world) {
    int64_t tasks[4];
    for (int i = 0; i < 4; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        tasks[i] = world_submit(world, key);
    }
    EXPECT(world, set_priority(world, tasks[3], -1) == 1, "it was not hurried");
    EXPECT(world, set_priority(world, tasks[0], 7) == 1, "it was not put off");
    static const int order[] = {3, 1, 2, 0};
    for (int i = 0; i < 4; i++) {
        int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
        EXPECT(world, world_row(world, tasks[order[i]]).claim == claim, "k%d is not number %d", order[i], i + 1);
    }
    return world_is_sound(world);
}

/* A running task keeps its claim, and its next stage is claimed by the new priority. */
bool a_priority_reaches_whatever_is_not_over(struct world *world) {
    int64_t running = world_submit(world, "running"), over = world_submit(world, "over");
    int64_t delayed = world_submit(world, "delayed");
    world_sql(world, world->eye, "update pgstage.task set priority = -9 where key = 'running'");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_cancel(world, over);
    world_sql(world, world->eye,
              "update pgstage.task set status = 'delayed', ready_stage = null, due_at = now() where id = %" PRId64,
              delayed);
    world_sql(world, world->eye,
              "insert into pgstage.task_count_delta values (1, 1, 'ready', -1), (1, 1, 'delayed', 1)");
    EXPECT(world, set_priority(world, over, 3) == 0 && priority_of(world, over) == 0, "what is cancelled was touched");
    EXPECT(world, set_priority(world, delayed, 3) == 1 && priority_of(world, delayed) == 3, "the delayed one was not");
    EXPECT(world, set_priority(world, running, 3) == 1, "the running one was not");
    struct row row = world_row(world, running);
    EXPECT(world, strcmp(row.status, "running") == 0 && row.claim == claim, "it lost its claim");
    struct move next = {.task = running, .claim = claim, .count = 1, .ending = "next"};
    struct verdict verdict = world_complete(world, world->one, &next);
    EXPECT(world, scenario_is(&verdict, "accepted") && priority_of(world, running) == 3, "%s", verdict.answer);
    return world_is_sound(world);
}

/* Whether session two, which listens, is notified in that time. */
static bool is_notified(struct world *world, int64_t timeout_ms) {
    struct error err = ERROR_NONE;
    int64_t before = clock_now_ms(&clock_boottime);
    enum status code = sync_wait(world->two, timeout_ms, &err);
    world_expect(world, code == STATUS_OK, "%s", err.text);
    return clock_now_ms(&clock_boottime) - before < timeout_ms;
}

/* A node that has said that it looks by itself looks where its claims are: it is told nevertheless. */
bool who_is_busy_hears_of_a_hurried_task(struct world *world) {
    int64_t task = world_submit(world, "k");
    world_sql(world, world->eye, "update pgstage.stage set busy_until = now() + interval '1 min'");
    world_script(world, world->two, "listen pgstage");
    set_priority(world, task, -1);
    bool hurried = is_notified(world, 3000);
    world_call(world, world->eye, &sql_set_paused, 3, "p", "a", "t");
    bool paused = is_notified(world, 3000);
    set_priority(world, 424242, -1);
    bool nothing = is_notified(world, 100);
    world_script(world, world->two, "unlisten *");
    EXPECT(world, hurried && paused && !nothing, "%d %d %d", hurried, paused, nothing);
    return world_is_sound(world);
}

static int claimed(struct world *world, int stage) {
    int count = 0;
    world_claim(world, NODE_ONE, stage, 10, &count);
    return count;
}

static void set_paused(struct world *world, const char *stage, const char *value) {
    world_call(world, world->eye, &sql_set_paused, 3, "p", stage, value);
}

bool a_pause_is_of_what_it_names(struct world *world) {
    world_submit(world, "k");
    set_paused(world, "b", "t");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where paused") == 1, "more than b is paused");
    set_paused(world, "a", "t");
    EXPECT(world, claimed(world, STAGE_A) == 0, "a paused stage was claimed");
    set_paused(world, "a", "f");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where paused") == 1, "b goes on with a");
    set_paused(world, NULL, "t");
    EXPECT(world, claimed(world, STAGE_A) == 0, "a paused pipeline was claimed");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where paused") == 1, "a is paused itself");
    set_paused(world, NULL, "f");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where paused") == 0, "b stays paused");
    EXPECT(world, claimed(world, STAGE_A) == 1, "it does not go on");
    return world_is_sound(world);
}

bool a_pause_is_of_one_pipeline(struct world *world) {
    world_script(world, world->eye,
                 "insert into pgstage.pipeline (name) values ('q');"
                 "insert into pgstage.stage (pipeline, name) select id, 'a' from pgstage.pipeline where name = 'q'");
    set_paused(world, "a", "t");
    EXPECT(world, world_int(world, "select count(*) from pgstage.stage where paused") == 1, "both are paused");
    set_paused(world, NULL, "t");
    EXPECT(world, world_int(world, "select count(*) from pgstage.pipeline where paused") == 1, "both are paused");
    set_paused(world, NULL, "f");
    return world_is_sound(world);
}
