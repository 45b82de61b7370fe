#include "worker/program_pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "worker/inbox.h"

enum { CHUNK_BYTES = 64 * 1024, KEPT_BUFFER_BYTES = 1024 * 1024, TERM_WAIT_MS = 1000, READS_AFTER_END_MAX = 64 };

static void close_fd(int *fd) {
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* ---- start ---- */

/* A write to a program that is gone is no reason for this process to end. */
static void hold_sigpipe(void) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, NULL);
}

static enum status make_pipes(int in[2], int out[2], struct error *err) {
    if (pipe2(in, O_CLOEXEC) != 0) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "cannot make a pipe");
    }
    if (pipe2(out, O_CLOEXEC) != 0) {
        int saved_errno = errno;
        close(in[0]);
        close(in[1]);
        return error_set_errno(err, STATUS_UNAVAILABLE, saved_errno, "cannot make a pipe");
    }
    return STATUS_OK;
}

enum status program_start(struct program *program, struct child_setup *setup, struct error *err) {
    int in[2], out[2];
    if (make_pipes(in, out, err) != STATUS_OK) {
        return err->code;
    }
    *program = (struct program){.pidfd = -1, .in = in[1], .out = out[0]};
    buf_init(&program->said, (size_t)PROGRAM_LINE_MAX + 2 * CHUNK_BYTES);
    buf_init(&program->unsent, SIZE_MAX);
    fcntl(program->in, F_SETFL, O_NONBLOCK);
    fcntl(program->out, F_SETFL, O_NONBLOCK);
    hold_sigpipe();
    setup->input = in[0];
    setup->output = out[1];
    setup->error = STDERR_FILENO;
    enum status status = child_start(setup, &program->pid, err);
    close(in[0]);
    close(out[1]);
    if (status == STATUS_OK) {
        program->pidfd = pidfd_open(program->pid, 0);
        return STATUS_OK;
    }
    program->pid = 0;
    program_end(program, 0);
    return status;
}

/* ---- to the program ---- */

void program_say(struct program *program, const struct buf *text) {
    if (program->in < 0) {
        return; /* it closed its end */
    }
    buf_append(&program->unsent, text->data, text->length);
    buf_append_char(&program->unsent, '\n');
}

static size_t unsent_bytes(const struct program *program) {
    return program->in >= 0 ? program->unsent.length - program->sent : 0;
}

static void drop_sigpipe(void) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigtimedwait(&pipe, NULL, &(struct timespec){0});
}

static void empty(struct buf *buf, size_t max) {
    if (buf->capacity > KEPT_BUFFER_BYTES) {
        buf_finish(buf);
        buf_init(buf, max);
    }
    buf_clear(buf);
}

static void write_some(struct program *program) {
    ssize_t sent = write(program->in, program->unsent.data + program->sent, unsent_bytes(program));
    if (sent >= 0) {
        program->sent += (size_t)sent;
    } else if (errno != EAGAIN && errno != EINTR) {
        drop_sigpipe(); /* it closed its standard input, or is gone: its end, or its silence, tells which */
        close_fd(&program->in);
    }
    if (unsent_bytes(program) == 0) {
        empty(&program->unsent, SIZE_MAX);
        program->sent = 0;
    }
}

/* ---- from the program ---- */

static void drop_taken(struct program *program) {
    if (program->taken == program->said.length) {
        empty(&program->said, program->said.max);
    } else if (program->taken > 0) {
        buf_drop_front(&program->said, program->taken);
    }
    program->searched -= program->taken;
    program->taken = 0;
}

/* False: there is no more for now, or for ever. */
static bool read_some(struct program *program) {
    if (program_unfinished(program) > PROGRAM_LINE_MAX) {
        return false;
    }
    char *to = buf_reserve(&program->said, CHUNK_BYTES);
    ssize_t got = to == NULL ? -1 : read(program->out, to, CHUNK_BYTES);
    if (got > 0) {
        program->said.length += (size_t)got;
        return true;
    }
    if (got == 0) {
        close_fd(&program->out);
    }
    return false;
}

bool program_take_line(struct program *program, const char **line, size_t *length) {
    const char *from = program->said.data + program->searched, *begin = program->said.data + program->taken;
    const char *newline = memchr(from, '\n', program->said.length - program->searched);
    if (newline == NULL) {
        program->searched = program->said.length;
        return false;
    }
    *line = begin;
    *length = (size_t)(newline - begin);
    program->taken = program->searched = (size_t)(newline + 1 - program->said.data);
    return true;
}

size_t program_unfinished(const struct program *program) {
    return program->said.length - program->taken;
}

/* ---- both ---- */

void program_step(struct program *program, int wait_ms) {
    drop_taken(program);
    struct pollfd fds[] = {{.fd = program->out, .events = POLLIN},
                           {.fd = unsent_bytes(program) > 0 ? program->in : -1, .events = POLLOUT},
                           {.fd = program->pidfd, .events = POLLIN},
                           {.fd = inbox_notice_fd(), .events = POLLIN}};
    if (poll(fds, 4, wait_ms) <= 0) {
        return;
    }
    if (fds[1].revents != 0) {
        write_some(program);
    }
    bool got = fds[0].revents != 0 && read_some(program);
    if (fds[2].revents != 0) {
        /* What it left in the pipe is its word, too; what a child of its goes on writing is not. */
        program->has_ended = !got || ++program->reads_after_end > READS_AFTER_END_MAX;
    }
}

/* ---- end ---- */

/* Returns whether it ended in that time. */
static bool wait_for_end(struct program *program, int64_t ms) {
    int64_t end = clock_now_ms(&clock_boottime) + ms, left = ms;
    while (left > 0) {
        if (unsent_bytes(program) == 0) {
            close_fd(&program->in);
        }
        struct pollfd fds[] = {{.fd = program->out, .events = POLLIN},
                               {.fd = unsent_bytes(program) > 0 ? program->in : -1, .events = POLLOUT},
                               {.fd = program->pidfd, .events = POLLIN}};
        poll(fds, 3, (int)left);
        if (fds[1].revents != 0) {
            write_some(program);
        }
        if (fds[0].revents != 0) {
            empty(&program->said, program->said.max);
            read_some(program);
        }
        if (fds[2].revents != 0) {
            return true;
        }
        left = end - clock_now_ms(&clock_boottime);
    }
    return false;
}

struct child_end program_end(struct program *program, int64_t patience_ms) {
    struct child_end end = {0};
    program->taken = program->searched = 0;
    if (program->pid > 0) {
        program->was_killed = !program->has_ended && !wait_for_end(program, patience_ms);
        if (program->was_killed && patience_ms > 0) {
            kill(program->pid, SIGTERM);
            wait_for_end(program, TERM_WAIT_MS);
        }
        kill(program->pid, SIGKILL);
        end = child_reap(program->pid);
    }
    program->pid = 0;
    close_fd(&program->pidfd);
    close_fd(&program->in);
    close_fd(&program->out);
    buf_finish(&program->said);
    buf_finish(&program->unsent);
    program->said = program->unsent = (struct buf){0};
    return end;
}
