/* limits.h - what the kernel keeps a handler from using. Thread rule: the main thread. */
#ifndef WORKER_LIMITS_H
#define WORKER_LIMITS_H

#include "wire/messages.h"

/* Address space, file size, open files and cores of the process. */
void limits_apply(const struct wire_hello *hello);

/* CPU time of one task: SIGXCPU after that many seconds, at most one more. 0: none. It is lifted
 * when the worker is about to wait: between two runs without a pause it is only moved. */
void limits_begin_run(int64_t cpu_seconds);
void limits_lift_cpu(void);

#endif
