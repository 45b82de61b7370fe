/* reload.h - the definitions that `run` works under: read and registered at its start, read again for a reload.
 *
 * Thread rule: reload_read runs in the thread pool, one at a time, with a connection of its own.
 */
#ifndef CLI_RELOAD_H
#define CLI_RELOAD_H

#include "cli/definitions.h"

/* The definitions of one node, in the order of the arguments. */
struct definition_set {
    int count;
    struct definition *definitions; /* owned with the rest */
    struct node_pipeline *pipelines;
    char **rejected;
    struct buf changes;
};

struct reload_source {
    const struct args *args; /* files and names, and what serving.h reads */
    const bool *named;       /* one an argument: it is the name of a pipeline, not a file */
    const char *url;
    const struct definition *first; /* one an argument: as the node was started, when the options were given */
};

void definition_set_init(struct definition_set *set, int count);
void definition_set_finish(struct definition_set *set);

/* Replaces a definition that was found to be that of an earlier one of the last ten revisions by the current one, if that
 * can be worked under. */
enum exit_status reload_take_current(const struct args *args, struct db_sync *db, const char *file,
                                     struct definition *definition, struct buf *said);

/* As node_options.reload and .release; context: struct reload_source. */
enum status reload_read(void *context, const struct node_pipeline *now, bool files, struct node_reload *found,
                        struct error *err);
void reload_release(struct node_reload *found);

#endif
