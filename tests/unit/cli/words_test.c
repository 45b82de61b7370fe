/* words_test.c - what users write: instants, patterns, names that nearly exist. */
#include <criterion/criterion.h>
#include <stdint.h>

#include "cli/instant.h"
#include "cli/nearest.h"
#include "cli/pattern.h"

TestSuite(instant, .timeout = 10);
TestSuite(pattern, .timeout = 10);
TestSuite(nearest, .timeout = 10);

Test(instant, has_a_zone) {
    static const char *const good[] = {
        "2026-01-31T12:00:00Z",       "2026-01-31 12:00:00+00",       "2026-01-31T12:00Z",
        "2026-01-31T12:00:00.5Z",     "2026-01-31T12:00:00.123456789-11:30", "2024-02-29T00:00:00+0530",
        "0001-01-01T00:00:00Z",       "9999-12-31T23:59:60Z",         "2000-02-29T00:00:00Z",
    };
    static const char *const bad[] = {
        "",
        "now",
        "infinity",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-1-31T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "1900-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "0000-01-01T00:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:61Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00.1234567890Z",
        "2026-01-31T12:00:00Z ",
        "2026-01-31T12:00:00+1",
        "2026-01-31T12:00:00+16:00",
        "2026-01-31T12:00:00+01:",
        "2026-01-31T12:00:00+01:60",
        "2026-01-31T12:00:00 Europe/Berlin",
        "2026-01-31T12",
        "2026-01-31X12:00:00Z",
        "20260131T120000Z",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_expect(instant_is_valid(good[i]), "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect(!instant_is_valid(bad[i]), "%s", bad[i]);
    }
}

static void expect_like(const char *pattern, const char *like, const char *within) {
    struct buf whole, part;
    buf_init(&whole, SIZE_MAX);
    buf_init(&part, SIZE_MAX);
    pattern_to_like(&whole, pattern);
    pattern_to_like_within(&part, pattern);
    cr_expect_str_eq(whole.data, like);
    cr_expect_str_eq(part.data, within);
    buf_finish(&whole);
    buf_finish(&part);
}

Test(pattern, becomes_like) {
    expect_like("a*b?c", "a%b_c", "a%b_c");
    expect_like("100%_\\\\", "100\\%\\_\\\\", "%100\\%\\_\\\\%");
    expect_like("what\\?", "what?", "%what?%");
    expect_like("\\*", "*", "%*%");
    expect_like("end\\", "end\\\\", "%end\\\\%");
    expect_like("", "", "%%");
}

static void expect_nearest(const char *word, const char *wanted) {
    static const char *const names[] = {"library", "mail", "inbox/2026/01/report.pdf", "inbox/2026/02/report.pdf", "LIB"};
    struct nearest nearest;
    nearest_init(&nearest, word);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        nearest_offer(&nearest, names[i]);
    }
    if (wanted == NULL) {
        cr_expect_null(nearest.best, "%s", nearest.best);
    } else {
        cr_assert_not_null(nearest.best, "%s", word);
        cr_expect_str_eq(nearest.best, wanted);
    }
    nearest_finish(&nearest);
}

Test(nearest, finds_slips) {
    expect_nearest("libary", "library");
    expect_nearest("Library", "library");
    expect_nearest("mial", "mail");
    expect_nearest("lib", "LIB");
    expect_nearest("inbox/2026/01/reprot.pdf", "inbox/2026/01/report.pdf");
    expect_nearest("inbox/2026/02/report.pd", "inbox/2026/02/report.pdf");
    expect_nearest("something else", NULL);
    expect_nearest("", NULL);
}
