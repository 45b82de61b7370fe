/* pattern.h - patterns of keys and reasons: * for any text, ? for any character, \ before one that is meant as such. */
#ifndef CLI_PATTERN_H
#define CLI_PATTERN_H

#include "base/buf.h"

/* Appends the pattern as SQL's LIKE wants it. */
void pattern_to_like(struct buf *like, const char *pattern);
/* The same; a pattern without * and ? is looked for anywhere in the text. */
void pattern_to_like_within(struct buf *like, const char *pattern);

#endif
