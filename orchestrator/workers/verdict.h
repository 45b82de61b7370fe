/* verdict.h - what the end of a worker process says about the run that it had in hand. Pure. */
#ifndef WORKERS_VERDICT_H
#define WORKERS_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "ports/workers.h"

enum { VERDICT_TEXT_MAX = 512 };

struct verdict {
    enum pool_end end; /* POOL_CRASH or POOL_LOST */
    const char *kind;  /* as in struct pool_outcome */
    char text[VERDICT_TEXT_MAX];
};

/* A process that ended by itself, or by somebody else's hand: its exit status, or the signal that
 * ended it (else 0). `before`: what it should have done first ("answering"). `out_of_memory`: it is
 * proven that the signal came of that. */
struct verdict verdict_of_exit(int64_t exit_status, int signal, const char *before, bool out_of_memory);

/* Whether the signal is one that a process brings upon itself. */
bool verdict_is_crash(int signal);

#endif
