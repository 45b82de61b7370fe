#include <criterion/criterion.h>
#include <string.h>

#include "scheduler/plan.h"

TestSuite(plan, .timeout = 30);

static uint64_t middle(void *context) {
    (void)context;
    return 0;
}

static const struct random_ops no_jitter = {.next = middle};

/* ---- failures ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum pool_end end;
    int attempt, max_attempts;
    bool alone;
    enum store_ending ending;
    int attempts, crashes, rescues;
    int64_t delay_ms;
    const char *kind;
    const char *outcome_kind;
} failures[] = {
    {"error, first", POOL_RETRY, 0, 3, false, STORE_DELAYED, 1, 0, 0, 100, "error", NULL},
    {"error, second", POOL_RETRY, 1, 3, false, STORE_DELAYED, 1, 0, 0, 200, "error", NULL},
    {"error, last", POOL_RETRY, 2, 3, false, STORE_FAILED, 1, 0, 0, 0, "error", NULL},
    {"error, more than allowed", POOL_RETRY, 7, 3, false, STORE_FAILED, 1, 0, 0, 0, "error", NULL},
    {"error, one attempt only", POOL_RETRY, 0, 1, false, STORE_FAILED, 1, 0, 0, 0, "error", NULL},
    {"error, alone", POOL_RETRY, 0, 3, true, STORE_DELAYED, 1, 0, 0, 100, "error", NULL},
    {"time-out, first", POOL_TIMEOUT, 0, 3, false, STORE_DELAYED, 1, 0, 0, 100, "timeout", NULL},
    {"time-out, last", POOL_TIMEOUT, 2, 3, false, STORE_FAILED, 1, 0, 0, 0, "timeout", NULL},
    {"permanent", POOL_FAIL, 0, 3, false, STORE_FAILED, 1, 0, 0, 0, "permanent", NULL},
    {"permanent, alone", POOL_FAIL, 0, 3, true, STORE_FAILED, 1, 0, 0, 0, "permanent", NULL},
    {"crash uses no attempt", POOL_CRASH, 2, 3, false, STORE_RELEASE, 0, 1, 0, 0, "crash", NULL},
    {"crash, alone", POOL_CRASH, 0, 3, true, STORE_FAILED, 0, 1, 0, 0, "quarantine", NULL},
    {"lost uses no attempt", POOL_LOST, 2, 3, false, STORE_RELEASE, 0, 0, 1, 0, "killed", NULL},
    {"lost, alone", POOL_LOST, 0, 3, true, STORE_FAILED, 0, 0, 1, 0, "quarantine", NULL},
    {"memory is a crash of its own kind", POOL_CRASH, 0, 3, false, STORE_RELEASE, 0, 1, 0, 0, "memory", "memory"},
    {"memory, alone", POOL_CRASH, 0, 3, true, STORE_FAILED, 0, 1, 0, 0, "quarantine", "memory"},
    {"silence, alone", POOL_LOST, 0, 3, true, STORE_RELEASE, 0, 0, 1, 0, "silence", "silence"},
    {"interrupted uses nothing", POOL_INTERRUPTED, 2, 3, false, STORE_RELEASE, 0, 0, 0, 0, NULL, NULL},
    {"interrupted, alone", POOL_INTERRUPTED, 0, 3, true, STORE_RELEASE, 0, 0, 0, 0, NULL, NULL},
    {"returned", POOL_RETURNED, 0, 3, false, STORE_RELEASE, 0, 0, 0, 0, NULL, NULL},
};

Test(plan, a_failed_run_ends_its_claim_by_whose_fault_it_was) {
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        struct plan_failure_in in = {
            .end = failures[i].end,
            .kind = failures[i].outcome_kind,
            .attempt = failures[i].attempt,
            .alone = failures[i].alone,
            .max_attempts = failures[i].max_attempts,
            .backoff = {.kind = BACKOFF_EXPONENTIAL, .first_ms = 100, .max_ms = 1000},
        };
        struct plan_failure plan = plan_failure(&in, &no_jitter);
        const char *name = failures[i].name;
        cr_expect_eq(plan.ending, failures[i].ending, "%s: ending %d", name, (int)plan.ending);
        cr_expect_eq(plan.attempts, failures[i].attempts, "%s: attempts", name);
        cr_expect_eq(plan.crashes, failures[i].crashes, "%s: crashes", name);
        cr_expect_eq(plan.rescues, failures[i].rescues, "%s: rescues", name);
        cr_expect_eq(plan.delay_ms, failures[i].delay_ms, "%s: delay %lld", name, (long long)plan.delay_ms);
        const char *kind = failures[i].kind;
        cr_expect(kind == NULL ? plan.kind == NULL : plan.kind != NULL && strcmp(plan.kind, kind) == 0, "%s: kind %s", name,
                  plan.kind == NULL ? "none" : plan.kind);
    }
}

/* ---- hand-over ---------------------------------------------------------------------------------------------------- */

/* The next stage is a handler's with a free place, and its last claim came back short. */
#define GOOD .next_is_handler = true, .last_claim_short = true, .room = 1

