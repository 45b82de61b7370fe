/* chunk.h - a run of documents as the array parameters of one statement. Private to the client.
 *
 * A chunk ends before it grows too large, and before a key that it has already: a set may not have one twice.
 */
#ifndef CLIENT_CHUNK_H
#define CLIENT_CHUNK_H

#include "pgstage/client.h"

enum { CHUNK_KEYS, CHUNK_PAYLOADS, CHUNK_STAMPS, CHUNK_PRIORITIES, CHUNK_RUN_ATS, CHUNK_ARRAYS };

/* A growing string; `failed`: there was no memory for all of it. */
struct chunk_text {
    char *data;
    size_t length, size;
    bool failed;
};

struct chunk {
    struct chunk_text arrays[CHUNK_ARRAYS];
    const char *keys[2 * PGSTAGE_CHUNK_DOCUMENTS]; /* by hash */
};

/* The documents of a call, as large as its caller's header says. */
struct documents {
    const char *first;
    size_t size, count;
};

struct pgstage_document chunk_document(const struct documents *documents, size_t index);
/* How many documents from `first` on make the next chunk. */
size_t chunk_measure(struct chunk *chunk, const struct documents *documents, size_t first);
/* Fills the arrays; false: no memory. */
bool chunk_fill(struct chunk *chunk, const struct documents *documents, size_t first, size_t count);
void chunk_finish(struct chunk *chunk);

#endif
