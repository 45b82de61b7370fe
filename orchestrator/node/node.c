/* node.c - one identity at work: every event marks the node as changed; a turn then lets each duty do what it can.
 *
 * Duties of a turn, in order: lease, sources, scheduler, watch and leadership, stop, report, reload.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/require.h"
#include "node/abandoned.h"
#include "node/private.h"
#include "node/specs.h"

enum { KILL_GIVE_UP_MS = 10 * 1000, REPORT_EVERY_MS = 250 };

int64_t node_now(const struct node *node) {
    return clock_now_ms(&node->clock);
}

static void node_turn(struct node *node);

static void on_idle(uv_idle_t *idle) {
    uv_idle_stop(idle);
    node_turn(idle->data);
}

static void on_timer(uv_timer_t *timer) {
    node_turn(timer->data);
}

void node_changed(void *context) {
    struct node *node = context;
    if (!node->handles_closing) {
        uv_idle_start(&node->idle, on_idle);
    }
}

static void drain(struct node *node, const char *why) {
    if (node->state == NODE_UP) {
        log_event(LOG_INFO, "node.draining", "node=%lld reason=%s", (long long)node->lease.node, log_text(why));
        node->state = NODE_DRAINING;
        scheduler_drain(node->scheduler);
    }
}

void node_stop(struct node *node, const char *why) {
    drain(node, why);
    if (node->options.drain_ms > 0 && node->kill_at_ms == 0) {
        node->kill_at_ms = node_now(node) + node->options.drain_ms;
    }
    node_changed(node);
}

void node_retire(struct node *node) {
    drain(node, "its successor is up");
    node_changed(node);
}

void node_kill(struct node *node) {
    if (node->give_up_ms != 0 || node->state > NODE_DRAINING) {
        return;
    }
    log_event(LOG_INFO, "node.killing", "pid=%d", (int)uv_os_getpid());
    node->give_up_ms = node_now(node) + KILL_GIVE_UP_MS;
    scheduler_kill(node->scheduler);
    node_changed(node);
}

static void on_down(void *context) {
    struct node *node = context;
    node->away = true;
    node_changed(node);
}

static void on_ready(void *context) {
    struct node *node = context;
    node->away = false;
    scheduler_store_ready(node->scheduler);
}

static void on_woken(void *context) {
    struct node *node = context;
    duties_woken(node);
    scheduler_woken(node->scheduler);
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

static void on_scheduler_closed(void *context) {
    struct node *node = context;
    node->scheduler_closed = true;
    node->scheduler = NULL;
    node_changed(node);
}

static void on_queue_closed(void *context) {
    struct node *node = context;
    node->queue_closed = true;
    node_changed(node);
}

static void on_workers_closed(void *context) {
    struct node *node = context;
    node->workers_closed = true;
    node->workers = NULL;
    node_changed(node);
}

/* Also of a node whose parts were made in part only. */
static void close_everything(struct node *node) {
    node->state = NODE_CLOSING;
    node->scheduler_closed = node->scheduler == NULL;
    node->queue_closed = node->queue == NULL;
    node->workers_closed = node->workers == NULL;
    if (node->scheduler != NULL) {
        int64_t done = 0, failed = 0;
        scheduler_totals(node->scheduler, &done, &failed);
        for (int i = 0; i < scheduler_stage_count(node->scheduler); i++) {
            struct scheduler_stage_report report;
            scheduler_report(node->scheduler, i, &report);
            node->process->result->runs += report.runs;
        }
        node->process->result->done += done;
        node->process->result->failed += failed;
        scheduler_close(node->scheduler, on_scheduler_closed, node);
    }
    if (node->queue != NULL) {
        queue_close(node->queue, on_queue_closed, node);
    }
    node_changed(node);
}

static void node_free(void *context) {
    struct node *node = context;
    struct process *process = node->process;
    sources_destroy(node);
    host_lock_release(&node->lock);
    arena_finish(&node->arena);
    notes_finish(node);
    if (node->definitions.owner != NULL) {
        node->options.release(&node->definitions);
    }
    free(node->stage_ids);
    free(node->open);
    process_node_gone(process, node);
    free(node);
}

static void finish_handles(struct node *node) {
    if (node->handles_closing) {
        return;
    }
    node->handles_closing = true;
    close_group_begin(&node->closing, node_free, node);
    close_group_add(&node->closing, (uv_handle_t *)&node->timer);
    close_group_add(&node->closing, (uv_handle_t *)&node->idle);
    close_group_end(&node->closing);
}

/* What it held under its lease is for others to rescue. Of a node that a reload replaced, that is over and told when the
 * process ends: it says nothing of how that ends. */
