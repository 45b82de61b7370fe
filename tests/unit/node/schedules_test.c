/* When a node looks at what is due by time, and when it leaves that to others. */
#include "rig.h"

static struct firing {
    enum status code; /* of the call itself */
    int calls, pipelines, first, at_most;
    void (*done)(void *context, const struct store_fire_answer *answer);
    void *context;
} firing;

static enum status fire(void *context, int pipeline_count, const int *pipelines, int at_most,
                        void (*done)(void *done_context, const struct store_fire_answer *answer), void *done_context,
                        struct error *err) {
    (void)context;
    firing.calls++;
    firing.pipelines = pipeline_count;
    firing.first = pipelines[0];
    firing.at_most = at_most;
    firing.done = done;
    firing.context = done_context;
    return firing.code == STATUS_OK ? STATUS_OK : error_set(err, firing.code, "no connection");
}

static struct node *node;

static void begin(void) {
    rig_begin();
    firing = (struct firing){.code = STATUS_OK};
    node = &rig.nodes[0];
    node->store.fire = fire;
    node->schedules.next_ms = INT64_MAX;
}

TestSuite(schedules, .init = begin, .fini = rig_end, .timeout = 30);

static int64_t turn(void) {
    int64_t next_ms = INT64_MAX;
    schedules_turn(node, rig.now_ms, &next_ms);
    return next_ms;
}

/* The watch says that in so many ms a schedule is to be looked at. */
static void watch(int64_t schedule_ms) {
    const struct store_stage_state states[] = {{.stage = RIG_STAGE, .schedule_ms = -1},
                                               {.stage = RIG_STAGE + 1, .schedule_ms = schedule_ms},
                                               {.stage = RIG_STAGE + 2, .schedule_ms = 1000 * 1000}};
    struct store_watch_answer answer = {.code = STATUS_OK, .stage_count = 3, .stages = states};
    schedules_watched(node, &answer);
}

static void answer(enum status code, int64_t looked, int64_t wait_ms) {
    struct store_fire_answer answer = {.code = code, .looked = looked, .wait_ms = wait_ms};
    firing.done(firing.context, &answer);
}

Test(schedules, the_soonest_is_waited_for_and_fired_once) {
    watch(500);
    cr_expect_eq(turn(), rig.now_ms + 500);
    rig.now_ms += 499;
    turn();
    cr_expect_eq(firing.calls, 0);
    rig.now_ms++;
    turn();
    cr_expect_eq(firing.calls, 1);
    cr_expect_eq(firing.pipelines, 1);
    cr_expect_eq(firing.first, 1);
    cr_expect_gt(firing.at_most, 0);
    watch(0);
    cr_expect_eq(turn(), INT64_MAX, "the answer is waited for");
    cr_expect_eq(firing.calls, 1);
    answer(STATUS_OK, 1, 700);
    cr_expect_eq(turn(), rig.now_ms + 700);
}

Test(schedules, more_that_is_due_is_fired_at_once) {
    watch(0);
    turn();
    answer(STATUS_OK, 20, 0);
    turn();
    cr_expect_eq(firing.calls, 2);
}

Test(schedules, none_is_never_looked_at) {
    struct store_stage_state state = {.stage = RIG_STAGE, .schedule_ms = -1};
    schedules_watched(node, &(struct store_watch_answer){.code = STATUS_OK, .stage_count = 1, .stages = &state});
    cr_expect_eq(turn(), INT64_MAX);
    watch(0);
    turn();
    answer(STATUS_OK, 1, -1);
    cr_expect_eq(turn(), INT64_MAX);
    cr_expect_eq(firing.calls, 1);
}

/* Another node has it in hand: nobody asks again and again meanwhile, whatever the watch says. */
Test(schedules, what_another_node_fires_is_asked_about_once_a_second) {
    watch(0);
    turn();
    answer(STATUS_OK, 0, 0);
    for (int i = 0; i < 10; i++) {
        cr_expect_eq(turn(), rig.now_ms + 1000 - 100 * i);
        watch(0);
        cr_expect_eq(turn(), rig.now_ms + 1000 - 100 * i);
        rig.now_ms += 100;
    }
    turn();
    cr_expect_eq(firing.calls, 2);
    answer(STATUS_OK, 1, 5000);
    watch(10);
    cr_expect_eq(turn(), rig.now_ms + 10, "what it has fired itself is over");
}

Test(schedules, a_failure_is_tried_again_in_a_second_and_said_now_and_then) {
    for (int i = 0; i < 10; i++) {
        watch(0);
        turn();
        cr_expect_eq(firing.calls, i + 1);
        answer(STATUS_UNAVAILABLE, 0, 0);
        cr_expect_eq(turn(), rig.now_ms + 1000);
        rig.now_ms += 1000;
    }
    cr_expect_eq(rig_logged("schedules.failed"), 3);
}

Test(schedules, without_a_connection_it_is_tried_again_in_a_second) {
    firing.code = STATUS_UNAVAILABLE;
    watch(0);
    cr_expect_eq(turn(), rig.now_ms + 1000);
    cr_expect_eq(turn(), rig.now_ms + 1000);
    cr_expect_eq(firing.calls, 1);
}

Test(schedules, a_node_that_is_told_not_to_or_drains_fires_none) {
    watch(0);
    node->options.no_schedules = true;
    cr_expect_eq(turn(), INT64_MAX);
    node->options.no_schedules = false;
    node->state = NODE_DRAINING;
    cr_expect_eq(turn(), INT64_MAX);
    cr_expect_eq(firing.calls, 0);
    node->state = NODE_UP;
    turn();
    cr_expect_eq(firing.calls, 1);
}
