/* program_lines.h - the messages of the worker protocol (docs/worker-protocol.md) that go to the program. Each appends one
 * message, without its newline. Thread rule: none. */
#ifndef WORKER_PROGRAM_LINES_H
#define WORKER_PROGRAM_LINES_H

#include "worker/engine.h"

void program_put_hello(struct buf *out, const struct wire_hello *hello);
/* A task has the id `first_id`; a batch has it, and its tasks have those that follow. */
void program_put_call(struct buf *out, const struct wire_hello *hello, const struct engine_call *call, uint64_t first_id);
void program_put_tell(struct buf *out, uint64_t id, bool cancelled, bool superseded);
void program_put_stop(struct buf *out);

#endif
