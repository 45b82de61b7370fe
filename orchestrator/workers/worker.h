/* worker.h - one worker process, from its start until it is reaped and its memory is free.
 *
 * Used by pool.c, which owns the runs; a worker lists those that are in its pipe. When: loop thread
 * only; events come from the loop, never from inside a call. The machine and its diagram are in
 * worker.c.
 */
#ifndef WORKERS_WORKER_H
#define WORKERS_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/clock.h"
#include "base/close_group.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/oom.h"
#include "ports/workers.h"
#include "wire/messages.h"
#include "workers/brakes.h"
#include "workers/output.h"
#include "workers/run.h"
#include "workers/stream.h"
#include "workers/work_folder.h"
#include "workers/throttle.h"

enum worker_state {
    WORKER_STARTING, /* HELLO is sent */
    WORKER_IDLE,
    WORKER_BUSY,        /* runs are in its pipe */
    WORKER_STOPPING,    /* STOP is sent */
    WORKER_LEAVING,     /* it refused, or its connection ended: it should exit by itself */
    WORKER_TERMINATING, /* TERM is sent to its group */
    WORKER_KILLING,     /* KILL is sent to its group */
    WORKER_ENDING,      /* reaped; the rest of its group and of its output is awaited */
    WORKER_DEAD,
};
enum { WORKER_STATE_COUNT = WORKER_DEAD + 1 };

/* Why we ended it. */
enum worker_cause {
    CAUSE_NONE, /* we did not */
    CAUSE_STOP,
    CAUSE_TIMEOUT,
    CAUSE_INTERRUPT,
    CAUSE_PROTOCOL,
    CAUSE_SILENCE, /* neither READY nor REFUSED in time */
    CAUSE_REFUSED,
    CAUSE_SPAWN, /* there never was a process */
};

/* What the workers of a pool share. Borrowed; outlives them. */
struct worker_setup {
    uv_loop_t *loop;
    const struct clock_ops *clock;
    struct stream_flusher *flusher;
    const char *program;
    int lock_fd; /* -1: none */
    struct work_folders *folders;
    struct oom_watch *oom;
    struct throttle *throttle;
    int64_t start_timeout_ms;
    const int64_t *lease_end_ms;
    const struct pool_spec *spec;
    struct log_limit *output_limit, *log_limit;
    char *room; /* for reads that are used up at once */
    size_t room_bytes;
};

struct worker_death {
    enum brakes_cause cause;
    const char *reason;
    int64_t started_ms;
    bool silent; /* it said nothing at its start */
};

struct worker_events {
    void (*ready)(void *context, struct worker *worker);
    /* The run left the worker's pipe. */
    void (*over)(void *context, struct worker *worker, struct run *run,
                 const struct pool_outcome *outcome);
    void (*progress)(void *context, struct run *run, double fraction, const char *text);
    /* The process and its group are gone; follows the last `over`. */
    void (*dead)(void *context, struct worker *worker, const struct worker_death *death);
    /* Its memory is free; follows `dead`. */
    void (*closed)(void *context);
    void *context;
};

struct worker {
    const struct worker_setup *setup;
    struct worker_events events;
    int number;
    enum worker_state state;
    enum worker_cause cause;
    char why[512]; /* in words, for some causes */

    uv_process_t process;
    pid_t group; /* 0: there is none */
    char *work;  /* its folder; NULL: none */
    struct stream channel;
    uv_pipe_t streams[OUTPUT_STREAM_COUNT];
    struct throttled flows[OUTPUT_STREAM_COUNT]; /* of `streams` */
    uv_timer_t timer;
    struct close_group closing;
    struct output output;

    struct list pipe;     /* runs, the one in hand first */
    struct list answered; /* runs whose fate was decided before their answer came */
    int depth;            /* runs in `pipe` */
    int unsent;           /* of those, the last ones, of which the worker got no byte */
    int interrupts;       /* of those, RUN_INTERRUPTED while another was in hand */
    bool fresh;           /* has run nothing */
    bool exclusive;       /* what is in its pipe wants to be alone */
    bool stop_wanted;     /* stops when its pipe is empty */
    bool said_last;       /* it begins nothing more, and ends by itself */
    int64_t runs_left;    /* that it may be given until it is replaced */
    int64_t started_ms, head_ms, interrupt_by_ms;
    int64_t lease_told_ms;

    bool was_ready, last_call, group_gone, strays_gone, draining;
    int open_ends; /* of channel, stdout, stderr */
    int polls;     /* for the rest of the group */
    int64_t exit_status;
    int exit_signal;
};

/* Never fails: what cannot be started dies at once. */
struct worker *worker_create(const struct worker_setup *setup, const struct worker_events *events,
                             int number);

/* The worker must be idle or busy. INVALID: the message is too large, nothing was changed. */
enum status worker_give(struct worker *worker, struct run *run, const struct wire_run *message,
                        struct error *err) MUST_CHECK;

/* The run must be in its pipe. */
void worker_tell(struct worker *worker, const struct run *run, bool cancelled, bool superseded);
void worker_interrupt(struct worker *worker, struct run *run);
void worker_interrupt_all(struct worker *worker, bool now);

/* Ends it in order, when its pipe is empty. */
void worker_stop(struct worker *worker);

/* The lease was renewed. */
void worker_beat(struct worker *worker);

/* How many more runs it may be given, when `limit` may be in its pipe. */
int worker_room(const struct worker *worker, int limit, int64_t now_ms);

#endif
