/* check.c - pgstage check FILE...: validates files with the loader that run uses. */
#include <stdio.h>

#include "cli/definitions.h"

static enum exit_status run_check(const struct args *args) {
    enum exit_status worst = EXIT_OK;
    for (int i = 0; i < args->count; i++) {
        struct definition definition;
        enum exit_status status = definition_load(args->positional[i], &definition);
        if (status == EXIT_OK) {
            printf("%s: pipeline '%s', %d stage%s: ok\n", args->positional[i], definition.def->name,
                   definition.def->stage_count, definition.def->stage_count == 1 ? "" : "s");
        }
        worst = status > worst ? status : worst;
        definition_finish(&definition);
    }
    return worst;
}

const struct command command_check = {
    .name = "check",
    .usage = "FILE...",
    .summary = "validate pipeline files",
    .min_positional = 1,
    .max_positional = -1,
    .run = run_check,
};
