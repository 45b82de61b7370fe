/* changes.c - field by field, led by the schema table, so that no key is forgotten. */
#include "config/changes.h"

#include <stdio.h>
#include <string.h>

#include "config/scalar.h"
#include "config/schema.h"

/* Begins the next change. */
static void begin(struct buf *out, size_t start, const char *stage) {
    buf_append_string(out, out->length > start ? ", " : "");
    if (stage != NULL) {
        buf_append_format(out, "stage '%s'", stage);
    }
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_texts(const char *const *a, const char *const *b) {
    if (a == NULL || b == NULL) {
        return a == b;
    }
    for (; *a != NULL && *b != NULL && strcmp(*a, *b) == 0; a++, b++) {
    }
    return *a == NULL && *b == NULL;
}

static bool same_statements(const struct stage_def *a, const struct stage_def *b) {
    bool same = a->statement_count == b->statement_count;
    for (int i = 0; same && i < a->statement_count; i++) {
        same = strcmp(a->statements[i].text, b->statements[i].text) == 0;
    }
    return same;
}

static int64_t number_at(const struct config_key *key, const void *field) {
    if (key->size == sizeof(bool)) {
        return *(const bool *)field;
    }
    return key->size == sizeof(int) ? *(const int *)field : *(const int64_t *)field;
}

static const char *number_text(struct arena *arena, const struct config_key *key, int64_t value) {
    if (value == 0 && key->none_allowed) {
        return "none";
    }
    switch (key->type) {
    case TYPE_DURATION:
        return scalar_format_duration(arena, value);
    case TYPE_SECONDS:
        return scalar_format_duration(arena, value * 1000);
    case TYPE_SIZE:
        return scalar_format_size(arena, value);
    case TYPE_PERCENT:
        return arena_format(arena, "%lld%%", (long long)value);
    case TYPE_BOOLEAN:
        return value != 0 ? "true" : "false";
    case TYPE_BACKOFF:
        return config_backoff_names[value];
    case TYPE_INTEGER:
    case TYPE_NAME:
    case TYPE_ROLE:
    case TYPE_PATH:
    case TYPE_TEXTS:
    case TYPE_LABELS:
    case TYPE_NAMES:
    case TYPE_VARIABLES:
    case TYPE_ARGUMENTS:
    case TYPE_HANDLER:
    case TYPE_SQL:
    case TYPE_JSON:
    case TYPE_TEXT:
    case TYPE_WORD:
    case TYPE_DO:
    case TYPE_MAPPING:
    case TYPE_STAGES:
    case TYPE_SCHEDULES:
        break;
    }
    return arena_format(arena, "%lld", (long long)value);
}

/* Whether the key's value is another one; `text` gets the two values when they are short. */
static bool differs(struct arena *arena, const struct config_key *key, const void *before, const void *now,
                    const char **text) {
    const void *a = (const char *)before + key->offset, *b = (const char *)now + key->offset;
    switch (key->type) {
    case TYPE_INTEGER:
    case TYPE_DURATION:
    case TYPE_SECONDS:
    case TYPE_SIZE:
    case TYPE_PERCENT:
    case TYPE_BOOLEAN:
    case TYPE_BACKOFF: {
        int64_t old = number_at(key, a), new = number_at(key, b);
        *text = arena_format(arena, " %s -> %s", number_text(arena, key, old), number_text(arena, key, new));
        return old != new;
    }
    case TYPE_NAME:
    case TYPE_ROLE:
    case TYPE_PATH:
    case TYPE_JSON:
    case TYPE_TEXT:
    case TYPE_WORD:
        return !same_text(*(const char *const *)a, *(const char *const *)b);
    case TYPE_TEXTS:
    case TYPE_LABELS:
    case TYPE_NAMES:
    case TYPE_VARIABLES:
    case TYPE_ARGUMENTS:
        return !same_texts(*(const char *const *const *)a, *(const char *const *const *)b);
    case TYPE_HANDLER: {
        const struct stage_def *old = before, *new = now;
        return !same_text(old->handler_file, new->handler_file) || !same_text(old->handler_name, new->handler_name);
    }
    case TYPE_SQL:
        return !same_statements(before, now);
    case TYPE_DO: {
        const struct schedule_def *old = before, *new = now;
        return old->action != new->action;
    }
    case TYPE_MAPPING:
    case TYPE_STAGES:
    case TYPE_SCHEDULES:
        break;
    }
    return false;
}

/* The keys of some levels, which lie in the same struct. */
static void write_keys(unsigned levels, const void *before, const void *now, const char *what, struct buf *out,
                       size_t start) {
    struct arena arena = {0};
    bool first = true;
    for (int i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        const char *text = "";
        if ((key->levels & levels) == 0 || !differs(&arena, key, before, now, &text)) {
            continue;
        }
        if (first) {
            begin(out, start, NULL);
            buf_append_string(out, what);
        }
        buf_append_format(out, "%s %s%s", first ? ":" : ",", key->name, text);
        first = false;
    }
    arena_finish(&arena);
}

static const struct stage_def *find(const struct pipeline_def *def, const char *name) {
    int index = pipeline_find_stage(def, name);
    return index < 0 ? NULL : &def->stages[index];
}

static const struct stage_def *ancestor(const struct pipeline_def *before, const struct stage_def *stage) {
    const struct stage_def *same = find(before, stage->name);
    return same != NULL ? same : find(before, stage->renamed_from);
}

static bool is_kept(const struct pipeline_def *before, const struct pipeline_def *now, const struct stage_def *old) {
    for (int i = 0; i < now->stage_count; i++) {
        if (ancestor(before, &now->stages[i]) == old) {
            return true;
        }
    }
    return false;
}

static void write_stage(const struct pipeline_def *before, const struct stage_def *stage, struct buf *out, size_t start) {
    const struct stage_def *old = ancestor(before, stage);
    if (old == NULL) {
        begin(out, start, stage->name);
        buf_append_string(out, " added");
        return;
    }
    if (strcmp(old->name, stage->name) != 0) {
        begin(out, start, old->name);
        buf_append_format(out, " is '%s' now", stage->name);
    }
    struct stage_def named = *old;
    named.name = stage->name;
    named.renamed_from = stage->renamed_from;
    char what[CONFIG_NAME_MAX + 16];
    snprintf(what, sizeof what, "stage '%s'", stage->name);
    write_keys(LEVEL_STAGE | LEVEL_RETRY | LEVEL_LIMITS | LEVEL_BATCH | LEVEL_RECYCLE, &named, stage, what, out, start);
}

/* Whether the stages that both have come in another order. */
static bool is_reordered(const struct pipeline_def *before, const struct pipeline_def *now) {
    const struct stage_def *last = NULL;
    for (int i = 0; i < now->stage_count; i++) {
        const struct stage_def *old = ancestor(before, &now->stages[i]);
        if (old != NULL && last != NULL && old < last) {
            return true;
        }
        last = old != NULL ? old : last;
    }
    return false;
}

static const struct schedule_def *find_schedule(const struct pipeline_def *def, const char *name) {
    for (int i = 0; i < def->schedule_count; i++) {
        if (strcmp(def->schedules[i].name, name) == 0) {
            return &def->schedules[i];
        }
    }
    return NULL;
}

static void write_schedules(const struct pipeline_def *before, const struct pipeline_def *now, struct buf *out,
                            size_t start) {
    for (int i = 0; i < before->schedule_count; i++) {
        if (find_schedule(now, before->schedules[i].name) == NULL) {
            begin(out, start, NULL);
            buf_append_format(out, "schedule '%s' removed", before->schedules[i].name);
        }
    }
    for (int i = 0; i < now->schedule_count; i++) {
        const struct schedule_def *schedule = &now->schedules[i], *old = find_schedule(before, schedule->name);
        if (old == NULL) {
            begin(out, start, NULL);
            buf_append_format(out, "schedule '%s' added", schedule->name);
            continue;
        }
        char what[CONFIG_NAME_MAX + 16];
        snprintf(what, sizeof what, "schedule '%s'", schedule->name);
        write_keys(LEVEL_SCHEDULE | LEVEL_SUBMIT | LEVEL_RERUN, old, schedule, what, out, start);
    }
}

void changes_write(const struct pipeline_def *before, const struct pipeline_def *now, struct buf *out) {
    size_t start = out->length;
    for (int i = 0; i < before->stage_count; i++) {
        if (!is_kept(before, now, &before->stages[i])) {
            begin(out, start, before->stages[i].name);
            buf_append_string(out, " removed");
        }
    }
    for (int i = 0; i < now->stage_count; i++) {
        write_stage(before, &now->stages[i], out, start);
    }
    if (is_reordered(before, now)) {
        begin(out, start, NULL);
        buf_append_string(out, "stages in another order");
    }
    if (before->source.present != now->source.present) {
        begin(out, start, NULL);
        buf_append_string(out, now->source.present ? "source added" : "source removed");
    } else if (now->source.present) {
        write_keys(LEVEL_FILES, &before->source, &now->source, "source", out, start);
    }
    write_keys(LEVEL_PIPELINE, before, now, "pipeline", out, start);
    write_keys(LEVEL_RETENTION, &before->retention, &now->retention, "retention", out, start);
    write_schedules(before, now, out, start);
    if (!same_text(before->folder, now->folder)) {
        begin(out, start, NULL);
        buf_append_format(out, "folder %s -> %s", before->folder, now->folder);
    }
}
