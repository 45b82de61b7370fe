/* Scans of real folders. */
#include "source/files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "tree.h"

TestSuite(files, .init = tree_create, .fini = tree_remove, .timeout = 30);

static enum status never(void *context, const struct files_entry *entry, struct error *err) {
    (void)context;
    (void)entry;
    (void)err;
    cr_assert_fail("nothing was to be found");
    return STATUS_OK;
}

Test(files, finds_matching_names_in_all_folders) {
    tree_file("a.txt", "1");
    tree_file("b.pdf", "1");
    tree_file("sub/c.txt", "1");
    tree_file("sub/deep/er/d.txt", "1");
    tree_folder("empty");
    cr_assert_str_eq(tree_keys("*.txt"), "a.txt sub/c.txt sub/deep/er/d.txt");
    cr_assert_str_eq(tree_keys("*.txt *.pdf"), "a.txt b.pdf sub/c.txt sub/deep/er/d.txt");
    cr_assert_str_eq(tree_keys("*"), "a.txt b.pdf sub/c.txt sub/deep/er/d.txt");
    cr_assert_str_eq(tree_keys("sub/*.txt"), "sub/c.txt");
    cr_assert_str_eq(tree_keys("sub/**"), "sub/c.txt sub/deep/er/d.txt");
    cr_assert_str_eq(tree_keys("/*.txt"), "a.txt");
}

Test(files, tells_what_the_file_system_says) {
    tree_file("a.txt", "12345");
    struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1700000000, .tv_nsec = 123456789}};
    cr_assert_eq(utimensat(AT_FDCWD, tree_path("a.txt"), times, 0), 0);
    struct stat info;
    cr_assert_eq(stat(tree_path("a.txt"), &info), 0);
    const struct found *found = tree_scan("*", true);
    cr_assert_eq(found->count, 1);
    const struct files_entry *entry = &found->entries[0];
    cr_assert_str_eq(entry->path, tree_path("a.txt"));
    cr_assert_eq(entry->size_bytes, 5);
    cr_assert_eq(entry->mtime_ns, INT64_C(1700000000123456789));
    cr_assert_eq(entry->inode, (int64_t)info.st_ino);
}

Test(files, stays_in_the_root_when_not_recursive) {
    tree_file("a.txt", "");
    tree_file("sub/b.txt", "");
    const struct found *found = tree_scan("*.txt", false);
    cr_assert_eq(found->count, 1);
    cr_assert_str_eq(found->entries[0].key, "a.txt");
}

Test(files, yields_a_name_once_however_many_patterns_match) {
    tree_file("a.txt", "");
    cr_assert_str_eq(tree_keys("*.txt a.* * **"), "a.txt");
}

Test(files, escapes_names_that_are_not_plain_text) {
    tree_file("new\nline", "");
    tree_file("it's \"quoted\" \\ back", "");
    tree_file("100%", "");
    tree_file("\xFF\xFE", "");
    tree_file("\xE6\x97\xA5\xE6\x9C\xAC.txt", "");
    tree_file("tab\tdel\x7F", "");
    const struct found *found = tree_scan("*", true);
    cr_assert_eq(found->count, 6);
    static const struct {
        const char *key, *name;
    } expected[] = {
        {"new%0Aline", "new\nline"},
        {"it's \"quoted\" \\ back", "it's \"quoted\" \\ back"},
        {"100%25", "100%"},
        {"%FF%FE", "\xFF\xFE"},
        {"\xE6\x97\xA5\xE6\x9C\xAC.txt", "\xE6\x97\xA5\xE6\x9C\xAC.txt"},
        {"tab%09del%7F", "tab\tdel\x7F"},
    };
    for (size_t i = 0; i < 6; i++) {
        const struct files_entry *entry = found_entry(found, expected[i].key);
        cr_assert_not_null(entry, "%s", expected[i].key);
        cr_assert_str_eq(entry->path, tree_path(expected[i].name));
    }
}

Test(files, finds_files_below_a_folder_with_odd_bytes) {
    tree_file("a\xFF\nb/c.txt", "");
    cr_assert_str_eq(tree_keys("*.txt"), "a%FF%0Ab/c.txt");
}

