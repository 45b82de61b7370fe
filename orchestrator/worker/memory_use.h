/* memory_use.h - how much memory a process holds. Thread rule: none. */
#ifndef WORKER_MEMORY_USE_H
#define WORKER_MEMORY_USE_H

#include <stdint.h>
#include <sys/types.h>

/* Units: bytes; 0 when it cannot be known, as of a process that is gone. */
int64_t memory_use_resident_bytes(pid_t pid);

#endif
