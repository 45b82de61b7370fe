/* frame.c - a frame's header and the primitives of its body, explicitly little-endian.
 *
 * Text is its u32 length, its bytes and a NUL that the length does not count: what was decoded can
 * be used as a C string where it lies, and a payload of 200 MB is never copied for its terminator.
 * A length of ABSENT has neither bytes nor NUL.
 */
#include "wire/frame.h"

#include <string.h>

#include "base/require.h"

#define ABSENT UINT32_MAX
enum { TYPE_OFFSET = 4, FLAGS_OFFSET = 6 };

static void store(char *to, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (char)(unsigned char)(value >> (8 * i));
    }
}

static uint64_t load(const char *from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)(unsigned char)from[i] << (8 * i);
    }
    return value;
}

/* ---- writing ---- */

static void put_raw(struct frame_writer *w, const void *bytes, size_t length) {
    if (w->failed) {
        return;
    }
    size_t body = w->out->length - w->start - WIRE_HEADER_BYTES;
    if (length > WIRE_FRAME_MAX - body) {
        w->failed = true;
        return;
    }
    buf_append(w->out, bytes, length);
    w->failed = w->out->overflow;
}

static void put_number(struct frame_writer *w, uint64_t value, size_t bytes) {
    char raw[sizeof value];
    store(raw, value, bytes);
    put_raw(w, raw, bytes);
}

void frame_begin(struct frame_writer *w, struct buf *out, enum wire_type type) {
    char header[WIRE_HEADER_BYTES] = {0};
    store(header + TYPE_OFFSET, (uint64_t)type, 2);
    bool full = out->overflow;
    *w = (struct frame_writer){.out = out, .start = out->length, .was_full = full, .failed = full};
    if (!w->failed) {
        buf_append(out, header, sizeof header);
        w->failed = out->overflow;
    }
}

void put_u8(struct frame_writer *w, uint8_t value) {
    put_number(w, value, 1);
}

void put_u16(struct frame_writer *w, uint16_t value) {
    put_number(w, value, 2);
}

void put_u32(struct frame_writer *w, uint32_t value) {
    put_number(w, value, 4);
}

void put_u64(struct frame_writer *w, uint64_t value) {
    put_number(w, value, 8);
}

void put_i64(struct frame_writer *w, int64_t value) {
    put_u64(w, (uint64_t)value);
}

void put_double(struct frame_writer *w, double value) {
    uint64_t bits;
    _Static_assert(sizeof bits == sizeof value, "doubles travel as their IEEE 754 bits");
    memcpy(&bits, &value, sizeof bits);
    put_u64(w, bits);
}

void put_bytes(struct frame_writer *w, struct wire_bytes bytes) {
    REQUIRE(bytes.data != NULL || bytes.length == 0);
    put_u32(w, bytes.length);
    put_raw(w, bytes.data, bytes.length);
    put_u8(w, 0);
}

void put_optional(struct frame_writer *w, struct wire_bytes bytes) {
    if (bytes.data == NULL) {
        REQUIRE(bytes.length == 0);
        put_u32(w, ABSENT);
    } else {
        put_bytes(w, bytes);
    }
}

enum status frame_end(struct frame_writer *w, struct error *err) {
    struct buf *out = w->out;
    if (w->failed) {
        if (out->length > w->start) {
            out->length = w->start;
            out->data[w->start] = '\0';
        }
        out->overflow = w->was_full;
        return error_set(err, STATUS_INVALID, "a message is larger than the limit of %u bytes",
                         (unsigned)WIRE_FRAME_MAX);
    }
    store(out->data + w->start, out->length - w->start - WIRE_HEADER_BYTES, 4);
    return STATUS_OK;
}

/* ---- reading ---- */

static const char *type_name(enum wire_type type) {
    switch (type) {
    case WIRE_HELLO:
        return "HELLO";
    case WIRE_RUN:
        return "RUN";
    case WIRE_TELL:
        return "TELL";
    case WIRE_BEAT:
        return "BEAT";
    case WIRE_STOP:
        return "STOP";
    case WIRE_READY:
        return "READY";
    case WIRE_REFUSED:
        return "REFUSED";
    case WIRE_RESULT:
        return "RESULT";
    case WIRE_LOG:
        return "LOG";
    case WIRE_PROGRESS:
        return "PROGRESS";
    case WIRE_FULL:
        return "FULL";
    case WIRE_NOTE:
        return "NOTE";
    case WIRE_LAST:
        return "LAST";
    }
    return NULL;
}

