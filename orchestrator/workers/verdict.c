/* verdict.c - which signals are the document's fault.
 *
 * Those that a process brings upon itself, or that a limit of its stage raised, count as a crash of
 * the run. Any other signal was sent by somebody (an operator, the kernel short of memory, a
 * container that ends), and an exit without an answer is the handler's doing, whatever its status:
 * 0 too. When memory ran out, the document that was in hand is taken for the cause.
 */
#include "workers/verdict.h"

#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int signal;
    const char *limit; /* the limit that raises it, or NULL */
} crash_signals[] = {
    {SIGSEGV, NULL},
    {SIGBUS, NULL},
    {SIGILL, NULL},
    {SIGFPE, NULL},
    {SIGABRT, NULL},
    {SIGSYS, NULL},
    {SIGXCPU, "the stage's limit of CPU time was reached"},
    {SIGXFSZ, "the stage's limit of file size was reached"},
};
enum { CRASH_SIGNAL_COUNT = sizeof crash_signals / sizeof crash_signals[0] };

static int find_crash(int signal) {
    for (int i = 0; i < CRASH_SIGNAL_COUNT; i++) {
        if (crash_signals[i].signal == signal) {
            return i;
        }
    }
    return -1;
}

bool verdict_is_crash(int signal) {
    return find_crash(signal) >= 0;
}

struct verdict verdict_of_exit(int64_t exit_status, int signal, const char *before, bool out_of_memory) {
    struct verdict verdict = {.end = POOL_CRASH, .kind = signal == 0 ? "no_answer" : "crash"};
    if (signal == 0) {
        snprintf(verdict.text, sizeof verdict.text, "exited with status %" PRId64 " before %s",
                 exit_status, before);
        return verdict;
    }
    const char *name = sigabbrev_np(signal);
    char number[32];
    snprintf(number, sizeof number, "%d (%s%s)", signal, name != NULL ? "SIG" : "unnamed",
             name != NULL ? name : "");
    int crash = find_crash(signal);
    if (out_of_memory) {
        verdict.kind = "memory";
    } else if (crash < 0) {
        verdict.end = POOL_LOST;
        verdict.kind = "killed";
    }
    const char *limit = crash >= 0 ? crash_signals[crash].limit : NULL;
    if (out_of_memory) {
        limit = crash >= 0 ? "the stage's limit of memory was reached" : "the machine, or its control group, ran out of memory";
    }
    snprintf(verdict.text, sizeof verdict.text, "%s signal %s%s%s", crash >= 0 ? "crashed:" : "killed by", number,
             limit != NULL ? ": " : "", limit != NULL ? limit : "");
    return verdict;
}
