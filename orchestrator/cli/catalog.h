/* catalog.h - the names of pipelines and stages that the database knows, to check what a user wrote. */
#ifndef CLI_CATALOG_H
#define CLI_CATALOG_H

#include "cli/command.h"

/* Prints what is wrong with the names, and what may be meant; EXIT_WRONG then. `stage` may be NULL; `current`: it must be
 * one of the current definition, else one that tasks may still stand at will do. */
enum exit_status catalog_check(struct db_sync *db, const char *pipeline, const char *stage, bool current);

/* Opens a session for a command about a pipeline, or about one of its stages; both may be NULL. Not EXIT_OK: what was wrong
 * is printed, and the session is closed. */
enum exit_status catalog_open(const struct args *args, const char *pipeline, const char *stage, struct session *session);

/* Prints that the pipeline has no such task, or that there is no such pipeline, and what may be meant; EXIT_WRONG. */
enum exit_status catalog_no_task(struct db_sync *db, const char *pipeline, const char *key);

/* Prints an error of the task store: one about a pipeline that does not exist as catalog_check does. */
enum exit_status report_store_error(struct db_sync *db, const char *pipeline, const struct error *err);

#endif
