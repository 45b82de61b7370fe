/* depth.h - how many tasks one worker's pipe may hold, from the stage's recent run times.
 *
 * One, until runs are known to be so short that the worker would idle while the node hears of each
 * result. The mean follows long runs within a few samples and forgets them slowly: a task that
 * waits behind a long run cannot be taken back. Thread rule: none (a value).
 */
#ifndef WORKERS_DEPTH_H
#define WORKERS_DEPTH_H

#include <stdint.h>

enum {
    DEPTH_SHORT_US = 5000,   /* deeper than one only while the mean is under this */
    DEPTH_WINDOW_US = 25000, /* how much work a pipe should hold */
    DEPTH_MAX = 64,
    DEPTH_SAMPLES_MIN = 8, /* fewer say nothing */
};

/* A zeroed struct knows nothing yet. */
struct depth {
    int64_t mean_us;
    int samples;
};

void depth_note(struct depth *depth, int64_t run_us);

/* 1 to DEPTH_MAX. */
int depth_limit(const struct depth *depth);

#endif
