/* old.h - a program of the first schema: the statements that it sent, word for word, on a connection of its own.
 *
 * Failures end the test with the statement's name.
 */
#ifndef TESTS_FROZEN_OLD_H
#define TESTS_FROZEN_OLD_H

#include <libpq-fe.h>
#include <stdint.h>

enum { OLD_LAST = 5, OLD_NODE = 21, OLD_OTHER_NODE = 22 };

/* A database with the first schema, and pipeline "p" of stages a and b in it. Ownership: free() the URL. */
char *old_database(void);
void old_migrate_to_newest(const char *url);

/* One of 0005/statements; ownership: PQclear the result. NULL parameters are SQL NULL. */
PGresult *old_call(PGconn *pg, const char *statement, int count, ...);
/* The first value of a statement or of any SQL. */
int64_t old_number(PGconn *pg, const char *sql);
char *old_text(PGconn *pg, const char *sql); /* free() it */
void old_exec(PGconn *pg, const char *sql);
char *old_statement(const char *name); /* its text; free() it */

/* ---- what its nodes do ---- */
int64_t old_submit(PGconn *pg, const char *key); /* with the newest stamp; the task's id */
/* Claims one task of a stage ("a"); its id, 0 when there is none. */
int64_t old_claim(PGconn *pg, int64_t node, const char *stage, int64_t claim);
/* One transition, or none (count 0), and how the run ends; the answer ("accepted"). free() it. */
char *old_complete(PGconn *pg, int64_t task, int64_t claim, int count, const char *stage, const char *ending);

#endif
