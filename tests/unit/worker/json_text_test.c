/* JSON read where it stands: the grammar, against a table and against jansson; members, elements and strings. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/leaks.h"
#include "worker/json_text.h"

static void init(void) {
    leaks_fail_tests();
}

TestSuite(json_text, .init = init, .timeout = 120);

static bool is_json(const char *text, size_t length) {
    struct json_span value;
    size_t fault;
    /* A copy of its own length: reading beyond it is found by the sanitizer. */
    char *copy = malloc(length + (length == 0));
    cr_assert_not_null(copy);
    memcpy(copy, text, length);
    bool good = json_text_check(copy, length, &value, &fault);
    cr_assert_leq(fault, length);
    free(copy);
    return good;
}

Test(json_text, takes_what_is_json) {
    static const char *const good[] = {
        "0", "-0", "10", "-1.5e+10", "1E400", "123456789012345678901234567890.123", "true", "false", "null", "\"\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\"", "{}", "[]", " [ ] ", "{ }", "[1]", "[1,2]", "[[],[[]],{}]",
        "{\"a\":1,\"b\":{\"c\":[true]}}", "\t\r\n {\"a\" : 1 , \"a\" : 2 } \n", "\"\\ud800\"", "\"\\u0000\"", "\"\xFF\"",
        "[{\"a\":[{}]}]", "[\"]\",\"}\"]",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_assert(is_json(good[i], strlen(good[i])), "%s", good[i]);
    }
}

