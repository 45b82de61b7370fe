/* stream.h - the frames between the node and one worker, over one end of a socketpair.
 *
 * Frames to send are encoded straight into `out` and leave together when the loop is about to wait,
 * in one write. What arrives is cut into frames without copying. A malformed frame is told once;
 * what follows it is read and dropped. Used by worker.c. When: loop thread only; no event before
 * stream_open returned.
 */
#ifndef WORKERS_STREAM_H
#define WORKERS_STREAM_H

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"
#include "base/close_group.h"
#include "base/error.h"
#include "base/list.h"
#include "wire/messages.h"

/* Sends what the streams of one loop have to send. */
struct stream_flusher {
    uv_idle_t idle;
    struct list dirty;
};

struct stream_events {
    /* One frame, borrowed for the call. Not OK: it makes no sense, and counts as malformed. */
    enum status (*frame)(void *context, const struct wire_frame *frame, struct error *err);
    void (*malformed)(void *context, const struct error *why);
    /* Nothing more will arrive. */
    void (*ended)(void *context);
    /* Just before what was collected is sent: the last chance to add to `out`. */
    void (*sending)(void *context);
    /* What was collected is on its way, at least in part. Not called when the worker cannot get a
     * byte of it, because it closed its end. */
    void (*leaving)(void *context);
    /* All that was sent before has left. */
    void (*sent)(void *context);
    void *context;
};

struct stream {
    uv_pipe_t pipe;
    struct stream_flusher *flusher;
    struct stream_events events;
    struct list dirty; /* in the flusher's list */
    struct buf in, out;
    size_t room_bytes; /* of the next read */
    int writes;        /* under way */
    bool is_open, dropping, at_end;
};

void stream_flusher_init(struct stream_flusher *flusher, uv_loop_t *loop);
void stream_flusher_close(struct stream_flusher *flusher, struct close_group *group);

void stream_init(struct stream *stream, uv_loop_t *loop, struct stream_flusher *flusher,
                 const struct stream_events *events);
/* Ownership: takes `fd` when it returns OK. */
enum status stream_open(struct stream *stream, int fd, struct error *err) MUST_CHECK;

/* Where the next frame is to be appended, whole; it is sent soon. On a stream that is not open it
 * goes nowhere. */
struct buf *stream_out(struct stream *stream);
/* Asks for the `sending` event. */
void stream_touch(struct stream *stream);

/* Drops what was not sent. The memory goes with stream_finish, after the group is closed. */
void stream_close(struct stream *stream, struct close_group *group);
void stream_finish(struct stream *stream);

#endif
