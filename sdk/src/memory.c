#include "memory.h"

#include <stdlib.h>

#include "host.h"

static void *(*allocate_hook)(size_t size) = malloc;
static void (*release_hook)(void *memory) = free;

void *sdk_allocate(size_t size) {
    return allocate_hook(size);
}

void sdk_release(void *memory) {
    if (memory != NULL) {
        release_hook(memory);
    }
}

void pgstage_host_set_allocator(void *(*allocate)(size_t size), void (*release)(void *)) {
    allocate_hook = allocate == NULL ? malloc : allocate;
    release_hook = release == NULL ? free : release;
}
