/* try.c - one pool of one worker, one run, and the end of both.
 *
 *   STARTING --a worker is ready--> RUNNING --ended--> ENDING: pool, workers, handles closed; the loop ends
 *      |  ^-----given back------------|  |                ^
 *      +--its worker did not get ready, or a signal-------+
 */
#include "node/try.h"

#include <signal.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/require.h"
#include "node/host.h"
#include "node/specs.h"
#include "workers/orphans.h"
#include "workers/workers.h"

enum { SAME_REQUEST_MS = 250, RUN = 1 };

struct trial {
    const struct try_options *options;
    struct try_result *result;
    enum { TRIAL_STARTING, TRIAL_RUNNING, TRIAL_ENDING } state;
    uv_loop_t loop;
    uv_idle_t turn; /* runs while something is to be looked at: no call of ours comes from inside of a callback */
    uv_signal_t sigint, sigterm;
    struct host_lock lock;
    struct workers_ops ops;
    struct workers *workers;
    struct pool *pool;
    bool pool_closed;
    bool signalled;
    int64_t signalled_ms;
};

/* ---- the end ------------------------------------------------------------------------------------------------------ */

static void close_handles(void *context) {
    struct trial *trial = context;
    uv_close((uv_handle_t *)&trial->turn, NULL);
    uv_close((uv_handle_t *)&trial->sigint, NULL);
    uv_close((uv_handle_t *)&trial->sigterm, NULL);
}

static void end(struct trial *trial) {
    if (trial->state != TRIAL_ENDING) {
        trial->state = TRIAL_ENDING;
        trial->ops.close(trial->pool);
    }
}

/* ---- the outcome -------------------------------------------------------------------------------------------------- */

static struct pool_text copy_text(struct arena *arena, struct pool_text text) {
    return (struct pool_text){text.data == NULL ? NULL : arena_copy(arena, text.data, text.length), text.length};
}

static void copy_statements(struct arena *arena, const struct pool_outcome *from, struct pool_outcome *to) {
    struct pool_statement *statements = arena_alloc(arena, sizeof *statements * (size_t)(from->statement_count + 1));
    for (int i = 0; i < from->statement_count; i++) {
        const struct pool_statement *one = &from->statements[i];
        struct pool_text *parameters = arena_alloc(arena, sizeof *parameters * (size_t)(one->parameter_count + 1));
        for (int p = 0; p < one->parameter_count; p++) {
            parameters[p] = copy_text(arena, one->parameters[p]);
        }
        statements[i] = (struct pool_statement){copy_text(arena, one->sql), one->parameter_count, parameters};
    }
    to->statements = statements;
}

static void keep(struct try_result *result, const struct pool_outcome *from) {
    struct arena *arena = &result->arena;
    result->outcome = *from;
    result->outcome.kind = arena_copy_string(arena, from->kind);
    result->outcome.message = copy_text(arena, from->message);
    result->outcome.last_output = copy_text(arena, from->last_output);
    result->outcome.output = copy_text(arena, from->output);
    result->outcome.target = copy_text(arena, from->target);
    copy_statements(arena, from, &result->outcome);
}

static void not_started(struct trial *trial, const char *why) {
    struct pool_outcome outcome = {.end = POOL_RETURNED, .kind = "returned", .message = {why, strlen(why)}};
    keep(trial->result, &outcome);
    trial->result->started = false;
    end(trial);
}

/* ---- the turn ----------------------------------------------------------------------------------------------------- */

static void start(struct trial *trial) {
    struct pool_task task = trial->options->task;
    struct error err = ERROR_NONE;
    task.run = RUN;
    enum status status = trial->ops.start(trial->pool, &task, &err);
    if (status == STATUS_OK) {
        trial->state = TRIAL_RUNNING;
        trial->result->started = true;
    } else if (status != STATUS_AGAIN) {
        not_started(trial, err.text);
    }
}

static void on_turn(uv_idle_t *idle) {
    struct trial *trial = idle->data;
    const char *trouble = NULL;
    uv_idle_stop(idle);
    if (trial->pool_closed) {
        struct workers *workers = trial->workers;
        trial->workers = NULL;
        workers_destroy(workers, close_handles, trial);
    } else if (trial->state == TRIAL_STARTING) {
        enum pool_state state = trial->ops.state(trial->pool, &trouble);
        if (state != POOL_UP && trouble != NULL) {
            not_started(trial, trouble); /* a second try would be the same once more */
        } else if (trial->ops.room(trial->pool) > 0) {
            start(trial);
        }
    }
}

static void look(struct trial *trial) {
    if (trial->workers != NULL) {
        uv_idle_start(&trial->turn, on_turn);
    }
}

static void on_changed(void *context, struct pool *pool) {
    (void)pool;
    look(context);
}

