/* workers.h - the operation table through which the scheduler runs tasks in worker processes.
 *
 * The real one is orchestrator/workers; a simulation gives its own. A pool is one stage's worker processes. When: loop
 * thread only. `start` that returns OK is followed by exactly one `ended` event for that run, never before `start`
 * returned; one that fails is followed by none. A worker whose run was killed is reaped, with all that its group held,
 * before `ended` is called: after `ended` nothing of that run is alive.
 */
#ifndef PORTS_WORKERS_H
#define PORTS_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct pool; /* opaque */

struct pool_limits {
    int64_t address_space_bytes, cpu_seconds, file_size_bytes, open_files; /* 0: none */
    int nice;                                                              /* added to the node's own */
};

/* What a worker process runs. */
enum pool_engine {
    POOL_HANDLER, /* a function of a shared object */
    POOL_COMMAND, /* a program for each task */
    POOL_PROGRAM, /* a program that stays, and speaks JSON lines */
};

/* What a POOL_COMMAND's standard output is. */
enum pool_stdout { POOL_STDOUT_JSON, POOL_STDOUT_TEXT, POOL_STDOUT_IGNORE };

/* Borrowed for the call. */
struct pool_spec {
    const char *pipeline, *stage;
    enum pool_engine engine;
    const char *handler_file, *handler_name; /* POOL_HANDLER: absolute path; symbol. Else "" */
    const char *const *arguments; /* POOL_COMMAND, POOL_PROGRAM: the program and its arguments, NULL-terminated; else NULL */
    enum pool_stdout stdout_form;
    const char *config; /* JSON object text */
    const char *folder; /* absolute, of the pipeline file; NULL: none */
    int workers;
    int64_t timeout_ms; /* 0: none */
    int64_t grace_ms;   /* between TERM and KILL */
    struct pool_limits limits;
    const char *const *env; /* NAME, from the node's environment, or NAME=VALUE; NULL-terminated; NULL: none but the usual */
    const char *user;       /* whom the workers run as; NULL: whoever runs the node */
    int batch_size;         /* runs that are given to a worker at once; 0: one by one. A batch that fails as a whole (crash,
                             * time-out, loss, or its handler says so) is run again in halves, until the run that is to
                             * blame stands alone: only that one's failure is told */
    int64_t batch_wait_ms;  /* how long a batch that is not full waits for more */
    int recycle_runs;       /* a worker is replaced after so many; 0: never */
    int64_t recycle_bytes;  /* and when it holds so much memory; 0: never */
};

/* Text of length bytes; NULL when absent. */
struct pool_text {
    const char *data;
    size_t length;
};

/* Borrowed for the call. */
struct pool_task {
    uint64_t run; /* chosen by the scheduler, unique in the process */
    int64_t version;
    int attempt; /* the handler sees this number: 1 at the first run */
    bool alone;  /* give it a fresh process, with nothing else in its pipe */
    struct pool_text key, payload, input;
    struct pool_text inputs; /* JSON object: outputs of earlier stages by name; absent: it asks for none */
    bool has_progress;       /* of an earlier run of the stage in this version */
    double progress;
    struct pool_text progress_text;
};

enum pool_end {
    POOL_OK,
    POOL_RETRY,       /* the handler says: may succeed later */
    POOL_FAIL,        /* the handler says: never */
    POOL_CRASH,       /* its worker died of SEGV, BUS, ILL, FPE, ABRT, SYS, XCPU or XFSZ, or exited by itself */
    POOL_TIMEOUT,     /* the stage's time-out; the worker was killed */
    POOL_LOST,        /* its worker died of anything else (KILL by somebody else, say): not the document's fault */
    POOL_INTERRUPTED, /* killed because the scheduler asked for it */
    POOL_RETURNED,    /* never begun: given back untouched */
};

struct pool_statement {
    struct pool_text sql;
    int parameter_count;
    const struct pool_text *parameters; /* data NULL: SQL NULL */
};

/* Where the task goes after a run that ended well. */
enum pool_flow {
    POOL_GO_ON,  /* to the next stage */
    POOL_ROUTE,  /* to the stage named `target` */
    POOL_FINISH, /* it is done */
    POOL_SNOOZE, /* the stage is not done: again after `delay_ms`, no attempt used; output and statements do not count */
};

