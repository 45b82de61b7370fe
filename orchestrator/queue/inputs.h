/* inputs.h - what earlier stages returned, for claimed and for held tasks: inputs.sql. Private to the queue.
 *
 * The statement gives one row a task and stage; the object of each task is put together here, so that its size is bounded by
 * the memory of the node and not by what one value in PostgreSQL may be.
 */
#ifndef QUEUE_INPUTS_H
#define QUEUE_INPUTS_H

#include "ports/store.h"
#include "queue/script.h"

struct inputs_wanted {
    int64_t claim, task; /* task 0: all that the claim takes */
    struct store_inputs inputs; /* count 0: none */
};

/* Copies what is borrowed for the call: one a claim, then one a fetch. */
struct inputs_wanted *inputs_keep(struct arena *arena, const struct store_tick *tick);
/* Adds the statement; false when nothing is wanted. */
bool inputs_add(struct script *script, int count, const struct inputs_wanted *wanted);
/* The object for one task; absent when the result has nothing of it. Ownership: the arena's. */
struct store_text inputs_read(struct arena *arena, const struct db_result *result, int64_t task,
                              const struct store_inputs *inputs);

#endif
