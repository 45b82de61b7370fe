/* fake_store.c - the fake store's tables, and what people do to them. */
#include "fake_store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/require.h"
#include "fake_client.h"
#include "fake_store_private.h"

int64_t store_now(const struct fake_store *store) {
    return store->time->now_ms;
}

void store_broken(const struct fake_store *store, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    store->hooks.broken(store->hooks.context, text);
}

int64_t store_draw(struct fake_store *store, int64_t most) {
    return most <= 0 ? 0 : (int64_t)random_below(&store->random, (uint64_t)most + 1);
}

struct fake_row *store_row_by_id(const struct fake_store *store, int64_t id) {
    REQUIRE(id >= 1 && id <= store->row_count);
    return store->rows[id - 1];
}

const struct fake_revision *store_order(const struct fake_store *store, int pipeline, int revision) {
    for (int i = 0; i < store->pipeline_count; i++) {
        const struct fake_pipeline *p = &store->pipelines[i];
        if (p->id == pipeline) {
            REQUIRE(revision <= p->revision);
            return &p->revisions[(revision == 0 ? p->revision : revision) - 1];
        }
    }
    REQUIRE(!"a pipeline that was not defined");
    return NULL;
}

bool store_is_locked(const struct fake_store *store, const struct fake_row *row) {
    return row->locked_until_ms > store_now(store);
}

struct fake_node *store_node(const struct fake_store *store, int64_t id) {
    for (int i = 0; i < store->node_count; i++) {
        if (store->nodes[i].id == id) {
            return &store->nodes[i];
        }
    }
    return NULL;
}

struct fake_store *fake_store_create(struct fake_time *time, uint64_t seed, const struct fake_store_hooks *hooks) {
    struct fake_store *store = mem_alloc(sizeof *store);
    store->time = time;
    store->random = random_from_seed(&store->seeded, seed);
    store->hooks = *hooks;
    list_init(&store->batches);
    list_init(&store->clients);
    list_init(&store->ghosts);
    return store;
}

void fake_store_destroy(struct fake_store *store) {
    REQUIRE(list_is_empty(&store->clients));
    LIST_EACH_SAFE(link, after, &store->batches) {
        sql_remove_batch(LIST_ENTRY(link, struct fake_batch, link));
    }
    client_forget_ghosts(store);
    for (int i = 0; i < store->row_count; i++) {
        for (int k = 0; k < FAKE_STAGES_MAX; k++) {
            free(store->rows[i]->outputs[k].value);
        }
        free(store->rows[i]);
    }
    free(store->rows);
    free(store->nodes);
    free(store);
}

int fake_store_define(struct fake_store *store, int pipeline, int stage_count, const int *stages) {
    struct fake_pipeline *p = NULL;
    for (int i = 0; i < store->pipeline_count && p == NULL; i++) {
        p = store->pipelines[i].id == pipeline ? &store->pipelines[i] : NULL;
    }
    if (p == NULL) {
        REQUIRE(store->pipeline_count < FAKE_PIPELINES_MAX);
        p = &store->pipelines[store->pipeline_count++];
        p->id = pipeline;
    }
    REQUIRE(p->revision < FAKE_REVISIONS_MAX && stage_count <= FAKE_STAGES_MAX);
    struct fake_revision *revision = &p->revisions[p->revision++];
    revision->count = stage_count;
    memcpy(revision->stages, stages, sizeof *stages * (size_t)stage_count);
    return p->revision;
}

/* ---- what people do ---------------------------------------------------------------------------------------------- */

void store_wake(struct fake_store *store, int stage) {
    if (store->muted || store->busy_until_ms[stage] >= store_now(store)) {
        return;
    }
    LIST_EACH(link, &store->clients) {
        client_notify(LIST_ENTRY(link, struct fake_client, link));
    }
}

static struct fake_row *add_row(struct fake_store *store, int pipeline, const char *key) {
    struct fake_row *row = mem_alloc(sizeof *row);
    if (store->row_count == store->row_capacity) {
        store->row_capacity = store->row_capacity == 0 ? 16 : store->row_capacity * 2;
        store->rows = mem_resize(store->rows, (size_t)store->row_capacity, sizeof *store->rows);
    }
    store->rows[store->row_count++] = row;
    row->id = store->row_count;
    row->pipeline = pipeline;
    snprintf(row->key, sizeof row->key, "%s", key);
    return row;
}

