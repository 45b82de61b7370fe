/* arena.c - a chain of blocks; small requests share the first block, large ones get a block of
 * their own. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/require.h"

enum { ARENA_BLOCK_BYTES = 8192, ARENA_SHARED_MAX_BYTES = ARENA_BLOCK_BYTES / 4 };

struct arena_block {
    struct arena_block *next;
    size_t used, capacity;
    max_align_t data[];
};

static struct arena_block *block_create(size_t capacity) {
    struct arena_block *block = mem_alloc(sizeof *block + capacity);
    block->capacity = capacity;
    return block;
}

void *arena_alloc(struct arena *arena, size_t size) {
    REQUIRE(size < PTRDIFF_MAX / 2);
    const size_t align = _Alignof(max_align_t);
    size_t rounded = size == 0 ? align : (size + align - 1) / align * align;

    struct arena_block *block = arena->blocks;
    if (block != NULL && rounded <= block->capacity - block->used) {
        char *memory = (char *)block->data + block->used;
        block->used += rounded;
        return memory;
    }
    bool shared = rounded <= ARENA_SHARED_MAX_BYTES;
    struct arena_block *fresh = block_create(shared ? ARENA_BLOCK_BYTES : rounded);
    fresh->used = rounded;
    if (shared || block == NULL) {
        fresh->next = block;
        arena->blocks = fresh;
    } else {
        /* Behind the first block, whose free rest stays in use. */
        fresh->next = block->next;
        block->next = fresh;
    }
    return fresh->data;
}

char *arena_copy(struct arena *arena, const void *bytes, size_t length) {
    REQUIRE(length < PTRDIFF_MAX / 2 - 1);
    char *copy = arena_alloc(arena, length + 1);
    if (length > 0) {
        memcpy(copy, bytes, length);
    }
    return copy;
}

char *arena_copy_string(struct arena *arena, const char *text) {
    return text == NULL ? NULL : arena_copy(arena, text, strlen(text));
}

char *arena_format(struct arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    REQUIRE(length >= 0);
    size_t size = (size_t)length + 1;
    char *text = arena_alloc(arena, size);
    vsnprintf(text, size, format, again);
    va_end(again);
    return text;
}

void arena_finish(struct arena *arena) {
    struct arena_block *block = arena->blocks;
    while (block != NULL) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    arena->blocks = NULL;
}
