/* clock.h - the one clock a process measures intervals on. Persisted instants come from the database instead.
 *
 * Tests and simulations give their own table. Units: milliseconds since an arbitrary origin, also counting the time a
 * machine was suspended (CLOCK_BOOTTIME). Thread rule: any thread.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

struct clock_ops {
    int64_t (*now_ms)(void *context);
    void *context;
};

extern const struct clock_ops clock_boottime;

static inline int64_t clock_now_ms(const struct clock_ops *clock) {
    return clock->now_ms(clock->context);
}

#endif
