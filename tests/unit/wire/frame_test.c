/* Frames as bytes: what stands where, what is refused at once, and what no byte sequence may do. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "samples.h"

TestSuite(wire_frame, .timeout = 60);

/* A copy of exactly that size, so that reading one byte beyond it is an error that AddressSanitizer
 * sees. */
static enum status next_exact(const char *bytes, size_t length, struct wire_frame *frame,
                              char **copy, struct error *err) {
    *copy = malloc(length == 0 ? 1 : length);
    cr_assert_not_null(*copy);
    memcpy(*copy, bytes, length);
    return wire_next_frame(*copy, length, frame, err);
}

static void patch_length(char *frame, uint32_t body_length) {
    for (int i = 0; i < 4; i++) {
        frame[i] = (char)(unsigned char)(body_length >> (8 * i));
    }
}

Test(wire_frame, has_the_documented_layout) {
    struct buf out;
    buf_init(&out, 1024);
    cr_assert_eq(wire_put_beat(&out, &(struct wire_beat){0x0102030405060708}, NULL), STATUS_OK);
    cr_assert_eq(wire_put_refused(&out, &(struct wire_refused){text_bytes("no")}, NULL), STATUS_OK);
    static const unsigned char expected[] = {8, 0, 0, 0, 4,  0, 0, 0, 8, 7, 6, 5, 4,   3,   2, 1,
                                             7, 0, 0, 0, 17, 0, 0, 0, 2, 0, 0, 0, 'n', 'o', 0};
    cr_assert_eq(out.length, sizeof expected);
    cr_assert_arr_eq(out.data, expected, sizeof expected);
    buf_finish(&out);
}

Test(wire_frame, asks_for_more_until_a_frame_is_whole) {
    for (size_t i = 0; i < sample_count; i++) {
        struct buf out;
        buf_init(&out, 1 << 20);
        cr_assert_eq(samples[i].put(&out, NULL), STATUS_OK);
        for (size_t length = 0; length < out.length; length++) {
            struct error err = ERROR_NONE;
            struct wire_frame frame;
            char *copy;
            cr_assert_eq(next_exact(out.data, length, &frame, &copy, &err), STATUS_AGAIN);
            cr_assert_eq(err.code, STATUS_OK);
            cr_assert_eq(frame.frame_length, length < WIRE_HEADER_BYTES ? 0 : out.length);
            free(copy);
        }
        buf_finish(&out);
    }
}

