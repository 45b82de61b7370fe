/* identity.h - the user of the operating system whom a worker runs as. Thread rule: the main thread, while there is no other. */
#ifndef WORKER_IDENTITY_H
#define WORKER_IDENTITY_H

#include "base/error.h"

/* Becomes that user, with all of that user's groups, for good; the worker's folder `work` (NULL: none) is given to it first.
 * HOME, USER and LOGNAME are set, unless the stage lists them itself (they differ from those of the node's user then).
 * Errors: INVALID there is no such user, or this process is not root's. */
enum status identity_become(const char *user, const char *work, struct error *err) MUST_CHECK;

#endif
