#include "base/buf.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "death.h"

TestSuite(buf, .timeout = 10);

static void expect_invariants(const struct buf *buf) {
    cr_assert_not_null(buf->data);
    cr_assert_eq(buf->data[buf->length], '\0');
    cr_assert_leq(buf->length, buf->max);
    cr_assert_lt(buf->length, buf->capacity);
}

Test(buf, starts_as_an_empty_string) {
    static const size_t limits[] = {0, 1, 63, 64, 1 << 20, SIZE_MAX};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct buf buf;
        buf_init(&buf, limits[i]);
        expect_invariants(&buf);
        cr_expect_str_eq(buf.data, "");
        buf_finish(&buf);
    }
}

Test(buf, finish_of_a_zeroed_or_finished_struct_is_a_no_op) {
    struct buf buf = {0};
    buf_finish(&buf);
    buf_init(&buf, 10);
    buf_finish(&buf);
    buf_finish(&buf);
}

Test(buf, appends_of_all_kinds) {
    struct buf buf;
    buf_init(&buf, 1000);
    buf_append(&buf, "a\0b", 3);
    buf_append(&buf, NULL, 0);
    buf_append_string(&buf, "cd");
    buf_append_char(&buf, 'e');
    buf_append_format(&buf, "%d%s", 12, "f");
    expect_invariants(&buf);
    cr_expect_eq(buf.length, 9);
    cr_expect_eq(memcmp(buf.data, "a\0bcde12f", 10), 0);
    cr_expect_not(buf.overflow);
    buf_finish(&buf);
}

Test(buf, grows_byte_by_byte_up_to_max) {
    for (size_t max = 0; max < 300; max++) {
        struct buf buf;
        buf_init(&buf, max);
        for (size_t i = 0; i < max; i++) {
            buf_append_char(&buf, (char)('a' + i % 26));
        }
        expect_invariants(&buf);
        cr_assert_eq(buf.length, max);
        cr_assert_not(buf.overflow);
        buf_append_char(&buf, '!');
        expect_invariants(&buf);
        cr_assert_eq(buf.length, max);
        cr_assert(buf.overflow);
        buf_finish(&buf);
    }
}

Test(buf, overflow_drops_this_and_every_later_append) {
    struct buf buf;
    buf_init(&buf, 4);
    buf_append_string(&buf, "abc");
    buf_append_string(&buf, "de");
    cr_expect(buf.overflow);
    buf_append_char(&buf, 'f');
    buf_append_format(&buf, "%d", 1);
    cr_expect_null(buf_reserve(&buf, 1));
    cr_expect_str_eq(buf.data, "abc");
    buf_clear(&buf);
    cr_expect_not(buf.overflow);
    buf_append_format(&buf, "%s", "wxyz");
    cr_expect_str_eq(buf.data, "wxyz");
    buf_append_format(&buf, "%d", 1);
    cr_expect(buf.overflow);
    cr_expect_str_eq(buf.data, "wxyz");
    buf_finish(&buf);
}

Test(buf, a_length_that_would_wrap_overflows) {
    struct buf buf;
    buf_init(&buf, SIZE_MAX);
    buf_append_string(&buf, "abc");
    cr_expect_null(buf_reserve(&buf, SIZE_MAX - 1));
    cr_expect(buf.overflow);
    cr_expect_str_eq(buf.data, "abc");
    buf_finish(&buf);
}

Test(buf, clear_keeps_the_memory) {
    struct buf buf;
    buf_init(&buf, 1000);
    buf_append_format(&buf, "%500d", 1);
    const char *data = buf.data;
    buf_clear(&buf);
    cr_expect_eq(buf.data, data);
    cr_expect_str_eq(buf.data, "");
    buf_finish(&buf);
}

Test(buf, reserve_gives_room_and_keeps_the_nul_for_a_short_fill) {
    struct buf buf;
    buf_init(&buf, 200);
    buf_append_format(&buf, "%200d", 7); /* what was there before must not show */
    buf_clear(&buf);
    buf_append_string(&buf, "ab");
    char *room = buf_reserve(&buf, 198);
    cr_assert_not_null(room);
    memcpy(room, "cd", 2);
    buf.length += 2;
    expect_invariants(&buf);
    cr_expect_str_eq(buf.data, "abcd");
    cr_expect_null(buf_reserve(&buf, 197));
    cr_expect(buf.overflow);
    buf_finish(&buf);
}

Test(buf, drop_front) {
    struct buf buf;
    buf_init(&buf, 100);
    buf_append_string(&buf, "abcdef");
    buf_drop_front(&buf, 0);
    cr_expect_str_eq(buf.data, "abcdef");
    buf_drop_front(&buf, 2);
    cr_expect_str_eq(buf.data, "cdef");
    buf_drop_front(&buf, 4);
    expect_invariants(&buf);
    cr_expect_eq(buf.length, 0);
    buf_finish(&buf);
}

static void drop_front_of_more_than_there_is_is_a_fault_call(void) {
    struct buf buf;
    buf_init(&buf, 100);
    buf_append_string(&buf, "ab");
    buf_drop_front(&buf, 3);
}

Test(buf, drop_front_of_more_than_there_is_is_a_fault) {
    expect_abort(drop_front_of_more_than_there_is_is_a_fault_call, "count <= buf->length");
}

Test(buf, take_gives_the_memory_away_and_leaves_a_usable_buffer) {
    struct buf buf;
    buf_init(&buf, 100);
    buf_append_string(&buf, "first");
    char *text = buf_take(&buf);
    expect_invariants(&buf);
    buf_append_string(&buf, "second");
    cr_expect_str_eq(text, "first");
    cr_expect_str_eq(buf.data, "second");
    cr_expect_eq(buf.max, 100);
    free(text);
    buf_finish(&buf);
}
