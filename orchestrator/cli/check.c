/* check.c - pgstage check FILE...: validates files with the loader that run uses, and compares them with what is registered.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/definitions.h"
#include "cli/output.h"
#include "cli/run_database.h"

static enum exit_status check_one(const char *path, struct db_sync *db, struct connections *connections) {
    struct definition definition;
    struct buf said;
    buf_init(&said, SIZE_MAX);
    enum exit_status status = definition_load(path, &definition, &said);
    if (status == EXIT_OK) {
        status = definition_check_files(&definition, &said);
    }
    if (status == EXIT_OK) {
        printf("%s: pipeline '%s', %d stage%s: ok\n", text_shown(path), definition.def->name, definition.def->stage_count,
               text_plural(definition.def->stage_count));
        connections_add(connections, &definition);
        if (db != NULL) {
            status = definition_compare(db, &definition, &said);
        }
    }
    definition_finish(&definition);
    return definition_said(status, &said);
}

/* Of a node that runs all the files, and all of their stages. */
static void print_connections(const struct connections *connections, int files) {
    struct buf needs;
    buf_init(&needs, SIZE_MAX);
    connections_describe(connections, &needs);
    printf("a node that runs %s needs %s", files == 1 ? "it" : "them", needs.data);
    if (connections->most > connections->sure) {
        bool handlers = connections->has_handlers, programs = connections->has_programs;
        printf(", and up to %" PRId64 " with ", connections->most);
        if (handlers || programs) {
            printf("the SQL that %s%s%s queue%s", handlers ? "handlers" : "", handlers && programs ? " and " : "",
                   programs ? "programs" : "", connections->has_sources ? ", and " : "");
        }
        fputs(connections->has_sources ? "scans" : "", stdout);
    }
    putchar('\n');
    buf_finish(&needs);
}

static enum exit_status run_check(const struct args *args) {
    enum exit_status worst = EXIT_OK;
    struct session session = {0};
    struct connections connections = CONNECTIONS_NONE;
    bool compare = args_has(args, "against-db"), loaded = true;
    if (compare && (worst = session_open(args, &session)) != EXIT_OK) {
        return worst;
    }
    for (int i = 0; i < args->count; i++) {
        enum exit_status status = check_one(args->positional[i], session.db, &connections);
        worst = status > worst ? status : worst;
        loaded = loaded && status != EXIT_WRONG;
    }
    if (loaded) {
        print_connections(&connections, args->count);
    }
    if (loaded && compare && session.db != NULL) {
        enum exit_status status = connections_compare(session.db, session.database.url, &connections);
        worst = status > worst ? status : worst;
    }
    if (compare) {
        session_close(&session);
    }
    return worst;
}

static const struct option_spec options[] = {
    {"against-db", NULL, "also say what `run` would do, what becomes of the stages, and whether there are connections enough"},
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
