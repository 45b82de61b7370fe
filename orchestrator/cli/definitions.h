/* definitions.h - loading pipeline files for a command or a node, and registering them in the database.
 *
 * What is wrong is appended to `said`, ready to print: whole lines. Thread rule: any thread, with a connection of its own.
 */
#ifndef CLI_DEFINITIONS_H
#define CLI_DEFINITIONS_H

#include "base/buf.h"
#include "cli/command.h"
#include "config/pipeline.h"
#include "node/node.h"

struct definition {
    struct pipeline_def *def; /* owned */
    int id, revision;
    int *stage_ids;  /* owned */
    bool *elsewhere; /* owned; one a stage: see serving.h */
    const char **called; /* owned; one a stage: the name that options call it by, NULL: its own. NULL: all by their own */
    bool is_older;   /* registering it found that it equals an earlier one of the last ten revisions */
};

/* Prints what was said on standard error, and empties it. Returns the status. */
enum exit_status definition_said(enum exit_status status, struct buf *said);

/* Loads a file. */
enum exit_status definition_load(const char *path, struct definition *definition, struct buf *said);
/* Whether an argument of `run` names a pipeline in the database rather than a file. */
bool definition_is_name(const char *argument);
/* Loads the current definition of a pipeline from the database, with its ids. Handlers are relative to the folder where its
 * file lay, or, where there is no such folder, to that of `beside` (NULL: none). */
enum exit_status definition_load_current(struct db_sync *db, const char *name, const char *beside,
                                         struct definition *definition, struct buf *said);
/* A copy that belongs to somebody else. */
enum exit_status definition_copy(const struct node_pipeline *from, struct definition *definition, struct buf *said);
/* Whether the shared objects of the stages that are served here can be read, and what is run may be trusted: it lies in the
 * pipeline file's folder or is named by an absolute path, and nobody else may write to it. */
enum exit_status definition_check_handlers(const struct definition *definition, struct buf *said);
/* The same of what is there: handlers may be built later, or on another host. */
enum exit_status definition_check_files(const struct definition *definition, struct buf *said);

enum definition_use { DEFINITION_RUN, DEFINITION_APPLY, DEFINITION_COMPARE };
/* Columns of sql/statements/register.sql. */
enum { REGISTER_PIPELINE, REGISTER_REVISION, REGISTER_STAGES, REGISTER_OUTCOME, REGISTER_DETAIL };
/* Sends a definition to pgstage.register, or to sql/statements/compare.sql. */
enum status definition_send(struct db_sync *db, const struct pipeline_def *def, enum definition_use use,
                            struct db_result **result, struct error *err) MUST_CHECK;
/* What `run` would do with it, without doing it: printed. EXIT_REFUSED when a choice is needed. */
enum exit_status definition_compare(struct db_sync *db, const struct definition *definition, struct buf *said);
/* Refused: EXIT_REFUSED, and what can be done about it is said. */
enum exit_status definition_register(struct db_sync *db, struct definition *definition, enum definition_use use,
                                     struct buf *said);
struct node_pipeline definition_for_node(const struct definition *definition); /* borrows */
void definition_finish(struct definition *definition);

#endif
