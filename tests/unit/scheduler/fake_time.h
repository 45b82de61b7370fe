/* fake_time.h - a clock that stands until somebody moves it, and what is to happen at its times.
 *
 * Everything fake shares one: calls come back in order of time, then of asking. A context must live until its call came:
 * what may end before leaves its memory to the clock.
 */
#ifndef SUPPORT_FAKE_TIME_H
#define SUPPORT_FAKE_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct fake_event;
struct fake_owned;

struct fake_time {
    int64_t now_ms;
    struct fake_event *heap;
    size_t count, capacity;
    uint64_t asked;
    struct fake_owned *owned;
    size_t owned_count, owned_capacity;
};

void fake_time_init(struct fake_time *time, int64_t now_ms);
void fake_time_finish(struct fake_time *time); /* what has not come is forgotten */
struct clock_ops fake_time_clock(struct fake_time *time);

void fake_time_call(struct fake_time *time, int64_t after_ms, void (*call)(void *context), void *context);
/* fake_time_finish frees it. */
void fake_time_own(struct fake_time *time, void *object, void (*destroy)(void *object));
int64_t fake_time_next(const struct fake_time *time); /* INT64_MAX: nothing is to come */
/* Moves the clock to the next call that is due by then, and makes it. False: there is none, the clock is moved there. */
bool fake_time_step(struct fake_time *time, int64_t until_ms);

#endif