void node_left_claims(struct node *node) {
    log_event(LOG_WARN, "node.unclean", "node=%lld", (long long)node->lease.node);
    if (node->process->stopping) {
        node->process->result->unclean = true;
    }
}

static void stop_turn(struct node *node, int64_t now, int64_t *next_ms) {
    if (node->state == NODE_DRAINING) {
        if (node->kill_at_ms != 0 && now >= node->kill_at_ms) {
            node_kill(node);
        }
        if (node->kill_at_ms != 0) {
            sooner(next_ms, node->kill_at_ms);
        }
        if (node->lease.state == LEASE_STARTING && node->give_up_ms == 0) {
            node->give_up_ms = now + KILL_GIVE_UP_MS; /* nothing is held: an answer that never comes is not waited for */
        }
        bool stopped = sources_stop(node);
        if (!stopped) {
            return;
        }
        if (lease_is_held(node) && scheduler_is_empty(node->scheduler)) {
            if (duties_end_identity(node)) {
                node->state = NODE_ENDING;
                node->give_up_ms = now + KILL_GIVE_UP_MS;
            } else {
                node_left_claims(node);
                close_everything(node);
            }
        } else if (node->lease.state == LEASE_NONE) {
            /* The lease was lost while draining, or never won. */
            if (node->give_up_ms == 0) {
                node->give_up_ms = now + KILL_GIVE_UP_MS;
            }
            bool over = node->lease.dead_count == 0;
            if (over || now >= node->give_up_ms) {
                if (!over) {
                    node_left_claims(node);
                }
                close_everything(node);
            } else {
                lease_end_dead(node, now, next_ms);
                sooner(next_ms, node->give_up_ms);
            }
        } else if (node->give_up_ms != 0 && now >= node->give_up_ms) {
            node_left_claims(node);
            close_everything(node);
        } else if (node->give_up_ms != 0) {
            sooner(next_ms, node->give_up_ms);
        }
    } else if (node->state == NODE_ENDING) {
        if (!node->duties.end_in_flight) {
            close_everything(node);
        } else if (now >= node->give_up_ms) {
            node_left_claims(node);
            close_everything(node);
        } else {
            sooner(next_ms, node->give_up_ms);
        }
    }
}

static void closing_turn(struct node *node) {
    if (node->scheduler != NULL) {
        scheduler_turn(node->scheduler);
    }
    if (node->scheduler_closed && node->workers != NULL && !node->workers_closed) {
        struct workers *workers = node->workers;
        node->workers = NULL;
        workers_destroy(workers, on_workers_closed, node);
        return;
    }
    /* What is being read is compared with the definitions of this node. */
    bool reading = node->process->reload.state == RELOAD_READING;
    if (node->scheduler_closed && node->workers_closed && node->queue_closed && !reading) {
        finish_handles(node);
    }
}

/* ---- the turn ----------------------------------------------------------------------------------------------------- */

static void report_turn(struct node *node, int64_t now, int64_t *next_ms) {
    if (node->options.report == NULL || node != node->process->front) {
        return;
    }
    if (now >= node->next_report_ms) {
        node->next_report_ms = now + REPORT_EVERY_MS;
        struct scheduler_stage_report *stages = mem_alloc(sizeof *stages * (size_t)(node->stage_count + 1));
        struct node_report report = {
            .stage_count = node->stage_count,
            .stages = stages,
            .open = node->open,
            .scanning = !sources_scanned(node),
        };
        for (int i = 0; i < node->stage_count; i++) {
            scheduler_report(node->scheduler, i, &stages[i]);
        }
        process_totals(node->process, &report.done, &report.failed);
        node->options.report(node->options.context, &report);
        free(stages);
    }
    sooner(next_ms, node->next_report_ms);
}

static void node_turn(struct node *node) {
    if (node->state == NODE_CLOSING) {
        closing_turn(node);
        return;
    }
    int64_t now = node_now(node), next = INT64_MAX;
    lease_turn(node, now, &next);
    sources_turn(node, now, &next);
    sooner(&next, scheduler_turn(node->scheduler));
    duties_turn(node, now, &next);
    tend_turn(node, now, &next);
    stop_turn(node, now, &next);
    if (node->state == NODE_CLOSING) {
        return;
    }
    report_turn(node, now, &next);
    reload_turn(node->process, now, &next);
    now = node_now(node);
    uint64_t delay = next == INT64_MAX ? 60 * 1000 : next > now ? (uint64_t)(next - now) : 1;
    uv_update_time(node->loop);
    uv_timer_start(&node->timer, on_timer, delay, 0);
}

