/* batches.h - the runs of a pool that gives them to its workers together: gathered, handed over, and split when a batch
 * fails as a whole.
 *
 * Used by pool.c and pool_processes.c; nothing here does anything in a pool without `batch_size`. When: loop thread only.
 */
#ifndef WORKERS_BATCHES_H
#define WORKERS_BATCHES_H

#include "workers/pool.h"

void batches_init(struct pool *pool);
void batches_close(struct pool *pool, struct close_group *group);

int batches_room(const struct pool *pool);
/* AGAIN: there is no room. */
enum status batches_start(struct pool *pool, const struct wire_run *message, struct error *err) MUST_CHECK;

/* Gives the workers that are idle what is ready for them. */
void batches_dispatch(struct pool *pool);

/* The run left its worker's pipe, with that outcome. True: it is not over, but will run again. */
bool batches_take_back(struct pool *pool, struct run *run, const struct pool_outcome *outcome);

/* The run, which no worker has, leaves its list. */
void batches_remove(struct pool *pool, struct run *run);
/* Ends those that no worker has, in the next turn of the loop. */
void batches_return(struct pool *pool, enum run_fate fate);
void batches_give_back(struct pool *pool);

#endif
