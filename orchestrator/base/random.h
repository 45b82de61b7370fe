/* random.h - the one source of randomness: claims, identities, jitter. A simulation gives a seeded table instead. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

struct random_ops {
    uint64_t (*next)(void *context);
    void *context;
};

extern const struct random_ops random_system; /* getrandom(2) */

struct random_seeded {
    uint64_t state;
};

/* splitmix64 (Steele, Lea and Flood 2014) over `seeded`, which must outlive the table. */
struct random_ops random_from_seed(struct random_seeded *seeded, uint64_t seed);

static inline uint64_t random_next(const struct random_ops *random) {
    return random->next(random->context);
}

/* Uniform enough for jitter and back-off: 0 <= result < bound; 0 when bound is 0. */
static inline uint64_t random_below(const struct random_ops *random, uint64_t bound) {
    return bound == 0 ? 0 : random_next(random) % bound;
}

/* A claim or identity: positive and never 0. */
static inline int64_t random_identity(const struct random_ops *random) {
    return (int64_t)(random_next(random) >> 1 | 1);
}

#endif
