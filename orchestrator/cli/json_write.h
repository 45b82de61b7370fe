/* json_write.h - JSON made into a buffer; commas come by themselves.
 *
 * `name` is the member's name, NULL inside an array or at the top. NULL text gives null.
 */
#ifndef CLI_JSON_WRITE_H
#define CLI_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

void json_begin(struct buf *out, const char *name, char bracket); /* '{' or '[' */
void json_end(struct buf *out, char bracket);                     /* '}' or ']' */
void json_add_text(struct buf *out, const char *name, const char *text);
void json_add_int(struct buf *out, const char *name, int64_t value);
void json_add_bool(struct buf *out, const char *name, bool value);
/* Text that is JSON already, such as a number or a jsonb value; NULL or "" gives null. */
void json_add_raw(struct buf *out, const char *name, const char *json);

#endif
