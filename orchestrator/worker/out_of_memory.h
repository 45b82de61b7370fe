/* out_of_memory.h - whether the kernel killed somebody for memory (base/oom.h). Thread rule: the main thread. */
#ifndef WORKER_OUT_OF_MEMORY_H
#define WORKER_OUT_OF_MEMORY_H

#include <stdbool.h>

/* From now on. */
void out_of_memory_watch(void);
/* Whether it did since out_of_memory_watch. */
bool out_of_memory_killed(void);

#endif
