/* fake_pools.c - pools of slots; a slot is a worker process with a pipe of jobs, of which the first one runs. */
#include "fake_pools.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/memory.h"
#include "base/require.h"

struct slot {
    struct list pipe;
    int64_t up_at_ms; /* it is starting until then */
    bool fresh, exclusive;
};

struct pool {
    struct list link;
    struct fake_pools *pools;
    struct pool_events events;
    char *pipeline, *stage;
    int64_t grace_ms;
    int slot_count;
    struct slot *slots;
    struct list waiting; /* jobs that wait for a fresh worker */
    int jobs;            /* not yet told to have ended */
    bool closing, closing_told, parked;
};

struct job {
    struct list link; /* slot->pipe, pool->waiting, or none */
    struct list all;
    struct pool *pool;
    struct slot *slot;
    struct fake_run run;
    struct fake_plan plan;
    bool begun, dying, over, stalled;
    int events; /* that are to come for it */
};

enum news { NEWS_ENDED, NEWS_CHANGED, NEWS_CLOSED };

struct message {
    struct list link;
    enum news news;
    struct pool *pool;
    uint64_t run;
    enum pool_end end;
    char *output, *message, *sql;
    enum pool_flow flow;
    const char *target;
    int64_t delay_ms, run_us;
};

struct fake_pools {
    struct fake_time *time;
    struct random_seeded seeded;
    struct random_ops random;
    struct fake_pools_hooks hooks;
    struct workers_ops ops;
    struct list pools, jobs, outbox;
    int depth;
    int64_t latency_ms, restart_ms, lease_end_ms;
    bool frozen, workers_frozen, dead;
};

static int64_t now_of(const struct fake_pools *pools) {
    return pools->time->now_ms;
}

static int64_t draw(struct fake_pools *pools, int64_t most) {
    return most <= 0 ? 0 : (int64_t)random_below(&pools->random, (uint64_t)most + 1);
}

static char *copy_or_null(const char *text) {
    return text == NULL ? NULL : mem_copy_string(text);
}

/* ---- what is told ------------------------------------------------------------------------------------------------- */

static struct pool_text text_of(const char *text) {
    return text == NULL ? (struct pool_text){0} : (struct pool_text){text, strlen(text)};
}

static const char *kind_of(enum pool_end end) {
    static const char *const kinds[] = {
        [POOL_OK] = NULL,           [POOL_RETRY] = "error", [POOL_FAIL] = "error",
        [POOL_CRASH] = "crash",     [POOL_TIMEOUT] = "timeout", [POOL_LOST] = "killed",
        [POOL_INTERRUPTED] = "interrupted", [POOL_RETURNED] = "returned",
    };
    return kinds[end];
}

static void free_pool(struct pool *pool) {
    list_remove(&pool->link);
    free(pool->pipeline);
    free(pool->stage);
    free(pool->slots);
    free(pool);
}

static void tell_ended(const struct message *m) {
    struct pool_text parameter = text_of("parameter");
    struct pool_statement statement = {.sql = text_of(m->sql), .parameter_count = 1, .parameters = &parameter};
    struct pool_outcome outcome = {
        .end = m->end,
        .run_us = m->run_us > 0 ? m->run_us : 1000,
        .kind = kind_of(m->end),
        .message = text_of(m->message),
        .output = text_of(m->output),
        .statement_count = m->sql == NULL ? 0 : 1,
        .statements = &statement,
        .flow = m->flow,
        .target = text_of(m->target),
        .delay_ms = m->delay_ms,
    };
    m->pool->jobs--;
    m->pool->events.ended(m->pool->events.context, m->pool, m->run, &outcome);
}

static void close_when_done(struct pool *pool);

static void tell(struct message *m) {
    struct pool *pool = m->pool;
    list_remove(&m->link);
    switch (m->news) {
    case NEWS_ENDED:
        tell_ended(m);
        close_when_done(pool);
        break;
    case NEWS_CHANGED:
        pool->events.changed(pool->events.context, pool);
        break;
    case NEWS_CLOSED:
        pool->events.closed(pool->events.context, pool);
        free_pool(pool);
        break;
    }
    free(m->output);
    free(m->message);
    free(m->sql);
    free(m);
}

