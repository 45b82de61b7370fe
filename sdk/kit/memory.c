/* memory.c - the kit's own memory, and how much the whole process has in use.
 *
 * glibc counts what lies in a thread's cache of freed pieces as in use: a leak that is served from there would not show, and
 * a piece that is freed into it would look like one. So that cache is emptied for the moment of counting, by allocating all
 * that it could hold; what this takes is subtracted.
 */
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

noreturn void kit_misuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("pgstage test: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

static void *have(void *memory) {
    if (memory == NULL) {
        kit_misuse("there is no memory for the test itself");
    }
    return memory;
}

void *kit_allocate(size_t size) {
    return have(calloc(1, size));
}

char *kit_copy(const char *text) {
    return text == NULL ? NULL : have(strdup(text));
}

char *kit_format(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return have(length < 0 ? NULL : text);
}

void *kit_grow(void *array, size_t count, size_t size) {
    return have(realloc(array, (count + 1) * size));
}

/* Of the allocator of a sanitizer, where one is linked. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

enum { CACHED_SIZES = 64, SIZE_STEP = 16, CACHED_OF_A_SIZE = 7, TAKEN_MAX = 64 * 64 };

static size_t counted_by_glibc(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Takes pieces of one size until one comes from elsewhere than the cache, and the cache got nothing of its kind in return:
 * then it holds none. Returns the bytes taken. */
static size_t empty_cache(size_t size, void **taken, size_t *count) {
    size_t ours = 0;
    for (int i = 1; *count < TAKEN_MAX; i++) {
        size_t before = i > CACHED_OF_A_SIZE ? counted_by_glibc() : 0;
        void *piece = have(malloc(size));
        size_t bytes = malloc_usable_size(piece) + sizeof(size_t);
        taken[(*count)++] = piece;
        ours += bytes;
        if (i > CACHED_OF_A_SIZE && counted_by_glibc() - before == bytes) {
            break;
        }
    }
    return ours;
}

static size_t glibc_in_use(void) {
    static void *taken[TAKEN_MAX];
    size_t count = 0, ours = 0;
    for (size_t i = 0; i < CACHED_SIZES; i++) {
        ours += empty_cache(3 * sizeof(size_t) + i * SIZE_STEP, taken, &count);
    }
    size_t in_use = counted_by_glibc() - ours;
    while (count > 0) {
        free(taken[--count]);
    }
    return in_use;
}

long long kit_memory_in_use(void) {
    return (long long)(__sanitizer_get_current_allocated_bytes != NULL
                           ? __sanitizer_get_current_allocated_bytes()
                           : glibc_in_use());
}
