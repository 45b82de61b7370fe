/* Each public function has a manual page that declares it as its header does, and each page is well-formed. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

TestSuite(sdk_man, .timeout = 60);

#define PAGES TEST_SOURCE_DIR "/sdk/man"

static void read_file(struct buf *text, const char *path) {
    char block[4096];
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    for (size_t count; (count = fread(block, 1, sizeof block, file)) > 0;) {
        buf_append(text, block, count);
    }
    fclose(file);
}

/* All pages, one behind the other. */
static void read_pages(struct buf *text) {
    DIR *folder = opendir(PAGES);
    cr_assert_not_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", PAGES, entry->d_name);
        if (entry->d_name[0] != '.') {
            read_file(text, path);
        }
    }
    closedir(folder);
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* Appends [from, to) without blanks and quotes. */
static void append_dense(struct buf *out, const char *from, const char *to) {
    for (; from < to; from++) {
        if (!isspace((unsigned char)*from) && *from != '"') {
            buf_append_char(out, *from);
        }
    }
}

/* "int pgstage_sql(pgstage_task *task, ...)" behind `at`, dense; its end, or NULL when there is none. `name` is the
 * function's. */
static const char *next_declaration(const char *at, struct buf *declaration, char *name, size_t size) {
    static const char *const marks[] = {"\nPGSTAGE_API ", "\nPGSTAGE_CLIENT_API ", "\nstatic inline "};
    const char *from = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const char *found = strstr(at, marks[i]);
        if (found != NULL && (from == NULL || found < from)) {
            from = found;
        }
    }
    if (from == NULL) {
        return NULL;
    }
    from = strpbrk(from + 1, " ");
    from += strncmp(from, " inline", 7) == 0 ? 7 : 0;
    const char *open = strchr(from, '('), *close = strchr(open, ')'), *begin = open;
    while (is_word(begin[-1])) {
        begin--;
    }
    snprintf(name, size, "%.*s", (int)(open - begin), begin);
    buf_clear(declaration);
    append_dense(declaration, from, close + 1);
    return close;
}

/* In the list of names at the top of a page. */
static bool is_named(const char *pages, const char *name) {
    char among[120], last[120];
    snprintf(among, sizeof among, "\n.Nm %s ,\n", name);
    snprintf(last, sizeof last, "\n.Nm %s\n", name);
    return strstr(pages, among) != NULL || strstr(pages, last) != NULL;
}

/* The declaration in the synopsis of a page, dense. False: there is none. */
static bool page_declaration(const char *pages, const char *name, struct buf *declaration) {
    char mark[160];
    snprintf(mark, sizeof mark, "\n.Fo %s\n", name);
    const char *at = strstr(pages, mark);
    if (at == NULL) {
        return false;
    }
    const char *type = at - 1;
    while (type[-1] != '\n') {
        type--;
    }
    cr_assert_eq(strncmp(type, ".Ft ", 4), 0, "%s", name);
    buf_clear(declaration);
    append_dense(declaration, type + 4, at);
    buf_append_format(declaration, "%s(", name);
    at += strlen(mark);
    for (const char *separator = ""; strncmp(at, ".Fa ", 4) == 0; separator = ",") {
        const char *end = strchr(at, '\n');
        buf_append_string(declaration, separator);
        append_dense(declaration, at + 4, end);
        at = end + 1;
    }
    buf_append_char(declaration, ')');
    return true;
}

static void check_header(const char *header, const char *pages, int at_least) {
    char path[1024], name[100];
    struct buf text, ours, theirs;
    buf_init(&text, SIZE_MAX);
    buf_init(&ours, SIZE_MAX);
    buf_init(&theirs, SIZE_MAX);
    snprintf(path, sizeof path, "%s/sdk/include/pgstage/%s", TEST_SOURCE_DIR, header);
    read_file(&text, path);
    int count = 0;
    for (const char *at = text.data; (at = next_declaration(at, &ours, name, sizeof name)) != NULL; count++) {
        cr_expect(is_named(pages, name), "%s has no page", name);
        cr_expect(page_declaration(pages, name, &theirs), "%s is not in the synopsis of a page", name);
        cr_expect_str_eq(theirs.data, ours.data);
    }
    cr_assert_geq(count, at_least, "%s: %d", header, count);
    buf_finish(&text);
    buf_finish(&ours);
    buf_finish(&theirs);
}

Test(sdk_man, each_function_has_a_page_with_its_declaration) {
    struct buf pages;
    buf_init(&pages, SIZE_MAX);
    read_pages(&pages);
    check_header("handler.h", pages.data, 30);
    check_header("test.h", pages.data, 46);
    check_header("client.h", pages.data, 3);
    buf_finish(&pages);
}

Test(sdk_man, each_page_is_well_formed) {
    cr_assert_eq(system("command -v mandoc >/dev/null"), 0, "the package mandoc is needed");
    DIR *folder = opendir(PAGES);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char command[1024];
        if (entry->d_name[0] != '.') {
            snprintf(command, sizeof command, "mandoc -T lint -W warning %s/%s", PAGES, entry->d_name);
            cr_expect_eq(system(command), 0, "%s", entry->d_name);
            count++;
        }
    }
    closedir(folder);
    cr_assert_geq(count, 14);
}
