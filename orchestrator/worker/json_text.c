#include "worker/json_text.h"

#include <string.h>

#include "base/utf8.h"

static const char *skip_blank(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) {
        at++;
    }
    return at;
}

/* ---- the grammar ---- */

static int hex_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Four hexadecimal digits; -1: they are not. */
static int hex_unit(const char *at, const char *end) {
    if (end - at < 4) {
        return -1;
    }
    int unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(at[i]);
        if (digit < 0) {
            return -1;
        }
        unit = unit << 4 | digit;
    }
    return unit;
}

/* Each of these moves behind what it wants, or leaves `at` at the fault and returns false. */

static bool check_string(const char **at, const char *end) {
    const char *c = *at + 1;
    for (;; c++) {
        if (c >= end || (unsigned char)*c < 0x20) {
            *at = c;
            return false;
        }
        if (*c == '"') {
            *at = c + 1;
            return true;
        }
        if (*c != '\\') {
            continue;
        }
        c++;
        bool good = c < end && *c != '\0' &&
                    (*c == 'u' ? hex_unit(c + 1, end) >= 0 : strchr("\"\\/bfnrt", *c) != NULL);
        if (!good) {
            *at = c;
            return false;
        }
    }
}

static const char *skip_digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at;
}

static bool check_number(const char **at, const char *end) {
    const char *c = *at;
    c += c < end && *c == '-';
    const char *whole = c;
    c = skip_digits(c, end);
    bool good = c > whole && !(*whole == '0' && c - whole > 1);
    if (good && c < end && *c == '.') {
        const char *from = ++c;
        c = skip_digits(c, end);
        good = c > from;
    }
    if (good && c < end && (*c == 'e' || *c == 'E')) {
        c++;
        c += c < end && (*c == '+' || *c == '-');
        const char *from = c;
        c = skip_digits(c, end);
        good = c > from;
    }
    *at = good ? c : *at;
    return good;
}

static bool check_word(const char **at, const char *end) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(end - *at) >= length && memcmp(*at, words[i], length) == 0) {
            *at += length;
            return true;
        }
    }
    return false;
}

static bool check_scalar(const char **at, const char *end) {
    if (*at >= end) {
        return false;
    }
    switch (**at) {
    case '"':
        return check_string(at, end);
    case 't':
    case 'f':
    case 'n':
        return check_word(at, end);
    default:
        return check_number(at, end);
    }
}

static bool check_name(const char **at, const char *end) {
    *at = skip_blank(*at, end);
    if (*at >= end || **at != '"' || !check_string(at, end)) {
        return false;
    }
    *at = skip_blank(*at, end);
    if (*at >= end || **at != ':') {
        return false;
    }
    (*at)++;
    return true;
}

/* Opens containers until there is a value that is none, or an empty one. `open` has what is open, innermost last. */
static bool check_down(const char **at, const char *end, struct buf *open) {
    for (;;) {
        *at = skip_blank(*at, end);
        if (*at >= end || (**at != '{' && **at != '[')) {
            return check_scalar(at, end);
        }
        char opened = **at, closing = opened == '{' ? '}' : ']';
        *at = skip_blank(*at + 1, end);
        if (*at < end && **at == closing) {
            (*at)++;
            return true;
        }
        buf_append_char(open, opened);
        if (opened == '{' && !check_name(at, end)) {
            return false;
        }
    }
}

/* Behind a value: closes what ends here. `more`: another value follows. */
static bool check_up(const char **at, const char *end, struct buf *open, bool *more) {
    *more = false;
    while (open->length > 0) {
        char innermost = open->data[open->length - 1];
        *at = skip_blank(*at, end);
        if (*at >= end) {
            return false;
        }
        if (**at == ',') {
            (*at)++;
            *more = true;
            return innermost == '[' || check_name(at, end);
        }
        if (**at != (innermost == '{' ? '}' : ']')) {
            return false;
        }
        (*at)++;
        open->length--;
    }
    return true;
}

static bool check_value(const char **at, const char *end) {
    struct buf open;
    buf_init(&open, (size_t)-1 / 2);
    bool more = true, good = true;
    while (good && more) {
        good = check_down(at, end, &open) && check_up(at, end, &open, &more);
    }
    buf_finish(&open);
    return good;
}

bool json_text_check(const char *text, size_t length, struct json_span *value, size_t *fault) {
    const char *end = text + length, *from = skip_blank(text, end), *at = from;
    bool good = check_value(&at, end);
    if (good) {
        *value = (struct json_span){from, (size_t)(at - from)};
        at = skip_blank(at, end);
        good = at == end;
    }
    *fault = (size_t)(at - text);
    return good;
}

/* ---- reading what is good ---- */

char json_text_kind(struct json_span value) {
    if (value.at == NULL) {
        return 0;
    }
    char c = value.at[0];
    return c == '-' || (c >= '0' && c <= '9') ? '0' : c;
}

bool json_text_is_given(struct json_span value) {
    char kind = json_text_kind(value);
    return kind != 0 && kind != 'n';
}

static const char *skip_string(const char *at) {
    for (at++; *at != '"'; at++) {
        at += *at == '\\';
    }
    return at + 1;
}

/* Behind a value: strings are skipped as such, for all else brackets are enough. */
static const char *skip_value(const char *at, const char *end) {
    size_t depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = skip_string(at);
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (depth > 0 && (*at == '}' || *at == ']')) {
            depth--;
            at++;
        } else if (depth == 0 && strchr(",]} \t\r\n", *at) != NULL) {
            return at;
        } else {
            at++;
            continue; /* in the middle of a number or a word, or between two values */
        }
        if (depth == 0) {
            return at;
        }
    }
    return at;
}

