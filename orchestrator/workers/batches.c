/* batches.c - a run's way in a pool that gives several to a worker at once.
 *
 *   start --> GATHERED --(as many as a batch takes, or the wait is over; a worker is idle)--> IN_PIPE --> ended
 *                                                                                              |   ^
 *                     (the batch failed as a whole: nobody knows which run is to blame)        v   |
 *                                          HALVED <--(the last of the batch left the worker)-- SUSPECT
 *
 * A half goes to the next idle worker, before anything that is gathered. Halves are taken in the order in which they were
 * made: between two that crash there is one that does well, so the brakes are not put on by one bad run. A batch of one
 * stands alone: what it comes to is told. What was answered before its batch failed is over, and not run again.
 */
#include "workers/batches.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/require.h"
#include "workers/worker_parts.h"

/* What a worker, and the node for it, should hold at once: a batch that is so large does not wait for more. */
enum { BATCH_BYTES_MAX = 64 * 1024 * 1024 };

struct batch {
    struct list link; /* in the pool's halves, while it waits for a worker */
    struct list runs; /* HALVED, or SUSPECT, in order */
    int count;        /* of `runs` */
    int size;         /* as it was given to its worker */
    int open;         /* of those, still in the worker's pipe */
};

static struct run *run_of(struct list *link) {
    return LIST_ENTRY(link, struct run, link);
}

static struct batch *new_batch(void) {
    struct batch *batch = mem_alloc(sizeof *batch);
    *batch = (struct batch){0};
    list_init(&batch->link);
    list_init(&batch->runs);
    return batch;
}

static void add(struct batch *batch, struct run *run, enum run_place place) {
    run->place = place;
    run->batch = batch;
    run->order = batch->count++;
    list_append(&batch->runs, &run->link);
}

/* ---- gathering ------------------------------------------------------------------------------------------------------ */

static void on_wait_over(uv_timer_t *timer) {
    batches_dispatch(timer->data);
}

void batches_init(struct pool *pool) {
    list_init(&pool->gathered);
    list_init(&pool->halves);
    uv_timer_init(pool->setup->loop, &pool->gather);
    pool->gather.data = pool;
}

void batches_close(struct pool *pool, struct close_group *group) {
    close_group_add(group, (uv_handle_t *)&pool->gather);
}

int batches_room(const struct pool *pool) {
    int64_t room = (int64_t)pool->spec.batch_size * pool_count_idle(pool) - pool->gathered_count;
    return room > 0 ? (int)(room < INT32_MAX ? room : INT32_MAX) : 0;
}

static bool is_full(const struct pool *pool) {
    return pool->gathered_count >= pool->spec.batch_size || pool->gathered_bytes >= BATCH_BYTES_MAX;
}

/* When the first that is gathered has waited for long enough. */
static int64_t wait_left_ms(const struct pool *pool) {
    return run_of(pool->gathered.next)->since_ms + pool->spec.batch_wait_ms - clock_now_ms(pool->setup->clock);
}

static void arm(struct pool *pool, int64_t delay_ms) {
    uv_update_time(pool->setup->loop);
    uv_timer_start(&pool->gather, on_wait_over, delay_ms > 0 ? (uint64_t)delay_ms : 0, 0);
}

/* A batch that is not full is never sent from here, also when nothing is to be waited for: the caller has more. */
enum status batches_start(struct pool *pool, const struct wire_run *message, struct error *err) {
    if (batches_room(pool) == 0) {
        return error_set(err, STATUS_AGAIN, "no worker has room");
    }
    struct run *run = NULL;
    enum status code = pool_keep_run(pool, message, &run, err);
    if (code != STATUS_OK) {
        return code;
    }
    run->place = RUN_GATHERED;
    run->since_ms = clock_now_ms(pool->setup->clock);
    list_append(&pool->gathered, &run->link);
    pool->gathered_count++;
    pool->gathered_bytes += run->frame.length;
    pool->giving_back = false;
    if (is_full(pool)) {
        batches_dispatch(pool);
    } else if (!uv_is_active((uv_handle_t *)&pool->gather)) {
        arm(pool, wait_left_ms(pool));
    }
    return STATUS_OK;
}

static void remove_gathered(struct pool *pool, struct run *run) {
    list_remove(&run->link);
    pool->gathered_count--;
    pool->gathered_bytes -= run->frame.length;
}

/* The oldest, as many as fit into one; at least one. */
static struct batch *take_gathered(struct pool *pool) {
    struct batch *batch = new_batch();
    size_t bytes = 0;
    while (!list_is_empty(&pool->gathered) && batch->count < pool->spec.batch_size) {
        struct run *run = run_of(pool->gathered.next);
        bytes += run->frame.length;
        if (batch->count > 0 && bytes > BATCH_BYTES_MAX) {
            break;
        }
        remove_gathered(pool, run);
        add(batch, run, RUN_HALVED);
    }
    return batch;
}

/* ---- handing over --------------------------------------------------------------------------------------------------- */

