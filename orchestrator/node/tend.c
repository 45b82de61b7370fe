/* tend.c - the embedded PostgreSQL is ours to keep running: while it cannot be reached, the thread pool looks after it. */
#include "base/log.h"
#include "node/private.h"

enum { TEND_EVERY_MS = 1000 };

static void tend(uv_work_t *work) {
    struct node *node = work->data;
    node->tend.error = ERROR_NONE;
    node->tend.status = node->options.tend(node->options.tend_context, &node->tend.error);
}

static void on_tended(uv_work_t *work, int cancelled) {
    struct node *node = work->data;
    node->tend.active = false;
    if (cancelled == 0 && node->tend.status != STATUS_OK) {
        log_event(LOG_ERROR, "db.cluster.away", "reason=%s", log_text(node->tend.error.text));
    }
    node_changed(node);
}

void tend_turn(struct node *node, int64_t now, int64_t *next_ms) {
    struct tend *state = &node->tend;
    if (node->options.tend == NULL || !state->away || state->active) {
        return;
    }
    if (now >= state->next_ms && node->state != NODE_CLOSING) {
        state->work.data = node;
        state->active = uv_queue_work(&node->loop, &state->work, tend, on_tended) == 0;
        state->next_ms = now + TEND_EVERY_MS;
    }
    sooner(next_ms, state->next_ms);
}
