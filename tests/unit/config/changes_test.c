/* changes_test.c - what a reload tells of two definitions. */
#include <criterion/criterion.h>
#include <string.h>

#include "config/changes.h"

TestSuite(changes, .timeout = 10);

static struct pipeline_def *parse(const char *stages) {
    struct buf text;
    struct pipeline_def *def = NULL;
    struct config_report report;
    struct error err = ERROR_NONE;
    buf_init(&text, 1 << 16);
    buf_append_format(&text, "pipeline: p\n%s", stages);
    cr_assert_eq(pipeline_parse("/tmp/p.yaml", text.data, text.length, &def, &report, &err), STATUS_OK, "%s", err.text);
    config_report_finish(&report);
    buf_finish(&text);
    return def;
}

static void expect(const char *before, const char *now, const char *wanted) {
    struct pipeline_def *old = parse(before), *new = parse(now);
    struct buf out;
    buf_init(&out, 1 << 16);
    changes_write(old, new, &out);
    cr_expect_str_eq(out.data, wanted, "%s\n%s\ngives %s", before, now, out.data);
    buf_finish(&out);
    pipeline_free(old);
    pipeline_free(new);
}

#define A "stages:\n - {name: a, handler: x.so:a"

Test(changes, are_named_with_their_values) {
    expect(A "}\n", "# a comment\n" A "}\n", "");
    expect(A "}\n", A ", workers: 4}\n", "stage 'a': workers 1 -> 4");
    expect(A ", timeout: 30s, limits: {memory: 64MB}}\n", A ", timeout: none, limits: {cpu: 5s}}\n",
           "stage 'a': timeout 30s -> none, memory 64MB -> none, cpu none -> 5s");
    expect(A ", retry: {attempts: 2, backoff: linear}}\n", A ", after_commit: true, retry: {jitter: 0%}}\n",
           "stage 'a': after_commit false -> true, attempts 2 -> 5, backoff linear -> exponential, jitter 10% -> 0%");
    expect(A "}\n", A "b, with: {x: 1}, requires: gpu}\n", "stage 'a': handler, with, requires");
    expect("stages:\n - {name: a, sql: select 1}\n", "stages:\n - {name: a, sql: [select 1, select 2], role: r}\n",
           "stage 'a': sql, role");
}

Test(changes, of_the_list_of_stages) {
    expect(A "}\n", A "}\n - {name: b, sql: select 1}\n", "stage 'b' added");
    expect(A "}\n - {name: b, sql: select 1}\n", A "}\n", "stage 'b' removed");
    expect(A "}\n - {name: b, sql: select 1}\n", "stages:\n - {name: b, sql: select 1}\n - {name: a, handler: x.so:a}\n",
           "stages in another order");
    expect(A "}\n", "stages:\n - {name: b, handler: x.so:a, renamed_from: a, workers: 2}\n",
           "stage 'a' is 'b' now, stage 'b': workers 1 -> 2");
}

Test(changes, of_the_source) {
    expect(A "}\n", "source: {files: {path: /tmp}}\n" A "}\n", "source added");
    expect("source: {files: {path: /tmp}}\n" A "}\n", A "}\n", "source removed");
    expect("source: {files: {path: /tmp}}\n" A "}\n", "source: {files: {path: /usr, match: ['*.c'], every: 1m}}\n" A "}\n",
           "source: path, match, every 10s -> 1m");
}

Test(changes, of_the_rest) {
    expect(A "}\n", "max_steps: 5\nretention: {done: 1d, errors: none}\n" A "}\n",
           "pipeline: max_steps 1000 -> 5, retention: done none -> 1d, errors 12w6d -> none");
    expect(A "}\n", A "}\nschedule: [{name: s, every: 1h, do: rerun}]\n", "schedule 's' added");
    expect(A "}\nschedule: [{name: s, every: 1h, do: rerun}]\n", A "}\n", "schedule 's' removed");
    expect(A "}\nschedule: [{name: s, every: 1h, do: rerun}]\n",
           A "}\nschedule: [{name: s, every: 2h, do: {rerun: {from: a}}, overlap: allow}]\n",
           "schedule 's': every 1h -> 2h, overlap, from");
    expect(A "}\nschedule: [{name: s, cron: '5 * * * *', do: rerun}]\n",
           A "}\nschedule: [{name: s, cron: '6 * * * *', do: {submit: {key: k}}}]\n", "schedule 's': cron, do, key");
}
