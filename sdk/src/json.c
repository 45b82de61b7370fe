/* json.c - checks JSON text without building it: a loop over tokens, and one bit a level for
 * "object or array".
 *
 * Stricter than RFC 8259 where jsonb is: no \u0000, surrogates only in pairs, numbers that
 * `numeric` can hold.
 */
#include <string.h>

#include "text.h"

enum { DIGITS_BEFORE_POINT_MAX = 131072, DIGITS_AFTER_POINT_MAX = 16383, EXPONENT_CAP = 1000000 };

enum expected { VALUE, VALUE_OR_END, KEY, KEY_OR_END, SEPARATOR };

struct scan {
    const unsigned char *start, *at, *end;
    enum expected expected;
    size_t values;
    unsigned depth;
    unsigned char is_object[JSON_DEPTH_MAX / 8];
    struct json_fault *fault;
};

static bool fail(struct scan *s, const char *what) {
    *s->fault = (struct json_fault){.offset = (size_t)(s->at - s->start), .what = what};
    return false;
}

static bool fail_limit(struct scan *s, const char *what) {
    fail(s, what);
    s->fault->is_limit = true;
    return false;
}

static int peek(const struct scan *s) {
    return s->at < s->end ? *s->at : -1;
}

static bool count_value(struct scan *s) {
    return ++s->values <= JSON_VALUES_MAX || fail_limit(s, "more than 6,000,000 values and keys");
}

/* ---- strings ---- */

static int hex_value(unsigned char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    unsigned char lower = c | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* At a \uXXXX: its value, or -1; `at` stays. */
static int unit_at(const struct scan *s, const unsigned char *at) {
    if (s->end - at < 6 || at[0] != '\\' || at[1] != 'u') {
        return -1;
    }
    int value = 0;
    for (int i = 2; i < 6; i++) {
        int digit = hex_value(at[i]);
        if (digit < 0) {
            return -1;
        }
        value = value << 4 | digit;
    }
    return value;
}

static bool scan_unicode_escape(struct scan *s) {
    int unit = unit_at(s, s->at);
    if (unit < 0) {
        return fail(s, "\\u without four hexadecimal digits");
    }
    if (unit == 0) {
        return fail(s, "\\u0000, which PostgreSQL cannot store");
    }
    if (unit < 0xD800 || unit > 0xDFFF) {
        s->at += 6;
        return true;
    }
    int second = unit <= 0xDBFF ? unit_at(s, s->at + 6) : -1;
    if (second < 0xDC00 || second > 0xDFFF) {
        return fail(s, "half of a surrogate pair");
    }
    s->at += 12;
    return true;
}

static bool scan_escape(struct scan *s) {
    if (s->end - s->at < 2) {
        return fail(s, "a string without an end");
    }
    if (s->at[1] == 'u') {
        return scan_unicode_escape(s);
    }
    if (s->at[1] == '\0' || strchr("\"\\/bfnrt", s->at[1]) == NULL) {
        return fail(s, "an unknown escape");
    }
    s->at += 2;
    return true;
}

/* Most of any string. */
static void skip_plain(struct scan *s) {
    const unsigned char *at = s->at;
    while (at < s->end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\') {
        at++;
    }
    s->at = at;
}

static bool scan_string(struct scan *s) {
    s->at++;
    for (;;) {
        skip_plain(s);
        int c = peek(s);
        if (c < 0) {
            return fail(s, "a string without an end");
        }
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c == '\\') {
            if (!scan_escape(s)) {
                return false;
            }
            continue;
        }
        if (c < 0x20) {
            return fail(s, "a control character that is not escaped");
        }
        size_t taken = text_sequence(s->at, s->end);
        if (taken == 0) {
            return fail(s, "bytes that are not UTF-8");
        }
        s->at += taken;
    }
}

/* ---- numbers and words ---- */

static size_t scan_digits(struct scan *s) {
    const unsigned char *from = s->at;
    while (peek(s) >= '0' && peek(s) <= '9') {
        s->at++;
    }
    return (size_t)(s->at - from);
}

/* False without a fault: no digits. */
static bool scan_exponent(struct scan *s, long *exponent) {
    bool negative = peek(s) == '-';
    if (negative || peek(s) == '+') {
        s->at++;
    }
    const unsigned char *from = s->at;
    size_t count = scan_digits(s);
    for (size_t i = 0; i < count && *exponent < EXPONENT_CAP; i++) {
        *exponent = *exponent * 10 + (from[i] - '0');
    }
    *exponent = negative ? -*exponent : *exponent;
    return count > 0;
}

