/* spawn.c - uv_spawn, with pipes of our own making.
 *
 * libuv would make socketpairs for stdout and stderr too, and a program that opens /dev/stderr by
 * name fails on those. Each descriptor above 2 gets close-on-exec before the fork: a library that
 * forgot it must not leak a database connection into every worker.
 */
#include "workers/spawn.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FD_CHANNEL = 3, FD_LOCK = 4, FD_COUNT = 5 };
enum { OURS, THEIRS };

struct spawn_pairs {
    int out[2], err[2], channel[2]; /* by OURS, THEIRS; -1 when closed */
};

static void close_fd(int *fd) {
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void close_side(struct spawn_pairs *pairs, int side) {
    close_fd(&pairs->out[side]);
    close_fd(&pairs->err[side]);
    close_fd(&pairs->channel[side]);
}

static int open_pairs(struct spawn_pairs *pairs) {
    int failed = uv_pipe(pairs->out, UV_NONBLOCK_PIPE, 0);
    if (failed == 0) {
        failed = uv_pipe(pairs->err, UV_NONBLOCK_PIPE, 0);
    }
    if (failed == 0) {
        failed = uv_socketpair(SOCK_STREAM, 0, pairs->channel, UV_NONBLOCK_PIPE, 0);
    }
    return failed;
}

enum status spawn_worker(uv_loop_t *loop, const char *program, char **environment, int lock_fd, uv_process_t *process,
                         uv_exit_cb on_exit, struct spawn_ends *ends, struct error *err) {
    struct spawn_pairs pairs = {{-1, -1}, {-1, -1}, {-1, -1}};
    int failed = open_pairs(&pairs);

    uv_stdio_container_t stdio[FD_COUNT] = {
        [STDIN_FILENO] = {.flags = UV_IGNORE},
        [STDOUT_FILENO] = {.flags = UV_INHERIT_FD, .data.fd = pairs.out[THEIRS]},
        [STDERR_FILENO] = {.flags = UV_INHERIT_FD, .data.fd = pairs.err[THEIRS]},
        [FD_CHANNEL] = {.flags = UV_INHERIT_FD, .data.fd = pairs.channel[THEIRS]},
        [FD_LOCK] = {.flags = UV_INHERIT_FD, .data.fd = lock_fd},
    };
    char node_pid[24];
    snprintf(node_pid, sizeof node_pid, "%d", (int)getpid());
    char *arguments[] = {(char *)(uintptr_t)program, node_pid, NULL};
    uv_process_options_t options = {
        .file = program,
        .args = arguments,
        .env = environment,
        .flags = UV_PROCESS_DETACHED,
        .stdio = stdio,
        .stdio_count = lock_fd >= 0 ? FD_COUNT : FD_LOCK,
        .exit_cb = on_exit,
    };
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    /* Also without pairs, when it refuses the descriptors: it initialises the handle. */
    int spawned = uv_spawn(loop, process, &options);
    failed = failed != 0 ? failed : spawned;

    close_side(&pairs, THEIRS);
    if (failed != 0) {
        close_side(&pairs, OURS);
        return error_set(err, STATUS_UNAVAILABLE, "cannot start %s: %s", program,
                         uv_strerror(failed));
    }
    *ends = (struct spawn_ends){pairs.out[OURS], pairs.err[OURS], pairs.channel[OURS]};
    return STATUS_OK;
}
