/* stream.c - reading and writing frames.
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
    struct stream *stream;
    char *bytes;
};

/* ---- sending -------------------------------------------------------------------------------- */

static void on_written(uv_write_t *request, int status) {
    struct stream_write *written = request->data;
    struct stream *stream = written->stream;
    free(written->bytes);
    free(written);
    stream->writes--;
    /* A failed write says only that the worker is going; the end of its pipe will tell. */
    if (status == 0 && stream->writes == 0 && stream->is_open) {
        stream->events.sent(stream->events.context);
    }
}

/* Sends what is left of `out`, in the background. */
static void queue_out(struct stream *stream, size_t done) {
    size_t length = stream->out.length;
    struct stream_write *queued = mem_alloc(sizeof *queued);
    *queued = (struct stream_write){.stream = stream, .bytes = buf_take(&stream->out)};
    queued->request.data = queued;
    uv_buf_t rest = {.base = queued->bytes + done, .len = length - done};
    if (uv_write(&queued->request, (uv_stream_t *)&stream->pipe, &rest, 1, on_written) != 0) {
        free(queued->bytes);
        free(queued);
        return;
    }
    stream->writes++;
}

static void empty_out(struct stream *stream) {
    if (stream->out.capacity > (size_t)OUT_JOIN_BYTES * 2) {
        buf_finish(&stream->out);
        buf_init(&stream->out, out_max);
    } else {
        buf_clear(&stream->out);
    }
}

static void send_out(struct stream *stream) {
    if (stream->out.length == 0) {
        return;
    }
    REQUIRE(!stream->out.overflow);
    uv_buf_t all = {.base = stream->out.data, .len = stream->out.length};
    int done = uv_try_write((uv_stream_t *)&stream->pipe, &all, 1);
    if (done < 0 && done != UV_EAGAIN) {
        empty_out(stream);
        return;
    }
    stream->events.leaving(stream->events.context);
    if (done >= 0 && (size_t)done == all.len) {
        empty_out(stream);
    } else {
        queue_out(stream, done > 0 ? (size_t)done : 0);
    }
}

static void on_idle(uv_idle_t *idle) {
    struct stream_flusher *flusher = idle->data;
    while (!list_is_empty(&flusher->dirty)) {
        struct stream *stream = LIST_ENTRY(flusher->dirty.next, struct stream, dirty);
        list_remove(&stream->dirty);
        stream->events.sending(stream->events.context);
        list_remove(&stream->dirty); /* `sending` may have touched it */
        send_out(stream);
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

void stream_touch(struct stream *stream) {
    if (stream->is_open && list_is_empty(&stream->dirty)) {
        list_append(&stream->flusher->dirty, &stream->dirty);
        uv_idle_start(&stream->flusher->idle, on_idle);
    }
}

struct buf *stream_out(struct stream *stream) {
    if (!stream->is_open) {
        buf_clear(&stream->out);
    } else if (stream->out.length > OUT_JOIN_BYTES) {
        send_out(stream);
    }
    stream_touch(stream);
    return &stream->out;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void condemn(struct stream *stream, const struct error *why) {
    stream->dropping = true;
    stream->events.malformed(stream->events.context, why);
}

/* Hands on the whole frames in `in` and removes them. */
static void cut_frames(struct stream *stream) {
    size_t done = 0;
    while (!stream->dropping) {
        struct wire_frame frame;
        struct error err = ERROR_NONE;
        enum status code =
            wire_next_frame(stream->in.data + done, stream->in.length - done, &frame, &err);
        if (code == STATUS_AGAIN) {
            break;
        }
        if (code == STATUS_OK) {
            done += frame.frame_length;
            code = stream->events.frame(stream->events.context, &frame, &err);
        }
        if (code != STATUS_OK) {
            condemn(stream, &err);
        }
    }
    buf_drop_front(&stream->in, stream->dropping ? stream->in.length : done);
    if (stream->in.length == 0 && stream->in.capacity > IN_KEEP_BYTES) {
        buf_finish(&stream->in);
        buf_init(&stream->in, in_max);
    }
}

static void end(struct stream *stream) {
    if (stream->at_end) {
        return;
    }
    /* Half a frame at the end is no fault of its own: how the process ended says more. */
    stream->at_end = true;
    uv_read_stop((uv_stream_t *)&stream->pipe);
    stream->events.ended(stream->events.context);
}

static void on_room_wanted(uv_handle_t *handle, size_t suggested, uv_buf_t *room) {
    (void)suggested;
    struct stream *stream = handle->data;
    room->base = buf_reserve(&stream->in, stream->room_bytes);
    room->len = room->base != NULL ? stream->room_bytes : 0;
}

/* The next read gets more room when this one filled it, and less when most of it was empty. */
static void adapt_room(struct stream *stream, size_t count) {
    if (count == stream->room_bytes && stream->room_bytes < ROOM_MAX_BYTES) {
        stream->room_bytes *= 4;
    } else if (count < stream->room_bytes / 16 && stream->room_bytes > ROOM_MIN_BYTES) {
        stream->room_bytes /= 4;
    }
}

static void on_read(uv_stream_t *pipe, ssize_t count, const uv_buf_t *room) {
    (void)room;
    struct stream *stream = pipe->data;
    if (count < 0) {
        end(stream);
    } else if (count > 0) {
        stream->in.length += (size_t)count;
        adapt_room(stream, (size_t)count);
        cut_frames(stream);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

void stream_init(struct stream *stream, uv_loop_t *loop, struct stream_flusher *flusher,
                 const struct stream_events *events) {
    *stream = (struct stream){.flusher = flusher, .events = *events, .room_bytes = ROOM_MIN_BYTES};
    list_init(&stream->dirty);
    buf_init(&stream->in, in_max);
    buf_init(&stream->out, out_max);
    uv_pipe_init(loop, &stream->pipe, 0);
    stream->pipe.data = stream;
}

enum status stream_open(struct stream *stream, int fd, struct error *err) {
    int failed = uv_pipe_open(&stream->pipe, fd);
    if (failed != 0) {
        return error_set(err, STATUS_UNAVAILABLE, "uv_pipe_open: %s", uv_strerror(failed));
    }
    failed = uv_read_start((uv_stream_t *)&stream->pipe, on_room_wanted, on_read);
    REQUIRE(failed == 0);
    stream->is_open = true;
    return STATUS_OK;
}

void stream_close(struct stream *stream, struct close_group *group) {
    stream->is_open = false;
    list_remove(&stream->dirty);
    close_group_add(group, (uv_handle_t *)&stream->pipe);
}

void stream_finish(struct stream *stream) {
    REQUIRE(stream->writes == 0);
    buf_finish(&stream->in);
    buf_finish(&stream->out);
}
