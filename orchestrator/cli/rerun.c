/* rerun.c - pgstage rerun: tasks are processed again, whatever became of them, from a stage on. */
#include "cli/actions.h"

static enum exit_status run_rerun(const struct args *args) {
    static const struct action action = {
        .statement = &sql_rerun,
        .verb = "rerun",
        .done = "to be run again",
        .from_stage = true,
    };
    return action_run(args, &action);
}

static const struct option_spec options[] = {
    ACTION_OPTIONS,
    {"from", "STAGE", "keep what the stages before it returned, where they have run"},
    {"all", NULL, "every task of the pipeline"},
    {0},
};

const struct command command_rerun = {
    .name = "rerun",
    .usage = "PIPELINE KEY...|--all|--status S|--stage S|--key PATTERN|--error PATTERN|--older-than D [--from STAGE] [--yes] [--json]",
    .summary = "process tasks again",
    .options = options,
    .min_positional = 1,
    .max_positional = -1,
    .run = run_rerun,
};
