/* close_group.h - libuv handles that are embedded in one owner: its memory may go when all of them are closed.
 *
 * When: loop thread only. `done` is called exactly once, from the loop, after the last handle's close callback; never
 * before close_group_end returned. A handle's data field is the close group's while it closes.
 */
#ifndef BASE_CLOSE_GROUP_H
#define BASE_CLOSE_GROUP_H

#include <uv.h>

struct close_group {
    int open;
    void (*done)(void *context);
    void *context;
};

void close_group_begin(struct close_group *group, void (*done)(void *context), void *context);
/* Closes the handle. Adding it twice is a no-op; one that was closed by anybody else is a fault (see the .c file). */
void close_group_add(struct close_group *group, uv_handle_t *handle);
void close_group_end(struct close_group *group); /* at least one handle must have been added */

#endif
