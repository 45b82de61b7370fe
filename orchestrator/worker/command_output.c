#include "worker/command_output.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/utf8.h"

enum { CHUNK_BYTES = 64 * 1024, ERROR_KEPT_BYTES = 8 * 1024, PASSED_ON_MAX_BYTES = 64 * 1024, LINE_MAX_BYTES = 4000 };

static void close_fd(int *fd) {
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* Only our end does not block. */
static bool open_pipe(int *ours, int *theirs) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *ours = ends[0];
    *theirs = ends[1];
    return true;
}

enum status command_output_open(struct command_output *output, bool keep, struct child_setup *setup,
                                struct error *err) {
    *output = (struct command_output){.out = -1, .error = -1};
    buf_init(&output->text, COMMAND_OUTPUT_MAX);
    buf_init(&output->error_end, ERROR_KEPT_BYTES + CHUNK_BYTES);
    setup->output = STDOUT_FILENO;
    setup->error = STDERR_FILENO;
    if ((keep && !open_pipe(&output->out, &setup->output)) || !open_pipe(&output->error, &setup->error)) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "no pipe can be made");
    }
    return STATUS_OK;
}

void command_output_close_child(const struct command_output *output, const struct child_setup *setup) {
    if (output->out >= 0) {
        close(setup->output);
    }
    if (output->error >= 0) {
        close(setup->error);
    }
}

void command_output_finish(struct command_output *output) {
    close_fd(&output->out);
    close_fd(&output->error);
    buf_finish(&output->text);
    buf_finish(&output->error_end);
}

/* ---- reading ---- */

static void write_all(int fd, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        } else if (errno != EINTR) {
            return; /* nobody reads the log: no reason to fail a task */
        }
    }
}

static void keep_out(struct command_output *output, const char *bytes, size_t length) {
    size_t room = COMMAND_OUTPUT_MAX - output->text.length;
    output->length += length;
    buf_append(&output->text, bytes, length < room ? length : room);
}

static void keep_error(struct command_output *output, const char *bytes, size_t length) {
    write_all(STDERR_FILENO, bytes, length);
    buf_append(&output->error_end, bytes, length);
    if (output->error_end.length > ERROR_KEPT_BYTES) {
        buf_drop_front(&output->error_end, output->error_end.length - ERROR_KEPT_BYTES);
    }
}

/* False: nothing is there now, or ever. */
static bool read_some(struct command_output *output, int *fd,
                      void (*keep)(struct command_output *output, const char *bytes, size_t length)) {
    static char chunk[CHUNK_BYTES];
    ssize_t got = read(*fd, chunk, sizeof chunk);
    if (got > 0) {
        keep(output, chunk, (size_t)got);
        return true;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_fd(fd);
    }
    return false;
}

/* poll ignores descriptors below 0. */
static void read_until_ended(struct command_output *output, int pidfd) {
    struct pollfd fds[3];
    do {
        fds[0] = (struct pollfd){.fd = output->out, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = output->error, .events = POLLIN};
        fds[2] = (struct pollfd){.fd = pidfd, .events = POLLIN};
        if (poll(fds, 3, -1) < 0) {
            fds[2].revents = 0; /* SIGTERM, which the child has got, too */
            continue;
        }
        if (fds[0].revents != 0) {
            read_some(output, &output->out, keep_out);
        }
        if (fds[1].revents != 0) {
            read_some(output, &output->error, keep_error);
        }
    } while (fds[2].revents == 0);
}

enum status command_output_read(struct command_output *output, pid_t pid, struct child_end *end, struct error *err) {
    int pidfd = pidfd_open(pid, 0), saved_errno = errno;
    if (pidfd < 0) {
        kill(pid, SIGKILL);
    } else {
        read_until_ended(output, pidfd);
        close(pidfd);
    }
    *end = child_reap(pid);
    while (output->out >= 0 && read_some(output, &output->out, keep_out)) {
    }
    while (output->error >= 0 && read_some(output, &output->error, keep_error)) {
    }
    return pidfd >= 0 ? STATUS_OK
                      : error_set_errno(err, STATUS_UNAVAILABLE, saved_errno, "the program cannot be watched");
}

/* ---- what it says ---- */

void command_output_pass_on(const struct command_output *output) {
    size_t length = output->text.length < PASSED_ON_MAX_BYTES ? output->text.length : PASSED_ON_MAX_BYTES;
    write_all(STDOUT_FILENO, output->text.data + output->text.length - length, length);
    if (length > 0 && output->text.data[output->text.length - 1] != '\n') {
        write_all(STDOUT_FILENO, "\n", 1); /* what comes next is a line of its own */
    }
}

void command_output_last_line(const struct command_output *output, struct buf *line) {
    const char *from = output->error_end.data, *end = from + output->error_end.length;
    while (end > from && isspace((unsigned char)end[-1])) {
        end--;
    }
    const char *start = end;
    while (start > from && start[-1] != '\n' && start[-1] != '\r') {
        start--;
    }
    utf8_sanitize(line, start, (size_t)(end - start), LINE_MAX_BYTES);
}
