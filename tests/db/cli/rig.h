/* rig.h - parts of the program's commands on a fresh database, called as the commands call them. */
#ifndef CLI_PARTS_RIG_H
#define CLI_PARTS_RIG_H

#include <criterion/criterion.h>

#include "cli/definitions.h"

extern char *rig_url;
extern struct db_sync *rig_db;

/* A folder, which is the current one, a migrated database, and a connection to it; the log is kept. */
void rig_begin(void);
void rig_end(void);

void rig_write(const char *name, const char *text);
/* Of `pgstage run`, with these arguments and one option, if it is not NULL. */
struct args rig_args(int count, char **positional, const char *option, const char *value);
/* Loads the file and makes it the current definition. */
void rig_apply(const char *file, struct definition *definition);
/* Whether a line was logged that has the text in it. */
bool rig_logged(const char *text);

#endif
