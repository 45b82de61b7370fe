/* json_pretty_test.c - JSON laid out for people. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "cli/json_pretty.h"

TestSuite(json_pretty, .timeout = 30);

static void expect(const char *text, size_t width, size_t max, bool whole, const char *wanted) {
    struct buf out;
    buf_init(&out, SIZE_MAX);
    bool got = json_pretty(&out, text, strlen(text), width, max);
    cr_expect_eq(got, whole, "%s", text);
    cr_expect_str_eq(out.data, wanted);
    buf_finish(&out);
}

Test(json_pretty, what_is_short_takes_one_line) {
    expect(" {\"a\" :1,\n\"b\":[ ],\"c\":[1,2]} ", 80, 0, true, "{\"a\": 1, \"b\": [], \"c\": [1, 2]}");
    expect("12345678901234567890.000", 80, 0, true, "12345678901234567890.000");
    expect("\"a,b: {}\\\"\"", 80, 0, true, "\"a,b: {}\\\"\"");
    expect("null", 4, 0, true, "null");
}

Test(json_pretty, what_is_long_takes_a_line_a_member) {
    expect("{\"a\":{},\"b\":[1,{\"c\":\"x,\\\\\"}],\"d\":[]}", 10, 0, true,
           "{\n  \"a\": {},\n  \"b\": [\n    1,\n    {\n      \"c\": \"x,\\\\\"\n    }\n  ],\n  \"d\": []\n}");
}

Test(json_pretty, it_stops_where_it_is_told_to) {
    expect("[1,2,3,4]", 5, 8, false, "[\n  1,\n  ");
    expect("\"\xc3\xa4\xc3\xa4\xc3\xa4\"", 2, 4, false, "\"\xc3\xa4"); /* between characters */
    expect("[1,2]", 2, 1000, true, "[\n  1,\n  2\n]");
}
