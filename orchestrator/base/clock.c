/* clock.c - the system's monotonic clock. */
#include "base/clock.h"

#include <time.h>

#include "base/require.h"

static int64_t boottime_now_ms(void *context) {
    (void)context;
    struct timespec now;
    REQUIRE(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const struct clock_ops clock_boottime = {.now_ms = boottime_now_ms};