void fake_pools_flush(struct fake_pools *pools) {
    while (!list_is_empty(&pools->outbox)) {
        tell(LIST_ENTRY(pools->outbox.next, struct message, link));
    }
}

static void on_deliver(void *context) {
    struct fake_pools *pools = context;
    if (!pools->frozen && !list_is_empty(&pools->outbox)) {
        tell(LIST_ENTRY(pools->outbox.next, struct message, link));
    }
}

static struct message *post(struct pool *pool, enum news news) {
    struct fake_pools *pools = pool->pools;
    struct message *m = mem_alloc(sizeof *m);
    m->news = news;
    m->pool = pool;
    list_append(&pools->outbox, &m->link);
    fake_time_call(pools->time, draw(pools, pools->latency_ms), on_deliver, pools);
    return m;
}

static void close_when_done(struct pool *pool) {
    if (pool->closing && !pool->closing_told && pool->jobs == 0) {
        pool->closing_told = true;
        post(pool, NEWS_CLOSED);
    }
}

/* ---- jobs --------------------------------------------------------------------------------------------------------- */

static void free_job(struct job *job) {
    list_remove(&job->link);
    list_remove(&job->all);
    free((char *)(uintptr_t)job->run.key);
    free((char *)(uintptr_t)job->run.payload);
    free((char *)(uintptr_t)job->run.input);
    free((char *)(uintptr_t)job->run.inputs);
    free((char *)(uintptr_t)job->run.progress_text);
    free((char *)(uintptr_t)job->plan.output);
    free((char *)(uintptr_t)job->plan.message);
    free((char *)(uintptr_t)job->plan.sql);
    free(job);
}

static void free_job_if_done(struct job *job) {
    if (job->over && job->events == 0) {
        free_job(job);
    }
}

static void on_due(void *context);

static void call_job(struct job *job, int64_t after_ms, void (*call)(void *context)) {
    job->events++;
    fake_time_call(job->pool->pools->time, after_ms, call, job);
}

static void begin(struct job *job) {
    struct fake_pools *pools = job->pool->pools;
    job->begun = true;
    job->plan = pools->hooks.begin(pools->hooks.context, &job->run);
    job->plan.output = copy_or_null(job->plan.output);
    job->plan.message = copy_or_null(job->plan.message);
    job->plan.sql = copy_or_null(job->plan.sql);
    if (job->plan.run_ms >= 0) {
        call_job(job, job->plan.run_ms, on_due);
    }
}

static void begin_next(struct slot *slot) {
    if (!list_is_empty(&slot->pipe)) {
        struct job *job = LIST_ENTRY(slot->pipe.next, struct job, link);
        if (!job->begun) {
            begin(job);
        }
    }
}

/* The job is told to have ended so; nothing of it lives. */
static void report(struct job *job, enum pool_end end) {
    struct fake_pools *pools = job->pool->pools;
    list_remove(&job->link);
    job->over = true;
    if (job->begun && pools->hooks.over != NULL) {
        pools->hooks.over(pools->hooks.context, &job->run);
    }
    struct message *m = post(job->pool, NEWS_ENDED);
    m->run = job->run.run;
    m->end = end;
    if (end == POOL_OK) {
        m->output = copy_or_null(job->plan.output);
        m->sql = copy_or_null(job->plan.sql);
        m->flow = job->plan.flow;
        m->target = job->plan.target;
        m->delay_ms = job->plan.delay_ms;
        m->run_us = job->plan.run_us;
    } else {
        m->message = mem_copy_string(job->plan.message != NULL ? job->plan.message : "fake");
    }
    free_job_if_done(job);
}

static void on_slot_up(void *context);

static void restart(struct pool *pool, struct slot *slot) {
    struct fake_pools *pools = pool->pools;
    slot->fresh = true;
    slot->exclusive = false;
    slot->up_at_ms = now_of(pools) + pools->restart_ms;
    fake_time_call(pools->time, pools->restart_ms, on_slot_up, pools);
}

