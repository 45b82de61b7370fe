/* utf8.h - code points in and out of UTF-8. */
#ifndef LIBRARY_UTF8_H
#define LIBRARY_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { UTF8_REPLACEMENT = 0xFFFD };

/* Reads the well-formed sequence at `bytes` and returns its length, 1 to 4; 0 when there is none
 * (RFC 3629). */
size_t utf8_decode(const char *bytes, size_t length, uint32_t *code);

/* Writes 1 to 4 bytes and returns how many. What is no code point is written as U+FFFD. */
size_t utf8_encode(uint32_t code, char bytes[4]);

/* The character that ends just before `at`, which is a border in well-formed text; moves back by
 * its length. 0 at the beginning. */
uint32_t utf8_before(const char *text, size_t *at);

struct utf8_measure {
    size_t multibyte; /* well-formed sequences of two bytes and more */
    size_t invalid;   /* bytes that belong to none */
};

struct utf8_measure utf8_measure(const char *bytes, size_t length);

#endif
