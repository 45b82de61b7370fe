/* clean.h - makes extracted text readable, and storable as jsonb and text.
 *
 * Takes well-formed UTF-8, piece by piece. Control characters, NUL, byte order marks, soft hyphens,
 * zero-width spaces, direction marks and noncharacters are dropped; all kinds of blanks become a
 * space, all kinds of line ends a newline; no line begins or ends with a space, no two spaces and
 * no more than two newlines follow one another.
 */
#ifndef LIBRARY_CLEAN_H
#define LIBRARY_CLEAN_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

struct cleaner {
    struct text *out;
    int newlines;      /* owed before the next visible character: 0 to 2 */
    bool space;        /* owed as well, when no newline is */
    bool after_return; /* the last character was CR: an LF belongs to it */
};

void cleaner_init(struct cleaner *cleaner, struct text *out);

/* `keep_lines`: a line end stays one; otherwise it is a blank, as in HTML. */
void cleaner_add(struct cleaner *cleaner, const char *bytes, size_t length, bool keep_lines);
void cleaner_blank(struct cleaner *cleaner);
/* 1: a new line, 2: a new paragraph. Several in a row count once. */
void cleaner_break(struct cleaner *cleaner, int newlines);

/* The whole in one go, lines kept. */
void clean_text(const char *bytes, size_t length, struct text *out);
/* One line of at most `max_bytes`, cut at a character's border with "…". */
void clean_line(const char *bytes, size_t length, size_t max_bytes, struct text *out);

#endif
