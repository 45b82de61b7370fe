/* A stage's output: what is taken byte for byte, and what is refused, with the place and the
 * reason. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_rig.h"

static pgstage_task *task;

static void init(void) {
    task = new_task(NULL, NULL);
}

static void finish(void) {
    pgstage_host_task_destroy(task);
}

TestSuite(sdk_output, .init = init, .fini = finish, .timeout = 120);

Test(sdk_output, is_absent_until_it_is_set_and_the_last_one_wins) {
    cr_assert_null(pgstage_host_output(task).data);
    cr_assert_eq(pgstage_set_output(task, "[1]", 3), 0);
    cr_assert_eq(pgstage_set_output(task, " { } tail", 4), 0);
    cr_assert_str_eq(pgstage_host_output(task).data, " { }");
    cr_assert_eq(pgstage_host_output(task).length, 4);
    cr_assert_eq(pgstage_set_output(task, "[1", 2), PGSTAGE_E_INVALID);
    cr_assert_eq(pgstage_set_output(task, NULL, 0), PGSTAGE_E_INVALID);
    cr_assert_str_eq(pgstage_host_output(task).data, " { }", "a refused call changes nothing");
    cr_assert_eq(pgstage_output(task, json_pack("{s:i}", "n", 5)), PGSTAGE_OK);
    cr_assert_str_eq(pgstage_host_output(task).data, "{\"n\":5}");
}

Test(sdk_output, good_json_is_taken_as_it_is) {
    static const char *const good[] = {
        "null",
        "true",
        " false ",
        "0",
        "-0",
        "-0.0e-0",
        "1E+5",
        "123456789012345678901234567890.123456789012345678901234567890",
        "1e131071",
        "1e-16383",
        "0.5e100",
        "\"\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\uABCD\\uabcd\"",
        "\"\\ud83d\\ude00 \\uDBFF\\uDFFF\"",
        "\"\xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF \xF0\x90\x80\x80 "
        "\xF4\x8F\xBF\xBF\x7F\"",
        "[]",
        "[ ]",
        "{}",
        "{ }",
        "[[],{},[[{}]]]",
        "{\"a\":1,\"a\":2,\"\":{\"b\":[true,false,null]}}",
        "\t\r\n [ 1 , 2 ] \t\r\n ",
        "{ \"a\" : 1 , \"b\" : [ ] }",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_assert_eq(pgstage_set_output(task, good[i], strlen(good[i])), 0, "%s: %s", good[i],
                     pgstage_host_message(task).data);
        cr_assert_str_eq(pgstage_host_output(task).data, good[i]);
    }
}

struct bad {
    const char *text;
    int byte;
    const char *why;
};

static const struct bad bad[] = {
    {"", 1, "there is no value"},
    {"  ", 3, "there is no value"},
    {"nul", 1, "no JSON value begins so"},
    {"True", 1, "no JSON value begins so"},
    {"NaN", 1, "no JSON value begins so"},
    {"Infinity", 1, "no JSON value begins so"},
    {"'a'", 1, "no JSON value begins so"},
    {"// x\n1", 1, "no JSON value begins so"},
    {"\xEF\xBB\xBF{}", 1, "no JSON value begins so"},
    {"1 2", 3, "something follows the value"},
    {"{}}", 3, "something follows the value"},
    {"nullx", 5, "something follows the value"},
    {"\f1", 1, "no JSON value begins so"},
    {"01", 1, "a malformed number"},
    {"-", 1, "a malformed number"},
    {"-01", 1, "a malformed number"},
    {"+1", 1, "no JSON value begins so"},
    {".5", 1, "no JSON value begins so"},
    {"1.", 1, "a malformed number"},
    {"1.e5", 1, "a malformed number"},
    {"1e", 1, "a malformed number"},
    {"1e+", 1, "a malformed number"},
    {"0x10", 2, "something follows the value"},
    {"[1e131072]", 2, "a number beyond the range of PostgreSQL's numeric"},
    {"1e-16384", 1, "a number beyond the range of PostgreSQL's numeric"},
    {"1.5e-16383", 1, "a number beyond the range of PostgreSQL's numeric"},
    {"1e99999999999999999999", 1, "a number beyond the range of PostgreSQL's numeric"},
    {"1e-99999999999999999999", 1, "a number beyond the range of PostgreSQL's numeric"},
    {"\"", 2, "a string without an end"},
    {"\"\\", 2, "a string without an end"},
    {"\"\\\"", 4, "a string without an end"},
    {"\"\\x41\"", 2, "an unknown escape"},
    {"\"\\u12\"", 2, "\\u without four hexadecimal digits"},
    {"\"\\u12g4\"", 2, "\\u without four hexadecimal digits"},
    {"\"\\U0041\"", 2, "an unknown escape"},
    {"\"ab\\u0000\"", 4, "\\u0000, which PostgreSQL cannot store"},
    {"{\"\\u0000\":1}", 3, "\\u0000, which PostgreSQL cannot store"},
    {"\"\\ud800\"", 2, "half of a surrogate pair"},
    {"\"\\ud800\\ud800\"", 2, "half of a surrogate pair"},
    {"\"\\ud800x\\udc00\"", 2, "half of a surrogate pair"},
    {"\"\\ud800\\u0041\"", 2, "half of a surrogate pair"},
    {"\"\\udc00\"", 2, "half of a surrogate pair"},
    {"\"\\udc00\\ud800\"", 2, "half of a surrogate pair"},
    {"\"a\nb\"", 3, "a control character that is not escaped"},
    {"\"\x1F\"", 2, "a control character that is not escaped"},
    {"\"\xFF\"", 2, "bytes that are not UTF-8"},
    {"\"\x80\"", 2, "bytes that are not UTF-8"},
    {"\"\xC3\"", 2, "bytes that are not UTF-8"},
    {"\"\xC0\xAF\"", 2, "bytes that are not UTF-8"},
    {"\"\xC1\xBF\"", 2, "bytes that are not UTF-8"},
    {"\"\xE0\x9F\xBF\"", 2, "bytes that are not UTF-8"},
    {"\"\xED\xA0\x80\"", 2, "bytes that are not UTF-8"},
    {"\"\xED\xBF\xBF\"", 2, "bytes that are not UTF-8"},
    {"\"\xF0\x8F\xBF\xBF\"", 2, "bytes that are not UTF-8"},
    {"\"\xF4\x90\x80\x80\"", 2, "bytes that are not UTF-8"},
    {"\"\xF5\x80\x80\x80\"", 2, "bytes that are not UTF-8"},
    {"\"\xE2\x82", 2, "bytes that are not UTF-8"},
    {"[", 2, "it ends too early"},
    {"[1", 3, "it ends too early"},
    {"[1,", 4, "it ends too early"},
    {"[1,]", 4, "no JSON value begins so"},
    {"[,1]", 2, "no JSON value begins so"},
    {"[1 2]", 4, "a ',' or ']' is expected"},
    {"[1}", 3, "a ',' or ']' is expected"},
    {"{\"a\":1]", 7, "a ',' or '}' is expected"},
    {"{\"a\"}", 5, "a ':' is expected"},
    {"{\"a\"", 5, "a ':' is expected"},
    {"{\"a\" 1}", 6, "a ':' is expected"},
    {"{\"a\":}", 6, "no JSON value begins so"},
    {"{\"a\":1,}", 8, "an object's key in double quotes is expected"},
    {"{a:1}", 2, "an object's key in double quotes is expected"},
    {"{1:1}", 2, "an object's key in double quotes is expected"},
    {"{,}", 2, "an object's key in double quotes is expected"},
};

static void want_refused(const char *text, size_t length, int byte, const char *why) {
    char message[256];
    snprintf(message, sizeof message, "the output is not JSON that can be stored: byte %d: %s",
             byte, why);
    cr_assert_eq(pgstage_set_output(task, text, length), PGSTAGE_E_INVALID, "%s", text);
    cr_assert_str_eq(pgstage_host_message(task).data, message, "%s: %s", text,
                     pgstage_host_message(task).data);
}

/* Each in memory of exactly its size, so that a look beyond the end is found. */
Test(sdk_output, bad_json_is_refused_at_its_byte) {
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t length = strlen(bad[i].text);
        char *exact = malloc(length + (length == 0));
        cr_assert_not_null(exact);
        memcpy(exact, bad[i].text, length);
        want_refused(exact, length, bad[i].byte, bad[i].why);
        free(exact);
    }
    want_refused("\"\0\"", 3, 2, "a control character that is not escaped");
    want_refused("1\0", 2, 2, "something follows the value");
    want_refused("\0", 1, 1, "no JSON value begins so");
}

