/* output_test.c - text made safe for terminals, and tables. */
#include <criterion/criterion.h>
#include <stdint.h>

#include "cli/output.h"

TestSuite(output, .timeout = 10);

static void expect_shown(const char *text, int max_width, const char *wanted) {
    struct buf out;
    buf_init(&out, SIZE_MAX);
    text_show(&out, text, max_width);
    cr_expect_str_eq(out.data, wanted);
    buf_finish(&out);
}

Test(output, lines_stay_lines) {
    struct buf out;
    buf_init(&out, SIZE_MAX);
    text_show_lines(&out, "p.yaml:1:2: what\033[31m\n\ta\r\377\n");
    cr_expect_str_eq(out.data, "p.yaml:1:2: what\\x1b[31m\n\ta\\r\\xff\n");
    buf_finish(&out);
}

Test(output, control_characters_are_shown_as_such) {
    expect_shown("plain é 日本", 0, "plain é 日本");
    expect_shown("a\nb\tc\rd", 0, "a\\nb\\tc\\rd");
    expect_shown("\033[31mred\007\177", 0, "\\x1b[31mred\\x07\\x7f");
    expect_shown("\xC2\x9B" "31m", 0, "\\x9b31m");
    expect_shown("\xE2\x80\xAE" "fdp.exe", 0, "\\u202efdp.exe");
    expect_shown("bad \xFF\xC3", 0, "bad \\xff\\xc3");
}

Test(output, text_is_cut_to_a_width) {
    expect_shown("abcdef", 6, "abcdef");
    expect_shown("abcdefg", 6, "abcde…");
    expect_shown("日本語", 6, "日本語");
    expect_shown("日本語x", 6, "日本…");
    expect_shown("ab\ncd", 5, "ab\\n…");
    cr_expect_eq(text_width("日本"), 4);
    cr_expect_eq(text_width("e\xCC\x81"), 1);
    cr_expect_eq(text_width("\n"), 2);
}

Test(output, times_spans_and_sizes_are_short) {
    struct buf out;
    buf_init(&out, SIZE_MAX);
    text_time(&out, "2026-01-31T12:00:00.123456+00:00");
    buf_append_char(&out, '|');
    text_time(&out, "2026-01-31T12:00:00+05:30");
    buf_append_char(&out, '|');
    text_time(&out, "infinity");
    cr_expect_str_eq(out.data, "2026-01-31 12:00:00+00|2026-01-31 12:00:00+05:30|infinity");
    static const double spans[] = {0.128, 3.21, 42.4, 999.4, 1500, 59949, 61000, 3661000};
    static const char *const wanted[] = {"0.13 ms", "3.2 ms", "42 ms", "999 ms", "1.5 s", "59.9 s", "1m1s", "1h1m"};
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        buf_clear(&out);
        text_span(&out, spans[i]);
        cr_expect_str_eq(out.data, wanted[i]);
    }
    buf_clear(&out);
    text_size(&out, 1023);
    text_size(&out, 1536);
    text_size(&out, INT64_C(5) << 40);
    cr_expect_str_eq(out.data, "1023 B1.5 kB5120.0 GB");
    buf_finish(&out);
}

Test(output, one_thing_is_not_several) {
    cr_expect_str_eq(text_plural(1), "");
    cr_expect_str_eq(text_plural(0), "s");
    cr_expect_str_eq(text_plural(2), "s");
}

Test(output, tables_are_aligned) {
    static const struct table_column columns[] = {{"NAME", false}, {"N", true}, {"WHY", false}};
    struct table table;
    struct buf out;
    buf_init(&out, SIZE_MAX);
    table_init(&table, columns, 3);
    table_print(&table, &out);
    cr_expect_str_empty(out.data, "no headings without rows");
    table_add(&table, "日本");
    table_add_int(&table, 12345);
    table_add(&table, "");
    table_add(&table, "a\nb");
    table_add_int(&table, 7);
    table_add(&table, "because");
    table_print(&table, &out);
    cr_expect_str_eq(out.data, "NAME      N  WHY\n"
                               "日本  12345\n"
                               "a\\nb      7  because\n");
    buf_clear(&out);
    table_add(&table, "x");
    table_add(&table, "");
    table_add(&table, "y");
    table_print(&table, &out);
    cr_expect_str_eq(out.data, "x            y\n", "headings come once, widths stay");
    table_add(&table, "left over");
    table_finish(&table);
    buf_finish(&out);
}
