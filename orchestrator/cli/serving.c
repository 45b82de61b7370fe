#include "cli/serving.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* One entry of an option that takes lists and may be given again: "a,b". */
struct entry {
    const char *text;
    size_t length;
};

struct entries {
    const struct args *args;
    const char *option;
    int at;
    const char *rest;
};

static bool next_entry(struct entries *entries, struct entry *entry) {
    if (entries->rest == NULL || *entries->rest == '\0') {
        entries->rest = args_each(entries->args, entries->option, &entries->at);
        if (entries->rest == NULL) {
            return false;
        }
    }
    entry->text = entries->rest;
    entry->length = strcspn(entries->rest, ",");
    entries->rest += entry->length;
    entries->rest += *entries->rest == ',';
    return true;
}

static bool is_text(const struct entry *entry, const char *text) {
    return strlen(text) == entry->length && memcmp(text, entry->text, entry->length) == 0;
}

/* STAGE, or PIPELINE/STAGE. */
static bool names_stage(struct entry entry, const struct definition *definition, int stage) {
    const struct pipeline_def *def = definition->def;
    const char *called = definition->called == NULL ? NULL : definition->called[stage];
    const char *slash = memchr(entry.text, '/', entry.length);
    if (slash != NULL) {
        struct entry pipeline = {entry.text, (size_t)(slash - entry.text)};
        if (!is_text(&pipeline, def->name)) {
            return false;
        }
        entry.length -= pipeline.length + 1;
        entry.text = slash + 1;
    }
    return is_text(&entry, called != NULL ? called : def->stages[stage].name);
}

/* NAME=N; the name is what is left of the entry. */
static bool split_workers(struct entry *entry, int *workers) {
    const char *equals = memchr(entry->text, '=', entry->length);
    size_t name = equals == NULL ? 0 : (size_t)(equals - entry->text);
    size_t digits = equals == NULL ? 0 : entry->length - name - 1;
    char number[16] = "", *end = NULL;
    if (digits > 0 && digits < sizeof number) {
        memcpy(number, equals + 1, digits);
    }
    long value = strtol(number, &end, 10);
    if (name == 0 || number[0] < '0' || number[0] > '9' || *end != '\0' || value > CONFIG_WORKERS_MAX) {
        return false;
    }
    *workers = (int)value;
    entry->length = name;
    return true;
}

bool serving_check(const struct args *args) {
    struct entry entry;
    int workers = 0;
    for (struct entries all = {args, "stage", 0, NULL}; next_entry(&all, &entry);) {
        struct entry name = entry;
        if (!split_workers(&name, &workers)) {
            usage_error(args, "--stage wants NAME=WORKERS, from 0 to %d workers, not '%.*s'", CONFIG_WORKERS_MAX,
                        (int)entry.length, entry.text);
            return false;
        }
    }
    for (struct entries all = {args, "label", 0, NULL}; next_entry(&all, &entry);) {
        char *label = mem_copy_bytes(entry.text, entry.length);
        bool good = config_is_label(label);
        free(label);
        if (!good) {
            usage_error(args, "a label has letters, digits, '_', '-', '.' and '=', at most %d, unlike '%.*s'", CONFIG_NAME_MAX,
                        (int)entry.length, entry.text);
            return false;
        }
    }
    return true;
}

static bool has_label(const struct args *args, const char *label) {
    struct entry entry;
    for (struct entries all = {args, "label", 0, NULL}; next_entry(&all, &entry);) {
        if (is_text(&entry, label)) {
            return true;
        }
    }
    return false;
}

char **serving_labels(const struct args *args) {
    struct entry entry;
    size_t count = 0;
    char **labels = mem_alloc(sizeof *labels);
    for (struct entries all = {args, "label", 0, NULL}; next_entry(&all, &entry);) {
        labels = mem_resize(labels, count + 2, sizeof *labels);
        labels[count++] = mem_copy_bytes(entry.text, entry.length);
        labels[count] = NULL;
    }
    return labels;
}

void serving_labels_free(char **labels) {
    for (int i = 0; labels != NULL && labels[i] != NULL; i++) {
        free(labels[i]);
    }
    free(labels);
}