Test(files, follows_links_to_files) {
    tree_file("real", "1234567");
    tree_link("real", "link.txt");
    const struct found *found = tree_scan("*.txt", true);
    cr_assert_eq(found->count, 1);
    cr_assert_eq(found->entries[0].size_bytes, 7);
}

Test(files, yields_dangling_and_looping_links_themselves) {
    tree_link("nowhere", "dangling.txt");
    tree_link("self.txt", "self.txt");
    tree_link("b.txt", "a.txt");
    tree_link("a.txt", "b.txt");
    struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1000}};
    cr_assert_eq(utimensat(AT_FDCWD, tree_path("dangling.txt"), times, AT_SYMLINK_NOFOLLOW), 0);
    const struct found *found = tree_scan("*.txt", true);
    cr_assert_eq(found->count, 4);
    cr_assert_eq(found->result.skipped, 0);
    cr_assert_eq(found_entry(found, "dangling.txt")->mtime_ns, INT64_C(1000000000000));
}

Test(files, follows_no_link_to_a_folder) {
    tree_file("sub/a.txt", "");
    tree_link(".", "sub/loop");
    tree_link("..", "sub/up");
    tree_link("sub", "other");
    cr_assert_str_eq(tree_keys("*.txt"), "sub/a.txt");
    cr_assert_str_eq(tree_keys("*"), "sub/a.txt");
    /* Named by the pattern, it is yielded: the handler says that it is a folder. */
    cr_assert_str_eq(tree_keys("other"), "other");
}

Test(files, yields_a_folder_whose_name_matches_and_enters_it) {
    tree_file("old.pdf/inner.pdf", "");
    cr_assert_str_eq(tree_keys("*.pdf"), "old.pdf old.pdf/inner.pdf");
    /* A bare wildcard names no folder. */
    cr_assert_str_eq(tree_keys("*"), "old.pdf/inner.pdf");
    cr_assert_str_eq(tree_keys("*.*"), "old.pdf/inner.pdf");
}

Test(files, yields_a_fifo_without_opening_it) {
    cr_assert_eq(mkfifo(tree_path("pipe.txt"), 0600), 0);
    cr_assert_str_eq(tree_keys("*.txt"), "pipe.txt");
    cr_assert_str_eq(tree_keys("*"), "pipe.txt");
}

Test(files, skips_hidden_names_unless_asked) {
    tree_file(".hidden.txt", "");
    tree_file(".git/config.txt", "");
    tree_file("a/.b/c.txt", "");
    tree_file("seen.txt", "");
    cr_assert_str_eq(tree_keys("*.txt"), "seen.txt");
    cr_assert_str_eq(tree_keys("**"), "seen.txt");
    cr_assert_str_eq(tree_keys(".*"), ".hidden.txt");
    cr_assert_str_eq(tree_keys(".git/*"), ".git/config.txt");
    cr_assert_str_eq(tree_keys("**/.b/*.txt"), "a/.b/c.txt");
}

Test(files, a_key_may_have_1024_bytes_and_no_more) {
    char folder[201], name[2048];
    memset(folder, 'd', 200);
    folder[200] = '\0';
    snprintf(name, sizeof name, "%s/%s/%s/%s/%s/0123456789abcdefghi", folder, folder, folder,
             folder, folder);
    cr_assert_eq(strlen(name), 1024);
    tree_file(name, "");
    snprintf(name, sizeof name, "%s/%s/%s/%s/%s/0123456789abcdefghij", folder, folder, folder,
             folder, folder);
    tree_file(name, "");
    const struct found *found = tree_scan("*", true);
    cr_assert_eq(found->count, 1);
    cr_assert_eq(strlen(found->entries[0].key), 1024);
    cr_assert_eq(found->result.skipped, 1);
    cr_assert_eq(found->result.first_skipped.code, STATUS_LIMIT);
    cr_assert_not_null(strstr(found->result.first_skipped.text, "0123456789abcdefghij: "), "%s",
                       found->result.first_skipped.text);
    cr_assert_not_null(strstr(found->result.first_skipped.text, "1,024 bytes"));
}

