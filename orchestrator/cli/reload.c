#include "cli/reload.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/serving.h"
#include "config/changes.h"

void definition_set_init(struct definition_set *set, int count) {
    size_t room = (size_t)count + 1;
    *set = (struct definition_set){.count = count};
    set->definitions = mem_alloc(sizeof *set->definitions * room);
    set->pipelines = mem_alloc(sizeof *set->pipelines * room);
    set->rejected = mem_alloc(sizeof *set->rejected * room);
    buf_init(&set->changes, (size_t)1 << 16);
}

void definition_set_finish(struct definition_set *set) {
    for (int i = 0; i < set->count; i++) {
        definition_finish(&set->definitions[i]);
        free(set->rejected[i]);
    }
    free(set->definitions);
    free(set->pipelines);
    free(set->rejected);
    buf_finish(&set->changes);
}

/* ---- one pipeline ------------------------------------------------------------------------------------------------- */

static bool is_away(enum exit_status status) {
    return status == EXIT_NO_DATABASE;
}

/* What stages were called, for the options; NULL at the start, when they have the names that the options say. */
struct names {
    const struct node_pipeline *now;
    const struct definition *first;
};

static void follow_renames(const struct names *names, struct definition *definition) {
    if (names != NULL) {
        serving_follow_renames(definition, names->now, names->first);
    }
}

/* Whether the definition can be worked under here: its stages' handlers are there. */
static enum exit_status check_usable(const struct args *args, const struct names *names, struct definition *definition,
                                     struct buf *said) {
    follow_renames(names, definition);
    serving_settle(args, definition, 1);
    return definition_check_handlers(definition, said);
}

static enum exit_status load_current(const struct args *args, const struct names *names, struct db_sync *db,
                                     const char *name, const char *beside, struct definition *definition, struct buf *said) {
    enum exit_status status = definition_load_current(db, name, beside, definition, said);
    return status == EXIT_OK ? check_usable(args, names, definition, said) : status;
}

static enum exit_status take_current(const struct args *args, const struct names *names, struct db_sync *db,
                                     const char *file, struct definition *definition, struct buf *said) {
    struct definition current;
    enum exit_status status = load_current(args, names, db, definition->def->name, file, &current, said);
    if (status == EXIT_OK) {
        struct definition older = *definition;
        *definition = current;
        current = older;
    }
    definition_finish(&current);
    return status;
}

enum exit_status reload_take_current(const struct args *args, struct db_sync *db, const char *file,
                                     struct definition *definition, struct buf *said) {
    return take_current(args, NULL, db, file, definition, said);
}

/* Reads and registers a file, as at the start. *not_taken is set when it is that of an earlier one of the
 * last ten revisions: the current one is read. */
static enum exit_status read_file(const struct args *args, const struct names *names, struct db_sync *db, const char *file,
                                  struct definition *definition, char **not_taken, struct buf *said) {
    const char *name = names->now->def->name;
    enum exit_status status = definition_load(file, definition, said);
    if (status == EXIT_OK && strcmp(definition->def->name, name) != 0) {
        buf_append_format(said, "pgstage: %s: it is of pipeline '%s' now, not of '%s': start a node for it\n", file,
                          definition->def->name, name);
        status = EXIT_WRONG;
    }
    status = status == EXIT_OK ? check_usable(args, names, definition, said) : status;
    status = status == EXIT_OK ? definition_register(db, definition, DEFINITION_RUN, said) : status;
    if (status == EXIT_OK && definition->is_older) {
        int older = definition->revision;
        status = take_current(args, names, db, file, definition, said);
        *not_taken = status != EXIT_OK ? NULL
                                       : mem_format("the file on disk is not taken: it equals revision %d, the current one is "
                                                    "%d; pgstage apply %s makes it the current one", older,
                                                    definition->revision, file);
    } else if (status == EXIT_OK) {
        follow_renames(names, definition); /* by the ids that it has now */
    }
    return status;
}