Test(sdk_output, every_truncation_of_a_document_is_refused) {
    static const char whole[] =
        "{\"a\": [1.5e3, \"\\ud83d\\ude00\xE2\x82\xAC\", true, {\"b\": null}]}";
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        char *exact = malloc(length + 1);
        cr_assert_not_null(exact);
        memcpy(exact, whole, length);
        exact = realloc(exact, length == 0 ? 1 : length);
        cr_assert_eq(pgstage_set_output(task, exact, length), PGSTAGE_E_INVALID, "%zu", length);
        free(exact);
    }
    cr_assert_eq(pgstage_set_output(task, whole, sizeof whole - 1), 0);
}

static char *nested(size_t depth, char open, char close) {
    char *text = malloc(2 * depth + 1);
    cr_assert_not_null(text);
    memset(text, open, depth);
    memset(text + depth, close, depth);
    text[2 * depth] = '\0';
    return text;
}

Test(sdk_output, depth_has_a_limit_that_jansson_shares) {
    char *text = nested(2048, '[', ']');
    cr_assert_eq(pgstage_set_output(task, text, 2 * 2048), 0);
    json_t *parsed = json_loads(text, 0, NULL);
    cr_assert_not_null(parsed, "the next stage can parse it");
    json_decref(parsed);
    free(text);
    text = nested(2049, '[', ']');
    want_refused(text, 2 * 2049, 2049, "more than 2,048 levels");
    free(text);
    text = nested(1 << 20, '[', ']');
    want_refused(text, 2 << 20, 2049, "more than 2,048 levels");
    free(text);
}