/* The worker dies with the first job of its pipe; the others were not begun. */
static void worker_dies(struct pool *pool, struct slot *slot, enum pool_end end) {
    if (!list_is_empty(&slot->pipe)) {
        report(LIST_ENTRY(slot->pipe.next, struct job, link), end);
    }
    while (!list_is_empty(&slot->pipe)) {
        struct job *job = LIST_ENTRY(slot->pipe.next, struct job, link);
        report(job, job->dying ? POOL_INTERRUPTED : POOL_RETURNED);
    }
    restart(pool, slot);
}

static bool kills_worker(enum pool_end end) {
    return end == POOL_CRASH || end == POOL_TIMEOUT || end == POOL_LOST || end == POOL_INTERRUPTED;
}

static void finish(struct job *job, enum pool_end end) {
    struct pool *pool = job->pool;
    struct slot *slot = job->slot;
    if (kills_worker(end)) {
        worker_dies(pool, slot, end);
        return;
    }
    slot->fresh = slot->exclusive = false;
    report(job, end);
    begin_next(slot);
}

static void on_due(void *context) {
    struct job *job = context;
    job->events--;
    if (job->over) {
        free_job_if_done(job);
    } else if (job->pool->pools->workers_frozen) {
        job->stalled = true;
    } else {
        finish(job, job->plan.end);
    }
}

static void on_killed(void *context) {
    struct job *job = context;
    job->events--;
    if (job->over) {
        free_job_if_done(job);
    } else if (job->slot == NULL || job->slot->pipe.next != &job->link) {
        report(job, POOL_INTERRUPTED);
    } else {
        finish(job, POOL_INTERRUPTED);
    }
}

static void interrupt_job(struct job *job, int64_t within_ms) {
    if (!job->over) {
        job->dying = true;
        call_job(job, within_ms, on_killed);
    }
}

/* ---- operations --------------------------------------------------------------------------------------------------- */

static bool slot_is_up(const struct pool *pool, const struct slot *slot) {
    return !pool->parked && slot->up_at_ms <= now_of(pool->pools);
}

static int pipe_length(const struct slot *slot) {
    int length = 0;
    LIST_EACH(link, &slot->pipe) {
        length++;
    }
    return length;
}

static int slot_room(const struct pool *pool, const struct slot *slot) {
    return slot_is_up(pool, slot) && !slot->exclusive ? pool->pools->depth - pipe_length(slot) : 0;
}

static int room(const struct pool *pool) {
    int places = 0;
    for (int i = 0; i < pool->slot_count && !pool->closing && !pool->pools->dead; i++) {
        places += slot_room(pool, &pool->slots[i]);
    }
    return places;
}

static struct slot *find_idle(const struct pool *pool, bool fresh) {
    for (int i = 0; i < pool->slot_count; i++) {
        struct slot *slot = &pool->slots[i];
        if (slot_is_up(pool, slot) && list_is_empty(&slot->pipe) && (slot->fresh || !fresh)) {
            return slot;
        }
    }
    return NULL;
}

static bool has_idle(const struct pool *pool) {
    return !pool->closing && find_idle(pool, false) != NULL;
}

static void put(struct job *job, struct slot *slot) {
    list_remove(&job->link);
    job->slot = slot;
    slot->exclusive = job->run.alone;
    list_append(&slot->pipe, &job->link);
    begin_next(slot);
}

static void give_waiting(struct pool *pool) {
    struct slot *slot;
    while (!list_is_empty(&pool->waiting) && (slot = find_idle(pool, true)) != NULL) {
        put(LIST_ENTRY(pool->waiting.next, struct job, link), slot);
    }
}

static void on_slot_up(void *context) {
    struct fake_pools *pools = context;
    LIST_EACH(link, &pools->pools) {
        struct pool *pool = LIST_ENTRY(link, struct pool, link);
        if (!pool->closing && !pools->dead) {
            give_waiting(pool);
            post(pool, NEWS_CHANGED);
        }
    }
}

