#include "worker/out_of_memory.h"

#include <stddef.h>

#include "base/oom.h"

static int64_t count_before = -1;

void out_of_memory_watch(void) {
    count_before = oom_count(NULL);
}

bool out_of_memory_killed(void) {
    return count_before >= 0 && oom_count(NULL) > count_before;
}