bool json_text_next(struct json_span container, const char **at, struct json_span *name, struct json_span *value) {
    const char *end = container.at + container.length - 1; /* the closing bracket */
    bool is_first = *at == NULL;
    const char *c = skip_blank(is_first ? container.at + 1 : *at, end);
    if (c >= end) {
        return false;
    }
    if (!is_first) {
        c = skip_blank(c + 1, end); /* the comma */
    }
    *name = (struct json_span){0};
    if (container.at[0] == '{') {
        const char *from = c;
        c = skip_string(c);
        *name = (struct json_span){from, (size_t)(c - from)};
        c = skip_blank(skip_blank(c, end) + 1, end); /* the colon */
    }
    const char *from = c;
    c = skip_value(c, end);
    *value = (struct json_span){from, (size_t)(c - from)};
    *at = c;
    return true;
}

static bool is_named(struct json_span name, const char *wanted, size_t length) {
    if (memchr(name.at, '\\', name.length) == NULL) {
        return name.length == length + 2 && memcmp(name.at + 1, wanted, length) == 0;
    }
    struct buf plain;
    buf_init(&plain, name.length * 3);
    json_text_string(name, &plain);
    bool same = plain.length == length && memcmp(plain.data, wanted, length) == 0;
    buf_finish(&plain);
    return same;
}

void json_text_members(struct json_span object, struct json_want *wants, size_t count) {
    const char *at = NULL;
    struct json_span name, value;
    while (json_text_next(object, &at, &name, &value)) {
        for (size_t i = 0; i < count; i++) {
            if (is_named(name, wants[i].name, strlen(wants[i].name))) {
                wants[i].value = value;
            }
        }
    }
}

struct json_span json_text_member(struct json_span object, const char *wanted, size_t length) {
    const char *at = NULL;
    struct json_span name, value, found = {0};
    while (json_text_next(object, &at, &name, &value)) {
        if (is_named(name, wanted, length)) {
            found = value;
        }
    }
    return found;
}

/* ---- strings ---- */

static void append_character(struct buf *out, unsigned code) {
    char bytes[4];
    size_t length;
    if (code < 0x80) {
        bytes[0] = (char)code;
        length = 1;
    } else if (code < 0x800) {
        bytes[0] = (char)(0xC0 | code >> 6);
        bytes[1] = (char)(0x80 | (code & 0x3F));
        length = 2;
    } else if (code < 0x10000) {
        bytes[0] = (char)(0xE0 | code >> 12);
        bytes[1] = (char)(0x80 | (code >> 6 & 0x3F));
        bytes[2] = (char)(0x80 | (code & 0x3F));
        length = 3;
    } else {
        bytes[0] = (char)(0xF0 | code >> 18);
        bytes[1] = (char)(0x80 | (code >> 12 & 0x3F));
        bytes[2] = (char)(0x80 | (code >> 6 & 0x3F));
        bytes[3] = (char)(0x80 | (code & 0x3F));
        length = 4;
    }
    buf_append(out, bytes, length);
}

/* At the 'u' of an escape; returns what follows it. */
static const char *append_escaped_unit(const char *at, const char *end, struct buf *out, bool *whole) {
    unsigned unit = (unsigned)hex_unit(at + 1, end), code = unit;
    at += 5;
    if (unit >= 0xD800 && unit <= 0xDFFF) {
        int second = unit < 0xDC00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? hex_unit(at + 2, end) : -1;
        if (second >= 0xDC00 && second <= 0xDFFF) {
            code = 0x10000 + ((unit - 0xD800) << 10) + ((unsigned)second - 0xDC00);
            at += 6;
        } else {
            code = 0xFFFD;
            *whole = false;
        }
    }
    *whole = *whole && code != 0;
    append_character(out, code);
    return at;
}

bool json_text_string(struct json_span string, struct buf *out) {
    static const char escapes[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    const char *at = string.at + 1, *end = string.at + string.length - 1;
    bool whole = true;
    while (at < end) {
        const char *plain = at;
        while (at < end && *at != '\\') {
            at++;
        }
        buf_append(out, plain, (size_t)(at - plain));
        if (at >= end) {
            break;
        }
        at++;
        if (*at == 'u') {
            at = append_escaped_unit(at, end, out, &whole);
            continue;
        }
        const char *escape = strchr(escapes, *at);
        buf_append_char(out, escape != NULL ? meanings[escape - escapes] : *at);
        at++;
    }
    return whole;
}

static void quote_byte(struct buf *out, unsigned char c) {
    if (c == '"' || c == '\\') {
        buf_append_char(out, '\\');
        buf_append_char(out, (char)c);
    } else if (c == '\n') {
        buf_append_string(out, "\\n");
    } else if (c < 0x20) {
        buf_append_format(out, "\\u%04x", (unsigned)c);
    } else {
        buf_append_char(out, (char)c);
    }
}

void json_text_quote(struct buf *out, const char *text, size_t length) {
    static const char replacement[] = "\xEF\xBF\xBD";
    buf_append_char(out, '"');
    size_t i = 0;
    while (i < length) {
        size_t plain = i;
        while (i < length && (unsigned char)text[i] >= 0x20 && (unsigned char)text[i] < 0x80 && text[i] != '"' &&
               text[i] != '\\') {
            i++;
        }
        buf_append(out, text + plain, i - plain);
        if (i >= length) {
            break;
        }
        size_t taken = utf8_sequence(text + i, length - i);
        if (text[i] == '\0' || taken == 0) {
            buf_append(out, replacement, sizeof replacement - 1);
            i++;
        } else if (taken == 1) {
            quote_byte(out, (unsigned char)text[i++]);
        } else {
            buf_append(out, text + i, taken);
            i += taken;
        }
    }
    buf_append_char(out, '"');
}
