/* notes.c - what a node tells status of itself: the stages that it runs, and what is wrong with them and with its sources.
 * Written under each identity once, and again when it has changed.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "node/private.h"

enum { LOOK_EVERY_MS = 1000, TEXT_MAX = 2000 };

static int revision_of(const struct node *node, const char *pipeline) {
    int count = node->options.pipeline_count, i = 0;
    while (i < count && strcmp(node->options.pipelines[i].def->name, pipeline) != 0) {
        i++;
    }
    return i < count ? node->options.pipelines[i].revision : 0;
}

/* Reasons hold what handlers and file systems said: made storable. NULL: nothing is wrong. */
static void add_note(const struct node *node, json_t *notes, const char *pipeline, const char *stage,
                     const char *before, const char *reason) {
    json_t *note = json_pack("{s:s?, s:s?}", "pipeline", pipeline, "stage", stage);
    if (stage != NULL) {
        json_object_set_new(note, "revision", json_integer(revision_of(node, pipeline)));
    }
    if (reason != NULL) {
        struct buf text;
        buf_init(&text, TEXT_MAX + 64);
        buf_append_string(&text, before);
        utf8_sanitize(&text, reason, strlen(reason), TEXT_MAX);
        json_object_set_new(note, "text", json_stringn(text.data, text.length));
        buf_finish(&text);
    }
    json_array_append_new(notes, note);
}

/* Ownership: the caller's, free() it. */
static char *describe(struct node *node) {
    json_t *notes = json_array();
    for (int i = 0; i < node->stage_count; i++) {
        struct scheduler_stage_report report;
        scheduler_report(node->scheduler, i, &report);
        if (report.elsewhere) {
            continue;
        }
        add_note(node, notes, report.pipeline, report.stage, "parked: ", report.parked);
    }
    for (int i = 0; i < node->source_count; i++) {
        const struct source *source = &node->sources[i];
        if (source->trouble.length > 0) {
            add_note(node, notes, source->pipeline->def->name, NULL, "", source->trouble.data);
        }
    }
    if (node->options.pooled && node->options.listen_url == NULL) {
        add_note(node, notes, NULL, NULL, "", "behind a pooler in transaction mode, without --listen-database: new tasks are found by "
                                        "polling, within a second");
    }
    for (int i = 0; node == node->process->front && i < node->options.pipeline_count; i++) {
        const char *rejected = node->process->reload.rejected[i];
        if (rejected != NULL) {
            add_note(node, notes, node->options.pipelines[i].def->name, NULL, "", rejected);
        }
    }
    char *text = json_dumps(notes, JSON_COMPACT);
    json_decref(notes);
    return text;
}

static void on_noted(void *context, const struct store_done_answer *answer) {
    struct node *node = context;
    struct notes *notes = &node->notes;
    notes->in_flight = false;
    free(notes->stored);
    notes->stored = NULL;
    if (answer->code == STATUS_OK) {
        notes->stored = notes->sending;
    } else {
        free(notes->sending); /* told again at the next look */
    }
    notes->sending = NULL;
}

static bool is_stored(const struct node *node, const char *text) {
    const struct notes *notes = &node->notes;
    return notes->node == node->lease.node && notes->stored != NULL && strcmp(notes->stored, text) == 0;
}

void notes_turn(struct node *node, int64_t now, int64_t *next_ms) {
    struct notes *notes = &node->notes;
    if (notes->in_flight || node->state != NODE_UP) {
        return;
    }
    if (now >= notes->next_ms || notes->node != node->lease.node) {
        struct error err = ERROR_NONE;
        char *text = describe(node);
        notes->next_ms = now + LOOK_EVERY_MS;
        if (!is_stored(node, text) && node->store.notes(node->store.context, node->lease.node, text, on_noted, node,
                                                        &err) == STATUS_OK) {
            notes->in_flight = true;
            notes->sending = text;
            text = NULL;
        }
        notes->node = node->lease.node;
        free(text);
    }
    sooner(next_ms, notes->next_ms);
}

void notes_finish(struct node *node) {
    free(node->notes.stored);
    free(node->notes.sending);
}