static char *copy_text(const struct pool_text *text) {
    return text->data == NULL ? NULL : mem_copy_bytes(text->data, text->length);
}

static struct job *new_job(struct pool *pool, const struct pool_task *task) {
    struct job *job = mem_alloc(sizeof *job);
    job->pool = pool;
    job->run = (struct fake_run){
        .run = task->run,
        .pipeline = pool->pipeline,
        .stage = pool->stage,
        .key = copy_text(&task->key),
        .payload = copy_text(&task->payload),
        .input = copy_text(&task->input),
        .inputs = copy_text(&task->inputs),
        .has_progress = task->has_progress,
        .progress = task->progress,
        .progress_text = copy_text(&task->progress_text),
        .version = task->version,
        .attempt = task->attempt,
        .alone = task->alone,
    };
    list_init(&job->link);
    list_append(&pool->pools->jobs, &job->all);
    pool->jobs++;
    return job;
}

static int count_starting(const struct pool *pool) {
    int count = 0;
    for (int i = 0; i < pool->slot_count; i++) {
        count += !slot_is_up(pool, &pool->slots[i]);
    }
    return count;
}

static enum status start_alone(struct pool *pool, const struct pool_task *task, struct error *err) {
    struct slot *slot = find_idle(pool, true);
    if (slot != NULL) {
        put(new_job(pool, task), slot);
        return STATUS_OK;
    }
    if (pool->parked) {
        return error_set(err, STATUS_UNAVAILABLE, "fake: parked");
    }
    int waiting = 0;
    LIST_EACH(link, &pool->waiting) {
        waiting++;
    }
    slot = find_idle(pool, false);
    if (count_starting(pool) <= waiting) {
        if (slot == NULL) {
            return error_set(err, STATUS_AGAIN, "fake: no worker is free");
        }
        restart(pool, slot);
    }
    struct job *job = new_job(pool, task);
    list_append(&pool->waiting, &job->link);
    return STATUS_OK;
}

static enum status start(struct pool *pool, const struct pool_task *task, struct error *err) {
    if (pool->closing || pool->pools->dead) {
        return error_set(err, STATUS_UNAVAILABLE, "fake: closing");
    }
    if (task->payload.length > FAKE_TASK_MAX_BYTES) {
        return error_set(err, STATUS_INVALID, "fake: too large");
    }
    if (task->alone) {
        return start_alone(pool, task, err);
    }
    struct slot *best = NULL;
    for (int i = 0; i < pool->slot_count; i++) {
        struct slot *slot = &pool->slots[i];
        if (slot_room(pool, slot) > 0 && (best == NULL || pipe_length(slot) < pipe_length(best))) {
            best = slot;
        }
    }
    if (best == NULL) {
        return error_set(err, STATUS_AGAIN, "fake: no room");
    }
    put(new_job(pool, task), best);
    return STATUS_OK;
}

static struct job *find_job(const struct pool *pool, uint64_t run) {
    LIST_EACH(link, &pool->pools->jobs) {
        struct job *job = LIST_ENTRY(link, struct job, all);
        if (job->pool == pool && job->run.run == run && !job->over) {
            return job;
        }
    }
    return NULL;
}

static void tell_run(struct pool *pool, uint64_t run, bool cancelled, bool superseded) {
    struct fake_pools *pools = pool->pools;
    struct job *job = find_job(pool, run);
    if (job != NULL && pools->hooks.told != NULL) {
        pools->hooks.told(pools->hooks.context, &job->run, cancelled, superseded);
    }
}

static void interrupt_run(struct pool *pool, uint64_t run) {
    struct job *job = find_job(pool, run);
    if (job != NULL) {
        int64_t linger_ms = job->plan.linger_ms < pool->grace_ms ? job->plan.linger_ms : pool->grace_ms;
        interrupt_job(job, job->begun ? linger_ms : 1);
    }
}

