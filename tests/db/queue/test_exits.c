/* The exit matrix; C24 and C25 in all their permutations. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "exits.h"

TestSuite(exits, .timeout = 300);

ParameterizedTestParameters(exits, each_way_out_at_each_moment) {
    static enum exit_way ways[EXIT_WAYS];
    for (enum exit_way way = 0; way < EXIT_WAYS; way++) {
        ways[way] = way;
    }
    return cr_make_param_array(enum exit_way, ways, EXIT_WAYS);
}

ParameterizedTest(enum exit_way *way, exits, each_way_out_at_each_moment, .timeout = 300) {
    struct world *world = world_open();
    bool held = exits_hold(world, *way);
    cr_assert(held, "%s", world->why);
    world_close(world);
}
