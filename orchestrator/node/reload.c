/* reload.c - another definition without a stop. The definitions are read and validated in the thread pool; when there is
 * something to take, a successor is opened beside the node, and when it is up the node drains and closes. What runs is
 * finished under the definition that it was begun under, and the successor is a node like any other: nothing is handed
 * from one to the other but through the database.
 *
 * One reload at a time: what is asked for meanwhile leads to one more.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "node/private.h"

enum {
    WORKERS_WAIT_MS = 30 * 1000, /* for slow workers of the successor */
    DELAY_FIRST_MS = 500,
    DELAY_MAX_MS = 10 * 1000,
    TRY_AGAIN_MS = 10 * 1000,
};

void reload_create(struct process *process) {
    size_t count = (size_t)process->options.pipeline_count + 1;
    process->reload.rejected = mem_alloc(sizeof *process->reload.rejected * count);
    process->reload.tried = mem_alloc(sizeof *process->reload.tried * count);
}

void reload_finish(struct process *process) {
    for (int i = 0; i < process->options.pipeline_count; i++) {
        free(process->reload.rejected[i]);
    }
    free(process->reload.rejected);
    free(process->reload.tried);
}

void reload_ask(struct process *process, bool files) {
    struct reload *reload = &process->reload;
    if (process->options.reload == NULL || process->stopping) {
        return;
    }
    reload->files_asked = reload->files_asked || files;
    reload->revision_asked = reload->revision_asked || !files;
    process_work_done(process);
}

static int revision_of(const struct node_pipeline *pipeline, int count, const struct store_stage_state *states) {
    for (int i = 0; i < count; i++) {
        if (states[i].stage == pipeline->stage_ids[0]) {
            return states[i].revision;
        }
    }
    return pipeline->revision;
}

