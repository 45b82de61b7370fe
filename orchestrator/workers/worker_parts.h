/* worker_parts.h - what the files of one worker's machine share: worker.c (states), worker_calls.c
 * (what the pool asks), worker_frames.c (what the worker says), worker_end.c (how it ends). */
#ifndef WORKERS_WORKER_PARTS_H
#define WORKERS_WORKER_PARTS_H

#include "workers/worker.h"

enum worker_event {
    EVENT_READY,
    EVENT_GIVEN, /* its pipe holds a run */
    EVENT_EMPTY, /* the last run in its pipe was answered */
    EVENT_STOP,
    EVENT_REFUSED,
    EVENT_MALFORMED,
    EVENT_PIPE_END,
    EVENT_DEADLINE,
    EVENT_TERMINATE,
    EVENT_KILL,
    EVENT_EXIT, /* reaped */
    EVENT_GONE, /* so are its group and its output */
};
enum { WORKER_EVENT_COUNT = EVENT_GONE + 1 };

void worker_step(struct worker *worker, enum worker_event event);

/* Says why it is being ended; the first cause stays. */
void worker_blame(struct worker *worker, enum worker_cause cause, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets the state's deadline anew: what it waits for has changed. */
void worker_arm(struct worker *worker);
void worker_arm_after(struct worker *worker, int64_t delay_ms);

static inline struct run *worker_head(const struct worker *worker) {
    return list_is_empty(&worker->pipe) ? NULL : LIST_ENTRY(worker->pipe.next, struct run, link);
}

static inline int64_t worker_now(const struct worker *worker) {
    return clock_now_ms(worker->setup->clock);
}

/* worker_frames.c */
extern const struct stream_events worker_channel_events; /* context to be set */
/* Ownership: wire_hello_finish frees its arguments; the rest is borrowed from the spec. */
struct wire_hello worker_hello(const struct pool_spec *spec, int64_t lease_end_ms);
void worker_send_hello(struct worker *worker);

/* worker_end.c */
void worker_end_poll(struct worker *worker); /* in WORKER_ENDING: something may have ended */
void worker_bury(struct worker *worker);     /* entering WORKER_DEAD */

#endif
