/* tree.h - a folder of its own for each test, and what a scan of it found. */
#ifndef TEST_TREE_H
#define TEST_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "source/files.h"

/* .init and .fini of a suite. */
void tree_create(void);
void tree_remove(void);

const char *tree_root(void);
/* Absolute path of a name below the root. Ownership: borrowed until the fourth next call. */
const char *tree_path(const char *name);
void tree_file(const char *name, const char *content); /* makes the folders above it, too */
void tree_folder(const char *name);
void tree_link(const char *target, const char *name);

struct found {
    size_t count;
    struct files_entry entries[4096]; /* key and path replaced by the copies */
    struct files_result result;
    struct error err;
};

/* Scans the tree; `match` is a list separated by blanks. Keys are sorted. Reused by the next call.
 */
const struct found *tree_scan(const char *match, bool recursive);
/* The keys, sorted, with a blank between them. */
const char *tree_keys(const char *match);
const struct files_entry *found_entry(const struct found *found, const char *key);

#endif
