/* runner.c - takes jobs from the inbox, one or a batch at a time, has the engine run them, and sends what became of them.
 *
 * After a SIGTERM a success is still reported, for its work is done; a failure is not: what ran was told that it is
 * cancelled, and the document must not pay for that.
 */
#include "worker/runner.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "host.h"
#include "worker/answer.h"
#include "worker/channel.h"
#include "worker/engine.h"
#include "worker/inbox.h"
#include "worker/lifeline.h"
#include "worker/work.h"

enum { PROGRESS_INTERVAL_MS = 100, KEPT_BUFFER_BYTES = 1024 * 1024 };

/* One of the runs that the engine has in hand: what its pgstage_task asks with. */
struct current {
    struct job *job;
    int64_t deadline_ms, progress_ms;
};

static struct {
    struct wire_hello hello;
    const struct engine *engine;
    struct buf out;
    struct current *current; /* `count` of them; NULL between two calls */
    size_t count;
    int64_t started_us;
    bool said_full;
} runner;

/* ---- sending ---- */

static void send_out(void) {
    channel_send(runner.out.data, runner.out.length);
    if (runner.out.capacity > KEPT_BUFFER_BYTES) {
        buf_finish(&runner.out);
        buf_init(&runner.out, WIRE_FRAME_MAX + WIRE_HEADER_BYTES);
    }
    buf_clear(&runner.out);
}

void runner_send_refused(const char *reason) {
    struct error err = ERROR_NONE;
    struct wire_refused refused = {.reason = {reason, (uint32_t)strlen(reason)}};
    struct buf out;
    buf_init(&out, WIRE_FRAME_MAX);
    if (wire_put_refused(&out, &refused, &err) != STATUS_OK) {
        channel_breach("%s", err.text);
    }
    channel_try_send(out.data, out.length);
    buf_finish(&out);
}

/* ---- what a task may ask and say while it runs ---- */

static void on_log(void *context, const char *text, size_t length, const char *fields, size_t fields_length) {
    struct current *current = context;
    struct wire_log log = {.run = current->job->run.run, .text = {text, (uint32_t)length}};
    if (runner.hello.minor >= WIRE_MINOR_ENGINES) {
        log.fields = (struct wire_bytes){fields, (uint32_t)fields_length};
    }
    if (wire_put_log(&runner.out, &log, NULL) == STATUS_OK) {
        send_out();
    }
}

void runner_log_of_nobody(void *context, const char *text, size_t length, const char *fields, size_t fields_length) {
    (void)context;
    struct wire_log log = {.text = {text, (uint32_t)length}, .fields = {fields, (uint32_t)fields_length}};
    if (wire_put_log(&runner.out, &log, NULL) == STATUS_OK) {
        send_out();
    }
}

/* A loop over bytes may report each of them; the node shows what it heard last. */
static void on_progress(void *context, double fraction, const char *text, size_t length) {
    struct current *current = context;
    int64_t now = clock_now_ms(&clock_boottime);
    if (now < current->progress_ms && fraction < 1.0) {
        return;
    }
    current->progress_ms = now + PROGRESS_INTERVAL_MS;
    struct wire_progress progress = {
        .run = current->job->run.run, .fraction = fraction, .text = {text, (uint32_t)length}};
    if (wire_put_progress(&runner.out, &progress, NULL) == STATUS_OK) {
        send_out();
    }
}

static bool on_cancelled(void *context) {
    struct current *current = context;
    return atomic_load(&current->job->cancelled) || lifeline_is_terminated();
}

static bool on_superseded(void *context) {
    struct current *current = context;
    return atomic_load(&current->job->superseded);
}

static int64_t on_remaining_ms(void *context) {
    struct current *current = context;
    if (current->deadline_ms == INT64_MAX) {
        return INT64_MAX;
    }
    int64_t left = current->deadline_ms - clock_now_ms(&clock_boottime);
    return left > 0 ? left : 0;
}

static pgstage_task *create_task(struct current *current) {
    const struct wire_run *run = &current->job->run;
    return pgstage_host_task_create(
        &(struct pgstage_host_run){.pipeline = runner.hello.pipeline.data,
                                   .stage = runner.hello.stage.data,
                                   .key = run->key.data,
                                   .payload = {run->payload.data, run->payload.length},
                                   .input = {run->input.data, run->input.length},
                                   .inputs = {run->inputs.data, run->inputs.length},
                                   .version = run->version,
                                   .attempt = run->attempt,
                                   .has_progress = run->has_progress,
                                   .progress = run->progress,
                                   .progress_text = {run->progress_text.data, run->progress_text.length}},
        &(struct pgstage_host_ops){.log = on_log,
                                   .progress = on_progress,
                                   .cancelled = on_cancelled,
                                   .superseded = on_superseded,
                                   .remaining_ms = on_remaining_ms,
                                   .context = current});
}

/* ---- one call of the engine ---- */

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* False: memory is short. */
static bool prepare(struct job *job, struct engine_call *call) {
    int64_t now = clock_now_ms(&clock_boottime);
    for (size_t i = 0; i < call->count; i++) {
        struct current *current = &runner.current[i];
        int64_t timeout = job->run.timeout_ms;
        *current = (struct current){
            .job = job,
            .deadline_ms = timeout == 0 || timeout > INT64_MAX - now ? INT64_MAX : now + timeout};
        call->tasks[i] =
            (struct engine_task){.run = &job->run, .task = create_task(current), .outcome = WIRE_OK};
        if (call->tasks[i].task == NULL) {
            return false;
        }
        job = i + 1 < call->count ? job->next : NULL; /* what is behind the last, the reading thread may be writing */
    }
    return true;
}