Test(json_text, says_where_it_stops_being_json) {
    static const struct {
        const char *text;
        size_t fault;
    } bad[] = {
        {"", 0},        {" ", 1},       {"{", 1},       {"[", 1},        {"[1", 2},       {"[1,", 3},    {"[1,]", 3},
        {"[,1]", 1},    {"{\"a\"}", 4}, {"{\"a\":}", 5}, {"{\"a\":1,}", 7}, {"{a:1}", 1},   {"{1:1}", 1},  {"[1 2]", 3},
        {"1 2", 2},     {"01", 0},      {"-", 0},       {".5", 0},       {"1.", 0},       {"1e", 0},     {"1e+", 0},
        {"+1", 0},      {"tru", 0},     {"True", 0},    {"nul", 0},      {"\"", 1},       {"\"\\", 2},   {"\"\\x\"", 2},
        {"\"\\u12\"", 2}, {"\"\n\"", 1},  {"]", 0},       {"}", 0},        {"[}", 1},       {"{]", 1},     {"[1}", 2},
        {"{\"a\":1]", 6}, {"[]]", 2},     {"'a'", 0},     {"{\"a\":1 \"b\"}", 7}, {"nan", 0},   {"[1,,2]", 3}, {"\xEF\xBB\xBF{}", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct json_span value;
        size_t fault;
        cr_assert_not(json_text_check(bad[i].text, strlen(bad[i].text), &value, &fault), "%s", bad[i].text);
        cr_assert_eq(fault, bad[i].fault, "%s: %zu", bad[i].text, fault);
        is_json(bad[i].text, strlen(bad[i].text));
    }
    cr_assert_not(is_json("1\0", 2));
    cr_assert_not(is_json("\"\\\0\"", 4));
}

Test(json_text, takes_any_depth) {
    enum { DEPTH = 1000000 };
    char *text = malloc(2 * DEPTH);
    cr_assert_not_null(text);
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    cr_assert(is_json(text, 2 * DEPTH));
    cr_assert_not(is_json(text, 2 * DEPTH - 1));
    free(text);
}

/* jansson is stricter about what a text may be; of these pieces it has no doubts. */
Test(json_text, agrees_with_jansson) {
    static const char *const pieces[] = {"{", "}", "[", "]", ",", ":", "\"a\"", "\"\\n\"", "1", "-0.5", "1e3", "true", "null",
                                         " ", "0", "-", ".", "\"", "\\", "{\"b\":", "[[", "]]", "{}", "[]"};
    srand(20);
    int good_count = 0;
    for (int round = 0; round < 200000; round++) {
        char text[128] = "";
        int count = 1 + rand() % 7;
        for (int i = 0; i < count; i++) {
            strcat(text, pieces[(size_t)rand() % (sizeof pieces / sizeof pieces[0])]);
        }
        json_error_t error;
        json_t *parsed = json_loads(text, JSON_DECODE_ANY, &error);
        if (parsed == NULL && json_error_code(&error) == json_error_numeric_overflow) {
            continue; /* it has no place for what is JSON */
        }
        bool good = is_json(text, strlen(text));
        cr_assert_eq(good, parsed != NULL, "%s", text);
        if (good) {
            struct json_span value, name, element;
            size_t fault, elements = 0;
            json_text_check(text, strlen(text), &value, &fault);
            if (json_text_kind(value) == '[' || json_text_kind(value) == '{') {
                for (const char *at = NULL; json_text_next(value, &at, &name, &element); elements++) {
                    cr_assert(is_json(element.at, element.length), "%s", text);
                }
            }
            cr_assert(json_is_array(parsed) ? elements == json_array_size(parsed) : elements >= json_object_size(parsed),
                      "%s", text);
            good_count++;
        }
        json_decref(parsed);
    }
    cr_assert_gt(good_count, 1000);
}

static struct json_span span_of(const char *text) {
    struct json_span value;
    size_t fault;
    cr_assert(json_text_check(text, strlen(text), &value, &fault));
    return value;
}

static void want_span(struct json_span span, const char *text) {
    cr_assert_eq(span.length, strlen(text), "%.*s", (int)span.length, span.at);
    cr_assert_eq(memcmp(span.at, text, span.length), 0, "%.*s", (int)span.length, span.at);
}

Test(json_text, finds_members) {
    struct json_want wants[] = {{.name = "a"}, {.name = "b"}, {.name = "\xC3\xA4\""}, {.name = "none"}};
    json_text_members(span_of("{ \"x\":{\"a\":0}, \"a\" : [1, \"}\\\"\"] ,\"\\u0062\":1,\"\\u00e4\\\"\":null,\"b\":1.50}"), wants, 4);
    want_span(wants[0].value, "[1, \"}\\\"\"]");
    want_span(wants[1].value, "1.50");
    want_span(wants[2].value, "null");
    cr_assert_null(wants[3].value.at);
    cr_assert_eq(json_text_kind(wants[0].value), '[');
    cr_assert_eq(json_text_kind(wants[1].value), '0');
    cr_assert_eq(json_text_kind(wants[3].value), 0);
    cr_assert(json_text_is_given(wants[0].value));
    cr_assert_not(json_text_is_given(wants[2].value));
    cr_assert_not(json_text_is_given(wants[3].value));
    want_span(json_text_member(span_of("{\"ab\":1,\"a\":-2}"), "abc", 1), "-2");
}

static void want_string(const char *json, const char *text, size_t length, bool whole) {
    struct buf out;
    buf_init(&out, 1000);
    cr_assert_eq(json_text_string(span_of(json), &out), whole, "%s", json);
    cr_assert_eq(out.length, length, "%s: %zu", json, out.length);
    cr_assert_eq(memcmp(out.data, text, length), 0, "%s", json);
    buf_finish(&out);
}

Test(json_text, decodes_strings) {
    want_string("\"\"", "", 0, true);
    want_string("\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "a\"\\/\b\f\n\r\tz", 10, true);
    want_string("\"\\u0041\\u00E4\\u20ac\\uD83D\\uDE00\"", "A\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", 10, true);
    want_string("\"a\\u0000b\"", "a\0b", 3, false);
    want_string("\"\\ud800\"", "\xEF\xBF\xBD", 3, false);
    want_string("\"\\udc00x\"", "\xEF\xBF\xBDx", 4, false);
    want_string("\"\\ud800\\u0041\"", "\xEF\xBF\xBD" "A", 4, false);
    want_string("\"\\ud800\\ud800\\udc00\"", "\xEF\xBF\xBD\xF0\x90\x80\x80", 7, false);
}

Test(json_text, quotes_any_bytes) {
    struct buf out;
    buf_init(&out, 1000);
    json_text_quote(&out, "a\"\\\n\t\x01\x7F\xC3\xA4\xFF\0\xE2\x82", 13);
    cr_assert_str_eq(out.data, "\"a\\\"\\\\\\n\\u0009\\u0001\x7F\xC3\xA4\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    cr_assert(is_json(out.data, out.length));
    buf_finish(&out);
}
