/* environment.h - the variables that a worker gets: a few that programs need, and those that its stage lists.
 *
 * Nothing else of the node's own: it holds passwords (PGPASSWORD, PGSTAGE_DATABASE_URL), and what a handler sees shall not
 * depend on the shell that a node was started from. Pure but for the environment that it reads.
 */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include "base/arena.h"

struct environment_spec {
    const char *pipeline, *stage;
    const char *const *env; /* NAME=VALUE, or NAME as it is here; ends with NULL. NULL: none */
    const char *work;       /* the worker's folder; NULL: none */
};

/* NULL-terminated, in the arena. */
char **environment_build(struct arena *arena, const struct environment_spec *spec);

#endif
