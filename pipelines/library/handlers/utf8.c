#include "utf8.h"

/* What the first byte says: the length, and the second byte's range, which keeps out overlong
 * forms, surrogates and what lies above U+10FFFF. */
struct lead {
    size_t count;
    unsigned char low, high;
};

static struct lead lead_of(unsigned char byte) {
    struct lead lead = {0, 0x80, 0xBF};
    if (byte >= 0xC2 && byte <= 0xDF) {
        lead.count = 2;
    } else if (byte >= 0xE0 && byte <= 0xEF) {
        lead.count = 3;
        lead.low = byte == 0xE0 ? 0xA0 : 0x80;
        lead.high = byte == 0xED ? 0x9F : 0xBF;
    } else if (byte >= 0xF0 && byte <= 0xF4) {
        lead.count = 4;
        lead.low = byte == 0xF0 ? 0x90 : 0x80;
        lead.high = byte == 0xF4 ? 0x8F : 0xBF;
    }
    return lead;
}

size_t utf8_decode(const char *bytes, size_t length, uint32_t *code) {
    if (length == 0) {
        return 0;
    }
    const unsigned char *at = (const unsigned char *)bytes;
    if (at[0] < 0x80) {
        *code = at[0];
        return 1;
    }
    struct lead lead = lead_of(at[0]);
    if (lead.count == 0 || length < lead.count || at[1] < lead.low || at[1] > lead.high) {
        return 0;
    }
    uint32_t value = at[0] & (0x7FU >> lead.count);
    for (size_t i = 1; i < lead.count; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
        value = value << 6 | (at[i] & 0x3FU);
    }
    *code = value;
    return lead.count;
}

size_t utf8_encode(uint32_t code, char bytes[4]) {
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        code = UTF8_REPLACEMENT;
    }
    if (code < 0x80) {
        bytes[0] = (char)code;
        return 1;
    }
    size_t count = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; i--) {
        bytes[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    bytes[0] = (char)(marks[count] | code);
    return count;
}

uint32_t utf8_before(const char *text, size_t *at) {
    if (*at == 0) {
        return 0;
    }
    size_t start = *at - 1;
    while (start > 0 && ((unsigned char)text[start] & 0xC0) == 0x80) {
        start--;
    }
    uint32_t code = UTF8_REPLACEMENT;
    utf8_decode(text + start, *at - start, &code);
    *at = start;
    return code;
}

struct utf8_measure utf8_measure(const char *bytes, size_t length) {
    struct utf8_measure measure = {0};
    for (size_t i = 0; i < length;) {
        uint32_t code;
        size_t taken = utf8_decode(bytes + i, length - i, &code);
        measure.multibyte += taken > 1;
        measure.invalid += taken == 0;
        i += taken == 0 ? 1 : taken;
    }
    return measure;
}