void reload_see_revisions(struct node *node, int count, const struct store_stage_state *states) {
    struct reload *reload = &node->process->reload;
    int64_t now = node_now(node);
    for (int i = 0; node == node->process->front && reload->state == RELOAD_IDLE && i < node->options.pipeline_count; i++) {
        const struct node_pipeline *pipeline = &node->options.pipelines[i];
        int revision = revision_of(pipeline, count, states);
        if (revision != pipeline->revision && (revision != reload->tried[i] || now >= reload->try_again_ms)) {
            reload->tried[i] = revision;
            reload->try_again_ms = now + TRY_AGAIN_MS;
            reload_ask(node->process, false);
        }
    }
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static void read_definitions(uv_work_t *work) {
    struct process *process = work->data;
    struct reload *reload = &process->reload;
    reload->error = ERROR_NONE;
    reload->status = process->options.reload(process->options.reload_context, process->front->options.pipelines,
                                             reload->files, &reload->found, &reload->error);
}

static void tell_rejections(struct process *process) {
    struct reload *reload = &process->reload;
    for (int i = 0; i < reload->found.pipeline_count; i++) {
        const char *why = reload->found.rejected[i], *before = reload->rejected[i];
        if (why != NULL && (before == NULL || strcmp(why, before) != 0)) {
            log_event(LOG_ERROR, "reload.rejected", "pipeline=%s reason=%s",
                      process->front->options.pipelines[i].def->name, log_text(why));
        }
        char *kept = why == NULL ? NULL : mem_copy_string(why);
        free(reload->rejected[i]);
        reload->rejected[i] = kept;
    }
}

static void open_successor(struct process *process) {
    struct reload *reload = &process->reload;
    struct error err = ERROR_NONE;
    log_event(LOG_INFO, "reload.begun", "changes=%s", log_text(reload->found.changes));
    reload->state = RELOAD_STARTING;
    reload->deadline_ms = clock_now_ms(&process->clock) + WORKERS_WAIT_MS;
    if (node_open(process, &process->options, &reload->found, &process->next, &err) != STATUS_OK) {
        log_event(LOG_ERROR, "reload.failed", "reason=%s", log_text(err.text));
        reload->state = RELOAD_DRAINING; /* until what was opened of it is closed */
    }
    reload->found = (struct node_reload){0};
}

/* Not possible now: the same again, later. */
static void postpone(struct process *process) {
    struct reload *reload = &process->reload;
    if (reload->delay_ms == 0) {
        log_event(LOG_WARN, "reload.waits", "reason=%s", log_text(reload->error.text));
    }
    reload->delay_ms = reload->delay_ms == 0 ? DELAY_FIRST_MS : reload->delay_ms * 2;
    reload->delay_ms = reload->delay_ms > DELAY_MAX_MS ? DELAY_MAX_MS : reload->delay_ms;
    reload->not_before_ms = clock_now_ms(&process->clock) + reload->delay_ms;
    reload->files_asked = reload->files_asked || reload->files;
    reload->revision_asked = true;
}

static void on_read(uv_work_t *work, int cancelled) {
    struct process *process = work->data;
    struct reload *reload = &process->reload;
    reload->state = RELOAD_IDLE;
    if (cancelled != 0 || reload->status != STATUS_OK) {
        postpone(process);
    } else if (process->stopping) {
        process->options.release(&reload->found);
    } else {
        reload->delay_ms = 0;
        tell_rejections(process);
        if (reload->found.is_new) {
            open_successor(process);
        } else {
            process->options.release(&reload->found);
        }
    }
    process_work_done(process);
}

/* What the other thread reads is written before it may begin. */
static void begin(struct process *process) {
    struct reload *reload = &process->reload;
    reload->work.data = process;
    reload->files = reload->files_asked;
    if (uv_queue_work(&process->loop, &reload->work, read_definitions, on_read) == 0) {
        reload->state = RELOAD_READING;
        reload->files_asked = reload->revision_asked = false;
    }
}

/* ---- taking over -------------------------------------------------------------------------------------------------- */

/* Whether the pool of that stage is parked in the node as well. */
static bool is_parked_in(struct node *node, const struct scheduler_stage_report *stage) {
    for (int i = 0; i < node->stage_count; i++) {
        struct scheduler_stage_report report;
        scheduler_report(node->scheduler, i, &report);
        if (strcmp(report.pipeline, stage->pipeline) == 0 && strcmp(report.stage, stage->stage) == 0) {
            return report.parked != NULL;
        }
    }
    return false;
}

/* Workers of the successor that cannot be had where the node has some: its definition is of no use here. */
static bool is_refused(struct process *process, bool *starting) {
    bool refused = false;
    for (int i = 0; i < process->next->stage_count; i++) {
        struct scheduler_stage_report report;
        scheduler_report(process->next->scheduler, i, &report);
        *starting = *starting || report.starting;
        if (report.parked != NULL && !refused && !is_parked_in(process->front, &report)) {
            log_event(LOG_ERROR, "reload.rejected", "pipeline=%s stage=%s reason=%s", report.pipeline, report.stage,
                      log_text(report.parked));
            for (int p = 0; p < process->options.pipeline_count; p++) {
                if (strcmp(process->options.pipelines[p].def->name, report.pipeline) == 0) {
                    free(process->reload.rejected[p]);
                    process->reload.rejected[p] =
                        mem_format("the new definition is rejected: stage '%s': %s", report.stage, report.parked);
                    process->reload.tried[p] = process->next->options.pipelines[p].revision;
                }
            }
            refused = true;
        }
    }
    return refused;
}

static void take_over(struct process *process, int64_t now, int64_t *next_ms) {
    struct reload *reload = &process->reload;
    struct node *old = process->front, *new = process->next;
    bool starting = false;
    if (new == NULL || old == NULL || new->state != NODE_UP || old->state != NODE_UP) {
        reload->state = RELOAD_DRAINING; /* a stop came between */
    } else if (is_refused(process, &starting)) {
        process->next = NULL;
        reload->state = RELOAD_DRAINING;
        reload->try_again_ms = INT64_MAX; /* its workers were tried; a person says when again */
        node_retire(new);
    } else if (lease_is_held(new) && (!starting || now >= reload->deadline_ms)) {
        process->front = new;
        process->next = NULL;
        reload->state = RELOAD_DRAINING;
        log_event(LOG_INFO, "reload.done", "node=%lld", (long long)new->lease.node);
        node_retire(old);
    } else {
        sooner(next_ms, reload->deadline_ms);
    }
}

void reload_turn(struct process *process, int64_t now, int64_t *next_ms) {
    struct reload *reload = &process->reload;
    bool asked = reload->files_asked || reload->revision_asked;
    if (reload->state == RELOAD_STARTING) {
        take_over(process, now, next_ms);
    }
    if (reload->state == RELOAD_DRAINING && process->nodes.next == process->nodes.prev) {
        reload->state = RELOAD_IDLE;
    }
    if (reload->state == RELOAD_IDLE && asked && !process->stopping) {
        if (now >= reload->not_before_ms) {
            begin(process);
        }
        if (reload->state == RELOAD_IDLE) {
            sooner(next_ms, reload->not_before_ms);
        }
    }
}
