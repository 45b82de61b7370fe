#include "chunk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pgstage_document chunk_document(const struct documents *documents, size_t index) {
    struct pgstage_document document = {0};
    size_t size = documents->size < sizeof document ? documents->size : sizeof document;
    memcpy(&document, documents->first + index * documents->size, size);
    return document;
}

/* ---- which documents ---- */

/* FNV-1a (Fowler, Noll, Vo). False when the key is there already. */
static bool add_key(struct chunk *chunk, const char *key) {
    const size_t slots = sizeof chunk->keys / sizeof *chunk->keys;
    uint64_t hash = 14695981039346656037U;
    for (const char *at = key; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * 1099511628211U;
    }
    size_t slot = (size_t)(hash % slots);
    while (chunk->keys[slot] != NULL) {
        if (strcmp(chunk->keys[slot], key) == 0) {
            return false;
        }
        slot = (slot + 1) % slots;
    }
    chunk->keys[slot] = key;
    return true;
}

static size_t bytes_of(const char *text) {
    return text == NULL ? 0 : strlen(text);
}

size_t chunk_measure(struct chunk *chunk, const struct documents *documents, size_t first) {
    size_t count = 0, bytes = 0;
    memset(chunk->keys, 0, sizeof chunk->keys);
    while (count < PGSTAGE_CHUNK_DOCUMENTS && first + count < documents->count) {
        struct pgstage_document document = chunk_document(documents, first + count);
        bytes += bytes_of(document.key) + bytes_of(document.payload);
        if (count > 0 && bytes > PGSTAGE_CHUNK_BYTES) {
            break;
        }
        if (document.key != NULL && !add_key(chunk, document.key)) {
            break;
        }
        count++;
    }
    return count;
}

/* ---- array literals ---- */

/* Room for `more` bytes and a NUL. */
static bool reserve(struct chunk_text *text, size_t more) {
    if (text->length + more + 1 > text->size) {
        size_t size = 2 * (text->length + more + 1);
        char *data = text->failed ? NULL : realloc(text->data, size);
        if (data == NULL) {
            text->failed = true;
            return false;
        }
        text->data = data;
        text->size = size;
    }
    return true;
}

static void add_char(struct chunk_text *text, char byte) {
    if (reserve(text, 1)) {
        text->data[text->length++] = byte;
        text->data[text->length] = '\0';
    }
}

/* An element, quoted; NULL: SQL NULL. */
static void add_element(struct chunk_text *text, const char *value) {
    if (text->length > 1) {
        add_char(text, ',');
    }
    if (value == NULL) {
        value = "NULL";
        for (; *value != '\0'; value++) {
            add_char(text, *value);
        }
        return;
    }
    if (!reserve(text, 2 * strlen(value) + 2)) {
        return;
    }
    char *at = text->data + text->length;
    *at++ = '"';
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\') {
            *at++ = '\\';
        }
        *at++ = *value;
    }
    *at++ = '"';
    *at = '\0';
    text->length = (size_t)(at - text->data);
}

static void add_document(struct chunk *chunk, const struct pgstage_document *document) {
    char priority[16];
    snprintf(priority, sizeof priority, "%d", document->priority);
    add_element(&chunk->arrays[CHUNK_KEYS], document->key);
    add_element(&chunk->arrays[CHUNK_PAYLOADS], document->payload);
    add_element(&chunk->arrays[CHUNK_STAMPS], document->updated_at);
    add_element(&chunk->arrays[CHUNK_PRIORITIES], document->has_priority ? priority : NULL);
    add_element(&chunk->arrays[CHUNK_RUN_ATS], document->run_at);
}

bool chunk_fill(struct chunk *chunk, const struct documents *documents, size_t first, size_t count) {
    for (int i = 0; i < CHUNK_ARRAYS; i++) {
        chunk->arrays[i].length = 0;
        add_char(&chunk->arrays[i], '{');
    }
    for (size_t i = first; i < first + count; i++) {
        struct pgstage_document document = chunk_document(documents, i);
        add_document(chunk, &document);
    }
    bool failed = false;
    for (int i = 0; i < CHUNK_ARRAYS; i++) {
        add_char(&chunk->arrays[i], '}');
        failed = failed || chunk->arrays[i].failed;
    }
    return !failed;
}

void chunk_finish(struct chunk *chunk) {
    for (int i = 0; i < CHUNK_ARRAYS; i++) {
        free(chunk->arrays[i].data);
    }
}
