/* check.c - pgstage check FILE...: validates files with the loader that run uses, and compares them with what is registered.
 */
#include <stdio.h>

#include "cli/definitions.h"
#include "cli/output.h"

static enum exit_status check_one(const char *path, struct db_sync *db) {
    struct definition definition;
    struct buf said;
    buf_init(&said, SIZE_MAX);
    enum exit_status status = definition_load(path, &definition, &said);
    if (status == EXIT_OK) {
        printf("%s: pipeline '%s', %d stage%s: ok\n", path, definition.def->name, definition.def->stage_count,
               text_plural(definition.def->stage_count));
        if (db != NULL) {
            status = definition_compare(db, &definition, &said);
        }
    }
    definition_finish(&definition);
    return definition_said(status, &said);
}

static enum exit_status run_check(const struct args *args) {
    enum exit_status worst = EXIT_OK;
    struct session session = {0};
    bool compare = args_has(args, "against-db");
    if (compare && (worst = session_open(args, &session)) != EXIT_OK) {
        return worst;
    }
    for (int i = 0; i < args->count; i++) {
        enum exit_status status = check_one(args->positional[i], session.db);
        worst = status > worst ? status : worst;
    }
    if (compare) {
        session_close(&session);
    }
    return worst;
}

static const struct option_spec options[] = {
    {"against-db", NULL, "also say what `run` would do with the file, and what becomes of its stages"},
    {0},
};

const struct command command_check = {
    .name = "check",
    .usage = "FILE... [--against-db]",
    .summary = "validate pipeline files",
    .options = options,
    .min_positional = 1,
    .max_positional = -1,
    .run = run_check,
};