static void on_closed(void *context, struct pool *pool) {
    (void)pool;
    struct trial *trial = context;
    trial->pool_closed = true;
    look(trial);
}

static void on_ended(void *context, struct pool *pool, uint64_t run, const struct pool_outcome *outcome) {
    (void)pool;
    (void)run;
    struct trial *trial = context;
    keep(trial->result, outcome);
    if (outcome->end == POOL_RETURNED && trial->state == TRIAL_RUNNING) {
        trial->state = TRIAL_STARTING; /* its worker went away before it began: as a node does, another one gets it */
        trial->result->started = false;
        look(trial);
    } else {
        end(trial);
    }
}

static void on_progress(void *context, struct pool *pool, uint64_t run, double fraction, const char *text) {
    (void)pool;
    (void)run;
    const struct try_options *options = ((struct trial *)context)->options;
    if (options->progress != NULL) {
        options->progress(options->context, fraction, text);
    }
}

/* ---- signals ------------------------------------------------------------------------------------------------------ */

static void kill_all(struct trial *trial) {
    if (!trial->pool_closed) {
        trial->ops.interrupt_all(trial->ops.context, true);
    }
}

static void stop(struct trial *trial) {
    trial->signalled = true;
    trial->signalled_ms = clock_now_ms(&clock_boottime);
    switch (trial->state) {
    case TRIAL_STARTING:
        trial->result->stopped = true;
        not_started(trial, "interrupted before it began");
        break;
    case TRIAL_RUNNING:
        trial->result->stopped = true;
        trial->ops.interrupt(trial->pool, RUN);
        break;
    case TRIAL_ENDING: /* what came of the run is known; its worker takes its time to end */
        kill_all(trial);
        break;
    }
}

/* One request may come twice, as in a node. */
static void on_signal(uv_signal_t *handle, int number) {
    (void)number;
    struct trial *trial = handle->data;
    if (!trial->signalled) {
        stop(trial);
    } else if (clock_now_ms(&clock_boottime) >= trial->signalled_ms + SAME_REQUEST_MS) {
        kill_all(trial);
    }
}

/* ---- the beginning ------------------------------------------------------------------------------------------------ */

static void init_handles(struct trial *trial) {
    REQUIRE(uv_loop_init(&trial->loop) == 0);
    uv_idle_init(&trial->loop, &trial->turn);
    uv_signal_init(&trial->loop, &trial->sigint);
    uv_signal_init(&trial->loop, &trial->sigterm);
    trial->turn.data = trial->sigint.data = trial->sigterm.data = trial;
    uv_signal_start(&trial->sigint, on_signal, SIGINT);
    uv_signal_start(&trial->sigterm, on_signal, SIGTERM);
    signal(SIGPIPE, SIG_IGN); /* a worker may go without reading */
}

static enum status open_pool(struct trial *trial, struct error *err) {
    struct workers_options workers = {
        .program = trial->options->worker_program,
        .lock_fd = trial->lock.fd,
        .work_root = trial->lock.work,
        .clock = &clock_boottime,
        .random = &random_system,
    };
    const struct pipeline_def *pipeline = trial->options->pipeline;
    struct pool_spec spec = specs_pool(&trial->result->arena, pipeline, &pipeline->stages[trial->options->stage]);
    const struct pool_events events = {.ended = on_ended,
                                       .changed = on_changed,
                                       .closed = on_closed,
                                       .progress = on_progress,
                                       .context = trial};
    spec.workers = 1;
    spec.batch_wait_ms = 0; /* no other task will come */
    enum status status = workers_create(&trial->loop, &workers, &trial->ops, &trial->workers, err);
    return status == STATUS_OK ? trial->ops.open(trial->ops.context, &spec, &events, &trial->pool, err) : status;
}

enum status try_run(const struct try_options *options, struct try_result *result, struct error *err) {
    struct trial trial = {.options = options, .result = result};
    *result = (struct try_result){0};
    enum status status = host_lock_take(options->lock_folder, &trial.lock, err);
    if (status != STATUS_OK) {
        return status;
    }
    init_handles(&trial);
    orphans_take_over();
    status = open_pool(&trial, err);
    if (status == STATUS_OK && options->stop_was_asked != NULL && options->stop_was_asked()) {
        stop(&trial);
    } else if (status != STATUS_OK && trial.workers != NULL) {
        struct workers *workers = trial.workers;
        trial.workers = NULL;
        workers_destroy(workers, close_handles, &trial);
    } else if (status != STATUS_OK) {
        close_handles(&trial);
    }
    uv_run(&trial.loop, UV_RUN_DEFAULT);
    REQUIRE(uv_loop_close(&trial.loop) == 0);
    host_lock_release(&trial.lock);
    return status;
}

void try_result_finish(struct try_result *result) {
    arena_finish(&result->arena);
}
