#include "text.h"

#include <stdlib.h>
#include <string.h>

#include "utf8.h"

void text_init(struct text *text, size_t max_bytes) {
    *text = (struct text){.max = max_bytes};
}

void text_finish(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}

/* Makes room for `length` bytes and the NUL. */
static int grow(struct text *text, size_t length) {
    if (text->state != TEXT_FINE) {
        return -1;
    }
    if (length > text->max - text->length) {
        text->state = TEXT_TOO_LONG;
        return -1;
    }
    size_t needed = text->length + length + 1;
    if (needed <= text->capacity) {
        return 0;
    }
    size_t capacity = text->capacity < 256 ? 256 : text->capacity + text->capacity / 2;
    if (capacity < needed) {
        capacity = needed;
    }
    char *data = realloc(text->data, capacity);
    if (data == NULL) {
        text->state = TEXT_NO_MEMORY;
        return -1;
    }
    text->data = data;
    text->capacity = capacity;
    return 0;
}

void text_append(struct text *text, const char *bytes, size_t length) {
    if (length == 0 || grow(text, length) != 0) {
        return;
    }
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void text_append_char(struct text *text, char c) {
    text_append(text, &c, 1);
}

void text_append_code_point(struct text *text, uint32_t code) {
    char bytes[4];
    text_append(text, bytes, utf8_encode(code, bytes));
}

const char *text_string(const struct text *text) {
    return text->data == NULL ? "" : text->data;
}
