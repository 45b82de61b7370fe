/* private.h - the node's data, shared by the files of its folder.
 *
 * A process has one loop and one node, or two while a reload replaces the one by the other. Of a node:
 *
 *   UP --(signal, idle)--> DRAINING --(nothing held)--> ENDING --(row ended)--> CLOSING --> the loop ends
 *                             \---- (killed and 10 s over, or the lease lost) ----^
 */
#ifndef NODE_PRIVATE_H
#define NODE_PRIVATE_H

#include <uv.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/close_group.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "node/host.h"
#include "node/node.h"
#include "queue/queue.h"
#include "workers/workers.h"

enum node_state { NODE_UP, NODE_DRAINING, NODE_ENDING, NODE_CLOSING };

/* The identity under which the node claims, and its lease. */
enum lease_state {
    LEASE_NONE,     /* no identity: one is to be started */
    LEASE_STARTING, /* asked for */
    LEASE_HELD,
    LEASE_LEAVING, /* about to end: waiting until nothing is held under it */
};

struct lease {
    enum lease_state state;
    int64_t node, end_ms, sent_ms, next_beat_ms, retry_ms;
    bool beat_in_flight;
    int64_t dead[16]; /* identities of this process that have ended: freed at once, nobody need wait for their lease */
    int dead_count;
    bool ending_dead; /* asked of the store, at a stop */
    struct log_limit start_limit;
};

struct duties {
    bool watch_in_flight, lead_in_flight, end_in_flight;
    int64_t next_watch_ms, watched_ms, next_lead_ms, next_fold_ms;
    bool leads;
    int64_t term, term_since_ms;
    bool idle_candidate; /* the watch in flight was asked while everything was dry */
};

struct schedules {
    bool in_flight;
    int64_t next_ms, not_before_ms;
    struct log_limit failed_limit;
};

/* What the node has told status of itself. */
struct notes {
    bool in_flight;
    int64_t node, next_ms;  /* the identity that it was told under */
    char *stored, *sending; /* owned; JSON texts */
};

struct source {
    struct node *node;
    const struct node_pipeline *pipeline;
    uv_work_t work;
    bool scanning, scanned;
    int64_t asked; /* the newest tick of a schedule that asks for a scan; -1: not heard of yet */
    bool again;    /* it came while a scan was going on */
    int64_t next_ms, retry_ms;
    struct map seen; /* hash of key -> hash of (mtime, size, inode) as last submitted */
    /* of the scan in the thread pool */
    int64_t entries, accepted, skipped;
    struct error error, skipped_error;
    enum status status;
    int stop; /* atomic */
    struct buf trouble; /* of the last scan, for status; loop thread. "" when there is none */
};

struct node {
    struct process *process;
    struct list link; /* process->nodes */
    struct node_options options; /* with the pipelines of this node */
    struct node_reload definitions; /* the owner of its pipelines, when a reload made them */
    struct clock_ops clock;
    struct random_ops random;
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_idle_t idle;
    bool handles_closing;
    struct close_group closing;
    enum node_state state;
    int64_t kill_at_ms, give_up_ms;
    bool away; /* the ledger connection is down */
    struct host_lock lock;
    struct arena arena;
    struct sched_pipeline *specs;
    struct queue *queue;
    struct store_ops store;
    struct workers *workers;
    struct workers_ops pools;
    struct scheduler *scheduler;
    bool scheduler_closed, queue_closed, workers_closed;
    struct lease lease;
    struct duties duties;
    struct schedules schedules;
    struct notes notes;
    struct source *sources;
    int source_count;
    int stage_count;
    int *stage_ids;
    int64_t *open;
    int64_t next_report_ms;
};

/* A reload: IDLE --asked--> READING --something new--> STARTING --the successor is up--> DRAINING --predecessor gone--> IDLE
 *                            any --nothing new, rejected, not possible now--> IDLE                                      */
enum reload_state { RELOAD_IDLE, RELOAD_READING, RELOAD_STARTING, RELOAD_DRAINING };

