/* engine_handler.c - the engine of `handler:`, a function of a shared object in this process.
 *
 * A handler that calls exit() ends this process from inside; the exit hook then still tells the node what happened, so
 * that the document gets a reason instead of a riddle.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "worker/engine.h"
#include "worker/lifeline.h"
#include "worker/limits.h"
#include "worker/memory_use.h"
#include "worker/plugin.h"
#include "worker/runner.h"

static struct {
    const struct wire_hello *hello;
    struct pgstage_handler handler;
    pgstage_worker *worker;
    void *state;
    enum { BETWEEN, IN_INIT, IN_RUN } where; /* whose fault an exit() is */
} engine;

static void on_exit_called(int status, void *unused) {
    (void)unused;
    if (engine.where == BETWEEN || !lifeline_is_worker_process()) {
        return;
    }
    if (lifeline_is_terminated()) {
        lifeline_obey_terminate();
    }
    char text[96];
    const char *what = engine.where == IN_INIT ? "the handler's init" : "the handler";
    snprintf(text, sizeof text, "%s called exit(%d) instead of returning", what, status);
    if (engine.where == IN_INIT) {
        runner_send_refused(text);
    } else {
        runner_fail_from_exit(text);
    }
    fflush(NULL);
    _exit(status);
}

/* ---- start ---- */

static enum status call_init(struct error *err) {
    if (engine.handler.init == NULL) {
        return STATUS_OK;
    }
    engine.where = IN_INIT;
    pgstage_result returned = engine.handler.init(engine.worker, &engine.state);
    engine.where = BETWEEN;
    if (returned == PGSTAGE_OK) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "init of handler '%.*s' failed: %s",
                     (int)engine.hello->handler_name.length, engine.hello->handler_name.data,
                     pgstage_host_worker_message(engine.worker));
}

static enum status check_batch(struct error *err) {
    if (engine.hello->batch_size == 0 || engine.handler.run_batch != NULL) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "handler '%s' of %s has no .run_batch function, which a stage with batch: needs",
                     engine.hello->handler_name.data, engine.hello->handler_file.data);
}

static enum status start_handler(const struct wire_hello *hello, struct error *err) {
    engine.hello = hello;
    if (plugin_load(hello->handler_file.data, hello->handler_name.data, &engine.handler, err) != STATUS_OK ||
        check_batch(err) != STATUS_OK) {
        return err->code;
    }
    on_exit(on_exit_called, NULL);
    char reason[256];
    struct pgstage_host_text config = {hello->config.data, hello->config.length};
    engine.worker = pgstage_host_worker_create(config, hello->folder.data, reason, sizeof reason);
    if (engine.worker == NULL) {
        return error_set(err, STATUS_INVALID, "%s", reason);
    }
    return call_init(err);
}

/* ---- run ---- */

static void run_one(struct engine_task *task) {
    engine_set_returned(task, engine.handler.run(task->task, engine.state));
}

/* Which task's message says why a batch failed: the first that has one. */
static const struct engine_task *find_reason(const struct engine_call *call) {
    for (size_t i = 0; i < call->count; i++) {
        if (strcmp(pgstage_host_message(call->tasks[i].task).data, PGSTAGE_HOST_NO_REASON) != 0) {
            return &call->tasks[i];
        }
    }
    return &call->tasks[0];
}

static void fail_batch(struct engine_call *call, pgstage_result returned) {
    const struct engine_task *from = find_reason(call);
    if (from != call->tasks) {
        pgstage_fail(call->tasks[0].task, "%s", pgstage_host_message(from->task).data);
    }
    engine_set_returned(&call->tasks[0], returned);
    call->failed_whole = true;
}

static void run_batch(struct engine_call *call) {
    pgstage_task **tasks = mem_alloc(call->count * sizeof *tasks);
    pgstage_result *results = mem_alloc(call->count * sizeof *results); /* PGSTAGE_OK */
    for (size_t i = 0; i < call->count; i++) {
        tasks[i] = call->tasks[i].task;
    }
    pgstage_result returned = engine.handler.run_batch(tasks, call->count, results, engine.state);
    if (returned != PGSTAGE_OK) {
        fail_batch(call, returned);
    } else {
        for (size_t i = 0; i < call->count; i++) {
            engine_set_returned(&call->tasks[i], results[i]);
        }
    }
    free(results);
    free(tasks);
}

/* A stage without `batch:` takes a handler that has nothing but .run_batch, too. */
static void run_handler(struct engine_call *call) {
    limits_begin_run(engine.hello->cpu_seconds);
    engine.where = IN_RUN;
    if (engine.hello->batch_size == 0 && engine.handler.run != NULL) {
        run_one(&call->tasks[0]);
    } else {
        run_batch(call);
    }
    engine.where = BETWEEN;
    if (!runner_has_more()) {
        limits_lift_cpu();
    }
    fflush(stdout); /* what the handler printed belongs to this run, not to a later one */
}

static void stop_handler(void) {
    if (engine.handler.fini != NULL) {
        engine.handler.fini(engine.state);
    }
    pgstage_host_worker_destroy(engine.worker);
}

static int64_t own_resident_bytes(void) {
    return memory_use_resident_bytes(getpid());
}

static uint32_t abi_of_handler(void) {
    return engine.handler.abi;
}

const struct engine engine_handler = {
    .start = start_handler,
    .run = run_handler,
    .stop = stop_handler,
    .resident_bytes = own_resident_bytes,
    .handler_abi = abi_of_handler,
};
