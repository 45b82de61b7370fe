/* json_pretty.h - JSON laid out for people, without a parser: no number loses digits, no name its place.
 */
#ifndef CLI_JSON_PRETTY_H
#define CLI_JSON_PRETTY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends valid JSON: on one line when that takes at most `width` bytes, else a member a line, set in by two blanks a level.
 * Stops behind `max` bytes (0: never); false then. */
bool json_pretty(struct buf *out, const char *text, size_t length, size_t width, size_t max);

#endif
