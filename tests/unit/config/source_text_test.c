/* source_text_test.c - lines and columns, against a plain count. */
#include "config/source_text.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/random.h"

TestSuite(source_text, .timeout = 20);

static struct position count_plainly(const char *text, size_t offset) {
    struct position at = {1, 1};
    for (size_t i = 0; i < offset; i++) {
        bool breaks = text[i] == '\n' || (text[i] == '\r' && text[i + 1] != '\n');
        if (breaks) {
            at = (struct position){at.line + 1, 1};
        } else if (((unsigned char)text[i + 1] & 0xC0) != 0x80) {
            at.column++;
        }
    }
    return at;
}

static bool begins_character(char byte) {
    return ((unsigned char)byte & 0xC0) != 0x80;
}

static void check_all(const struct buf *text) {
    struct arena arena = {0};
    struct source_text source;
    source_text_init(&source, &arena, "x", text->data, text->length);
    for (size_t i = 0; i <= text->length; i++) {
        if (!begins_character(text->data[i])) {
            continue;
        }
        struct position at = source_text_position(&source, i);
        struct position plain = count_plainly(text->data, i);
        cr_assert(at.line == plain.line && at.column == plain.column, "%zu is %d:%d, not %d:%d", i,
                  plain.line, plain.column, at.line, at.column);
        if (text->data[i] != '\r' && text->data[i] != '\n') {
            cr_assert_eq(source_text_offset(&source, at), i, "%d:%d", at.line, at.column);
        }
    }
    arena_finish(&arena);
}

Test(source_text, positions_of_random_texts) {
    static const char *const parts[] = {"a",  "\xC3\xA4", "\xE6\xBC\xA2", "\xF0\x9F\x98\x80",
                                        "\n", "\r\n",     "\r",           "\t"};
    struct random_seeded seeded;
    struct random_ops random = random_from_seed(&seeded, 66);
    for (int round = 0; round < 40; round++) {
        /* Odd rounds have few line breaks, so that lines are longer than an index step. */
        uint64_t kinds = round % 2 == 0 ? 8 : 4;
        struct buf text;
        buf_init(&text, SIZE_MAX);
        for (uint64_t i = random_below(&random, 3000); i > 0; i--) {
            bool breaks = random_below(&random, 1500) == 0;
            buf_append_string(&text, parts[breaks ? 4 : random_below(&random, kinds)]);
        }
        check_all(&text);
        buf_finish(&text);
    }
}

Test(source_text, lines_that_are_a_whole_number_of_steps) {
    for (size_t length = 0; length <= 3 * SOURCE_TEXT_STEP; length += SOURCE_TEXT_STEP / 4) {
        struct buf text;
        buf_init(&text, SIZE_MAX);
        for (size_t i = 0; i < length; i++) {
            buf_append_char(&text, 'a');
        }
        check_all(&text);
        buf_append_string(&text, "\n");
        check_all(&text);
        buf_finish(&text);
    }
}

Test(source_text, positions_beyond_a_line_are_its_end) {
    struct arena arena = {0};
    struct source_text source;
    source_text_init(&source, &arena, "x", "ab\ncd\n", 6);
    cr_expect_eq(source.line_count, 3);
    cr_expect_eq(source_text_offset(&source, (struct position){1, 9}), 2);
    cr_expect_eq(source_text_offset(&source, (struct position){2, 3}), 5);
    cr_expect_eq(source_text_offset(&source, (struct position){3, 1}), 6);
    cr_expect_eq(source_text_offset(&source, (struct position){9, 9}), 6);
    cr_expect_eq(source_text_offset(&source, (struct position){1, 0}), 0);
    arena_finish(&arena);
}

Test(source_text, faults) {
    static const struct {
        const char *text;
        size_t length;
        struct position at;
        const char *message; /* NULL: none */
    } rows[] = {
        {"", 0, {0, 0}, NULL},
        {"a\tb\r\n\xC3\xA4", 7, {0, 0}, NULL},
        {"\xEF\xBB\xBF"
         "a",
         4,
         {0, 0},
         NULL},
        {"a\xEF\xBB\xBF", 4, {1, 2}, "the character U+FEFF cannot stand in a file"},
        {"\n\0", 2, {2, 1}, "the character U+0000 cannot stand in a file"},
        {"\x7F", 1, {1, 1}, "the character U+007F cannot stand in a file"},
        {"\xC2\x85", 2, {1, 1}, "the character U+0085 cannot stand in a file"},
        {"\xC2\xA0", 2, {0, 0}, NULL},
        {"\xE2\x80\xA9", 3, {1, 1}, "the character U+2029 cannot stand in a file"},
        {"\xEF\xBF\xBF", 3, {1, 1}, "the character U+FFFF cannot stand in a file"},
        {"\xEF\xBF\xBD", 3, {0, 0}, NULL},
        {"\xF4\x8F\xBF\xBF", 4, {0, 0}, NULL},
        {"\xC3\xA4\xC3", 3, {1, 2}, "the byte 0xC3 is not UTF-8"},
        {"a\nb\x80", 4, {2, 2}, "the byte 0x80 is not UTF-8"},
        {"\xED\xA0\x80", 3, {1, 1}, "the byte 0xED is not UTF-8"},
        {"\xC0\x80", 2, {1, 1}, "the byte 0xC0 is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct arena arena = {0};
        struct source_text source;
        struct source_fault fault = {0};
        source_text_init(&source, &arena, "x", rows[i].text, rows[i].length);
        cr_expect_eq(source_text_fault(&source, &arena, &fault), rows[i].message != NULL, "%zu", i);
        if (rows[i].message != NULL) {
            cr_expect_str_eq(fault.message, rows[i].message);
            cr_expect_eq(fault.at.line, rows[i].at.line, "%zu", i);
            cr_expect_eq(fault.at.column, rows[i].at.column, "%zu", i);
        }
        arena_finish(&arena);
    }
}

Test(source_text, line_is_without_its_break) {
    struct arena arena = {0};
    struct source_text source;
    static const char text[] = "a\r\nbc\rd\n\n\xC3\xA4";
    static const char *const lines[] = {"a", "bc", "d", "", "\xC3\xA4", ""};
    source_text_init(&source, &arena, "x", text, sizeof text - 1);
    cr_expect_eq(source.line_count, 5);
    for (int i = 0; i < 6; i++) {
        const char *start;
        size_t length;
        source_text_line(&source, i + 1, &start, &length);
        cr_expect_eq(length, strlen(lines[i]), "%d", i);
        cr_expect_eq(memcmp(start, lines[i], length), 0, "%d", i);
    }
    arena_finish(&arena);
}
