/* frame.h - the pairs of put and get functions that messages.c is written with; nobody else
 * includes this.
 *
 * Both sides latch: after the first fault the rest of a message is a no-op, and the one check is
 * frame_end or frame_done. Thread rule: none (pure functions).
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include "wire/messages.h"

struct frame_writer {
    struct buf *out;
    size_t start;  /* where this frame begins in `out` */
    bool was_full; /* `out` had lost bytes before this frame, and stays marked */
    bool failed;
};

void frame_begin(struct frame_writer *w, struct buf *out, enum wire_type type);
void put_u8(struct frame_writer *w, uint8_t value);
void put_u16(struct frame_writer *w, uint16_t value);
void put_u32(struct frame_writer *w, uint32_t value);
void put_u64(struct frame_writer *w, uint64_t value);
void put_i64(struct frame_writer *w, int64_t value);
void put_double(struct frame_writer *w, double value);
void put_bytes(struct frame_writer *w, struct wire_bytes bytes);    /* absent is written as empty */
void put_optional(struct frame_writer *w, struct wire_bytes bytes); /* absent stays absent */
enum status frame_end(struct frame_writer *w, struct error *err) MUST_CHECK;

struct frame_reader {
    const char *at, *end;
    bool failed;
};

void frame_open(struct frame_reader *r, const struct wire_frame *f, enum wire_type type);
size_t frame_left(const struct frame_reader *r);
/* For what is well-formed but means nothing: a count that cannot be, a value out of its range. */
void frame_want(struct frame_reader *r, bool condition);
uint8_t get_u8(struct frame_reader *r);
bool get_bool(struct frame_reader *r); /* only 0 and 1 */
uint16_t get_u16(struct frame_reader *r);
uint32_t get_u32(struct frame_reader *r);
uint64_t get_u64(struct frame_reader *r);
int64_t get_i64(struct frame_reader *r);
int64_t get_count(struct frame_reader *r); /* an i64 that is not negative */
double get_double(struct frame_reader *r);
struct wire_bytes get_bytes(struct frame_reader *r);
struct wire_bytes get_optional(struct frame_reader *r);
enum status frame_done(struct frame_reader *r, enum wire_type type, struct error *err) MUST_CHECK;

#endif