/* Borrowed for the callback. */
struct pool_outcome {
    enum pool_end end;
    int64_t run_us;   /* of a run in a batch: its share, the time of the batch divided by its size */
    const char *kind; /* for `failure`, NULL when OK. RETRY, FAIL: "error"; CRASH: "crash" (a signal of its own doing),
                       * "memory" (proven), "no_answer" (it exited without one), "protocol" (what it said made no sense);
                       * TIMEOUT: "timeout"; LOST: "killed" (a signal from somebody else), "silence" (a fresh worker, for a
                       * task that runs alone, said nothing); and "interrupted", "returned" */
    struct pool_text message;   /* why; absent when OK */
    struct pool_text last_output; /* last lines of the worker's stderr and stdout; absent when OK or empty */
    struct pool_text output;    /* JSON text */
    int statement_count;
    const struct pool_statement *statements;
    enum pool_flow flow;      /* of POOL_OK */
    struct pool_text target;  /* POOL_ROUTE */
    int64_t delay_ms;         /* POOL_SNOOZE */
};

struct pool_events {
    /* The run is over. */
    void (*ended)(void *context, struct pool *pool, uint64_t run, const struct pool_outcome *outcome);
    /* The pool may take more (or fewer) tasks than before: a worker is up, died, or was parked. */
    void (*changed)(void *context, struct pool *pool);
    /* The pool's last process is reaped; `pool` is freed when this returns. Follows close() once. */
    void (*closed)(void *context, struct pool *pool);
    /* Shown by status; text borrowed. */
    void (*progress)(void *context, struct pool *pool, uint64_t run, double fraction, const char *text);
    void *context;
};

enum pool_state { POOL_STARTING, POOL_UP, POOL_PARKED };

struct workers_ops {
    /* Starts the pool's workers. OK: `closed` comes exactly once, after close(). */
    enum status (*open)(void *context, const struct pool_spec *spec, const struct pool_events *events,
                        struct pool **pool, struct error *err);
    /* How many more tasks the pool takes now. One per idle worker; more only while the mean run time is under 5 ms. With
     * batches: batch_size per idle worker, less those that are gathered. */
    int (*room)(const struct pool *pool);
    /* Whether a worker is idle, with nothing in its pipe. */
    bool (*has_idle)(const struct pool *pool);
    /* AGAIN: no room now; it can shrink by itself between room() and start(), when a run in hand turns out to be long.
     * An `alone` task is taken when a fresh worker is there or can be had, and may wait for it inside of the pool. */
    enum status (*start)(struct pool *pool, const struct pool_task *task, struct error *err);
    /* Passes on that the run's task was cancelled or superseded; one that is gathered for a batch ends as RETURNED.
     * Unknown runs are ignored. */
    void (*tell)(struct pool *pool, uint64_t run, bool cancelled, bool superseded);
    /* Kills the worker that has the run: TERM to its group, grace, KILL; ends as INTERRUPTED. Other runs in its pipe, also
     * those of the same batch, end as RETURNED. Unknown runs are ignored. */
    void (*interrupt)(struct pool *pool, uint64_t run);
    /* Interrupts all runs of all pools at once: the node's lease is about to end, or a second stop signal came. `now`:
     * KILL without a grace. */
    void (*interrupt_all)(void *context, bool now);
    /* Nothing more comes for now: what is gathered for a batch, and what would run again because its batch failed as a
     * whole, ends as RETURNED, until the next `start`. */
    void (*give_back)(struct pool *pool);
    /* Ends the pool: workers that are idle stop at once, others when their pipe is empty. */
    void (*close)(struct pool *pool);
    /* State, and why it is parked, or why the last process did not get ready when none did since (NULL: no such thing
     * happened); borrowed until the next call on the pool. */
    enum pool_state (*state)(const struct pool *pool, const char **reason);
    /* The node's lease was renewed: told to every worker. Units: ms of CLOCK_BOOTTIME. */
    void (*set_lease_end)(void *context, int64_t lease_end_ms);
    void *context;
};

#endif
