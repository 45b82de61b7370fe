/* files.h - finds documents in a folder: a scan yields one entry per matching name.
 *
 * Blocking; runs in the thread pool. Follows links to files, not to folders (no loops). A folder, a dangling link or any
 * other thing whose own name matches is yielded as well (the handler says what is wrong with it): nothing that a person
 * named is silently dropped. Hidden names (".x") are skipped unless a pattern begins with a dot. A pattern with '/' is
 * matched against the path below the root (** spans folders), one without against the last part of the name; case counts.
 *
 * key: the path below the root, with bytes that are not UTF-8, control bytes and '%' as %XX (utf8_escape_name: exact
 * inverse exists). Names whose key would be longer than 1,024 bytes are counted in `skipped` and reported, not yielded.
 */
#ifndef SOURCE_FILES_H
#define SOURCE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct files_source {
    const char *root; /* absolute */
    const char *const *match; /* NULL-terminated */
    bool recursive;
};

struct files_entry {
    const char *key;  /* borrowed for the call */
    const char *path; /* absolute, raw bytes */
    int64_t size_bytes;
    int64_t mtime_ns;  /* since 1970, UTC; of the link itself when it dangles */
    int64_t inode;
};

struct files_result {
    int64_t entries, skipped;
    struct error first_skipped; /* why, for the log; code OK when nothing was skipped */
};

/* Calls `each` for every entry, in no particular order; stops with its code when it returns another than OK.
 * NOT_FOUND when the root does not exist; a folder below it that cannot be read counts as skipped. */
enum status files_scan(const struct files_source *source,
                       enum status (*each)(void *context, const struct files_entry *entry, struct error *err),
                       void *context, struct files_result *result, struct error *err) MUST_CHECK;

/* The payload of an entry: {"path": escaped, "size": N, "mtime_ns": N, "inode": N}. A path that is not UTF-8 is escaped
 * as in the key, and "escaped": true says so. Appends JSON text. */
struct buf;
void files_payload(struct buf *out, const struct files_entry *entry);

#endif
