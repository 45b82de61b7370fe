/* channel.c - at most one call in flight; one timer for the deadlines of all.
 *
 * Every event ends in channel_pump: send what may be sent, then arm the timer for the nearest
 * deadline. A connection may still be busy with its own bookkeeping when it gives an answer; then
 * the timer pumps again in the next loop turn.
 */
#include "queue/channel.h"

#include "base/require.h"

void call_init(struct call *call, int rank,
               void (*answered)(struct call *call, const struct db_reply *reply)) {
    *call = (struct call){.rank = rank, .answered = answered};
    list_init(&call->link);
    script_init(&call->script);
}

void call_finish(struct call *call) {
    REQUIRE(call->state == CALL_IDLE);
    script_finish(&call->script);
}

static struct call *call_of(struct list *link) {
    return LIST_ENTRY(link, struct call, link);
}

static void answer_unsent(struct call *call, enum status code, const char *text) {
    struct db_reply reply = {.code = code, .failed = -1};
    error_set(&reply.error, code, "%s", text);
    list_remove(&call->link);
    call->state = CALL_IDLE;
    call->answered(call, &reply);
}

static void on_reply(void *context, const struct db_reply *reply);

static enum status send_call(struct channel *channel, struct call *call, struct error *err) {
    struct db_request request = script_request(&call->script);
    enum status code = conn_send(channel->conn, &request, on_reply, channel, err);
    if (code == STATUS_OK) {
        list_remove(&call->link);
        call->state = CALL_SENT;
        call->limit_until_ms =
            call->limit_ms > 0 ? clock_now_ms(&channel->clock) + call->limit_ms : 0;
        channel->sent = call;
    }
    return code;
}

static void send_waiting(struct channel *channel) {
    while (channel->sent == NULL && !list_is_empty(&channel->waiting) &&
           conn_is_ready(channel->conn)) {
        struct call *call = call_of(channel->waiting.next);
        struct error err = ERROR_NONE;
        enum status code = send_call(channel, call, &err);
        if (code == STATUS_AGAIN) {
            return;
        }
        if (code != STATUS_OK) {
            answer_unsent(call, code, err.text);
        }
    }
}

static void on_timer(uv_timer_t *timer);

static void arm_timer(struct channel *channel) {
    int64_t now = clock_now_ms(&channel->clock);
    int64_t delay = -1;
    if (channel->sent == NULL && !list_is_empty(&channel->waiting) &&
        conn_is_ready(channel->conn)) {
        delay = 0;
    }
    LIST_EACH(link, &channel->waiting) {
        int64_t left = call_of(link)->wait_until_ms - now;
        delay = delay < 0 || left < delay ? (left > 0 ? left : 0) : delay;
    }
    if (channel->sent != NULL && channel->sent->limit_until_ms > 0) {
        int64_t left = channel->sent->limit_until_ms - now;
        delay = delay < 0 || left < delay ? (left > 0 ? left : 0) : delay;
    }
    if (delay < 0) {
        uv_timer_stop(&channel->timer);
        return;
    }
    int rc = uv_timer_start(&channel->timer, on_timer, (uint64_t)delay, 0);
    REQUIRE(rc == 0);
}

static void channel_pump(struct channel *channel) {
    if (channel->closing) {
        return;
    }
    send_waiting(channel);
    if (!channel->closing) {
        arm_timer(channel);
    }
}

static void expire(struct channel *channel) {
    int64_t now = clock_now_ms(&channel->clock);
    struct call *sent = channel->sent;
    if (sent != NULL && sent->limit_until_ms > 0 && now >= sent->limit_until_ms) {
        sent->limit_until_ms = 0;
        conn_reset(channel->conn, "a request has not been answered in time");
    }
    for (struct list *link = channel->waiting.next; link != &channel->waiting;) {
        if (call_of(link)->wait_until_ms > now) {
            link = link->next;
            continue;
        }
        answer_unsent(call_of(link), STATUS_UNAVAILABLE, "the database cannot be reached");
        link = channel->waiting.next; /* the answer may have posted others */
    }
}

static void on_timer(uv_timer_t *timer) {
    struct channel *channel = timer->data;
    if (!channel->closing) {
        expire(channel);
        channel_pump(channel);
    }
}

static void on_reply(void *context, const struct db_reply *reply) {
    struct channel *channel = context;
    struct call *call = channel->sent;
    channel->sent = NULL;
    call->state = CALL_IDLE;
    call->answered(call, reply);
    channel_pump(channel);
}

