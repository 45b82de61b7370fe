/* tend.c - the embedded PostgreSQL is ours to keep running: while it cannot be reached, the thread pool looks after it. */
#include "base/log.h"
#include "node/private.h"

enum { TEND_EVERY_MS = 1000 };

static void tend(uv_work_t *work) {
    struct process *process = work->data;
    process->tend.error = ERROR_NONE;
    process->tend.status = process->options.tend(process->options.tend_context, &process->tend.error);
}

static void on_tended(uv_work_t *work, int cancelled) {
    struct process *process = work->data;
    process->tend.active = false;
    if (cancelled == 0 && process->tend.status != STATUS_OK) {
        log_event(LOG_ERROR, "db.cluster.away", "reason=%s", log_text(process->tend.error.text));
    }
    process_work_done(process);
}

void tend_turn(struct node *node, int64_t now, int64_t *next_ms) {
    struct process *process = node->process;
    struct tend *state = &process->tend;
    if (process->options.tend == NULL || !node->away || state->active) {
        return;
    }
    if (now >= state->next_ms && node->state != NODE_CLOSING) {
        state->work.data = process;
        state->active = uv_queue_work(node->loop, &state->work, tend, on_tended) == 0;
        state->next_ms = now + TEND_EVERY_MS;
    }
    sooner(next_ms, state->next_ms);
}
