#include "worker/limits.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* Soft and hard limit, as far as the hard one of this process lets it. */
static void set_limit(__rlimit_resource_t resource, int64_t value) {
    struct rlimit limit;
    if (value == 0 || getrlimit(resource, &limit) != 0) {
        return;
    }
    if ((rlim_t)value < limit.rlim_max) {
        limit.rlim_max = (rlim_t)value;
    }
    limit.rlim_cur = limit.rlim_max;
    setrlimit(resource, &limit);
}

static void limit_address_space(int64_t bytes) {
#ifndef __SANITIZE_ADDRESS__ /* its shadow memory alone takes terabytes of address space */
    if (bytes > 0) {
        /* The reading thread would reserve 64 MB of it for an arena of its own. */
        mallopt(M_ARENA_MAX, 1);
        set_limit(RLIMIT_AS, bytes);
    }
#else
    (void)bytes;
#endif
}

void limits_apply(const struct wire_hello *hello) {
    /* A crashing handler would fill the disk, with documents in it; who debugs one sets the
     * variable. */
    if (getenv("PGSTAGE_WORKER_CORES") == NULL) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    }
    set_limit(RLIMIT_FSIZE, hello->file_size_bytes);
    set_limit(RLIMIT_NOFILE, hello->open_files);
    limit_address_space(hello->address_space_bytes);
}

/* The limit counts from the process's start. Only the soft one is moved: a lowered hard limit could
 * never be raised. */
static void set_cpu_limit(rlim_t seconds) {
    static rlim_t current = RLIM_INFINITY;
    struct rlimit limit;
    if (seconds == current) {
        return; /* moving it costs the kernel more than a short run takes */
    }
    current = seconds;
    if (getrlimit(RLIMIT_CPU, &limit) == 0) {
        limit.rlim_cur = seconds < limit.rlim_max ? seconds : limit.rlim_max;
        setrlimit(RLIMIT_CPU, &limit);
    }
}

void limits_begin_run(int64_t cpu_seconds) {
    struct timespec used;
    if (cpu_seconds > 0 && clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
        set_cpu_limit((rlim_t)used.tv_sec + 1 + (rlim_t)cpu_seconds);
    }
}

void limits_lift_cpu(void) {
    set_cpu_limit(RLIM_INFINITY);
}
