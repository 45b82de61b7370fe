/* rig.h - a ready-made pipeline as its user has it: pgstage installed into a folder, the pipeline installed beside it,
 * a fresh database, and the commands of its README run by a shell.
 *
 * One of each a test: .init calls pipeline_begin, .fini is pipeline_end. Failures end the test.
 */
#ifndef PIPELINES_RIG_H
#define PIPELINES_RIG_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>

/* Installs pgstage and pipelines/NAME. In a build with sanitizers `limits: memory` is taken out of the installed file:
 * these need terabytes of address space. */
void pipeline_begin(const char *name);
void pipeline_end(void);

/* sh -c COMMAND in the pipeline's installed folder. $ROOT is a folder for the test, $PREFIX the installation, which is
 * first in PATH; psql goes to the test's database and stops at errors. shell() wants exit status 0, shell_status
 * returns it. Returns what it wrote, borrowed until the next call. */
const char *shell(const char *command, ...) __attribute__((format(printf, 1, 2)));
int shell_status(const char **output, const char *command, ...) __attribute__((format(printf, 2, 3)));

/* `pgstage run NAME.yaml` in the background, with these assignments ("A=b C=d") in its environment; ended by node_stop,
 * which wants status 0. */
void node_start(const char *environment);
void node_kill(void); /* as a power cut would */
void node_stop(void);

const char *root(void);
const char *database(void);
int64_t number(const char *sql);
void expect_text(const char *sql, const char *expected);
/* Waits until the query gives `wanted`. */
void await(const char *sql, int64_t wanted);

#endif
