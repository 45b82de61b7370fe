/* rig.h - runs the real program on a fresh database of the shared test server and keeps what it printed.
 *
 * One database and one folder a test: set .init and .fini of a suite to cli_begin and cli_end. Failures end the test.
 */
#ifndef CLI_RIG_H
#define CLI_RIG_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct run {
    int status;     /* exit status, or 128 + signal */
    char *out, *err; /* what it printed, borrowed until the next run */
    long peak_kb;   /* the most memory it had at a time */
};

void cli_begin(void); /* a migrated database */
void cli_begin_without_database(void); /* PGSTAGE_DATABASE_URL leads nowhere */
void cli_end(void);
const char *cli_folder(void);
const char *cli_url(void);

/* sh -c 'exec pgstage ARGUMENTS', in the folder, with PGSTAGE_DATABASE_URL and PGSTAGE_HOME set. The arguments are words of a
 * shell: they may be quoted, and redirect. $PGSTAGE is the program. */
struct run *cli(const char *arguments, ...) __attribute__((format(printf, 1, 2)));
/* sh -c COMMAND in the same surroundings. */
struct run *shell(const char *command, ...) __attribute__((format(printf, 1, 2)));
/* Runs, and wants the status, the first line of standard error, and nothing on standard output. */
struct run *cli_refuses(int status, const char *first_line, const char *arguments, ...) __attribute__((format(printf, 3, 4)));
/* Runs, wants status 0 and exactly this on standard output, and nothing on standard error. */
void cli_prints(const char *out, const char *arguments, ...) __attribute__((format(printf, 2, 3)));

/* First line of a text; borrowed until the next call. */
const char *first_line(const char *text);
bool has(const char *text, const char *part);

void write_file(const char *name, const char *text);

/* A pipeline `lib` of two stages, "first" and "second": keys that begin with "bad" fail at the second. Registered. */
void make_pipeline(void);
/* Processes what is ready: `run --until-idle`. */
void process(void);
/* `run FILE` in the background until node_stop, which wants status 0. */
void node_start(const char *file);
void node_stop(void);
/* Runs `status` again and again until it shows the text; borrowed until the next run. */
const char *await_status(const char *text);
/* Makes a ready task look claimed by a node. */
void claim(const char *key);

int64_t number(const char *sql);
char *text(const char *sql); /* free() it */

/* The program on a terminal of its own: arguments as for cli(). */
struct terminal;
struct terminal *terminal_start(const char *arguments);
void terminal_type(struct terminal *terminal, const char *bytes);
/* Reads until the text has come; fails the test when it does not. Everything read so far; borrowed. */
const char *terminal_await(struct terminal *terminal, const char *text);
/* Waits for the end: its exit status. Frees the terminal; *all (free it) is what was shown. */
int terminal_end(struct terminal *terminal, char **all);

#endif
