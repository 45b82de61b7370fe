/* The scenarios with the statements as they are. One database for each group of them. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "scenarios.h"

TestSuite(scenarios, .timeout = 300);

static const struct named {
    const char *name;
    scenario run;
} named[] = {
#define X(name) {#name, name},
    SCENARIOS(X)
#undef X
};

enum { GROUP = 9, NAMED = sizeof named / sizeof *named };

ParameterizedTestParameters(scenarios, hold) {
    static int firsts[(NAMED + GROUP - 1) / GROUP];
    for (int i = 0; i * GROUP < NAMED; i++) {
        firsts[i] = i * GROUP;
    }
    return cr_make_param_array(int, firsts, sizeof firsts / sizeof *firsts);
}

ParameterizedTest(int *first, scenarios, hold, .timeout = 300) {
    struct world *world = world_open();
    for (int i = *first; i < NAMED && i < *first + GROUP; i++) {
        world_reset(world);
        bool held = named[i].run(world);
        cr_expect(held && world->why[0] == '\0', "%s: %s", named[i].name, world->why);
    }
    world_close(world);
}
