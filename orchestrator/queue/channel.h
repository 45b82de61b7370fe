/* channel.h - one connection and the calls that wait for it, the most urgent first.
 *
 *   call:  IDLE --post--> WAITING --connection free--> SENT --answer--> IDLE      WAITING --too
 * long--> IDLE
 *
 * A call that cannot be sent at once waits until the connection is up and free, but no longer than
 * `wait_ms`: then it is answered UNAVAILABLE, for nothing of it was sent. A call may be posted
 * again from within its own answer (the next step of a longer piece of work); more urgent ones go
 * before it. When: loop thread only.
 */
#ifndef QUEUE_CHANNEL_H
#define QUEUE_CHANNEL_H

#include "base/list.h"
#include "queue/script.h"

struct channel;

enum call_state { CALL_IDLE, CALL_WAITING, CALL_SENT };

struct call {
    struct list link;
    enum call_state state;
    int rank;              /* lower goes first */
    int64_t wait_until_ms; /* while WAITING */
    int64_t limit_ms; /* how long it may take once SENT; 0: the connection's own limit. Then the
                         connection goes */
    int64_t limit_until_ms;
    struct script script;
    /* Reply: borrowed for the callback. The call is IDLE when it is called. */
    void (*answered)(struct call *call, const struct db_reply *reply);
};

struct channel_events {
    void (*up)(
        struct channel *channel); /* the connection is up anew; before waiting calls are sent */
    void (*down)(struct channel *channel); /* the connection was lost; it comes back by itself */
    void (*notified)(struct channel *channel);
    void (*closed)(struct channel *channel); /* its memory may go */
};

struct channel {
    struct list link; /* among its siblings */
    struct list *siblings;
    uv_loop_t *loop;
    struct clock_ops clock;
    const struct channel_events *events;
    void *context;
    int64_t wait_ms;
    struct db_conn *conn;
    struct list waiting;
    struct call *sent;
    uv_timer_t timer; /* the nearest of all deadlines */
    int open_parts;
    bool closing;
};

void call_init(struct call *call, int rank,
               void (*answered)(struct call *call, const struct db_reply *reply));
void call_finish(struct call *call); /* IDLE only */

/* `options` as for conn_open; `wait_ms` see above. `siblings` are the channels of one database: when one of them comes up,
 * the others do not wait out their back-off. */
enum status channel_open(struct channel *channel, uv_loop_t *loop, struct list *siblings,
                         const struct conn_options *options, int64_t wait_ms,
                         const struct channel_events *events, void *context,
                         struct error *err) MUST_CHECK;
bool channel_is_free(const struct channel *channel); /* up, nothing in flight, nothing waits */
/* Sends the call's script, now or later. An error: it will not be answered. */
enum status channel_post(struct channel *channel, struct call *call, struct error *err) MUST_CHECK;
/* What is in flight or waits is answered before `closed`. */
void channel_close(struct channel *channel);

#endif