struct reload {
    enum reload_state state;
    bool files_asked, revision_asked; /* once more when the one in hand is over */
    bool files;                       /* what the one in hand reads */
    int64_t not_before_ms, delay_ms;  /* after a failure that may pass */
    int64_t deadline_ms;              /* STARTING: slow workers are not waited for any longer */
    uv_work_t work;
    enum status status;
    struct error error;
    struct node_reload found;
    char **rejected;      /* owned; one a pipeline, NULL: not rejected. Told in the log once, in status while it holds */
    int *tried;           /* one a pipeline: the revision that was rejected last */
    int64_t try_again_ms; /* what was rejected may have been mended: a handler that was not there */
};

struct process {
    struct node_options options;
    struct clock_ops clock;
    struct random_ops random;
    uv_loop_t loop;
    uv_signal_t sigint, sigterm, sighup;
    bool handles_closing;
    bool stopping, stop_signalled;
    int64_t signalled_ms; /* when it was told to stop */
    struct list nodes;
    struct node *front; /* serves; NULL at the end */
    struct node *next;  /* the successor while it starts */
    struct reload reload;
    struct tend {
        uv_work_t work;
        bool active;
        int64_t next_ms;
        enum status status;
        struct error error;
    } tend;
    bool looking_for_abandoned; /* in the thread pool */
    struct node_result *result;
};

/* node.c. Ownership: the definitions are the node's, also when it fails; a node that failed closes by itself. */
enum status node_open(struct process *process, const struct node_options *options, struct node_reload *definitions,
                      struct node **node, struct error *err) MUST_CHECK;
void node_changed(void *node); /* a turn soon */
int64_t node_now(const struct node *node);
void node_stop(struct node *node, const char *why); /* as the first signal */
void node_kill(struct node *node);                  /* as the second */
void node_left_claims(struct node *node);           /* it ends without having given back what it holds */
void node_retire(struct node *node);                /* its successor is up: drains, however long that takes */

/* process.c */
void process_idle(struct node *node); /* under --until-idle: nothing is left to do for it */
void process_node_gone(struct process *process, struct node *node);
void process_work_done(struct process *process); /* of the thread pool */
void process_totals(const struct process *process, int64_t *done, int64_t *failed);

/* reload.c */
void reload_create(struct process *process);
void reload_ask(struct process *process, bool files);
void reload_see_revisions(struct node *node, int count, const struct store_stage_state *states);
void reload_turn(struct process *process, int64_t now, int64_t *next_ms);
void reload_finish(struct process *process);

/* tend.c */
void tend_turn(struct node *node, int64_t now, int64_t *next_ms);
/* lease.c */
void lease_turn(struct node *node, int64_t now, int64_t *next_ms);
bool lease_is_held(const struct node *node);
/* Ends the identities that were lost, so that nobody need wait for their leases; lease.dead_count is 0 when they are. */
void lease_end_dead(struct node *node, int64_t now, int64_t *next_ms);
/* peers.c. Of a node that was killed on this host everything that still runs is ended; its claims are freed at once when it
 * is among the answer's, else when its lease ends. */
void peers_end_dead(struct node *node, const struct store_start_answer *answer);
void peers_look(struct node *node);
/* duties.c */
void duties_turn(struct node *node, int64_t now, int64_t *next_ms);
void duties_woken(struct node *node); /* a pause may be what it was woken for: it looks soon */
bool duties_end_identity(struct node *node); /* asks the store; node->duties.end_in_flight while it lasts */
/* schedules.c */
void schedules_turn(struct node *node, int64_t now, int64_t *next_ms);
void schedules_watched(struct node *node, const struct store_watch_answer *answer);
/* notes.c */
void notes_turn(struct node *node, int64_t now, int64_t *next_ms);
void notes_finish(struct node *node);
/* sources.c */
void sources_create(struct node *node);
void sources_turn(struct node *node, int64_t now, int64_t *next_ms);
/* A schedule asks for a scan of the source that the stage gets documents from. */
void sources_asked(struct node *node, int stage, int64_t tick);
bool sources_scanned(const struct node *node);
bool sources_stop(struct node *node); /* true when no scan runs any more */
void sources_destroy(struct node *node);

static inline void sooner(int64_t *next_ms, int64_t at_ms) {
    if (at_ms < *next_ms) {
        *next_ms = at_ms;
    }
}

#endif
