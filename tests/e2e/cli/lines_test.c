/* lines_test.c - submit --from: JSON lines in chunks of 1,000. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rig.h"

static void begin(void) {
    cli_begin();
    make_pipeline();
}

TestSuite(lines, .init = begin, .fini = cli_end, .timeout = 300);

static int64_t tasks(void) {
    return number("select count(*) from pgstage.task");
}

/* Lines first .. last: {"key": "kN", "payload": {"n": N}}. */
static void append_lines(const char *name, int first, int last) {
    FILE *file = fopen(name, "a");
    cr_assert_not_null(file);
    for (int i = first; i <= last; i++) {
        fprintf(file, "{\"key\": \"k%d\", \"payload\": {\"n\": %d}}\n", i, i);
    }
    fclose(file);
}

static void append(const char *name, const char *text) {
    FILE *file = fopen(name, "a");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

Test(lines, are_submitted_with_all_their_fields) {
    write_file("l", "{\"key\": \"a\", \"payload\": {\"x\": 0.10}, \"updated_at\": \"2026-01-01T00:00:00Z\", \"priority\": 7, "
                    "\"run_at\": \"2100-01-01T00:00:00Z\"}\n"
                    "{\"payload\":[1,\"}\\\"],{\",{}],\"key\":\"b\\u00e9\\n\"}\n"
                    "{\"key\":\"c\",\"payload\":null,\"updated_at\":null,\"priority\":null,\"run_at\":null}\n"
                    "{\"key\":\"d\"}");
    cli_prints("4 submitted: 4 new, 0 updated, 0 unchanged\n", "submit lib --from l");
    cr_expect_eq(number("select count(*) from pgstage.task where key = 'a' and priority = 7 and status = 'delayed' and "
                        "task_updated_at = '2026-01-01 00:00:00+00' and payload::text = '{\"x\": 0.10}'"),
                 1);
    cr_expect_eq(number("select count(*) from pgstage.task where key = E'b\\u00e9\\n' and jsonb_array_length(payload) = 3"), 1);
    cr_expect_eq(number("select count(*) from pgstage.task where payload is null and status = 'ready'"), 2);
}

Test(lines, may_come_from_standard_input) {
    append_lines("l", 1, 3);
    cli_prints("3 submitted: 3 new, 0 updated, 0 unchanged\n", "submit lib --from - <l");
    cli_prints("3 submitted: 0 new, 3 updated, 0 unchanged\n", "submit lib --from l");
    cli_prints("0 submitted: 0 new, 0 updated, 0 unchanged\n", "submit lib --from - </dev/null");
}

Test(lines, end_in_any_way_and_may_be_blank) {
    write_file("l", "\xEF\xBB\xBF{\"key\":\"a\"}\r\n\n  \t\r\n{\"key\":\"b\"}\n\n{\"key\":\"c\"}");
    cli_prints("3 submitted: 3 new, 0 updated, 0 unchanged\n", "submit lib --from l");
}

Test(lines, with_stamps_may_be_submitted_again) {
    write_file("l", "{\"key\":\"a\",\"updated_at\":\"2026-01-01T00:00:00Z\"}\n"
                    "{\"key\":\"b\",\"updated_at\":\"2026-01-01T00:00:00Z\"}\n");
    cli_prints("2 submitted: 2 new, 0 updated, 0 unchanged\n", "submit lib --from l");
    cli_prints("2 submitted: 0 new, 0 updated, 2 unchanged\n", "submit lib --from l");
    append("l", "{\"key\":\"c\",\"updated_at\":\"2026-01-01T00:00:00Z\"}\n"
                "{\"key\":\"a\",\"updated_at\":\"2026-01-02T00:00:00Z\"}\n");
    cli_prints("4 submitted: 1 new, 1 updated, 2 unchanged\n", "submit lib --from l");
}

Test(lines, with_one_key_are_taken_one_after_the_other) {
    write_file("l", "{\"key\":\"a\",\"payload\":1,\"updated_at\":\"2026-01-01T00:00:00Z\"}\n"
                    "{\"key\":\"b\"}\n"
                    "{\"key\":\"a\",\"payload\":2,\"updated_at\":\"2026-01-03T00:00:00Z\"}\n"
                    "{\"key\":\"a\",\"payload\":3,\"updated_at\":\"2026-01-02T00:00:00Z\"}\n");
    cli_prints("4 submitted: 2 new, 1 updated, 1 unchanged\n", "submit lib --from l");
    char *payload = text("select payload::text from pgstage.task where key = 'a'");
    cr_expect_str_eq(payload, "2");
    free(payload);
}

Test(lines, a_bad_one_is_named) {
    static const struct {
        const char *line, *why;
    } cases[] = {
        {"{\"key\": \"a\",}", "l:2:13: string or '}' expected near '}'"},
        {"nonsense", "l:2:8: invalid token near 'nonsense'"},
        {"{\"key\": \"a\"} {}", "l:2:14: end of file expected near '{'"},
        {"[\"a\"]", "l:2: a line is an object: {\"key\": \"...\", \"payload\": ...}"},
        {"\"a\"", "l:2: a line is an object: {\"key\": \"...\", \"payload\": ...}"},
        {"{}", "l:2: there is no key"},
        {"{\"key\": null}", "l:2: there is no key"},
        {"{\"key\": 7}", "l:2: the key is not a string"},
        {"{\"key\": \"\"}", "l:2: the key is empty"},
        {"{\"key\": \"a\", \"key\": \"b\"}", "l:2: the field 'key' is there twice"},
        {"{\"key\": \"a\", \"paylod\": 1}", "l:2: unknown field 'paylod'; did you mean 'payload'?"},
        {"{\"key\": \"a\", \"Priority\": 1}", "l:2: unknown field 'Priority'; did you mean 'priority'?"},
        {"{\"key\": \"a\", \"whatsoever\": 1}",
         "l:2: unknown field 'whatsoever'; a line has key, payload, updated_at, priority, run_at and every"},
        {"{\"key\": \"a\\u0000\"}", "l:2:17: \\u0000 cannot be stored: text in PostgreSQL has no NUL"},
        {"{\"key\": \"a\", \"payload\": \"\\udc00\"}",
         "l:2:32: half of a surrogate pair stands alone: it is not text"},
        {"{\"key\": \"\xE4\"}", "l:2:9: not UTF-8"},
        {"{\"key\": \"a\", \"payload\": 1e999}", "l:2:29: a number is too large"},
        {"{\"key\": \"a\", \"priority\": 1.5}", "l:2: the priority is not a whole number of 32 bits"},
        {"{\"key\": \"a\", \"priority\": \"1\"}", "l:2: the priority is not a whole number of 32 bits"},
        {"{\"key\": \"a\", \"priority\": 4294967296}", "l:2: the priority is not a whole number of 32 bits"},
        {"{\"key\": \"a\", \"updated_at\": \"infinity\"}",
         "l:2: updated_at wants an instant with its zone, such as 2026-01-31T12:00:00Z"},
        {"{\"key\": \"a\", \"updated_at\": \"2026-01-01T00:00:00\"}",
         "l:2: updated_at wants an instant with its zone, such as 2026-01-31T12:00:00Z"},
        {"{\"key\": \"a\", \"run_at\": 1767225600}",
         "l:2: run_at wants an instant with its zone, such as 2026-01-31T12:00:00Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file("l", "");
        append_lines("l", 1, 1);
        append("l", cases[i].line);
        append("l", "\n");
        append_lines("l", 2, 2);
        struct run *run = cli_refuses(2, cases[i].why, "submit lib --from l");
        cr_expect(has(run->err, "\nnothing was submitted\n"), "%s", run->err);
    }
    cr_expect_eq(tasks(), 0);
}

Test(lines, a_bad_one_leaves_earlier_chunks_and_no_half_one) {
    append_lines("l", 1, 2500);
    append("l", "oops\n");
    append_lines("l", 2501, 4000);
    struct run *run = cli("submit lib --from l");
    cr_expect_eq(run->status, 1);
    cr_expect_str_eq(run->err, "l:2501:4: invalid token near 'oops'\n"
                               "2000 submitted: the lines up to 2000; nothing of those after it\n");
    cr_expect_str_empty(run->out);
    cr_expect_eq(tasks(), 2000);
}

Test(lines, too_long_keys_and_long_ones) {
    shell("printf '{\"key\":\"%%01024d\"}\\n{\"key\":\"%%01025d\"}\\n' 1 2 >l");
    cli_refuses(2, "l:2: the key has 1025 bytes; a key has at most 1024", "submit lib --from l");
    shell("head -1 l >m");
    cli_prints("1 submitted: 1 new, 0 updated, 0 unchanged\n", "submit lib --from m");
}

Test(lines, what_only_the_database_refuses_is_named_too) {
    /* jsonb has no room for so many digits after the point. */
    append_lines("l", 1, 500);
    shell("printf '{\"key\": \"deep\", \"payload\": {\"n\": 0.%%020000d1}}\\n' 0 >>l");
    append_lines("l", 501, 600);
    cli_refuses(2, "l:501: value overflows numeric format", "submit lib --from l");
    cr_expect_eq(tasks(), 0);
}

Test(lines, a_file_that_cannot_be_read) {
    cli_refuses(2, "pgstage: cannot read 'nothing': No such file or directory", "submit lib --from nothing");
    cli_refuses(2, "pgstage: there is no pipeline 'lob'; did you mean 'lib'?", "submit lob --from - </dev/null");
    struct run *run = cli("submit lib --from .");
    cr_expect_eq(run->status, 2);
    cr_expect_str_eq(first_line(run->err), "cannot read '.': Is a directory");
}

/* As many as PGSTAGE_ROWS says; a release shows what they need. */
Test(lines, many_in_bounded_memory, .timeout = 600) {
#ifdef __SANITIZE_ADDRESS__
    int rows = 20000;
#else
    int rows = 100000;
#endif
    const char *asked = getenv("PGSTAGE_ROWS");
    rows = asked == NULL ? rows : atoi(asked);
    FILE *file = fopen("l", "w");
    cr_assert_not_null(file);
    for (int i = 0; i < rows; i++) {
        fprintf(file, "{\"key\":\"doc/%d\",\"payload\":{\"n\":%d,\"text\":\"%0200d\"},\"updated_at\":\"2026-01-01T00:00:00Z\"}\n",
                i, i, i);
    }
    fclose(file);
    struct run *run = cli("submit lib --from l");
    char *summary = mem_format("%d submitted: %d new, 0 updated, 0 unchanged\n", rows, rows);
    cr_expect_str_eq(run->out, summary, "%s", run->err);
    free(summary);
    cr_expect_str_empty(run->err, "no progress into a file: %s", run->err);
    cr_expect_eq(tasks(), rows);
    cr_expect_eq(number("select sum(n) from (select n from pgstage.task_count union all "
                        "select n from pgstage.task_count_delta) c"),
                 rows);
#ifndef __SANITIZE_ADDRESS__
    cr_expect_lt(run->peak_kb, 50 * 1024, "%ld kB", run->peak_kb);
#endif
}

Test(lines, large_payloads_are_submitted_in_smaller_chunks) {
    /* 60 lines of 1 MB: one statement of them would be 60 MB. */
    shell("i=0; while [ $i -lt 60 ]; do printf '{\"key\":\"k%%d\",\"payload\":\"%%01000000d\"}\\n' $i 0; i=$((i+1)); done >l");
    struct run *run = cli("submit lib --from l");
    cr_expect_str_eq(run->out, "60 submitted: 60 new, 0 updated, 0 unchanged\n", "%s", run->err);
    cr_expect_eq(number("select min(length(payload #>> '{}')) from pgstage.task"), 1000000);
#ifndef __SANITIZE_ADDRESS__
    cr_expect_lt(run->peak_kb, 50 * 1024, "%ld kB", run->peak_kb);
#endif
}
