/* buf.h - the one growable byte buffer.
 *
 * Invariants: `data` is never NULL after buf_init, data[length] is always NUL, length <= max. Growing beyond `max`
 * sets `overflow`, drops what was being appended and every later append; the caller checks once at the end.
 * A zeroed struct may be finished.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data;
    size_t length, capacity, max;
    bool overflow;
};

void buf_init(struct buf *buf, size_t max_bytes);
void buf_finish(struct buf *buf);
void buf_clear(struct buf *buf); /* keeps the memory */

void buf_append(struct buf *buf, const void *bytes, size_t length);
void buf_append_string(struct buf *buf, const char *text);
void buf_append_char(struct buf *buf, char c);
void buf_append_format(struct buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void buf_append_format_list(struct buf *buf, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Makes room for `length` more bytes and returns where they go; the caller adds to `length`
 * itself. The room is zeroed. NULL, and `overflow` set, when it would exceed max. */
char *buf_reserve(struct buf *buf, size_t length);

/* Removes the first `count` bytes. */
void buf_drop_front(struct buf *buf, size_t count);

/* Ownership: gives the memory to the caller (free()), the buffer is empty and usable again. */
char *buf_take(struct buf *buf);

#endif
