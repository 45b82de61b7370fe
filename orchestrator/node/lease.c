/* lease.c - the node's identity: started, kept alive by beats, left before its lease ends, replaced by a fresh one.
 *
 * The lease counts from the sending of the last acknowledged beat, on our clock; the database counts from a later moment,
 * so ours always ends first. A margin before that, everything that runs is killed and all claims are dropped.
 */
#include <unistd.h>

#include "base/log.h"
#include "node/private.h"

/* With what ticks and connections say, no more than ten a minute while a server refuses everything. */
enum { START_LINES_PER_MINUTE = 3 };

/* From here to the end of the lease there is time to kill, reap and forget. */
static int64_t margin_ms(const struct node *node) {
    return node->options.lease_ms / 5;
}

bool lease_is_held(const struct node *node) {
    return node->lease.state == LEASE_HELD;
}

static void on_ended_own(void *context, const struct store_done_answer *answer) {
    struct node *node = context;
    struct lease *lease = &node->lease;
    lease->ending_dead = false;
    if (answer->code == STATUS_OK) {
        lease->dead_count = 0;
    } else {
        lease->retry_ms = node_now(node) + 100;
    }
    node_changed(node);
}

void lease_end_dead(struct node *node, int64_t now, int64_t *next_ms) {
    struct lease *lease = &node->lease;
    struct error err = ERROR_NONE;
    if (lease->ending_dead) {
        return;
    }
    if (now >= lease->retry_ms) {
        lease->ending_dead = node->store.end_peers(node->store.context, host_identity(), lease->dead_count, lease->dead,
                                                   on_ended_own, node, &err) == STATUS_OK;
        lease->retry_ms = now + 100;
    }
    sooner(next_ms, lease->retry_ms);
}

static void remember_dead(struct lease *lease) {
    if (lease->dead_count < (int)(sizeof lease->dead / sizeof lease->dead[0])) {
        lease->dead[lease->dead_count++] = lease->node;
    }
}

static void on_started(void *context, const struct store_start_answer *answer) {
    struct node *node = context;
    struct lease *lease = &node->lease;
    int64_t now = node_now(node);
    if (answer->code != STATUS_OK) {
        if (log_limit_allows(&lease->start_limit, START_LINES_PER_MINUTE, now)) {
            log_event(LOG_WARN, "node.start", "reason=%s suppressed=%d", log_text(answer->error.text),
                      lease->start_limit.suppressed);
            lease->start_limit.suppressed = 0;
        }
        lease->state = LEASE_NONE;
        lease->retry_ms = now + 500;
        node_changed(node);
        return;
    }
    if (now - lease->sent_ms > node->options.lease_ms / 3) {
        /* It waited long for its connection, so that little is left of the lease: a fresh one costs one statement. */
        remember_dead(lease);
        lease->state = LEASE_NONE;
        lease->retry_ms = now;
        node_changed(node);
        return;
    }
    lease->state = LEASE_HELD;
    lease->end_ms = lease->sent_ms + node->options.lease_ms;
    lease->next_beat_ms = lease->sent_ms + node->options.lease_ms / 6;
    log_event(LOG_INFO, "node.up", "node=%lld pid=%d lease_ms=%lld", (long long)lease->node, (int)getpid(),
              (long long)node->options.lease_ms);
    peers_end_dead(node, answer);
    scheduler_begin(node->scheduler, lease->node, lease->end_ms);
    node_changed(node);
}

static void start(struct node *node, int64_t now) {
    struct lease *lease = &node->lease;
    lease->node = random_identity(&node->random);
    lease->sent_ms = now;
    struct store_start request = {
        .node = lease->node,
        .host = host_identity(),
        .lock_path = node->lock.path,
        .pid = (int)getpid(),
        .lease_ms = node->options.lease_ms,
    };
    struct error err = ERROR_NONE;
    enum status status = node->store.start(node->store.context, &request, on_started, node, &err);
    if (status == STATUS_OK) {
        lease->state = LEASE_STARTING;
    } else {
        lease->retry_ms = now + 50;
    }
}

static void leave(struct node *node, const char *why) {
    log_event(LOG_WARN, "lease.left", "node=%lld reason=%s", (long long)node->lease.node, log_text(why));
    node->lease.state = LEASE_LEAVING;
    scheduler_abandon(node->scheduler);
}

static void on_beat(void *context, const struct store_beat_answer *answer) {
    struct node *node = context;
    struct lease *lease = &node->lease;
    lease->beat_in_flight = false;
    if (lease->state != LEASE_HELD) {
        node_changed(node);
        return;
    }
    if (answer->code == STATUS_OK) {
        lease->end_ms = lease->sent_ms + node->options.lease_ms;
        scheduler_set_lease_end(node->scheduler, lease->end_ms);
        peers_look(node); /* six times in a lease: before that of a dead one ends, and its tasks run again */
    } else if (answer->code == STATUS_CONFLICT) {
        leave(node, "the database says that it has ended");
    } else {
        lease->next_beat_ms = node_now(node) + node->options.lease_ms / 60 + 1;
    }
    node_changed(node);
}

static void beat(struct node *node, int64_t now) {
    struct lease *lease = &node->lease;
    struct error err = ERROR_NONE;
    /* A beat that is in flight keeps its own sending time: sent_ms changes only when one is sent. */
    int64_t before = lease->sent_ms;
    lease->sent_ms = now;
    if (node->store.beat(node->store.context, lease->node, node->options.lease_ms, on_beat, node, &err) == STATUS_OK) {
        lease->beat_in_flight = true;
        lease->next_beat_ms = now + node->options.lease_ms / 6;
    } else {
        lease->sent_ms = before;
        lease->next_beat_ms = now + node->options.lease_ms / 60 + 1;
    }
}

void lease_turn(struct node *node, int64_t now, int64_t *next_ms) {
    struct lease *lease = &node->lease;
    switch (lease->state) {
    case LEASE_NONE:
        if (node->state != NODE_UP) {
            break;
        }
        if (now >= lease->retry_ms) {
            start(node, now);
        }
        if (lease->state == LEASE_NONE) {
            sooner(next_ms, lease->retry_ms);
        }
        break;
    case LEASE_STARTING:
        break;
    case LEASE_HELD:
        if (now >= lease->end_ms - margin_ms(node)) {
            leave(node, "no heartbeat was acknowledged in time");
            break;
        }
        if (!lease->beat_in_flight && now >= lease->next_beat_ms) {
            beat(node, now);
        }
        sooner(next_ms, lease->end_ms - margin_ms(node));
        if (!lease->beat_in_flight) {
            sooner(next_ms, lease->next_beat_ms);
        }
        break;
    case LEASE_LEAVING:
        if (scheduler_is_empty(node->scheduler)) {
            remember_dead(lease);
            lease->state = LEASE_NONE;
            lease->retry_ms = now;
            node_changed(node);
        }
        break;
    }
}
