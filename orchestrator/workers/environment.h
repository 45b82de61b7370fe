/* environment.h - the variables that a worker gets: a few that programs need, and those that its stage lists.
 *
 * Nothing else of the node's own: it holds passwords (PGPASSWORD, PGSTAGE_DATABASE_URL), and what a handler sees shall not
 * depend on the shell that a node was started from. Pure but for the environment that it reads.
 */
#ifndef WORKERS_ENVIRONMENT_H
#define WORKERS_ENVIRONMENT_H

#include "base/arena.h"
#include "ports/workers.h"

/* NULL-terminated, in the arena. `work`: the worker's folder, NULL: none. */
char **environment_build(struct arena *arena, const struct pool_spec *spec, const char *work);

#endif
