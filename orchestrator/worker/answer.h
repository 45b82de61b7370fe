/* answer.h - what a run left, as a RESULT. Thread rule: the main thread; answer_put_failure any. */
#ifndef WORKER_ANSWER_H
#define WORKER_ANSWER_H

#include "base/buf.h"
#include "worker/engine.h"

/* Appends the RESULT of a task that an engine ran. `minor`: of the node. */
void answer_put(struct buf *out, uint16_t minor, const struct engine_task *task, int64_t run_us);

/* Appends a RESULT that is no success. */
/* `kind` may be NULL. */
void answer_put_failure(struct buf *out, uint64_t run, enum wire_outcome outcome, const char *kind, int64_t run_us,
                        const char *text);

#endif
