/* workers.h - the real worker processes behind ports/workers.h.
 *
 * The node makes one for its loop, and gives its table to the scheduler. SIGPIPE must be ignored in
 * the process (a worker may go without reading), and the thread that runs the loop must live as
 * long as the workers: they die with it. When: loop thread only.
 */
#ifndef WORKERS_WORKERS_H
#define WORKERS_WORKERS_H

#include <stdint.h>
#include <uv.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "ports/workers.h"

struct workers;

/* Borrowed for the call, but for clock and random, which outlive the workers. */
struct workers_options {
    const char *program; /* path of pgstage-worker */
    int lock_fd;         /* every worker inherits it as descriptor 4; -1: none */
    const char *work_root;   /* where workers get folders of their own (work_folder.h); NULL: they get none */
    const char *oom_counter; /* file with a line "oom_kill N"; NULL: the kernel's */
    const struct clock_ops *clock;
    const struct random_ops *random;

    /* Zero: the defaults below. Tests shorten them. */
    int64_t start_timeout_ms;    /* from the start to READY */
    struct backoff restart;      /* between two starts */
    int64_t short_life_pause_ms; /* at least, after a process that lived less than 5 s */
};

#define WORKERS_START_TIMEOUT_MS INT64_C(30000)
#define WORKERS_RESTART_FIRST_MS INT64_C(100)
#define WORKERS_RESTART_MAX_MS INT64_C(30000)
#define WORKERS_RESTART_JITTER_PERCENT 20
#define WORKERS_SHORT_LIFE_PAUSE_MS INT64_C(1000)

/* Fills `ops`, which is valid until workers_destroy. Until set_lease_end is called there is no
 * lease; while the lease has ended, no worker is started. INVALID: no program, or one that may not
 * be executed. */
enum status workers_create(uv_loop_t *loop, const struct workers_options *options,
                           struct workers_ops *ops, struct workers **workers,
                           struct error *err) MUST_CHECK;

/* All pools must be closed (their `closed` event may be where this is called). `closed` comes once,
 * later, and the memory is free then; it may be NULL. */
void workers_destroy(struct workers *workers, void (*closed)(void *context), void *context);

#endif
