/* load.c - a file's way: bytes, checked text, tree, definition. Nothing of a file with a mistake is
 * handed out. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "config/loader.h"

enum { FILE_MAX_BYTES = 1024 * 1024, REPORT_MAX_BYTES = 1024 * 1024 };

/* A task could not even go straight through. */
static void check_max_steps(struct loader *loader, const struct tree_node *given) {
    if (given != NULL && loader->def->max_steps < loader->def->stage_count) {
        mistake_add(loader->mistakes, given->at, NULL,
                    "'max_steps' is %d, less than the %d stages of the pipeline",
                    loader->def->max_steps, loader->def->stage_count);
    }
}

/* Each scan would submit what was forgotten: it would run again and again. */
static void check_retention(struct loader *loader, const struct tree_node *root) {
    const struct tree_node *retention = tree_get(root, "retention");
    const struct tree_node *done = retention == NULL ? NULL : tree_get(retention, "done");
    if (done != NULL && tree_get(root, "source") != NULL && loader->def->retention.done_ms > 0) {
        mistake_add(loader->mistakes, done->at, "leave it out, or write 'none'",
                    "'done' cannot be limited in a pipeline with a 'source': each scan would submit "
                    "the document again");
    }
}

static void read_root(struct loader *loader, const struct tree_node *root) {
    if (root->kind != TREE_MAPPING) {
        if (root->kind != TREE_BROKEN) {
            mistake_add(loader->mistakes, root->at,
                        "the least is 'pipeline: NAME' and a list 'stages:'",
                        "a pipeline file must be a mapping of keys");
        }
        return;
    }
    walk_fallbacks(loader, LEVEL_STAGE | LEVEL_RETRY | LEVEL_LIMITS | LEVEL_BATCH | LEVEL_RECYCLE, &loader->defaults);
    walk_fallbacks(loader, LEVEL_FILES, &loader->def->source);
    walk_fallbacks(loader, LEVEL_PIPELINE, loader->def);
    walk_fallbacks(loader, LEVEL_RETENTION, &loader->def->retention);
    walk_mapping(loader, LEVEL_PIPELINE, root, loader->def, "");
    check_retention(loader, root);
    if (loader->stage_list != NULL) {
        stages_read(loader, loader->stage_list);
        check_max_steps(loader, tree_get(root, "max_steps"));
    }
    if (loader->schedule_list != NULL) {
        schedules_read(loader, loader->schedule_list);
    }
}

static void parse(struct loader *loader) {
    struct source_fault fault;
    if (source_text_fault(loader->source, loader->scratch, &fault)) {
        mistake_add(loader->mistakes, fault.at, fault.hint, "%s", fault.message);
        return;
    }
    const struct tree_node *root = tree_read(loader->source, loader->scratch, loader->mistakes);
    if (root != NULL) {
        read_root(loader, root);
    }
}

/* The first mistake stands in `err` for those who print one line only. */
static enum status summarize(const struct mistakes *mistakes, const struct source_text *source,
                             const char *path, struct config_report *report, struct error *err) {
    const struct mistake *first = &mistakes->items[0];
    mistakes_print(mistakes, source, &report->text);
    report->mistakes = mistakes->total;
    if (err != NULL && err->code == STATUS_OK) {
        err->file = path;
        err->line = first->at.line;
        err->column = first->at.column;
    }
    return error_set(err, STATUS_INVALID, "%s:%d:%d: %s", source->name, first->at.line,
                     first->at.column, first->message);
}

static struct pipeline_def *def_create(const char *path, const char *text, size_t length) {
    struct pipeline_def *def = mem_alloc(sizeof *def);
    def->file = arena_copy_string(&def->arena, path);
    def->folder = expand_folder(&def->arena, path);
    def->text = arena_copy(&def->arena, text, length);
    def->text_length = length;
    return def;
}

enum status pipeline_parse(const char *path, const char *text, size_t length,
                           struct pipeline_def **def, struct config_report *report,
                           struct error *err) {
    *def = NULL;
    *report = (struct config_report){0};
    buf_init(&report->text, REPORT_MAX_BYTES);
    if (length > FILE_MAX_BYTES) {
        return error_set(err, STATUS_INVALID, "%s: larger than 1 MB, too large for a pipeline file",
                         path);
    }
    struct arena scratch = {0};
    struct source_text source;
    struct mistakes mistakes = {.arena = &scratch};
    struct loader loader = {.def = def_create(path, text, length),
                            .scratch = &scratch,
                            .mistakes = &mistakes,
                            .source = &source};
    enum status status = STATUS_OK;
    if (loader.def->folder == NULL) {
        status = error_set_errno(err, STATUS_INVALID, errno, "%s: the working folder", path);
        goto out;
    }
    source_text_init(&source, &scratch, path, loader.def->text, length);
    parse(&loader);
    if (mistakes.total > 0) {
        mistakes_sort(&mistakes);
        status = summarize(&mistakes, &source, path, report, err);
        goto out;
    }
    *def = loader.def;
    loader.def = NULL;
out:
    pipeline_free(loader.def);
    arena_finish(&scratch);
    return status;
}

/* At most one byte more than a file may have. */
static enum status read_file(const char *path, struct buf *text, struct error *err) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_INVALID, errno,
                               "%s", path);
    }
    enum status status = STATUS_OK;
    ssize_t count = 1;
    while (count != 0 && !text->overflow && text->length < text->max) {
        char chunk[16 * 1024];
        size_t room = text->max - text->length;
        count = read(file, chunk, room < sizeof chunk ? room : sizeof chunk);
        if (count > 0) {
            buf_append(text, chunk, (size_t)count);
        } else if (count < 0 && errno != EINTR) {
            status = error_set_errno(err, STATUS_INVALID, errno, "%s", path);
            break;
        }
    }
    close(file);
    return status;
}

enum status pipeline_load(const char *path, struct pipeline_def **def, struct config_report *report,
                          struct error *err) {
    *def = NULL;
    struct buf text;
    buf_init(&text, FILE_MAX_BYTES + 1);
    enum status status = read_file(path, &text, err);
    if (status == STATUS_OK) {
        status = pipeline_parse(path, text.data, text.length, def, report, err);
    } else {
        *report = (struct config_report){0};
        buf_init(&report->text, REPORT_MAX_BYTES);
    }
    buf_finish(&text);
    return status;
}

int pipeline_find_stage(const struct pipeline_def *def, const char *name) {
    for (int i = 0; name != NULL && i < def->stage_count; i++) {
        if (def->stages[i].name != NULL && strcmp(def->stages[i].name, name) == 0) { /* one with a mistake may have none */
            return i;
        }
    }
    return -1;
}

void pipeline_free(struct pipeline_def *def) {
    if (def != NULL) {
        arena_finish(&def->arena);
        free(def);
    }
}

void config_report_finish(struct config_report *report) {
    buf_finish(&report->text);
    report->mistakes = 0;
}
