/* lines_test.c - reading a file a line at a time. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/line_reader.h"

TestSuite(line_reader, .timeout = 60);

static char path[64];

static void make_file(const void *bytes, size_t length) {
    snprintf(path, sizeof path, "/tmp/pgstage-lines-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    FILE *file = fdopen(fd, "w");
    cr_assert_eq(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

static void expect_lines(const char *bytes, int count, const char *const *lines) {
    struct line_reader reader;
    struct error err = ERROR_NONE;
    char *line;
    size_t length;
    make_file(bytes, strlen(bytes));
    cr_assert_eq(line_reader_open(path, &reader, &err), STATUS_OK);
    for (int i = 0; i < count; i++) {
        cr_assert_eq(line_reader_next(&reader, &line, &length, &err), STATUS_OK);
        cr_assert_not_null(line);
        cr_expect_str_eq(line, lines[i]);
        cr_expect_eq(length, strlen(lines[i]));
        cr_expect_eq(reader.number, i + 1);
    }
    cr_assert_eq(line_reader_next(&reader, &line, &length, &err), STATUS_OK);
    cr_expect_null(line);
    line_reader_close(&reader);
    unlink(path);
}

Test(line_reader, gives_lines_without_their_ends) {
    expect_lines("", 0, NULL);
    expect_lines("a", 1, (const char *const[]){"a"});
    expect_lines("a\n", 1, (const char *const[]){"a"});
    expect_lines("a\r\n\r\n\nb\r", 4, (const char *const[]){"a", "", "", "b\r"});
}

Test(line_reader, takes_lines_longer_than_a_block) {
    enum { LENGTH = 300000 };
    char *bytes = malloc(2 * LENGTH + 3);
    memset(bytes, 'x', LENGTH);
    memset(bytes + LENGTH + 1, 'y', LENGTH);
    bytes[LENGTH] = '\n';
    bytes[2 * LENGTH + 1] = '\n';
    make_file(bytes, 2 * LENGTH + 2);
    struct line_reader reader;
    struct error err = ERROR_NONE;
    char *line;
    size_t length;
    cr_assert_eq(line_reader_open(path, &reader, &err), STATUS_OK);
    cr_assert_eq(line_reader_next(&reader, &line, &length, &err), STATUS_OK);
    cr_expect(length == LENGTH && line[0] == 'x' && line[LENGTH - 1] == 'x' && line[LENGTH] == '\0');
    cr_assert_eq(line_reader_next(&reader, &line, &length, &err), STATUS_OK);
    cr_expect(length == LENGTH && line[0] == 'y' && line[LENGTH - 1] == 'y' && line[LENGTH] == '\0');
    cr_assert_eq(line_reader_next(&reader, &line, &length, &err), STATUS_OK);
    cr_expect_null(line);
    line_reader_close(&reader);
    unlink(path);
    free(bytes);
}

Test(line_reader, a_line_may_hold_nul) {
    make_file("a\0b\nc", 5);
    struct line_reader reader;
    struct error err = ERROR_NONE;
    char *line;
    size_t length;
    cr_assert_eq(line_reader_open(path, &reader, &err), STATUS_OK);
    cr_assert_eq(line_reader_next(&reader, &line, &length, &err), STATUS_OK);
    cr_expect_eq(length, 3);
    cr_expect_arr_eq(line, "a\0b", 4);
    line_reader_close(&reader);
    unlink(path);
}

Test(line_reader, a_line_without_end_is_refused) {
    struct line_reader reader;
    struct error err = ERROR_NONE;
    char *line;
    size_t length;
    cr_assert_eq(line_reader_open("/dev/zero", &reader, &err), STATUS_OK);
    cr_expect_eq(line_reader_next(&reader, &line, &length, &err), STATUS_LIMIT);
    cr_expect_str_eq(err.text, "/dev/zero:1: the line is longer than 160 MB");
    line_reader_close(&reader);
}

Test(line_reader, whole_files_have_a_limit) {
    struct error err = ERROR_NONE;
    char *text = NULL;
    size_t length = 0;
    make_file("abc", 3);
    cr_assert_eq(read_whole(path, 3, &text, &length, &err), STATUS_OK);
    cr_expect_str_eq(text, "abc");
    cr_expect_eq(length, 3);
    free(text);
    cr_expect_eq(read_whole(path, 2, &text, &length, &err), STATUS_LIMIT);
    unlink(path);
    err = ERROR_NONE;
    cr_expect_eq(read_whole(path, 3, &text, &length, &err), STATUS_NOT_FOUND);
    cr_expect_eq(read_whole("/dev/zero", 1 << 20, &text, &length, &err), STATUS_LIMIT);
}
