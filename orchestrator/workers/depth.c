/* depth.c - an exponentially weighted mean of run times. A worker reports them, so they are bounded
 * before use. */
#include "workers/depth.h"

enum { DEPTH_WEIGHT = 8 }; /* a new sample counts one part in eight */

static const int64_t run_us_max = (int64_t)86400 * 1000 * 1000;

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

void depth_note(struct depth *depth, int64_t run_us) {
    int64_t sample = clamp(run_us, 0, run_us_max);
    if (depth->samples == 0) {
        depth->mean_us = sample;
    } else {
        depth->mean_us += (sample - depth->mean_us) / DEPTH_WEIGHT;
    }
    if (depth->samples < DEPTH_SAMPLES_MIN) {
        depth->samples++;
    }
}

int depth_limit(const struct depth *depth) {
    if (depth->samples < DEPTH_SAMPLES_MIN || depth->mean_us >= DEPTH_SHORT_US) {
        return 1;
    }
    return (int)clamp(DEPTH_WINDOW_US / clamp(depth->mean_us, 1, DEPTH_SHORT_US), 1, DEPTH_MAX);
}