Test(files, escapes_count_for_the_key) {
    char name[256];
    memset(name, 0xFF, 255);
    name[255] = '\0';
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", name, name);
    tree_file(path, "");
    const struct found *found = tree_scan("*", true);
    cr_assert_eq(found->count, 0);
    cr_assert_eq(found->result.skipped, 1);
}

/* A hundred folders in one another, deeper than any key may be: the scan ends at the limit. */
Test(files, stops_where_folders_are_too_deep) {
    int fd = open(tree_root(), O_RDONLY | O_DIRECTORY);
    char name[101];
    memset(name, 'x', 100);
    name[100] = '\0';
    for (int i = 0; i < 60; i++) {
        cr_assert_eq(mkdirat(fd, name, 0755), 0);
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY);
        cr_assert(next >= 0);
        close(fd);
        fd = next;
    }
    close(fd);
    const struct found *found = tree_scan("*", true);
    cr_assert_eq(found->count, 0);
    cr_assert_eq(found->result.skipped, 1);
    cr_assert_lt(strlen(found->result.first_skipped.text), 500);
}

Test(files, needs_no_descriptor_per_level) {
    char name[1024];
    for (size_t i = 0; i < 800; i += 2) {
        memcpy(name + i, "d/", 2);
    }
    memcpy(name + 800, "x", 2);
    tree_file(name, "");
    for (int i = 0; i < 1000; i++) { /* leave few descriptors */
        if (dup(0) > 1000) {
            break;
        }
    }
    cr_assert_eq(tree_scan("x", true)->count, 1);
}

Test(files, a_missing_root_is_not_found) {
    static const char *const match[] = {"*", NULL};
    struct files_source source = {.root = tree_path("none"), .match = match, .recursive = true};
    struct files_result result;
    struct error err = ERROR_NONE;
    cr_assert_eq(files_scan(&source, never, NULL, &result, &err), STATUS_NOT_FOUND);
    cr_assert(strstr(err.text, "/none") != NULL, "%s", err.text);
}

Test(files, a_root_that_is_a_file_is_refused) {
    tree_file("a.txt", "");
    static const char *const match[] = {"*", NULL};
    struct files_source source = {.root = tree_path("a.txt"), .match = match, .recursive = true};
    struct files_result result;
    struct error err = ERROR_NONE;
    cr_assert_eq(files_scan(&source, never, NULL, &result, &err), STATUS_INVALID);
}

Test(files, a_root_may_be_a_link_and_end_with_slashes) {
    tree_file("real/a.txt", "");
    tree_link("real", "link");
    char root[4096];
    snprintf(root, sizeof root, "%s//", tree_path("link"));
    static const char *const match[] = {"zzz", NULL};
    struct files_source source = {.root = root, .match = match, .recursive = true};
    struct files_result result;
    cr_assert_eq(files_scan(&source, never, NULL, &result, NULL), STATUS_OK);
}

static enum status keep_path(void *context, const struct files_entry *entry, struct error *err) {
    (void)err;
    snprintf(context, 4096, "%s", entry->path);
    return STATUS_OK;
}

Test(files, slashes_at_the_roots_end_are_not_doubled) {
    tree_file("a.txt", "");
    char root[4096], path[4096] = "";
    snprintf(root, sizeof root, "%s///", tree_root());
    static const char *const match[] = {"*", NULL};
    struct files_source source = {.root = root, .match = match, .recursive = true};
    struct files_result result;
    cr_assert_eq(files_scan(&source, keep_path, path, &result, NULL), STATUS_OK);
    cr_assert_str_eq(path, tree_path("a.txt"));
}

Test(files, a_bad_pattern_is_refused) {
    static const char *const match[] = {"*.txt", "../*", NULL};
    struct files_source source = {.root = tree_root(), .match = match, .recursive = true};
    struct files_result result;
    struct error err = ERROR_NONE;
    cr_assert_eq(files_scan(&source, never, NULL, &result, &err), STATUS_INVALID);
}

