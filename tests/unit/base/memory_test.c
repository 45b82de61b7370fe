#include "base/memory.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "death.h"

TestSuite(memory, .timeout = 10);

Test(memory, alloc_is_zeroed) {
    unsigned char *bytes = mem_alloc(1000);
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(bytes[i], 0);
    }
    free(bytes);
}

Test(memory, nothing_is_still_a_pointer) {
    void *a = mem_alloc(0);
    cr_expect_not_null(a);
    a = mem_resize(a, 0, 8);
    cr_expect_not_null(a);
    free(a);
}

Test(memory, resize_keeps_the_content) {
    char *text = mem_copy_string("abc");
    text = mem_resize(text, 1000, 3);
    cr_expect_str_eq(text, "abc");
    free(text);
}

/* The product wraps to a small number: without the check this would succeed. */
static void resize_refuses_a_product_that_wraps_call(void) {
    volatile size_t count = SIZE_MAX / 4 + 2;
    free(mem_resize(NULL, count, 4));
}

Test(memory, resize_refuses_a_product_that_wraps) {
    expect_abort(resize_refuses_a_product_that_wraps_call, "pgstage: out of memory");
}

static void resize_refuses_more_than_can_exist_call(void) {
    volatile size_t count = (size_t)PTRDIFF_MAX + 1;
    free(mem_resize(NULL, count, 1));
}

Test(memory, resize_refuses_more_than_can_exist) {
    expect_abort(resize_refuses_more_than_can_exist_call, "pgstage: out of memory");
}

static void copy_bytes_refuses_a_length_that_wraps_call(void) {
    volatile size_t length = SIZE_MAX;
    free(mem_copy_bytes("x", length));
}

Test(memory, copy_bytes_refuses_a_length_that_wraps) {
    expect_abort(copy_bytes_refuses_a_length_that_wraps_call, "pgstage: out of memory");
}

Test(memory, copies_strings_and_bytes) {
    char *text = mem_copy_string("hello");
    cr_expect_str_eq(text, "hello");
    free(text);
    cr_expect_null(mem_copy_string(NULL));

    char *bytes = mem_copy_bytes("a\0b", 3);
    cr_expect_eq(memcmp(bytes, "a\0b\0", 4), 0);
    free(bytes);
    bytes = mem_copy_bytes(NULL, 0);
    cr_expect_str_eq(bytes, "");
    free(bytes);
}

Test(memory, format_of_any_length) {
    char *text = mem_format("%05d-%s", 42, "x");
    cr_expect_str_eq(text, "00042-x");
    free(text);
    text = mem_format("%*d", 10000, 7);
    cr_expect_eq(strlen(text), 10000);
    free(text);
}
