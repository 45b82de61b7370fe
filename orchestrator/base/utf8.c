/* utf8.c - one decoder of well-formed sequences; everything else is written with it. */
#include "base/utf8.h"

#include <string.h>

static bool is_control(unsigned char byte) {
    return byte < 0x20 || byte == 0x7F;
}

size_t utf8_sequence(const char *bytes, size_t length) {
    if (length == 0) {
        return 0;
    }
    const unsigned char *at = (const unsigned char *)bytes;
    /* The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF. */
    unsigned char low = 0x80, high = 0xBF;
    size_t count;
    if (at[0] < 0x80) {
        return 1;
    } else if (at[0] >= 0xC2 && at[0] <= 0xDF) {
        count = 2;
    } else if (at[0] >= 0xE0 && at[0] <= 0xEF) {
        count = 3;
        low = at[0] == 0xE0 ? 0xA0 : low;
        high = at[0] == 0xED ? 0x9F : high;
    } else if (at[0] >= 0xF0 && at[0] <= 0xF4) {
        count = 4;
        low = at[0] == 0xF0 ? 0x90 : low;
        high = at[0] == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    if (length < count || at[1] < low || at[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < count; i++) {
        if (at[i] < 0x80 || at[i] > 0xBF) {
            return 0;
        }
    }
    return count;
}

bool utf8_is_valid(const char *bytes, size_t length) {
    while (length > 0) {
        size_t taken = utf8_sequence(bytes, length);
        if (taken == 0) {
            return false;
        }
        bytes += taken;
        length -= taken;
    }
    return true;
}

void utf8_sanitize(struct buf *out, const char *bytes, size_t length, size_t max_bytes) {
    while (length > 0) {
        const char *text = bytes;
        size_t taken = utf8_sequence(bytes, length);
        size_t width = taken;
        unsigned char first = (unsigned char)bytes[0];
        if (taken == 0 || first == '\0') {
            text = "\xEF\xBF\xBD";
            taken = 1;
            width = 3;
        } else if (is_control(first) && first != '\t' && first != '\n') {
            text = "?";
        }
        if (width > max_bytes) {
            return;
        }
        buf_append(out, text, width);
        max_bytes -= width;
        bytes += taken;
        length -= taken;
    }
}

void utf8_escape_name(struct buf *out, const char *bytes, size_t length) {
    while (length > 0) {
        size_t taken = utf8_sequence(bytes, length);
        unsigned char first = (unsigned char)bytes[0];
        if (taken == 0 || first == '%' || is_control(first)) {
            buf_append_format(out, "%%%02X", first);
            taken = 1;
        } else {
            buf_append(out, bytes, taken);
        }
        bytes += taken;
        length -= taken;
    }
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool unescape(struct buf *out, const char *text) {
    while (*text != '\0') {
        size_t plain = strcspn(text, "%");
        buf_append(out, text, plain);
        text += plain;
        if (*text == '%') {
            int high = hex_digit(text[1]);
            int low = high < 0 ? -1 : hex_digit(text[2]);
            if (low < 0 || high + low == 0) {
                return false;
            }
            buf_append_char(out, (char)(high << 4 | low));
            text += 3;
        }
    }
    return !out->overflow;
}

/* Escaping the result must give the text again: otherwise one name would have several spellings. */
bool utf8_unescape_name(struct buf *out, const char *text) {
    size_t start = out->length;
    bool same = false;
    if (unescape(out, text)) {
        struct buf check;
        buf_init(&check, strlen(text));
        utf8_escape_name(&check, out->data + start, out->length - start);
        same = !check.overflow && strcmp(check.data, text) == 0;
        buf_finish(&check);
    }
    if (!same) {
        out->length = start;
        out->data[start] = '\0';
    }
    return same;
}
