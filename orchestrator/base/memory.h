/* memory.h - allocation that never returns NULL.
 *
 * Out of memory ends the process with a message: the state is in PostgreSQL, and a restart is the tested path.
 * Ownership: the result is released with free().
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

void *mem_alloc(size_t size);                         /* zeroed */
void *mem_resize(void *old, size_t count, size_t size); /* count * size is checked for overflow */
char *mem_copy_string(const char *text);              /* NULL gives NULL */
char *mem_copy_bytes(const void *bytes, size_t length); /* a NUL is appended */
char *mem_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