enum status wire_next_frame(const char *bytes, size_t length, struct wire_frame *frame,
                            struct error *err) {
    *frame = (struct wire_frame){0};
    if (length < WIRE_HEADER_BYTES) {
        return STATUS_AGAIN;
    }
    uint32_t body_length = (uint32_t)load(bytes, 4);
    unsigned type = (unsigned)load(bytes + TYPE_OFFSET, 2);
    unsigned flags = (unsigned)load(bytes + FLAGS_OFFSET, 2);
    if (type_name((enum wire_type)type) == NULL) {
        return error_set(err, STATUS_PROTOCOL, "a frame of the unknown type %u", type);
    }
    if (flags != 0) {
        return error_set(err, STATUS_PROTOCOL, "a frame with the unknown flags 0x%04x", flags);
    }
    if (body_length > WIRE_FRAME_MAX) {
        return error_set(err, STATUS_PROTOCOL, "a frame of %u bytes, above the limit of %u",
                         (unsigned)body_length, (unsigned)WIRE_FRAME_MAX);
    }
    frame->type = (enum wire_type)type;
    frame->body_length = body_length;
    frame->frame_length = (size_t)body_length + WIRE_HEADER_BYTES;
    if (length < frame->frame_length) {
        return STATUS_AGAIN;
    }
    frame->body = bytes + WIRE_HEADER_BYTES;
    return STATUS_OK;
}

void frame_open(struct frame_reader *r, const struct wire_frame *f, enum wire_type type) {
    *r = (struct frame_reader){
        .at = f->body, .end = f->body + f->body_length, .failed = f->type != type};
}

size_t frame_left(const struct frame_reader *r) {
    return r->failed ? 0 : (size_t)(r->end - r->at);
}

void frame_want(struct frame_reader *r, bool condition) {
    r->failed = r->failed || !condition;
}

/* NULL, and the reader failed, when fewer than `length` bytes are left. */
static const char *take(struct frame_reader *r, size_t length) {
    frame_want(r, frame_left(r) >= length);
    if (r->failed) {
        return NULL;
    }
    const char *bytes = r->at;
    r->at += length;
    return bytes;
}

static uint64_t get_number(struct frame_reader *r, size_t bytes) {
    const char *raw = take(r, bytes);
    return raw == NULL ? 0 : load(raw, bytes);
}

uint8_t get_u8(struct frame_reader *r) {
    return (uint8_t)get_number(r, 1);
}

bool get_bool(struct frame_reader *r) {
    uint8_t value = get_u8(r);
    frame_want(r, value <= 1);
    return value == 1;
}

uint16_t get_u16(struct frame_reader *r) {
    return (uint16_t)get_number(r, 2);
}

uint32_t get_u32(struct frame_reader *r) {
    return (uint32_t)get_number(r, 4);
}

uint64_t get_u64(struct frame_reader *r) {
    return get_number(r, 8);
}

int64_t get_i64(struct frame_reader *r) {
    return (int64_t)get_u64(r);
}

int64_t get_count(struct frame_reader *r) {
    int64_t value = get_i64(r);
    frame_want(r, value >= 0);
    return value;
}

double get_double(struct frame_reader *r) {
    uint64_t bits = get_u64(r);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static struct wire_bytes get_text(struct frame_reader *r, uint32_t length) {
    const char *data = take(r, length);
    uint8_t terminator = get_u8(r);
    frame_want(r, terminator == 0);
    return r->failed ? (struct wire_bytes){0} : (struct wire_bytes){data, length};
}

struct wire_bytes get_bytes(struct frame_reader *r) {
    return get_text(r, get_u32(r));
}

struct wire_bytes get_optional(struct frame_reader *r) {
    uint32_t length = get_u32(r);
    return length == ABSENT ? (struct wire_bytes){0} : get_text(r, length);
}

enum status frame_done(struct frame_reader *r, enum wire_type type, struct error *err) {
    if (r->failed) {
        return error_set(err, STATUS_PROTOCOL, "a malformed %s message", type_name(type));
    }
    if (r->at != r->end) {
        return error_set(err, STATUS_PROTOCOL, "a %s message with %zu bytes left over",
                         type_name(type), frame_left(r));
    }
    return STATUS_OK;
}
