#include "base/status.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(status, .timeout = 10);

static const struct {
    enum status code;
    const char *name;
    bool transient;
} codes[] = {
    {STATUS_OK, "ok", false},
    {STATUS_AGAIN, "again", true},
    {STATUS_INVALID, "invalid", false},
    {STATUS_NOT_FOUND, "not_found", false},
    {STATUS_CONFLICT, "conflict", false},
    {STATUS_TIMEOUT, "timeout", true},
    {STATUS_UNAVAILABLE, "unavailable", true},
    {STATUS_UNCERTAIN, "uncertain", true},
    {STATUS_PROTOCOL, "protocol", false},
    {STATUS_LIMIT, "limit", false},
    {STATUS_INTERNAL, "internal", false},
};
enum { CODE_COUNT = sizeof codes / sizeof codes[0] };

Test(status, names_and_classifies_every_code) {
    /* A code that is added to the enum must be added here. */
    cr_assert_eq((int)CODE_COUNT, (int)STATUS_INTERNAL + 1);
    for (int i = 0; i < CODE_COUNT; i++) {
        cr_expect_eq((int)codes[i].code, i);
        cr_expect_str_eq(status_name(codes[i].code), codes[i].name);
        cr_expect_eq(status_is_transient(codes[i].code), codes[i].transient, "%s", codes[i].name);
    }
}

Test(status, a_code_from_elsewhere_has_a_name_and_is_permanent) {
    cr_expect_str_eq(status_name((enum status)4711), "unknown");
    cr_expect_not(status_is_transient((enum status)4711));
}