static void interrupt_all(void *context, bool at_once) {
    struct fake_pools *pools = context;
    LIST_EACH(link, &pools->jobs) {
        struct job *job = LIST_ENTRY(link, struct job, all);
        interrupt_job(job, at_once || !job->begun ? 1 : job->plan.linger_ms);
    }
}

/* Nothing is gathered here. */
static void give_back(struct pool *pool) {
    (void)pool;
}

static void close_pool(struct pool *pool) {
    pool->closing = true;
    while (!list_is_empty(&pool->waiting)) {
        report(LIST_ENTRY(pool->waiting.next, struct job, link), POOL_RETURNED);
    }
    close_when_done(pool);
}

static enum pool_state state_of(const struct pool *pool, const char **reason) {
    if (reason != NULL) {
        *reason = pool->parked ? "fake: parked" : NULL;
    }
    return pool->parked ? POOL_PARKED : POOL_UP;
}

/* Workers know how long they may live, and that alone ends them when their node cannot. */
static void watch_lease(struct fake_pools *pools) {
    if (now_of(pools) < pools->lease_end_ms || pools->workers_frozen) {
        return;
    }
    LIST_EACH(link, &pools->pools) {
        struct pool *pool = LIST_ENTRY(link, struct pool, link);
        for (int i = 0; i < pool->slot_count; i++) {
            if (!list_is_empty(&pool->slots[i].pipe)) {
                worker_dies(pool, &pool->slots[i], POOL_LOST);
            }
        }
    }
}

static void on_lease_end(void *context) {
    struct fake_pools *pools = context;
    watch_lease(pools);
}

static void set_lease_end(void *context, int64_t lease_end_ms) {
    struct fake_pools *pools = context;
    pools->lease_end_ms = lease_end_ms;
    if (lease_end_ms != INT64_MAX && lease_end_ms > now_of(pools)) {
        fake_time_call(pools->time, lease_end_ms - now_of(pools), on_lease_end, pools);
    }
}

static enum status open_pool(void *context, const struct pool_spec *spec, const struct pool_events *events,
                             struct pool **opened, struct error *err) {
    struct fake_pools *pools = context;
    if (spec->workers < 1) {
        return error_set(err, STATUS_INVALID, "fake: no workers");
    }
    struct pool *pool = mem_alloc(sizeof *pool);
    pool->pools = pools;
    pool->events = *events;
    pool->pipeline = mem_copy_string(spec->pipeline);
    pool->stage = mem_copy_string(spec->stage);
    pool->grace_ms = spec->grace_ms;
    pool->slot_count = spec->workers;
    pool->slots = mem_alloc(sizeof *pool->slots * (size_t)spec->workers);
    for (int i = 0; i < spec->workers; i++) {
        list_init(&pool->slots[i].pipe);
        pool->slots[i].fresh = true;
    }
    list_init(&pool->waiting);
    list_append(&pools->pools, &pool->link);
    *opened = pool;
    return STATUS_OK;
}

static const struct workers_ops operations = {
    .open = open_pool,
    .room = room,
    .has_idle = has_idle,
    .start = start,
    .tell = tell_run,
    .interrupt = interrupt_run,
    .give_back = give_back,
    .interrupt_all = interrupt_all,
    .close = close_pool,
    .state = state_of,
    .set_lease_end = set_lease_end,
};

/* ---- life --------------------------------------------------------------------------------------------------------- */

static void free_pools(void *object) {
    struct fake_pools *pools = object;
    LIST_EACH_SAFE(link, after, &pools->jobs) {
        free_job(LIST_ENTRY(link, struct job, all));
    }
    free(pools);
}

struct fake_pools *fake_pools_create(struct fake_time *time, uint64_t seed, const struct fake_pools_hooks *hooks) {
    struct fake_pools *pools = mem_alloc(sizeof *pools);
    pools->time = time;
    pools->random = random_from_seed(&pools->seeded, seed);
    pools->hooks = *hooks;
    pools->depth = 1;
    pools->restart_ms = 5;
    pools->lease_end_ms = INT64_MAX;
    pools->ops = operations;
    pools->ops.context = pools;
    list_init(&pools->pools);
    list_init(&pools->jobs);
    list_init(&pools->outbox);
    fake_time_own(time, pools, free_pools);
    return pools;
}

