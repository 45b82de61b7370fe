/* lifeline.c - a worker never outlives its node, and nothing that a handler forked outlives its
 * worker's node.
 *
 * Three ways to learn of the node's death, because each has a hole: PR_SET_PDEATHSIG (lost when the
 * node died before the prctl, hence the look at getppid), end of file on the descriptor (seen by
 * the reading thread, but a SIGPIPE may come first), and the lease (for a node that hangs).
 * PDEATHSIG reaches this process alone, so the group is killed from here.
 */
#include "worker/lifeline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* poll() measures without the time that a machine is suspended, the lease with it: look this often.
 */
enum { LOOK_MS = 1000 };

static pid_t own_pid, parent_pid;
static bool leads_group;
static atomic_bool is_busy, is_terminated;
static _Atomic int64_t lease_end = INT64_MAX;

_Noreturn void lifeline_end(void) {
    /* A group that is not ours holds whoever started this program by hand. */
    kill(leads_group ? -own_pid : own_pid, SIGKILL);
    for (;;) {
        pause();
    }
}

/* Async-signal-safe. */
static bool is_abandoned(void) {
    if (getppid() != parent_pid) {
        return true;
    }
    struct pollfd node = {.fd = LIFELINE_FD, .events = POLLIN};
    return poll(&node, 1, 0) == 1 && (node.revents & POLLHUP) != 0;
}

static void reset_signal(int number) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
}

/* SIGPIPE is handled for one case alone: the node is gone, a write of the handler's is how this
 * process gets to know, and dying of it would leave what the handler forked. Otherwise both signals
 * act as they do by default; programs that a handler executes get the defaults from exec. */
static void on_signal(int number) {
    int saved_errno = errno;
    if (getpid() == own_pid) {
        if (is_abandoned()) {
            lifeline_end();
        }
        if (number == SIGTERM && atomic_load(&is_busy)) {
            atomic_store(&is_terminated, true);
            errno = saved_errno;
            return;
        }
    }
    reset_signal(number);
    raise(number); /* delivered when this function returns */
    errno = saved_errno;
}

static void handle_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGPIPE, &action, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void lifeline_start(pid_t parent) {
    own_pid = getpid();
    parent_pid = parent;
    leads_group = getpgrp() == own_pid;
    handle_signals();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a child of ours leaves becomes ours */
    if (getppid() != parent) {
        _exit(1);
    }
}

void lifeline_set_lease_end(int64_t lease_end_ms) {
    atomic_store(&lease_end, lease_end_ms);
}

int lifeline_check(void) {
    int64_t end = atomic_load(&lease_end), now = clock_now_ms(&clock_boottime);
    if (now >= end || getppid() != parent_pid) {
        lifeline_end();
    }
    return end - now < LOOK_MS ? (int)(end - now) : LOOK_MS;
}

void lifeline_set_busy(bool busy) {
    atomic_store(&is_busy, busy);
}

bool lifeline_is_terminated(void) {
    return atomic_load(&is_terminated);
}

_Noreturn void lifeline_obey_terminate(void) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL); /* the handler may have blocked it */
    reset_signal(SIGTERM);
    raise(SIGTERM);
    _exit(128 + SIGTERM);
}

bool lifeline_is_worker_process(void) {
    return getpid() == own_pid;
}

/* A killed child's own children become ours when it is reaped: as long as there are some, look again. */
void lifeline_reap_strays(void) {
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        char path[64], text[4096];
        snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)own_pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0) {
            close(fd);
        }
        text[got > 0 ? got : 0] = '\0';
        long child;
        for (char *at = text, *end; (child = strtol(at, &end, 10)) > 0 && *end == ' '; at = end) { /* not one cut off */
            kill((pid_t)child, SIGKILL);
        }
        if (waitid(P_ALL, 0, &info, WEXITED) != 0 && errno != EINTR) {
            return;
        }
    }
}
