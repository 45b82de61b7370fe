/* backoff.h - capped, jittered exponential delays: reconnects, restarts, retries of tasks.
 *
 * delay(n) = first * 2^(n-1), n from 1, capped at max before it can overflow, then spread by +- jitter per cent and
 * capped again. 0 <= delay <= max always.
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

#include "base/random.h"

enum backoff_kind { BACKOFF_CONSTANT, BACKOFF_LINEAR, BACKOFF_EXPONENTIAL };

struct backoff {
    enum backoff_kind kind;
    int64_t first_ms, max_ms;
    int jitter_percent; /* 0 to 100 */
};

int64_t backoff_delay_ms(const struct backoff *policy, int64_t attempt, const struct random_ops *random);

#endif
