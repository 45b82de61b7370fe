#include "cli/definitions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "config/settings.h"
#include "db/array.h"
#include "sql/statements.h"

static enum exit_status take_report(enum status status, struct config_report *report, const struct error *err) {
    if (status != STATUS_OK && report->mistakes > 0) {
        fwrite(report->text.data, 1, report->text.length, stderr);
    } else if (status != STATUS_OK) {
        report_error(err);
    }
    config_report_finish(report);
    return status == STATUS_OK ? EXIT_OK : EXIT_WRONG;
}

enum exit_status definition_load(const char *path, struct definition *definition) {
    struct config_report report = {0};
    struct error err = ERROR_NONE;
    *definition = (struct definition){0};
    return take_report(pipeline_load(path, &definition->def, &report, &err), &report, &err);
}

bool definition_is_name(const char *argument) {
    size_t length = strlen(argument);
    bool has_suffix = (length > 5 && strcmp(argument + length - 5, ".yaml") == 0) ||
                      (length > 4 && strcmp(argument + length - 4, ".yml") == 0);
    return strchr(argument, '/') == NULL && !has_suffix && access(argument, F_OK) != 0;
}

enum exit_status definition_load_named(struct db_sync *db, const char *name, struct definition *definition) {
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    *definition = (struct definition){0};
    if (sync_run(db, NULL, sql_current_definition.text, 1, &DB_TEXT(name), &result, &err) != STATUS_OK) {
        return report_error(&err);
    }
    enum exit_status exit_status = EXIT_WRONG;
    if (db_rows(result) == 0) {
        fprintf(stderr, "pgstage: there is neither a file nor a pipeline named '%s'\n", name);
    } else if (db_is_null(result, 0, 1)) {
        fprintf(stderr, "pgstage: where the file of pipeline '%s' lies is not known: run the file once\n", name);
    } else {
        struct config_report report = {0};
        exit_status = take_report(pipeline_parse(db_value(result, 0, 1), db_value(result, 0, 0), db_length(result, 0, 0),
                                                 &definition->def, &report, &err),
                                  &report, &err);
    }
    sync_result_free(result);
    return exit_status;
}

static enum exit_status on_registered(struct definition *definition, const struct db_result *result) {
    const char *outcome = db_value(result, 0, 3), *detail = db_value(result, 0, 4);
    const char *name = definition->def->name;
    if (strcmp(outcome, "refused") == 0) {
        fprintf(stderr,
                "pgstage: %s: refused, %s\n"
                "Keep the stage until its tasks are done, or cancel them: pgstage cancel %s --stage NAME\n",
                definition->def->file, detail, name);
        return EXIT_REFUSED;
    }
    definition->id = (int)db_int64(result, 0, 0);
    definition->revision = (int)db_int64(result, 0, 1);
    int64_t *ids = NULL;
    int count = array_read_ints(db_value(result, 0, 2), &ids);
    if (count != definition->def->stage_count) {
        free(ids);
        fprintf(stderr, "pgstage: %s: the database knows other stages than the file\n", definition->def->file);
        return EXIT_REFUSED;
    }
    free(definition->stage_ids); /* of an earlier try */
    definition->stage_ids = mem_alloc(sizeof *definition->stage_ids * (size_t)(count + 1));
    for (int i = 0; i < count; i++) {
        definition->stage_ids[i] = (int)ids[i];
    }
    free(ids);
    if (strcmp(outcome, "older") == 0) {
        fprintf(stderr, "pgstage: %s: %s; it runs as that. To make it current again: pgstage apply %s\n",
                definition->def->file, detail, definition->def->file);
    }
    return EXIT_OK;
}

static enum status send_definition(struct db_sync *db, const struct pipeline_def *def, const char *mode,
                                   struct db_result **result, struct error *err) {
    struct buf names, path, settings;
    buf_init(&names, (size_t)1 << 20);
    buf_init(&path, (size_t)1 << 16);
    buf_init(&settings, (size_t)1 << 24);
    const char *base = strrchr(def->file, '/');
    buf_append_format(&path, "%s/%s", def->folder, base == NULL ? def->file : base + 1);
    array_begin(&names);
    for (int i = 0; i < def->stage_count; i++) {
        array_add_text(&names, def->stages[i].name, strlen(def->stages[i].name));
    }
    array_end(&names);
    settings_write(def, &settings);
    struct db_param params[] = {DB_TEXT(def->name), DB_TEXT(def->text), DB_TEXT(names.data), DB_TEXT(mode),
                                DB_TEXT(path.data), DB_TEXT(settings.data)};
    enum status status = sync_run(db, NULL, sql_register.text, 6, params, result, err);
    buf_finish(&names);
    buf_finish(&path);
    buf_finish(&settings);
    return status;
}

enum exit_status definition_compare(struct db_sync *db, const struct definition *definition) {
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    enum status status = sync_script(db, "begin", &err);
    if (status == STATUS_OK) {
        status = send_definition(db, definition->def, "run", &result, &err);
        struct error ignored = ERROR_NONE;
        enum status rolled_back = sync_script(db, "rollback", &ignored);
        status = status == STATUS_OK ? rolled_back : status;
    }
    if (status != STATUS_OK) {
        sync_result_free(result);
        return report_error(&err);
    }
    const char *outcome = db_value(result, 0, 3), *detail = db_value(result, 0, 4);
    bool refused = strcmp(outcome, "refused") == 0;
    printf("%s: against the database: %s%s%s\n", definition->def->file, outcome, *detail == '\0' ? "" : ", ", detail);
    sync_result_free(result);
    return refused ? EXIT_REFUSED : EXIT_OK;
}

enum exit_status definition_register(struct db_sync *db, struct definition *definition, const char *mode) {
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    enum status status = send_definition(db, definition->def, mode, &result, &err);
    enum exit_status exit_status = status == STATUS_OK ? on_registered(definition, result) : report_error(&err);
    sync_result_free(result);
    return exit_status;
}

void definition_finish(struct definition *definition) {
    pipeline_free(definition->def);
    free(definition->stage_ids);
    *definition = (struct definition){0};
}
