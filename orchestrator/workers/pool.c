/* pool.c - the runs of a pool: given to the worker with the shortest pipe, or kept until a fresh
 * process is there; batches.c gives several at once.
 *
 * A run that no worker has ends here only when it waited; its event is owed until the next turn of
 * the loop, because it may not come from inside the call that ends it.
 */
#include "workers/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/require.h"
#include "workers/batches.h"
#include "workers/worker_parts.h"

/* ---- who takes the next one ----------------------------------------------------------------- */

int pool_room(const struct pool *pool) {
    if (pool->closing) {
        return 0;
    }
    if (pool->spec.batch_size > 0) {
        return batches_room(pool);
    }
    int room = 0, limit = depth_limit(&pool->depth);
    int64_t now_ms = clock_now_ms(pool->setup->clock);
    for (int i = 0; i < pool->spec.workers; i++) {
        if (pool->slots[i] != NULL) {
            room += worker_room(pool->slots[i], limit, now_ms);
        }
    }
    return room;
}

static bool is_idle(const struct worker *worker) {
    return worker != NULL && worker->state == WORKER_IDLE && !worker->stop_wanted && !worker->said_last;
}

static struct worker *find_idle(const struct pool *pool, bool fresh) {
    for (int i = 0; i < pool->spec.workers; i++) {
        struct worker *worker = pool->slots[i];
        if (is_idle(worker) && (worker->fresh || !fresh)) {
            return worker;
        }
    }
    return NULL;
}

struct worker *pool_find_idle(const struct pool *pool) {
    return find_idle(pool, false);
}

int pool_count_idle(const struct pool *pool) {
    int count = 0;
    for (int i = 0; i < pool->spec.workers; i++) {
        count += is_idle(pool->slots[i]);
    }
    return count;
}

bool pool_has_idle(const struct pool *pool) {
    return !pool->closing && find_idle(pool, false) != NULL;
}

static struct worker *find_shortest(const struct pool *pool) {
    struct worker *shortest = NULL;
    int limit = depth_limit(&pool->depth);
    int64_t now_ms = clock_now_ms(pool->setup->clock);
    for (int i = 0; i < pool->spec.workers; i++) {
        struct worker *worker = pool->slots[i];
        if (worker != NULL && worker_room(worker, limit, now_ms) > 0 &&
            (shortest == NULL || worker->depth < shortest->depth)) {
            shortest = worker;
        }
    }
    return shortest;
}

/* How many processes will be fresh without anybody's doing. */
static int count_coming(const struct pool *pool) {
    int coming = 0;
    for (int i = 0; i < pool->spec.workers; i++) {
        const struct worker *worker = pool->slots[i];
        coming += worker == NULL || (worker->state != WORKER_IDLE && worker->state != WORKER_BUSY);
    }
    return coming;
}

/* ---- start ---------------------------------------------------------------------------------- */

static struct wire_bytes bytes_of(struct pool_text text) {
    return (struct wire_bytes){.data = text.data, .length = (uint32_t)text.length};
}

static enum status run_message(const struct pool *pool, const struct pool_task *task,
                               struct wire_run *message, struct error *err) {
    const struct pool_text *const texts[] = {&task->key, &task->payload, &task->input, &task->inputs,
                                             &task->progress_text};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i]->length > WIRE_FRAME_MAX) {
            return error_set(err, STATUS_INVALID,
                             "the task is too large for a worker: more than %u bytes",
                             (unsigned)WIRE_FRAME_MAX);
        }
    }
    *message = (struct wire_run){
        .run = task->run,
        .lease_end_ms = *pool->setup->lease_end_ms,
        .timeout_ms = pool->spec.timeout_ms,
        .version = task->version,
        .attempt = task->attempt,
        .key = bytes_of(task->key),
        .payload = bytes_of(task->payload),
        .input = bytes_of(task->input),
        .inputs = bytes_of(task->inputs),
        .has_progress = task->has_progress,
        .progress = task->progress,
        .progress_text = bytes_of(task->progress_text),
    };
    return STATUS_OK;
}

static struct run *new_run(struct pool *pool, uint64_t id) {
    struct run *run = mem_alloc(sizeof *run);
    run->id = id;
    list_init(&run->link);
    void *before = map_put(&pool->runs, (int64_t)id, run);
    REQUIRE(before == NULL);
    return run;
}

static void free_run(struct pool *pool, struct run *run) {
    map_remove(&pool->runs, (int64_t)run->id);
    list_remove(&run->link);
    buf_finish(&run->frame);
    free(run);
}

