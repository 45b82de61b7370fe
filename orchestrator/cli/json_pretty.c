#include "cli/json_pretty.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

enum { STEP = 2 };

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t skip_blanks(const char *text, size_t length, size_t at) {
    while (at < length && is_blank(text[at])) {
        at++;
    }
    return at;
}

/* Behind the string that begins at `at`. */
static size_t skip_string(const char *text, size_t length, size_t at) {
    for (at++; at < length && text[at] != '"'; at++) {
        at += text[at] == '\\';
    }
    return at < length ? at + 1 : length;
}

static size_t skip_token(const char *text, size_t length, size_t at) {
    if (text[at] == '"') {
        return skip_string(text, length, at);
    }
    if (strchr("{}[],:", text[at]) != NULL) {
        return at + 1;
    }
    while (at < length && !is_blank(text[at]) && strchr("{}[],:", text[at]) == NULL) {
        at++;
    }
    return at;
}

static void new_line(struct buf *out, int depth) {
    buf_append_char(out, '\n');
    for (int i = 0; i < depth * STEP; i++) {
        buf_append_char(out, ' ');
    }
}

/* What stands between a token and the one before it. `opened`: that one is a bracket that opens. */
static void put_gap(struct buf *out, char token, bool opened, bool in_lines, int depth) {
    char last = out->length > 0 ? out->data[out->length - 1] : '\0';
    bool closes = token == '}' || token == ']';
    if (token == ',' || token == ':' || (opened && closes)) {
        return;
    }
    if (in_lines && (opened || closes || last == ',')) {
        new_line(out, depth);
    } else if (last == ',' || last == ':') {
        buf_append_char(out, ' ');
    }
}

/* At most `room` bytes, whole characters. */
static size_t fitting(const char *text, size_t length, size_t room) {
    size_t at = 0;
    while (at < length) {
        size_t one = utf8_sequence(text + at, length - at);
        one = one == 0 ? 1 : one;
        if (at + one > room) {
            break;
        }
        at += one;
    }
    return at;
}

static bool put(struct buf *out, const char *text, size_t length, bool in_lines, size_t max) {
    size_t begun = out->length;
    int depth = 0;
    bool opened = false;
    for (size_t at = skip_blanks(text, length, 0); at < length;) {
        size_t end = skip_token(text, length, at);
        char token = text[at];
        depth -= token == '}' || token == ']';
        put_gap(out, token, opened, in_lines, depth);
        size_t used = out->length - begun, size = end - at;
        if (max > 0 && used + size > max) {
            size_t room = used < max ? max - used : 0;
            buf_append(out, text + at, fitting(text + at, size, room));
            return false;
        }
        buf_append(out, text + at, size);
        opened = token == '{' || token == '[';
        depth += opened;
        at = skip_blanks(text, length, end);
    }
    return true;
}

bool json_pretty(struct buf *out, const char *text, size_t length, size_t width, size_t max) {
    struct buf line;
    buf_init(&line, SIZE_MAX);
    bool fits = put(&line, text, length, false, width);
    if (fits) {
        buf_append(out, line.data, line.length);
    }
    buf_finish(&line);
    return fits || put(out, text, length, true, max);
}
