/* cancel.c - pgstage cancel: tasks that are not at their end go no further, and no period runs one again. */
#include "cli/actions.h"

static enum exit_status run_cancel(const struct args *args) {
    static const char *const statuses[] = {"ready", "running", "delayed", "waiting", "failed", NULL};
    static const struct action action = {
        .statement = &sql_cancel,
        .verb = "cancel",
        .done = "cancelled",
        .statuses = statuses,
        .ends_periods = true,
        .otherwise = "it is at its end",
    };
    return action_run(args, &action);
}

static const struct option_spec options[] = {
    SELECTION_OPTIONS,
    {"yes", NULL, "do not ask whether it is meant"},
    {"json", NULL, "print {\"tasks\": N, \"running\": N, \"periods\": N}: how many it was done to; periods of ended tasks"},
    {0},
};

const struct command command_cancel = {
    .name = "cancel",
    .usage = "PIPELINE KEY...|--status S|--stage S|--key PATTERN|--error PATTERN|--older-than D [--yes] [--json]",
    .summary = "cancel tasks; running ones are told within a second; a period ends, also of a task at its end",
    .options = options,
    .min_positional = 1,
    .max_positional = -1,
    .run = run_cancel,
};
