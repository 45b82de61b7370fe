/* arena.h - memory that is freed as a whole: parsed definitions, one request's data.
 *
 * A zeroed struct is an empty arena. Nothing in it is freed alone. Thread rule: one thread at a time.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena {
    struct arena_block *blocks;
};

void *arena_alloc(struct arena *arena, size_t size); /* zeroed, aligned for any type */
char *arena_copy(struct arena *arena, const void *bytes, size_t length); /* NUL appended */
char *arena_copy_string(struct arena *arena, const char *text);          /* NULL gives NULL */
char *arena_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void arena_finish(struct arena *arena); /* frees all; the arena is empty and usable again */

#endif
