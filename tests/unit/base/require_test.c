#include "base/require.h"

#include <criterion/criterion.h>

#include "death.h"

TestSuite(require, .timeout = 10);

Test(require, true_condition_passes_and_is_evaluated_once) {
    int count = 0;
    REQUIRE(++count == 1);
    cr_expect_eq(count, 1);
}

static void false_condition_aborts_call(void) {
    int zero = 0;
    REQUIRE(zero == 1);
}

Test(require, false_condition_aborts) {
    expect_abort(false_condition_aborts_call, "requirement failed: zero == 1");
}
