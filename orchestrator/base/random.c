/* random.c - randomness from the kernel, and the seeded sequence of simulations. */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/require.h"

/* Requests of up to 256 bytes are never answered in part; a signal can only interrupt the wait for
 * the pool at boot. */
static uint64_t system_next(void *context) {
    (void)context;
    uint64_t value;
    ssize_t got;
    do {
        got = getrandom(&value, sizeof value, 0);
    } while (got < 0 && errno == EINTR);
    REQUIRE(got == (ssize_t)sizeof value);
    return value;
}

const struct random_ops random_system = {.next = system_next};

static uint64_t seeded_next(void *context) {
    struct random_seeded *seeded = context;
    seeded->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = seeded->state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

struct random_ops random_from_seed(struct random_seeded *seeded, uint64_t seed) {
    seeded->state = seed;
    return (struct random_ops){.next = seeded_next, .context = seeded};
}