static void init_handles(struct node *node) {
    uv_timer_init(node->loop, &node->timer);
    uv_idle_init(node->loop, &node->idle);
    node->timer.data = node->idle.data = node;
}

static void init_stages(struct node *node) {
    for (int i = 0; i < node->options.pipeline_count; i++) {
        node->stage_count += node->options.pipelines[i].def->stage_count;
    }
    node->stage_ids = mem_alloc(sizeof *node->stage_ids * (size_t)(node->stage_count + 1));
    node->open = mem_alloc(sizeof *node->open * (size_t)(node->stage_count + 1));
    int at = 0;
    for (int i = 0; i < node->options.pipeline_count; i++) {
        for (int s = 0; s < node->options.pipelines[i].def->stage_count; s++) {
            node->open[at] = -1;
            node->stage_ids[at++] = node->options.pipelines[i].stage_ids[s];
        }
    }
}

static int lanes_wanted(const struct node *node) {
    int lanes = 0;
    for (int i = 0; i < node->options.pipeline_count; i++) {
        for (int s = 0; s < node->specs[i].stage_count; s++) {
            lanes += node->specs[i].stages[s].elsewhere ? 0 : node->specs[i].stages[s].workers;
        }
    }
    return lanes;
}

static enum status create_parts(struct node *node, struct error *err) {
    struct queue_options queue = {
        .url = node->options.url,
        .watch_url = node->options.listen_url,
        .pooled = node->options.pooled,
        .labels = node->options.labels,
        .lane_count = lanes_wanted(node),
        .clock = &node->clock,
        .random = &node->random,
    };
    struct store_events events = {.ready = on_ready, .down = on_down, .woken = on_woken, .context = node};
    struct workers_options workers = {
        .program = node->options.worker_program,
        .lock_fd = node->lock.fd,
        .work_root = node->lock.work,
        .clock = &node->clock,
        .random = &node->random,
    };
    struct scheduler_options scheduler = {
        .pipeline_count = node->options.pipeline_count,
        .pipelines = node->specs,
        .store = &node->store,
        .workers = &node->pools,
        .clock = &node->clock,
        .random = &node->random,
        .changed = node_changed,
        .context = node,
    };
    enum status status = workers_create(node->loop, &workers, &node->pools, &node->workers, err);
    if (status == STATUS_OK) {
        status = queue_create(node->loop, &queue, &events, &node->store, &node->queue, err);
    }
    if (status == STATUS_OK) {
        status = scheduler_create(&scheduler, &node->scheduler, err);
    }
    return status;
}

struct leftovers {
    uv_work_t work;
    char *folder;
};

static void on_remove_leftovers(uv_work_t *work) {
    const struct leftovers *leftovers = work->data;
    abandoned_end_all(leftovers->folder); /* its folders are left over only then */
    host_remove_leftovers(leftovers->folder);
}

static void on_leftovers_removed(uv_work_t *work, int status) {
    struct leftovers *leftovers = work->data;
    (void)status; /* never cancelled */
    free(leftovers->folder);
    free(leftovers);
}

/* In the thread pool; nothing waits for it but the end of the loop. */
static void remove_leftovers(struct node *node) {
    struct leftovers *leftovers = mem_alloc(sizeof *leftovers);
    leftovers->folder = mem_copy_string(node->options.lock_folder);
    leftovers->work.data = leftovers;
    int failed = uv_queue_work(node->loop, &leftovers->work, on_remove_leftovers, on_leftovers_removed);
    REQUIRE(failed == 0);
}

enum status node_open(struct process *process, const struct node_options *options, struct node_reload *definitions,
                      struct node **opened, struct error *err) {
    struct node *node = mem_alloc(sizeof *node);
    node->process = process;
    node->options = *options;
    node->definitions = *definitions;
    node->options.pipeline_count = definitions->pipeline_count;
    node->options.pipelines = definitions->pipelines;
    node->clock = process->clock;
    node->random = process->random;
    node->loop = &process->loop;
    list_append(&process->nodes, &node->link);
    init_handles(node);
    init_stages(node);
    sources_create(node);
    node->specs = specs_build(&node->arena, node->options.pipeline_count, node->options.pipelines);
    enum status status = host_lock_take(options->lock_folder, &node->lock, err);
    if (status == STATUS_OK) {
        remove_leftovers(node);
        status = create_parts(node, err);
    }
    if (status != STATUS_OK) {
        close_everything(node);
        return status;
    }
    node_changed(node);
    *opened = node;
    return STATUS_OK;
}
