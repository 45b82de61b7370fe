/* text.h - what may be stored: UTF-8, and JSON as PostgreSQL's jsonb takes it. No memory is asked
 * for. */
#ifndef PGSTAGE_SRC_TEXT_H
#define PGSTAGE_SRC_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Length of the well-formed UTF-8 sequence at `at`, 0 when there is none (RFC 3629). */
size_t text_sequence(const unsigned char *at, const unsigned char *end);

bool text_is_utf8(const char *text, size_t length);

/* vsnprintf that cuts at a character's border and always leaves a string. */
void text_format(char *out, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

enum { JSON_DEPTH_MAX = 2048 };

/* With at most this many values and keys, and PGSTAGE_OUTPUT_MAX bytes of text, the binary form of
 * jsonb stays below its limit of 2^28 bytes (a value adds 21 bytes to its text at most), and every
 * array below that of its elements. */
enum { JSON_VALUES_MAX = 6000000 };

struct json_fault {
    size_t offset;
    const char *what; /* a constant */
    bool is_limit;    /* well-formed as far as it was read, but too much */
};

bool json_is_storable(const char *text, size_t length, struct json_fault *fault);

#endif