static bool is_wanted(const struct args *args, const struct definition *definition, int stage) {
    struct entry entry;
    bool any = false;
    for (struct entries all = {args, "only", 0, NULL}; next_entry(&all, &entry);) {
        any = true;
        if (names_stage(entry, definition, stage)) {
            return true;
        }
    }
    return !any;
}

static bool has_labels(const struct args *args, const struct stage_def *stage) {
    for (int i = 0; stage->requires != NULL && stage->requires[i] != NULL; i++) {
        if (!has_label(args, stage->requires[i])) {
            return false;
        }
    }
    return true;
}

static bool settle_stage(const struct args *args, const struct definition *definition, int index) {
    struct stage_def *stage = (struct stage_def *)(uintptr_t)&definition->def->stages[index];
    struct entry entry;
    int workers = stage->workers;
    for (struct entries all = {args, "stage", 0, NULL}; next_entry(&all, &entry);) {
        int given = 0;
        if (split_workers(&entry, &given) && names_stage(entry, definition, index)) {
            workers = given;
        }
    }
    stage->workers = workers > 0 ? workers : stage->workers;
    return workers > 0 && is_wanted(args, definition, index) && has_labels(args, stage);
}

/* A stage keeps its id, whatever its name. One that is not registered yet is looked for by the name that it has, or had. */
static int id_of(const struct definition *definition, int stage, const struct node_pipeline *now) {
    if (definition->stage_ids != NULL) {
        return definition->stage_ids[stage];
    }
    const struct stage_def *def = &definition->def->stages[stage];
    int index = pipeline_find_stage(now->def, def->name);
    index = index >= 0 ? index : pipeline_find_stage(now->def, def->renamed_from);
    return index < 0 ? -1 : now->stage_ids[index];
}

void serving_follow_renames(struct definition *definition, const struct node_pipeline *now, const struct definition *first) {
    int count = definition->def->stage_count;
    free(definition->called);
    definition->called = mem_alloc(sizeof *definition->called * (size_t)(count + 1));
    for (int s = 0; s < count; s++) {
        int id = id_of(definition, s, now);
        for (int i = 0; i < first->def->stage_count; i++) {
            if (first->stage_ids[i] == id) {
                definition->called[s] = first->def->stages[i].name;
            }
        }
    }
}

bool serving_settle(const struct args *args, struct definition *definitions, int count) {
    bool fires_only = args_has(args, "schedules-only"), served = false;
    for (int i = 0; i < count; i++) {
        const struct pipeline_def *def = definitions[i].def;
        free(definitions[i].elsewhere); /* of an earlier try */
        definitions[i].elsewhere = mem_alloc(sizeof *definitions[i].elsewhere * (size_t)(def->stage_count + 1));
        for (int s = 0; s < def->stage_count; s++) {
            bool here = settle_stage(args, &definitions[i], s) && !fires_only;
            definitions[i].elsewhere[s] = !here;
            served = served || here;
        }
    }
    return served || fires_only;
}

static bool is_known(struct entry entry, const struct definition *definitions, int count) {
    for (int i = 0; i < count; i++) {
        for (int s = 0; s < definitions[i].def->stage_count; s++) {
            if (names_stage(entry, &definitions[i], s)) {
                return true;
            }
        }
    }
    return false;
}

const char *serving_unknown(const struct args *args, const struct definition *definitions, int count, size_t *length) {
    struct entry entry;
    int workers = 0;
    for (struct entries all = {args, "stage", 0, NULL}; next_entry(&all, &entry);) {
        if (split_workers(&entry, &workers) && !is_known(entry, definitions, count)) {
            *length = entry.length;
            return entry.text;
        }
    }
    for (struct entries all = {args, "only", 0, NULL}; next_entry(&all, &entry);) {
        if (!is_known(entry, definitions, count)) {
            *length = entry.length;
            return entry.text;
        }
    }
    return NULL;
}

void serving_missing_labels(const struct args *args, const struct definition *definition, struct buf *out) {
    for (int s = 0; s < definition->def->stage_count; s++) {
        const struct stage_def *stage = &definition->def->stages[s];
        for (int i = 0; stage->requires != NULL && stage->requires[i] != NULL; i++) {
            if (!has_label(args, stage->requires[i])) {
                buf_append_format(out, "%s%s", out->length > 0 ? ", " : "", stage->requires[i]);
            }
        }
    }
}
