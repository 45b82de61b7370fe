/* samples.h - one or more frames of every message, and "decode, encode again", which any frame must
 * survive unchanged. */
#ifndef TESTS_UNIT_WIRE_SAMPLES_H
#define TESTS_UNIT_WIRE_SAMPLES_H

#include "wire/messages.h"

struct sample {
    const char *name;
    enum wire_type type;
    enum status (*put)(struct buf *out, struct error *err);
};

extern const struct sample samples[];
extern const size_t sample_count;

static inline struct wire_bytes text_bytes(const char *text) {
    return (struct wire_bytes){text, (uint32_t)__builtin_strlen(text)};
}

/* Decodes by the frame's type; OK: the message was encoded again to `out`. */
enum status recode(const struct wire_frame *frame, struct buf *out, struct error *err) MUST_CHECK;

#endif
