/* runner.h - a worker's life in this process: start, runs, stop. Thread rule: the main thread, but for what says any. */
#ifndef WORKER_RUNNER_H
#define WORKER_RUNNER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "wire/messages.h"

/* Starts the engine that the node asked for. INVALID, NOT_FOUND: it cannot be, with the sentence for the node in `err`. */
enum status runner_start(const struct wire_hello *hello, struct error *err) MUST_CHECK;

/* Runs what the node sends, until it says STOP or the engine is over; then stops the engine. */
void runner_run(void);

/* Whether another job waits behind those that run now. */
bool runner_has_more(void);

/* A log line that belongs to no run; in the form of pgstage_host_ops. The node knows of fields (WIRE_MINOR_ENGINES). */
void runner_log_of_nobody(void *context, const char *text, size_t length, const char *fields, size_t fields_length);

/* Of a process that ends, from any thread: nothing is sent when another one is in the middle of a frame. */
void runner_send_refused(const char *reason);
/* Answers each run that is under way: all but one of them because of the others. */
void runner_fail_from_exit(const char *text);

#endif
