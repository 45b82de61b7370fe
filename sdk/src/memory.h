/* memory.h - allocation that can fail, and that a test can make fail. */
#ifndef PGSTAGE_SRC_MEMORY_H
#define PGSTAGE_SRC_MEMORY_H

#include <stddef.h>

void *sdk_allocate(size_t size); /* NULL: out of memory */
void sdk_release(void *memory);  /* NULL is a no-op */

#endif
