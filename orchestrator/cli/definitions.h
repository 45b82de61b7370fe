/* definitions.h - loading pipeline files for a command, and registering them in the database. */
#ifndef CLI_DEFINITIONS_H
#define CLI_DEFINITIONS_H

#include "cli/command.h"
#include "config/pipeline.h"
#include "node/node.h"

struct definition {
    struct pipeline_def *def; /* owned */
    int id, revision;
    int *stage_ids; /* owned */
};

/* Loads a file; mistakes are printed. */
enum exit_status definition_load(const char *path, struct definition *definition);
/* Whether an argument of `run` names a pipeline in the database rather than a file. */
bool definition_is_name(const char *argument);
/* Loads the current definition of a pipeline from the database. */
enum exit_status definition_load_named(struct db_sync *db, const char *name, struct definition *definition);
/* What registering would do, without doing it: printed. EXIT_REFUSED when `run` would refuse it. */
enum exit_status definition_compare(struct db_sync *db, const struct definition *definition);
/* mode: "run" or "apply". Says what it did on standard error; refused: EXIT_REFUSED. */
enum exit_status definition_register(struct db_sync *db, struct definition *definition, const char *mode);
void definition_finish(struct definition *definition);

#endif
