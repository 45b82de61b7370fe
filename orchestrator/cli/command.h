/* command.h - what every command of the program shares: its entry in the table, its options, its exit status.
 *
 * Exit status: 0 done; 1 the work was done and some of it failed; 2 the command or a file was wrong, nothing was changed;
 * 3 the database cannot be reached; 4 refused: a choice is needed, or the schema does not fit.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "db/locate.h"
#include "db/sync.h"

enum exit_status { EXIT_OK = 0, EXIT_SOME_FAILED = 1, EXIT_WRONG = 2, EXIT_NO_DATABASE = 3, EXIT_REFUSED = 4 };

/* One option a command takes; the table ends with a NULL name. Every command also takes --database, --home, --help. */
struct option_spec {
    const char *name;  /* without the dashes */
    const char *value; /* what it takes, for the usage line ("FILE"); NULL: a switch; one that ends in "..." may be given
                          again, and is read by args_each */
    const char *help;
};

enum { ARGS_MAX_OPTIONS = 24, ARGS_MAX_GIVEN = 64, ARGS_MAX_WEEKS = 520 /* of a duration */ };

struct args {
    const struct command *command;
    const char *values[ARGS_MAX_OPTIONS]; /* by position in the option table; "" for a switch that is set */
    struct {
        int option;
        const char *value;
    } given[ARGS_MAX_GIVEN]; /* options that may come again, in their order */
    int given_count;
    const char *database, *home;
    int count; /* positional arguments */
    char **positional;
};

struct command {
    const char *name;
    const char *usage; /* after "pgstage NAME" */
    const char *summary;
    const struct option_spec *options;
    int min_positional, max_positional; /* max -1: any number */
    bool no_database;                   /* it uses none: --help does not name the options that lead to one */
    const char *pass_after;             /* a first argument after which everything belongs to another program; or NULL */
    enum exit_status (*run)(const struct args *args);
};

/* The value of an option; NULL when it was not given. The name must be in the command's table. */
const char *args_get(const struct args *args, const char *name);
bool args_has(const struct args *args, const char *name);
/* The values of an option that may be given again, one by one: *at begins with 0. NULL: no more. */
const char *args_each(const struct args *args, const char *name, int *at);

/* Parses and runs; a mistake prints the usage line that matters and gives EXIT_WRONG. */
enum exit_status command_run(const struct command *command, int argc, char **argv);
/* What COMMAND --help prints. */
void command_help(const struct command *command);

/* "pgstage COMMAND: what is wrong" and the usage line; returns EXIT_WRONG. What it quotes is made safe for terminals. */
enum exit_status usage_error(const struct args *args, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Behind the text of an error: "", or a line of its own that says what can be done, as which role is wanted. */
const char *error_hint(const struct error *err);
/* Prints an error where a person looks, with its hint, and the exit status that its code means. */
enum exit_status report_error(const struct error *err);

/* The exit status alone. */
enum exit_status error_exit_status(const struct error *err);

/* Whole numbers, and durations of up to ARGS_MAX_WEEKS, from an option; a mistake is printed and gives false. */
bool args_int(const struct args *args, const char *name, int64_t min, int64_t max, int64_t *value);
bool args_duration(const struct args *args, const char *name, int64_t *ms);

/* ---- the database of a command ------------------------------------------------------------------------------------ */

struct session {
    struct database database;
    struct db_sync *db;
};

/* Finds the database (starting the embedded one), connects, and checks the schema: the embedded one is brought up to
 * date by itself, another one by `pgstage migrate` only. EXIT_OK, or the error is printed. */
enum exit_status session_open(const struct args *args, struct session *session);
/* The same without looking at the schema. */
enum exit_status session_open_raw(const struct args *args, struct session *session);
/* As session_open, with the error for the caller to report. */
enum status session_connect_checked(const struct args *args, struct session *session, struct error *err) MUST_CHECK;
void session_close(struct session *session);

extern const struct command command_check, command_run_pipelines, command_submit, command_status, command_tasks,
    command_show, command_errors, command_retry, command_priority, command_pause,
    command_resume, command_drain, command_stats, command_prune, command_schedule, command_rerun, command_cancel,
    command_apply, command_migrate, command_schema, command_conform, command_new, command_try, command_db;

#endif
