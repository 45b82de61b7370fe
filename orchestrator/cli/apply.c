/* apply.c - pgstage apply FILE: makes a definition the current one. */
#include <stdio.h>

#include "cli/definitions.h"

static enum exit_status run_apply(const struct args *args) {
    struct definition definition;
    struct buf said;
    buf_init(&said, SIZE_MAX);
    enum exit_status status = definition_load(args->positional[0], &definition, &said);
    if (status == EXIT_OK) {
        status = definition_check_files(&definition, &said);
    }
    if (status == EXIT_OK) {
        struct session session;
        status = session_open(args, &session);
        if (status == EXIT_OK) {
            status = definition_register(session.db, &definition, DEFINITION_APPLY, &said);
            session_close(&session);
        }
        if (status == EXIT_OK) {
            printf("pipeline '%s' is at revision %d\n", definition.def->name, definition.revision);
        }
    }
    definition_finish(&definition);
    return definition_said(status, &said);
}

const struct command command_apply = {
    .name = "apply",
    .usage = "FILE",
    .summary = "make a changed definition the current one",
    .min_positional = 1,
    .max_positional = 1,
    .run = run_apply,
};
