/* pool.h - one stage's workers: who gets the next run, who is started, and when to stop trying.
 *
 * Used by workers.c, which makes the operation table of it. The struct is `struct pool` of
 * ports/workers.h, and what each function promises is written there. When: loop thread only.
 */
#ifndef WORKERS_POOL_H
#define WORKERS_POOL_H

#include <uv.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "ports/workers.h"
#include "workers/brakes.h"
#include "workers/depth.h"
#include "workers/worker.h"

/* What the pools of a node share. Borrowed; outlives them. */
struct pool_setup {
    uv_loop_t *loop;
    const struct clock_ops *clock;
    const struct random_ops *random;
    struct stream_flusher *flusher;
    const char *program;
    int lock_fd;
    struct work_folders *folders;
    struct oom_watch *oom;
    struct throttle *throttle;
    int64_t start_timeout_ms;
    struct backoff restart;
    int64_t short_life_pause_ms;
    const int64_t *lease_end_ms;
    char *room;
    size_t room_bytes;
};

struct pool {
    struct list link; /* in the node's pools */
    const struct pool_setup *setup;
    struct pool_spec spec;
    struct arena spec_texts;
    struct pool_events events;
    struct worker_setup worker_setup;

    struct worker **slots; /* spec.workers; NULL: no process */
    int processes;         /* whose memory is not free yet */
    struct map runs;       /* struct run by id */
    struct list waiting;   /* runs for a fresh worker */
    int waiting_count;
    struct list returned; /* runs whose `ended` is owed */

    /* With batch_size. */
    struct list gathered;  /* runs that no worker has yet, oldest first */
    int gathered_count;
    size_t gathered_bytes; /* of their frames */
    struct list halves;    /* struct batch: of batches that failed as a whole */
    bool giving_back;      /* until the next start: what would run again does not */

    struct depth depth;
    struct brakes brakes;
    char *parked_reason; /* NULL: not parked */
    char *trouble;       /* why the last process ended before it was ready; NULL: it did not */
    struct log_limit output_limit, log_limit;

    uv_timer_t restart; /* runs while a start is delayed */
    uv_idle_t deliver;  /* runs while `returned` holds any */
    uv_timer_t gather;  /* runs while a batch waits for more */
    struct close_group closing_handles;
    bool closing, closing_is_told;
};

enum status pool_open(const struct pool_setup *setup, struct list *pools,
                      const struct pool_spec *spec, const struct pool_events *events,
                      struct pool **pool, struct error *err) MUST_CHECK;
int pool_room(const struct pool *pool);
bool pool_has_idle(const struct pool *pool);
enum status pool_start(struct pool *pool, const struct pool_task *task,
                       struct error *err) MUST_CHECK;
void pool_tell(struct pool *pool, uint64_t run, bool cancelled, bool superseded);
void pool_interrupt(struct pool *pool, uint64_t run);
void pool_interrupt_all(struct pool *pool, bool now);
void pool_give_back(struct pool *pool);
void pool_close(struct pool *pool);
enum pool_state pool_state_of(const struct pool *pool, const char **reason);
void pool_lease_renewed(struct pool *pool);

/* pool_processes.c: starts what is missing, as far as brakes and lease allow. */
void pool_fill(struct pool *pool);
/* Closes the handles when the last process and the last owed event are gone. */
void pool_close_when_done(struct pool *pool);
/* pool.c: a run that waited for a fresh worker is sent to this one, which just got ready. */
void pool_give_waiting(struct pool *pool, struct worker *worker);
/* Ends the runs that wait for a fresh worker, in the next turn of the loop. */
void pool_return_waiting(struct pool *pool, enum run_fate fate);
/* A worker said nothing at its start: so ends the run that would have been its first. */
void pool_return_unheard(struct pool *pool);
void pool_run_over(struct pool *pool, struct run *run, const struct pool_outcome *outcome);

/* pool.c, for batches.c. NULL: none. */
struct worker *pool_find_idle(const struct pool *pool);
int pool_count_idle(const struct pool *pool);
/* A run that is to be sent later. */
enum status pool_keep_run(struct pool *pool, const struct wire_run *message, struct run **run,
                          struct error *err) MUST_CHECK;
/* Sends it; `batch_left` more of its batch follow. */
void pool_give_kept(struct pool *pool, struct worker *worker, struct run *run, uint32_t batch_left);
/* Ends a run that no worker has, in the next turn of the loop. */
void pool_return_run(struct pool *pool, struct run *run, enum run_fate fate);

#endif
