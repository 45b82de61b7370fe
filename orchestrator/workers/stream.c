/* channel.c - reading and writing frames.
 *
 * An idle handle sends, not a prepare handle: while one is active the loop does not wait, so that a
 * frame which another module's prepare or check callback makes is not left until the next event. A
 * frame that is large goes into a buffer of its own, so that no payload is copied again when the
 * buffer grows.
 */
#include "workers/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/require.h"

enum {
    ROOM_MIN_BYTES = 4 * 1024, /* room for one read: small answers shall not pay for large ones */
    ROOM_MAX_BYTES = 256 * 1024,
    IN_KEEP_BYTES = 1024 * 1024, /* a larger buffer is given back once it is empty */
    OUT_JOIN_BYTES = 64 * 1024,  /* more than this in `out` is sent before a frame is added */
};
static const size_t in_max = (size_t)WIRE_FRAME_MAX + WIRE_HEADER_BYTES + ROOM_MAX_BYTES;
static const size_t out_max =
    (size_t)WIRE_FRAME_MAX + WIRE_HEADER_BYTES + (size_t)OUT_JOIN_BYTES * 2;

/* One write under way, with the bytes it sends. */
struct stream_write {
    uv_write_t request;
    struct stream *channel;
    char *bytes;
};

/* ---- sending -------------------------------------------------------------------------------- */

static void on_written(uv_write_t *request, int status) {
    struct stream_write *written = request->data;
    struct stream *channel = written->channel;
    free(written->bytes);
    free(written);
    channel->writes--;
    /* A failed write says only that the worker is going; the end of its pipe will tell. */
    if (status == 0 && channel->writes == 0 && channel->is_open) {
        channel->events.sent(channel->events.context);
    }
}

static void send_out(struct stream *channel) {
    size_t length = channel->out.length;
    if (length == 0) {
        return;
    }
    REQUIRE(!channel->out.overflow);
    struct stream_write *new_write = mem_alloc(sizeof *new_write);
    *new_write = (struct stream_write){.channel = channel, .bytes = buf_take(&channel->out)};
    new_write->request.data = new_write;
    uv_buf_t bytes = {.base = new_write->bytes, .len = length};
    int failed =
        uv_write(&new_write->request, (uv_stream_t *)&channel->pipe, &bytes, 1, on_written);
    if (failed != 0) {
        free(new_write->bytes);
        free(new_write);
        return;
    }
    channel->writes++;
}

static void on_idle(uv_idle_t *idle) {
    struct stream_flusher *flusher = idle->data;
    while (!list_is_empty(&flusher->dirty)) {
        struct stream *channel = LIST_ENTRY(flusher->dirty.next, struct stream, dirty);
        list_remove(&channel->dirty);
        channel->events.sending(channel->events.context);
        list_remove(&channel->dirty); /* `sending` may have touched it */
        send_out(channel);
    }
    uv_idle_stop(idle);
}

void stream_flusher_init(struct stream_flusher *flusher, uv_loop_t *loop) {
    list_init(&flusher->dirty);
    uv_idle_init(loop, &flusher->idle);
    flusher->idle.data = flusher;
}

void stream_flusher_close(struct stream_flusher *flusher, struct close_group *group) {
    REQUIRE(list_is_empty(&flusher->dirty));
    close_group_add(group, (uv_handle_t *)&flusher->idle);
}

void stream_touch(struct stream *channel) {
    if (channel->is_open && list_is_empty(&channel->dirty)) {
        list_append(&channel->flusher->dirty, &channel->dirty);
        uv_idle_start(&channel->flusher->idle, on_idle);
    }
}

struct buf *stream_out(struct stream *channel) {
    if (!channel->is_open) {
        buf_clear(&channel->out);
    } else if (channel->out.length > OUT_JOIN_BYTES) {
        send_out(channel);
    }
    stream_touch(channel);
    return &channel->out;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void condemn(struct stream *channel, const struct error *why) {
    channel->dropping = true;
    channel->events.malformed(channel->events.context, why);
}

/* Hands on the whole frames in `in` and removes them. */
static void cut_frames(struct stream *channel) {
    size_t done = 0;
    while (!channel->dropping) {
        struct wire_frame frame;
        struct error err = ERROR_NONE;
        enum status code =
            wire_next_frame(channel->in.data + done, channel->in.length - done, &frame, &err);
        if (code == STATUS_AGAIN) {
            break;
        }
        if (code == STATUS_OK) {
            done += frame.frame_length;
            code = channel->events.frame(channel->events.context, &frame, &err);
        }
        if (code != STATUS_OK) {
            condemn(channel, &err);
        }
    }
    buf_drop_front(&channel->in, channel->dropping ? channel->in.length : done);
    if (channel->in.length == 0 && channel->in.capacity > IN_KEEP_BYTES) {
        buf_finish(&channel->in);
        buf_init(&channel->in, in_max);
    }
}

static void end(struct stream *channel) {
    if (channel->at_end) {
        return;
    }
    /* Half a frame at the end is no fault of its own: how the process ended says more. */
    channel->at_end = true;
    uv_read_stop((uv_stream_t *)&channel->pipe);
    channel->events.ended(channel->events.context);
}

static void on_room_wanted(uv_handle_t *handle, size_t suggested, uv_buf_t *room) {
    (void)suggested;
    struct stream *channel = handle->data;
    room->base = buf_reserve(&channel->in, channel->room_bytes);
    room->len = room->base != NULL ? channel->room_bytes : 0;
}

/* The next read gets more room when this one filled it, and less when most of it was empty. */
static void adapt_room(struct stream *channel, size_t count) {
    if (count == channel->room_bytes && channel->room_bytes < ROOM_MAX_BYTES) {
        channel->room_bytes *= 4;
    } else if (count < channel->room_bytes / 16 && channel->room_bytes > ROOM_MIN_BYTES) {
        channel->room_bytes /= 4;
    }
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *room) {
    (void)room;
    struct stream *channel = stream->data;
    if (count < 0) {
        end(channel);
    } else if (count > 0) {
        channel->in.length += (size_t)count;
        adapt_room(channel, (size_t)count);
        cut_frames(channel);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

void stream_init(struct stream *channel, uv_loop_t *loop, struct stream_flusher *flusher,
                  const struct stream_events *events) {
    *channel =
        (struct stream){.flusher = flusher, .events = *events, .room_bytes = ROOM_MIN_BYTES};
    list_init(&channel->dirty);
    buf_init(&channel->in, in_max);
    buf_init(&channel->out, out_max);
    uv_pipe_init(loop, &channel->pipe, 0);
    channel->pipe.data = channel;
}

enum status stream_open(struct stream *channel, int fd, struct error *err) {
    int failed = uv_pipe_open(&channel->pipe, fd);
    if (failed != 0) {
        return error_set(err, STATUS_UNAVAILABLE, "uv_pipe_open: %s", uv_strerror(failed));
    }
    failed = uv_read_start((uv_stream_t *)&channel->pipe, on_room_wanted, on_read);
    REQUIRE(failed == 0);
    channel->is_open = true;
    return STATUS_OK;
}

void stream_close(struct stream *channel, struct close_group *group) {
    channel->is_open = false;
    list_remove(&channel->dirty);
    close_group_add(group, (uv_handle_t *)&channel->pipe);
}

void stream_finish(struct stream *channel) {
    REQUIRE(channel->writes == 0);
    buf_finish(&channel->in);
    buf_finish(&channel->out);
}
