/* worker_calls.c - what a pool asks of a worker: start, take a run, pass something on, end.
 *
 * No event comes from inside these calls; the machine that they step is in worker.c.
 */
#include "workers/worker.h"

#include <unistd.h>

#include "base/arena.h"
#include "base/environment.h"
#include "base/memory.h"
#include "base/require.h"
#include "workers/depth.h"
#include "workers/orphans.h"
#include "workers/spawn.h"
#include "workers/worker_parts.h"

/* For a run to be begun that is to be interrupted. */
enum { INTERRUPT_WAIT_MS = 100 };

/* ---- runs ----------------------------------------------------------------------------------- */

enum status worker_give(struct worker *worker, struct run *run, const struct wire_run *message,
                        struct error *err) {
    REQUIRE(worker->state == WORKER_IDLE || worker->state == WORKER_BUSY);
    enum status code = wire_put_run(stream_out(&worker->channel), message, err);
    if (code != STATUS_OK) {
        return code;
    }
    worker->lease_told_ms = message->lease_end_ms;
    worker->fresh = false;
    worker->runs_left--;
    worker->stop_wanted = worker->stop_wanted || worker->runs_left <= 0;
    run->worker = worker;
    list_append(&worker->pipe, &run->link);
    worker->depth++;
    worker->unsent++;
    if (worker->depth == 1) {
        worker->head_ms = worker_now(worker);
    }
    worker_step(worker, EVENT_GIVEN);
    return STATUS_OK;
}

void worker_tell(struct worker *worker, const struct run *run, bool cancelled, bool superseded) {
    struct wire_tell message = {.run = run->id, .cancelled = cancelled, .superseded = superseded};
    struct error err = ERROR_NONE;
    enum status put = wire_put_tell(stream_out(&worker->channel), &message, &err);
    REQUIRE(put == STATUS_OK);
}

/* A run that is not begun cannot be taken back from the pipe, and killing the worker would cost the
 * one in hand: it gets a moment to finish first. Those of a batch are in hand, all of them. */
void worker_interrupt(struct worker *worker, struct run *run) {
    if (run->fate != RUN_OPEN) {
        return;
    }
    run->fate = RUN_INTERRUPTED;
    if (worker->state != WORKER_BUSY) {
        return; /* it is ending already */
    }
    if (run == worker_head(worker) || run->batch != NULL) {
        worker_blame(worker, CAUSE_INTERRUPT, "interrupted");
        worker_step(worker, EVENT_TERMINATE);
        return;
    }
    if (worker->interrupts == 0) {
        worker->interrupt_by_ms = worker_now(worker) + INTERRUPT_WAIT_MS;
        worker_arm(worker);
    }
    worker->interrupts++;
}

void worker_interrupt_all(struct worker *worker, bool now) {
    LIST_EACH(node, &worker->pipe) {
        struct run *run = LIST_ENTRY(node, struct run, link);
        if (run->fate == RUN_OPEN) {
            run->fate = RUN_INTERRUPTED;
        }
    }
    if (worker->state == WORKER_BUSY) {
        worker_blame(worker, CAUSE_INTERRUPT, "interrupted");
    }
    if (worker->state >= WORKER_BUSY && worker->state < WORKER_ENDING) {
        worker_step(worker, now ? EVENT_KILL : EVENT_TERMINATE);
    }
}

void worker_stop(struct worker *worker) {
    worker->stop_wanted = true;
    if (worker->state == WORKER_STARTING) {
        if (worker->cause == CAUSE_SPAWN) {
            return;
        }
        worker_blame(worker, CAUSE_STOP, "stopped");
    }
    if (worker->state == WORKER_STARTING || worker->state == WORKER_IDLE) {
        worker_step(worker, EVENT_STOP);
    }
}

void worker_beat(struct worker *worker) {
    stream_touch(&worker->channel);
}

int worker_room(const struct worker *worker, int limit, int64_t now_ms) {
    if ((worker->state != WORKER_IDLE && worker->state != WORKER_BUSY) || worker->stop_wanted || worker->said_last) {
        return 0;
    }
    /* A run that takes long would hold up those behind it. */
    if (worker->state == WORKER_BUSY &&
        (worker->exclusive || worker->interrupts > 0 ||
         (now_ms - worker->head_ms) * 1000 >= DEPTH_WINDOW_US)) {
        return 0;
    }
    int room = limit > worker->depth ? limit - worker->depth : 0;
    return room < worker->runs_left ? room : (int)worker->runs_left;
}

/* ---- start ---------------------------------------------------------------------------------- */

static void on_exit_status(uv_process_t *process, int64_t exit_status, int signal) {
    struct worker *worker = process->data;
    worker->exit_status = exit_status;
    worker->exit_signal = signal;
    orphans_forget(worker->group);
    worker_step(worker, EVENT_EXIT);
}

static void on_room_wanted(uv_handle_t *handle, size_t suggested, uv_buf_t *room) {
    (void)suggested;
    struct worker *worker = handle->data;
    *room = (uv_buf_t){.base = worker->setup->room, .len = worker->setup->room_bytes};
}

