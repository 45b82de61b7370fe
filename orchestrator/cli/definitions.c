#include "cli/definitions.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/output.h"
#include "config/settings.h"
#include "db/array.h"
#include "sql/statements.h"

enum exit_status definition_said(enum exit_status status, struct buf *said) {
    struct buf shown;
    buf_init(&shown, SIZE_MAX);
    text_show_lines(&shown, said->data);
    fputs(shown.data, stderr);
    buf_finish(&shown);
    buf_finish(said);
    return status;
}

static enum exit_status say_error(const struct error *err, struct buf *said) {
    buf_append_format(said, "pgstage: %s%s\n", err->text, error_hint(err));
    return error_exit_status(err);
}

/* ---- loading ------------------------------------------------------------------------------------------------------ */

static enum exit_status take_report(enum status status, struct config_report *report, const struct error *err,
                                    struct buf *said) {
    if (status != STATUS_OK && report->mistakes > 0) {
        buf_append(said, report->text.data, report->text.length);
    } else if (status != STATUS_OK) {
        say_error(err, said);
    }
    config_report_finish(report);
    return status == STATUS_OK ? EXIT_OK : EXIT_WRONG;
}

enum exit_status definition_load(const char *path, struct definition *definition, struct buf *said) {
    struct config_report report = {0};
    struct error err = ERROR_NONE;
    *definition = (struct definition){0};
    return take_report(pipeline_load(path, &definition->def, &report, &err), &report, &err, said);
}

bool definition_is_name(const char *argument) {
    size_t length = strlen(argument);
    bool has_suffix = (length > 5 && strcmp(argument + length - 5, ".yaml") == 0) ||
                      (length > 4 && strcmp(argument + length - 4, ".yml") == 0);
    return strchr(argument, '/') == NULL && !has_suffix && access(argument, F_OK) != 0;
}

/* The path under which a stored text is read: where its file lay, if that folder is here. */
static bool path_of_text(const struct db_result *result, const char *beside, struct buf *path) {
    if (!db_is_null(result, 0, 1)) {
        const char *stored = db_value(result, 0, 1), *slash = strrchr(stored, '/');
        buf_append(path, stored, slash == NULL ? 0 : (size_t)(slash - stored) + 1);
        if (beside == NULL || access(path->data, X_OK) == 0) {
            buf_clear(path);
            buf_append_string(path, stored);
            return true;
        }
    }
    buf_clear(path);
    buf_append_string(path, beside == NULL ? "" : beside);
    return beside != NULL;
}

static void take_ids(struct definition *definition, int id, int revision, int count, const int64_t *stages) {
    definition->id = id;
    definition->revision = revision;
    free(definition->stage_ids); /* of an earlier try */
    definition->stage_ids = mem_alloc(sizeof *definition->stage_ids * (size_t)(count + 1));
    for (int i = 0; i < count; i++) {
        definition->stage_ids[i] = (int)stages[i];
    }
}

static enum exit_status read_ids(struct definition *definition, int id, int revision, const char *array,
                                 struct buf *said) {
    int64_t *ids = NULL;
    int count = array_read_ints(array, &ids);
    bool fits = count == definition->def->stage_count;
    if (fits) {
        take_ids(definition, id, revision, count, ids);
    } else {
        buf_append_format(said, "pgstage: %s: the database knows other stages than the file\n", definition->def->file);
    }
    free(ids);
    return fits ? EXIT_OK : EXIT_REFUSED;
}

static enum exit_status parse_current(const struct db_result *result, const char *name, const char *beside,
                                      struct definition *definition, struct buf *said) {
    struct buf path;
    buf_init(&path, PATH_MAX);
    struct config_report report = {0};
    struct error err = ERROR_NONE;
    enum exit_status status = EXIT_WRONG;
    if (db_rows(result) == 0) {
        buf_append_format(said, "pgstage: there is neither a file nor a pipeline named '%s'\n", name);
    } else if (!path_of_text(result, beside, &path)) {
        buf_append_format(said, "pgstage: where the file of pipeline '%s' lies is not known: run the file once\n", name);
    } else {
        status = take_report(pipeline_parse(path.data, db_value(result, 0, 0), db_length(result, 0, 0), &definition->def,
                                            &report, &err),
                             &report, &err, said);
    }
    buf_finish(&path);
    if (status == EXIT_OK) {
        status = read_ids(definition, (int)db_int64(result, 0, 2), (int)db_int64(result, 0, 3), db_value(result, 0, 4),
                          said);
    }
    return status;
}

enum exit_status definition_load_current(struct db_sync *db, const char *name, const char *beside,
                                         struct definition *definition, struct buf *said) {
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    *definition = (struct definition){0};
    if (sync_run(db, NULL, sql_current_definition.text, 1, &DB_TEXT(name), &result, &err) != STATUS_OK) {
        return say_error(&err, said);
    }
    enum exit_status status = parse_current(result, name, beside, definition, said);
    sync_result_free(result);
    return status;
}

