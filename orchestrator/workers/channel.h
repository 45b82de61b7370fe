/* channel.h - the frames between the node and one worker, over one end of a socketpair.
 *
 * Frames to send are encoded straight into `out` and leave together when the loop is about to wait, in one write. What
 * arrives is cut into frames without copying. A malformed frame is told once; what follows it is read and dropped. Used by
 * worker.c. When: loop thread only; no event before channel_open returned.
 */
#ifndef WORKERS_CHANNEL_H
#define WORKERS_CHANNEL_H

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"
#include "base/close_group.h"
#include "base/error.h"
#include "base/list.h"
#include "wire/messages.h"

/* Sends what the channels of one loop have to send. */
struct channel_flusher {
    uv_idle_t idle;
    struct list dirty;
};

struct channel_events {
    /* One frame, borrowed for the call. Not OK: it makes no sense, and counts as malformed. */
    enum status (*frame)(void *context, const struct wire_frame *frame, struct error *err);
    void (*malformed)(void *context, const struct error *why);
    /* Nothing more will arrive. */
    void (*ended)(void *context);
    /* Just before what was collected is sent: the last chance to add to `out`. */
    void (*sending)(void *context);
    /* All that was sent before has left. */
    void (*sent)(void *context);
    void *context;
};

struct channel {
    uv_pipe_t pipe;
    struct channel_flusher *flusher;
    struct channel_events events;
    struct list dirty; /* in the flusher's list */
    struct buf in, out;
    size_t room_bytes; /* of the next read */
    int writes; /* under way */
    bool is_open, dropping, at_end;
};

void channel_flusher_init(struct channel_flusher *flusher, uv_loop_t *loop);
void channel_flusher_close(struct channel_flusher *flusher, struct close_group *group);

void channel_init(struct channel *channel, uv_loop_t *loop, struct channel_flusher *flusher,
                  const struct channel_events *events);
/* Ownership: takes `fd` when it returns OK. */
enum status channel_open(struct channel *channel, int fd, struct error *err) MUST_CHECK;

/* Where the next frame is to be appended, whole; it is sent soon. On a channel that is not open it goes nowhere. */
struct buf *channel_out(struct channel *channel);
/* Asks for the `sending` event. */
void channel_touch(struct channel *channel);

/* Drops what was not sent. The memory goes with channel_finish, after the group is closed. */
void channel_close(struct channel *channel, struct close_group *group);
void channel_finish(struct channel *channel);

#endif
