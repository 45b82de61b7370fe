/* throttle.h - how much of what workers write is read in a while: so much that no worker waits for long, and so little that
 * the loop, and the machine's cores, are free for others.
 *
 * A pipe that gave a quantum in one go is not read for a few milliseconds; its worker waits meanwhile. All pipes of a node
 * share a rate, so that many workers that write without end take no more of the loop than one. A pause always ends: what is
 * in a pipe is read. Used by worker.c. When: loop thread only.
 */
#ifndef WORKERS_THROTTLE_H
#define WORKERS_THROTTLE_H

#include <uv.h>

#include "base/close_group.h"
#include "base/list.h"

struct throttle {
    uv_timer_t timer;
    struct list held;
    size_t held_bytes; /* that the pipes gave before they were held */
};

/* One pipe. */
struct throttled {
    struct throttle *throttle;
    uv_stream_t *stream;
    uv_alloc_cb alloc;
    uv_read_cb read;
    struct list link; /* of those that are held */
    size_t taken;     /* since `since_ms` */
    uint64_t since_ms;
};

void throttle_init(struct throttle *throttle, uv_loop_t *loop);
/* No pipe may be open any more. */
void throttle_close(struct throttle *throttle, struct close_group *group);

/* Begins to read; zeroed before. */
void throttled_start(struct throttled *throttled, struct throttle *throttle, uv_stream_t *stream, uv_alloc_cb alloc,
                     uv_read_cb read);
/* In `read`: so many bytes came. */
void throttled_took(struct throttled *throttled, size_t bytes);
/* Reads no more; no-op when it never did. */
void throttled_stop(struct throttled *throttled);

#endif