static bool scan_number(struct scan *s) {
    const unsigned char *from = s->at;
    if (peek(s) == '-') {
        s->at++;
    }
    bool leading_zero = peek(s) == '0';
    size_t before = scan_digits(s), after = 0;
    bool ok = before > 0 && !(leading_zero && before > 1);
    if (ok && peek(s) == '.') {
        s->at++;
        after = scan_digits(s);
        ok = after > 0;
    }
    long exponent = 0;
    if (ok && (peek(s) == 'e' || peek(s) == 'E')) {
        s->at++;
        ok = scan_exponent(s, &exponent);
    }
    if (!ok) {
        s->at = from;
        return fail(s, "a malformed number");
    }
    if ((long)before + exponent > DIGITS_BEFORE_POINT_MAX ||
        (long)after - exponent > DIGITS_AFTER_POINT_MAX) {
        s->at = from;
        return fail(s, "a number beyond the range of PostgreSQL's numeric");
    }
    return true;
}

static bool scan_word(struct scan *s) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(s->end - s->at) >= length && memcmp(s->at, words[i], length) == 0) {
            s->at += length;
            return true;
        }
    }
    return fail(s, "no JSON value begins so");
}

/* ---- structure ---- */

static bool in_object(const struct scan *s) {
    unsigned level = s->depth - 1;
    return (s->is_object[level / 8] >> (level % 8) & 1) != 0;
}

static bool open_container(struct scan *s, bool object) {
    if (s->depth == JSON_DEPTH_MAX) {
        return fail(s, "more than 2,048 levels");
    }
    unsigned char bit = (unsigned char)(1u << (s->depth % 8));
    unsigned char *byte = &s->is_object[s->depth / 8];
    *byte = (unsigned char)(object ? *byte | bit : *byte & ~bit);
    s->depth++;
    s->at++;
    s->expected = object ? KEY_OR_END : VALUE_OR_END;
    return true;
}

static bool close_container(struct scan *s) {
    s->depth--;
    s->at++;
    s->expected = SEPARATOR;
    return true;
}

static bool scan_value(struct scan *s) {
    if (!count_value(s)) {
        return false;
    }
    int c = peek(s);
    if (c == '{' || c == '[') {
        return open_container(s, c == '{');
    }
    s->expected = SEPARATOR;
    if (c == '"') {
        return scan_string(s);
    }
    return c == '-' || (c >= '0' && c <= '9') ? scan_number(s) : scan_word(s);
}

static void skip_blanks(struct scan *s) {
    while (peek(s) == ' ' || peek(s) == '\n' || peek(s) == '\r' || peek(s) == '\t') {
        s->at++;
    }
}

static bool scan_key(struct scan *s) {
    if (peek(s) != '"') {
        return fail(s, "an object's key in double quotes is expected");
    }
    if (!count_value(s) || !scan_string(s)) {
        return false;
    }
    skip_blanks(s);
    if (peek(s) != ':') {
        return fail(s, "a ':' is expected");
    }
    s->at++;
    s->expected = VALUE;
    return true;
}

/* Between values: a comma, or the end of what is open. */
static bool scan_separator(struct scan *s) {
    if (peek(s) == ',') {
        s->at++;
        s->expected = in_object(s) ? KEY : VALUE;
        return true;
    }
    if (peek(s) == (in_object(s) ? '}' : ']')) {
        return close_container(s);
    }
    return fail(s, in_object(s) ? "a ',' or '}' is expected" : "a ',' or ']' is expected");
}

static bool scan_token(struct scan *s) {
    switch (s->expected) {
    case VALUE_OR_END:
        if (peek(s) == ']') {
            return close_container(s);
        }
        return scan_value(s);
    case VALUE:
        return scan_value(s);
    case KEY_OR_END:
        if (peek(s) == '}') {
            return close_container(s);
        }
        return scan_key(s);
    case KEY:
        return scan_key(s);
    case SEPARATOR:
        return scan_separator(s);
    }
    return false;
}

bool json_is_storable(const char *text, size_t length, struct json_fault *fault) {
    const unsigned char *start = (const unsigned char *)text;
    struct scan s = {
        .start = start, .at = start, .end = start + length, .expected = VALUE, .fault = fault};
    do {
        skip_blanks(&s);
        if (s.at == s.end) {
            return fail(&s, s.values == 0 ? "there is no value" : "it ends too early");
        }
        if (!scan_token(&s)) {
            return false;
        }
    } while (s.depth > 0 || s.expected != SEPARATOR);
    skip_blanks(&s);
    return s.at == s.end || fail(&s, "something follows the value");
}
