/* workers.c - the operation table, and what the pools of a node share. */
#include "workers/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/list.h"
#include "base/memory.h"
#include "base/require.h"
#include "workers/pool.h"
#include "workers/stream.h"

enum { ROOM_BYTES = 64 * 1024, OOM_LOOK_MS = 1000 };

struct workers {
    struct pool_setup setup;
    struct list pools;
    struct stream_flusher flusher;
    int64_t lease_end_ms;
    char *program, *oom_counter;
    struct oom_watch oom;
    uv_timer_t oom_timer;
    struct throttle throttle;
    char room[ROOM_BYTES];

    struct close_group closing;
    void (*closed)(void *context);
    void *closed_context;
};

static enum status open_pool(void *context, const struct pool_spec *spec,
                             const struct pool_events *events, struct pool **pool,
                             struct error *err) {
    struct workers *workers = context;
    return pool_open(&workers->setup, &workers->pools, spec, events, pool, err);
}

/* `ended` is never called from here, so no pool goes in between. */
static void interrupt_all(void *context, bool now) {
    struct workers *workers = context;
    LIST_EACH(node, &workers->pools) {
        pool_interrupt_all(LIST_ENTRY(node, struct pool, link), now);
    }
}

static void set_lease_end(void *context, int64_t lease_end_ms) {
    struct workers *workers = context;
    workers->lease_end_ms = lease_end_ms;
    LIST_EACH(node, &workers->pools) {
        pool_lease_renewed(LIST_ENTRY(node, struct pool, link));
    }
}

static const struct workers_ops operations = {
    .open = open_pool,
    .room = pool_room,
    .has_idle = pool_has_idle,
    .start = pool_start,
    .tell = pool_tell,
    .interrupt = pool_interrupt,
    .interrupt_all = interrupt_all,
    .give_back = pool_give_back,
    .close = pool_close,
    .state = pool_state_of,
    .set_lease_end = set_lease_end,
};

static int64_t or_default(int64_t value, int64_t otherwise) {
    return value != 0 ? value : otherwise;
}

static struct backoff restart_policy(const struct backoff *wanted) {
    if (wanted->max_ms != 0) {
        return *wanted;
    }
    return (struct backoff){.kind = BACKOFF_EXPONENTIAL,
                            .first_ms = WORKERS_RESTART_FIRST_MS,
                            .max_ms = WORKERS_RESTART_MAX_MS,
                            .jitter_percent = WORKERS_RESTART_JITTER_PERCENT};
}

static void on_oom_look(uv_timer_t *timer) {
    struct workers *workers = timer->data;
    oom_watch_look(&workers->oom);
}

static void watch_memory(struct workers *workers, uv_loop_t *loop, const char *counter) {
    workers->oom_counter = mem_copy_string(counter);
    oom_watch_init(&workers->oom, workers->oom_counter);
    uv_timer_init(loop, &workers->oom_timer);
    workers->oom_timer.data = workers;
    uv_timer_start(&workers->oom_timer, on_oom_look, OOM_LOOK_MS, OOM_LOOK_MS);
    uv_unref((uv_handle_t *)&workers->oom_timer);
}

enum status workers_create(uv_loop_t *loop, const struct workers_options *options,
                           struct workers_ops *ops, struct workers **workers, struct error *err) {
    if (options->program == NULL) {
        return error_set(err, STATUS_INVALID, "no worker program was named");
    }
    if (access(options->program, X_OK) != 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "worker program %s", options->program);
    }
    struct workers *made = mem_alloc(sizeof *made);
    made->lease_end_ms = INT64_MAX;
    made->program = mem_copy_string(options->program);
    made->setup = (struct pool_setup){
        .loop = loop,
        .clock = options->clock,
        .random = options->random,
        .flusher = &made->flusher,
        .program = made->program,
        .lock_fd = options->lock_fd,
        .folders = work_folders_create(loop, options->work_root),
        .oom = &made->oom,
        .throttle = &made->throttle,
        .start_timeout_ms = or_default(options->start_timeout_ms, WORKERS_START_TIMEOUT_MS),
        .restart = restart_policy(&options->restart),
        .short_life_pause_ms =
            or_default(options->short_life_pause_ms, WORKERS_SHORT_LIFE_PAUSE_MS),
        .lease_end_ms = &made->lease_end_ms,
        .room = made->room,
        .room_bytes = sizeof made->room,
    };
    list_init(&made->pools);
    watch_memory(made, loop, options->oom_counter);
    stream_flusher_init(&made->flusher, loop);
    throttle_init(&made->throttle, loop);
    *ops = operations;
    ops->context = made;
    *workers = made;
    return STATUS_OK;
}

static void on_closed(void *context) {
    struct workers *workers = context;
    void (*closed)(void *context) = workers->closed;
    void *closed_context = workers->closed_context;
    free(workers->program);
    free(workers->oom_counter);
    free(workers);
    if (closed != NULL) {
        closed(closed_context);
    }
}

static void on_folders_gone(void *context) {
    struct workers *workers = context;
    close_group_begin(&workers->closing, on_closed, workers);
    stream_flusher_close(&workers->flusher, &workers->closing);
    throttle_close(&workers->throttle, &workers->closing);
    close_group_add(&workers->closing, (uv_handle_t *)&workers->oom_timer);
    close_group_end(&workers->closing);
}

void workers_destroy(struct workers *workers, void (*closed)(void *context), void *context) {
    REQUIRE(list_is_empty(&workers->pools));
    workers->closed = closed;
    workers->closed_context = context;
    work_folders_destroy(workers->setup.folders, on_folders_gone, workers);
}
