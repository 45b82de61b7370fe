/* memory.c - allocation that ends the process instead of returning NULL. */
#include "base/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/require.h"

static _Noreturn void out_of_memory(void) {
    static const char text[] = "pgstage: out of memory\n";
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    abort();
}

void *mem_alloc(size_t size) {
    void *memory = calloc(1, size == 0 ? 1 : size);
    if (memory == NULL) {
        out_of_memory();
    }
    return memory;
}

void *mem_resize(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX) {
        out_of_memory();
    }
    /* realloc(old, 0) would free and return NULL. */
    void *memory = realloc(old, bytes == 0 ? 1 : bytes);
    if (memory == NULL) {
        out_of_memory();
    }
    return memory;
}

char *mem_copy_string(const char *text) {
    return text == NULL ? NULL : mem_copy_bytes(text, strlen(text));
}

char *mem_copy_bytes(const void *bytes, size_t length) {
    if (length >= PTRDIFF_MAX) {
        out_of_memory();
    }
    char *copy = mem_resize(NULL, length + 1, 1);
    if (length > 0) {
        memcpy(copy, bytes, length);
    }
    copy[length] = '\0';
    return copy;
}

char *mem_format(const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    REQUIRE(length >= 0);
    size_t size = (size_t)length + 1;
    char *text = mem_resize(NULL, size, 1);
    vsnprintf(text, size, format, again);
    va_end(again);
    return text;
}
