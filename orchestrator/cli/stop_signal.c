#include "cli/stop_signal.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

static volatile sig_atomic_t asked, hung_up;

static void on_signal(int number) {
    if (asked) {
        signal(number, SIG_DFL);
        raise(number);
    }
    asked = 1;
}

static void on_hangup(int number) {
    (void)number;
    hung_up = 1;
}

void stop_listen(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = on_hangup;
    action.sa_flags = SA_RESTART;
    sigaction(SIGHUP, &action, NULL);
}

bool reload_was_asked(void) {
    return hung_up != 0;
}

bool stop_was_asked(void) {
    return asked != 0;
}

void stop_wait_ms(int64_t ms) {
    sigset_t stops, old;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigprocmask(SIG_BLOCK, &stops, &old); /* one that comes between the look and the wait must end the wait */
    if (!asked) {
        struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
        ppoll(NULL, 0, &time, &old);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
}
