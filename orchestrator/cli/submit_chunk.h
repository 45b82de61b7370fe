/* submit_chunk.h - documents gathered for one submit statement, which is one transaction.
 *
 * A chunk ends at 1,000 documents or 4 MB of payload, and never holds a key twice: what comes later is submitted later, so
 * that its stamp decides. Memory stays that of one chunk, however many follow each other.
 */
#ifndef CLI_SUBMIT_CHUNK_H
#define CLI_SUBMIT_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "db/sync.h"

enum { CHUNK_DOCUMENTS = 1000, CHUNK_BYTES = 4 << 20 };

/* Borrowed for the call. NULL: not given. */
struct submit_document {
    int64_t line; /* where it came from */
    const char *key, *payload, *updated_at, *run_at;
    size_t payload_length;
    bool has_priority, has_period;
    bool is_bare; /* says nothing but a period: one that is there already gets that and is not submitted */
    int32_t priority;
    int64_t period_ms; /* 0: none any more */
};

struct chunk_entry {
    int64_t line;
    size_t key, payload, updated_at, run_at; /* where it begins in `text`; 0: not given */
    bool has_priority, has_period, is_bare;
    int32_t priority;
    int64_t period_ms;
};

struct chunk {
    const char *pipeline; /* borrowed */
    bool if_changed, has_periods;
    int count;
    struct chunk_entry entries[CHUNK_DOCUMENTS];
    struct buf text; /* strings of the entries, each with its NUL */
    struct map keys; /* by hash: two keys with one hash count as the same, which only ends a chunk early */
};

struct chunk_outcome {
    int64_t fresh, updated, unchanged;
    int64_t periods; /* got a period and were not submitted */
    int64_t version; /* of the last document; 0: unchanged */
};

void chunk_init(struct chunk *chunk, const char *pipeline, bool if_changed);
void chunk_finish(struct chunk *chunk);
void chunk_clear(struct chunk *chunk);

/* It must be sent before the document is added. */
bool chunk_is_due(const struct chunk *chunk, const struct submit_document *document);
void chunk_add(struct chunk *chunk, const struct submit_document *document);

/* Submits what it holds, adds to the outcome, and clears it when that went well. */
enum status chunk_send(struct chunk *chunk, struct db_sync *db, struct chunk_outcome *outcome,
                       struct error *err) MUST_CHECK;
/* After chunk_send failed for its content: the line of the first document whose payload the database refuses, with the
 * reason in `err`; 0 when it is none of them. */
int64_t chunk_find_refused(const struct chunk *chunk, struct db_sync *db, struct error *err);

#endif
