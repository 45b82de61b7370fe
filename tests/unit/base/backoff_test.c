#include "base/backoff.h"

#include <criterion/criterion.h>
#include <stdint.h>

TestSuite(backoff, .timeout = 30);

/* Draws at both ends and in the middle show the whole range of the jitter. */
static uint64_t given_next(void *context) {
    return *(uint64_t *)context;
}

static int64_t delay(enum backoff_kind kind, int64_t first, int64_t max, int64_t attempt) {
    struct backoff policy = {.kind = kind, .first_ms = first, .max_ms = max};
    return backoff_delay_ms(&policy, attempt, &random_system);
}

static const struct {
    enum backoff_kind kind;
    int64_t first_ms, max_ms, attempt, expected_ms;
} plain[] = {
    {BACKOFF_CONSTANT, 100, 1000, 1, 100},
    {BACKOFF_CONSTANT, 100, 1000, 9999, 100},
    {BACKOFF_CONSTANT, 5000, 1000, 1, 1000},
    {BACKOFF_LINEAR, 100, 1000, 1, 100},
    {BACKOFF_LINEAR, 100, 1000, 3, 300},
    {BACKOFF_LINEAR, 100, 1000, 10, 1000},
    {BACKOFF_LINEAR, 100, 1000, 11, 1000},
    {BACKOFF_LINEAR, INT64_MAX, INT64_MAX, 10000, INT64_MAX},
    {BACKOFF_EXPONENTIAL, 100, 1000, 1, 100},
    {BACKOFF_EXPONENTIAL, 100, 1000, 2, 200},
    {BACKOFF_EXPONENTIAL, 100, 1000, 4, 800},
    {BACKOFF_EXPONENTIAL, 100, 1000, 5, 1000},
    {BACKOFF_EXPONENTIAL, 100, 1000, 10000, 1000},
    {BACKOFF_EXPONENTIAL, 1, INT64_MAX, 62, INT64_C(1) << 61},
    {BACKOFF_EXPONENTIAL, 1, INT64_MAX, 63, INT64_C(1) << 62},
    {BACKOFF_EXPONENTIAL, 1, INT64_MAX, 64, INT64_MAX},
    {BACKOFF_EXPONENTIAL, 1, INT64_MAX, 65, INT64_MAX},
    {BACKOFF_EXPONENTIAL, 0, 1000, 10000, 0},
    {BACKOFF_EXPONENTIAL, 100, 1000, 0, 100},
    {BACKOFF_EXPONENTIAL, 100, 1000, INT64_MIN, 100},
    {BACKOFF_EXPONENTIAL, 100, 0, 3, 0},
};

Test(backoff, delays_without_jitter) {
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        int64_t got = delay(plain[i].kind, plain[i].first_ms, plain[i].max_ms, plain[i].attempt);
        cr_expect_eq(got, plain[i].expected_ms, "row %zu: %lld", i, (long long)got);
    }
}

Test(backoff, jitter_spreads_to_both_sides_and_no_further) {
    struct backoff policy = {BACKOFF_CONSTANT, .first_ms = 1000, .max_ms = 10000,
                             .jitter_percent = 20};
    uint64_t draw;
    struct random_ops random = {.next = given_next, .context = &draw};
    draw = 0;
    cr_expect_eq(backoff_delay_ms(&policy, 1, &random), 800);
    draw = 200;
    cr_expect_eq(backoff_delay_ms(&policy, 1, &random), 1000);
    draw = 400;
    cr_expect_eq(backoff_delay_ms(&policy, 1, &random), 1200);
    policy.max_ms = 1100;
    cr_expect_eq(backoff_delay_ms(&policy, 1, &random), 1100);
}

Test(backoff, jitter_is_spread_evenly_enough) {
    struct backoff policy = {BACKOFF_CONSTANT, .first_ms = 1000, .max_ms = 10000,
                             .jitter_percent = 50};
    struct random_seeded seeded;
    struct random_ops random = random_from_seed(&seeded, 3);
    int below = 0;
    for (int i = 0; i < 10000; i++) {
        int64_t got = backoff_delay_ms(&policy, 1, &random);
        cr_assert(got >= 500 && got <= 1500);
        below += got < 1000;
    }
    cr_expect(below > 4500 && below < 5500, "%d", below);
}

/* The promise for everything a file or a row can hold. The sanitizer watches for overflow. */
Test(backoff, is_within_bounds_for_any_input) {
    static const int64_t values[] = {INT64_MIN,
                                     INT64_MIN + 1,
                                     -1,
                                     0,
                                     1,
                                     2,
                                     99,
                                     100,
                                     101,
                                     1000,
                                     INT64_C(1) << 31,
                                     INT64_C(1) << 61,
                                     INT64_C(1) << 62,
                                     INT64_MAX - 1,
                                     INT64_MAX};
    static const int64_t attempts[] = {INT64_MIN, -1, 0,  1,  2,  31,    32,       33,
                                       61,        62, 63, 64, 65, 10000, INT64_MAX};
    static const int jitters[] = {INT32_MIN, -1, 0, 1, 33, 99, 100, 101, INT32_MAX};
    static const uint64_t draws[] = {0,         1, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX - 1,
                                     UINT64_MAX};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
    uint64_t draw;
    struct random_ops random = {.next = given_next, .context = &draw};
    for (size_t i = 0; i < 3 * COUNT(values) * COUNT(values) * COUNT(attempts) * COUNT(jitters);
         i++) {
        size_t rest = i;
        struct backoff policy;
        policy.kind = (enum backoff_kind)(rest % 3), rest /= 3;
        policy.first_ms = values[rest % COUNT(values)], rest /= COUNT(values);
        policy.max_ms = values[rest % COUNT(values)], rest /= COUNT(values);
        policy.jitter_percent = jitters[rest % COUNT(jitters)], rest /= COUNT(jitters);
        int64_t max = policy.max_ms < 0 ? 0 : policy.max_ms;
        for (size_t d = 0; d < COUNT(draws); d++) {
            draw = draws[d];
            int64_t got = backoff_delay_ms(&policy, attempts[rest], &random);
            cr_assert(got >= 0 && got <= max, "case %zu, draw %zu: %lld", i, d, (long long)got);
        }
    }
}

Test(backoff, never_falls_from_attempt_to_attempt) {
    for (int kind = 0; kind < 3; kind++) {
        int64_t last = 0;
        for (int64_t attempt = 1; attempt <= 10000; attempt++) {
            int64_t got = delay((enum backoff_kind)kind, 7, INT64_MAX / 3, attempt);
            cr_assert(got >= last && got <= INT64_MAX / 3);
            last = got;
        }
    }
}
