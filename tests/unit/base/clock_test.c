#include "base/clock.h"

#include <criterion/criterion.h>
#include <time.h>

TestSuite(clock, .timeout = 10);

Test(clock, boottime_is_the_kernels_and_never_goes_back) {
    int64_t last = clock_now_ms(&clock_boottime);
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    cr_expect_leq(last, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    for (int i = 0; i < 1000; i++) {
        int64_t next = clock_now_ms(&clock_boottime);
        cr_assert_geq(next, last);
        last = next;
    }
}

static int64_t fake_now(void *context) {
    return *(int64_t *)context;
}

Test(clock, a_table_of_ones_own_is_asked_with_its_context) {
    int64_t now = 1234;
    struct clock_ops fake = {.now_ms = fake_now, .context = &now};
    cr_expect_eq(clock_now_ms(&fake), 1234);
    now = 1300;
    cr_expect_eq(clock_now_ms(&fake), 1300);
}
