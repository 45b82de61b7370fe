#include "cli/init.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void reap_until(pid_t child, const sigset_t *signals) {
    for (;;) {
        int status = 0;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
            if (pid == child) {
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
            }
        }
        siginfo_t info;
        int number = sigwaitinfo(signals, &info);
        if (number > 0 && number != SIGCHLD) {
            kill(child, number);
        }
    }
}

void init_if_first_process(void) {
    if (getpid() != 1) {
        return;
    }
    sigset_t signals, old;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGQUIT);
    sigprocmask(SIG_BLOCK, &signals, &old);
    pid_t child = fork();
    if (child > 0) {
        reap_until(child, &signals);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    }
}
