#include "encoding.h"

#include <errno.h>
#include <iconv.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "utf8.h"

enum { DECLARED_WITHIN = 4096 };

bool encoding_is_utf16(const char *bytes, size_t length) {
    return length >= 2 && (memcmp(bytes, "\xFF\xFE", 2) == 0 || memcmp(bytes, "\xFE\xFF", 2) == 0);
}

static void from_utf16(const unsigned char *bytes, size_t length, bool big, struct text *out) {
    size_t high = big ? 0 : 1, low = big ? 1 : 0;
    uint32_t lead = 0; /* a high surrogate that waits for its other half */
    for (size_t i = 0; i + 1 < length; i += 2) {
        uint32_t unit = (uint32_t)bytes[i + high] << 8 | bytes[i + low];
        bool trails = unit >= 0xDC00 && unit <= 0xDFFF;
        if (lead != 0 && trails) {
            text_append_code_point(out, 0x10000 + ((lead - 0xD800) << 10) + (unit - 0xDC00));
            lead = 0;
            continue;
        }
        if (lead != 0) {
            text_append_code_point(out, UTF8_REPLACEMENT);
        }
        lead = unit >= 0xD800 && unit <= 0xDBFF ? unit : 0;
        if (lead == 0) {
            text_append_code_point(out, unit); /* a lone half becomes U+FFFD */
        }
    }
    if (lead != 0 || length % 2 != 0) {
        text_append_code_point(out, UTF8_REPLACEMENT);
    }
}

static void from_utf8(const char *bytes, size_t length, struct text *out) {
    size_t start = 0;
    for (size_t i = 0; i < length;) {
        uint32_t code;
        size_t taken = utf8_decode(bytes + i, length - i, &code);
        if (taken > 0) {
            i += taken;
            continue;
        }
        text_append(out, bytes + start, i - start);
        text_append_code_point(out, UTF8_REPLACEMENT);
        start = ++i;
    }
    text_append(out, bytes + start, length - start);
}

static void from_windows_1252(const char *bytes, size_t length, struct text *out) {
    /* 0x80 to 0x9F; the five that are not assigned stay control characters. */
    static const uint16_t upper[32] = {
        0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
        0x2039, 0x0152, 0x008D, 0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
        0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178};
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte < 0x80) {
            text_append_char(out, bytes[i]);
        } else {
            text_append_code_point(out, byte < 0xA0 ? upper[byte - 0x80] : byte);
        }
    }
}

/* The names that pages use mean more than they say: browsers read them as these supersets. */
static const char *superset_of(const char *name) {
    static const struct {
        const char *declared, *meant;
    } table[] = {
        {"iso-8859-1", "windows-1252"},
        {"iso8859-1", "windows-1252"},
        {"latin1", "windows-1252"},
        {"latin-1", "windows-1252"},
        {"us-ascii", "windows-1252"},
        {"ascii", "windows-1252"},
        {"cp1252", "windows-1252"},
        {"iso-8859-9", "windows-1254"},
        {"shift_jis", "cp932"},
        {"shift-jis", "cp932"},
        {"x-sjis", "cp932"},
        {"sjis", "cp932"},
        {"gb2312", "gb18030"},
        {"gbk", "gb18030"},
        {"x-gbk", "gb18030"},
        {"euc-kr", "cp949"},
        {"ks_c_5601-1987", "cp949"},
        {"big5", "big5-hkscs"},
        {"x-mac-roman", "macintosh"},
        {"utf8", "utf-8"},
        /* It was just read byte by byte, so it cannot be UTF-16. */
        {"utf-16", "utf-8"},
        {"utf-16le", "utf-8"},
        {"utf-16be", "utf-8"},
        {"utf-32", "utf-8"},
        {"unicode", "utf-8"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(name, table[i].declared) == 0) {
            return table[i].meant;
        }
    }
    return name;
}