static void on_output(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes) {
    struct worker *worker = stream->data;
    enum output_stream which =
        stream == (uv_stream_t *)&worker->streams[OUTPUT_STDERR] ? OUTPUT_STDERR : OUTPUT_STDOUT;
    if (count > 0) {
        output_feed(&worker->output, which, bytes->base, (size_t)count, worker_now(worker));
        throttled_took(&worker->flows[which], (size_t)count);
    } else if (count < 0) {
        throttled_stop(&worker->flows[which]);
        worker->open_ends--;
        if (worker->state == WORKER_ENDING) {
            worker_end_poll(worker);
        }
    }
}

static enum status open_ends(struct worker *worker, const struct spawn_ends *ends,
                             struct error *err) {
    const int fds[OUTPUT_STREAM_COUNT] = {
        [OUTPUT_STDOUT] = ends->stdout_fd, [OUTPUT_STDERR] = ends->stderr_fd};
    enum status code = STATUS_OK;
    for (int i = 0; i < OUTPUT_STREAM_COUNT; i++) {
        int failed = uv_pipe_open(&worker->streams[i], fds[i]);
        if (failed != 0) {
            close(fds[i]);
            code = error_set(err, STATUS_UNAVAILABLE, "uv_pipe_open: %s", uv_strerror(failed));
            continue;
        }
        worker->open_ends++;
        throttled_start(&worker->flows[i], worker->setup->throttle, (uv_stream_t *)&worker->streams[i], on_room_wanted,
                        on_output);
    }
    enum status opened = stream_open(&worker->channel, ends->stream_fd, err);
    if (opened != STATUS_OK) {
        close(ends->stream_fd);
        return opened;
    }
    worker->open_ends++;
    return code;
}

static enum status spawn(struct worker *worker, struct spawn_ends *ends, struct error *err) {
    const struct worker_setup *setup = worker->setup;
    enum status made = work_folder_make(setup->folders, setup->spec->user != NULL, &worker->work, err);
    struct arena arena = {0};
    char **environment =
        environment_build(&arena, &(struct environment_spec){.pipeline = setup->spec->pipeline,
                                                             .stage = setup->spec->stage,
                                                             .env = setup->spec->env,
                                                             .work = worker->work});
    /* Also without a folder: the handle must be initialised. */
    const char *program = made == STATUS_OK ? setup->program : "";
    enum status spawned = spawn_worker(setup->loop, program, environment, setup->lock_fd, &worker->process,
                                       on_exit_status, ends, err);
    arena_finish(&arena);
    return made == STATUS_OK ? spawned : made;
}

static void start(struct worker *worker) {
    const struct worker_setup *setup = worker->setup;
    struct error err = ERROR_NONE;
    struct spawn_ends ends;
    if (spawn(worker, &ends, &err) != STATUS_OK) {
        worker_blame(worker, CAUSE_SPAWN, "%s", err.text);
        worker->last_call = true;
        worker_arm_after(worker, 0);
        return;
    }
    worker->process.data = worker;
    worker->group = worker->process.pid;
    orphans_know(worker->group);
    log_event(LOG_INFO, "worker.start", "pipeline=%s stage=%s worker=%d pid=%d",
              setup->spec->pipeline, setup->spec->stage, worker->number, (int)worker->group);
    if (open_ends(worker, &ends, &err) != STATUS_OK) {
        worker_blame(worker, CAUSE_PROTOCOL, "%s", err.text);
        worker_step(worker, EVENT_MALFORMED);
        return;
    }
    worker_send_hello(worker);
    worker_arm(worker);
}

struct worker *worker_create(const struct worker_setup *setup, const struct worker_events *events,
                             int number) {
    struct worker *worker = mem_alloc(sizeof *worker);
    *worker = (struct worker){.setup = setup,
                              .events = *events,
                              .number = number,
                              .fresh = true,
                              .runs_left = setup->spec->recycle_runs > 0
                                               ? setup->spec->recycle_runs
                                               : INT64_MAX,
                              .interrupt_by_ms = INT64_MAX,
                              .started_ms = clock_now_ms(setup->clock)};
    list_init(&worker->pipe);
    list_init(&worker->answered);
    struct stream_events stream_events = worker_channel_events;
    stream_events.context = worker;
    stream_init(&worker->channel, setup->loop, setup->flusher, &stream_events);
    for (int i = 0; i < OUTPUT_STREAM_COUNT; i++) {
        uv_pipe_init(setup->loop, &worker->streams[i], 0);
        worker->streams[i].data = worker;
    }
    uv_timer_init(setup->loop, &worker->timer);
    worker->timer.data = worker;
    output_init(&worker->output, &(struct output_source){.pipeline = setup->spec->pipeline,
                                                         .stage = setup->spec->stage,
                                                         .worker = number,
                                                         .limit = setup->output_limit});
    start(worker);
    return worker;
}
