/* pool_processes.c - the processes of a pool: started, counted, braked, parked, and all of them
 * ended at its close.
 *
 *   open --> STARTING <--> UP          UP: a worker is idle or busy
 *               |           |
 *               +-- deaths of its own --> PARKED     starts nothing more; workers that are up go on
 *   any --close--> closing: the last process reaped, the last event told --> closed
 *
 * After a death of its own a pool starts one process at a time until one gets ready: many workers
 * shall not multiply a mistake.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/require.h"
#include "workers/batches.h"
#include "workers/pool.h"
#include "workers/worker_parts.h"

/* A start waits for the exec: the loop shall not stand still for those of a large pool. */
enum { STARTS_PER_TURN = 4 };

/* ---- starting ------------------------------------------------------------------------------- */

static void note_trouble(struct pool *pool, const char *why) {
    free(pool->trouble);
    pool->trouble = mem_copy_string(why);
}

static void on_ready(void *context, struct worker *worker) {
    struct pool *pool = context;
    brakes_note_ready(&pool->brakes, clock_now_ms(pool->setup->clock));
    note_trouble(pool, NULL);
    pool_give_waiting(pool, worker);
    batches_dispatch(pool);
    pool_fill(pool);
    pool->events.changed(pool->events.context, pool);
}

static void on_over(void *context, struct worker *worker, struct run *run,
                    const struct pool_outcome *outcome) {
    (void)worker;
    pool_run_over(context, run, outcome);
}

static void on_progress(void *context, struct run *run, double fraction, const char *text) {
    struct pool *pool = context;
    if (pool->events.progress != NULL) {
        pool->events.progress(pool->events.context, pool, run->id, fraction, text);
    }
}

static void park(struct pool *pool, const char *reason) {
    pool->parked_reason = mem_copy_string(reason);
    log_event(LOG_ERROR, "pool.parked", "pipeline=%s stage=%s reason=%s", pool->spec.pipeline,
              pool->spec.stage, log_text(reason));
    pool_return_waiting(pool, RUN_OPEN);
}

static bool has_processes(const struct pool *pool) {
    for (int i = 0; i < pool->spec.workers; i++) {
        if (pool->slots[i] != NULL) {
            return true;
        }
    }
    return false;
}

static void on_dead(void *context, struct worker *worker, const struct worker_death *death) {
    struct pool *pool = context;
    REQUIRE(pool->slots[worker->number - 1] == worker);
    pool->slots[worker->number - 1] = NULL;
    brakes_note_death(&pool->brakes, death->cause, death->started_ms,
                      clock_now_ms(pool->setup->clock), pool->setup->random);
    if (death->cause == BRAKES_OWN || death->cause == BRAKES_REFUSED) {
        note_trouble(pool, death->reason);
    }
    if (death->silent) {
        pool_return_unheard(pool);
    }
    if (pool->brakes.parked && pool->parked_reason == NULL) {
        park(pool, death->reason);
    }
    if (pool->brakes.parked && !has_processes(pool)) {
        batches_return(pool, RUN_OPEN);
    }
    pool_fill(pool);
    pool->events.changed(pool->events.context, pool);
}

static void on_worker_closed(void *context) {
    struct pool *pool = context;
    pool->processes--;
    pool_close_when_done(pool);
}

static void on_restart(uv_timer_t *timer) {
    pool_fill(timer->data);
}

static bool one_is_starting(const struct pool *pool) {
    for (int i = 0; i < pool->spec.workers; i++) {
        if (pool->slots[i] != NULL && pool->slots[i]->state == WORKER_STARTING) {
            return true;
        }
    }
    return false;
}

static void start_slot(struct pool *pool, int slot) {
    const struct worker_events events = {.ready = on_ready,
                                         .over = on_over,
                                         .progress = on_progress,
                                         .dead = on_dead,
                                         .closed = on_worker_closed,
                                         .context = pool};
    pool->slots[slot] = worker_create(&pool->worker_setup, &events, slot + 1);
    pool->processes++;
}

static void fill_after(struct pool *pool, int64_t delay_ms) {
    uv_update_time(pool->setup->loop);
    uv_timer_start(&pool->restart, on_restart, (uint64_t)delay_ms, 0);
}

void pool_fill(struct pool *pool) {
    if (pool->closing || pool->brakes.parked) {
        return;
    }
    int64_t now_ms = clock_now_ms(pool->setup->clock);
    if (*pool->setup->lease_end_ms <= now_ms) {
        return; /* they would end at once; pool_lease_renewed comes back */
    }
    int started = 0;
    for (int i = 0; i < pool->spec.workers; i++) {
        if (pool->slots[i] != NULL) {
            continue;
        }
        if (pool->brakes.next_start_ms > now_ms) {
            fill_after(pool, pool->brakes.next_start_ms - now_ms);
            return;
        }
        if (pool->brakes.failing && one_is_starting(pool)) {
            return;
        }
        if (started == STARTS_PER_TURN) {
            fill_after(pool, 1);
            return;
        }
        start_slot(pool, i);
        started++;
    }
}

void pool_lease_renewed(struct pool *pool) {
    for (int i = 0; i < pool->spec.workers; i++) {
        if (pool->slots[i] != NULL) {
            worker_beat(pool->slots[i]);
        }
    }
    pool_fill(pool);
}

