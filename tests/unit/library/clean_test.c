/* Cleaned text. */
#include "clean.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

TestSuite(library_clean, .timeout = 10);

#define BYTES(literal) literal, sizeof(literal) - 1

static const struct {
    const char *from;
    size_t length;
    const char *expected;
} cases[] = {
    {BYTES(""), ""},
    {BYTES(" \t\r\n "), ""},
    {BYTES("a  b\t\tc"), "a b c"},
    {BYTES("  a \n  b  \n"), "a\nb"},
    {BYTES("a\r\nb\rc\n\rd"), "a\nb\nc\n\nd"},
    {BYTES("a\n\n\n\n\nb"), "a\n\nb"},
    {BYTES("a\n \n\t\nb"), "a\n\nb"},
    {BYTES("a\0b\x01\x1B[1mc\x7F"), "ab[1mc"},
    {BYTES("a\vb\fc"), "a\nb\n\nc"},
    {BYTES("a\xC2\xA0\xE3\x80\x80"
           "b"),
     "a b"}, /* no-break, wide */
    {BYTES("\xEF\xBB\xBF"
           "a\xE2\x80\x8B"
           "b\xC2\xAD"
           "c\xE2\x80\xAE"),
     "abc"}, /* marks of no width */
    {BYTES("a\xC2\x85"
           "b\xE2\x80\xA8"
           "c\xE2\x80\xA9"
           "d"),
     "a\nb\nc\n\nd"},
    {BYTES("a\xC2\x80\xC2\x9F"
           "b"),
     "ab"},
    {BYTES("a\xEF\xBF\xBE\xEF\xB7\x90"
           "b"),
     "ab"},
    {BYTES("\xE2\x80\x8D\xE2\x80\x8C"), "\xE2\x80\x8D\xE2\x80\x8C"}, /* joiners stay */
    {BYTES("a\xFF"
           "b"),
     "ab"},
};

Test(library_clean, follows_its_rules) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text out;
        text_init(&out, 1000);
        clean_text(cases[i].from, cases[i].length, &out);
        cr_expect_str_eq(text_string(&out), cases[i].expected, "case %zu: '%s'", i,
                         text_string(&out));
        cr_expect_eq(out.length, strlen(cases[i].expected));
        text_finish(&out);
    }
}

/* However a text comes in, in one piece or byte by byte at characters' borders. */
Test(library_clean, does_not_depend_on_pieces) {
    static const char text[] = "  one \r\n\r\n two\xC3\xA4 \r\n three  ";
    struct text whole, pieces;
    text_init(&whole, 1000);
    text_init(&pieces, 1000);
    clean_text(text, strlen(text), &whole);
    struct cleaner cleaner;
    cleaner_init(&cleaner, &pieces);
    for (size_t i = 0; i < strlen(text);) {
        uint32_t code;
        size_t taken = utf8_decode(text + i, strlen(text) - i, &code);
        cleaner_add(&cleaner, text + i, taken, true);
        i += taken;
    }
    cr_assert_str_eq(pieces.data, whole.data);
    text_finish(&whole);
    text_finish(&pieces);
}

Test(library_clean, is_stable) {
    srand(7);
    for (int round = 0; round < 2000; round++) {
        char noise[200];
        for (size_t i = 0; i < sizeof noise; i++) {
            static const char some[] = "ab \n\r\t\f\v\xC2\x85\xA0\xE2\x80\xA8.\0\x01";
            noise[i] = some[(size_t)rand() % (sizeof some - 1)];
        }
        struct text once, twice;
        text_init(&once, 1000);
        text_init(&twice, 1000);
        clean_text(noise, sizeof noise, &once);
        clean_text(text_string(&once), once.length, &twice);
        cr_assert_str_eq(text_string(&twice), text_string(&once));
        cr_assert_null(strstr(text_string(&once), "  "));
        cr_assert_null(strstr(text_string(&once), "\n\n\n"));
        cr_assert_null(strstr(text_string(&once), " \n"));
        cr_assert_null(strstr(text_string(&once), "\n "));
        text_finish(&once);
        text_finish(&twice);
    }
}

Test(library_clean, a_line_is_one_line_of_bounded_length) {
    struct text out;
    text_init(&out, 100);
    clean_line(BYTES("  a\n\n title\f of  many \xE2\x80\xA9 lines "), 100, &out);
    cr_assert_str_eq(out.data, "a title of many lines");
    text_finish(&out);
    text_init(&out, 100);
    clean_line(BYTES("\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4"), 10, &out);
    cr_assert_str_eq(out.data, "\xC3\xA4\xC3\xA4\xC3\xA4\xE2\x80\xA6"); /* 3 and a half fit */
    text_finish(&out);
}

Test(library_clean, stops_at_the_limit) {
    struct text out;
    text_init(&out, 5);
    clean_text(BYTES("1234567890"), &out);
    cr_assert_eq(out.state, TEXT_TOO_LONG);
    cr_assert_str_eq(out.data, "12345");
    text_finish(&out);
}
