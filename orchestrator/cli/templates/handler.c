/* handler.c - the stage `words`: counts the words of a text, and finds the longest one. */
#include <ctype.h>
#include <pgstage/handler.h>
#include <stdlib.h>
#include <string.h>

/* What `with:` says; one a worker process. */
struct settings {
    size_t min_length;
};

static pgstage_result words_init(pgstage_worker *worker, void **state) {
    const json_t *min_length = json_object_get(pgstage_worker_config(worker), "min_length");
    if (min_length != NULL && (!json_is_integer(min_length) || json_integer_value(min_length) < 1)) {
        return pgstage_worker_fail(worker, "with: min_length is to be a whole number from 1 on");
    }
    struct settings *settings = calloc(1, sizeof *settings);
    if (settings == NULL) {
        return pgstage_worker_fail(worker, "out of memory");
    }
    settings->min_length = min_length == NULL ? 1 : (size_t)json_integer_value(min_length);
    *state = settings;
    return PGSTAGE_OK;
}

static void words_fini(void *state) {
    free(state);
}

/* The next word at or behind `text`, and its length; NULL: there is none. */
static const char *next_word(const char *text, size_t *length) {
    while (*text != '\0' && isspace((unsigned char)*text)) {
        text++;
    }
    const char *end = text;
    while (*end != '\0' && !isspace((unsigned char)*end)) {
        end++;
    }
    *length = (size_t)(end - text);
    return *length > 0 ? text : NULL;
}

/* One document. It may run more than once for the same one (a crash, a restart): so it only computes, and leaves storing
 * to pgstage, which keeps the output together with the task's step forward. */
static pgstage_result words_run(pgstage_task *task, void *state) {
    const struct settings *settings = state;
    const json_t *payload = pgstage_payload_json(task);
    if (payload == NULL) {
        return PGSTAGE_RETRY; /* no memory; pgstage_payload_json has kept the reason */
    }
    const char *text = json_string_value(json_object_get(payload, "text"));
    if (text == NULL) {
        return pgstage_fail(task, "the payload has no \"text\"");
    }
    json_int_t count = 0;
    const char *longest = "";
    size_t longest_length = 0, length;
    for (const char *word; (word = next_word(text, &length)) != NULL; text = word + length) {
        if (pgstage_cancelled(task)) {
            return pgstage_retry(task, "cancelled");
        }
        count += length >= settings->min_length;
        if (length > longest_length) {
            longest = word;
            longest_length = length;
        }
    }
    return pgstage_output(task, json_pack("{s:I, s:s%}", "words", count, "longest", longest, longest_length));
}

PGSTAGE_HANDLER(words, .run = words_run, .init = words_init, .fini = words_fini);
