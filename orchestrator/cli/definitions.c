#include "cli/definitions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "db/array.h"
#include "sql/statements.h"

enum exit_status definition_load(const char *path, struct definition *definition) {
    struct config_report report = {0};
    struct error err = ERROR_NONE;
    *definition = (struct definition){0};
    enum status status = pipeline_load(path, &definition->def, &report, &err);
    enum exit_status exit_status = EXIT_OK;
    if (status != STATUS_OK) {
        exit_status = EXIT_WRONG;
        if (report.mistakes > 0) {
            fwrite(report.text.data, 1, report.text.length, stderr);
        } else {
            report_error(&err);
        }
    }
    config_report_finish(&report);
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

enum exit_status definition_register(struct db_sync *db, struct definition *definition, const char *mode) {
    const struct pipeline_def *def = definition->def;
    struct buf names;
    buf_init(&names, (size_t)1 << 20);
    array_begin(&names);
    for (int i = 0; i < def->stage_count; i++) {
        array_add_text(&names, def->stages[i].name, strlen(def->stages[i].name));
    }
    array_end(&names);
    struct db_param params[] = {DB_TEXT(def->name), DB_TEXT(def->text), DB_TEXT(names.data), DB_TEXT(mode)};
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    enum status status = sync_run(db, NULL, sql_register.text, 4, params, &result, &err);
    buf_finish(&names);
    enum exit_status exit_status = status == STATUS_OK ? on_registered(definition, result) : report_error(&err);
    sync_result_free(result);
    return exit_status;
}

void definition_finish(struct definition *definition) {
    pipeline_free(definition->def);
    free(definition->stage_ids);
    *definition = (struct definition){0};
}