static enum status give(struct pool *pool, struct worker *worker, const struct wire_run *message,
                        struct error *err) {
    struct run *run = new_run(pool, message->run);
    enum status code = worker_give(worker, run, message, err);
    if (code != STATUS_OK) {
        free_run(pool, run);
    }
    return code;
}

enum status pool_keep_run(struct pool *pool, const struct wire_run *message, struct run **kept,
                          struct error *err) {
    struct run *run = new_run(pool, message->run);
    buf_init(&run->frame, (size_t)WIRE_FRAME_MAX + WIRE_HEADER_BYTES);
    enum status code = wire_put_run(&run->frame, message, err);
    if (code != STATUS_OK) {
        free_run(pool, run);
        return code;
    }
    *kept = run;
    return STATUS_OK;
}

static enum status wait_for_fresh(struct pool *pool, const struct wire_run *message,
                                  struct error *err) {
    struct run *run = NULL;
    enum status code = pool_keep_run(pool, message, &run, err);
    if (code != STATUS_OK) {
        return code;
    }
    run->place = RUN_WAITING;
    list_append(&pool->waiting, &run->link);
    pool->waiting_count++;
    return STATUS_OK;
}

static enum status start_alone(struct pool *pool, const struct wire_run *message,
                               struct error *err) {
    struct worker *fresh = find_idle(pool, true);
    if (fresh != NULL) {
        enum status code = give(pool, fresh, message, err);
        fresh->exclusive = code == STATUS_OK;
        return code;
    }
    if (pool->brakes.parked) {
        return error_set(err, STATUS_UNAVAILABLE, "the pool is parked: %s", pool->parked_reason);
    }
    struct worker *used = NULL;
    if (count_coming(pool) <= pool->waiting_count) {
        used = find_idle(pool, false);
        if (used == NULL) {
            return error_set(err, STATUS_AGAIN, "no worker is free to be started afresh");
        }
    }
    enum status code = wait_for_fresh(pool, message, err);
    if (code == STATUS_OK && used != NULL) {
        worker_stop(used);
    }
    return code;
}

enum status pool_start(struct pool *pool, const struct pool_task *task, struct error *err) {
    if (pool->closing) {
        return error_set(err, STATUS_UNAVAILABLE, "the pool is closing");
    }
    struct wire_run message;
    enum status code = run_message(pool, task, &message, err);
    if (code != STATUS_OK) {
        return code;
    }
    if (task->alone) {
        return start_alone(pool, &message, err);
    }
    if (pool->spec.batch_size > 0) {
        return batches_start(pool, &message, err);
    }
    struct worker *worker = find_shortest(pool);
    if (worker == NULL) {
        return error_set(err, STATUS_AGAIN, "no worker has room");
    }
    return give(pool, worker, &message, err);
}

/* The message was made when the run came, so that its texts were copied once; the lease has moved
 * since. */
void pool_give_kept(struct pool *pool, struct worker *worker, struct run *run,
                    uint32_t batch_left) {
    struct error err = ERROR_NONE;
    struct wire_frame frame;
    struct wire_run message;
    enum status code = wire_next_frame(run->frame.data, run->frame.length, &frame, &err);
    REQUIRE(code == STATUS_OK);
    code = wire_get_run(&frame, WIRE_MINOR, &message, &err);
    REQUIRE(code == STATUS_OK);
    message.lease_end_ms = *pool->setup->lease_end_ms;
    message.batch_left = batch_left;
    run->place = RUN_IN_PIPE;
    code = worker_give(worker, run, &message, &err);
    REQUIRE(code == STATUS_OK);
}

void pool_give_waiting(struct pool *pool, struct worker *worker) {
    if (list_is_empty(&pool->waiting)) {
        return;
    }
    struct run *run = LIST_ENTRY(pool->waiting.next, struct run, link);
    list_remove(&run->link);
    pool->waiting_count--;
    pool_give_kept(pool, worker, run, 0);
    worker->exclusive = true;
    buf_finish(&run->frame); /* it is not sent again */
    if (run->cancelled || run->superseded) {
        worker_tell(worker, run, run->cancelled, run->superseded);
    }
}

/* ---- over ----------------------------------------------------------------------------------- */

static void note_end(struct pool *pool, const struct pool_outcome *outcome) {
    switch (outcome->end) {
    case POOL_OK:
    case POOL_RETRY:
    case POOL_FAIL:
        brakes_note_result(&pool->brakes);
        depth_note(&pool->depth, outcome->run_us);
        break;
    case POOL_CRASH:
    case POOL_TIMEOUT:
    case POOL_LOST:
        if (outcome->run_us > 0) { /* else it was never begun */
            depth_note(&pool->depth, outcome->run_us);
        }
        break;
    case POOL_INTERRUPTED:
    case POOL_RETURNED:
        break;
    }
}

