/* held.c - the life of one held task: what is remembered of a claim until the store has accepted its end. */
#include <string.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/require.h"
#include "scheduler/state.h"

struct shared_text *shared_text_new(const char *data, size_t length) {
    if (data == NULL) {
        return NULL;
    }
    struct shared_text *text = mem_alloc(sizeof *text + length + 1);
    text->references = 1;
    text->length = length;
    if (length > 0) {
        memcpy(text->data, data, length);
    }
    return text;
}

struct shared_text *shared_text_share(struct shared_text *text) {
    if (text != NULL) {
        text->references++;
    }
    return text;
}

void shared_text_drop(struct shared_text *text) {
    if (text != NULL && --text->references == 0) {
        free(text);
    }
}

struct held *held_new(struct scheduler *s, struct stage *stage, const struct store_task *row, int64_t claim) {
    struct held *h = mem_alloc(sizeof *h);
    list_init(&h->link);
    h->task = row->task;
    h->claim = claim;
    h->version = row->version;
    h->key = mem_copy_string(row->key);
    h->updated_at = mem_copy_string(row->updated_at);
    h->payload = shared_text_new(row->payload.data, row->payload.length);
    h->input = shared_text_new(row->input.data, row->input.length);
    h->inputs = shared_text_new(row->inputs.data, row->inputs.length);
    past_take(h, row);
    h->attempt = row->attempt;
    h->crashes = row->crashes;
    h->rescues = row->rescues;
    h->superseded_before = row->superseded;
    h->waited_us = row->waited_us;
    h->alone = row->crashes >= PLAN_ALONE_AFTER || row->rescues >= PLAN_ALONE_AFTER;
    h->keep = row->superseded >= PLAN_FINISH_AFTER && stage->pipeline->on_update != SCHED_INTERRUPT;
    h->first_position = stage->position;
    h->leaves = STORE_NEXT;
    h->outputs = mem_alloc(sizeof *h->outputs * (size_t)stage->pipeline->stage_count);
    list_append(&s->all, &h->all);
    s->held_count++;
    struct held *old = map_put(&s->by_task, h->task, h);
    if (old != NULL) {
        /* The store gave us a task again that we still thought ours: the older claim is gone. */
        h->waits_for = old->state == HELD_RUNNING ? old->run : old->waits_for;
        held_lose(s, old);
    }
    held_enqueue(h, stage, false);
    return h;
}

void held_enqueue(struct held *h, struct stage *stage, bool front) {
    h->stage = stage;
    h->state = HELD_QUEUED;
    if (front) {
        list_prepend(&stage->queue, &h->link); /* it was in this queue before, and has waited since then */
    } else {
        h->queued_ms = clock_now_ms(stage->scheduler->options.clock);
        list_append(&stage->queue, &h->link);
    }
    stage->queued++;
}

void held_dequeue(struct held *h) {
    if (h->state == HELD_QUEUED) {
        h->stage->queued--;
    }
    list_remove(&h->link);
}

void held_end(struct held *h, enum store_ending ending) {
    held_dequeue(h);
    h->state = HELD_ENDED;
    h->ending = ending;
    shared_text_drop(h->payload);
    shared_text_drop(h->input);
    h->payload = h->input = NULL;
    held_drop_statements(h);
}

static char *copy_text(const char *data, size_t length) {
    return data == NULL ? NULL : mem_copy_bytes(data, length);
}

static void note_failure(struct held *h, const struct plan_failure *plan, const char *reason, size_t reason_length,
                         const char *detail, size_t detail_length) {
    free(h->reason);
    free(h->detail);
    h->add_attempts = plan->attempts;
    h->add_crashes = plan->crashes;
    h->add_rescues = plan->rescues;
    h->delay_ms = plan->delay_ms;
    h->kind = plan->kind;
    h->reason = copy_text(reason, reason_length);
    h->detail = copy_text(detail, detail_length);
}

void held_end_failed(struct held *h, const struct plan_failure *plan, const char *reason, size_t reason_length,
                     const char *detail, size_t detail_length) {
    note_failure(h, plan, reason, reason_length, detail, detail_length);
    held_end(h, plan->ending);
}

