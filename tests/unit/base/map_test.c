#include "base/map.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "death.h"

TestSuite(map, .timeout = 30);

static int value_a, value_b;

Test(map, zeroed_is_empty) {
    struct map map = {0};
    cr_expect_null(map_get(&map, 0));
    cr_expect_null(map_remove(&map, 0));
    MAP_EACH(slot, &map) {
        cr_assert_fail("an entry in an empty map: %p", slot->value);
    }
    map_finish(&map);
}

Test(map, puts_replaces_and_removes) {
    static const int64_t keys[] = {0, 1, -1, INT64_MAX, INT64_MIN};
    struct map map = {0};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        cr_expect_null(map_put(&map, keys[i], &value_a));
        cr_expect_eq(map_get(&map, keys[i]), &value_a);
        cr_expect_eq(map_put(&map, keys[i], &value_b), &value_a);
        cr_expect_eq(map.count, i + 1);
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        cr_expect_eq(map_remove(&map, keys[i]), &value_b);
        cr_expect_null(map_remove(&map, keys[i]));
        cr_expect_null(map_get(&map, keys[i]));
    }
    cr_expect_eq(map.count, 0);
    map_finish(&map);
    cr_expect_null(map.slots);
    map_finish(&map);
}

static void null_value_is_a_fault_call(void) {
    struct map map = {0};
    map_put(&map, 1, NULL);
}

Test(map, null_value_is_a_fault) {
    expect_abort(null_value_is_a_fault_call, "value != NULL");
}

/* Few keys in a small table make long runs that wrap around its end: the case that removal can get
 * wrong. The plain array is the model. */
Test(map, agrees_with_a_plain_array_under_random_use) {
    enum { KEYS = 200, STEPS = 200000 };
    static char cells[KEYS];
    static void *model[KEYS];
    struct random_seeded seeded;
    struct random_ops random = random_from_seed(&seeded, 7);
    struct map map = {0};
    size_t count = 0;
    for (int step = 0; step < STEPS; step++) {
        size_t key = random_below(&random, step / 1000 % 2 == 0 ? KEYS : KEYS / 8);
        if (random_below(&random, 2) == 0) {
            void *value = &cells[random_below(&random, KEYS)];
            cr_assert_eq(map_put(&map, (int64_t)key, value), model[key]);
            count += model[key] == NULL;
            model[key] = value;
        } else {
            cr_assert_eq(map_remove(&map, (int64_t)key), model[key]);
            count -= model[key] != NULL;
            model[key] = NULL;
        }
        cr_assert_eq(map.count, count);
        if (step % 100 == 0) {
            for (int k = 0; k < KEYS; k++) {
                cr_assert_eq(map_get(&map, k), model[k]);
            }
        }
    }
    map_finish(&map);
}

Test(map, each_visits_every_entry_once_and_may_replace) {
    enum { COUNT = 1000 };
    static bool seen[COUNT];
    struct map map = {0};
    for (int64_t key = 0; key < COUNT; key++) {
        map_put(&map, key, &value_a);
    }
    MAP_EACH(slot, &map) {
        cr_assert(slot->key >= 0 && slot->key < COUNT && !seen[slot->key]);
        seen[slot->key] = true;
        map_put(&map, slot->key, &value_b);
    }
    for (int64_t key = 0; key < COUNT; key++) {
        cr_assert(seen[key]);
        cr_assert_eq(map_get(&map, key), &value_b);
    }
    map_finish(&map);
}

/* Coming and going must not make the table grow: a worker pool lives for months. */
Test(map, churn_does_not_grow_the_table) {
    struct map map = {0};
    for (int64_t key = 0; key < 100000; key++) {
        map_put(&map, key, &value_a);
        if (key >= 8) {
            cr_assert_eq(map_remove(&map, key - 8), &value_a);
        }
    }
    cr_expect_eq(map.count, 8);
    cr_expect_leq(map.capacity, 16);
    map_finish(&map);
}
