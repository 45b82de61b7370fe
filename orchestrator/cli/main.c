/* main.c - pgstage COMMAND: the table of commands. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "cli/secrets.h"

static const struct command *const commands[] = {
    &command_check, &command_try,           &command_run_pipelines, &command_submit, &command_status,  &command_tasks,
    &command_show,  &command_retry,         &command_rerun,  &command_cancel,  &command_apply,
    &command_priority, &command_pause,      &command_resume, &command_drain,   &command_errors,
    &command_schedule, &command_stats,      &command_prune,  &command_migrate, &command_schema,
    &command_new,     &command_conform,     &command_db,
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_commands(FILE *out) {
    fprintf(out, "pgstage moves documents through the stages of a pipeline, on PostgreSQL.\n\nusage: pgstage COMMAND ...\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    fprintf(out, "\n`pgstage COMMAND --help` and `pgstage help COMMAND` say more. Begin with: pgstage run FILE\n");
}

static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i]->name) == 0) {
            return commands[i];
        }
    }
    struct nearest nearest;
    nearest_init(&nearest, name);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        nearest_offer(&nearest, commands[i]->name);
    }
    fprintf(stderr, "pgstage: there is no command '%s'; ", text_shown(name));
    if (nearest.best != NULL) {
        fprintf(stderr, "did you mean '%s'?\n", nearest.best);
    } else {
        fprintf(stderr, "`pgstage help` lists them\n");
    }
    nearest_finish(&nearest);
    return NULL;
}

/* pgstage help, or help COMMAND. */
static enum exit_status help(int argc, char **argv) {
    if (argc < 3) {
        print_commands(stdout);
        return EXIT_OK;
    }
    const struct command *command = find_command(argv[2]);
    if (command == NULL) {
        return EXIT_WRONG;
    }
    command_help(command);
    return EXIT_OK;
}

static enum exit_status run(int argc, char **argv) {
    if (argc < 2) {
        print_commands(stderr);
        return EXIT_WRONG;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        return help(argc, argv);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("pgstage " PGSTAGE_VERSION);
        return EXIT_OK;
    }
    const struct command *command = find_command(argv[1]);
    return command == NULL ? EXIT_WRONG : command_run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    /* Output into a pipe that closes (| head) ends the program quietly, as with any other tool. */
    signal(SIGPIPE, SIG_DFL);
    secrets_hide_arguments(argc, argv);
    secrets_hide_environment();
    return (int)output_finish(run(argc, argv)); /* whatever printed: output that is lost is no success */
}
