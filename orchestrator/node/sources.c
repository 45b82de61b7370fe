/* sources.c - file sources: a scan in the thread pool submits what changed, at start and every interval.
 *
 * What was submitted before by this process is remembered (a hash of its time, size and inode per key), so that a scan of
 * unchanged files writes nothing and asks nothing. The database has the last word: a submit with if_changed is a no-op
 * for what it already knows.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "db/array.h"
#include "db/sync.h"
#include "node/private.h"
#include "source/files.h"
#include "sql/statements.h"

enum { SUBMIT_BATCH = 1000 };

struct batch {
    struct source *source;
    struct db_sync *db;
    struct buf keys, payloads, stamps, payload;
    int count;
    struct map_slot pending[SUBMIT_BATCH]; /* to be remembered once submitted */
};

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

static void batch_clear(struct batch *batch) {
    array_begin(&batch->keys);
    array_begin(&batch->payloads);
    array_begin(&batch->stamps);
    batch->count = 0;
}

static enum status batch_send(struct batch *batch, struct error *err) {
    if (batch->count == 0) {
        return STATUS_OK;
    }
    array_end(&batch->keys);
    array_end(&batch->payloads);
    array_end(&batch->stamps);
    struct db_param params[] = {
        DB_TEXT(batch->source->pipeline->def->name), DB_TEXT(batch->keys.data), DB_TEXT(batch->payloads.data),
        DB_TEXT(batch->stamps.data), DB_NULL, DB_NULL, DB_TEXT("true"),
    };
    struct db_result *result = NULL;
    enum status status = sync_run(batch->db, sql_submit.name, sql_submit.text, 7, params, &result, err);
    if (status == STATUS_OK) {
        for (int i = 0; i < db_rows(result); i++) {
            batch->source->accepted += strcmp(db_value(result, i, 1), "unchanged") != 0;
        }
        for (int i = 0; i < batch->count; i++) {
            map_put(&batch->source->seen, batch->pending[i].key, batch->pending[i].value);
        }
        sync_result_free(result);
    }
    batch_clear(batch);
    return status;
}

/* Microseconds since 1970 as PostgreSQL reads them, exactly: no floating point is involved. */
static void add_stamp(struct buf *stamps, int64_t mtime_ns) {
    int64_t us = mtime_ns / 1000 - (mtime_ns % 1000 < 0);
    time_t seconds = (time_t)(us / 1000000 - (us % 1000000 < 0));
    struct tm utc;
    char text[64], date[40];
    if (gmtime_r(&seconds, &utc) == NULL || utc.tm_year < -1899 || utc.tm_year > 7000) {
        seconds = 0;
        us = 0;
        gmtime_r(&seconds, &utc);
    }
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &utc);
    snprintf(text, sizeof text, "%s.%06lld+00", date, (long long)(us - (int64_t)seconds * 1000000));
    array_add_text(stamps, text, strlen(text));
}

static enum status on_entry(void *context, const struct files_entry *entry, struct error *err) {
    struct batch *batch = context;
    struct source *source = batch->source;
    if (__atomic_load_n(&source->stop, __ATOMIC_RELAXED) != 0) {
        return error_set(err, STATUS_AGAIN, "the node is stopping");
    }
    source->entries++;
    int64_t state[3] = {entry->mtime_ns, entry->size_bytes, entry->inode};
    int64_t key = (int64_t)hash_bytes(UINT64_C(14695981039346656037), entry->key, strlen(entry->key));
    void *value = (void *)(uintptr_t)(hash_bytes(UINT64_C(14695981039346656037), state, sizeof state) | 1);
    if (map_get(&source->seen, key) == value) {
        return STATUS_OK;
    }
    buf_clear(&batch->payload);
    files_payload(&batch->payload, entry);
    array_add_text(&batch->keys, entry->key, strlen(entry->key));
    array_add_text(&batch->payloads, batch->payload.data, batch->payload.length);
    add_stamp(&batch->stamps, entry->mtime_ns);
    batch->pending[batch->count++] = (struct map_slot){key, value};
    return batch->count == SUBMIT_BATCH ? batch_send(batch, err) : STATUS_OK;
}

static void scan(uv_work_t *work) {
    struct source *source = work->data;
    const struct source_def *def = &source->pipeline->def->source;
    struct files_source files = {.root = def->path, .match = def->match, .recursive = def->recursive};
    struct batch *batch = mem_alloc(sizeof *batch);
    struct files_result found = {0};
    batch->source = source;
    buf_init(&batch->keys, (size_t)64 << 20);
    buf_init(&batch->payloads, (size_t)64 << 20);
    buf_init(&batch->stamps, (size_t)64 << 20);
    buf_init(&batch->payload, (size_t)1 << 20);
    batch_clear(batch);
    source->status = sync_open(source->node->options.url, "source", &batch->db, &source->error);
    if (source->status == STATUS_OK) {
        source->status = files_scan(&files, on_entry, batch, &found, &source->error);
    }
    if (source->status == STATUS_OK) {
        source->status = batch_send(batch, &source->error);
    }
    source->skipped = found.skipped;
    source->skipped_error = found.first_skipped;
    sync_close(batch->db);
    buf_finish(&batch->keys);
    buf_finish(&batch->payloads);
    buf_finish(&batch->stamps);
    buf_finish(&batch->payload);
    free(batch);
}

