/* spawn.h - starts one worker process with its descriptors.
 *
 * 0 is /dev/null, 1 and 2 are pipes, 3 one end of a socketpair, 4 the node's lock when there is
 * one; nothing else is inherited. The
 * environment is what the caller gives. The process leads a session of its own; its argument is the
 * node's pid, so that it can tell whether its node died before it could ask the kernel to watch.
 * Used by worker.c. When: loop thread only (the kernel's watch ends with the thread that started
 * it).
 */
#ifndef WORKERS_SPAWN_H
#define WORKERS_SPAWN_H

#include <uv.h>

#include "base/error.h"

/* The node's ends; the caller closes them. */
struct spawn_ends {
    int stdout_fd, stderr_fd, stream_fd;
};

/* Initialises `process` in every case: it must be closed. On failure no process and no descriptor
 * is left. */
enum status spawn_worker(uv_loop_t *loop, const char *program, char **environment, int lock_fd, uv_process_t *process,
                         uv_exit_cb on_exit, struct spawn_ends *ends, struct error *err) MUST_CHECK;

#endif
