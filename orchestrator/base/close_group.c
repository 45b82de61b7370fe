/* close_group.c - counts close callbacks. `open` includes one for close_group_end, so that handles
 * that close in an earlier loop turn than the end of the group do not finish it.
 */
#include "base/close_group.h"

#include "base/require.h"

void close_group_begin(struct close_group *group, void (*done)(void *context), void *context) {
    *group = (struct close_group){.open = 1, .done = done, .context = context};
}

static void on_handle_closed(uv_handle_t *handle) {
    struct close_group *group = handle->data;
    group->open--;
    if (group->open == 0) {
        /* `group` is usually part of what this frees: nothing may touch it afterwards. */
        group->done(group->context);
    }
}

void close_group_add(struct close_group *group, uv_handle_t *handle) {
    if (uv_is_closing(handle)) {
        /* libuv runs close callbacks last in, first out: a handle that somebody else closes in the
         * same turn would still be in libuv's list when `done` frees it. */
        REQUIRE(handle->data == group);
        return;
    }
    handle->data = group;
    group->open++;
    uv_close(handle, on_handle_closed);
}

void close_group_end(struct close_group *group) {
    group->open--;
    REQUIRE(group->open > 0);
}
