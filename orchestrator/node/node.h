/* node.h - one running orchestrator process: wires config, queue, workers, scheduler and sources on one libuv loop.
 *
 * node_run blocks until the node has ended. Signals: the first INT or TERM drains (nothing more is claimed, what was not
 * begun goes back, the rest finishes), the second kills what runs and gives it back; neither uses an attempt. HUP, or a
 * new current revision in the database, reloads: a successor takes over in the same process.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "config/pipeline.h"
#include "scheduler/scheduler.h"

/* A definition and what the store calls its parts. Borrowed for the run. */
struct node_pipeline {
    const struct pipeline_def *def;
    int id, revision;
    const int *stage_ids; /* one a stage of the definition */
    const bool *elsewhere; /* one a stage: other nodes serve it, this one does not; NULL: all are served here */
};

/* What a look for newer definitions found. Ownership: `release` of the options takes it back. */
struct node_reload {
    int pipeline_count; /* as before, in the same order */
    const struct node_pipeline *pipelines;
    char *const *rejected; /* one a pipeline: why its newer definition is not taken, so that the old one stays; or NULL */
    const char *changes;   /* for the log: what is different */
    bool is_new;           /* there is something to take */
    void *owner;
};

struct node_report {
    int stage_count;
    const struct scheduler_stage_report *stages;
    const int64_t *open;  /* tasks that stand at the stage and are not at their end, as of the last watch; -1 unknown */
    bool scanning;        /* a source's first scan is not over */
    int64_t done, failed; /* tasks brought to their end by this node */
};

struct node_options {
    const char *url;
    const char *listen_url; /* of the watch connection; NULL: `url` */
    bool pooled;            /* `url` leads to a pooler in transaction mode */
    int pipeline_count;
    const struct node_pipeline *pipelines;
    const char *worker_program; /* absolute path of pgstage-worker */
    const char *lock_folder;    /* where the lock file of this process goes */
    const char *const *labels;  /* of this process, NULL-terminated; NULL: none */
    int64_t lease_ms;           /* 30 s */
    int64_t drain_ms;           /* after that long a drain becomes a kill; 0: never */
    bool no_schedules;          /* fires none */
    bool until_idle;            /* end when sources are scanned once and nothing is open */
    /* Blocking, in the thread pool: looks that the embedded PostgreSQL runs, while it cannot be reached; NULL: not ours. */
    enum status (*tend)(void *context, struct error *err);
    void *tend_context;
    bool (*stop_was_asked)(void); /* before the node listened to signals itself; NULL: nobody did */
    bool (*reload_was_asked)(void);
    /* Blocking, in the thread pool: reads the definitions anew, the files (`files`: registering them) or only what the
     * database has. Transient errors are tried again. NULL: the node never reloads. */
    enum status (*reload)(void *context, const struct node_pipeline *now, bool files, struct node_reload *found,
                          struct error *err);
    void (*release)(struct node_reload *found); /* no node uses it any more */
    void *reload_context;
    void (*report)(void *context, const struct node_report *report); /* four times a second; NULL: not wanted */
    void *context;
};

struct node_result {
    int64_t done, failed;
    int64_t runs;      /* of stages, whatever came of them */
    int64_t elsewhere; /* until_idle: tasks left at stages that this node does not serve */
    int64_t stuck;     /* until_idle: tasks left at stages whose pool is parked or that are paused */
    char stuck_reason[256];
    bool signalled; /* it was told to stop, and did not end by itself */
    bool unclean; /* claims could not be given back: the database was away; rescue does it */
};

enum status node_run(const struct node_options *options, struct node_result *result, struct error *err) MUST_CHECK;

#endif
