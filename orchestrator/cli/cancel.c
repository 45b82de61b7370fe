/* cancel.c - pgstage cancel: tasks that are not at their end go no further. */
#include "cli/actions.h"

static enum exit_status run_cancel(const struct args *args) {
    static const char *const statuses[] = {"ready", "running", "delayed", "waiting", "failed", NULL};
    static const struct action action = {
        .statement = &sql_cancel,
        .verb = "cancel",
        .done = "cancelled",
        .statuses = statuses,
        .every_key = true,
        .otherwise = "it is at its end",
    };
    return action_run(args, &action);
}

static const struct option_spec options[] = {ACTION_OPTIONS, {0}};

const struct command command_cancel = {
    .name = "cancel",
    .usage = "PIPELINE KEY...|--status S|--stage S|--key PATTERN|--error PATTERN|--older-than D [--yes] [--json]",
    .summary = "cancel tasks; running ones are told within a second",
    .options = options,
    .min_positional = 1,
    .max_positional = -1,
    .run = run_cancel,
};