/* False: the system does not know the encoding; nothing was appended. */
static bool from_named(const char *name, const char *bytes, size_t length, struct text *out) {
    iconv_t converter = iconv_open("UTF-8", name);
    if (converter == (iconv_t)-1) {
        return false;
    }
    char *from = (char *)(uintptr_t)bytes; /* iconv's prototype lacks the const that it keeps */
    char piece[8192];
    while (length > 0 && out->state == TEXT_FINE) {
        char *to = piece;
        size_t room = sizeof piece;
        size_t result = iconv(converter, &from, &length, &to, &room);
        int reason = errno;
        text_append(out, piece, sizeof piece - room);
        if (result != (size_t)-1) {
            break;
        }
        if (reason == EILSEQ && length > 0) {
            text_append_code_point(out, UTF8_REPLACEMENT);
            from++;
            length--;
        } else if (reason != E2BIG) { /* EINVAL: cut off within a character */
            text_append_code_point(out, UTF8_REPLACEMENT);
            break;
        }
    }
    iconv_close(converter);
    return true;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Takes the name behind "charset" or "encoding": = then a value, quoted or not. Only harmless
 * characters are let through: the name goes to iconv_open. */
static bool take_name(const char *at, const char *end, char name[ENCODING_NAME_MAX + 1]) {
    while (at < end && is_blank(*at)) {
        at++;
    }
    if (at == end || *at++ != '=') {
        return false;
    }
    while (at < end && (is_blank(*at) || *at == '"' || *at == '\'')) {
        at++;
    }
    size_t length = 0;
    for (; at < end && length < ENCODING_NAME_MAX; at++) {
        char c = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
        bool allowed =
            (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr("-_.:", c) != NULL;
        if (!allowed || c == '\0') {
            break;
        }
        name[length++] = c;
    }
    name[length] = '\0';
    return length > 0;
}

static const char *find(const char *at, const char *end, const char *word) {
    size_t length = strlen(word);
    for (; at + length <= end; at++) {
        if (strncasecmp(at, word, length) == 0) {
            return at;
        }
    }
    return NULL;
}

static const char *tag_end(const char *at, const char *end) {
    const char *close = memchr(at, '>', (size_t)(end - at));
    return close == NULL ? end : close;
}

void encoding_declared(const char *bytes, size_t length, char name[ENCODING_NAME_MAX + 1]) {
    name[0] = '\0';
    const char *at = bytes, *end = bytes + (length < DECLARED_WITHIN ? length : DECLARED_WITHIN);
    while (at < end && (at = memchr(at, '<', (size_t)(end - at))) != NULL) {
        const char *word = NULL;
        if (end - at >= 4 && memcmp(at, "<!--", 4) == 0) {
            const char *close = find(at, end, "-->");
            at = close == NULL ? end : close + 3;
            continue;
        }
        if (end - at >= 5 && memcmp(at, "<?xml", 5) == 0) {
            word = "encoding";
        } else if (end - at >= 6 && strncasecmp(at, "<meta", 5) == 0 &&
                   (is_blank(at[5]) || at[5] == '/')) {
            word = "charset";
        }
        const char *close = tag_end(at, end);
        if (word != NULL) {
            const char *found = find(at, close, word);
            if (found != NULL && take_name(found + strlen(word), close, name)) {
                return;
            }
        }
        at = close;
    }
}

void encoding_to_utf8(const char *bytes, size_t length, bool declares, struct text *out) {
    if (encoding_is_utf16(bytes, length)) {
        from_utf16((const unsigned char *)bytes + 2, length - 2, bytes[0] == '\xFE', out);
        return;
    }
    if (length >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {
        from_utf8(bytes + 3, length - 3, out);
        return;
    }
    char declared[ENCODING_NAME_MAX + 1] = "";
    if (declares) {
        encoding_declared(bytes, length, declared);
    }
    const char *name = superset_of(declared);
    if (strcmp(name, "windows-1252") == 0) {
        from_windows_1252(bytes, length, out);
        return;
    }
    /* "utf-8" is often written over pages that are not: it is looked at as if nothing had been
     * declared. */
    if (name[0] != '\0' && strcmp(name, "utf-8") != 0 && from_named(name, bytes, length, out)) {
        return;
    }
    struct utf8_measure measure = utf8_measure(bytes, length);
    if (measure.invalid <= measure.multibyte) {
        from_utf8(bytes, length, out);
    } else {
        from_windows_1252(bytes, length, out);
    }
}
