#include "worker/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "worker/lifeline.h"

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

#ifndef __SANITIZE_ADDRESS__ /* its shadow memory alone takes terabytes of address space */

/* ---- crashes for lack of memory ---- */

static struct {
    int64_t full_bytes; /* from here on a crash is taken for a lack of memory */
    char mark[PATH_MAX];
} memory;

/* Async-signal-safe: the first number of statm is the size in pages. */
static int64_t address_space_bytes(void) {
    char text[64];
    int64_t pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? 0 : read(fd, text, sizeof text);
    for (ssize_t i = 0; i < count && text[i] >= '0' && text[i] <= '9'; i++) {
        pages = pages * 10 + (text[i] - '0');
    }
    if (fd >= 0) {
        close(fd);
    }
    return pages * sysconf(_SC_PAGESIZE);
}

/* The signal acts as it would have: its action was reset when it came. */
static void on_crash(int number) {
    int saved_errno = errno;
    if (lifeline_is_worker_process() && address_space_bytes() >= memory.full_bytes) {
        int fd = open(memory.mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0) {
            close(fd);
        }
    }
    raise(number); /* delivered when this function returns */
    errno = saved_errno;
}

static void mark_crashes(int64_t limit_bytes, const char *work) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    static char stack[16 * 1024];
    if (work == NULL) {
        return;
    }
    memory.full_bytes = limit_bytes - limit_bytes / 20;
    snprintf(memory.mark, sizeof memory.mark, "%s/" LIMITS_MEMORY_MARK, work);
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)(SA_ONSTACK | SA_RESETHAND)};
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        sigaction(crashes[i], &action, NULL);
    }
}

static void limit_address_space(int64_t bytes, const char *work) {
    if (bytes > 0) {
        /* The reading thread would reserve 64 MB of it for an arena of its own. */
        mallopt(M_ARENA_MAX, 1);
        set_limit(RLIMIT_AS, bytes);
        mark_crashes(bytes, work);
    }
}

#else

static void limit_address_space(int64_t bytes, const char *work) {
    (void)bytes;
    (void)work;
}

#endif

void limits_apply(const struct wire_hello *hello) {
    /* A crashing handler would fill the disk, with documents in it; who debugs one sets the
     * variable. */
    if (getenv("PGSTAGE_WORKER_CORES") == NULL) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    }
    set_limit(RLIMIT_FSIZE, hello->file_size_bytes);
    set_limit(RLIMIT_NOFILE, hello->open_files);
    limit_address_space(hello->address_space_bytes, hello->work.data);
}

enum status limits_apply_nice(const struct wire_hello *hello, struct error *err) {
    if (hello->nice == 0) {
        return STATUS_OK;
    }
    errno = 0;
    int own = getpriority(PRIO_PROCESS, 0);
    if (errno == 0 && setpriority(PRIO_PROCESS, 0, own + hello->nice) == 0) {
        return STATUS_OK;
    }
    return error_set_errno(err, STATUS_INVALID, errno,
                           "limits: nice: %d is refused: only a node that runs as root, or has the capability "
                           "CAP_SYS_NICE, may give its workers more than their share",
                           (int)hello->nice);
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

/* RLIMIT_CPU is measured in ticks of the system's clock, CLOCK_PROCESS_CPUTIME_ID exactly: on a busy machine the two of a
 * long life are seconds apart. The clock of the ticks has a number only: the process's complement, and 0 (CPUCLOCK_PROF in the
 * kernel) in the lowest three bits. */
rlim_t limits_cpu_for_task(pid_t pid, int64_t cpu_seconds) {
    clockid_t ticks = (clockid_t)(~(unsigned)pid << 3);
    struct timespec used;
    return clock_gettime(ticks, &used) == 0 ? (rlim_t)used.tv_sec + 1 + (rlim_t)cpu_seconds : 0;
}

void limits_begin_run(int64_t cpu_seconds) {
    rlim_t limit = cpu_seconds > 0 ? limits_cpu_for_task(0, cpu_seconds) : 0;
    if (limit > 0) {
        set_cpu_limit(limit);
    }
}

void limits_lift_cpu(void) {
    set_cpu_limit(RLIM_INFINITY);
}