/* NULL: nothing is ready. */
static struct batch *next_batch(struct pool *pool) {
    if (!list_is_empty(&pool->halves)) {
        struct batch *half = LIST_ENTRY(pool->halves.next, struct batch, link);
        list_remove(&half->link);
        return half;
    }
    if (!list_is_empty(&pool->gathered) && (is_full(pool) || wait_left_ms(pool) <= 0)) {
        return take_gathered(pool);
    }
    return NULL;
}

static void give(struct pool *pool, struct worker *worker, struct batch *batch) {
    batch->size = batch->open = batch->count;
    while (!list_is_empty(&batch->runs)) {
        struct run *run = run_of(batch->runs.next);
        list_remove(&run->link);
        batch->count--;
        pool_give_kept(pool, worker, run, (uint32_t)batch->count);
    }
}

void batches_dispatch(struct pool *pool) {
    struct worker *worker;
    struct batch *batch;
    while (pool->spec.batch_size > 0 && !pool->closing && (worker = pool_find_idle(pool)) != NULL &&
           (batch = next_batch(pool)) != NULL) {
        give(pool, worker, batch);
    }
    /* What has waited for long enough and is still here gets the next worker that is idle. */
    int64_t left_ms = list_is_empty(&pool->gathered) ? 0 : wait_left_ms(pool);
    if (left_ms > 0 && !uv_is_active((uv_handle_t *)&pool->gather)) {
        arm(pool, left_ms);
    }
}

/* ---- over, or split ------------------------------------------------------------------------------------------------- */

static bool failed_as_a_whole(const struct run *run, const struct pool_outcome *outcome) {
    switch (outcome->end) {
    case POOL_RETRY:
        return run->split;
    case POOL_CRASH:
    case POOL_TIMEOUT:
    case POOL_LOST:
        return true;
    case POOL_OK:
    case POOL_FAIL:
    case POOL_INTERRUPTED: /* they are over, or the scheduler starts them again */
    case POOL_RETURNED:
        return false;
    }
    return false;
}

/* In the order of the batch, in which they need not come back. */
static void suspect(struct batch *batch, struct run *run) {
    struct list *after = batch->runs.prev;
    while (after != &batch->runs && run_of(after)->order > run->order) {
        after = after->prev;
    }
    run->place = RUN_SUSPECT;
    run->worker = NULL;
    run->fate = RUN_OPEN;
    run->split = false;
    list_remove(&run->link);
    list_prepend(after, &run->link);
    batch->count++;
}

static void make_half(struct pool *pool, struct batch *from, int count) {
    struct batch *half = new_batch();
    while (count-- > 0) {
        struct run *run = run_of(from->runs.next);
        list_remove(&run->link);
        from->count--;
        add(half, run, RUN_HALVED);
    }
    list_append(&pool->halves, &half->link);
}

/* Those that nobody wants to run again, or not here. */
static void drop_unwanted(struct pool *pool, struct batch *batch) {
    LIST_EACH_SAFE(node, after, &batch->runs) {
        struct run *run = run_of(node);
        if (run->interrupted || run->cancelled || run->superseded || pool->closing || pool->giving_back) {
            pool_return_run(pool, run, run->interrupted ? RUN_INTERRUPTED : RUN_OPEN);
        }
    }
}

/* Its last run left the worker. */
static void finish(struct pool *pool, struct batch *batch) {
    drop_unwanted(pool, batch);
    int rest = batch->count / 2;
    if (batch->count > 0) {
        make_half(pool, batch, batch->count - rest);
    }
    if (rest > 0) {
        make_half(pool, batch, rest);
    }
    free(batch);
}

bool batches_take_back(struct pool *pool, struct run *run, const struct pool_outcome *outcome) {
    struct batch *batch = run->batch;
    if (batch == NULL) {
        return false;
    }
    bool again = batch->size > 1 && failed_as_a_whole(run, outcome);
    if (again) {
        if (batch->count == 0) {
            log_event(LOG_INFO, "batch.split", "pipeline=%s stage=%s runs=%d kind=%s reason=%s", pool->spec.pipeline,
                      pool->spec.stage, batch->size, outcome->kind, log_text(outcome->message.data));
        }
        suspect(batch, run);
    } else {
        run->batch = NULL;
    }
    if (--batch->open == 0) {
        finish(pool, batch);
    }
    return again;
}

/* ---- taken out ------------------------------------------------------------------------------------------------------ */

void batches_remove(struct pool *pool, struct run *run) {
    struct batch *batch = run->batch;
    if (run->place == RUN_GATHERED) {
        remove_gathered(pool, run);
        return;
    }
    REQUIRE(batch != NULL);
    list_remove(&run->link);
    run->batch = NULL;
    batch->count--;
    if (run->place == RUN_HALVED && batch->count == 0) {
        list_remove(&batch->link);
        free(batch);
    }
}

void batches_return(struct pool *pool, enum run_fate fate) {
    while (!list_is_empty(&pool->gathered)) {
        pool_return_run(pool, run_of(pool->gathered.next), fate);
    }
    while (!list_is_empty(&pool->halves)) {
        struct batch *half = LIST_ENTRY(pool->halves.next, struct batch, link);
        pool_return_run(pool, run_of(half->runs.next), fate);
    }
}

void batches_give_back(struct pool *pool) {
    pool->giving_back = true;
    batches_return(pool, RUN_OPEN);
}
