/* brakes.h - when a pool may start its next process, and when it has to stop trying. Pure: time and
 * chance are given.
 *
 * A death that no task caused (at the start, or idle by its own fault) is tallied: the delay before
 * the next start doubles with each in the last ten minutes, and one more than BRAKES_OWN_MAX parks
 * the pool. A life in between does not forget the earlier ones, or a process that dies a second
 * after each good start would never be stopped. REFUSED is an answer, not an accident: the third
 * parks. Deaths under a task never park; the tasks that cause them are the scheduler's to judge.
 * Thread rule: none (a value).
 */
#ifndef WORKERS_BRAKES_H
#define WORKERS_BRAKES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/random.h"

enum {
    BRAKES_OWN_MAX = 10,     /* deaths of its own in BRAKES_WINDOW_MS that a pool survives */
    BRAKES_REFUSED_MAX = 3,  /* refusals in BRAKES_WINDOW_MS that park it */
    BRAKES_FREE_CRASHES = 5, /* deaths under tasks in a row, without a result, that cost no delay */
    BRAKES_SHORT_LIFE_MS = 5000,
    BRAKES_WINDOW_MS = 600000,
};

enum brakes_cause {
    BRAKES_NONE,    /* we ended it */
    BRAKES_TASK,    /* it died under a task or after one, or was killed by somebody while idle */
    BRAKES_OWN,     /* it died at its start, or by itself before it had any task */
    BRAKES_REFUSED, /* it said that it cannot work */
};

struct brakes_tally {
    int64_t at_ms[BRAKES_OWN_MAX + 1]; /* the last deaths, oldest first */
    int count;
};

struct brakes {
    struct backoff policy;
    int64_t short_life_pause_ms; /* at least this between two starts, when the first one's life was
                                    short */
    struct brakes_tally own, refused;
    int crashes;           /* under tasks, since the last result */
    int64_t next_start_ms; /* not before this */
    bool failing; /* the last death was the pool's own, and no process got ready since: one start at
                     a time */
    bool parked;
};

void brakes_init(struct brakes *brakes, const struct backoff *policy, int64_t short_life_pause_ms);
void brakes_note_ready(struct brakes *brakes, int64_t now_ms);
void brakes_note_result(struct brakes *brakes);
void brakes_note_death(struct brakes *brakes, enum brakes_cause cause, int64_t started_ms,
                       int64_t now_ms, const struct random_ops *random);

#endif