static void on_scanned(uv_work_t *work, int cancelled) {
    struct source *source = work->data;
    struct node *node = source->node;
    int64_t now = node_now(node);
    source->scanning = false;
    const char *pipeline = source->pipeline->def->name;
    if (cancelled != 0 || source->status != STATUS_OK) {
        source->retry_ms = source->retry_ms == 0 ? 500 : source->retry_ms * 2;
        source->retry_ms = source->retry_ms > 30000 ? 30000 : source->retry_ms;
        source->next_ms = now + source->retry_ms;
        if (source->status != STATUS_AGAIN) {
            buf_clear(&source->trouble);
            buf_append_format(&source->trouble, "the source cannot be read: %s", source->error.text);
            log_event(LOG_ERROR, "source.failed", "pipeline=%s reason=%s", pipeline, log_text(source->error.text));
        }
        /* A root that does not exist is the user's to mend; nothing more will come of it in this run. */
        source->scanned = source->scanned || source->status == STATUS_NOT_FOUND;
    } else {
        buf_clear(&source->trouble);
        if (source->accepted > 0 || !source->scanned) {
            log_event(LOG_INFO, "source.scanned", "pipeline=%s files=%lld changed=%lld skipped=%lld", pipeline,
                      (long long)source->entries, (long long)source->accepted, (long long)source->skipped);
        }
        if (source->skipped > 0) {
            buf_append_format(&source->trouble, "%lld files of the source are skipped: %s", (long long)source->skipped,
                              source->skipped_error.text);
            log_event(LOG_WARN, "source.skipped", "pipeline=%s files=%lld reason=%s", pipeline,
                      (long long)source->skipped, log_text(source->skipped_error.text));
        }
        source->scanned = true;
        source->retry_ms = 0;
        source->next_ms = source->again ? now : now + source->pipeline->def->source.every_ms;
        source->again = false;
        if (source->accepted > 0) {
            scheduler_woken(node->scheduler);
        }
    }
    node_changed(node);
}

void sources_create(struct node *node) {
    node->sources = mem_alloc(sizeof *node->sources * (size_t)(node->options.pipeline_count + 1));
    for (int i = 0; i < node->options.pipeline_count; i++) {
        const struct node_pipeline *pipeline = &node->options.pipelines[i];
        bool here = pipeline->elsewhere == NULL || !pipeline->elsewhere[0];
        /* The folder is there where the first stage is served. */
        if (pipeline->def->source.present && here) {
            struct source *source = &node->sources[node->source_count++];
            source->node = node;
            source->pipeline = pipeline;
            source->asked = -1;
            source->work.data = source;
            buf_init(&source->trouble, 2 * (size_t)ERROR_TEXT_MAX);
        }
    }
}

void sources_turn(struct node *node, int64_t now, int64_t *next_ms) {
    for (int i = 0; i < node->source_count && node->state == NODE_UP && lease_is_held(node); i++) {
        struct source *source = &node->sources[i];
        if (!source->scanning && now >= source->next_ms) {
            source->entries = source->accepted = source->skipped = 0;
            source->error = ERROR_NONE;
            source->scanning = uv_queue_work(node->loop, &source->work, scan, on_scanned) == 0;
        }
        if (!source->scanning) {
            sooner(next_ms, source->next_ms);
        }
    }
}

static bool has_stage(const struct node_pipeline *pipeline, int stage) {
    for (int i = 0; i < pipeline->def->stage_count; i++) {
        if (pipeline->stage_ids[i] == stage) {
            return true;
        }
    }
    return false;
}

void sources_asked(struct node *node, int stage, int64_t tick) {
    for (int i = 0; i < node->source_count; i++) {
        struct source *source = &node->sources[i];
        if (!has_stage(source->pipeline, stage) || source->asked == tick) {
            continue;
        }
        if (source->asked >= 0 && source->scanning) {
            source->again = true;
        } else if (source->asked >= 0) {
            source->next_ms = 0;
        } /* else it is as old as this node's first scan */
        source->asked = tick;
    }
}

bool sources_scanned(const struct node *node) {
    for (int i = 0; i < node->source_count; i++) {
        if (!node->sources[i].scanned || node->sources[i].scanning) {
            return false;
        }
    }
    return true;
}

bool sources_stop(struct node *node) {
    bool stopped = true;
    for (int i = 0; i < node->source_count; i++) {
        __atomic_store_n(&node->sources[i].stop, 1, __ATOMIC_RELAXED);
        stopped = stopped && !node->sources[i].scanning;
    }
    return stopped;
}

void sources_destroy(struct node *node) {
    for (int i = 0; i < node->source_count; i++) {
        map_finish(&node->sources[i].seen);
        buf_finish(&node->sources[i].trouble);
    }
    free(node->sources);
}
