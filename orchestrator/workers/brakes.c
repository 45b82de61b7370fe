/* brakes.c - the tally of deaths and the delays that follow from it. */
#include "workers/brakes.h"

#include <string.h>

enum { TALLY_MAX = BRAKES_OWN_MAX + 1 };

/* Adds a death and returns how many the window holds; more than TALLY_MAX are not told apart. */
static int tally_add(struct brakes_tally *tally, int64_t now_ms) {
    int expired = 0;
    while (expired < tally->count && now_ms - tally->at_ms[expired] >= BRAKES_WINDOW_MS) {
        expired++;
    }
    if (expired == 0 && tally->count == TALLY_MAX) {
        expired = 1;
    }
    tally->count -= expired;
    memmove(tally->at_ms, tally->at_ms + expired, (size_t)tally->count * sizeof tally->at_ms[0]);
    tally->at_ms[tally->count++] = now_ms;
    return tally->count;
}

void brakes_init(struct brakes *brakes, const struct backoff *policy, int64_t short_life_pause_ms) {
    *brakes = (struct brakes){.policy = *policy, .short_life_pause_ms = short_life_pause_ms};
}

void brakes_note_result(struct brakes *brakes) {
    brakes->crashes = 0;
}

static void not_before(struct brakes *brakes, int64_t at_ms) {
    if (at_ms > brakes->next_start_ms) {
        brakes->next_start_ms = at_ms;
    }
}

/* In a pool that had deaths of its own, one that is ready has to last for a moment before there are more: else those that die
 * behind READY would be started by as many as the pool has workers. */
void brakes_note_ready(struct brakes *brakes, int64_t now_ms) {
    const struct brakes_tally *own = &brakes->own;
    brakes->failing = false;
    if (own->count > 0 && now_ms - own->at_ms[own->count - 1] < BRAKES_WINDOW_MS) {
        not_before(brakes, now_ms + brakes->short_life_pause_ms);
    }
}

static void note_own(struct brakes *brakes, enum brakes_cause cause, int64_t started_ms,
                     int64_t now_ms, const struct random_ops *random) {
    int deaths = tally_add(&brakes->own, now_ms);
    brakes->failing = true;
    brakes->parked = brakes->parked || deaths > BRAKES_OWN_MAX;
    if (cause == BRAKES_REFUSED && tally_add(&brakes->refused, now_ms) >= BRAKES_REFUSED_MAX) {
        brakes->parked = true;
    }
    not_before(brakes, now_ms + backoff_delay_ms(&brakes->policy, deaths, random));
    if (now_ms - started_ms < BRAKES_SHORT_LIFE_MS) {
        not_before(brakes, started_ms + brakes->short_life_pause_ms);
    }
}

void brakes_note_death(struct brakes *brakes, enum brakes_cause cause, int64_t started_ms,
                       int64_t now_ms, const struct random_ops *random) {
    switch (cause) {
    case BRAKES_NONE:
        return;
    case BRAKES_TASK:
        if (brakes->crashes < BRAKES_FREE_CRASHES) {
            brakes->crashes++;
            return;
        }
        brakes->crashes++;
        not_before(brakes,
                   now_ms + backoff_delay_ms(&brakes->policy, brakes->crashes - BRAKES_FREE_CRASHES,
                                             random));
        return;
    case BRAKES_OWN:
    case BRAKES_REFUSED:
        note_own(brakes, cause, started_ms, now_ms, random);
        return;
    }
}
