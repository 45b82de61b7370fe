#include "base/utf8.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "base/random.h"

TestSuite(utf8, .timeout = 60);

/* An encoder that is independent of the decoder under test: 0 for what is no scalar value. */
static size_t encode(uint32_t point, char out[4]) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xC0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point >= 0xD800 && point <= 0xDFFF) {
        return 0;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xE0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3F));
        out[2] = (char)(0x80 | (point & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3F));
    out[2] = (char)(0x80 | (point >> 6 & 0x3F));
    out[3] = (char)(0x80 | (point & 0x3F));
    return 4;
}

Test(utf8, every_scalar_value_is_one_sequence_and_no_prefix_is) {
    for (uint32_t point = 0; point <= 0x10FFFF; point++) {
        char bytes[4];
        size_t length = encode(point, bytes);
        if (length == 0) {
            continue;
        }
        cr_assert_eq(utf8_sequence(bytes, length), length, "U+%04X", point);
        for (size_t cut = 0; cut < length; cut++) {
            cr_assert_eq(utf8_sequence(bytes, cut), 0, "U+%04X cut to %zu", point, cut);
        }
    }
}

/* Three free bytes behind each lead: exactly as many are well-formed as there are scalar values.
 * This leaves no room for overlong forms, surrogates or anything else. */
Test(utf8, nothing_else_is_a_sequence) {
    size_t two = 0, three = 0, four = 0;
    for (unsigned lead = 0x80; lead <= 0xFF; lead++) {
        for (unsigned second = 0; second <= 0xFF; second++) {
            char bytes[4] = {(char)lead, (char)second, 0, 0};
            two += utf8_sequence(bytes, 2) == 2;
            for (unsigned third = 0; third <= 0xFF; third++) {
                bytes[2] = (char)third;
                three += utf8_sequence(bytes, 3) == 3;
                if (lead >= 0xF0 && third >= 0x7F && third <= 0xC0) {
                    for (unsigned fourth = 0; fourth <= 0xFF; fourth++) {
                        bytes[3] = (char)fourth;
                        four += utf8_sequence(bytes, 4) == 4;
                    }
                }
            }
        }
    }
    cr_expect_eq(two, 0x800 - 0x80);
    cr_expect_eq(three, 0x10000 - 0x800 - 0x800);
    cr_expect_eq(four, 0x110000 - 0x10000);
}

static const struct {
    const char *bytes;
    bool valid;
} validity[] = {
    {"", true},
    {"plain", true},
    {"gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80", true},
    {"\xC3", false},
    {"a\x80", false},
    {"\xC0\x80", false},
    {"\xE0\x80\x80", false},
    {"\xED\xA0\x80", false},
    {"\xF4\x90\x80\x80", false},
    {"\xF8\x88\x80\x80\x80", false},
    {"\xFF", false},
    {"\xE2\x82"
     "a",
     false},
};

Test(utf8, is_valid) {
    for (size_t i = 0; i < sizeof validity / sizeof validity[0]; i++) {
        cr_expect_eq(utf8_is_valid(validity[i].bytes, strlen(validity[i].bytes)), validity[i].valid,
                     "row %zu", i);
    }
    cr_expect(utf8_is_valid("a\0b", 3));
}

#define FFFD "\xEF\xBF\xBD"

static const struct {
    const char *bytes;
    size_t length, max_bytes;
    const char *expected;
} sanitized[] = {
    {"abc", 3, 100, "abc"},
    {"abc", 3, 2, "ab"},
    {"abc", 3, 0, ""},
    {"a\tb\nc", 5, 100, "a\tb\nc"},
    {"a\rb\x1B[0m\x7F", 8, 100, "a?b?[0m?"},
    {"a\0b", 3, 100, "a" FFFD "b"},
    {"\xFF\xFE", 2, 100, FFFD FFFD},
    {"\xE2\x82", 2, 100, FFFD FFFD},
    {"\xE2\x82\xAC", 3, 3, "\xE2\x82\xAC"},
    {"\xE2\x82\xAC", 3, 2, ""},
    {"a\xE2\x82\xAC"
     "b",
     5, 3, "a"},
    {"a\xF0\x9F\x98\x80", 5, 4, "a"},
    {"a\xFF", 2, 3, "a"},
    {"a\xFF", 2, 4, "a" FFFD},
    {"\xED\xA0\x80", 3, 100, FFFD FFFD FFFD},
};

Test(utf8, sanitize) {
    for (size_t i = 0; i < sizeof sanitized / sizeof sanitized[0]; i++) {
        struct buf out;
        buf_init(&out, 1000);
        utf8_sanitize(&out, sanitized[i].bytes, sanitized[i].length, sanitized[i].max_bytes);
        cr_expect_str_eq(out.data, sanitized[i].expected, "row %zu: %s", i, out.data);
        cr_expect_not(out.overflow);
        buf_finish(&out);
    }
}

Test(utf8, sanitize_appends) {
    struct buf out;
    buf_init(&out, 1000);
    buf_append_string(&out, "x=");
    utf8_sanitize(&out, "abc", 3, 2);
    cr_expect_str_eq(out.data, "x=ab");
    buf_finish(&out);
}

