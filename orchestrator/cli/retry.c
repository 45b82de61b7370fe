/* retry.c - pgstage retry: failed tasks run again with fresh counters, delayed ones at once. */
#include "cli/actions.h"

static enum exit_status run_retry(const struct args *args) {
    static const char *const statuses[] = {"failed", "delayed", NULL};
    static const struct action action = {
        .statement = &sql_retry,
        .verb = "retry",
        .done = "retried",
        .statuses = statuses,
        .search_each = true,
        .otherwise = "only failed and delayed tasks are retried; pgstage rerun processes any task again",
    };
    return action_run(args, &action);
}

static const struct option_spec options[] = {ACTION_OPTIONS, {0}};

const struct command command_retry = {
    .name = "retry",
    .usage = "PIPELINE KEY...|--status S|--stage S|--key PATTERN|--error PATTERN|--older-than D [--yes] [--json]",
    .summary = "run failed tasks again, delayed ones at once",
    .options = options,
    .min_positional = 1,
    .max_positional = -1,
    .run = run_retry,
};
