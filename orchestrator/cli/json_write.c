#include "cli/json_write.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

/* C1: to JSON they are letters, to a terminal they are orders. */
static void append_string(struct buf *out, const char *text) {
    buf_append_char(out, '"');
    while (*text != '\0') {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\' && !utf8_is_c1(text + plain)) {
            plain++;
        }
        buf_append(out, text, plain);
        text += plain;
        if (*text == '"' || *text == '\\') {
            buf_append_format(out, "\\%c", *text++);
        } else if (utf8_is_c1(text)) {
            buf_append_format(out, "\\u%04x", (unsigned)(unsigned char)text[1]);
            text += 2;
        } else if (*text != '\0') {
            const char *letter = strchr("\nn\tt\rr", *text);
            if (letter != NULL) {
                buf_append_format(out, "\\%c", letter[1]);
            } else {
                buf_append_format(out, "\\u%04x", (unsigned)(unsigned char)*text);
            }
            text++;
        }
    }
    buf_append_char(out, '"');
}

/* A value never ends with an opening bracket, a comma, a colon or a new line: text is always quoted. */
static void begin_value(struct buf *out, const char *name) {
    char last = out->length > 0 ? out->data[out->length - 1] : '\n';
    if (last != '{' && last != '[' && last != '\n') {
        buf_append_char(out, ',');
    }
    if (name != NULL) {
        append_string(out, name);
        buf_append_char(out, ':');
    }
}

void json_begin(struct buf *out, const char *name, char bracket) {
    begin_value(out, name);
    buf_append_char(out, bracket);
}

void json_end(struct buf *out, char bracket) {
    buf_append_char(out, bracket);
}

void json_add_text(struct buf *out, const char *name, const char *text) {
    if (text == NULL) {
        json_add_raw(out, name, NULL);
        return;
    }
    begin_value(out, name);
    append_string(out, text);
}

void json_add_int(struct buf *out, const char *name, int64_t value) {
    begin_value(out, name);
    buf_append_format(out, "%" PRId64, value);
}

void json_add_bool(struct buf *out, const char *name, bool value) {
    json_add_raw(out, name, value ? "true" : "false");
}

void json_add_raw(struct buf *out, const char *name, const char *json) {
    begin_value(out, name);
    buf_append_string(out, json == NULL || *json == '\0' ? "null" : json);
}
