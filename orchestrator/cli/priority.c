/* priority.c - pgstage priority: which of the waiting tasks goes first. */
#include "cli/actions.h"

static enum exit_status run_priority(const struct args *args) {
    static const char *const statuses[] = {"ready", "running", "delayed", "waiting", "failed", NULL};
    static const struct action action = {
        .statement = &sql_priority,
        .verb = "reprioritize",
        .done = "given the priority",
        .number_what = "a priority",
        .statuses = statuses,
        .otherwise = "it is at its end; a submit of a newer version takes --priority",
    };
    return action_run(args, &action);
}

static const struct option_spec options[] = {ACTION_OPTIONS, {0}};

const struct command command_priority = {
    .name = "priority",
    .usage = "PIPELINE N KEY...|--status S|--stage S|--key PATTERN|--error PATTERN|--older-than D [--yes] [--json]",
    .summary = "give waiting tasks another priority: lower goes first",
    .options = options,
    .min_positional = 2,
    .max_positional = -1,
    .run = run_priority,
};
