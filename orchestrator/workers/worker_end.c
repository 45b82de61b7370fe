/* worker_end.c - from the reaping of a worker to its last event.
 *
 * A run may be given to another worker only when nothing of this one can act any more: its group is
 * killed again after the worker is reaped (a grandchild may have ignored TERM, or outlived a
 * crash), and awaited; so is what had left the group. Then its pipes are read to their end, for an answer or a last line that was
 * written just before; a process that left the group and holds them open is not waited for.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/require.h"
#include "workers/group.h"
#include "workers/orphans.h"
#include "workers/verdict.h"
#include "workers/worker_parts.h"

enum {
    POLL_MAX_MS = 100,
    LOOK_CLOSELY_POLLS = 6, /* by then a quarter of a second passed: init does not seem to reap */
    STUBBORN_POLLS = 100,   /* say so in the log */
    DRAIN_WAIT_MS = 1000,
};

static void await_group(struct worker *worker) {
    int64_t delay_ms = worker->polls < 7 ? (int64_t)1 << worker->polls : POLL_MAX_MS;
    worker->polls++;
    if (worker->polls == STUBBORN_POLLS) {
        log_event(LOG_WARN, "worker.stragglers", "pipeline=%s stage=%s worker=%d group=%d",
                  worker->setup->spec->pipeline, worker->setup->spec->stage, worker->number,
                  (int)worker->group);
    }
    worker_arm_after(worker, delay_ms);
}

void worker_end_poll(struct worker *worker) {
    if (worker->group != 0 && !worker->group_gone) {
        worker->group_gone = group_is_gone(worker->group, worker->polls >= LOOK_CLOSELY_POLLS);
        if (!worker->group_gone) {
            await_group(worker);
            return;
        }
    }
    if (worker->group != 0 && !worker->strays_gone) {
        worker->strays_gone = orphans_are_gone();
        if (!worker->strays_gone) {
            await_group(worker);
            return;
        }
    }
    if (worker->open_ends == 0 || worker->last_call) {
        worker_step(worker, EVENT_GONE);
    } else if (worker->draining && !uv_is_active((uv_handle_t *)&worker->timer)) {
        worker->last_call = true;
        worker_arm_after(worker, 1);
    } else if (!worker->draining) {
        worker->draining = true;
        worker_arm_after(worker, DRAIN_WAIT_MS);
    }
}

/* ---- what is told --------------------------------------------------------------------------- */

static bool lease_ended(const struct worker *worker) {
    return *worker->setup->lease_end_ms <= worker_now(worker);
}

/* The kernel killed it for lack of memory, or it crashed and had seen (worker/limits.c) that its address space was at the
 * stage's limit. */
static bool is_out_of_memory(const struct worker *worker) {
    if (worker->exit_signal == SIGKILL) {
        return oom_watch_explains(worker->setup->oom);
    }
    if (worker->work == NULL || !verdict_is_crash(worker->exit_signal)) {
        return false;
    }
    char *mark = mem_format("%s/" WORK_MEMORY_MARK, worker->work);
    bool is_there = access(mark, F_OK) == 0;
    free(mark);
    return is_there;
}

static struct verdict verdict_of(const struct worker *worker) {
    struct verdict verdict = {.end = POOL_RETURNED, .kind = "returned"};
    switch (worker->cause) {
    case CAUSE_NONE:
        return verdict_of_exit(worker->exit_status, worker->exit_signal,
                               !worker->was_ready             ? "it was ready"
                               : list_is_empty(&worker->pipe) ? "it was told to"
                                                              : "answering",
                               is_out_of_memory(worker));
    case CAUSE_PROTOCOL:
        verdict.end = POOL_CRASH;
        verdict.kind = "protocol";
        break;
    case CAUSE_TIMEOUT:
    case CAUSE_INTERRUPT:
    case CAUSE_STOP:
    case CAUSE_SILENCE:
    case CAUSE_REFUSED:
    case CAUSE_SPAWN:
        break;
    }
    snprintf(verdict.text, sizeof verdict.text, "%.*s", VERDICT_TEXT_MAX - 1, worker->why);
    return verdict;
}

/* Whether a task may have caused its death: one in hand, or an earlier one that left it broken. */
static bool had_tasks(const struct worker *worker) {
    return !worker->fresh;
}

static enum brakes_cause brakes_cause_of(const struct worker *worker,
                                         const struct verdict *verdict) {
    switch (worker->cause) {
    case CAUSE_STOP:
    case CAUSE_TIMEOUT:
    case CAUSE_INTERRUPT:
        return BRAKES_NONE;
    case CAUSE_REFUSED:
        return BRAKES_REFUSED;
    case CAUSE_SILENCE:
    case CAUSE_SPAWN:
        return BRAKES_OWN;
    case CAUSE_PROTOCOL:
        return had_tasks(worker) ? BRAKES_TASK : BRAKES_OWN;
    case CAUSE_NONE:
        break;
    }
    if (had_tasks(worker)) {
        return BRAKES_TASK;
    }
    if (lease_ended(worker)) {
        return BRAKES_NONE; /* its watchdog did what it is for */
    }
    return worker->was_ready && verdict->end == POOL_LOST ? BRAKES_TASK : BRAKES_OWN;
}

static struct pool_text text_of(const char *text) {
    return (struct pool_text){.data = text, .length = strlen(text)};
}

