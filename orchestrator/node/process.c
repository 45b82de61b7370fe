/* process.c - the loop, the signals, and the nodes that live in it: one, or two while a reload replaces the one by the
 * other. Each has its own identity, lease, connections, scheduler and workers; they share nothing but the loop.
 */
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/require.h"
#include "node/private.h"
#include "workers/orphans.h"

enum { SAME_REQUEST_MS = 250 };

static void stop_all(struct process *process, const char *why) {
    process->stopping = true;
    LIST_EACH(at, &process->nodes) {
        node_stop(LIST_ENTRY(at, struct node, link), why);
    }
}

static void stop_by_signal(struct process *process, const char *which) {
    process->result->signalled = !process->stopping;
    process->stop_signalled = true;
    process->signalled_ms = clock_now_ms(&process->clock);
    stop_all(process, which);
}

/* One request may come twice: a terminal signals the whole group, and a wrapper passes on what it got. */
static void on_stop(uv_signal_t *handle, int number) {
    struct process *process = handle->data;
    if (!process->stop_signalled) {
        stop_by_signal(process, number == SIGINT ? "SIGINT" : "SIGTERM");
        return;
    }
    if (clock_now_ms(&process->clock) < process->signalled_ms + SAME_REQUEST_MS) {
        return;
    }
    LIST_EACH(at, &process->nodes) {
        node_kill(LIST_ENTRY(at, struct node, link));
    }
}

static void on_hangup(uv_signal_t *handle, int number) {
    (void)number;
    reload_ask(handle->data, true);
}

/* A node that is being replaced is not asked: its successor will notice for itself. */
void process_idle(struct node *node) {
    struct process *process = node->process;
    const struct reload *reload = &process->reload;
    bool reloading = reload->state != RELOAD_IDLE || reload->files_asked || reload->revision_asked;
    if (node == process->front && !reloading) {
        stop_all(process, "idle");
    }
}

void process_totals(const struct process *process, int64_t *done, int64_t *failed) {
    *done = process->result->done;
    *failed = process->result->failed;
    LIST_EACH(at, &process->nodes) {
        const struct node *node = LIST_ENTRY(at, struct node, link);
        if (node->state != NODE_CLOSING) {
            int64_t more_done = 0, more_failed = 0;
            scheduler_totals(node->scheduler, &more_done, &more_failed);
            *done += more_done;
            *failed += more_failed;
        }
    }
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

/* The loop ends when nothing is open in it: also what the thread pool still does is waited for. */
static void finish_handles(struct process *process) {
    if (process->handles_closing || !list_is_empty(&process->nodes)) {
        return;
    }
    process->handles_closing = true;
    uv_close((uv_handle_t *)&process->sigint, NULL);
    uv_close((uv_handle_t *)&process->sigterm, NULL);
    uv_close((uv_handle_t *)&process->sighup, NULL);
}

void process_node_gone(struct process *process, struct node *node) {
    list_remove(&node->link);
    if (process->front == node) {
        process->front = NULL;
    }
    if (process->next == node) {
        process->next = NULL;
    }
    process_work_done(process);
    finish_handles(process);
}

void process_work_done(struct process *process) {
    LIST_EACH(at, &process->nodes) {
        node_changed(LIST_ENTRY(at, struct node, link));
    }
}

/* ---- the beginning ------------------------------------------------------------------------------------------------ */

static void init_handles(struct process *process) {
    REQUIRE(uv_loop_init(&process->loop) == 0);
    uv_signal_init(&process->loop, &process->sigint);
    uv_signal_init(&process->loop, &process->sigterm);
    uv_signal_init(&process->loop, &process->sighup);
    process->sigint.data = process->sigterm.data = process->sighup.data = process;
    uv_signal_start(&process->sigint, on_stop, SIGINT);
    uv_signal_start(&process->sigterm, on_stop, SIGTERM);
    uv_signal_start(&process->sighup, on_hangup, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
}

enum status node_run(const struct node_options *options, struct node_result *result, struct error *err) {
    struct process *process = mem_alloc(sizeof *process);
    process->options = *options;
    process->clock = clock_boottime;
    process->random = random_system;
    process->result = result;
    *result = (struct node_result){0};
    list_init(&process->nodes);
    init_handles(process);
    orphans_take_over();
    reload_create(process);
    struct node_reload first = {.pipeline_count = options->pipeline_count, .pipelines = options->pipelines};
    enum status status = node_open(process, options, &first, &process->front, err);
    if (status == STATUS_OK) {
        if (options->stop_was_asked != NULL && options->stop_was_asked()) {
            stop_by_signal(process, "a signal at start");
        }
        if (options->reload_was_asked != NULL && options->reload_was_asked()) {
            reload_ask(process, true);
        }
    }
    uv_run(&process->loop, UV_RUN_DEFAULT);
    REQUIRE(uv_loop_close(&process->loop) == 0);
    reload_finish(process);
    free(process);
    return status;
}