static void hurry_siblings(const struct channel *channel) {
    LIST_EACH(link, channel->siblings) {
        conn_hurry(LIST_ENTRY(link, struct channel, link)->conn);
    }
}

static void on_up(void *context, struct db_conn *conn) {
    struct channel *channel = context;
    (void)conn;
    if (!channel->closing) {
        hurry_siblings(channel);
        channel->events->up(channel);
        channel_pump(channel);
    }
}

static void on_down(void *context, struct db_conn *conn, const struct error *why) {
    struct channel *channel = context;
    (void)conn;
    (void)why; /* the connection has logged it, and it connects again by itself */
    if (!channel->closing && channel->events->down != NULL) {
        channel->events->down(channel);
    }
}

static void on_notified(void *context, struct db_conn *conn, const char *name) {
    struct channel *channel = context;
    (void)conn;
    (void)name;
    if (!channel->closing) {
        channel->events->notified(channel);
    }
}

static void part_closed(struct channel *channel) {
    if (--channel->open_parts > 0) {
        return;
    }
    while (!list_is_empty(&channel->waiting)) {
        answer_unsent(call_of(channel->waiting.next), STATUS_UNAVAILABLE,
                      "the connection was closed");
    }
    channel->events->closed(channel);
}

static void on_conn_closed(void *context, struct db_conn *conn) {
    struct channel *channel = context;
    (void)conn;
    channel->conn = NULL;
    part_closed(channel);
}

static void on_timer_closed(uv_handle_t *handle) {
    part_closed(handle->data);
}

enum status channel_open(struct channel *channel, uv_loop_t *loop, struct list *siblings,
                         const struct conn_options *options, int64_t wait_ms,
                         const struct channel_events *events, void *context, struct error *err) {
    *channel = (struct channel){.siblings = siblings,
                                .loop = loop,
                                .clock = *options->clock,
                                .events = events,
                                .context = context,
                                .wait_ms = wait_ms};
    list_init(&channel->waiting);
    struct conn_events conn_events = {.up = on_up,
                                      .down = on_down,
                                      .notified = on_notified,
                                      .closed = on_conn_closed,
                                      .context = channel};
    enum status code = conn_open(loop, options, &conn_events, &channel->conn, err);
    if (code != STATUS_OK) {
        return code;
    }
    list_append(siblings, &channel->link);
    int rc = uv_timer_init(loop, &channel->timer);
    REQUIRE(rc == 0);
    channel->timer.data = channel;
    channel->open_parts = 2;
    return STATUS_OK;
}

bool channel_is_free(const struct channel *channel) {
    return !channel->closing && channel->sent == NULL && list_is_empty(&channel->waiting) &&
           conn_is_ready(channel->conn);
}

static void insert_by_rank(struct channel *channel, struct call *call) {
    struct list *before = channel->waiting.next;
    while (before != &channel->waiting && call_of(before)->rank <= call->rank) {
        before = before->next;
    }
    list_append(before, &call->link); /* in front of `before` */
}

enum status channel_post(struct channel *channel, struct call *call, struct error *err) {
    REQUIRE(call->state == CALL_IDLE);
    if (channel->closing) {
        return error_set(err, STATUS_UNAVAILABLE, "the connection was closed");
    }
    if (call->script.overflow) {
        return error_set(err, STATUS_LIMIT, "more than %d MB in one request",
                         SCRIPT_MAX_BYTES / 1024 / 1024);
    }
    if (channel_is_free(channel)) {
        struct error why = ERROR_NONE;
        enum status code = send_call(channel, call, &why);
        if (code == STATUS_OK) {
            arm_timer(channel);
            return STATUS_OK;
        }
        if (code != STATUS_AGAIN) {
            return error_set(err, code, "%s", why.text);
        }
    }
    call->state = CALL_WAITING;
    call->wait_until_ms = clock_now_ms(&channel->clock) + channel->wait_ms;
    insert_by_rank(channel, call);
    arm_timer(channel);
    return STATUS_OK;
}

void channel_close(struct channel *channel) {
    if (channel->closing) {
        return;
    }
    channel->closing = true;
    list_remove(&channel->link);
    uv_close((uv_handle_t *)&channel->timer, on_timer_closed);
    conn_close(channel->conn);
}