enum pool_state pool_state_of(const struct pool *pool, const char **reason) {
    if (reason != NULL) {
        *reason = pool->parked_reason != NULL ? pool->parked_reason : pool->trouble;
    }
    if (pool->parked_reason != NULL) {
        return POOL_PARKED;
    }
    for (int i = 0; i < pool->spec.workers; i++) {
        const struct worker *worker = pool->slots[i];
        if (worker != NULL && (worker->state == WORKER_IDLE || worker->state == WORKER_BUSY)) {
            return POOL_UP;
        }
    }
    return POOL_STARTING;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void free_pool(struct pool *pool) {
    arena_finish(&pool->spec_texts);
    free(pool->parked_reason);
    free(pool->trouble);
    map_finish(&pool->runs);
    free(pool->slots);
    free(pool);
}

static void on_handles_closed(void *context) {
    struct pool *pool = context;
    list_remove(&pool->link);
    pool->events.closed(pool->events.context, pool);
    free_pool(pool);
}

void pool_close_when_done(struct pool *pool) {
    if (!pool->closing || pool->processes > 0 || pool->runs.count > 0 || pool->closing_is_told) {
        return;
    }
    pool->closing_is_told = true;
    close_group_begin(&pool->closing_handles, on_handles_closed, pool);
    close_group_add(&pool->closing_handles, (uv_handle_t *)&pool->restart);
    close_group_add(&pool->closing_handles, (uv_handle_t *)&pool->deliver);
    batches_close(pool, &pool->closing_handles);
    close_group_end(&pool->closing_handles);
}

void pool_close(struct pool *pool) {
    if (pool->closing) {
        return;
    }
    pool->closing = true;
    uv_timer_stop(&pool->restart);
    pool_return_waiting(pool, RUN_OPEN);
    batches_return(pool, RUN_OPEN);
    for (int i = 0; i < pool->spec.workers; i++) {
        if (pool->slots[i] != NULL) {
            worker_stop(pool->slots[i]);
        }
    }
    pool_close_when_done(pool);
}

static enum status check_spec(const struct pool_spec *spec, struct error *err) {
    if (spec->workers < 1) {
        return error_set(err, STATUS_INVALID, "a pool of %d workers", spec->workers);
    }
    if (spec->timeout_ms < 0 || spec->grace_ms < 0) {
        return error_set(err, STATUS_INVALID, "a negative time-out or grace");
    }
    struct buf frame;
    buf_init(&frame, (size_t)WIRE_FRAME_MAX + WIRE_HEADER_BYTES);
    struct wire_hello hello = worker_hello(spec, 0);
    enum status code = wire_put_hello(&frame, &hello, err);
    wire_hello_finish(&hello);
    buf_finish(&frame);
    return code;
}

static const char *const *copy_list(struct arena *arena, const char *const *list) {
    int count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    if (list == NULL) {
        return NULL;
    }
    const char **copy = arena_alloc(arena, ((size_t)count + 1) * sizeof(const char *));
    for (int i = 0; i < count; i++) {
        copy[i] = arena_copy_string(arena, list[i]);
    }
    return copy;
}

static void copy_texts(struct pool_spec *spec, struct arena *arena) {
    spec->pipeline = arena_copy_string(arena, spec->pipeline);
    spec->stage = arena_copy_string(arena, spec->stage);
    spec->handler_file = arena_copy_string(arena, spec->handler_file);
    spec->handler_name = arena_copy_string(arena, spec->handler_name);
    spec->config = arena_copy_string(arena, spec->config);
    spec->folder = arena_copy_string(arena, spec->folder);
    spec->user = arena_copy_string(arena, spec->user);
    spec->arguments = copy_list(arena, spec->arguments);
    spec->env = copy_list(arena, spec->env);
}

enum status pool_open(const struct pool_setup *setup, struct list *pools,
                      const struct pool_spec *spec, const struct pool_events *events,
                      struct pool **pool, struct error *err) {
    struct pool_spec checked = *spec;
    checked.config = spec->config != NULL ? spec->config : "{}";
    enum status code = check_spec(&checked, err);
    if (code != STATUS_OK) {
        return code;
    }
    struct pool *opened = mem_alloc(sizeof *opened);
    *opened = (struct pool){.setup = setup, .spec = checked, .events = *events};
    copy_texts(&opened->spec, &opened->spec_texts);
    opened->slots = mem_alloc((size_t)checked.workers * sizeof(struct worker *));
    opened->worker_setup = (struct worker_setup){.loop = setup->loop,
                                                 .clock = setup->clock,
                                                 .flusher = setup->flusher,
                                                 .program = setup->program,
                                                 .lock_fd = setup->lock_fd,
                                                 .folders = setup->folders,
                                                 .oom = setup->oom,
                                                 .throttle = setup->throttle,
                                                 .start_timeout_ms = setup->start_timeout_ms,
                                                 .lease_end_ms = setup->lease_end_ms,
                                                 .spec = &opened->spec,
                                                 .output_limit = &opened->output_limit,
                                                 .log_limit = &opened->log_limit,
                                                 .room = setup->room,
                                                 .room_bytes = setup->room_bytes};
    list_init(&opened->waiting);
    list_init(&opened->returned);
    batches_init(opened);
    brakes_init(&opened->brakes, &setup->restart, setup->short_life_pause_ms);
    uv_timer_init(setup->loop, &opened->restart);
    opened->restart.data = opened;
    uv_idle_init(setup->loop, &opened->deliver);
    opened->deliver.data = opened;
    list_append(pools, &opened->link);
    pool_fill(opened);
    *pool = opened;
    return STATUS_OK;
}