static enum status stop_at_two(void *context, const struct files_entry *entry, struct error *err) {
    (void)entry;
    int *calls = context;
    return ++*calls == 2 ? error_set(err, STATUS_UNAVAILABLE, "enough") : STATUS_OK;
}

Test(files, ends_with_what_the_callback_returns) {
    tree_file("a/1", "");
    tree_file("b/2", "");
    tree_file("c/3", "");
    static const char *const match[] = {"*", NULL};
    struct files_source source = {.root = tree_root(), .match = match, .recursive = true};
    struct files_result result;
    struct error err = ERROR_NONE;
    int calls = 0;
    cr_assert_eq(files_scan(&source, stop_at_two, &calls, &result, &err), STATUS_UNAVAILABLE);
    cr_assert_str_eq(err.text, "enough");
    cr_assert_eq(calls, 2);
}

/* Both folders are known before the first entry below either comes: the other one is removed then.
 */
static enum status remove_the_other(void *context, const struct files_entry *entry,
                                    struct error *err) {
    (void)err;
    int *calls = context;
    ++*calls;
    const char *other = entry->key[0] == 'a' ? "b" : "a";
    char file[4096];
    snprintf(file, sizeof file, "%s/%s/x", tree_root(), other);
    cr_assert_eq(unlink(file), 0);
    cr_assert_eq(rmdir(tree_path(other)), 0);
    return STATUS_OK;
}

Test(files, a_folder_that_vanished_counts_as_skipped) {
    tree_file("a/x", "");
    tree_file("b/x", "");
    static const char *const match[] = {"*", NULL};
    struct files_source source = {.root = tree_root(), .match = match, .recursive = true};
    struct files_result result;
    int calls = 0;
    cr_assert_eq(files_scan(&source, remove_the_other, &calls, &result, NULL), STATUS_OK);
    cr_assert_eq(calls, 1);
    cr_assert_eq(result.entries, 1);
    cr_assert_eq(result.skipped, 1);
    cr_assert_eq(result.first_skipped.code, STATUS_UNAVAILABLE);
    cr_assert(strstr(result.first_skipped.text, strerror(ENOENT)) != NULL);
}

Test(files, an_unreadable_folder_counts_as_skipped) {
    tree_file("open/x", "");
    tree_file("shut/y", "");
    cr_assert_eq(chmod(tree_root(), 0755), 0);
    cr_assert_eq(chmod(tree_path("shut"), 0), 0);
    if (geteuid() == 0) {
        cr_assert_eq(seteuid(65534), 0); /* permissions do not bind root */
    }
    const struct found *found = tree_scan("*", true);
    if (getuid() == 0) {
        cr_assert_eq(seteuid(0), 0);
    }
    chmod(tree_path("shut"), 0755);
    cr_assert_eq(found->count, 1);
    cr_assert_eq(found->result.skipped, 1);
    cr_assert(strstr(found->result.first_skipped.text, "shut: ") != NULL, "%s",
              found->result.first_skipped.text);
}

static enum status count_one(void *context, const struct files_entry *entry, struct error *err) {
    (void)entry;
    (void)err;
    ++*(int *)context;
    return STATUS_OK;
}

Test(files, twenty_thousand_files_take_less_than_a_second) {
    char name[64];
    for (int folder = 0; folder < 200; folder++) {
        snprintf(name, sizeof name, "%03d", folder);
        tree_folder(name);
        int fd = open(tree_path(name), O_RDONLY | O_DIRECTORY);
        for (int i = 0; i < 100; i++) {
            snprintf(name, sizeof name, "%03d.txt", i);
            close(openat(fd, name, O_WRONLY | O_CREAT, 0644));
        }
        close(fd);
    }
    static const char *const match[] = {"*.pdf", "**/*.html", "*.txt", NULL};
    struct files_source source = {.root = tree_root(), .match = match, .recursive = true};
    struct files_result result;
    int calls = 0;
    clock_t start = clock(); /* processor time: other work on the machine does not count */
    cr_assert_eq(files_scan(&source, count_one, &calls, &result, NULL), STATUS_OK);
    cr_assert_lt(clock() - start, CLOCKS_PER_SEC);
    cr_assert_eq(calls, 20000);
}
