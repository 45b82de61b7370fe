/* runner.c - turns a RUN into a call of the handler, and what that leaves into a RESULT.
 *
 * A handler that calls exit() ends this process from inside; the exit hook then still tells the
 * node what happened, so that the document gets a reason instead of a riddle. After a SIGTERM a
 * success is still reported, for its work is done; a failure is not: the handler was told that it
 * is cancelled, and the document must not pay for that.
 */
#include "worker/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "host.h"
#include "worker/channel.h"
#include "worker/inbox.h"
#include "worker/lifeline.h"
#include "worker/limits.h"

enum { PROGRESS_INTERVAL_MS = 100, KEPT_BUFFER_BYTES = 1024 * 1024 };

_Static_assert(PGSTAGE_STATEMENTS_MAX <= WIRE_STATEMENTS_MAX &&
                   PGSTAGE_PARAMETERS_MAX <= WIRE_PARAMETERS_MAX &&
                   PGSTAGE_OUTPUT_MAX + PGSTAGE_SQL_MAX + 64 * 1024 * 1024 <= WIRE_FRAME_MAX,
               "every result that the SDK lets a handler make fits in a frame");

static struct {
    struct wire_hello hello;
    struct pgstage_handler handler;
    pgstage_worker *worker;
    void *state;
    struct buf out;
    enum { BETWEEN, IN_INIT, IN_RUN } where; /* whose fault an exit() is */
    struct job *job;                         /* IN_RUN */
    int64_t started_us, deadline_ms, progress_ms;
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

static struct wire_bytes wire_text(const char *text) {
    return (struct wire_bytes){text, (uint32_t)strlen(text)};
}

/* Of the SDK's, which are far below 4 GB. */
static struct wire_bytes wire_of(struct pgstage_host_text text) {
    return (struct wire_bytes){text.data, (uint32_t)text.length};
}

static void put_refused(struct buf *out, const char *reason) {
    struct error err = ERROR_NONE;
    struct wire_refused refused = {.reason = wire_text(reason)};
    if (wire_put_refused(out, &refused, &err) != STATUS_OK) {
        channel_breach("%s", err.text);
    }
}

void runner_send_refused(const char *reason) {
    struct buf out;
    buf_init(&out, WIRE_FRAME_MAX);
    put_refused(&out, reason);
    channel_send(out.data, out.length);
    buf_finish(&out);
}

/* ---- what the handler may ask while it runs ---- */

static void on_log(void *context, const char *text, size_t length) {
    struct job *job = context;
    struct wire_log log = {.run = job->run.run, .text = {text, (uint32_t)length}};
    if (wire_put_log(&runner.out, &log, NULL) == STATUS_OK) {
        send_out();
    }
}

/* A loop over bytes may report each of them; the node shows what it heard last. */
static void on_progress(void *context, double fraction, const char *text, size_t length) {
    struct job *job = context;
    int64_t now = clock_now_ms(&clock_boottime);
    if (now < runner.progress_ms && fraction < 1.0) {
        return;
    }
    runner.progress_ms = now + PROGRESS_INTERVAL_MS;
    struct wire_progress progress = {
        .run = job->run.run, .fraction = fraction, .text = {text, (uint32_t)length}};
    if (wire_put_progress(&runner.out, &progress, NULL) == STATUS_OK) {
        send_out();
    }
}

static bool on_cancelled(void *context) {
    struct job *job = context;
    return atomic_load(&job->cancelled) || lifeline_is_terminated();
}

static bool on_superseded(void *context) {
    struct job *job = context;
    return atomic_load(&job->superseded);
}

static int64_t on_remaining_ms(void *context) {
    (void)context;
    if (runner.deadline_ms == INT64_MAX) {
        return INT64_MAX;
    }
    int64_t left = runner.deadline_ms - clock_now_ms(&clock_boottime);
    return left > 0 ? left : 0;
}

/* ---- one run ---- */

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static pgstage_task *create_task(struct job *job) {
    const struct wire_run *run = &job->run;
    return pgstage_host_task_create(
        &(struct pgstage_host_run){.pipeline = runner.hello.pipeline.data,
                                   .stage = runner.hello.stage.data,
                                   .key = run->key.data,
                                   .payload = {run->payload.data, run->payload.length},
                                   .input = {run->input.data, run->input.length},
                                   .version = run->version,
                                   .attempt = run->attempt},
        &(struct pgstage_host_ops){.log = on_log,
                                   .progress = on_progress,
                                   .cancelled = on_cancelled,
                                   .superseded = on_superseded,
                                   .remaining_ms = on_remaining_ms,
                                   .context = job});
}

static void put_failure(struct buf *out, struct wire_result *result, enum wire_outcome outcome,
                        const char *text) {
    struct error err = ERROR_NONE;
    *result = (struct wire_result){.run = result->run,
                                   .outcome = outcome,
                                   .run_us = result->run_us,
                                   .message = wire_text(text)};
    if (wire_put_result(out, result, &err) != STATUS_OK) {
        channel_breach("%s", err.text);
    }
}

static void set_flow(struct wire_result *result, const pgstage_task *task) {
    struct pgstage_host_flow flow = pgstage_host_flow(task);
    static const enum wire_flow flows[] = {
        [PGSTAGE_HOST_GO_ON] = WIRE_GO_ON,
        [PGSTAGE_HOST_ROUTE] = WIRE_ROUTE,
        [PGSTAGE_HOST_FINISH] = WIRE_FINISH,
        [PGSTAGE_HOST_SNOOZE] = WIRE_SNOOZE,
    };
    result->flow = flows[flow.kind];
    result->target = wire_of(flow.target);
    result->delay_ms = flow.delay_ms;
}

static void put_success(struct wire_result *result, const pgstage_task *task) {
    size_t count, parameter_count = 0;
    const struct pgstage_host_statement *from = pgstage_host_statements(task, &count);
    for (size_t i = 0; i < count; i++) {
        parameter_count += (size_t)from[i].parameter_count;
    }
    struct wire_statement *statements = mem_alloc(count * sizeof *statements);
    struct wire_bytes *parameters = mem_alloc(parameter_count * sizeof *parameters), *to;
    to = parameters;
    for (size_t i = 0; i < count; i++) {
        statements[i] =
            (struct wire_statement){.sql = wire_of(from[i].sql),
                                    .parameter_count = (uint32_t)from[i].parameter_count,
                                    .parameters = to};
        for (int j = 0; j < from[i].parameter_count; j++) {
            *to++ = wire_of(from[i].parameters[j]);
        }
    }
    result->outcome = WIRE_OK;
    result->output = wire_of(pgstage_host_output(task));
    result->statement_count = (uint32_t)count;
    result->statements = statements;
    set_flow(result, task);
    struct error err = ERROR_NONE;
    if (wire_put_result(&runner.out, result, &err) != STATUS_OK) {
        put_failure(&runner.out, result, WIRE_FAIL, err.text);
    }
    free(parameters);
    free(statements);
}

static void put_result(struct wire_result *result, const pgstage_task *task,
                       pgstage_result returned) {
    char text[96];
    switch (returned) {
    case PGSTAGE_OK:
        if (pgstage_host_flow(task).kind != PGSTAGE_HOST_GO_ON &&
            runner.hello.minor < WIRE_MINOR_FLOW) {
            put_failure(&runner.out, result, WIRE_RETRY,
                        "the node is of an older release, which cannot route, finish early or "
                        "snooze: restart it");
            return;
        }
        put_success(result, task);
        return;
    case PGSTAGE_RETRY:
        put_failure(&runner.out, result, WIRE_RETRY, pgstage_host_message(task).data);
        return;
    case PGSTAGE_FAIL:
        put_failure(&runner.out, result, WIRE_FAIL, pgstage_host_message(task).data);
        return;
    }
    snprintf(text, sizeof text, "the handler returned %d, which is no pgstage_result",
             (int)returned);
    put_failure(&runner.out, result, WIRE_FAIL, text);
}

static void run_job(struct job *job) {
    struct wire_result result = {.run = job->run.run};
    pgstage_task *task = create_task(job);
    if (task == NULL) {
        put_failure(&runner.out, &result, WIRE_RETRY, "the worker is out of memory");
        send_out();
        return;
    }
    int64_t timeout = job->run.timeout_ms, now = clock_now_ms(&clock_boottime);
    runner.deadline_ms = timeout == 0 || timeout > INT64_MAX - now ? INT64_MAX : now + timeout;
    runner.progress_ms = 0;
    runner.job = job;
    runner.where = IN_RUN;
    lifeline_set_busy(true);
    limits_begin_run(runner.hello.cpu_seconds);
    runner.started_us = now_us();

    pgstage_result returned = runner.handler.run(task, runner.state);

    result.run_us = now_us() - runner.started_us;
    if (!inbox_has_more(job)) {
        limits_lift_cpu();
    }
    runner.where = BETWEEN;
    fflush(stdout); /* what the handler printed belongs to this run, not to a later one */
    if (returned == PGSTAGE_OK || !lifeline_is_terminated()) {
        put_result(&result, task, returned);
        send_out();
    }
    lifeline_set_busy(false);
    if (lifeline_is_terminated()) {
        lifeline_obey_terminate();
    }
    pgstage_host_task_destroy(task);
}

/* ---- the whole life ---- */

static void on_exit_called(int status, void *unused) {
    (void)unused;
    if (runner.where == BETWEEN || !lifeline_is_worker_process()) {
        return;
    }
    if (lifeline_is_terminated()) {
        lifeline_obey_terminate();
    }
    char text[96];
    const char *what = runner.where == IN_INIT ? "the handler's init" : "the handler";
    snprintf(text, sizeof text, "%s called exit(%d) instead of returning", what, status);
    /* A buffer of its own: it may be another thread that called, in the middle of a log line of
     * this one. */
    struct buf out;
    buf_init(&out, WIRE_FRAME_MAX);
    if (runner.where == IN_INIT) {
        put_refused(&out, text);
    } else {
        struct wire_result result = {.run = runner.job->run.run,
                                     .run_us = now_us() - runner.started_us};
        put_failure(&out, &result, WIRE_FAIL, text);
    }
    channel_try_send(out.data, out.length);
    fflush(NULL);
    _exit(status);
}

static enum status call_init(struct error *err) {
    if (runner.handler.init == NULL) {
        return STATUS_OK;
    }
    runner.where = IN_INIT;
    pgstage_result returned = runner.handler.init(runner.worker, &runner.state);
    runner.where = BETWEEN;
    if (returned == PGSTAGE_OK) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "init of handler '%.*s' failed: %s",
                     (int)runner.hello.handler_name.length, runner.hello.handler_name.data,
                     pgstage_host_worker_message(runner.worker));
}

enum status runner_start(const struct wire_hello *hello, const struct pgstage_handler *handler,
                         struct error *err) {
    runner.hello = *hello;
    runner.handler = *handler;
    buf_init(&runner.out, WIRE_FRAME_MAX + WIRE_HEADER_BYTES);
    on_exit(on_exit_called, NULL);
    char reason[256];
    struct pgstage_host_text config = {hello->config.data, hello->config.length};
    runner.worker = pgstage_host_worker_create(config, reason, sizeof reason);
    if (runner.worker == NULL) {
        return error_set(err, STATUS_INVALID, "%s", reason);
    }
    return call_init(err);
}

static void send_ready(void) {
    struct wire_ready ready = {
        .major = WIRE_MAJOR, .minor = WIRE_MINOR, .handler_abi = runner.handler.abi};
    if (wire_put_ready(&runner.out, &ready, NULL) == STATUS_OK) {
        send_out();
    }
}

void runner_run(void) {
    send_ready();
    struct job *job;
    while ((job = inbox_next()) != NULL) {
        run_job(job);
        inbox_done(job);
    }
    if (runner.handler.fini != NULL) {
        runner.handler.fini(runner.state);
    }
    pgstage_host_worker_destroy(runner.worker);
    buf_finish(&runner.out);
}