static void answer_all(enum wire_outcome outcome, const char *kind, const char *text) {
    for (size_t i = 0; i < runner.count; i++) {
        answer_put_failure(&runner.out, runner.current[i].job->run.run, outcome, kind, 0, text);
    }
    send_out();
}

/* RESULTs go out in the order of their RUNs: after a SIGTERM they end before the first that is not to be told. */
static void answer(const struct engine_call *call, int64_t run_us) {
    if (call->failed_whole && call->count > 1) {
        if (!lifeline_is_terminated()) {
            answer_all(WIRE_SPLIT, call->tasks[0].kind, pgstage_host_message(call->tasks[0].task).data);
        }
        return;
    }
    for (size_t i = 0; i < call->count; i++) {
        if (call->tasks[i].outcome != WIRE_OK && lifeline_is_terminated()) {
            return;
        }
        answer_put(&runner.out, runner.hello.minor, &call->tasks[i], run_us / (int64_t)call->count);
        send_out();
    }
}

/* What lies in the pipe is the node's again, and so is what comes yet. */
static void say_last(void) {
    if (runner.hello.minor >= WIRE_MINOR_ENGINES && wire_put_last(&runner.out, NULL) == STATUS_OK) {
        send_out();
    }
}

static void run_engine(struct engine_call *call) {
    lifeline_set_busy(true);
    runner.started_us = now_us();
    runner.engine->run(call);
    int64_t run_us = now_us() - runner.started_us;
    /* First: after the answer nothing of the run is alive. */
    call->is_over = !lifeline_reap_strays() || call->is_over;
    if (call->is_over) {
        say_last(); /* before the answer, after which the node would give it more */
    }
    answer(call, run_us);
    lifeline_set_busy(false);
    if (lifeline_is_terminated()) {
        lifeline_obey_terminate();
    }
}

/* Returns whether the engine can run more. */
static bool run_jobs(struct job *first, size_t count) {
    struct engine_call call = {.tasks = mem_alloc(count * sizeof *call.tasks), .count = count};
    runner.current = mem_alloc(count * sizeof *runner.current);
    runner.count = count;
    if (prepare(first, &call)) {
        run_engine(&call);
    } else {
        answer_all(WIRE_RETRY, NULL, "the worker is out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        pgstage_host_task_destroy(call.tasks[i].task);
    }
    free(runner.current);
    runner.current = NULL;
    runner.count = 0;
    free(call.tasks);
    return !call.is_over;
}

void runner_fail_from_exit(const char *text) {
    /* A buffer of its own: it may be another thread that called, in the middle of a log line of this one. */
    struct buf out;
    buf_init(&out, 2 * (size_t)WIRE_FRAME_MAX);
    int64_t run_us = now_us() - runner.started_us;
    for (size_t i = 0; i < runner.count; i++) {
        answer_put_failure(&out, runner.current[i].job->run.run, runner.count == 1 ? WIRE_FAIL : WIRE_SPLIT, NULL,
                           run_us, text);
    }
    channel_try_send(out.data, out.length);
    buf_finish(&out);
}

bool runner_has_more(void) {
    return inbox_has_more(runner.current[runner.count - 1].job);
}

/* ---- the whole life ---- */

static void say_if_full(void) {
    if (runner.hello.full_bytes == 0 || runner.said_full || runner.engine->resident_bytes == NULL ||
        runner.engine->resident_bytes() <= runner.hello.full_bytes) {
        return;
    }
    runner.said_full = true;
    if (wire_put_full(&runner.out, NULL) == STATUS_OK) {
        send_out();
    }
}

enum status runner_start(const struct wire_hello *hello, struct error *err) {
    static const struct engine *const engines[WIRE_PROGRAM + 1] = {
        [WIRE_HANDLER] = &engine_handler,
        [WIRE_COMMAND] = &engine_command,
        [WIRE_PROGRAM] = &engine_program,
    };
    runner.hello = *hello;
    runner.engine = engines[hello->engine];
    buf_init(&runner.out, WIRE_FRAME_MAX + WIRE_HEADER_BYTES);
    return runner.engine->start(&runner.hello, err);
}

static void send_ready(void) {
    lifeline_keep_children();
    work_keep(runner.hello.engine == WIRE_PROGRAM);
    struct wire_ready ready = {.major = WIRE_MAJOR, .minor = WIRE_MINOR, .handler_abi = PGSTAGE_ABI};
    if (runner.engine->handler_abi != NULL) {
        ready.handler_abi = runner.engine->handler_abi();
    }
    if (wire_put_ready(&runner.out, &ready, NULL) == STATUS_OK) {
        send_out();
    }
}

static bool can_run(void) {
    if (runner.engine->wait == NULL || runner.engine->wait()) {
        return true;
    }
    say_last();
    return false;
}

/* Without its folder a worker runs nothing more: a fresh one has a fresh one. */
static bool goes_on_in(bool folder_is_right) {
    if (!folder_is_right) {
        say_last();
    }
    return folder_is_right;
}

void runner_run(void) {
    send_ready();
    struct job *first;
    size_t count;
    bool goes_on = true;
    while (goes_on && (goes_on = can_run()) && (first = inbox_next(&count)) != NULL) {
        if (count > 1 && count > runner.hello.batch_size) {
            channel_breach("the node sent a batch of %zu runs", count);
        }
        goes_on = goes_on_in(work_is_there()) && run_jobs(first, count);
        for (; count > 0; count--) {
            struct job *next = first->next;
            inbox_done(first);
            first = next;
        }
        goes_on = goes_on && goes_on_in(work_clean());
        say_if_full();
    }
    runner.engine->stop();
    buf_finish(&runner.out);
}
