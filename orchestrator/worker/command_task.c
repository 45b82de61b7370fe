/* command_task.c - payload, input and inputs are written as the texts that they are, from where they lie: the large parts of
 * a task are never copied together.
 */
#include "worker/command_task.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/remove_tree.h"
#include "worker/json_text.h"

enum { PARTS_OF_TASK = 8, SMALL_MAX_BYTES = 64 * 1024 * 1024, PARTS_AT_ONCE = 64 };

/* `small` has what is written here, in one piece after the other; the parts of it have no address until all of it is there. */
struct writer {
    struct buf small;
    size_t taken; /* of `small`, by parts */
    struct iovec *parts;
    size_t count;
};

static void end_small(struct writer *w) {
    w->parts[w->count++] = (struct iovec){NULL, w->small.length - w->taken};
    w->taken = w->small.length;
}

static void put_json(struct writer *w, const char *name, struct wire_bytes text, const char *absent) {
    buf_append_format(&w->small, ",\"%s\":", name);
    if (text.data == NULL) {
        buf_append_string(&w->small, absent);
        return;
    }
    end_small(w);
    w->parts[w->count++] = (struct iovec){(void *)(uintptr_t)text.data, text.length};
}

static void put_text(struct writer *w, const char *name, struct wire_bytes text) {
    buf_append_format(&w->small, "\"%s\":", name);
    json_text_quote(&w->small, text.data, text.length);
}

static void put_run(struct writer *w, const struct wire_run *run) {
    put_text(w, "key", run->key);
    buf_append_format(&w->small, ",\"version\":%" PRId64 ",\"attempt\":%d", run->version, (int)run->attempt);
    put_json(w, "payload", run->payload, "null");
    put_json(w, "input", run->input, "null");
    put_json(w, "inputs", run->inputs, "{}");
    if (run->has_progress) {
        buf_append_format(&w->small, ",\"progress\":{\"fraction\":%.17g,", run->progress);
        put_text(w, "message", run->progress_text);
        buf_append_char(&w->small, '}');
    }
}

static void put_call(struct writer *w, const struct wire_hello *hello, const struct engine_call *call) {
    buf_append_char(&w->small, '{');
    put_text(w, "pipeline", hello->pipeline);
    buf_append_char(&w->small, ',');
    put_text(w, "stage", hello->stage);
    put_json(w, "with", hello->config, "{}");
    buf_append_string(&w->small, hello->batch_size > 0 ? ",\"tasks\":[" : ",");
    for (size_t i = 0; i < call->count; i++) {
        if (hello->batch_size > 0) {
            buf_append_format(&w->small, "%s{\"id\":\"%" PRIu64 "\",", i > 0 ? "," : "", call->tasks[i].run->run);
        }
        put_run(w, call->tasks[i].run);
        if (hello->batch_size > 0) {
            buf_append_char(&w->small, '}');
        }
    }
    buf_append_string(&w->small, hello->batch_size > 0 ? "]}\n" : "}\n");
    end_small(w);
}

/* Gives the parts of `small` their addresses. Returns how much it is in all. */
static size_t place(struct writer *w) {
    char *at = w->small.data;
    size_t length = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (w->parts[i].iov_base == NULL) {
            w->parts[i].iov_base = at;
            at += w->parts[i].iov_len;
        }
        length += w->parts[i].iov_len;
    }
    return length;
}

static bool write_parts(int fd, struct iovec *parts, size_t count) {
    while (count > 0) {
        ssize_t written = writev(fd, parts, count < PARTS_AT_ONCE ? (int)count : PARTS_AT_ONCE);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        size_t left = written > 0 ? (size_t)written : 0;
        while (count > 0 && left >= parts->iov_len) {
            left -= parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + left;
            parts->iov_len -= left;
        }
    }
    return true;
}

static int open_for(bool in_file, const char *path) {
    if (!in_file) {
        return memfd_create("task", MFD_CLOEXEC);
    }
    if (remove_any(AT_FDCWD, path, NULL) != STATUS_OK) { /* whatever a program left there */
        errno = EEXIST;
        return -1;
    }
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static enum status store(struct writer *w, const char *path, struct command_task *written, struct error *err) {
    written->fd = open_for(written->in_file, path);
    if (written->fd >= 0 && write_parts(written->fd, w->parts, w->count) && lseek(written->fd, 0, SEEK_SET) == 0) {
        return STATUS_OK;
    }
    int saved_errno = errno;
    if (written->fd >= 0) {
        close(written->fd);
    }
    return error_set_errno(err, STATUS_UNAVAILABLE, saved_errno, "the task cannot be written to %s",
                           written->in_file ? path : "memory");
}

enum status command_task_write(const struct wire_hello *hello, const struct engine_call *call, const char *path,
                               bool must_be_file, struct command_task *written, struct error *err) {
    struct writer w = {.parts = mem_alloc((call->count * PARTS_OF_TASK + PARTS_OF_TASK) * sizeof *w.parts)};
    buf_init(&w.small, SMALL_MAX_BYTES);
    put_call(&w, hello, call);
    size_t length = place(&w);
    *written = (struct command_task){.in_file = must_be_file || length > COMMAND_TASK_MEMORY_MAX};
    enum status status = store(&w, path, written, err);
    buf_finish(&w.small);
    free(w.parts);
    return status;
}
