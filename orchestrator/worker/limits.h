/* limits.h - what the kernel keeps a handler from using. Thread rule: the main thread. */
#ifndef WORKER_LIMITS_H
#define WORKER_LIMITS_H

#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"
#include "wire/messages.h"

/* In the worker's folder: see limits_apply. */
#define LIMITS_MEMORY_MARK ".out-of-memory"

/* Address space, file size, open files and cores of the process. Of a crash with the address space at its limit it leaves a
 * mark for the node, in the worker's folder. */
void limits_apply(const struct wire_hello *hello);

/* The stage's niceness is added to that of the node. INVALID: it may not be. */
enum status limits_apply_nice(const struct wire_hello *hello, struct error *err) MUST_CHECK;

/* CPU time of one task: SIGXCPU after that many seconds, at most one more. 0: none. It is lifted
 * when the worker is about to wait: between two runs without a pause it is only moved. */
void limits_begin_run(int64_t cpu_seconds);
/* The limit, in seconds of the whole life of a process (0: this one), that leaves it that much for a task which begins now. 0:
 * it cannot be known. */
rlim_t limits_cpu_for_task(pid_t pid, int64_t cpu_seconds);
void limits_lift_cpu(void);

#endif