struct fake_row *fake_store_submit(struct fake_store *store, int pipeline, const char *key) {
    struct fake_row *row = fake_store_find(store, key);
    bool running = row != NULL && row->status == FAKE_RUNNING;
    row = row == NULL ? add_row(store, pipeline, key) : row;
    row->version++;
    snprintf(row->payload, sizeof row->payload, "{\"v\":%lld}", (long long)row->version);
    row->wish = false;
    if (!running) {
        row->status = FAKE_READY;
        row->stage = store_order(store, pipeline, 0)->stages[0];
        row->ready_at_ms = store_now(store);
        row->attempt = row->crashes = row->rescues = 0;
        store_wake(store, row->stage);
    }
    return row;
}

void fake_store_cancel(struct fake_store *store, struct fake_row *row) {
    (void)store;
    switch (row->status) {
    case FAKE_RUNNING:
        row->wish = true;
        return;
    case FAKE_READY:
    case FAKE_DELAYED:
    case FAKE_FAILED:
        row->status = FAKE_CANCELLED;
        return;
    case FAKE_DONE:
    case FAKE_CANCELLED:
        return;
    }
}

void fake_store_retry(struct fake_store *store, struct fake_row *row) {
    if (row->status != FAKE_FAILED && row->status != FAKE_DELAYED) {
        return;
    }
    row->attempt = row->status == FAKE_FAILED ? 0 : row->attempt;
    row->crashes = row->rescues = 0;
    row->status = FAKE_READY;
    row->ready_at_ms = store_now(store);
    store_wake(store, row->stage);
}

void fake_store_pause(struct fake_store *store, int stage, bool paused) {
    REQUIRE(stage < FAKE_PAUSES_MAX);
    store->paused[stage] = paused;
}

void fake_store_limit(struct fake_store *store, int stage, int max_running) {
    store->max_running[stage] = max_running;
}

const struct fake_stats *fake_store_stats(const struct fake_store *store) {
    return &store->stats;
}

void fake_store_mute(struct fake_store *store, bool muted) {
    store->muted = muted;
}

void fake_store_lock(struct fake_store *store, struct fake_row *row, int64_t for_ms) {
    row->locked_until_ms = store_now(store) + for_ms;
}

/* ---- looks ------------------------------------------------------------------------------------------------------- */

int fake_store_row_count(const struct fake_store *store) {
    return store->row_count;
}

struct fake_row *fake_store_row(const struct fake_store *store, int index) {
    return store->rows[index];
}

struct fake_row *fake_store_find(const struct fake_store *store, const char *key) {
    for (int i = 0; i < store->row_count; i++) {
        if (strcmp(store->rows[i]->key, key) == 0) {
            return store->rows[i];
        }
    }
    return NULL;
}

const struct fake_output *fake_row_output(const struct fake_row *row, int stage) {
    for (int i = 0; i < FAKE_STAGES_MAX; i++) {
        if (row->outputs[i].stage == stage && row->outputs[i].version != 0) {
            return &row->outputs[i];
        }
    }
    return NULL;
}

int fake_store_batch_count(const struct fake_store *store) {
    int count = 0;
    LIST_EACH(link, &store->batches) {
        count++;
    }
    return count;
}

int fake_store_ghost_count(const struct fake_store *store) {
    return store->ghost_count;
}

const char *fake_status_name(enum fake_status status) {
    static const char *const names[] = {
        [FAKE_READY] = "ready", [FAKE_RUNNING] = "running", [FAKE_DELAYED] = "delayed",
        [FAKE_DONE] = "done",   [FAKE_FAILED] = "failed",   [FAKE_CANCELLED] = "cancelled",
    };
    return names[status];
}

bool fake_store_node_is_dead(const struct fake_store *store, int64_t node) {
    const struct fake_node *known = store_node(store, node);
    return known == NULL || known->dead;
}