static const struct {
    const char *name;
    bool expected;
    struct plan_hand_over_in in;
} hand_overs[] = {
    {"all is well", true, {GOOD}},
    {"an sql stage takes committed tasks only", false, {.last_claim_short = true, .room = 1}},
    {"others wait for the stage", false, {.next_is_handler = true, .room = 1}},
    {"no free worker", false, {.next_is_handler = true, .last_claim_short = true}},
    {"fewer than none", false, {.next_is_handler = true, .last_claim_short = true, .room = -3}},
    {"committed input only", false, {GOOD, .committed_only = true}},
    {"paused", false, {GOOD, .paused = true}},
    {"the last of a hundred", true, {GOOD, .hand_overs = PLAN_HAND_OVERS - 1}},
    {"a hundred", false, {GOOD, .hand_overs = PLAN_HAND_OVERS}},
    {"just within a second", true, {GOOD, .since_claim_ms = PLAN_HAND_OVER_MS - 1}},
    {"a second", false, {GOOD, .since_claim_ms = PLAN_HAND_OVER_MS}},
    {"superseded", false, {GOOD, .superseded = true}},
    {"cancelled", false, {GOOD, .cancelled = true}},
    {"stopping", false, {GOOD, .stopping = true}},
    {"alone", false, {GOOD, .alone = true}},
};

Test(plan, a_task_is_handed_over_only_when_nothing_speaks_against_it) {
    for (size_t i = 0; i < sizeof hand_overs / sizeof hand_overs[0]; i++) {
        cr_expect_eq(plan_hand_over(&hand_overs[i].in), hand_overs[i].expected, "%s", hand_overs[i].name);
    }
}

/* ---- claims and polls --------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    struct plan_claim_in in;
    int expected;
} claims[] = {
    {"as many as there are places", {.room = 10, .mean_bytes = 100}, 10},
    {"less what waits for them", {.room = 10, .queued = 4, .mean_bytes = 100}, 6},
    {"more waits than there are places", {.room = 1, .queued = 4, .mean_bytes = 100}, 0},
    {"no place", {.mean_bytes = 100}, 0},
    {"paused", {.room = 10, .mean_bytes = 100, .paused = true}, 0},
    {"stopping", {.room = 10, .mean_bytes = 100, .stopping = true}, 0},
    {"never more than a thousand", {.room = 5000, .mean_bytes = 1}, PLAN_CLAIM_MAX},
    {"few until their size is known", {.room = 500}, 16},
    {"large documents", {.room = 500, .mean_bytes = PLAN_CLAIM_BYTES / 3}, 3},
    {"one that is larger than all allowed", {.room = 500, .mean_bytes = PLAN_CLAIM_BYTES * INT64_C(4)}, 1},
    {"a large one and no place", {.room = 0, .mean_bytes = PLAN_CLAIM_BYTES * INT64_C(4)}, 0},
};

Test(plan, a_claim_asks_for_what_can_be_run) {
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        int got = plan_claim_count(&claims[i].in);
        cr_expect_eq(got, claims[i].expected, "%s: %d", claims[i].name, got);
    }
}

static const struct {
    const char *name;
    int64_t credit;
    int share, count, expected;
} fair[] = {
    {"no share", 0, 0, 500, 0},
    {"one of ten", 0, 10, 10, 1},
    {"not yet", 0, 10, 9, 0},
    {"what is left counts", 10, 10, 9, 1},
    {"one at a time", 90, 10, 1, 1},
    {"all", 0, 100, 7, 7},
    {"never more than is asked for", 700, 50, 2, 2},
};

Test(plan, a_share_is_of_all_that_is_started) {
    for (size_t i = 0; i < sizeof fair / sizeof fair[0]; i++) {
        cr_expect_eq(plan_fair_count(fair[i].credit, fair[i].share, fair[i].count), fair[i].expected, "%s", fair[i].name);
    }
    /* In any row of starts, whatever the claims are like, the fair ones are at least their share, rounded down. */
    int64_t credit = 0;
    int started = 0, fair_started = 0;
    for (int i = 0; i < 1000; i++) {
        int count = i * 7 % 13, asked = plan_fair_count(credit, 30, count);
        credit = plan_fair_credit(credit, 30, count, asked, asked);
        started += count;
        fair_started += asked;
        cr_assert_eq(fair_started, started * 30 / 100);
    }
}

Test(plan, nobody_is_owed_a_share_when_nobody_waits) {
    cr_assert_eq(plan_fair_credit(90, 10, 3, 0, 1), 0, "the fair claim came back short");
    cr_assert_eq(plan_fair_credit(0, 10, 1, 1, 1), 0, "what was asked for in advance");
    cr_assert_eq(plan_fair_credit(50, 10, 3, 0, 0), 80);
}

static const struct {
    int64_t last_ms;
    bool success;
    int64_t expected_ms;
} polls[] = {
    {0, false, 10},     {10, false, 20},    {20, false, 40},     {320, false, 640},   {499, false, 998},
    {500, false, 1000}, {640, false, 1000}, {1000, false, 1000}, {1000, true, 0},     {0, true, 0},
    {3, false, 10},     {-1, false, 10},    {INT64_MAX, false, 1000},
};

Test(plan, polls_in_vain_become_rarer) {
    for (size_t i = 0; i < sizeof polls / sizeof polls[0]; i++) {
        int64_t got = plan_poll_delay_ms(polls[i].last_ms, polls[i].success);
        cr_expect_eq(got, polls[i].expected_ms, "row %zu: %lld", i, (long long)got);
    }
}