Test(wire_frame, refuses_a_bad_header_before_its_body_arrived) {
    static const struct {
        unsigned char header[WIRE_HEADER_BYTES];
        const char *text;
    } cases[] = {
        {{0, 0, 0, 0, 0, 0, 0, 0}, "a frame of the unknown type 0"},
        {{0, 0, 0, 0, 6, 0, 0, 0}, "a frame of the unknown type 6"},
        {{0, 0, 0, 0, 15, 0, 0, 0}, "a frame of the unknown type 15"},
        {{0, 0, 0, 0, 24, 0, 0, 0}, "a frame of the unknown type 24"},
        {{0, 0, 0, 0, 1, 1, 0, 0}, "a frame of the unknown type 257"},
        {{8, 0, 0, 0, 4, 0, 1, 0}, "a frame with the unknown flags 0x0001"},
        {{8, 0, 0, 0, 4, 0, 0, 128}, "a frame with the unknown flags 0x8000"},
        {{1, 0, 0, 25, 2, 0, 0, 0}, "a frame of 419430401 bytes, above the limit of 419430400"},
        {{255, 255, 255, 255, 2, 0, 0, 0},
         "a frame of 4294967295 bytes, above the limit of 419430400"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = ERROR_NONE;
        struct wire_frame frame;
        enum status status =
            wire_next_frame((const char *)cases[i].header, WIRE_HEADER_BYTES, &frame, &err);
        cr_assert_eq(status, STATUS_PROTOCOL);
        cr_assert_str_eq(err.text, cases[i].text);
    }
}

Test(wire_frame, takes_a_body_of_exactly_the_limit) {
    static const unsigned char header[] = {0, 0, 0, 25, 2, 0, 0, 0};
    struct wire_frame frame;
    cr_assert_eq(wire_next_frame((const char *)header, sizeof header, &frame, NULL), STATUS_AGAIN);
    cr_assert_eq(frame.frame_length, (size_t)WIRE_FRAME_MAX + WIRE_HEADER_BYTES);
}

Test(wire_frame, refuses_every_truncation_of_every_message) {
    for (size_t i = 0; i < sample_count; i++) {
        struct buf out;
        buf_init(&out, 1 << 20);
        cr_assert_eq(samples[i].put(&out, NULL), STATUS_OK);
        for (size_t length = WIRE_HEADER_BYTES; length < out.length; length++) {
            struct error err = ERROR_NONE;
            struct wire_frame frame;
            char *copy;
            patch_length(out.data, (uint32_t)(length - WIRE_HEADER_BYTES));
            cr_assert_eq(next_exact(out.data, length, &frame, &copy, &err), STATUS_OK);
            struct buf again;
            buf_init(&again, 1 << 20);
            cr_assert_eq(recode(&frame, &again, &err), STATUS_PROTOCOL, "%s cut to %zu bytes",
                         samples[i].name, length);
            cr_assert(strstr(err.text, "a malformed ") == err.text, "%s", err.text);
            buf_finish(&again);
            free(copy);
        }
        buf_finish(&out);
    }
}

Test(wire_frame, refuses_bytes_left_over) {
    for (size_t i = 0; i < sample_count; i++) {
        struct error err = ERROR_NONE;
        struct buf out, again;
        buf_init(&out, 1 << 20);
        buf_init(&again, 1 << 20);
        cr_assert_eq(samples[i].put(&out, NULL), STATUS_OK);
        buf_append(&out, "\0\0", 2);
        patch_length(out.data, (uint32_t)(out.length - WIRE_HEADER_BYTES));
        struct wire_frame frame;
        cr_assert_eq(wire_next_frame(out.data, out.length, &frame, NULL), STATUS_OK);
        cr_assert_eq(recode(&frame, &again, &err), STATUS_PROTOCOL, "%s", samples[i].name);
        cr_assert_not_null(strstr(err.text, " with 2 bytes left over"), "%s", err.text);
        buf_finish(&again);
        buf_finish(&out);
    }
}

/* Whatever the bytes are: no crash, and what is taken encodes to the same bytes again. */
static void check_body(enum wire_type type, const char *body, size_t length) {
    char *copy = mem_resize(NULL, length + 1, 1);
    memcpy(copy, body, length);
    copy = realloc(copy, length == 0 ? 1 : length);
    cr_assert_not_null(copy);
    struct wire_frame frame = {.type = type,
                               .body = copy,
                               .body_length = (uint32_t)length,
                               .frame_length = length + WIRE_HEADER_BYTES};
    struct buf again;
    buf_init(&again, 1 << 20);
    enum status status = recode(&frame, &again, NULL);
    if (status == STATUS_OK) {
        cr_assert_eq(again.length, length + WIRE_HEADER_BYTES);
        cr_assert_arr_eq(again.data + WIRE_HEADER_BYTES, body, length);
    } else {
        cr_assert_eq(status, STATUS_PROTOCOL);
    }
    buf_finish(&again);
    free(copy);
}

Test(wire_frame, survives_random_bodies) {
    struct random_seeded seeded;
    struct random_ops random = random_from_seed(&seeded, 20240811);
    char body[96];
    for (int turn = 0; turn < 20000; turn++) {
        size_t length = random_below(&random, sizeof body);
        for (size_t i = 0; i < length; i++) {
            /* Mostly small numbers, so that lengths and counts are often plausible. */
            uint64_t byte = random_next(&random);
            body[i] = (char)(byte >> 8 & 3 ? 0 : byte & 0xFF);
        }
        check_body(samples[(size_t)turn % sample_count].type, body, length);
    }
}

Test(wire_frame, survives_flipped_bits_in_every_message) {
    for (size_t i = 0; i < sample_count; i++) {
        struct buf out;
        buf_init(&out, 1 << 20);
        cr_assert_eq(samples[i].put(&out, NULL), STATUS_OK);
        for (size_t bit = WIRE_HEADER_BYTES * 8; bit < out.length * 8; bit++) {
            char *byte = &out.data[bit / 8];
            char before = *byte;
            *byte = (char)(before ^ (1 << (bit % 8)));
            check_body(samples[i].type, out.data + WIRE_HEADER_BYTES,
                       out.length - WIRE_HEADER_BYTES);
            *byte = before;
        }
        buf_finish(&out);
    }
}

Test(wire_frame, appends_nothing_that_does_not_fit_the_buffer) {
    for (size_t room = 0; room < 40; room++) {
        struct buf out;
        buf_init(&out, 16 + room);
        cr_assert_eq(wire_put_beat(&out, &(struct wire_beat){1}, NULL), STATUS_OK);
        struct error err = ERROR_NONE;
        enum status status =
            wire_put_log(&out, &(struct wire_log){.run = 1, .text = text_bytes("hello")}, &err);
        size_t needed = 8 + 8 + 4 + 5 + 1;
        cr_assert_eq(status, room < needed ? STATUS_INVALID : STATUS_OK);
        cr_assert_eq(out.length, room < needed ? 16 : 16 + needed);
        cr_assert_not(out.overflow, "the frame before it is whole");
        buf_finish(&out);
    }
}

Test(wire_frame, appends_nothing_to_a_buffer_that_lost_bytes) {
    struct buf out;
    buf_init(&out, 32);
    buf_append(&out, "0123456789012345678901234567890123456789", 40);
    cr_assert_eq(wire_put_stop(&out, NULL), STATUS_INVALID);
    cr_assert(out.overflow);
    cr_assert_eq(out.length, 0);
    buf_finish(&out);
}
