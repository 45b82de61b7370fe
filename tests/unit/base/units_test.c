#include "base/units.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

TestSuite(units, .timeout = 10);

static const struct {
    const char *text;
    int64_t ms;
} durations[] = {
    {"0s", 0},
    {"0ms", 0},
    {"250ms", 250},
    {"10s", 10000},
    {"010s", 10000},
    {"5m", 300000},
    {"1h30m", 5400000},
    {"1m1ms", 60001},
    {"2d", 172800000},
    {"1w", 604800000},
    {"1w2d3h4m5s6ms", 788645006},
    {"90m", 5400000},
    {"9223372036854775807ms", INT64_MAX},
    {"9223372036854775s807ms", INT64_MAX},
    {"15250284452w", INT64_C(15250284452) * 604800000},
};

static const char *const bad_durations[] = {
    "",
    "0",
    "10",
    "s",
    "ms",
    "1",
    "1h30",
    "h1",
    "-1s",
    "+1s",
    " 1s",
    "1s ",
    "1 s",
    "1h 30m",
    "1.5h",
    "1,5h",
    "1S",
    "1M",
    "1H",
    "1min",
    "1sec",
    "1us",
    "1y",
    "30m1h",
    "1h1h",
    "1ms1s",
    "1s1s",
    "0x10s",
    "1e3s",
    "1h-30m",
    "1hm",
    "\xC2\xA0"
    "1s",
    "\xD9\xA1s", /* an Arabic digit */
    "9223372036854775808ms",
    "99999999999999999999999999s",
    "9223372036854776s",
    "9223372036854775s808ms",
    "15250284453w",
    "18446744073709551617ms",
};

Test(units, parses_durations) {
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        int64_t ms = -1;
        cr_expect(units_parse_duration(durations[i].text, &ms), "%s", durations[i].text);
        cr_expect_eq(ms, durations[i].ms, "%s: %lld", durations[i].text, (long long)ms);
    }
}

Test(units, refuses_other_durations_and_leaves_the_result) {
    int64_t ms = 4711;
    for (size_t i = 0; i < sizeof bad_durations / sizeof bad_durations[0]; i++) {
        cr_expect_not(units_parse_duration(bad_durations[i], &ms), "'%s'", bad_durations[i]);
    }
    cr_expect_not(units_parse_duration(NULL, &ms));
    cr_expect_eq(ms, 4711);
}

static const struct {
    const char *text;
    int64_t bytes;
} sizes[] = {
    {"0B", 0},
    {"512B", 512},
    {"64kB", 65536},
    {"512MB", INT64_C(536870912)},
    {"2GB", INT64_C(2147483648)},
    {"3TB", INT64_C(3298534883328)},
    {"9223372036854775807B", INT64_MAX},
    {"8388607TB", INT64_C(8388607) << 40},
};

static const char *const bad_sizes[] = {
    "",
    "0",
    "512",
    "B",
    "kB",
    "512b",
    "1KB",
    "1kb",
    "1mB",
    "1K",
    "1M",
    "1KiB",
    "1PB",
    "-1B",
    "+1B",
    " 1B",
    "1B ",
    "1 B",
    "1.5GB",
    "1GB1MB",
    "1BB",
    "1B1",
    "0x1B",
    "9223372036854775808B",
    "8388608TB",
    "99999999999999999999GB",
    "9007199254740992kB",
};

Test(units, parses_sizes) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t bytes = -1;
        cr_expect(units_parse_size(sizes[i].text, &bytes), "%s", sizes[i].text);
        cr_expect_eq(bytes, sizes[i].bytes, "%s: %lld", sizes[i].text, (long long)bytes);
    }
}

Test(units, refuses_other_sizes_and_leaves_the_result) {
    int64_t bytes = 4711;
    for (size_t i = 0; i < sizeof bad_sizes / sizeof bad_sizes[0]; i++) {
        cr_expect_not(units_parse_size(bad_sizes[i], &bytes), "'%s'", bad_sizes[i]);
    }
    cr_expect_not(units_parse_size(NULL, &bytes));
    cr_expect_eq(bytes, 4711);
}

static const struct {
    int64_t ms;
    const char *text;
} formatted[] = {
    {0, "0s"},
    {1, "1ms"},
    {250, "250ms"},
    {1000, "1s"},
    {10000, "10s"},
    {10500, "10s500ms"},
    {5400000, "1h30m"},
    {5400001, "1h30m"},
    {86400000 + 5000, "1d5s"},
    {604800000, "1w"},
    {INT64_C(864000000), "1w3d"},
    {-1500, "-1s500ms"},
    {INT64_MAX, "15250284452w3d"},
    {INT64_MIN, "-15250284452w3d"},
};

Test(units, formats_durations) {
    for (size_t i = 0; i < sizeof formatted / sizeof formatted[0]; i++) {
        char out[64];
        cr_expect_eq(units_format_duration(formatted[i].ms, out, sizeof out), out);
        cr_expect_str_eq(out, formatted[i].text);
    }
}

Test(units, format_stays_inside_a_small_buffer) {
    char out[4] = "???";
    units_format_duration(5400000, out, 3);
    cr_expect_str_eq(out, "1h");
    cr_expect_eq(out[3], '\0');
    char none = 'x';
    units_format_duration(5400000, &none, 0);
    cr_expect_eq(none, 'x');
}

/* What two units can say exactly comes back as it was. */
Test(units, parse_undoes_format) {
    for (int64_t ms = 0; ms < 60000; ms += 7) {
        char out[64];
        int64_t back = -1;
        cr_assert(units_parse_duration(units_format_duration(ms, out, sizeof out), &back));
        cr_assert_eq(back, ms, "%s", out);
    }
}
