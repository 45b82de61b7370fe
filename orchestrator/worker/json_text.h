/* json_text.h - reads JSON where it stands: a value is a piece of the text, so that numbers keep all their digits and an
 * output of 100 MB is not taken apart to be written again.
 *
 * json_text_check is asked once, about the whole text; all else wants pieces of what it found good. It checks the grammar of
 * RFC 8259 and not the encoding: whoever stores a text checks that (pgstage_set_output). Thread rule: none.
 */
#ifndef WORKER_JSON_TEXT_H
#define WORKER_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct json_span {
    const char *at; /* NULL: absent */
    size_t length;
};

/* Whether the text is one JSON value, with white space around it, which `value` is without. Else `fault` is where it stops
 * being one. */
bool json_text_check(const char *text, size_t length, struct json_span *value, size_t *fault);

/* '{', '[', '"', '0' for any number, 't', 'f', 'n'; 0: absent. */
char json_text_kind(struct json_span value);
/* Neither absent nor null. */
bool json_text_is_given(struct json_span value);

/* Walks the members of an object or the elements of an array; `at` is NULL at the first call. `name` is the member's, with
 * its quotes; absent in an array. False: there are no more. */
bool json_text_next(struct json_span container, const char **at, struct json_span *name, struct json_span *value);

/* Fills the value of each that is wanted; of two members with one name the later one counts, as in most languages. */
struct json_want {
    const char *name;
    struct json_span value;
};
void json_text_members(struct json_span object, struct json_want *wants, size_t count);
/* One of them, whose name has that many bytes; absent when there is none. */
struct json_span json_text_member(struct json_span object, const char *name, size_t length);

/* Appends what a string stands for, as UTF-8. Halves of surrogate pairs become U+FFFD; NUL stays. False: there were some of
 * either. */
bool json_text_string(struct json_span string, struct buf *out);

/* Appends a string's text as JSON, with its quotes. Bytes that are not UTF-8, and NUL, become U+FFFD. */
void json_text_quote(struct buf *out, const char *text, size_t length);

#endif
