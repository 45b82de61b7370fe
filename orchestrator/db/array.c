/* array.c - writing and reading one-dimensional array literals. */
#include "db/array.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void array_begin(struct buf *buf) {
    buf_clear(buf);
    buf_append_char(buf, '{');
}

/* An element never ends with '{': text is always quoted. */
static void begin_element(struct buf *buf) {
    if (buf->length > 0 && buf->data[buf->length - 1] != '{') {
        buf_append_char(buf, ',');
    }
}

void array_add_int(struct buf *buf, int64_t value) {
    begin_element(buf);
    buf_append_format(buf, "%" PRId64, value);
}

void array_add_bool(struct buf *buf, bool value) {
    begin_element(buf);
    buf_append_char(buf, value ? 't' : 'f');
}

void array_add_null(struct buf *buf) {
    begin_element(buf);
    buf_append_string(buf, "NULL");
}

void array_add_text(struct buf *buf, const char *text, size_t length) {
    if (text == NULL) {
        array_add_null(buf);
        return;
    }
    begin_element(buf);
    buf_append_char(buf, '"');
    while (length > 0) {
        size_t plain = 0;
        while (plain < length && text[plain] != '"' && text[plain] != '\\') {
            plain++;
        }
        buf_append(buf, text, plain);
        if (plain < length) {
            buf_append_char(buf, '\\');
            buf_append_char(buf, text[plain++]);
        }
        text += plain;
        length -= plain;
    }
    buf_append_char(buf, '"');
}

void array_end(struct buf *buf) {
    buf_append_char(buf, '}');
}

/* Reads one integer at *at and moves behind it. */
static bool read_int(const char **at, int64_t *value) {
    const char *start = *at;
    const char *digits = *start == '-' ? start + 1 : start;
    if (*digits < '0' || *digits > '9') {
        return false;
    }
    char *end = NULL;
    errno = 0;
    *value = strtoll(start, &end, 10);
    *at = end;
    return errno == 0;
}

int array_read_ints(const char *literal, int64_t **values) {
    *values = NULL;
    size_t length = strlen(literal);
    if (length < 2 || literal[0] != '{' || literal[length - 1] != '}') {
        return -1;
    }
    /* Every element but the last is followed by a comma: length / 2 elements at most. */
    int64_t *list = mem_resize(NULL, length / 2 + 1, sizeof *list);
    const char *at = literal + 1;
    int count = 0;
    while (*at != '}' || count > 0) {
        if (!read_int(&at, &list[count])) {
            free(list);
            return -1;
        }
        count++;
        if (*at != ',') {
            break;
        }
        at++;
    }
    if (at != literal + length - 1) {
        free(list);
        return -1;
    }
    *values = list;
    return count;
}
