#include "base/arena.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "death.h"

TestSuite(arena, .timeout = 10);

Test(arena, memory_is_zeroed_aligned_and_apart) {
    static const size_t sizes[] = {0, 1, 7, 8, 15, 16, 17, 500, 2047, 2048, 2049, 8192, 100000};
    enum { ROUNDS = 50, COUNT = sizeof sizes / sizeof sizes[0] };
    static unsigned char *blocks[ROUNDS][COUNT];
    struct arena arena = {0};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) {
            unsigned char *memory = arena_alloc(&arena, sizes[i]);
            cr_assert_eq((uintptr_t)memory % _Alignof(max_align_t), 0);
            for (size_t at = 0; at < sizes[i]; at++) {
                cr_assert_eq(memory[at], 0);
            }
            memset(memory, round + i, sizes[i]);
            blocks[round][i] = memory;
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) {
            for (size_t at = 0; at < sizes[i]; at++) {
                cr_assert_eq(blocks[round][i][at], round + i);
            }
        }
    }
    arena_finish(&arena);
}

/* No pointer is kept here: a block that fell out of the chain shows as a leak. */
Test(arena, finish_frees_blocks_of_all_sizes_in_any_order) {
    static const size_t sizes[] = {5000, 10, 20000, 3000, 8000, 2000, 30000, 1};
    struct arena arena = {0};
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            arena_alloc(&arena, sizes[i]);
        }
    }
    arena_finish(&arena);
}

Test(arena, copies_and_formats) {
    struct arena arena = {0};
    cr_expect_str_eq(arena_copy(&arena, "abcdef", 3), "abc");
    cr_expect_str_eq(arena_copy(&arena, NULL, 0), "");
    cr_expect_eq(memcmp(arena_copy(&arena, "a\0b", 3), "a\0b\0", 4), 0);
    cr_expect_str_eq(arena_copy_string(&arena, "text"), "text");
    cr_expect_null(arena_copy_string(&arena, NULL));
    cr_expect_str_eq(arena_format(&arena, "%s=%d", "n", 5), "n=5");
    cr_expect_eq(strlen(arena_format(&arena, "%*d", 20000, 1)), 20000);
    arena_finish(&arena);
}

Test(arena, is_usable_again_after_finish) {
    struct arena arena = {0};
    arena_finish(&arena);
    arena_alloc(&arena, 10);
    arena_finish(&arena);
    cr_expect_null(arena.blocks);
    cr_expect_str_eq(arena_copy_string(&arena, "again"), "again");
    arena_finish(&arena);
}

static void a_size_that_would_wrap_is_a_fault_call(void) {
    struct arena arena = {0};
    arena_alloc(&arena, SIZE_MAX - 3);
}

Test(arena, a_size_that_would_wrap_is_a_fault) {
    expect_abort(a_size_that_would_wrap_is_a_fault_call, "requirement failed: size");
}
