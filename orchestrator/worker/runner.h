/* runner.h - one handler's life in this process: init, runs, fini. Thread rule: the main thread. */
#ifndef WORKER_RUNNER_H
#define WORKER_RUNNER_H

#include "base/error.h"
#include "pgstage/handler.h"
#include "wire/messages.h"

/* Calls the handler's init. INVALID: it failed, with the sentence for the node in `err`. */
enum status runner_start(const struct wire_hello *hello, const struct pgstage_handler *handler,
                         struct error *err) MUST_CHECK;

/* Runs what the node sends, until it says STOP; then fini. */
void runner_run(void);

void runner_send_refused(const char *reason);

#endif