const struct workers_ops *fake_pools_ops(struct fake_pools *pools) {
    return &pools->ops;
}

void fake_pools_set(struct fake_pools *pools, int depth, int64_t latency_ms, int64_t restart_ms) {
    pools->depth = depth;
    pools->latency_ms = latency_ms;
    pools->restart_ms = restart_ms;
}

/* Events may still be to come for it. */
void fake_pools_destroy(struct fake_pools *pools) {
    REQUIRE(list_is_empty(&pools->pools) && list_is_empty(&pools->outbox));
    pools->dead = true;
}

void fake_pools_park(struct fake_pools *pools, const char *stage) {
    LIST_EACH(link, &pools->pools) {
        struct pool *pool = LIST_ENTRY(link, struct pool, link);
        if (strcmp(pool->stage, stage) == 0) {
            pool->parked = true;
            while (!list_is_empty(&pool->waiting)) {
                report(LIST_ENTRY(pool->waiting.next, struct job, link), POOL_RETURNED);
            }
            post(pool, NEWS_CHANGED);
        }
    }
}

static struct job *find_live(const struct fake_pools *pools, const char *key) {
    LIST_EACH(link, &pools->jobs) {
        struct job *job = LIST_ENTRY(link, struct job, all);
        if (job->begun && !job->over && strcmp(job->run.key, key) == 0) {
            return job;
        }
    }
    return NULL;
}

void fake_pools_end(struct fake_pools *pools, const char *key, enum pool_end end, const char *output) {
    struct job *job = find_live(pools, key);
    REQUIRE(job != NULL);
    if (output != NULL) {
        free((char *)(uintptr_t)job->plan.output);
        job->plan.output = mem_copy_string(output);
    }
    finish(job, end);
}

void fake_pools_say(struct fake_pools *pools, const char *key, double fraction, const char *text) {
    struct job *job = find_live(pools, key);
    REQUIRE(job != NULL);
    job->pool->events.progress(job->pool->events.context, job->pool, job->run.run, fraction, text);
}

int fake_pools_live(const struct fake_pools *pools) {
    int count = 0;
    LIST_EACH(link, &pools->jobs) {
        const struct job *job = LIST_ENTRY(link, struct job, all);
        count += job->begun && !job->over;
    }
    return count;
}

bool fake_pools_is_live(const struct fake_pools *pools, const char *key) {
    return find_live(pools, key) != NULL;
}

static void go_on(struct fake_pools *pools) {
    watch_lease(pools);
    LIST_EACH(link, &pools->jobs) {
        struct job *job = LIST_ENTRY(link, struct job, all);
        if (job->stalled) {
            job->stalled = false;
            call_job(job, 0, on_due);
        }
    }
}

void fake_pools_freeze(struct fake_pools *pools, bool frozen, bool workers_too) {
    pools->frozen = frozen;
    bool stood = pools->workers_frozen;
    pools->workers_frozen = frozen && workers_too;
    if (stood && !pools->workers_frozen) {
        go_on(pools);
    }
    if (!frozen) {
        fake_pools_flush(pools);
    }
}

void fake_pools_kill(struct fake_pools *pools) {
    pools->dead = true;
    pools->frozen = pools->workers_frozen = false;
    LIST_EACH(link, &pools->pools) {
        struct pool *pool = LIST_ENTRY(link, struct pool, link);
        while (!list_is_empty(&pool->waiting)) {
            report(LIST_ENTRY(pool->waiting.next, struct job, link), POOL_INTERRUPTED);
        }
        for (int i = 0; i < pool->slot_count; i++) {
            while (!list_is_empty(&pool->slots[i].pipe)) {
                report(LIST_ENTRY(pool->slots[i].pipe.next, struct job, link), POOL_INTERRUPTED);
            }
        }
    }
    fake_pools_flush(pools);
}
