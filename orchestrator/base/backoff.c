/* backoff.c - every step is capped before it can overflow: policies and attempts come from
 * configuration and rows. */
#include "base/backoff.h"

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* The delay without jitter. 0 <= first <= max, attempt >= 1. */
static int64_t plain_delay_ms(enum backoff_kind kind, int64_t first, int64_t max, int64_t attempt) {
    int64_t delay = first;
    switch (kind) {
    case BACKOFF_CONSTANT:
        break;
    case BACKOFF_LINEAR:
        if (__builtin_mul_overflow(first, attempt, &delay)) {
            delay = max;
        }
        break;
    case BACKOFF_EXPONENTIAL: {
        int64_t doublings = attempt - 1;
        if (first > 0) {
            delay = doublings >= 63 || first > max >> doublings ? max : first << doublings;
        }
        break;
    }
    }
    return delay < max ? delay : max;
}

int64_t backoff_delay_ms(const struct backoff *policy, int64_t attempt,
                         const struct random_ops *random) {
    int64_t max = clamp(policy->max_ms, 0, INT64_MAX);
    int64_t first = clamp(policy->first_ms, 0, max);
    int64_t jitter = clamp(policy->jitter_percent, 0, 100);
    int64_t delay = plain_delay_ms(policy->kind, first, max, clamp(attempt, 1, INT64_MAX));

    int64_t spread = delay / 100 * jitter + delay % 100 * jitter / 100;
    if (spread == 0) {
        return delay;
    }
    /* Unsigned: delay + spread can be twice INT64_MAX. */
    uint64_t spread_delay =
        (uint64_t)(delay - spread) + random_below(random, 2 * (uint64_t)spread + 1);
    return spread_delay < (uint64_t)max ? (int64_t)spread_delay : max;
}
