#include "rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/leaks.h"

extern char **environ;

enum { CHANNEL_FD = 3, LOCK_FD = 4 };

int64_t now_ms(void) {
    return clock_now_ms(&clock_boottime);
}

static struct wire_bytes bytes_of(const char *text) {
    return text == NULL ? (struct wire_bytes){0}
                        : (struct wire_bytes){text, (uint32_t)strlen(text)};
}

/* ---- starting and ending ---- */

struct watched watch_process(pid_t pid) {
    struct watched process = {.pid = pid, .pidfd = pidfd_open(pid, 0)};
    cr_assert_geq(process.pidfd, 0, "process %ld: %s", (long)pid, strerror(errno));
    return process;
}

bool ended_within(struct watched process, int64_t ms) {
    struct pollfd fd = {.fd = process.pidfd, .events = POLLIN};
    int64_t end = now_ms() + ms;
    for (;;) {
        int64_t left = end - now_ms();
        if (poll(&fd, 1, left > 0 ? (int)left : 0) == 1) {
            return true;
        }
        if (left <= 0) {
            return false;
        }
    }
}

static int open_null(void) {
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    return fd;
}

void rig_start(struct rig *rig) {
    rig_start_like(rig, &(struct rig_setup){0});
}

void rig_start_like(struct rig *rig, const struct rig_setup *setup) {
    leaks_fail_tests();
    int channel[2], out[2], err[2], null = open_null();
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(err, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, null, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    if (setup->foreign_fd != 0) {
        posix_spawn_file_actions_adddup2(&actions, setup->foreign_fd, setup->foreign_fd);
    }
    if (setup->lock_fd != 0) {
        posix_spawn_file_actions_adddup2(&actions, setup->lock_fd, LOCK_FD);
    } else {
        posix_spawn_file_actions_addclose(&actions, LOCK_FD);
    }
    posix_spawn_file_actions_adddup2(&actions, setup->without_socket ? null : channel[1],
                                     CHANNEL_FD);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t all; /* as libuv does it: a test may itself be run with signals ignored */
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
    char parent[24];
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    char *argv[] = {"pgstage-worker", setup->parent == NULL ? parent : (char *)setup->parent, NULL};
    pid_t pid;
    cr_assert_eq(posix_spawn(&pid, TEST_WORKER, &actions, &attributes, argv, environ), 0);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(channel[1]);
    close(out[1]);
    close(err[1]);
    close(null);
    rig_adopt(rig, pid, channel[0]);
    rig->outputs[0] = out[0];
    rig->outputs[1] = err[0];
}

void rig_adopt(struct rig *rig, pid_t pid, int node) {
    *rig =
        (struct rig){.pid = pid, .node = node, .outputs = {-1, -1}, .process = watch_process(pid)};
    buf_init(&rig->in, 2 * (size_t)WIRE_FRAME_MAX);
    buf_init(&rig->printed, WIRE_FRAME_MAX);
    buf_init(&rig->logged, WIRE_FRAME_MAX);
}

static void close_fd(int *fd) {
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

void rig_finish(struct rig *rig) {
    if (rig->pid > 0) {
        kill(-rig->pid, SIGKILL);
        waitpid(rig->pid, NULL, 0);
    }
    close_fd(&rig->node);
    close_fd(&rig->outputs[0]);
    close_fd(&rig->outputs[1]);
    close_fd(&rig->process.pidfd);
    buf_finish(&rig->in);
    buf_finish(&rig->printed);
    buf_finish(&rig->logged);
    rig->pid = 0;
}

/* ---- reading ---- */

static bool read_some(int *fd, struct buf *to) {
    static char chunk[256 * 1024];
    ssize_t got = read(*fd, chunk, sizeof chunk);
    if (got > 0) {
        buf_append(to, chunk, (size_t)got);
        return true;
    }
    close_fd(fd);
    return false;
}

/* Waits for bytes from anywhere, or the end of the process; all of it has happened when this
 * returns. */
static void read_any(struct rig *rig, int64_t deadline) {
    struct pollfd fds[] = {{.fd = rig->node, .events = POLLIN},
                           {.fd = rig->outputs[0], .events = POLLIN},
                           {.fd = rig->outputs[1], .events = POLLIN},
                           {.fd = rig->process.pidfd, .events = POLLIN}};
    int64_t left = deadline - now_ms();
    cr_assert_gt(left, 0, "nothing happened in %d ms; printed so far: %s; logged: %s", DEADLINE_MS,
                 rig->printed.data, rig->logged.data);
    poll(fds, 4, (int)left);
    if (fds[0].revents != 0) {
        read_some(&rig->node, &rig->in);
    }
    for (int i = 0; i < 2; i++) {
        if (fds[i + 1].revents != 0) {
            read_some(&rig->outputs[i], &rig->printed);
        }
    }
}

static void note_log(struct rig *rig, const struct wire_frame *frame) {
    struct wire_log log;
    cr_assert_eq(wire_get_log(frame, &log, NULL), STATUS_OK);
    buf_append(&rig->logged, log.text.data, log.text.length);
    if (log.fields.data != NULL) {
        buf_append_char(&rig->logged, ' ');
        buf_append(&rig->logged, log.fields.data, log.fields.length);
    }
    buf_append_char(&rig->logged, '\n');
}

static void note_progress(struct rig *rig, const struct wire_frame *frame) {
    struct wire_progress progress;
    cr_assert_eq(wire_get_progress(frame, &progress, NULL), STATUS_OK);
    rig->fraction = progress.fraction;
    rig->progress_count++;
}

/* AGAIN: what is there is no whole frame. LOG and PROGRESS are collected on the way. */
static enum status take_frame(struct rig *rig, struct wire_frame *frame, struct error *err) {
    for (;;) {
        enum status status =
            wire_next_frame(rig->in.data + rig->taken, rig->in.length - rig->taken, frame, err);
        if (status != STATUS_OK) {
            buf_drop_front(&rig->in, rig->taken);
            rig->taken = 0;
            return status;
        }
        rig->taken += frame->frame_length;
        if (frame->type == WIRE_LOG || frame->type == WIRE_NOTE) {
            note_log(rig, frame);
        } else if (frame->type == WIRE_PROGRESS) {
            note_progress(rig, frame);
        } else if (frame->type == WIRE_LAST) {
            cr_assert_eq(wire_get_last(frame, NULL), STATUS_OK);
            rig->said_last = true;
        } else {
            return STATUS_OK;
        }
    }
}

bool rig_next(struct rig *rig, struct wire_frame *frame) {
    int64_t deadline = now_ms() + DEADLINE_MS;
    struct error err = ERROR_NONE;
    enum status status;
    while ((status = take_frame(rig, frame, &err)) == STATUS_AGAIN && rig->node >= 0) {
        read_any(rig, deadline);
    }
    cr_assert(status == STATUS_OK || status == STATUS_AGAIN, "the worker sent %s", err.text);
    return status == STATUS_OK;
}

static void want_frame(struct rig *rig, enum wire_type type, struct wire_frame *frame) {
    cr_assert(rig_next(rig, frame), "the worker ended; it printed: %s", rig->printed.data);
    if (frame->type == WIRE_REFUSED && type != WIRE_REFUSED) {
        struct wire_refused refused;
        cr_assert_eq(wire_get_refused(frame, &refused, NULL), STATUS_OK);
        cr_assert_fail("refused: %s", refused.reason.data);
    }
    cr_assert_eq(frame->type, type, "a frame of type %d", (int)frame->type);
}

void rig_want_ready(struct rig *rig) {
    struct wire_frame frame;
    struct wire_ready ready;
    want_frame(rig, WIRE_READY, &frame);
    cr_assert_eq(wire_get_ready(&frame, &ready, NULL), STATUS_OK);
    cr_assert_eq(ready.minor, WIRE_MINOR);
    cr_assert_eq(ready.handler_abi, 1);
}

void rig_want_result(struct rig *rig, uint64_t run, struct wire_result *result) {
    struct wire_frame frame;
    want_frame(rig, WIRE_RESULT, &frame);
    cr_assert_eq(wire_get_result(&frame, result, NULL), STATUS_OK);
    cr_assert_eq(result->run, run);
}

void rig_want_output(struct rig *rig, uint64_t run, const char *output) {
    struct wire_result result;
    rig_want_result(rig, run, &result);
    cr_assert_eq(result.outcome, WIRE_OK, "%s", result.message.data);
    cr_assert_null(result.message.data);
    if (output == NULL) {
        cr_assert_null(result.output.data);
    } else {
        cr_assert_not_null(result.output.data);
        cr_assert_str_eq(result.output.data, output);
        cr_assert_eq(result.output.length, strlen(output));
    }
    wire_result_finish(&result);
}

void rig_want_failure(struct rig *rig, uint64_t run, enum wire_outcome outcome,
                      const char *message) {
    struct wire_result result;
    rig_want_result(rig, run, &result);
    cr_assert_eq(result.outcome, outcome);
    cr_assert_not_null(result.message.data);
    cr_assert_str_eq(result.message.data, message);
    cr_assert_null(result.output.data);
    cr_assert_eq(result.statement_count, 0);
    wire_result_finish(&result);
}

void rig_want_refused(struct rig *rig, const char *reason) {
    struct wire_frame frame;
    struct wire_refused refused;
    want_frame(rig, WIRE_REFUSED, &frame);
    cr_assert_eq(wire_get_refused(&frame, &refused, NULL), STATUS_OK);
    cr_assert_str_eq(refused.reason.data, reason);
    rig_want_exit(rig, 3);
}

/* A frame that came in the same read as the text is left for whoever wants it next. */
static void want_text(struct rig *rig, const struct buf *in, const char *text) {
    int64_t deadline = now_ms() + DEADLINE_MS;
    for (;;) {
        struct wire_frame frame;
        struct error err = ERROR_NONE;
        enum status status = take_frame(rig, &frame, &err);
        bool found = memmem(in->data, in->length, text, strlen(text)) != NULL;
        if (status == STATUS_OK) {
            cr_assert(found, "another frame came first");
            rig->taken -= frame.frame_length;
        }
        if (found) {
            return;
        }
        read_any(rig, deadline);
    }
}

void rig_want_logged(struct rig *rig, const char *text) {
    want_text(rig, &rig->logged, text);
}

void rig_want_printed(struct rig *rig, const char *text) {
    want_text(rig, &rig->printed, text);
}

pid_t rig_want_pid(struct rig *rig, const char *before) {
    rig_want_logged(rig, before);
    return (pid_t)atol(strstr(rig->logged.data, before) + strlen(before));
}

struct watched rig_want_process(struct rig *rig, const char *before) {
    return watch_process(rig_want_pid(rig, before));
}

struct watched rig_want_child(struct rig *rig) {
    return rig_want_process(rig, "child ");
}

int rig_wait(struct rig *rig) {
    int64_t deadline = now_ms() + DEADLINE_MS;
    int status;
    pid_t got;
    while ((got = waitpid(rig->pid, &status, WNOHANG)) == 0) {
        read_any(rig, deadline);
    }
    cr_assert_eq(got, rig->pid);
    rig->pid = 0;
    /* What it printed last; a child of its may hold these open still. */
    for (int i = 0; i < 2; i++) {
        struct pollfd fd = {.fd = rig->outputs[i], .events = POLLIN};
        while (rig->outputs[i] >= 0 && poll(&fd, 1, 0) == 1 &&
               read_some(&rig->outputs[i], &rig->printed)) {
        }
    }
    return status;
}

void rig_want_exit(struct rig *rig, int wanted) {
    int status = rig_wait(rig);
    cr_assert(WIFEXITED(status), "died of signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), wanted, "exit status %d; it printed: %s", WEXITSTATUS(status),
                 rig->printed.data);
}

void rig_want_signal(struct rig *rig, int wanted) {
    int status = rig_wait(rig);
    cr_assert(WIFSIGNALED(status), "exit status %d; it printed: %s", WEXITSTATUS(status),
              rig->printed.data);
    cr_assert_eq(WTERMSIG(status), wanted);
}

/* ---- writing ---- */

void rig_send_raw(struct rig *rig, const char *bytes, size_t length) {
    int64_t deadline = now_ms() + DEADLINE_MS;
    while (length > 0) {
        struct pollfd fd = {.fd = rig->node, .events = POLLOUT};
        int64_t left = deadline - now_ms();
        cr_assert_gt(left, 0, "the worker does not read");
        poll(&fd, 1, (int)left);
        ssize_t sent = send(rig->node, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            bytes += sent;
            length -= (size_t)sent;
        }
        cr_assert(sent > 0 || errno == EAGAIN, "%s", strerror(errno));
    }
}

void rig_send(struct rig *rig, const struct buf *frames) {
    rig_send_raw(rig, frames->data, frames->length);
}

#define SEND(PUT)                                                                                  \
    do {                                                                                           \
        struct buf out;                                                                            \
        buf_init(&out, WIRE_FRAME_MAX + WIRE_HEADER_BYTES);                                        \
        cr_assert_eq(PUT, STATUS_OK);                                                              \
        rig_send(rig, &out);                                                                       \
        buf_finish(&out);                                                                          \
    } while (0)

struct wire_hello rig_hello(const char *file, const char *handler) {
    return (struct wire_hello){.major = WIRE_MAJOR,
                               .minor = WIRE_MINOR,
                               .lease_end_ms = INT64_MAX,
                               .pipeline = bytes_of("library"),
                               .stage = bytes_of("extract"),
                               .handler_file = bytes_of(file),
                               .handler_name = bytes_of(handler),
                               .config = bytes_of("{}")};
}

void rig_say_hello(struct rig *rig, const struct wire_hello *hello) {
    rig->minor = hello->minor;
    SEND(wire_put_hello(&out, hello, NULL));
}

void rig_open(struct rig *rig, const char *handler) {
    struct wire_hello hello = rig_hello(HANDLERS, handler);
    rig_start(rig);
    rig_say_hello(rig, &hello);
    rig_want_ready(rig);
}

void rig_send_run(struct rig *rig, const struct wire_run *run) {
    enum { ADDED_BY_1_2 = 21 }; /* bytes at the end of a RUN that says nothing of it */
    struct buf out;
    buf_init(&out, WIRE_FRAME_MAX + WIRE_HEADER_BYTES);
    cr_assert_eq(wire_put_run(&out, run, NULL), STATUS_OK);
    if (rig->minor < WIRE_MINOR_ENGINES) {
        out.length -= ADDED_BY_1_2;
        uint32_t body = (uint32_t)(out.length - WIRE_HEADER_BYTES);
        for (int i = 0; i < 4; i++) {
            out.data[i] = (char)(unsigned char)(body >> (8 * i));
        }
    }
    rig_send(rig, &out);
    buf_finish(&out);
}

void rig_run(struct rig *rig, uint64_t run, const char *payload) {
    rig_send_run(rig, &(struct wire_run){.run = run,
                                         .lease_end_ms = INT64_MAX,
                                         .version = 1,
                                         .attempt = 1,
                                         .key = bytes_of("doc"),
                                         .payload = bytes_of(payload)});
}

void rig_tell(struct rig *rig, uint64_t run, bool cancelled, bool superseded) {
    struct wire_tell tell = {.run = run, .cancelled = cancelled, .superseded = superseded};
    SEND(wire_put_tell(&out, &tell, NULL));
}

void rig_beat(struct rig *rig, int64_t lease_end_ms) {
    struct wire_beat beat = {.lease_end_ms = lease_end_ms};
    SEND(wire_put_beat(&out, &beat, NULL));
}

void rig_stop(struct rig *rig) {
    SEND(wire_put_stop(&out, NULL));
}
