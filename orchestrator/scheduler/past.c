/* past.c - what earlier stages returned, for tasks that are held already, and how far the runs of a stage have come.
 *
 * Progress goes to the store with a tick: a second after it was said at the latest, so once a second a run at most, and at
 * once when the claim ends without the stage. Of a stage that ended well it is forgotten.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "scheduler/state.h"

/* ---- progress --------------------------------------------------------------------------------------------------- */

static void set_fresh(struct scheduler *s, struct held *h, bool fresh) {
    s->fresh_progress += (int)fresh - (int)h->progress.fresh;
    h->progress.fresh = fresh;
}

void past_say(struct scheduler *s, struct held *h, double fraction, const char *text, int64_t now) {
    struct held_progress *progress = &h->progress;
    char *copy = mem_copy_string(text == NULL ? "" : text);
    free(progress->text);
    progress->text = copy;
    progress->fraction = fraction;
    progress->known = true;
    progress->said++;
    if (!progress->fresh) {
        set_fresh(s, h, true);
        progress->due_ms = now + PROGRESS_EVERY_MS;
        s->options.changed(s->options.context);
    }
}

void past_take(struct held *h, const struct store_task *row) {
    h->has_progress_row = row->has_progress_row;
    h->progress.known = row->has_progress;
    h->progress.fraction = row->progress;
    h->progress.text = row->has_progress ? mem_copy_string(row->progress_text) : NULL;
}

void past_forget_progress(struct scheduler *s, struct held *h) {
    set_fresh(s, h, false);
    free(h->progress.text);
    h->progress = (struct held_progress){.said = h->progress.said};
}

/* While an effect is under way its transaction may end the stage well. */
static bool is_due(const struct held *h, int64_t now) {
    if (!h->progress.fresh || h->lost) {
        return false;
    }
    return h->state == HELD_RUNNING || h->state == HELD_QUEUED ? now >= h->progress.due_ms
                                                               : h->state == HELD_ENDED && h->in_tick;
}

static void gather_progress(struct scheduler *s, int64_t now, struct store_tick *tick) {
    s->tick_progress_count = 0;
    if (s->fresh_progress == 0) {
        return;
    }
    size_t most = (size_t)s->fresh_progress;
    struct store_progress *progress = arena_alloc(&s->tick_arena, sizeof *progress * most);
    s->tick_progress = arena_alloc(&s->tick_arena, sizeof *s->tick_progress * most);
    LIST_EACH(node, &s->all) {
        struct held *h = LIST_ENTRY(node, struct held, all);
        if (!is_due(h, now)) {
            continue;
        }
        h->has_progress_row = true;
        s->tick_progress[s->tick_progress_count] = (struct sent_progress){h->task, h->claim, h->progress.said};
        progress[s->tick_progress_count++] = (struct store_progress){
            .task = h->task,
            .claim = h->claim,
            .stage = h->stage->spec->id,
            .fraction = h->progress.fraction,
            .text = arena_copy_string(&s->tick_arena, h->progress.text),
        };
    }
    tick->progress = progress;
    tick->progress_count = s->tick_progress_count;
}

static struct held *find(const struct scheduler *s, int64_t task, int64_t claim) {
    struct held *h = map_get(&s->by_task, task);
    return h == NULL || h->lost || h->claim != claim ? NULL : h;
}

static void answer_progress(struct scheduler *s, const bool *kept, int64_t now) {
    for (int i = 0; i < s->tick_progress_count; i++) {
        const struct sent_progress *sent = &s->tick_progress[i];
        struct held *h = find(s, sent->task, sent->claim);
        if (h == NULL || !h->progress.fresh) {
            continue;
        }
        h->progress.due_ms = now + PROGRESS_EVERY_MS;
        if (kept[i] && h->progress.said == sent->said) {
            set_fresh(s, h, false);
        }
    }
}

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

bool past_lacks_inputs(const struct held *h) {
    return h->stage->spec->inputs.count > 0 && h->inputs == NULL;
}

/* A task that came here under its claim, as one that is to be finished does: the claim that fetches inputs was for another
 * stage. Fetched when all its transitions are stored. */
static void gather_fetches(struct scheduler *s, struct store_tick *tick) {
    s->tick_fetch_count = 0;
    int most = 0;
    for (int i = 0; i < s->stage_count; i++) {
        most += s->stages[i].spec->inputs.count > 0 ? s->stages[i].queued : 0;
    }
    if (most == 0) {
        return;
    }
    struct store_fetch *fetches = arena_alloc(&s->tick_arena, sizeof *fetches * (size_t)most);
    s->tick_fetches = arena_alloc(&s->tick_arena, sizeof *s->tick_fetches * (size_t)most);
    for (int i = 0; i < s->stage_count; i++) {
        const struct stage *stage = &s->stages[i];
        LIST_EACH(node, &stage->queue) {
            const struct held *h = LIST_ENTRY(node, struct held, link);
            if (!past_lacks_inputs(h) || h->lost || h->in_tick || h->count > 0) {
                continue;
            }
            s->tick_fetches[s->tick_fetch_count] = (struct sent_fetch){h->task, h->claim};
            fetches[s->tick_fetch_count++] = (struct store_fetch){h->task, h->claim, &stage->spec->inputs};
        }
    }
    tick->fetches = fetches;
    tick->fetch_count = s->tick_fetch_count;
}

static void answer_fetches(struct scheduler *s, const struct store_text *fetched, int64_t now) {
    for (int i = 0; i < s->tick_fetch_count; i++) {
        const struct sent_fetch *sent = &s->tick_fetches[i];
        struct held *h = find(s, sent->task, sent->claim);
        if (h == NULL || h->state != HELD_QUEUED) {
            continue;
        }
        if (fetched[i].data == NULL) {
            held_lose(s, h);
            tick_doubt(s, now);
        } else {
            h->inputs = shared_text_new(fetched[i].data, fetched[i].length);
        }
    }
}

/* ---- with the tick ----------------------------------------------------------------------------------------------- */

void past_gather(struct scheduler *s, int64_t now, struct store_tick *tick) {
    gather_progress(s, now, tick);
    gather_fetches(s, tick);
}

void past_answered(struct scheduler *s, const struct store_tick_answer *answer, int64_t now) {
    if (answer->code == STATUS_OK) {
        answer_progress(s, answer->kept, now);
        answer_fetches(s, answer->fetched, now);
    }
    s->tick_progress_count = s->tick_fetch_count = 0;
}

void past_next(const struct scheduler *s, int64_t *next_ms) {
    if (s->fresh_progress == 0) {
        return;
    }
    LIST_EACH(node, &s->all) {
        const struct held *h = LIST_ENTRY(node, struct held, all);
        if (h->progress.fresh && !h->lost && (h->state == HELD_RUNNING || h->state == HELD_QUEUED)) {
            sooner(next_ms, h->progress.due_ms);
        }
    }
}
