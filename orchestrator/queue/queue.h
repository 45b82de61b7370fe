/* queue.h - the task store over PostgreSQL: the operation table of ports/store.h.
 *
 * Connections, all asynchronous, all reconnecting by themselves:
 *   ledger   tick, release_unknown, end: nothing else travels on it, and no user SQL
 *   watch    LISTEN pgstage, start, beat, watch: statements that wait for no lock, beats first
 *   duty     lead and end_peers, whose work may wait behind an `apply` or take seconds: a
 * connection of its own, so that it can never hold up a heartbeat. Each is a series of small
 * transactions effect N one a lane, opened at its first use So a node needs 3 connections and one
 * for each lane.
 *
 * start, end_peers, end, beat, watch, lead and effects wait for their connection, no longer than
 * the request time-out: then they are answered UNAVAILABLE. tick and release_unknown are refused
 * with AGAIN while tick_ready is false.
 *
 * A tick whose content PostgreSQL refuses (an output that jsonb does not take) is answered INVALID:
 * the queue has then found the chain by checking halves of the outputs with statements that write
 * nothing.
 */
#ifndef QUEUE_QUEUE_H
#define QUEUE_QUEUE_H

#include <uv.h>

#include "base/clock.h"
#include "base/random.h"
#include "ports/store.h"

struct queue; /* opaque */

struct queue_options {
    const char *url;       /* conninfo or URI; "" takes libpq's environment */
    const char *watch_url; /* of the watch connection; never a pooler. NULL: `url` */
    bool pooled; /* `url` leads to a pooler in transaction mode: without a watch_url nothing listens, and nodes poll */
    const char *const *labels; /* of the node, NULL-terminated; NULL: none */
    int lane_count;        /* effect connections at most */
    int64_t request_timeout_ms; /* an unanswered request takes its connection down; 0: 30 s.
                                   Effects: see store.h */
    int64_t connect_timeout_ms; /* 0: 10 s */
    const struct clock_ops *clock;
    const struct random_ops *random;
};

/* Copies options and events, fills *ops; its context is the queue. Connecting starts at the next
 * loop turn. */
enum status queue_create(uv_loop_t *loop, const struct queue_options *options,
                         const struct store_events *events, struct store_ops *ops,
                         struct queue **queue, struct error *err) MUST_CHECK;

/* Calls in flight are answered (UNAVAILABLE, or UNCERTAIN) before `closed`; no event comes after
 * it, and the memory is gone. */
void queue_close(struct queue *queue, void (*closed)(void *context), void *context);

#endif
