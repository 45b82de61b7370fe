/* limits_test.c - C69: files made to hurt. Each ends with an error in 100 ms of processor time (ten
 * times that under a sanitizer, where code is slower) and in 50 MB. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "config/pipeline.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SLOWER = 10, MEASURE_MEMORY = 0 };
#else
enum { SLOWER = 1, MEASURE_MEMORY = 1 };
#endif

enum { FILE_MAX = 1024 * 1024, ALLOWED_MS = 100, ALLOWED_KB = 50 * 1024 };

TestSuite(config_limits, .timeout = 60);

static int64_t cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static long resident_kb(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Parses, and checks time, memory, and that the report begins with, or else holds, `message`. */
static void expect_refused(const char *title, const struct buf *text, const char *message) {
    struct pipeline_def *def;
    struct config_report report;
    struct error err = ERROR_NONE;
    int64_t began = cpu_ms();
    enum status status = pipeline_parse("x", text->data, text->length, &def, &report, &err);
    int64_t taken = cpu_ms() - began;
    cr_expect_eq(status, STATUS_INVALID, "%s", title);
    cr_expect_null(def);
    cr_expect(strstr(report.text.data, message) != NULL || strstr(err.text, message) != NULL,
              "%s: %s\n%.2000s", title, err.text, report.text.data);
    cr_expect_leq(taken, ALLOWED_MS * SLOWER, "%s takes %lld ms", title, (long long)taken);
    if (MEASURE_MEMORY) {
        cr_expect_leq(resident_kb(), ALLOWED_KB, "%s takes %ld kB", title, resident_kb());
    }
    config_report_finish(&report);
}

/* `head`, then `part` again and again up to the largest size of a file, or `count` times. */
static void repeat(struct buf *text, const char *head, const char *part, size_t count) {
    buf_init(text, SIZE_MAX);
    buf_append_string(text, head);
    size_t length = strlen(part);
    while (count-- > 0 && text->length + length <= FILE_MAX) {
        buf_append(text, part, length);
    }
}

static const char start[] = "pipeline: p\nstages:\n  - name: a\n    handler: a.so:a\n    with:\n";

Test(config_limits, alias_bomb) {
    struct buf text;
    buf_init(&text, SIZE_MAX);
    buf_append_string(&text, "a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (char c = 'b'; c <= 'i'; c++) {
        buf_append_format(&text, "%c: &%c [", c, c);
        for (int i = 0; i < 9; i++) {
            buf_append_format(&text, "*%c,", c - 1);
        }
        buf_append_string(&text, "]\n");
    }
    expect_refused("alias bomb", &text, "x:1:4: anchors ('&') are not allowed");
    buf_finish(&text);
}

Test(config_limits, recursive_alias) {
    struct buf text;
    repeat(&text, "pipeline: &a [*a]\n", "", 0);
    expect_refused("recursive alias", &text, "x:1:11: anchors ('&') are not allowed");
    buf_finish(&text);
}

