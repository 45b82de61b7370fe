#include "tree.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/leaks.h"

static char root[64];
static struct found found;

const char *tree_root(void) {
    return root;
}

void tree_create(void) {
    leaks_fail_tests();
    snprintf(root, sizeof root, "/tmp/pgstage-source-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void tree_remove(void) {
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *tree_path(const char *name) {
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

void tree_folder(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0755);
        *at = '/';
    }
    mkdir(path, 0755);
    cr_assert(access(path, F_OK) == 0, "%s", path);
}

void tree_file(const char *name, const char *content) {
    const char *slash = strrchr(name, '/');
    if (slash != NULL) {
        char *folder = mem_copy_bytes(name, (size_t)(slash - name));
        tree_folder(folder);
        free(folder);
    }
    int fd = open(tree_path(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    cr_assert(fd >= 0, "%s", name);
    cr_assert_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    close(fd);
}

void tree_link(const char *target, const char *name) {
    cr_assert_eq(symlink(target, tree_path(name)), 0);
}

static enum status collect(void *context, const struct files_entry *entry, struct error *err) {
    (void)context;
    (void)err;
    cr_assert_lt(found.count, 4096);
    found.entries[found.count] = *entry;
    found.entries[found.count].key = mem_copy_string(entry->key);
    found.entries[found.count].path = mem_copy_string(entry->path);
    found.count++;
    return STATUS_OK;
}

static int by_key(const void *left, const void *right) {
    const struct files_entry *a = left, *b = right;
    return strcmp(a->key, b->key);
}

const struct found *tree_scan(const char *match, bool recursive) {
    for (size_t i = 0; i < found.count; i++) {
        free((char *)found.entries[i].key);
        free((char *)found.entries[i].path);
    }
    memset(&found, 0, sizeof found);
    char *list = mem_copy_string(match);
    const char *patterns[16] = {0};
    size_t count = 0;
    char *rest = list;
    while (rest != NULL && count < 15) {
        patterns[count++] = strsep(&rest, " ");
    }
    struct files_source source = {.root = root, .match = patterns, .recursive = recursive};
    enum status status = files_scan(&source, collect, NULL, &found.result, &found.err);
    cr_assert_eq(status, STATUS_OK, "%s", found.err.text);
    cr_assert_eq(found.result.entries, (int64_t)found.count);
    qsort(found.entries, found.count, sizeof found.entries[0], by_key);
    free(list);
    return &found;
}

const char *tree_keys(const char *match) {
    static char keys[65536];
    const struct found *scanned = tree_scan(match, true);
    size_t length = 0;
    keys[0] = '\0';
    for (size_t i = 0; i < scanned->count; i++) {
        length += (size_t)snprintf(keys + length, sizeof keys - length, "%s%s", i == 0 ? "" : " ",
                                   scanned->entries[i].key);
    }
    return keys;
}

const struct files_entry *found_entry(const struct found *scanned, const char *key) {
    for (size_t i = 0; i < scanned->count; i++) {
        if (strcmp(scanned->entries[i].key, key) == 0) {
            return &scanned->entries[i];
        }
    }
    return NULL;
}
