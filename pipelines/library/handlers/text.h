/* text.h - a growing string with a hard limit.
 *
 * The first append that does not fit sets `state`; it and all later ones are dropped, and the
 * caller looks once at the end. `data` is NUL-terminated, and never NULL as long as `state` is
 * TEXT_FINE and something was appended.
 */
#ifndef LIBRARY_TEXT_H
#define LIBRARY_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum text_state { TEXT_FINE, TEXT_TOO_LONG, TEXT_NO_MEMORY };

struct text {
    char *data;
    size_t length, capacity, max;
    enum text_state state;
};

void text_init(struct text *text, size_t max_bytes);
void text_finish(struct text *text); /* harmless on a zeroed struct */

void text_append(struct text *text, const char *bytes, size_t length);
void text_append_char(struct text *text, char c);
void text_append_code_point(struct text *text, uint32_t code);

/* "" when there is nothing. */
const char *text_string(const struct text *text);

#endif
