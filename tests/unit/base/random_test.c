#include "base/random.h"

#include <criterion/criterion.h>

TestSuite(random, .timeout = 10);

/* The reference sequence of splitmix64 for the seed 1234567. */
Test(random, seeded_sequence_is_splitmix64) {
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821),
    };
    struct random_seeded seeded;
    struct random_ops random = random_from_seed(&seeded, 1234567);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        cr_expect_eq(random_next(&random), expected[i]);
    }
}

Test(random, system_does_not_repeat_itself) {
    enum { COUNT = 64 };
    uint64_t values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = random_next(&random_system);
        for (int j = 0; j < i; j++) {
            cr_assert_neq(values[i], values[j]);
        }
    }
}

Test(random, below_stays_below) {
    struct random_seeded seeded;
    struct random_ops random = random_from_seed(&seeded, 1);
    cr_expect_eq(random_below(&random, 0), 0);
    cr_expect_eq(random_below(&random, 1), 0);
    unsigned seen = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = random_below(&random, 5);
        cr_assert_lt(value, 5);
        seen |= 1U << value;
    }
    cr_expect_eq(seen, 0x1FU);
}

static uint64_t given_next(void *context) {
    return *(uint64_t *)context;
}

Test(random, identity_is_positive_for_any_draw) {
    static const uint64_t draws[] = {0, 1, 2, UINT64_MAX, UINT64_C(1) << 63, INT64_MAX};
    for (size_t i = 0; i < sizeof draws / sizeof draws[0]; i++) {
        uint64_t draw = draws[i];
        struct random_ops random = {.next = given_next, .context = &draw};
        cr_expect_gt(random_identity(&random), 0);
    }
}
