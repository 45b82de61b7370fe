/* load_test.c - files that cannot be read, folders, and what a report owes its caller. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/pipeline.h"

static char folder[64];

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/pgstage-config-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/p.yaml", folder);
    unlink(path);
    rmdir(folder);
}

TestSuite(pipeline_load, .timeout = 10, .init = make_folder, .fini = remove_folder);

static const char valid[] = "pipeline: p\nsource: {files: {path: in}}\n"
                            "stages: [{name: s, sql: select 1}]\n";

static void write_file(const char *text, size_t length, char path[128]) {
    snprintf(path, 128, "%s/p.yaml", folder);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(text, 1, length, file), length);
    fclose(file);
}

struct loaded {
    struct pipeline_def *def;
    struct config_report report;
    struct error err;
    enum status status;
};

static struct loaded load(const char *path) {
    struct loaded loaded = {.err = ERROR_NONE};
    loaded.status = pipeline_load(path, &loaded.def, &loaded.report, &loaded.err);
    return loaded;
}

static void unload(struct loaded *loaded) {
    pipeline_free(loaded->def);
    config_report_finish(&loaded->report);
}

Test(pipeline_load, reads_a_file) {
    char path[128], expected[128];
    write_file(valid, strlen(valid), path);
    struct loaded loaded = load(path);
    cr_assert_eq(loaded.status, STATUS_OK, "%s", loaded.err.text);
    cr_expect_str_eq(loaded.def->file, path);
    cr_expect_str_eq(loaded.def->folder, folder);
    cr_expect_str_eq(loaded.def->text, valid);
    snprintf(expected, sizeof expected, "%s/in", folder);
    cr_expect_str_eq(loaded.def->source.path, expected);
    cr_expect_eq(loaded.report.mistakes, 0);
    cr_expect_eq(loaded.report.text.length, 0);
    cr_expect_eq(loaded.err.code, STATUS_OK);
    unload(&loaded);
}

Test(pipeline_load, relative_path_gives_absolute_folder) {
    char path[128], expected[128];
    write_file(valid, strlen(valid), path);
    cr_assert_eq(chdir("/tmp"), 0);
    snprintf(path, sizeof path, "./%s/./p.yaml", folder + strlen("/tmp/"));
    struct loaded loaded = load(path);
    cr_assert_eq(loaded.status, STATUS_OK, "%s", loaded.err.text);
    cr_expect_str_eq(loaded.def->folder, folder);
    unload(&loaded);

    cr_assert_eq(chdir(folder), 0);
    loaded = load("p.yaml");
    cr_assert_eq(loaded.status, STATUS_OK, "%s", loaded.err.text);
    cr_expect_str_eq(loaded.def->folder, folder);
    snprintf(expected, sizeof expected, "%s/in", folder);
    cr_expect_str_eq(loaded.def->source.path, expected);
    unload(&loaded);
}

Test(pipeline_load, missing_file_is_not_found) {
    struct loaded loaded = load("/nonexistent/p.yaml");
    cr_expect_eq(loaded.status, STATUS_NOT_FOUND);
    cr_expect_str_eq(loaded.err.text, "/nonexistent/p.yaml: No such file or directory");
    cr_expect_eq(loaded.report.mistakes, 0);
    cr_expect_eq(loaded.report.text.length, 0);
    cr_expect_null(loaded.def);
    unload(&loaded);
}

Test(pipeline_load, folder_is_invalid) {
    struct loaded loaded = load("/tmp");
    cr_expect_eq(loaded.status, STATUS_INVALID);
    cr_expect_str_eq(loaded.err.text, "/tmp: Is a directory");
    cr_expect_eq(loaded.report.mistakes, 0);
    unload(&loaded);
}

Test(pipeline_load, one_byte_too_many_is_refused) {
    enum { MAX = 1024 * 1024 };
    char path[128], *text = malloc(MAX + 1);
    cr_assert_not_null(text);
    memset(text, '\n', MAX + 1);
    memcpy(text, valid, strlen(valid));
    write_file(text, MAX, path);
    struct loaded loaded = load(path);
    cr_expect_eq(loaded.status, STATUS_OK, "%s", loaded.err.text);
    unload(&loaded);

    write_file(text, MAX + 1, path);
    loaded = load(path);
    cr_expect_eq(loaded.status, STATUS_INVALID);
    cr_expect_not_null(strstr(loaded.err.text, "larger than 1 MB"), "%s", loaded.err.text);
    cr_expect_eq(loaded.report.mistakes, 0);
    unload(&loaded);
    free(text);
}

Test(pipeline_load, mistakes_are_counted_and_the_first_is_the_error) {
    static const char text[] = "stages: 5\nx: 1\n";
    char path[128], expected[256];
    write_file(text, strlen(text), path);
    struct loaded loaded = load(path);
    cr_expect_eq(loaded.status, STATUS_INVALID);
    cr_expect_null(loaded.def);
    cr_expect_eq(loaded.report.mistakes, 3);
    snprintf(expected, sizeof expected, "%s:1:1: 'pipeline' is missing", path);
    cr_expect_str_eq(loaded.err.text, expected);
    cr_expect_str_eq(loaded.err.file, path);
    cr_expect_eq(loaded.err.line, 1);
    cr_expect_eq(loaded.err.column, 1);
    unload(&loaded);
}

Test(pipeline_load, reads_a_pipe) {
    int ends[2];
    char path[64];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], valid, strlen(valid)), (ssize_t)strlen(valid));
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    struct loaded loaded = load(path);
    cr_expect_eq(loaded.status, STATUS_OK, "%s", loaded.err.text);
    unload(&loaded);
    close(ends[0]);
}

Test(pipeline_load, control_bytes_of_a_name_stay_out_of_messages) {
    struct pipeline_def *def;
    struct config_report report;
    struct error err = ERROR_NONE;
    cr_expect_eq(pipeline_parse("a\n\x1b[1m\xff.yaml", "", 0, &def, &report, &err), STATUS_INVALID);
    cr_expect_str_eq(report.text.data, "a??[1m\xEF\xBF\xBD.yaml:1:1: the file is empty\n  \n  ^\n"
                                       "  hint: the least is 'pipeline: NAME' and a list "
                                       "'stages:'\n");
    config_report_finish(&report);
}

Test(pipeline_load, long_file_names_are_shown) {
    static const char text[] = "pipeline: a\npipeline: b\n";
    char path[2048];
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = '\0';
    struct pipeline_def *def;
    struct config_report report;
    struct error err = ERROR_NONE;
    cr_expect_eq(pipeline_parse(path, text, strlen(text), &def, &report, &err), STATUS_INVALID);
    cr_expect_not_null(strstr(report.text.data, "aaa:1:1: 'stages' is missing\n"));
    cr_expect_not_null(strstr(report.text.data, "first at aaa"));
    cr_expect_not_null(strstr(report.text.data, "aaa:1:1\n  pipeline: b\n  ^\n"));
    config_report_finish(&report);
}

/* NUL cannot stand in a golden file that people read. */
Test(pipeline_load, nul_is_refused_where_it_stands) {
    static const char text[] = "pipeline: p\nstages: a\0b\n";
    struct pipeline_def *def;
    struct config_report report;
    struct error err = ERROR_NONE;
    cr_expect_eq(pipeline_parse("p", text, sizeof text - 1, &def, &report, &err), STATUS_INVALID);
    cr_expect_str_eq(report.text.data,
                     "p:2:10: the character U+0000 cannot stand in a file\n  stages: a\xEF\xBF\xBD"
                     "b\n           ^\n  hint: no text of PostgreSQL can hold it\n");
    config_report_finish(&report);
}

Test(pipeline_load, free_and_finish_take_nothing) {
    struct config_report report = {0};
    pipeline_free(NULL);
    config_report_finish(&report);
}

Test(pipeline_load, home_is_needed_for_tilde_only) {
    static const char text[] = "pipeline: p\nsource: {files: {path: ~/x}}\n"
                               "stages: [{name: s, sql: select 1}]\n";
    static const char *const homes[] = {NULL, "", "relative", "/caf\xE9"};
    for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
        struct pipeline_def *def;
        struct config_report report;
        if (homes[i] == NULL) {
            unsetenv("HOME");
        } else {
            setenv("HOME", homes[i], 1);
        }
        cr_expect_eq(pipeline_parse("p", text, strlen(text), &def, &report, NULL), STATUS_INVALID);
        cr_expect_not_null(strstr(report.text.data, "p:2:24: '~' needs the environment"), "%s",
                           report.text.data);
        config_report_finish(&report);
        cr_expect_eq(pipeline_parse("p", valid, strlen(valid), &def, &report, NULL), STATUS_OK);
        pipeline_free(def);
        config_report_finish(&report);
    }
}