/* Objects and arrays in turn, so that each level's kind is remembered and not the last one's. */
Test(sdk_output, each_level_is_closed_by_its_own_bracket) {
    char text[1024] = "";
    for (int i = 0; i < 50; i++) {
        strncat(text, i % 3 == 0 ? "{\"k\":" : "[", sizeof text - strlen(text) - 1);
    }
    strncat(text, "1", sizeof text - strlen(text) - 1);
    size_t begin = strlen(text);
    for (int i = 49; i >= 0; i--) {
        strncat(text, i % 3 == 0 ? "}" : "]", sizeof text - strlen(text) - 1);
    }
    cr_assert_eq(pgstage_set_output(task, text, strlen(text)), 0);
    for (size_t i = begin; text[i] != '\0'; i++) {
        char before = text[i];
        text[i] = before == '}' ? ']' : '}';
        cr_assert_eq(pgstage_set_output(task, text, strlen(text)), PGSTAGE_E_INVALID);
        text[i] = before;
    }
}

static char *repeated(const char *unit, size_t count, size_t *length) {
    size_t width = strlen(unit);
    char *text = malloc(count * width + 2);
    cr_assert_not_null(text);
    text[0] = '[';
    for (size_t i = 0; i < count; i++) {
        memcpy(text + 1 + i * width, unit, width);
    }
    *length = count * width + 1;
    text[*length - 1] = ']'; /* instead of the last comma */
    return text;
}

Test(sdk_output, values_have_a_limit) {
    size_t length;
    char *text = repeated("1,", 5999999, &length);
    cr_assert_eq(pgstage_set_output(task, text, length), 0, "%s", pgstage_host_message(task).data);
    free(text);
    text = repeated("1,", 6000000, &length);
    cr_assert_eq(pgstage_set_output(task, text, length), PGSTAGE_E_LIMIT);
    cr_assert_str_eq(pgstage_host_message(task).data,
                     "the output is not JSON that can be stored: byte 12000000: more than "
                     "6,000,000 values and keys");
    free(text);
}

Test(sdk_output, bytes_have_a_limit) {
    size_t length = PGSTAGE_OUTPUT_MAX;
    char *text = malloc(length + 1);
    cr_assert_not_null(text);
    memset(text, 'x', length + 1);
    text[0] = text[length - 1] = '"';
    cr_assert_eq(pgstage_set_output(task, text, length), 0);
    cr_assert_eq(pgstage_set_output(task, text, length + 1), PGSTAGE_E_LIMIT);
    cr_assert_str_eq(pgstage_host_message(task).data,
                     "the output has 134217729 bytes, above the limit of 134217728");
    text[0] = text[length - 1] = 'x';
    json_t *value = json_stringn_nocheck(text, length - 1);
    free(text);
    cr_assert_eq(pgstage_output(task, value), PGSTAGE_FAIL);
    cr_assert_eq(pgstage_host_output(task).length, length);
}

/* ---- from a jansson value ---- */

static void want_failed(json_t *value, const char *message) {
    cr_assert_eq(pgstage_output(task, value), PGSTAGE_FAIL);
    cr_assert_str_eq(pgstage_host_message(task).data, message);
}

Test(sdk_output, takes_any_jansson_value) {
    static const struct {
        const char *format, *output;
    } cases[] = {{"n", "null"}, {"b", "true"}, {"[]", "[]"}, {"{}", "{}"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(pgstage_output(task, json_pack(cases[i].format, 1)), PGSTAGE_OK);
        cr_assert_str_eq(pgstage_host_output(task).data, cases[i].output);
    }
    cr_assert_eq(pgstage_output(task, json_string("\xC3\xA4\n")), PGSTAGE_OK);
    cr_assert_str_eq(pgstage_host_output(task).data, "\"\xC3\xA4\\n\"");
    json_t *kept = json_integer(7);
    cr_assert_eq(pgstage_output(task, json_incref(kept)), PGSTAGE_OK);
    cr_assert_eq(kept->refcount, 1, "one reference was taken");
    json_decref(kept);
}

Test(sdk_output, says_what_is_wrong_with_a_jansson_value) {
    want_failed(NULL, "the output is NULL (did json_pack or json_object fail?)");
    want_failed(json_stringn_nocheck("a\0b", 3), "the output is not JSON that can be stored: byte "
                                                 "3: \\u0000, which PostgreSQL cannot store");
    want_failed(json_stringn_nocheck("\xFF", 1),
                "the output cannot be written as JSON (does it contain itself, or is memory short?)");
    json_t *outer = json_array(), *inner = json_array();
    json_array_append(outer, inner);
    json_array_append(inner, outer);
    json_incref(outer);
    want_failed(outer, "the output cannot be written as JSON (does it contain itself, or is memory short?)");
    json_array_clear(inner);
    json_decref(inner);
    json_decref(outer);
    cr_assert_null(pgstage_host_output(task).data);
}
