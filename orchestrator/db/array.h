/* array.h - PostgreSQL array literals: "{1,NULL,3}", "{"a","b\"c"}". Built into a buf, passed as one text parameter.
 *
 * Usage: array_begin(b); array_add_int(b, 1); array_add_text(b, s, n); array_end(b). NULL text adds NULL.
 */
#ifndef DB_ARRAY_H
#define DB_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

void array_begin(struct buf *buf); /* clears it */
void array_add_int(struct buf *buf, int64_t value);
void array_add_bool(struct buf *buf, bool value);
void array_add_text(struct buf *buf, const char *text, size_t length); /* NULL: SQL NULL */
void array_add_null(struct buf *buf);
void array_end(struct buf *buf);

/* Reads "{1,2}" of integers: returns the count and sets *values (free()); -1 when malformed. */
int array_read_ints(const char *literal, int64_t **values);

#endif
