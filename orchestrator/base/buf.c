/* buf.c - the growable buffer. `capacity` counts the byte for the NUL, `length` and `max` do not.
 */
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/require.h"

enum { BUF_FIRST_CAPACITY = 64 };

void buf_init(struct buf *buf, size_t max_bytes) {
    /* One byte of headroom, so that max + 1 cannot wrap for "no limit". */
    size_t max = max_bytes < PTRDIFF_MAX ? max_bytes : PTRDIFF_MAX - 1;
    size_t capacity = max < BUF_FIRST_CAPACITY ? max + 1 : BUF_FIRST_CAPACITY;
    *buf = (struct buf){.data = mem_alloc(capacity), .capacity = capacity, .max = max};
}

void buf_finish(struct buf *buf) {
    free(buf->data);
    *buf = (struct buf){0};
}

void buf_clear(struct buf *buf) {
    buf->length = 0;
    buf->overflow = false;
    if (buf->data != NULL) {
        buf->data[0] = '\0';
    }
}

/* Makes room for `length` more bytes and the NUL; false, with `overflow` set, when `max` forbids
 * it. */
static bool grow(struct buf *buf, size_t length) {
    if (buf->overflow || buf->data == NULL || length > buf->max - buf->length) {
        buf->overflow = true;
        return false;
    }
    size_t needed = buf->length + length + 1;
    if (needed > buf->capacity) {
        size_t limit = buf->max + 1;
        size_t doubled = buf->capacity > limit / 2 ? limit : buf->capacity * 2;
        buf->capacity = doubled > needed ? doubled : needed;
        buf->data = mem_resize(buf->data, buf->capacity, 1);
    }
    return true;
}

void buf_append(struct buf *buf, const void *bytes, size_t length) {
    if (length == 0 || !grow(buf, length)) {
        return;
    }
    memcpy(buf->data + buf->length, bytes, length);
    buf->length += length;
    buf->data[buf->length] = '\0';
}

void buf_append_string(struct buf *buf, const char *text) {
    buf_append(buf, text, strlen(text));
}

void buf_append_char(struct buf *buf, char c) {
    buf_append(buf, &c, 1);
}

void buf_append_format(struct buf *buf, const char *format, ...) {
    va_list args;
    va_start(args, format);
    buf_append_format_list(buf, format, args);
    va_end(args);
}

void buf_append_format_list(struct buf *buf, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    REQUIRE(length >= 0);
    if (grow(buf, (size_t)length)) {
        vsnprintf(buf->data + buf->length, (size_t)length + 1, format, args);
        buf->length += (size_t)length;
    }
}

char *buf_reserve(struct buf *buf, size_t length) {
    if (!grow(buf, length)) {
        return NULL;
    }
    /* Zeroed, so that data[length] is NUL however many of the bytes the caller fills. */
    memset(buf->data + buf->length, 0, length + 1);
    return buf->data + buf->length;
}

void buf_drop_front(struct buf *buf, size_t count) {
    REQUIRE(count <= buf->length);
    if (count > 0) {
        memmove(buf->data, buf->data + count, buf->length - count + 1);
        buf->length -= count;
    }
}

char *buf_take(struct buf *buf) {
    char *data = buf->data;
    buf_init(buf, buf->max);
    return data;
}
