/* golden_test.c - each folder of tests/golden/config is a case: `input.yaml`, and in `expected` the
 * whole report, or for a valid file its definition. With PGSTAGE_GOLDEN_UPDATE set, `expected` is
 * written instead of compared; read the difference before keeping it. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/pipeline.h"
#include "dump.h"
#include "support/leaks.h"

#define GOLDEN_FOLDER TEST_SOURCE_DIR "/tests/golden/config"

enum { CASES_MAX = 256, CASE_NAME_MAX = 64, TEXT_MAX_BYTES = 4 * 1024 * 1024 };

struct golden_case {
    char name[CASE_NAME_MAX];
};

static int only_cases(const struct dirent *entry) {
    return entry->d_name[0] != '.' && strlen(entry->d_name) < CASE_NAME_MAX;
}

ParameterizedTestParameters(config_golden, file_gives_expected) {
    static struct golden_case cases[CASES_MAX];
    struct dirent **entries;
    int count = scandir(GOLDEN_FOLDER, &entries, only_cases, alphasort);
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        if (used < CASES_MAX) {
            memcpy(cases[used++].name, entries[i]->d_name, strlen(entries[i]->d_name));
        }
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
    return cr_make_param_array(struct golden_case, cases, used);
}

static void read_all(const char *name, const char *file, struct buf *out) {
    char path[512];
    snprintf(path, sizeof path, GOLDEN_FOLDER "/%s/%s", name, file);
    FILE *stream = fopen(path, "rb");
    cr_assert_not_null(stream, "%s", path);
    char chunk[4096];
    size_t count;
    while ((count = fread(chunk, 1, sizeof chunk, stream)) > 0) {
        buf_append(out, chunk, count);
    }
    fclose(stream);
}

static void write_all(const char *name, const struct buf *text) {
    char path[512];
    snprintf(path, sizeof path, GOLDEN_FOLDER "/%s/expected", name);
    FILE *stream = fopen(path, "wb");
    cr_assert_not_null(stream, "%s", path);
    fwrite(text->data, 1, text->length, stream);
    fclose(stream);
}

static void set_environment(void) {
    setenv("HOME", "/home/user", 1);
    setenv("PGSTAGE_TEST_NAME", "value", 1);
    setenv("PGSTAGE_TEST_NUMBER", "12", 1);
    setenv("PGSTAGE_TEST_EMPTY", "", 1);
    setenv("PGSTAGE_TEST_NESTED", "${PGSTAGE_TEST_NAME}", 1);
    setenv("PGSTAGE_TEST_LATIN1", "caf\xE9", 1);
    unsetenv("PGSTAGE_TEST_UNSET");
}

ParameterizedTest(struct golden_case *golden, config_golden, file_gives_expected, .timeout = 20) {
    leaks_fail_tests();
    set_environment();
    struct buf input, expected, actual;
    buf_init(&input, TEXT_MAX_BYTES);
    buf_init(&expected, TEXT_MAX_BYTES);
    buf_init(&actual, TEXT_MAX_BYTES);
    read_all(golden->name, "input.yaml", &input);

    struct pipeline_def *def;
    struct config_report report;
    struct error err = ERROR_NONE;
    enum status status =
        pipeline_parse("input.yaml", input.data, input.length, &def, &report, &err);
    if (status == STATUS_OK) {
        dump_pipeline(&actual, def);
    } else {
        cr_expect_eq(status, STATUS_INVALID);
        cr_expect_null(def);
        cr_expect_gt(report.mistakes, 0);
        buf_append(&actual, report.text.data, report.text.length);
        cr_expect(strncmp(actual.data, err.text, strlen(err.text)) == 0,
                  "the error is the report's first line: %s", err.text);
    }
    cr_expect_eq(status == STATUS_OK, strncmp(golden->name, "valid-", 6) == 0, "%s: %s",
                 golden->name, actual.data);
    if (getenv("PGSTAGE_GOLDEN_UPDATE") != NULL) {
        write_all(golden->name, &actual);
    } else {
        read_all(golden->name, "expected", &expected);
        cr_expect(expected.length == actual.length &&
                      memcmp(expected.data, actual.data, actual.length) == 0,
                  "%s gives\n%s", golden->name, actual.data);
    }
    pipeline_free(def);
    config_report_finish(&report);
    buf_finish(&input);
    buf_finish(&expected);
    buf_finish(&actual);
}
