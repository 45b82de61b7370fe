/* extract.c - the stage `extract`: a file becomes a title and a text.
 *
 * Payload {"path", "escaped"?}, as a file source writes it. Output {"title", "text", "pages",
 * "format", "bytes"} and, when there is something to say, "note"; "pages" is null for formats that
 * have none. What is wrong with a document fails that document for good, with a reason; what is
 * wrong with the machine is tried again.
 */
#include <pgstage/handler.h>
#include <stdlib.h>
#include <string.h>

#include "document.h"
#include "file.h"
#include "pdf.h"
#include "settings.h"

struct extract {
    int64_t max_size, max_text; /* bytes */
};

static pgstage_result extract_init(pgstage_worker *worker, void **state) {
    struct extract *extract = malloc(sizeof *extract);
    if (extract == NULL) {
        return pgstage_worker_fail(worker, "not enough memory");
    }
    *extract = (struct extract){.max_size = INT64_C(200) << 20, .max_text = INT64_C(20) << 20};
    const struct setting table[] = {
        {"max_size", true, 1, INT64_C(2) << 30, &extract->max_size},
        {"max_text", true, 1, INT64_C(60) << 20, &extract->max_text},
        {0},
    };
    char message[200];
    if (!settings_read(pgstage_worker_config(worker), table, message, sizeof message)) {
        free(extract);
        return pgstage_worker_fail(worker, "%s", message);
    }
    pdf_quiet();
    *state = extract;
    return PGSTAGE_OK;
}

static void extract_fini(void *state) {
    free(state);
}

static pgstage_result give_up(pgstage_task *task, enum outcome outcome,
                              const struct reason *reason) {
    return outcome == OUTCOME_LATER ? pgstage_retry(task, "%s", reason->text)
                                    : pgstage_fail(task, "%s", reason->text);
}

static enum outcome find_path(pgstage_task *task, struct text *path, struct reason *reason) {
    const json_t *payload = pgstage_payload_json(task);
    const char *given = json_string_value(json_object_get(payload, "path"));
    if (given == NULL || given[0] == '\0') {
        return because(reason, OUTCOME_BAD, "the payload has no \"path\"");
    }
    text_init(path, strlen(given));
    if (!json_is_true(json_object_get(payload, "escaped"))) {
        text_append(path, given, strlen(given));
    } else if (!file_unescape(given, path)) {
        return because(reason, OUTCOME_BAD,
                       "the payload's \"path\" is not escaped as \"escaped\" says");
    }
    if (path->state == TEXT_NO_MEMORY) {
        return because(reason, OUTCOME_LATER, "not enough memory");
    }
    if (path->data[0] != '/') {
        return because(reason, OUTCOME_BAD, "the payload's \"path\" is not an absolute path");
    }
    return OUTCOME_OK;
}

static bool on_page(void *context, int page, int pages) {
    pgstage_task *task = context;
    if (page > 0 && page % 10 == 0) {
        pgstage_progress(task, (double)page / pages, "page %d of %d", page, pages);
    }
    return !pgstage_cancelled(task);
}

static pgstage_result give(pgstage_task *task, const struct document *document, size_t bytes) {
    json_t *output = json_pack("{s:s%, s:s%, s:o, s:s, s:I}", "title",
                               text_string(&document->title), document->title.length, "text",
                               text_string(&document->text), document->text.length, "pages",
                               document->pages > 0 ? json_integer(document->pages) : json_null(),
                               "format", format_name(document->format), "bytes", (json_int_t)bytes);
    if (output == NULL) {
        return pgstage_retry(task, "not enough memory for the result");
    }
    if (document->note[0] != '\0') {
        json_object_set_new(output, "note", json_string(document->note));
    }
    return pgstage_output(task, output);
}

static pgstage_result extract_run(pgstage_task *task, void *state) {
    const struct extract *extract = state;
    struct text path = {0}, bytes = {0};
    struct document document = {0};
    struct reason reason = {{0}};
    enum outcome outcome = find_path(task, &path, &reason);
    if (outcome == OUTCOME_OK) {
        outcome = file_read(text_string(&path), extract->max_size, &bytes, &reason);
    }
    if (outcome == OUTCOME_OK) {
        struct pdf_watch watch = {.page = on_page, .context = task};
        outcome = document_read(bytes.data, bytes.length, text_string(&path),
                                (size_t)extract->max_text, &watch, &document, &reason);
    }
    pgstage_result result = outcome == OUTCOME_OK ? give(task, &document, bytes.length)
                                                  : give_up(task, outcome, &reason);
    document_finish(&document);
    text_finish(&bytes);
    text_finish(&path);
    return result;
}

PGSTAGE_HANDLER(extract, .run = extract_run, .init = extract_init, .fini = extract_fini);
