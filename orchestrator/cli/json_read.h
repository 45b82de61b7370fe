/* json_read.h - JSON that users give: checked whole, then passed on as they wrote it, so that no number loses digits.
 */
#ifndef CLI_JSON_READ_H
#define CLI_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>

struct json_mistake {
    int line, column; /* 1-based */
    char why[256];
};

/* Whether the text is one JSON value that PostgreSQL can store: no NUL, no surrogate alone, UTF-8. */
bool json_check(const char *text, size_t length, struct json_mistake *mistake);

struct json_member {
    const char *name; /* without its quotes, escapes left as they are */
    size_t name_length;
    const char *value;
    size_t value_length;
};

/* Walks the members of an object. *at: the text at first; false at the end. When: json_check passed, and the text is an
 * object. */
bool json_next_member(const char **at, struct json_member *member);

/* The text of a JSON string with its quotes; NULL when the value is none. Ownership: the caller's, free() it. */
char *json_string_copy(const char *value, size_t length);

/* True for `null`. */
bool json_means_nothing(const char *value, size_t length);

#endif
