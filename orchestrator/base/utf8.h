/* utf8.h - bytes that must become text: validation, the one sanitizer, and reversible escapes for names. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Length of the well-formed sequence at `bytes` (1 to 4), 0 when there is none. Source: RFC 3629, table 3-7 of Unicode. */
size_t utf8_sequence(const char *bytes, size_t length);

/* One of the control characters U+0080 to U+009F, which terminals obey, at NUL-terminated `text`; it takes two bytes. */
static inline bool utf8_is_c1(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    return at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0;
}

bool utf8_is_valid(const char *bytes, size_t length);

/* Appends at most `max_bytes` of text that any PostgreSQL text column can store: NUL and ill-formed bytes become U+FFFD,
 * other control bytes but tab and newline become '?', and the cut falls on a character's border. */
void utf8_sanitize(struct buf *out, const char *bytes, size_t length, size_t max_bytes);

/* Reversible: '%', control bytes and bytes that are not UTF-8 become %XX; all else stays. Unescaping accepts
 * only what escaping writes, so that a name has one spelling; when it fails, `out` is as before. */
void utf8_escape_name(struct buf *out, const char *bytes, size_t length);
bool utf8_unescape_name(struct buf *out, const char *text);

#endif
