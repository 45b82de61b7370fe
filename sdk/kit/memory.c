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

enum { CACHED_SIZES = 64, CACHED_OF_A_SIZE = 16, SIZE_STEP = 16 };

static size_t glibc_in_use(void) {
    static void *taken[CACHED_SIZES * CACHED_OF_A_SIZE];
    const size_t count = sizeof taken / sizeof taken[0], header = sizeof(size_t);
    size_t ours = 0;
    for (size_t i = 0; i < count; i++) {
        taken[i] = have(malloc(header + i / CACHED_OF_A_SIZE * SIZE_STEP));
        ours += malloc_usable_size(taken[i]) + header;
    }
    struct mallinfo2 info = mallinfo2();
    for (size_t i = 0; i < count; i++) {
        free(taken[i]);
    }
    return info.uordblks + info.hblkhd - ours;
}

long long kit_memory_in_use(void) {
    return (long long)(__sanitizer_get_current_allocated_bytes != NULL
                           ? __sanitizer_get_current_allocated_bytes()
                           : glibc_in_use());
}
