/* map.h - hash map from 64-bit keys to borrowed pointers (open addressing, linear probing).
 *
 * A zeroed struct is an empty map. Values are never NULL. Do not change the map inside MAP_EACH, except by removing
 * nothing and replacing values.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct map_slot {
    int64_t key;
    void *value; /* NULL: free */
};

struct map {
    struct map_slot *slots;
    size_t count, capacity;
};

void *map_get(const struct map *map, int64_t key);             /* NULL when absent */
void *map_put(struct map *map, int64_t key, void *value);      /* returns what was there before */
void *map_remove(struct map *map, int64_t key);                /* returns what was there */
void map_finish(struct map *map);

#define MAP_EACH(slot, map)                                                                        \
    for (struct map_slot *slot = (map)->slots;                                                     \
         slot != NULL && slot < (map)->slots + (map)->capacity; slot++)                            \
        if (slot->value != NULL)

#endif
