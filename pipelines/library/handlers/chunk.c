/* chunk.c - the stage `chunk`: a text becomes pieces of a size that search and models like.
 *
 * Input: what `extract` gave. Output: the same with "chunks": [{"ordinal", "text"}] in place of
 * "text".
 */
#include <pgstage/handler.h>
#include <stdlib.h>
#include <string.h>

#include "chunker.h"
#include "settings.h"

struct chunk {
    int64_t size, overlap; /* characters */
};

static pgstage_result chunk_init(pgstage_worker *worker, void **state) {
    struct chunk *chunk = malloc(sizeof *chunk);
    if (chunk == NULL) {
        return pgstage_worker_fail(worker, "not enough memory");
    }
    *chunk = (struct chunk){.size = CHUNK_SIZE_DEFAULT};
    const struct setting table[] = {
        {"size", false, CHUNK_SIZE_MIN, CHUNK_SIZE_MAX, &chunk->size},
        {"overlap", false, 0, CHUNK_SIZE_MAX / 2, &chunk->overlap},
        {0},
    };
    char message[200];
    bool read = settings_read(pgstage_worker_config(worker), table, message, sizeof message);
    if (read && chunk->overlap > chunk->size / 2) {
        snprintf(message, sizeof message, "with: overlap must not be more than half of size");
        read = false;
    }
    if (!read) {
        free(chunk);
        return pgstage_worker_fail(worker, "%s", message);
    }
    *state = chunk;
    return PGSTAGE_OK;
}

static void chunk_fini(void *state) {
    free(state);
}

/* NULL: out of memory, or the text is not UTF-8, which JSON text always is. */
static json_t *make_chunks(const char *text, size_t length, const struct chunk *chunk) {
    json_t *chunks = json_array();
    struct chunker chunker;
    chunker_init(&chunker, text, length, (size_t)chunk->size, (size_t)chunk->overlap);
    const char *piece;
    size_t piece_length;
    for (json_int_t ordinal = 0; chunker_next(&chunker, &piece, &piece_length); ordinal++) {
        json_t *item = json_pack("{s:I, s:s%}", "ordinal", ordinal, "text", piece, piece_length);
        if (item == NULL || json_array_append_new(chunks, item) != 0) {
            json_decref(chunks);
            return NULL;
        }
    }
    return chunks;
}

static pgstage_result chunk_run(pgstage_task *task, void *state) {
    const json_t *input = pgstage_input_json(task);
    const json_t *text = json_object_get(input, "text");
    if (!json_is_string(text)) {
        return pgstage_fail(task, "the input has no \"text\"");
    }
    json_t *chunks = make_chunks(json_string_value(text), json_string_length(text), state);
    json_t *output = json_object();
    if (chunks == NULL || output == NULL) {
        json_decref(chunks);
        json_decref(output);
        return pgstage_retry(task, "not enough memory for the chunks");
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)input, key, value) {
        if (strcmp(key, "text") != 0) {
            json_object_set(output, key, value);
        }
    }
    json_object_set_new(output, "chunks", chunks);
    return pgstage_output(task, output);
}

PGSTAGE_HANDLER(chunk, .run = chunk_run, .init = chunk_init, .fini = chunk_fini);
