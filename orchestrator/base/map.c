/* map.c - open addressing with linear probing. Capacity is a power of two, at most three quarters
 * full.
 *
 * Removing shifts later entries of the same run back instead of leaving a tombstone, so that a map
 * with much coming and going never degrades.
 */
#include "base/map.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/require.h"

enum { MAP_FIRST_CAPACITY = 16 };

/* The finalizer of splitmix64: consecutive ids must not form one long run. */
static size_t hash(int64_t key) {
    uint64_t x = (uint64_t)key;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (size_t)(x ^ x >> 31);
}

/* The slot that holds `key`, or the free one where it belongs. The map has a free slot. */
static struct map_slot *find(const struct map *map, int64_t key) {
    size_t mask = map->capacity - 1;
    size_t i = hash(key) & mask;
    while (map->slots[i].value != NULL && map->slots[i].key != key) {
        i = (i + 1) & mask;
    }
    return &map->slots[i];
}

static void grow(struct map *map) {
    struct map bigger = {.count = map->count,
                         .capacity = map->capacity == 0 ? MAP_FIRST_CAPACITY : map->capacity * 2};
    REQUIRE(bigger.capacity <= SIZE_MAX / 2 / sizeof *bigger.slots);
    bigger.slots = mem_alloc(bigger.capacity * sizeof *bigger.slots);
    MAP_EACH(slot, map) {
        *find(&bigger, slot->key) = *slot;
    }
    free(map->slots);
    *map = bigger;
}

void *map_get(const struct map *map, int64_t key) {
    return map->count == 0 ? NULL : find(map, key)->value;
}

void *map_put(struct map *map, int64_t key, void *value) {
    REQUIRE(value != NULL);
    /* Replacing never moves a slot: MAP_EACH allows it. */
    if (map->count > 0) {
        struct map_slot *slot = find(map, key);
        if (slot->value != NULL) {
            void *old = slot->value;
            slot->value = value;
            return old;
        }
    }
    if (map->count + 1 > map->capacity / 4 * 3) {
        grow(map);
    }
    *find(map, key) = (struct map_slot){.key = key, .value = value};
    map->count++;
    return NULL;
}

void *map_remove(struct map *map, int64_t key) {
    if (map->count == 0) {
        return NULL;
    }
    struct map_slot *slot = find(map, key);
    void *old = slot->value;
    if (old == NULL) {
        return NULL;
    }
    size_t mask = map->capacity - 1;
    size_t hole = (size_t)(slot - map->slots);
    for (size_t i = (hole + 1) & mask; map->slots[i].value != NULL; i = (i + 1) & mask) {
        /* An entry may move back to the hole only if the hole lies between its home and itself. */
        size_t home = hash(map->slots[i].key) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (struct map_slot){0};
    map->count--;
    return old;
}

void map_finish(struct map *map) {
    free(map->slots);
    *map = (struct map){0};
}