void held_cut(struct scheduler *s, struct held *h, const struct plan_failure *plan, const char *reason) {
    while (h->count > 0) {
        shared_text_drop(h->outputs[--h->count]);
    }
    note_failure(h, plan, reason, reason == NULL ? 0 : strlen(reason), NULL, 0);
    if (h->state != HELD_RUNNING) {
        held_end(h, plan->ending);
        return;
    }
    h->cut = true;
    h->ending = plan->ending;
    h->interrupted = true;
    s->workers->interrupt(h->stage->pool, h->run);
}

bool held_is_blocked(const struct scheduler *s, const struct held *h) {
    return h->waits_for != 0 && map_get(&s->by_run, (int64_t)h->waits_for) != NULL;
}

void held_accept(struct held *h, int transitions) {
    REQUIRE(transitions >= 0 && transitions <= h->count);
    for (int i = 0; i < transitions; i++) {
        shared_text_drop(h->outputs[i]);
    }
    h->count -= transitions;
    memmove(h->outputs, h->outputs + transitions, sizeof *h->outputs * (size_t)h->count);
    h->step += transitions;
    h->first_position += transitions;
}

void held_go_on(struct scheduler *s, struct held *h, int stage_id) {
    struct shared_text *output = shared_text_share(h->outputs[h->count - 1]);
    held_accept(h, h->count);
    struct stage *next = h->stage + 1;
    bool last = h->leaves != STORE_NEXT || h->stage->position + 1 == h->stage->pipeline->stage_count;
    if (last || s->draining || h->cancelled || next->paused || !stage_takes_kept(next) || next->spec->id != stage_id) {
        shared_text_drop(output);
        held_end(h, STORE_RELEASE);
        return;
    }
    h->attempt = h->crashes = h->rescues = 0;
    stage_hand_over(h, next, output);
}

void held_drop_statements(struct held *h) {
    for (int i = 0; i < h->statement_count; i++) {
        for (int p = 0; p < h->statements[i].param_count; p++) {
            free((char *)(uintptr_t)h->statements[i].params[p].data);
        }
        free(h->statements[i].params);
        free(h->statements[i].text);
    }
    free(h->statements);
    h->statements = NULL;
    h->statement_count = 0;
}

static void held_free(struct scheduler *s, struct held *h) {
    held_dequeue(h);
    list_remove(&h->all);
    s->held_count--;
    if (map_get(&s->by_task, h->task) == h) {
        map_remove(&s->by_task, h->task);
    }
    for (int i = 0; i < h->count; i++) {
        shared_text_drop(h->outputs[i]);
    }
    free(h->outputs);
    shared_text_drop(h->payload);
    shared_text_drop(h->input);
    shared_text_drop(h->inputs);
    past_forget_progress(s, h);
    held_drop_statements(h);
    free(h->key);
    free(h->updated_at);
    free(h->reason);
    free(h->detail);
    free(h);
}

void held_leave(struct scheduler *s, struct held *h) {
    struct claim_use *use = map_get(&s->claims, h->claim);
    if (use != NULL && --use->tasks == 0) {
        map_remove(&s->claims, h->claim);
        if (s->drop_count == s->drop_capacity) {
            s->drop_capacity = s->drop_capacity == 0 ? 64 : s->drop_capacity * 2;
            s->drops = mem_resize(s->drops, (size_t)s->drop_capacity, sizeof *s->drops);
        }
        s->drops[s->drop_count++] = use->claim;
        free(use);
    }
    h->lost = true;
    held_free_if_lost(s, h);
}

void held_free_if_lost(struct scheduler *s, struct held *h) {
    if (h->lost && !h->in_tick && h->state != HELD_RUNNING && h->state != HELD_IN_EFFECT) {
        held_free(s, h);
    }
}

void held_lose(struct scheduler *s, struct held *h) {
    if (h->lost) {
        return;
    }
    if (h->state == HELD_RUNNING) {
        h->interrupted = true;
        s->workers->interrupt(h->stage->pool, h->run);
    }
    held_leave(s, h);
}
