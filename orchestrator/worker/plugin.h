/* plugin.h - finds a handler in a shared object, or says in a sentence why there is none. Thread
 * rule: the main thread. */
#ifndef WORKER_PLUGIN_H
#define WORKER_PLUGIN_H

#include "base/buf.h"
#include "base/error.h"
#include "pgstage/handler.h"

/* Copies what the handler's registration says; fields that it is too old to have are NULL. The
 * library stays loaded. Errors: NOT_FOUND no such file or handler, INVALID not one that can be
 * used. */
enum status plugin_load(const char *file, const char *name, struct pgstage_handler *handler,
                        struct error *err) MUST_CHECK;

/* Appends "a, b, c": the handlers that a loaded library exports, in order of their names; nothing
 * when there are none. */
void plugin_list_exports(void *library, struct buf *out);

#endif
