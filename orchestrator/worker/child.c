/* child.c - between vfork and exec there are only calls that are safe there: another thread may hold any lock, and memory is
 * the parent's. vfork, because this process may hold a payload of 200 MB, and because it tells what exec said.
 */
#include "worker/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/require.h"
#include "worker/lifeline.h"
#include "worker/out_of_memory.h"

enum { FIRST_FOREIGN_FD = 3, CPU_GRACE_SECONDS = 2, REAP_LOOK_MS = 1 };

static struct {
    struct {
        __rlimit_resource_t resource;
        struct rlimit limit;
    } limits[8];
    int limit_count;
    int64_t address_space_bytes, cpu_seconds;
} child;

/* ---- limits ---- */

static void add_limit(__rlimit_resource_t resource, int64_t soft, int64_t hard) {
    struct rlimit now;
    if (getrlimit(resource, &now) != 0) {
        return;
    }
    if ((rlim_t)hard < now.rlim_max) {
        now.rlim_max = (rlim_t)hard;
    }
    now.rlim_cur = (rlim_t)soft < now.rlim_max ? (rlim_t)soft : now.rlim_max;
    REQUIRE(child.limit_count < (int)(sizeof child.limits / sizeof child.limits[0]));
    child.limits[child.limit_count].resource = resource;
    child.limits[child.limit_count++].limit = now;
}

void child_set_limits(const struct wire_hello *hello) {
    child.limit_count = 0;
    child.address_space_bytes = hello->address_space_bytes;
    child.cpu_seconds = hello->engine == WIRE_COMMAND ? hello->cpu_seconds : 0; /* of its whole life */
    if (getenv("PGSTAGE_WORKER_CORES") == NULL) {
        add_limit(RLIMIT_CORE, 0, 0);
    }
    if (hello->address_space_bytes > 0) {
        add_limit(RLIMIT_AS, hello->address_space_bytes, hello->address_space_bytes);
    }
    if (hello->file_size_bytes > 0) {
        add_limit(RLIMIT_FSIZE, hello->file_size_bytes, hello->file_size_bytes);
    }
    if (hello->open_files > 0) {
        add_limit(RLIMIT_NOFILE, hello->open_files, hello->open_files);
    }
    if (child.cpu_seconds > 0) {
        /* One that ignores SIGXCPU is killed a little later. */
        add_limit(RLIMIT_CPU, hello->cpu_seconds, hello->cpu_seconds + CPU_GRACE_SECONDS);
    }
}

/* ---- start ---- */

static bool set_descriptor(int fd, int as) {
    return fd == as || dup2(fd, as) == as;
}

/* Runs in the child, in the parent's memory. */
static _Noreturn void become(const struct child_setup *setup, pid_t parent, volatile int *failed) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* the worker died before the prctl */
    }
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        sigaction(number, &by_default, NULL);
    }
    bool good = set_descriptor(setup->input, STDIN_FILENO) && set_descriptor(setup->output, STDOUT_FILENO) &&
                set_descriptor(setup->error, STDERR_FILENO);
    close_range(FIRST_FOREIGN_FD, ~0u, 0);
    for (int i = 0; i < child.limit_count; i++) {
        setrlimit(child.limits[i].resource, &child.limits[i].limit);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (good) {
        execve(setup->program, setup->arguments, setup->environment);
    }
    *failed = errno;
    _exit(127);
}

/* No function of the worker's may run in the child's place: signals wait until it has a program of its own. */
static pid_t start(const struct child_setup *setup, volatile int *failed) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t own = getpid(), pid = vfork();
    if (pid == 0) {
        become(setup, own, failed);
    }
    int saved_errno = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return pid;
}

enum status child_start(const struct child_setup *setup, pid_t *pid, struct error *err) {
    volatile int failed = 0;
    *pid = start(setup, &failed);
    if (*pid < 0) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "no process can be started");
    }
    if (failed == 0) {
        return STATUS_OK;
    }
    waitpid(*pid, NULL, 0);
    if (failed == E2BIG) {
        return error_set(err, STATUS_LIMIT,
                         "the arguments and the environment are longer than the system lets a program have: give what is "
                         "large on standard input");
    }
    if (failed == ENOENT && access(setup->program, F_OK) == 0) {
        return error_set(err, STATUS_UNAVAILABLE, "cannot start %s: the interpreter in its first line is not there",
                         setup->program);
    }
    if (failed == ENOEXEC) {
        return error_set(err, STATUS_UNAVAILABLE,
                         "cannot start %s: it is neither a program nor a script that begins with #!", setup->program);
    }
    return error_set_errno(err, STATUS_UNAVAILABLE, failed, "cannot start %s", setup->program);
}

/* ---- end ---- */

static int64_t us_of(struct timeval time) {
    return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

struct child_end child_reap(pid_t pid) {
    struct child_end end = {0};
    struct rusage usage = {0};
    pid_t got;
    while ((got = wait4(pid, &end.status, WNOHANG, &usage)) == 0 || (got < 0 && errno == EINTR)) {
        lifeline_kill_strays_but(pid);
        poll(NULL, 0, REAP_LOOK_MS);
    }
    end.cpu_us = us_of(usage.ru_utime) + us_of(usage.ru_stime);
    end.resident_bytes = (int64_t)usage.ru_maxrss * 1024;
    (void)lifeline_reap_strays(); /* the runner looks again */
    return end;
}

static bool is_own_fault(int number) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGXCPU, SIGXFSZ};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (signals[i] == number) {
            return true;
        }
    }
    return false;
}

/* The kernel's KILL after a SIGXCPU that was ignored. */
static bool used_up_cpu(const struct child_end *end) {
    return WTERMSIG(end->status) == SIGKILL && child.cpu_seconds > 0 &&
           end->cpu_us >= (child.cpu_seconds + CPU_GRACE_SECONDS - 1) * 1000000; /* the two counts differ a little */
}

static void set(struct engine_task *task, enum wire_outcome outcome, const char *kind, int number, const char *verb,
                const char *why) {
    const char *name = sigabbrev_np(number);
    task->outcome = outcome;
    task->kind = kind;
    pgstage_fail(task->task, "the program %s signal %d (%s%s)%s%s", verb, number, name != NULL ? "SIG" : "unnamed",
                 name != NULL ? name : "", why[0] != '\0' ? ": " : "", why);
}

void child_judge_signal(const struct child_end *end, struct engine_task *task) {
    int number = WTERMSIG(end->status);
    if (number == SIGXCPU || used_up_cpu(end)) {
        set(task, WIRE_CRASH, "crash", number, "crashed:", "the stage's limit of CPU time was reached");
    } else if (number == SIGXFSZ) {
        set(task, WIRE_CRASH, "crash", number, "crashed:", "the stage's limit of file size was reached");
    } else if (is_own_fault(number)) {
        /* What it had at the end cannot be known any more; what it held at its most can. */
        bool full = child.address_space_bytes > 0 &&
                    end->resident_bytes >= child.address_space_bytes - child.address_space_bytes / 20;
        set(task, WIRE_CRASH, full ? "memory" : "crash", number, "crashed:",
            full ? "it was at the stage's limit of memory" : "");
    } else if (number == SIGKILL && out_of_memory_killed()) {
        set(task, WIRE_CRASH, "memory", number, "was killed by", "the machine or its container was out of memory");
    } else {
        set(task, WIRE_LOST, "killed", number, "was killed by", "");
    }
}
