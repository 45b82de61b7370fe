/* encoding.h - bytes of unknown encoding as UTF-8.
 *
 * In this order: a byte order mark (UTF-8, UTF-16); what an HTML page declares in its first 4 KB;
 * UTF-8, when more of the bytes above 0x7F form UTF-8 than do not; else Windows-1252, in which any
 * bytes are text. What cannot be decoded becomes U+FFFD, so the result is always well-formed.
 */
#ifndef LIBRARY_ENCODING_H
#define LIBRARY_ENCODING_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

/* A byte order mark of UTF-16 stands in front: zero bytes are no sign of binary data then. */
bool encoding_is_utf16(const char *bytes, size_t length);

/* `declares`: the bytes are HTML or XML, whose own declaration counts. */
void encoding_to_utf8(const char *bytes, size_t length, bool declares, struct text *out);

enum { ENCODING_NAME_MAX = 40 };

/* The encoding's name that the page declares, in lower case; "" when it declares none. */
void encoding_declared(const char *bytes, size_t length, char name[ENCODING_NAME_MAX + 1]);

#endif
