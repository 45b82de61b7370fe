#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The bytes a sequence has by its first one; 0: none begins so. */
static size_t expected_length(unsigned char lead) {
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xC2 || lead > 0xF4) {
        return 0;
    }
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

size_t text_sequence(const unsigned char *at, const unsigned char *end) {
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = at < end ? expected_length(*at) : 0;
    if (length <= 1) {
        return length;
    }
    if (length > (size_t)(end - at)) {
        return 0;
    }
    uint32_t point = *at & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
        point = point << 6 | (at[i] & 0x3Fu);
    }
    bool is_surrogate = point >= 0xD800 && point <= 0xDFFF;
    return point < smallest[length] || point > 0x10FFFF || is_surrogate ? 0 : length;
}

bool text_is_utf8(const char *text, size_t length) {
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    while (at < end) {
        size_t taken = text_sequence(at, end);
        if (taken == 0) {
            return false;
        }
        at += taken;
    }
    return true;
}

/* The length without a sequence that was cut in its middle. */
static size_t whole_characters(const char *text, size_t length) {
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char byte = (unsigned char)text[length - back];
        if ((byte & 0xC0) != 0x80) {
            return expected_length(byte) > back ? length - back : length;
        }
    }
    return length;
}

void text_format(char *out, size_t size, const char *format, va_list args) {
    int wanted = vsnprintf(out, size, format, args);
    if (wanted < 0) {
        /* A wide string that the locale cannot write. */
        wanted = snprintf(out, size, "(a message that cannot be formatted: %s)", format);
    }
    if ((size_t)wanted >= size) {
        out[whole_characters(out, size - 1)] = '\0';
    }
}
