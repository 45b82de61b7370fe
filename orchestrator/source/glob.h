/* glob.h - the patterns of a file source, matched part by part while the scan goes down the
 * folders.
 *
 * A pattern is a small automaton over path parts: the set of its states after a folder is a bit
 * mask, and each name below needs one step from it, however deep it stands. Nothing is matched
 * twice and nothing backtracks over folders.
 *
 * Within a part: * any run, ? one character, [a-z] [!a-z] a class, \ takes the next character as it
 * is. ** alone in a part stands for any number of folders, none included; at the end it stands for
 * everything below. A pattern without
 * '/' means the same as with "**" and '/' in front. A leading dot is matched by a leading dot only,
 * never by a wildcard.
 */
#ifndef SOURCE_GLOB_H
#define SOURCE_GLOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { GLOB_PARTS_MAX = 62 };

typedef uint64_t glob_states; /* bit i: the parts before i are matched */

struct glob {
    char *text; /* owned; the parts point into it */
    const char *parts[GLOB_PARTS_MAX];
    bool spans[GLOB_PARTS_MAX]; /* the part is ** */
    int part_count;
    /* The last part has something of a name in it: "*.pdf", not "*" or "*.*". Only such a pattern
     * yields folders; otherwise each folder of a tree would be taken for a document. */
    bool names;
};

/* INVALID for an empty pattern, LIMIT for one of too many parts. */
enum status glob_parse(struct glob *glob, const char *pattern, struct error *err) MUST_CHECK;
void glob_finish(struct glob *glob);

/* The states at the root; then those after one more part of the path. */
glob_states glob_start(const struct glob *glob);
glob_states glob_step(const struct glob *glob, glob_states states, const char *name);

/* The path walked so far is matched; something below it may be. */
bool glob_accepts(const struct glob *glob, glob_states states);
bool glob_continues(const struct glob *glob, glob_states states);

/* One part against one name, both without '/'. */
bool glob_part_matches(const char *part, const char *name);

#endif
