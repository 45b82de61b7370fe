/* main.c - pgstage COMMAND: the table of commands. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static const struct command *const commands[] = {
    &command_check, &command_run_pipelines, &command_submit, &command_status,  &command_tasks,
    &command_show,  &command_retry,         &command_rerun,  &command_cancel,  &command_apply,
    &command_priority, &command_pause,      &command_resume, &command_drain,   &command_errors,
    &command_schedule, &command_stats,      &command_prune,  &command_migrate, &command_schema,
    &command_db,
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_commands(FILE *out) {
    fprintf(out, "pgstage moves documents through the stages of a pipeline, on PostgreSQL.\n\nusage: pgstage COMMAND ...\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    fprintf(out, "\n`pgstage COMMAND --help` says more. Begin with: pgstage run FILE\n");
}

int main(int argc, char **argv) {
    /* Output into a pipe that closes (| head) ends the program quietly, as with any other tool. */
    signal(SIGPIPE, SIG_DFL);
    if (argc < 2) {
        print_commands(stderr);
        return EXIT_WRONG;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_commands(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("pgstage " PGSTAGE_VERSION);
        return EXIT_OK;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i]->name) == 0) {
            return (int)command_run(commands[i], argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "pgstage: there is no command '%s'; `pgstage help` lists them\n", argv[1]);
    return EXIT_WRONG;
}