/* `in_hand`: it was when the worker died. */
static void tell_over(struct worker *worker, struct run *run, bool in_hand,
                      const struct verdict *verdict, const struct buf *tail) {
    struct pool_outcome outcome = {.end = POOL_RETURNED,
                                   .kind = "returned",
                                   .message = text_of("its worker ended before it was begun")};
    switch (run->fate) {
    case RUN_TIMED_OUT:
        outcome.end = POOL_TIMEOUT;
        outcome.kind = "timeout";
        outcome.message = text_of(worker->why);
        break;
    case RUN_INTERRUPTED:
        outcome.end = POOL_INTERRUPTED;
        outcome.kind = "interrupted";
        outcome.message = text_of("interrupted");
        break;
    case RUN_UNHEARD: /* never of a run that a worker has */
    case RUN_OPEN:
        if (in_hand && verdict->end != POOL_RETURNED) {
            outcome.end = verdict->end;
            outcome.kind = verdict->kind;
            outcome.message = text_of(verdict->text);
        }
        break;
    }
    if (outcome.end != POOL_RETURNED) {
        outcome.run_us = in_hand ? (worker_now(worker) - worker->head_ms) * 1000 : 0;
        outcome.last_output =
            (struct pool_text){tail->length > 0 ? tail->data : NULL, tail->length};
    }
    list_remove(&run->link);
    worker->events.over(worker->events.context, worker, run, &outcome);
}

static bool ended_early(const struct worker *worker) {
    static const char end[] = WIRE_ENDED_EARLY;
    size_t length = strlen(worker->why);
    return worker->cause == CAUSE_REFUSED && length >= sizeof end - 1 &&
           strcmp(worker->why + length - (sizeof end - 1), end) == 0;
}

static void tell_dead(struct worker *worker, enum brakes_cause cause,
                      const struct verdict *verdict) {
    const char *how = worker->cause == CAUSE_NONE ? verdict->text : worker->why;
    log_event(cause == BRAKES_NONE ? LOG_INFO : LOG_WARN, "worker.end",
              "pipeline=%s stage=%s worker=%d pid=%d life_ms=%" PRId64 " status=%" PRId64
              " signal=%d why=%s",
              worker->setup->spec->pipeline, worker->setup->spec->stage, worker->number,
              (int)worker->group, worker_now(worker) - worker->started_ms, worker->exit_status,
              worker->exit_signal, log_text(how));
    struct buf reason;
    buf_init(&reason, 2048);
    buf_append_string(&reason, how);
    if (cause == BRAKES_OWN || ended_early(worker)) {
        struct buf line;
        buf_init(&line, OUTPUT_TAIL_BYTES);
        output_last_line(&worker->output, &line);
        if (line.length > 0) {
            buf_append_format(&reason, ": %.*s", 1000, line.data);
        }
        buf_finish(&line);
    }
    worker->events.dead(worker->events.context, worker,
                        &(struct worker_death){.cause = cause,
                                               .reason = reason.data,
                                               .started_ms = worker->started_ms,
                                               .silent = worker->cause == CAUSE_SILENCE});
    buf_finish(&reason);
}

static void on_closed(void *context) {
    struct worker *worker = context;
    struct worker_events events = worker->events;
    stream_finish(&worker->channel);
    free(worker);
    events.closed(events.context);
}

static void close_handles(struct worker *worker) {
    close_group_begin(&worker->closing, on_closed, worker);
    stream_close(&worker->channel, &worker->closing);
    for (int i = 0; i < OUTPUT_STREAM_COUNT; i++) {
        throttled_stop(&worker->flows[i]);
        close_group_add(&worker->closing, (uv_handle_t *)&worker->streams[i]);
    }
    close_group_add(&worker->closing, (uv_handle_t *)&worker->timer);
    close_group_add(&worker->closing, (uv_handle_t *)&worker->process);
    close_group_end(&worker->closing);
}

/* Whether the worker can have begun the first in its pipe. One that said LAST has answered what it began. One that closed its end after its last answer never got the
 * next run; a batch is begun when all of it is there. */
static bool has_begun(const struct worker *worker) {
    const struct run *head = worker_head(worker);
    return head != NULL && !worker->said_last && (head->batch != NULL ? worker->unsent == 0 : worker->depth > worker->unsent);
}

void worker_bury(struct worker *worker) {
    output_end(&worker->output, worker_now(worker));
    struct verdict verdict = verdict_of(worker);
    enum brakes_cause cause = brakes_cause_of(worker, &verdict);
    struct buf tail;
    buf_init(&tail, OUTPUT_TAIL_BYTES);
    output_tail(&worker->output, &tail);
    while (!list_is_empty(&worker->answered)) {
        tell_over(worker, LIST_ENTRY(worker->answered.next, struct run, link), true, &verdict,
                  &tail);
    }
    bool in_hand = has_begun(worker);
    while (!list_is_empty(&worker->pipe)) {
        struct run *run = worker_head(worker);
        bool is_of_batch = run->batch != NULL;
        tell_over(worker, run, in_hand, &verdict, &tail);
        in_hand = in_hand && is_of_batch;
    }
    buf_finish(&tail);
    tell_dead(worker, cause, &verdict);
    work_folder_remove(worker->setup->folders, worker->work);
    worker->work = NULL;
    close_handles(worker);
}
