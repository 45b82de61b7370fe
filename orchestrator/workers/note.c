#include "workers/note.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum {
    PARSED_MAX_BYTES = 64 * 1024, /* a worker's word about its size counts for nothing */
    KEY_MAX_BYTES = 64,
    RAW_MAX_BYTES = 1000,
    REAL_DIGITS = 15, /* 0.4 is to be 0.4 */
};

static void put_key(struct buf *out, const char *key) {
    static const char *const taken[] = {"pipeline", "stage", "worker", "run", "text"};
    buf_append_char(out, ' ');
    bool is_taken = key[0] == '\0';
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        is_taken = is_taken || strcmp(key, taken[i]) == 0;
    }
    if (is_taken) {
        buf_append_char(out, '_');
    }
    for (size_t i = 0; key[i] != '\0' && i < KEY_MAX_BYTES; i++) {
        unsigned char c = (unsigned char)key[i];
        buf_append_char(out, c < 0x80 && (isalnum(c) || c == '-' || c == '.') ? key[i] : '_');
    }
    buf_append_char(out, '=');
}

static void put_value(struct buf *out, const json_t *value) {
    if (json_is_string(value)) {
        buf_append_string(out, log_text(json_string_value(value)));
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS));
    bool is_plain = !json_is_object(value) && !json_is_array(value);
    buf_append_string(out, text != NULL && is_plain ? text : log_text(text));
    free(text);
}

static void put_raw(struct buf *out, const char *text, size_t length) {
    char copy[RAW_MAX_BYTES + 1];
    size_t kept = length < RAW_MAX_BYTES ? length : RAW_MAX_BYTES;
    memcpy(copy, text, kept);
    copy[kept] = '\0';
    buf_append_format(out, " fields=%s", log_text(copy));
}

void note_put_fields(struct buf *out, const char *fields, size_t length) {
    json_t *object = length <= PARSED_MAX_BYTES ? json_loadb(fields, length, JSON_ALLOW_NUL, NULL) : NULL;
    if (!json_is_object(object)) {
        put_raw(out, fields, length);
    } else {
        const char *key;
        json_t *value;
        json_object_foreach(object, key, value) {
            put_key(out, key);
            put_value(out, value);
        }
    }
    json_decref(object);
}
