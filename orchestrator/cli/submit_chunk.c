#include "cli/submit_chunk.h"

#include <stdio.h>
#include <string.h>

#include "base/require.h"
#include "db/array.h"
#include "sql/statements.h"

enum { TRIES = 5 };
enum { OUTCOME_ORDINAL, OUTCOME_WHAT, OUTCOME_TASK, OUTCOME_VERSION };

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
static int64_t hash_of(const char *key) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *key != '\0'; key++) {
        hash = (hash ^ (unsigned char)*key) * UINT64_C(1099511628211);
    }
    return (int64_t)hash;
}

void chunk_init(struct chunk *chunk, const char *pipeline, bool if_changed) {
    *chunk = (struct chunk){.pipeline = pipeline, .if_changed = if_changed};
    buf_init(&chunk->text, SIZE_MAX);
    chunk_clear(chunk);
}

void chunk_finish(struct chunk *chunk) {
    buf_finish(&chunk->text);
    map_finish(&chunk->keys);
}

void chunk_clear(struct chunk *chunk) {
    chunk->count = 0;
    chunk->has_periods = false;
    buf_clear(&chunk->text);
    buf_append_char(&chunk->text, '\0'); /* no string begins at 0 */
    map_finish(&chunk->keys);
    chunk->keys = (struct map){0};
}

bool chunk_is_due(const struct chunk *chunk, const struct submit_document *document) {
    return chunk->count == CHUNK_DOCUMENTS ||
           (chunk->count > 0 && chunk->text.length + document->payload_length > CHUNK_BYTES) ||
           map_get(&chunk->keys, hash_of(document->key)) != NULL;
}

static size_t keep(struct chunk *chunk, const char *text, size_t length) {
    if (text == NULL) {
        return 0;
    }
    size_t at = chunk->text.length;
    buf_append(&chunk->text, text, length);
    buf_append_char(&chunk->text, '\0');
    return at;
}

static size_t keep_string(struct chunk *chunk, const char *text) {
    return keep(chunk, text, text == NULL ? 0 : strlen(text));
}

void chunk_add(struct chunk *chunk, const struct submit_document *document) {
    REQUIRE(chunk->count < CHUNK_DOCUMENTS);
    map_put(&chunk->keys, hash_of(document->key), chunk);
    chunk->entries[chunk->count++] = (struct chunk_entry){
        .line = document->line,
        .key = keep_string(chunk, document->key),
        .payload = keep(chunk, document->payload, document->payload_length),
        .updated_at = keep_string(chunk, document->updated_at),
        .run_at = keep_string(chunk, document->run_at),
        .has_priority = document->has_priority,
        .priority = document->priority,
        .has_period = document->has_period,
        .is_bare = document->is_bare,
        .period_ms = document->period_ms,
    };
    chunk->has_periods = chunk->has_periods || document->has_period;
}

enum { KEYS, PAYLOADS, STAMPS, PRIORITIES, RUN_ATS, PERIODS, BARE, ARRAYS };

static void add_string(struct buf *array, const struct chunk *chunk, size_t at) {
    const char *text = at == 0 ? NULL : chunk->text.data + at;
    array_add_text(array, text, text == NULL ? 0 : strlen(text));
}

static void add_number(struct buf *array, bool given, int64_t value) {
    if (given) {
        array_add_int(array, value);
    } else {
        array_add_null(array);
    }
}

static void build_arrays(const struct chunk *chunk, struct buf arrays[ARRAYS]) {
    for (int i = 0; i < ARRAYS; i++) {
        buf_init(&arrays[i], SIZE_MAX);
        array_begin(&arrays[i]);
    }
    for (int i = 0; i < chunk->count; i++) {
        const struct chunk_entry *entry = &chunk->entries[i];
        add_string(&arrays[KEYS], chunk, entry->key);
        add_string(&arrays[PAYLOADS], chunk, entry->payload);
        add_string(&arrays[STAMPS], chunk, entry->updated_at);
        add_string(&arrays[RUN_ATS], chunk, entry->run_at);
        add_number(&arrays[PRIORITIES], entry->has_priority, entry->priority);
        add_number(&arrays[PERIODS], entry->has_period, entry->period_ms);
        array_add_bool(&arrays[BARE], entry->is_bare);
    }
    for (int i = 0; i < ARRAYS; i++) {
        array_end(&arrays[i]);
    }
}

static void add_outcome(const struct db_result *result, struct chunk_outcome *outcome) {
    for (int row = 0; row < db_rows(result); row++) {
        const char *what = db_value(result, row, OUTCOME_WHAT);
        outcome->fresh += strcmp(what, "new") == 0;
        outcome->updated += strcmp(what, "updated") == 0;
        outcome->unchanged += strcmp(what, "unchanged") == 0;
        outcome->periods += strcmp(what, "period") == 0;
        outcome->version = db_int64(result, row, OUTCOME_VERSION);
    }
}

enum status chunk_send(struct chunk *chunk, struct db_sync *db, struct chunk_outcome *outcome, struct error *err) {
    if (chunk->count == 0) {
        return STATUS_OK;
    }
    struct buf arrays[ARRAYS];
    build_arrays(chunk, arrays);
    struct db_param params[] = {
        DB_TEXT(chunk->pipeline),
        DB_TEXT(arrays[KEYS].data),
        DB_TEXT(arrays[PAYLOADS].data),
        DB_TEXT(arrays[STAMPS].data),
        DB_TEXT(arrays[PRIORITIES].data),
        DB_TEXT(arrays[RUN_ATS].data),
        DB_TEXT(chunk->if_changed ? "true" : "false"),
        DB_TEXT(arrays[PERIODS].data),
        DB_TEXT(arrays[BARE].data),
    };
    const struct sql_statement *statement = chunk->has_periods ? &sql_submit_every : &sql_submit;
    /* A deadlock with somebody else's transaction: nothing was done, it is sent again. */
    enum status status = STATUS_CONFLICT;
    for (int i = 0; i < TRIES && status == STATUS_CONFLICT; i++) {
        struct db_result *result = NULL;
        error_clear(err);
        status = sync_run(db, statement->name, statement->text, chunk->has_periods ? 9 : 7, params, &result, err);
        if (status == STATUS_OK) {
            add_outcome(result, outcome);
            sync_result_free(result);
        }
    }
    for (int i = 0; i < ARRAYS; i++) {
        buf_finish(&arrays[i]);
    }
    if (status == STATUS_OK) {
        chunk_clear(chunk);
    }
    return status;
}

int64_t chunk_find_refused(const struct chunk *chunk, struct db_sync *db, struct error *err) {
    for (int i = 0; i < chunk->count; i++) {
        if (chunk->entries[i].payload == 0) {
            continue;
        }
        struct db_param params[] = {DB_TEXT(chunk->text.data + chunk->entries[i].payload)};
        error_clear(err);
        enum status status = sync_run(db, sql_check_payload.name, sql_check_payload.text, 1, params, NULL, err);
        if (status != STATUS_OK) {
            return status == STATUS_INVALID ? chunk->entries[i].line : 0;
        }
    }
    return 0;
}
