#include "cli/conform_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { LINE_MAX_BYTES = 256 * 1024 * 1024, CHUNK_BYTES = 256 * 1024, LOOK_MS = 10 };

extern char **environ;

int64_t program_now_ms(void) {
    return clock_now_ms(&clock_boottime);
}

static void close_fd(int *fd) {
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* ---- start and end ---- */

/* As in a stage, whose pipeline's folder is this one: a name without a slash is looked for here first, then in PATH. */
static int start(pid_t *pid, char *const *argv, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes) {
    struct stat found;
    bool is_here = strchr(argv[0], '/') == NULL && stat(argv[0], &found) == 0 && S_ISREG(found.st_mode);
    if (is_here && access(argv[0], X_OK) == 0) {
        return posix_spawn(pid, argv[0], actions, attributes, argv, environ);
    }
    return posix_spawnp(pid, argv[0], actions, attributes, argv, environ);
}

static int spawn(pid_t *pid, char *const *argv, int in, int out) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    int code = start(pid, argv, &actions, &attributes);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

enum status program_start(struct program *program, char *const *argv, struct error *err) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "cannot make a pipe");
    }
    if (pipe2(out, O_CLOEXEC) != 0) {
        int code = errno;
        close(in[0]);
        close(in[1]);
        return error_set_errno(err, STATUS_INTERNAL, code, "cannot make a pipe");
    }
    *program = (struct program){.in = in[1], .out = out[0]};
    int code = spawn(&program->pid, argv, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    buf_init(&program->said, (size_t)LINE_MAX_BYTES + CHUNK_BYTES);
    fcntl(program->in, F_SETFL, O_NONBLOCK);
    if (code != 0) {
        program->pid = 0;
        program_kill(program);
        return error_set_errno(err, STATUS_NOT_FOUND, code, "cannot start %s", argv[0]);
    }
    return STATUS_OK;
}

void program_kill(struct program *program) {
    if (program->said.data == NULL) {
        return;
    }
    if (program->pid > 0) {
        kill(-program->pid, SIGKILL);
        waitpid(program->pid, NULL, 0);
    }
    close_fd(&program->in);
    close_fd(&program->out);
    buf_finish(&program->said);
    *program = (struct program){0};
}

/* ---- bytes ---- */

static void read_some(struct program *program) {
    static char chunk[CHUNK_BYTES];
    ssize_t got = read(program->out, chunk, sizeof chunk);
    if (got > 0) {
        buf_append(&program->said, chunk, (size_t)got);
    } else if (got == 0 || errno != EINTR) {
        close_fd(&program->out);
    }
}

/* Waits until the program can take more, or said something, which is read then. */
static void move_bytes(struct program *program, bool wants_to_write, int64_t deadline_ms, int at_most_ms) {
    int64_t left = deadline_ms - program_now_ms();
    left = left > at_most_ms ? at_most_ms : left > 0 ? left : 0;
    bool full = program->said.length > LINE_MAX_BYTES;
    struct pollfd fds[] = {{.fd = full ? -1 : program->out, .events = POLLIN},
                           {.fd = wants_to_write ? program->in : -1, .events = POLLOUT}};
    if (poll(fds, 2, (int)left) > 0 && fds[0].revents != 0) {
        read_some(program);
    }
}

bool program_write(struct program *program, const char *bytes, size_t length, int64_t deadline_ms) {
    while (length > 0 && program->in >= 0 && program_now_ms() < deadline_ms) {
        ssize_t sent = write(program->in, bytes, length);
        if (sent > 0) {
            bytes += sent;
            length -= (size_t)sent;
        } else if (errno == EAGAIN) {
            move_bytes(program, true, deadline_ms, INT32_MAX);
        } else if (errno != EINTR) {
            close_fd(&program->in);
        }
    }
    return length == 0;
}

void program_close_input(struct program *program) {
    close_fd(&program->in);
}

/* ---- lines ---- */

static bool take_line(struct program *program, struct buf *line) {
    struct buf *said = &program->said;
    const char *from = said->data + program->searched;
    const char *newline = memchr(from, '\n', said->length - program->searched);
    if (newline == NULL) {
        program->searched = said->length;
        return false;
    }
    size_t length = (size_t)(newline - said->data);
    buf_clear(line);
    buf_append(line, said->data, length);
    buf_drop_front(said, length + 1);
    program->searched = 0;
    return true;
}

enum program_read program_read_line(struct program *program, struct buf *line, int64_t deadline_ms) {
    for (;;) {
        if (take_line(program, line)) {
            return PROGRAM_LINE;
        }
        if (program->said.length > LINE_MAX_BYTES) {
            return PROGRAM_FLOOD;
        }
        if (program->out < 0) {
            return PROGRAM_END;
        }
        if (program_now_ms() >= deadline_ms) {
            return PROGRAM_SILENT;
        }
        move_bytes(program, false, deadline_ms, INT32_MAX);
    }
}

bool program_wait(struct program *program, int *status, int64_t deadline_ms) {
    pid_t got;
    while ((got = waitpid(program->pid, status, WNOHANG)) == 0 && program_now_ms() < deadline_ms) {
        move_bytes(program, false, deadline_ms, LOOK_MS);
    }
    if (got == program->pid) {
        kill(-program->pid, SIGKILL); /* what it left */
        program->pid = 0;
        return true;
    }
    return false;
}
