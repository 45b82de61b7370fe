/* lifeline.c - a worker never outlives its node, and nothing that a handler forked outlives its
 * worker's node.
 *
 * Three ways to learn of the node's death, because each has a hole: PR_SET_PDEATHSIG (lost when the
 * node died before the prctl, hence the look at getppid), end of file on the descriptor (seen by
 * the reading thread, but a SIGPIPE may come first), and the lease (for a node that hangs).
 * PDEATHSIG reaches this process alone, so the group is killed from here. A process that leaves the group (setsid, a second
 * fork) is found as a descendant: this process is a subreaper, so whoever's parent ends becomes its child.
 */
#include "worker/lifeline.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/children.h"
#include "base/clock.h"
#include "base/memory.h"

/* poll() measures without the time that a machine is suspended, the lease with it: look this often.
 */
enum { LOOK_MS = 1000 };
/* Looks for what descends from this process, before it is given up: somebody forks faster than we kill. */
enum { END_LOOKS = 1000 };
/* Half a minute for what dies slowly, as a process with much memory does; one that hangs in the kernel is left. */
enum { STRAY_LOOKS = 1000, QUICK_LOOKS = 400, SLOW_LOOK_MS = 50 };

static pid_t own_pid, parent_pid;
static bool leads_group;
static atomic_bool is_busy, is_terminated;
static _Atomic int64_t lease_end = INT64_MAX;

/* ---- what descends from this process ---- */

static struct {
    pid_t *pids;
    size_t count;
} kept;

static void kill_child(void *context, pid_t child) {
    int *living = context;
    if (waitpid(child, NULL, WNOHANG | __WALL) == 0 && kill(child, SIGKILL) == 0) {
        ++*living;
    }
}

/* Async-signal-safe. */
static void kill_descendants(void) {
    /* No more of them by this process's own threads, as far as its user is bound by limits. */
    setrlimit(RLIMIT_NPROC, &(struct rlimit){0});
    for (int look = 0; look < END_LOOKS; look++) {
        int living = 0;
        children_each(kill_child, &living);
        if (living == 0) {
            return;
        }
        poll(NULL, 0, 1);
    }
}

static void keep_child(void *context, pid_t child) {
    (void)context;
    kept.pids = mem_resize(kept.pids, kept.count + 1, sizeof *kept.pids);
    kept.pids[kept.count++] = child;
}

void lifeline_keep_children(void) {
    kept.count = 0;
    children_each(keep_child, NULL);
}

struct strays {
    pid_t but; /* whom its caller reaps; 0: none */
    int reaped, dying;
};

static void end_stray(void *context, pid_t child) {
    struct strays *strays = context;
    for (size_t i = 0; i < kept.count; i++) {
        if (kept.pids[i] == child) {
            return;
        }
    }
    if (child == strays->but) {
        return;
    }
    enum children_end end = children_end(child);
    strays->reaped += end == CHILDREN_REAPED;
    strays->dying += end == CHILDREN_DYING;
}

void lifeline_kill_strays_but(pid_t but) {
    struct strays strays = {.but = but};
    children_each(end_stray, &strays);
}

/* What a stray leaves behind is this process's as soon as the stray is dead: hence another look. */
bool lifeline_reap_strays(void) {
    siginfo_t info;
    for (int look = 0; look < STRAY_LOOKS; look++) {
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 && errno == ECHILD) {
            return true;
        }
        struct strays strays = {0};
        children_each(end_stray, &strays);
        if (strays.reaped == 0 && strays.dying == 0) {
            return true;
        }
        if (strays.reaped == 0) {
            poll(NULL, 0, look < QUICK_LOOKS ? 1 : SLOW_LOOK_MS);
        }
    }
    return false;
}

void lifeline_end_children(void) {
    kept.count = 0;
    (void)lifeline_reap_strays(); /* what is left is the node's, which took this process over */
}

/* ---- its own end ---- */

_Noreturn void lifeline_end(void) {
    kill_descendants();
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
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    lifeline_watch_parent();
}

void lifeline_watch_parent(void) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent_pid) {
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
