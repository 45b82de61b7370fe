/* error.c - setting, wrapping and forgetting errors. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* What snprintf cut may end inside a character, which PostgreSQL would refuse to store. */
static void trim_broken_end(char *text) {
    size_t length = strlen(text);
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char lead = (unsigned char)text[length - back];
        if (lead < 0x80) {
            return;
        }
        if (lead >= 0xC0) {
            if (utf8_sequence(text + length - back, back) != back) {
                text[length - back] = '\0';
            }
            return;
        }
    }
}

__attribute__((format(printf, 2, 0))) static void format_text(char text[ERROR_TEXT_MAX],
                                                              const char *format, va_list args) {
    int length = vsnprintf(text, ERROR_TEXT_MAX, format, args);
    if (length < 0) {
        text[0] = '\0';
    } else if (length >= ERROR_TEXT_MAX) {
        trim_broken_end(text);
    }
}

/* The same for "FIRST: SECOND". */
static void join_text(char text[ERROR_TEXT_MAX], const char *first, const char *second) {
    int length = snprintf(text, ERROR_TEXT_MAX, "%s: %s", first, second);
    if (length >= ERROR_TEXT_MAX) {
        trim_broken_end(text);
    }
}

enum status error_set(struct error *err, enum status code, const char *format, ...) {
    if (err == NULL || err->code != STATUS_OK) {
        return code;
    }
    va_list args;
    va_start(args, format);
    format_text(err->text, format, args);
    va_end(args);
    err->code = code;
    return code;
}

enum status error_set_errno(struct error *err, enum status code, int errno_value,
                            const char *format, ...) {
    if (err == NULL || err->code != STATUS_OK) {
        return code;
    }
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    format_text(text, format, args);
    va_end(args);

    char reason[128];
    join_text(err->text, text, strerror_r(errno_value, reason, sizeof reason));
    err->code = code;
    return code;
}

enum status error_wrap(struct error *err, const char *format, ...) {
    if (err == NULL) {
        /* The code is lost; a failure must still not read as success. */
        return STATUS_INTERNAL;
    }
    if (err->code == STATUS_OK) {
        return STATUS_OK;
    }
    char context[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    format_text(context, format, args);
    va_end(args);

    char inner[ERROR_TEXT_MAX];
    memcpy(inner, err->text, sizeof inner);
    join_text(err->text, context, inner);
    return err->code;
}

void error_clear(struct error *err) {
    if (err != NULL) {
        *err = ERROR_NONE;
    }
}