enum exit_status definition_copy(const struct node_pipeline *from, struct definition *definition, struct buf *said) {
    struct config_report report = {0};
    struct error err = ERROR_NONE;
    *definition = (struct definition){0};
    enum exit_status status = take_report(
        pipeline_parse(from->def->file, from->def->text, from->def->text_length, &definition->def, &report, &err), &report,
        &err, said);
    if (status == EXIT_OK) {
        int count = from->def->stage_count;
        int64_t *ids = mem_alloc(sizeof *ids * (size_t)(count + 1));
        for (int i = 0; i < count; i++) {
            ids[i] = from->stage_ids[i];
        }
        take_ids(definition, from->id, from->revision, count, ids);
        free(ids);
    }
    return status;
}

/* ---- registering -------------------------------------------------------------------------------------------------- */

static const char choices[] =
    "Let its tasks be done first (keep the stage, and run a node), cancel them (pgstage cancel %s --stage NAME), %ssend\n"
    "them elsewhere (pgstage rerun %s --stage NAME --from STAGE)";
static const char choice_rename[] = ", or, if the stage has another name now, say so with\nrenamed_from: NAME in the file";

static void say_refused(const struct definition *definition, const char *reason, struct buf *said) {
    const char *name = definition->def->name;
    bool tried = strstr(reason, "renamed_from: ") != NULL; /* what has been done is not advised */
    buf_append_format(said, "pgstage: %s: refused, %s\n", definition->def->file, reason);
    buf_append_format(said, choices, name, tried ? "or " : "", name);
    buf_append_format(said, "%s.\n", tried ? "" : choice_rename);
}

static enum exit_status on_registered(struct definition *definition, const struct db_result *result, struct buf *said) {
    const char *outcome = db_value(result, 0, REGISTER_OUTCOME), *detail = db_value(result, 0, REGISTER_DETAIL);
    if (strcmp(outcome, "refused") == 0) {
        say_refused(definition, detail, said);
        return EXIT_REFUSED;
    }
    definition->is_older = strcmp(outcome, "older") == 0;
    return read_ids(definition, (int)db_int64(result, 0, REGISTER_PIPELINE), (int)db_int64(result, 0, REGISTER_REVISION),
                    db_value(result, 0, REGISTER_STAGES), said);
}

static void write_names(const struct pipeline_def *def, struct buf *names) {
    array_begin(names);
    for (int i = 0; i < def->stage_count; i++) {
        array_add_text(names, def->stages[i].name, strlen(def->stages[i].name));
    }
    array_end(names);
}

enum status definition_send(struct db_sync *db, const struct pipeline_def *def, enum definition_use use,
                            struct db_result **result, struct error *err) {
    struct buf names, path, settings;
    buf_init(&names, (size_t)1 << 20);
    buf_init(&path, (size_t)1 << 16);
    buf_init(&settings, (size_t)1 << 24);
    const char *base = strrchr(def->file, '/');
    buf_append_format(&path, "%s/%s", def->folder, base == NULL ? def->file : base + 1);
    write_names(def, &names);
    settings_write(def, &settings);
    enum status status = STATUS_OK;
    if (use == DEFINITION_COMPARE) {
        struct db_param params[] = {DB_TEXT(def->name), DB_TEXT(names.data), DB_TEXT(settings.data)};
        status = sync_run(db, NULL, sql_compare.text, 3, params, result, err);
    } else {
        const char *mode = use == DEFINITION_RUN ? "run" : "apply";
        struct db_param params[] = {DB_TEXT(def->name), DB_TEXT(def->text), DB_TEXT(names.data), DB_TEXT(mode),
                                    DB_TEXT(path.data), DB_TEXT(settings.data)};
        status = sync_run(db, NULL, sql_register.text, 6, params, result, err);
    }
    buf_finish(&names);
    buf_finish(&path);
    buf_finish(&settings);
    return status;
}

enum exit_status definition_register(struct db_sync *db, struct definition *definition, enum definition_use use,
                                     struct buf *said) {
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    enum status status = definition_send(db, definition->def, use, &result, &err);
    enum exit_status exit_status = status == STATUS_OK ? on_registered(definition, result, said) : say_error(&err, said);
    sync_result_free(result);
    return exit_status;
}

struct node_pipeline definition_for_node(const struct definition *definition) {
    return (struct node_pipeline){definition->def, definition->id, definition->revision, definition->stage_ids,
                                  definition->elsewhere};
}

void definition_finish(struct definition *definition) {
    pipeline_free(definition->def);
    free(definition->stage_ids);
    free(definition->elsewhere);
    free(definition->called);
    *definition = (struct definition){0};
}