void pool_run_over(struct pool *pool, struct run *run, const struct pool_outcome *outcome) {
    uint64_t id = run->id;
    note_end(pool, outcome);
    if (!batches_take_back(pool, run, outcome)) {
        free_run(pool, run);
        pool->events.ended(pool->events.context, pool, id, outcome);
    }
    batches_dispatch(pool);
}

/* Of a run that no worker has begun. */
static struct pool_outcome owed_outcome(enum run_fate fate) {
    static const struct {
        enum pool_end end;
        const char *kind, *text;
    } ends[] = {
        [RUN_OPEN] = {POOL_RETURNED, "returned", "no worker process has begun it"},
        [RUN_TIMED_OUT] = {POOL_RETURNED, "returned", "no worker process has begun it"},
        [RUN_INTERRUPTED] = {POOL_INTERRUPTED, "interrupted", "interrupted"},
        [RUN_UNHEARD] = {POOL_LOST, "silence", "the worker process that was started for it said nothing at its start"},
    };
    const char *text = ends[fate].text;
    return (struct pool_outcome){
        .end = ends[fate].end, .kind = ends[fate].kind, .message = {text, strlen(text)}};
}

static void on_deliver(uv_idle_t *idle) {
    struct pool *pool = idle->data;
    uv_idle_stop(idle);
    while (!list_is_empty(&pool->returned)) {
        struct run *run = LIST_ENTRY(pool->returned.next, struct run, link);
        struct pool_outcome outcome = owed_outcome(run->fate);
        pool_run_over(pool, run, &outcome);
    }
    pool_close_when_done(pool);
}

void pool_return_run(struct pool *pool, struct run *run, enum run_fate fate) {
    if (run->place == RUN_WAITING) {
        list_remove(&run->link);
        pool->waiting_count--;
    } else {
        batches_remove(pool, run);
    }
    run->place = RUN_OWED;
    run->fate = fate;
    buf_finish(&run->frame);
    list_append(&pool->returned, &run->link);
    uv_idle_start(&pool->deliver, on_deliver);
}

void pool_return_waiting(struct pool *pool, enum run_fate fate) {
    LIST_EACH_SAFE(node, after, &pool->waiting) {
        pool_return_run(pool, LIST_ENTRY(node, struct run, link), fate);
    }
}

void pool_return_unheard(struct pool *pool) {
    if (!list_is_empty(&pool->waiting)) {
        pool_return_run(pool, LIST_ENTRY(pool->waiting.next, struct run, link), RUN_UNHEARD);
    }
}

void pool_give_back(struct pool *pool) {
    batches_give_back(pool);
}

/* ---- what runs are told --------------------------------------------------------------------- */

void pool_tell(struct pool *pool, uint64_t id, bool cancelled, bool superseded) {
    struct run *run = map_get(&pool->runs, (int64_t)id);
    if (run == NULL) {
        return;
    }
    run->cancelled = run->cancelled || cancelled;
    run->superseded = run->superseded || superseded;
    switch (run->place) {
    case RUN_IN_PIPE:
        worker_tell(run->worker, run, run->cancelled, run->superseded);
        return;
    case RUN_GATHERED:
    case RUN_HALVED: /* it has not begun, and need not */
        pool_return_run(pool, run, RUN_OPEN);
        return;
    case RUN_WAITING:
    case RUN_SUSPECT:
    case RUN_OWED:
        return;
    }
}

void pool_interrupt(struct pool *pool, uint64_t id) {
    struct run *run = map_get(&pool->runs, (int64_t)id);
    if (run == NULL) {
        return;
    }
    run->interrupted = true;
    switch (run->place) {
    case RUN_IN_PIPE:
        worker_interrupt(run->worker, run);
        return;
    case RUN_WAITING:
    case RUN_GATHERED:
    case RUN_HALVED:
        pool_return_run(pool, run, RUN_INTERRUPTED);
        return;
    case RUN_SUSPECT:
    case RUN_OWED:
        return;
    }
}

void pool_interrupt_all(struct pool *pool, bool now) {
    MAP_EACH(slot, &pool->runs) {
        struct run *run = slot->value;
        run->interrupted = true;
    }
    pool_return_waiting(pool, RUN_INTERRUPTED);
    batches_return(pool, RUN_INTERRUPTED);
    for (int i = 0; i < pool->spec.workers; i++) {
        if (pool->slots[i] != NULL) {
            worker_interrupt_all(pool->slots[i], now);
        }
    }
}
