/* json_test.c - JSON in and out. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json_read.h"
#include "cli/json_write.h"

TestSuite(json_read, .timeout = 10);
TestSuite(json_write, .timeout = 10);

static bool good(const char *text) {
    struct json_mistake mistake;
    return json_check(text, strlen(text), &mistake);
}

Test(json_read, any_value_will_do) {
    static const char *const values[] = {"1",    "\"a\"", "null", " true ", "[]",
                                         "{}",   "1e300", "-0",   "[1, {\"a\": [\"\\u00e9\\ud83d\\ude00\"]}]",
                                         "123456789012345678901234567890", "{\"a\": 1, \"a\": 2}"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        cr_expect(good(values[i]), "%s", values[i]);
    }
}

struct bad_json {
    char text[64];
    int line, column;
    char why[80];
};

ParameterizedTestParameters(json_read, mistakes_are_placed) {
    static struct bad_json cases[] = {
        {"", 1, 1, "empty: a JSON value is wanted"},
        {" \n ", 1, 1, "empty: a JSON value is wanted"},
        {"{\n \"a\": 1,\n}", 3, 1, "string or '}' expected near '}'"},
        {"{'a': 1}", 1, 2, "string or '}' expected near '''"},
        {"\"\\u0000\"", 1, 8, "\\u0000 cannot be stored: text in PostgreSQL has no NUL"},
        {"{\"\\u0000\": 1}", 1, 9, "\\u0000 cannot be stored: text in PostgreSQL has no NUL"},
        {"\"\\udc00\"", 1, 8, "half of a surrogate pair stands alone: it is not text"},
        {"\"\\ud800\\ud800\"", 1, 14, "half of a surrogate pair stands alone: it is not text"},
        {"\"\xC3\x28\"", 1, 1, "not UTF-8"},
        {"\"\xED\xA0\x80\"", 1, 1, "not UTF-8"},
        {"\"\xC0\xAF\"", 1, 1, "not UTF-8"},
        {"1e400", 1, 5, "a number is too large"},
        {"\"a\nb\"", 1, 2, "unexpected newline near '\"a'"},
        {"NaN", 1, 3, "invalid token near 'NaN'"},
        {"1 2", 1, 3, "end of file expected near '2'"},
    };
    return cr_make_param_array(struct bad_json, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct bad_json *bad, json_read, mistakes_are_placed, .timeout = 10) {
    struct json_mistake mistake = {0};
    cr_assert(!json_check(bad->text, strlen(bad->text), &mistake));
    cr_expect_str_eq(mistake.why, bad->why);
    cr_expect_eq(mistake.line, bad->line, "%s: line %d", bad->text, mistake.line);
    cr_expect_eq(mistake.column, bad->column, "%s: column %d", bad->text, mistake.column);
}

Test(json_read, deep_nesting_is_refused_not_followed) {
    char *deep = malloc(100001);
    memset(deep, '[', 100000);
    deep[100000] = '\0';
    struct json_mistake mistake;
    cr_expect(!json_check(deep, 100000, &mistake));
    cr_expect_str_eq(mistake.why, "nested too deeply");
    free(deep);
}

Test(json_read, members_are_spans_of_the_text) {
    const char *text = " { \"a\" : 0.10 , \"b\\\"}\":[1,\"]\\\\\",{\"x\":{}}],\"c\":\"s}\",\"d\":null,\"e\":{} } ";
    static const char *const wanted[][2] = {
        {"a", "0.10"}, {"b\\\"}", "[1,\"]\\\\\",{\"x\":{}}]"}, {"c", "\"s}\""}, {"d", "null"}, {"e", "{}"}};
    struct json_member member;
    size_t count = 0;
    cr_assert(good(text));
    for (const char *at = text; json_next_member(&at, &member); count++) {
        cr_assert_lt(count, 5);
        cr_expect_eq(member.name_length, strlen(wanted[count][0]));
        cr_expect_eq(strncmp(member.name, wanted[count][0], member.name_length), 0);
        cr_expect_eq(member.value_length, strlen(wanted[count][1]));
        cr_expect_eq(strncmp(member.value, wanted[count][1], member.value_length), 0);
    }
    cr_expect_eq(count, 5);
    const char *empty = "{ }";
    cr_expect(!json_next_member(&empty, &member));
}

Test(json_read, strings_are_copied_without_their_quotes) {
    char *plain = json_string_copy("\"abc\"", 5), *escaped = json_string_copy("\"a\\u00e9\\n\"", 11);
    cr_expect_str_eq(plain, "abc");
    cr_expect_str_eq(escaped, "aé\n");
    cr_expect_null(json_string_copy("12", 2));
    cr_expect_null(json_string_copy("{}", 2));
    free(plain);
    free(escaped);
    cr_expect(json_means_nothing("null", 4));
    cr_expect(!json_means_nothing("\"null\"", 6));
}

Test(json_write, puts_commas_between) {
    struct buf out;
    buf_init(&out, 1024);
    json_begin(&out, NULL, '{');
    json_add_text(&out, "a", "x{");
    json_add_text(&out, "none", NULL);
    json_begin(&out, "list", '[');
    json_begin(&out, NULL, '{');
    json_add_int(&out, "n", -5);
    json_end(&out, '}');
    json_add_bool(&out, NULL, true);
    json_add_raw(&out, NULL, "{\"raw\": [1]}");
    json_add_raw(&out, NULL, "");
    json_end(&out, ']');
    json_begin(&out, "empty", '[');
    json_end(&out, ']');
    json_add_text(&out, "last", "");
    json_end(&out, '}');
    buf_append_char(&out, '\n');
    json_begin(&out, NULL, '{');
    json_end(&out, '}');
    cr_expect_str_eq(out.data, "{\"a\":\"x{\",\"none\":null,\"list\":[{\"n\":-5},true,{\"raw\": [1]},null],\"empty\":[],"
                               "\"last\":\"\"}\n{}");
    buf_finish(&out);
}

Test(json_write, escapes_text) {
    struct buf out;
    buf_init(&out, 1024);
    json_add_text(&out, "q\"", "a\"b\\c\n\t\r\x01\x1b\x7f\xc2\x85é");
    cr_expect_str_eq(out.data, "\"q\\\"\":\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u001b\x7f\\u0085é\"");
    buf_finish(&out);
}
