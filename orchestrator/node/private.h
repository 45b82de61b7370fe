/* private.h - the node's data, shared by the files of its folder.
 *
 *   STARTING --(identity)--> UP --(signal, idle)--> DRAINING --(empty)--> ENDING --(row ended)--> CLOSING --> loop ends
 *                                                    any --(kill, then a deadline)--> CLOSING
 */
#ifndef NODE_PRIVATE_H
#define NODE_PRIVATE_H

#include <uv.h>

#include "base/arena.h"
#include "base/buf.h"
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
    struct node_options options;
    struct clock_ops clock;
    struct random_ops random;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_idle_t idle;
    uv_signal_t sigint, sigterm;
    bool handles_closing;
    enum node_state state;
    bool stop_signalled;
    int64_t kill_at_ms, give_up_ms;
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
    struct notes notes;
    struct tend {
        uv_work_t work;
        bool active, away; /* away: the ledger connection is down */
        int64_t next_ms;
        enum status status;
        struct error error;
    } tend;
    struct source *sources;
    int source_count;
    int stage_count;
    int *stage_ids;
    int64_t *open;
    int64_t next_report_ms;
    struct node_result *result;
};

void node_changed(void *node); /* a turn soon */
int64_t node_now(const struct node *node);
void node_stop(struct node *node, const char *why); /* as the first signal */

/* tend.c */
void tend_turn(struct node *node, int64_t now, int64_t *next_ms);
/* lease.c */
void lease_turn(struct node *node, int64_t now, int64_t *next_ms);
bool lease_is_held(const struct node *node);
/* Ends the identities that were lost, so that nobody need wait for their leases; lease.dead_count is 0 when they are. */
void lease_end_dead(struct node *node, int64_t now, int64_t *next_ms);
/* duties.c */
void duties_turn(struct node *node, int64_t now, int64_t *next_ms);
void duties_woken(struct node *node); /* a pause may be what it was woken for: it looks soon */
bool duties_end_identity(struct node *node); /* asks the store; node->duties.end_in_flight while it lasts */
/* notes.c */
void notes_turn(struct node *node, int64_t now, int64_t *next_ms);
void notes_finish(struct node *node);
/* sources.c */
void sources_create(struct node *node);
void sources_turn(struct node *node, int64_t now, int64_t *next_ms);
bool sources_scanned(const struct node *node);
bool sources_stop(struct node *node); /* true when no scan runs any more */
void sources_destroy(struct node *node);

static inline void sooner(int64_t *next_ms, int64_t at_ms) {
    if (at_ms < *next_ms) {
        *next_ms = at_ms;
    }
}

#endif