static size_t random_bytes(const struct random_ops *random, char *bytes, size_t max,
                           bool with_nul) {
    /* Pieces rather than uniform bytes: those would hardly ever hold a sequence of more than two
     * bytes. */
    static const char *const pieces[] = {
        "\xE2", "\x82", "\xAC", "\xC3", "\xBC", "\xF0", "\x9F", "\x98", "\x80",        "%",
        "4",    "1",    "F",    "\x7F", "\n",   "a",    "\xFF", "%E2",  "\xE2\x82\xAC"};
    size_t length = 0, target = random_below(random, max - 4);
    while (length < target) {
        if (with_nul && random_below(random, 20) == 0) {
            bytes[length++] = '\0';
            continue;
        }
        const char *piece = pieces[random_below(random, sizeof pieces / sizeof pieces[0])];
        memcpy(bytes + length, piece, strlen(piece));
        length += strlen(piece);
    }
    return length;
}

Test(utf8, sanitize_keeps_its_promises_for_any_bytes_and_limit) {
    struct random_seeded seeded;
    struct random_ops random = random_from_seed(&seeded, 11);
    struct buf out;
    buf_init(&out, 1000);
    for (int round = 0; round < 50000; round++) {
        char bytes[48];
        size_t length = random_bytes(&random, bytes, sizeof bytes, true);
        size_t max = random_below(&random, 60);
        buf_clear(&out);
        utf8_sanitize(&out, bytes, length, max);
        cr_assert_leq(out.length, max);
        cr_assert(utf8_is_valid(out.data, out.length));
        cr_assert_eq(strlen(out.data), out.length);
        for (size_t i = 0; i < out.length; i++) {
            unsigned char c = (unsigned char)out.data[i];
            cr_assert((c >= 0x20 && c != 0x7F) || c == '\t' || c == '\n');
        }
    }
    buf_finish(&out);
}

static const struct {
    const char *name, *escaped;
} names[] = {
    {"", ""},
    {"report.pdf", "report.pdf"},
    {"a b/c", "a b/c"},
    {"100%", "100%25"},
    {"%41", "%2541"},
    {"a\nb\tc\x7F\x01", "a%0Ab%09c%7F%01"},
    {"gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F"},
    {"gr\xFC\xDF", "gr%FC%DF"},
    {"\xE2\x82", "%E2%82"},
    {"\xED\xA0\x80", "%ED%A0%80"},
};

Test(utf8, escapes_names_and_back) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct buf out;
        buf_init(&out, 1000);
        utf8_escape_name(&out, names[i].name, strlen(names[i].name));
        cr_expect_str_eq(out.data, names[i].escaped);
        buf_clear(&out);
        cr_expect(utf8_unescape_name(&out, names[i].escaped), "row %zu", i);
        cr_expect_str_eq(out.data, names[i].name);
        buf_finish(&out);
    }
}

Test(utf8, unescape_undoes_escape_for_any_bytes) {
    struct random_seeded seeded;
    struct random_ops random = random_from_seed(&seeded, 5);
    struct buf escaped, back;
    buf_init(&escaped, 1000);
    buf_init(&back, 1000);
    for (int round = 0; round < 50000; round++) {
        char bytes[48];
        size_t length = random_bytes(&random, bytes, sizeof bytes, false);
        buf_clear(&escaped);
        buf_clear(&back);
        utf8_escape_name(&escaped, bytes, length);
        cr_assert(utf8_is_valid(escaped.data, escaped.length));
        cr_assert(utf8_unescape_name(&back, escaped.data));
        cr_assert_eq(back.length, length);
        cr_assert_eq(memcmp(back.data, bytes, length), 0);
    }
    buf_finish(&escaped);
    buf_finish(&back);
}

static const char *const bad_escapes[] = {
    "%",          "a%",         "%4",     "%G1", "%1G",  "% 1",  "%00", /* malformed, or NUL */
    "%41",        "%fc",        "%C3%BC", "%0a", "a\nb", "\xFF", /* another spelling exists */
    "%E2%82\xAC", "\xE2%82%AC", "%%",
};

Test(utf8, unescape_refuses_what_escape_does_not_write) {
    struct buf out;
    buf_init(&out, 1000);
    buf_append_string(&out, "kept");
    for (size_t i = 0; i < sizeof bad_escapes / sizeof bad_escapes[0]; i++) {
        cr_expect_not(utf8_unescape_name(&out, bad_escapes[i]), "row %zu", i);
        cr_expect_str_eq(out.data, "kept");
        cr_expect_eq(out.length, 4);
    }
    buf_finish(&out);
}

Test(utf8, unescape_into_a_full_buffer_fails) {
    struct buf out;
    buf_init(&out, 3);
    cr_expect_not(utf8_unescape_name(&out, "abcd"));
    cr_expect(out.overflow);
    cr_expect_str_eq(out.data, "");
    buf_finish(&out);
}