Test(config_limits, deep) {
    static const struct {
        const char *title, *part;
    } rows[] = {
        {"brackets", "["},
        {"braces", "{a: "},
        {"brackets in lines", "[\n"},
        {"dashes", "- "},
        {"questions", "? "},
        {"braces only", "{"},
        {"questions in brackets", "[? "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf text;
        repeat(&text, "", rows[i].part, 100000);
        expect_refused(rows[i].title, &text, "nested deeper than 32 levels");
        buf_finish(&text);
    }
}

Test(config_limits, deep_by_indentation) {
    struct buf text;
    buf_init(&text, SIZE_MAX);
    for (int depth = 0; depth < 1000; depth++) {
        buf_append_format(&text, "%*sa:\n", depth, "");
    }
    expect_refused("indentation", &text, "x:33:33: nested deeper than 32 levels");
    buf_finish(&text);
}

Test(config_limits, million_keys) {
    struct buf text;
    buf_init(&text, SIZE_MAX);
    for (int i = 0; i < 1000000; i++) {
        buf_append_format(&text, "k%d: 1\n", i);
    }
    expect_refused("a million keys", &text, "larger than 1 MB");
    buf_finish(&text);
}

/* As many as a file of the largest size can hold: unknown ones, the same one, nested ones. */
Test(config_limits, file_full_of_keys) {
    struct buf text;
    buf_init(&text, SIZE_MAX);
    for (int i = 0; text.length < FILE_MAX - 16; i++) {
        buf_append_format(&text, "%x:\n", (unsigned)i);
    }
    expect_refused("keys", &text, "the file has more than 20000 values");
    buf_finish(&text);

    buf_init(&text, SIZE_MAX);
    for (int i = 0; i < 9000; i++) {
        buf_append_format(&text, "k%d: 1\n", i);
    }
    expect_refused("unknown keys", &text, "8902 more mistakes are not shown");
    buf_finish(&text);

    repeat(&text, "", "a: 1\n", 9000);
    expect_refused("one key", &text, "the key 'a' is given twice, first at x:1:1");
    buf_finish(&text);

    buf_init(&text, SIZE_MAX);
    buf_append_string(&text, start);
    for (int i = 9000; i > 0; i--) {
        buf_append_format(&text, "      k%d: 1\n", i);
    }
    buf_append_string(&text, "      k5000: 1\n");
    expect_refused("keys of with", &text, "the key 'k5000' is given twice, first at x:4006:7");
    buf_finish(&text);
}

Test(config_limits, large_texts) {
    struct buf text;
    repeat(&text, "pipeline: ", "aaaaaaaaaaaaaaaa", 300 * 1024 / 16);
    expect_refused("plain", &text, "x:1:11: this text is longer than 256 kB");
    buf_finish(&text);

    repeat(&text, "pipeline: \"", "\\x61", FILE_MAX);
    expect_refused("escapes, open", &text, "found unexpected end of stream");
    buf_finish(&text);

    repeat(&text, "pipeline: |\n", " a\n", FILE_MAX);
    expect_refused("block", &text, "x:1:11: this text is longer than 256 kB");
    buf_finish(&text);

    repeat(&text, "pipeline: ", "a\n ", FILE_MAX);
    expect_refused("lines", &text, "x:1:11: this text is longer than 256 kB");
    buf_finish(&text);

    buf_init(&text, SIZE_MAX);
    while (text.length < 50 * 1024 * 1024) {
        buf_append_string(&text, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    }
    int64_t began = cpu_ms();
    struct pipeline_def *def;
    struct config_report report;
    struct error err = ERROR_NONE;
    cr_expect_eq(pipeline_parse("x", text.data, text.length, &def, &report, &err), STATUS_INVALID);
    cr_expect_leq(cpu_ms() - began, 10 * SLOWER);
    cr_expect_str_eq(err.text, "x: larger than 1 MB, too large for a pipeline file");
    config_report_finish(&report);
    buf_finish(&text);
}

/* libyaml's scanner on its own takes quadratic time for some of these. */
Test(config_limits, files_full_of_one_thing) {
    static const struct {
        const char *title, *head, *part, *message;
    } rows[] = {
        {"directives", "", "%TAG !a! b\n", "x:1:1: directives ('%YAML', '%TAG') are not allowed"},
        {"directives behind", "a: b\n...\n", "%TAG !a! b\n", "x:3:1: a second document"},
        {"documents", "a: b\n", "--- a\n", "x:2:1: a second document begins here"},
        {"end marks", "a: b\n", "...\n", "x:1:1: unknown key 'a'"},
        {"anchors", "a: [", "&a b,", "anchors ('&') are not allowed"},
        {"aliases", "a: [", "*a ,", "aliases ('*') are not allowed"},
        {"tags", "a: [", "!a b,", "tags ('!') are not allowed"},
        {"a tag", "a: !", "a", "tags ('!') are not allowed"},
        {"an anchor", "a: &", "a", "anchors ('&') are not allowed"},
        {"blanks", "a:", " ", "x:1:1: unknown key 'a'"},
        {"lines", "a: b", "\n", "x:1:1: unknown key 'a'"},
        {"carriage returns", "a: b", "\r", "x:1:1: unknown key 'a'"},
        {"comments", "a: b\n", "#\n", "x:1:1: unknown key 'a'"},
        {"a comment", "a: b #", "#", "x:1:1: unknown key 'a'"},
        {"values", "a: [", "a,", "the file has more than 20000 values"},
        {"nothing", "a: [", ",", "not YAML"},
        {"quotes", "a: ", "'", "not YAML: found unexpected end of stream"},
        {"colons", "a:", ": ", "not YAML: mapping values are not allowed"},
        {"keys in a line", "", "a: ", "not YAML: mapping values are not allowed"},
        {"open keys", "[", "a ", "not YAML"},
        {"merge keys", "", "<<: a\n", "merge keys ('<<') are not allowed"},
        {"lists as keys", "", "? [a]\n", "a key must be text"},
        {"tabs", "a:\n", "\t", "not YAML: found character that cannot start any token"},
        {"block headers", "a:\n", " - |\n", "the file has more than 20000 values"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf text;
        repeat(&text, rows[i].head, rows[i].part, FILE_MAX);
        expect_refused(rows[i].title, &text, rows[i].message);
        buf_finish(&text);
    }
}

Test(config_limits, long_lists) {
    struct buf text;
    repeat(&text, "stages:\n", "- {}\n", 10000);
    expect_refused("stages", &text, "more mistakes are not shown");
    buf_finish(&text);
    repeat(&text, "stages:\n  - sql:\n", "    - ':x'\n", 101);
    expect_refused("SQL", &text, "x:3:5: 'sql' must be a statement, or a list of 1 to 100");
    buf_finish(&text);
}

/* Many mistakes, far into a long line: each shows a part of it only. */
Test(config_limits, mistakes_in_one_long_line) {
    struct buf text;
    repeat(&text, "pipeline: p\nstages: [", "{sql: a, 'x': &a b, b: *c }, ", FILE_MAX);
    expect_refused("one line", &text, "more mistakes are not shown");
    buf_finish(&text);
    repeat(&text, "pipeline: p\nstages: [", "{a: b},", 6000);
    buf_append_string(&text, "]");
    expect_refused("one line of stages", &text, "more mistakes are not shown");
    buf_finish(&text);
    repeat(&text, start, "", 0);
    buf_append_string(&text, "      a: [");
    for (int i = 0; i < 15000; i++) {
        buf_append_string(&text, "\"\xC3\xA4 a text before and then ${1}\",");
    }
    buf_append_string(&text, "]");
    expect_refused("one line of variables", &text, "more mistakes are not shown");
    buf_finish(&text);
}

Test(config_limits, environment_does_not_multiply_text) {
    enum { LARGE = 100 * 1024 };
    char *value = malloc(LARGE + 1);
    cr_assert_not_null(value);
    memset(value, 'a', LARGE);
    value[LARGE] = '\0';
    setenv("PGSTAGE_TEST_LARGE", value, 1);
    free(value);
    struct buf text;
    repeat(&text, start, "", 0);
    for (int i = 0; i < 9000; i++) {
        buf_append_format(&text, "      k%d: ${PGSTAGE_TEST_LARGE}\n", i);
    }
    expect_refused("many texts", &text, "environment variables make more than 1 MB of text");
    buf_finish(&text);

    repeat(&text, start, "", 0);
    buf_append_string(&text, "      a: ${PGSTAGE_TEST_LARGE}${PGSTAGE_TEST_LARGE}"
                             "${PGSTAGE_TEST_LARGE}\n");
    expect_refused("one text", &text, "longer than 256 kB with its environment variables");
    buf_finish(&text);

    repeat(&text, start, "", 0);
    buf_append_string(&text, "      a: ");
    for (int i = 0; i < 40000; i++) {
        buf_append_string(&text, "${X");
    }
    expect_refused("openings", &text, "an environment variable is written ${NAME}");
    buf_finish(&text);
}

/* Some thousand values in `with:` are ordinary. */
Test(config_limits, large_valid_file) {
    struct buf text;
    repeat(&text, start, "", 0);
    for (int i = 0; i < 6000; i++) {
        buf_append_format(&text, "      k%d: [%d]\n", i, i);
    }
    struct pipeline_def *def;
    struct config_report report;
    struct error err = ERROR_NONE;
    int64_t began = cpu_ms();
    enum status status = pipeline_parse("x", text.data, text.length, &def, &report, &err);
    cr_expect_eq(status, STATUS_OK, "%s", err.text);
    cr_expect_leq(cpu_ms() - began, ALLOWED_MS * SLOWER);
    pipeline_free(def);
    config_report_finish(&report);
    buf_finish(&text);
}

/* A file cut off at any byte, and one with any byte changed, ends in an answer. */
Test(config_limits, damaged_files) {
    static const char whole[] =
        "pipeline: p # c\nsource: {files: {path: /a, match: ['*', \"\\x41\"]}}\n"
        "defaults: {retry: {max: 1h}}\nstages:\n- name: a\n  sql: |\n    select :key, '${X}'\n"
        "- name: b\n  handler: a.so:b\n  with: {a: &x [1, ~], ? b : *x, c: !t >-\n   x\n }\n";
    static const char bytes[] = "\0\t\n :-#&*!|>'\"%@{}[],?\\$\x7f\x80\xC3\xFF";
    for (size_t end = 0; end < sizeof whole; end++) {
        struct pipeline_def *def;
        struct config_report report;
        enum status status = pipeline_parse("x", whole, end, &def, &report, NULL);
        cr_expect_eq(status == STATUS_OK, def != NULL);
        cr_expect_eq(status == STATUS_OK, report.mistakes == 0);
        pipeline_free(def);
        config_report_finish(&report);
    }
    for (size_t at = 0; at + 1 < sizeof whole; at++) {
        for (size_t i = 0; i + 1 < sizeof bytes; i++) {
            char damaged[sizeof whole];
            memcpy(damaged, whole, sizeof whole);
            damaged[at] = bytes[i];
            struct pipeline_def *def;
            struct config_report report;
            enum status status =
                pipeline_parse("x", damaged, sizeof whole - 1, &def, &report, NULL);
            cr_expect_eq(status == STATUS_OK, def != NULL);
            pipeline_free(def);
            config_report_finish(&report);
        }
    }
}