/* The first line that was said, for the log and for status. Ownership: the caller's. */
static char *first_line(const char *before, const struct buf *said) {
    static const char prefix[] = "pgstage: ";
    const char *text = said->data;
    text += strncmp(text, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    return mem_format("%s%.*s", before, (int)strcspn(text, "\n"), text);
}

static void note_changes(struct definition_set *set, const struct node_pipeline *now, const struct definition *definition) {
    size_t before = set->changes.length;
    buf_append_format(&set->changes, "%s%s: ", before > 0 ? "; " : "", now->def->name);
    size_t start = set->changes.length;
    changes_write(now->def, definition->def, &set->changes);
    if (set->changes.length == start) {
        buf_append_string(&set->changes, "nothing");
    }
}

/* Away: nothing is known. Otherwise the set has a definition of the pipeline, a newer one or what is now. */
static enum exit_status read_one(const struct reload_source *source, struct db_sync *db, int index,
                                 const struct node_pipeline *now, bool files, struct definition_set *set) {
    const struct args *args = source->args;
    const char *argument = args->positional[index], *name = now->def->name;
    struct definition *definition = &set->definitions[index];
    const struct names names = {now, &source->first[index]};
    bool from_file = files && !source->named[index];
    struct buf said;
    buf_init(&said, (size_t)1 << 20);
    enum exit_status status =
        from_file ? read_file(args, &names, db, argument, definition, &set->rejected[index], &said)
                  : load_current(args, &names, db, name, source->named[index] ? now->def->file : argument, definition, &said);
    if (status != EXIT_OK && !is_away(status)) {
        definition_finish(definition);
        set->rejected[index] =
            first_line(from_file ? "the file on disk is rejected: " : "the current revision is rejected: ", &said);
        buf_clear(&said);
        status = definition_copy(now, definition, &said);
        if (status == EXIT_OK) {
            follow_renames(&names, definition);
        }
        serving_settle(args, definition, status == EXIT_OK ? 1 : 0);
    } else if (status == EXIT_OK) {
        note_changes(set, now, definition);
    }
    buf_finish(&said);
    return status;
}

/* ---- all of them -------------------------------------------------------------------------------------------------- */

/* Whether a successor is worth its start: something is different, or a person asked and nothing was rejected. */
static bool is_new(const struct definition_set *set, const struct node_pipeline *now, bool files) {
    bool rejected = false;
    for (int i = 0; i < set->count; i++) {
        if (set->definitions[i].revision != now[i].revision) {
            return true;
        }
        rejected = rejected || set->rejected[i] != NULL;
    }
    return files && !rejected;
}

static enum exit_status read_all(const struct reload_source *source, struct db_sync *db, const struct node_pipeline *now,
                                 bool files, struct definition_set *set) {
    for (int i = 0; i < set->count; i++) {
        enum exit_status status = read_one(source, db, i, &now[i], files, set);
        if (status != EXIT_OK) {
            return status;
        }
    }
    return EXIT_OK;
}

/* A definition under which this node would have nothing to serve: the old ones stay. */
static bool serves_nothing(const struct args *args, struct definition_set *set) {
    if (serving_settle(args, set->definitions, set->count)) {
        return false;
    }
    for (int i = 0; i < set->count; i++) {
        if (set->rejected[i] == NULL) {
            set->rejected[i] = mem_copy_string("the new definition is rejected: this node would serve none of its stages");
        }
    }
    return true;
}

enum status reload_read(void *context, const struct node_pipeline *now, bool files, struct node_reload *found,
                        struct error *err) {
    const struct reload_source *source = context;
    struct db_sync *db = NULL;
    *found = (struct node_reload){0};
    enum status status = sync_open(source->url, "reload", &db, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct definition_set *set = mem_alloc(sizeof *set);
    definition_set_init(set, source->args->count);
    enum exit_status read = read_all(source, db, now, files, set);
    sync_close(db);
    if (read != EXIT_OK) {
        definition_set_finish(set);
        free(set);
        return error_set(err, STATUS_UNAVAILABLE, "the definitions cannot be read now");
    }
    bool nothing = serves_nothing(source->args, set);
    for (int i = 0; i < set->count; i++) {
        set->pipelines[i] = definition_for_node(&set->definitions[i]);
    }
    size_t length;
    const char *unknown = serving_unknown(source->args, set->definitions, set->count, &length);
    if (unknown != NULL) {
        buf_append_format(&set->changes, "; no stage is named '%.*s' any more", (int)length, unknown);
    }
    *found = (struct node_reload){
        .pipeline_count = set->count,
        .pipelines = set->pipelines,
        .rejected = set->rejected,
        .changes = set->changes.data,
        .is_new = !nothing && is_new(set, now, files),
        .owner = set,
    };
    return STATUS_OK;
}

void reload_release(struct node_reload *found) {
    struct definition_set *set = found->owner;
    if (set != NULL) {
        definition_set_finish(set);
        free(set);
    }
    *found = (struct node_reload){0};
}
