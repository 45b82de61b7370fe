/* conn.c - the life of a connection: its states, its socket, its loss.
 *
 *   DOWN -> RESOLVING -> CONNECTING -> SETTING_UP -> READY <-> BUSY      each but DOWN: loss ->
 * LOST -> DOWN any: conn_close -> CLOSING
 *
 * A loss is noted at once (the socket is closed, no request is taken) and told in the next loop
 * turn, from LOST: so no callback runs inside a call, and a caller may lose or close the connection
 * from within a callback.
 */
#include "db/conn.h"

#include <inttypes.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/backoff.h"
#include "base/memory.h"
#include "base/require.h"
#include "db/conn_private.h"
#include "db/pq_error.h"

enum { CONNECT_TIMEOUT_MS = 10000, STABLE_MS = 10000, LOG_PER_MINUTE = 6 };

/* A server that can be reached or written to again is in use within 3 s. */
static const struct backoff reconnect = {
    .kind = BACKOFF_EXPONENTIAL, .first_ms = 100, .max_ms = 3000, .jitter_percent = 20};
/* The first attempt after a connection that came up and did not last: it may do so again and again. */
static const struct backoff relapse = {
    .kind = BACKOFF_EXPONENTIAL, .first_ms = 100, .max_ms = 1000, .jitter_percent = 20};

static const char *const state_names[] = {
    [CONN_DOWN] = "down",
    [CONN_RESOLVING] = "resolving",
    [CONN_CONNECTING] = "connecting",
    [CONN_SETTING_UP] = "setting_up",
    [CONN_READY] = "ready",
    [CONN_BUSY] = "busy",
    [CONN_LOST] = "lost",
    [CONN_CLOSING] = "closing",
};

#define TO(state) (1U << (state))
static const unsigned legal_moves[] = {
    [CONN_DOWN] = TO(CONN_RESOLVING) | TO(CONN_CLOSING),
    [CONN_RESOLVING] = TO(CONN_CONNECTING) | TO(CONN_LOST) | TO(CONN_CLOSING),
    [CONN_CONNECTING] = TO(CONN_SETTING_UP) | TO(CONN_LOST) | TO(CONN_CLOSING),
    [CONN_SETTING_UP] = TO(CONN_READY) | TO(CONN_LOST) | TO(CONN_CLOSING),
    [CONN_READY] = TO(CONN_BUSY) | TO(CONN_LOST) | TO(CONN_CLOSING),
    [CONN_BUSY] = TO(CONN_READY) | TO(CONN_LOST) | TO(CONN_CLOSING),
    [CONN_LOST] = TO(CONN_DOWN) | TO(CONN_CLOSING),
    [CONN_CLOSING] = 0,
};

/* -1: none. */
static int64_t state_deadline_ms(const struct db_conn *conn, enum conn_state state) {
    switch (state) {
    case CONN_DOWN:
        if (conn->failures > 0) {
            return backoff_delay_ms(&reconnect, conn->failures, &conn->random);
        }
        return conn->relapses > 0 ? backoff_delay_ms(&relapse, conn->relapses, &conn->random) : 0;
    case CONN_RESOLVING:
    case CONN_CONNECTING:
    case CONN_SETTING_UP:
        return conn->connect_timeout_ms;
    case CONN_READY:
        return -1;
    case CONN_BUSY:
        return conn->request_timeout_ms > 0 ? conn->request_timeout_ms : -1;
    case CONN_LOST:
    case CONN_CLOSING:
        return 0;
    }
    return -1;
}

static void on_timer(uv_timer_t *timer);

static void arm_timer(struct db_conn *conn) {
    int64_t delay_ms = state_deadline_ms(conn, conn->state);
    uv_update_time(conn->loop); /* from now on, not from when a slow loop turn began */
    int rc = delay_ms < 0 ? uv_timer_stop(&conn->timer)
                          : uv_timer_start(&conn->timer, on_timer, (uint64_t)delay_ms, 0);
    REQUIRE(rc == 0);
}

void conn_set_state(struct db_conn *conn, enum conn_state state) {
    REQUIRE((legal_moves[conn->state] & TO(state)) != 0);
    if (log_is_on(LOG_DEBUG)) {
        log_event(LOG_DEBUG, "conn.state", "role=%s from=%s to=%s", log_text(conn->role),
                  state_names[conn->state], state_names[state]);
    }
    conn->state = state;
    arm_timer(conn);
}

/* ---- the socket ---- */

static void on_watcher_closed(uv_handle_t *handle) {
    free(handle->data);
}

void conn_unwatch(struct db_conn *conn) {
    if (conn->watcher != NULL) {
        uv_close((uv_handle_t *)&conn->watcher->poll, on_watcher_closed);
        conn->watcher = NULL;
    }
}

static void on_socket(uv_poll_t *poll, int status, int events);

static int start_watcher(struct db_conn *conn) {
    struct conn_watcher *watcher = mem_alloc(sizeof *watcher);
    int rc = uv_poll_init(conn->loop, &watcher->poll, PQsocket(conn->pg));
    if (rc != 0) {
        free(watcher);
        return rc;
    }
    watcher->conn = conn;
    watcher->poll.data = watcher;
    conn->watcher = watcher;
    return 0;
}

void conn_watch(struct db_conn *conn, int events) {
    int rc = conn->watcher == NULL ? start_watcher(conn) : 0;
    if (rc == 0 && conn->watcher->events != events) {
        rc = uv_poll_start(&conn->watcher->poll, events, on_socket);
        conn->watcher->events = events;
    }
    if (rc != 0) {
        struct error why = ERROR_NONE;
        error_set(&why, STATUS_INTERNAL, "the socket cannot be watched: %s", uv_strerror(rc));
        conn_lose(conn, &why);
    }
}

/* Bytes that the peer's kernel has not acknowledged. */
static int count_unacknowledged(const struct db_conn *conn) {
    int bytes = 0;
    return ioctl(PQsocket(conn->pg), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

bool conn_flush(struct db_conn *conn) {
    int pending = PQflush(conn->pg);
    while (pending == 0 && conn->request != NULL && conn->request->closing_held) {
        pending = request_queue_closing(conn) ? PQflush(conn->pg) : -1;
    }
    if (pending < 0) {
        conn_lose_by_libpq(conn);
        return false;
    }
    if (conn->request != NULL && conn->request->is_large) {
        conn->request->unacknowledged = count_unacknowledged(conn);
    }
    conn_watch(conn, UV_READABLE | (pending > 0 ? UV_WRITABLE : 0));
    return conn->state != CONN_LOST;
}

/* ---- what arrives ---- */

static void tell_notifications(struct db_conn *conn) {
    char *last = NULL;
    PGnotify *notify;
    /* The callback may lose or close the connection, or send a request on it. */
    while (conn->pg != NULL && (notify = PQnotifies(conn->pg)) != NULL) {
        bool repeated = last != NULL && strcmp(last, notify->relname) == 0;
        if (!repeated) {
            free(last);
            last = mem_copy_string(notify->relname);
            if (conn->events.notified != NULL) {
                conn->events.notified(conn->events.context, conn, last);
            }
        }
        PQfreemem(notify);
    }
    free(last);
}

void conn_enter_ready(struct db_conn *conn) {
    reset_note_beginning(conn);
    conn->was_up = true;
    conn->up_since_ms = clock_now_ms(&conn->clock);
    conn->first_address = 0;
    log_event(LOG_INFO, "conn.up", "role=%s host=%s port=%s database=%s pid=%d",
              log_text(conn->role), log_text(PQhost(conn->pg)), log_text(PQport(conn->pg)),
              log_text(PQdb(conn->pg)), PQbackendPID(conn->pg));
    conn_set_state(conn, CONN_READY);
    if (conn->events.up != NULL) {
        conn->events.up(conn->events.context, conn);
    }
}

static void finish_request(struct db_conn *conn) {
    struct conn_request *request = conn->request;
    if (request->poisoned) {
        bool by_reset = request->reset_error.code != STATUS_OK;
        conn_lose(conn, by_reset ? &request->reset_error : &request->error); /* which answers */
        return;
    }
    conn->request = NULL;
    conn_set_state(conn, CONN_READY);
    request_answer(request);
}

static bool is_live(const struct db_conn *conn) {
    return conn->state == CONN_SETTING_UP || conn->state == CONN_READY || conn->state == CONN_BUSY;
}

/* A live connection's socket is ready. */
static void step_live(struct db_conn *conn, int events) {
    if ((events & UV_READABLE) != 0 && PQconsumeInput(conn->pg) == 0) {
        /* What came ahead of the end is still to be taken, which adds to libpq's message. */
        pq_error_of_connection(&conn->socket_error, STATUS_UNAVAILABLE, conn->pg);
    }
    if ((events & UV_WRITABLE) != 0 && conn->state == CONN_BUSY) {
        arm_timer(conn); /* the peer takes a large request, so it lives */
    }
    bool setting_up = conn->state == CONN_SETTING_UP;
    bool complete = setting_up                 ? connect_take_setup(conn)
                    : conn->state == CONN_BUSY ? request_receive(conn)
                                               : false;
    if (!is_live(conn)) {
        return;
    }
    if (conn->socket_error.code != STATUS_OK || PQstatus(conn->pg) == CONNECTION_BAD) {
        conn_lose_by_libpq(conn);
        return;
    }
    if (complete && setting_up) {
        conn_enter_ready(conn);
    } else if (complete) {
        finish_request(conn);
    }
    if (is_live(conn) && conn_flush(conn) && conn->state != CONN_SETTING_UP) {
        tell_notifications(conn);
    }
}

static void on_socket(uv_poll_t *poll, int status, int events) {
    struct conn_watcher *watcher = poll->data;
    if (status < 0) {
        /* The socket has an error, which libpq finds by reading; libuv has stopped the handle. */
        watcher->events = 0;
        events = UV_READABLE | UV_WRITABLE;
    }
    if (watcher->conn->state == CONN_CONNECTING) {
        connect_continue(watcher->conn);
    } else {
        step_live(watcher->conn, events);
    }
}

/* ---- loss ---- */

static void disconnect(struct db_conn *conn) {
    conn_unwatch(conn);
    PQfinish(conn->pg);
    conn->pg = NULL;
    request_forget_prepared(conn);
    error_clear(&conn->farewell);
    error_clear(&conn->socket_error);
}

void conn_lose(struct db_conn *conn, const struct error *why) {
    if (conn->state == CONN_DOWN || conn->state == CONN_LOST || conn->state == CONN_CLOSING) {
        return;
    }
    conn->loss = *why;
    disconnect(conn);
    if (conn->request != NULL) {
        request_lost(conn->request, &conn->loss);
    }
    conn_set_state(conn, CONN_LOST);
}

void conn_lose_by_libpq(struct db_conn *conn) {
    struct error why = conn->farewell;
    if (why.code == STATUS_OK && conn->request != NULL && conn->request->poisoned) {
        why = conn->request->error;
    }
    if (why.code == STATUS_OK) {
        why = conn->socket_error;
    }
    if (why.code == STATUS_OK) {
        pq_error_of_connection(&why, STATUS_UNAVAILABLE, conn->pg);
    }
    conn_lose(conn, &why);
}

static void log_loss(struct db_conn *conn, bool was_up) {
    if (!log_limit_allows(&conn->log_limit, LOG_PER_MINUTE, clock_now_ms(&conn->clock))) {
        return;
    }
    log_event(LOG_WARN, was_up ? "conn.down" : "conn.failed",
              "role=%s sqlstate=%s error=%s retry_ms=%" PRIu64 " failures=%" PRId64
              " suppressed=%d",
              log_text(conn->role), conn->loss.sqlstate[0] != '\0' ? conn->loss.sqlstate : "-",
              log_text(conn->loss.text), uv_timer_get_due_in(&conn->timer), conn->failures,
              conn->log_limit.suppressed);
    conn->log_limit.suppressed = 0;
}

static void tell_loss(struct db_conn *conn) {
    struct conn_request *request = conn->request;
    bool was_up = conn->was_up;
    conn->request = NULL;
    conn->was_up = false;
    if (was_up) {
        bool lasted = clock_now_ms(&conn->clock) - conn->up_since_ms >= STABLE_MS;
        conn->relapses = lasted ? 1 : conn->relapses + 1;
        conn->failures = 0;
    } else {
        conn->failures++;
    }
    conn_set_state(conn, CONN_DOWN);
    log_loss(conn, was_up);
    if (request != NULL) {
        request_answer(request);
    }
    if (was_up && conn->state == CONN_DOWN && conn->events.down != NULL) {
        conn->events.down(conn->events.context, conn, &conn->loss);
    }
}

static void lose_by_timeout(struct db_conn *conn, const char *what, int64_t limit_ms) {
    struct error why = ERROR_NONE;
    error_set(&why, STATUS_TIMEOUT, "%s within %" PRId64 " ms", what, limit_ms);
    conn_lose(conn, &why);
}

/* A large request on a slow line, of which libpq has nothing left: the kernel may send for long. */
static bool peer_takes_more(struct db_conn *conn) {
    struct conn_request *request = conn->request;
    int before = request->unacknowledged;
    request->unacknowledged = request->is_large ? count_unacknowledged(conn) : 0;
    return request->unacknowledged < before;
}

static void request_overdue(struct db_conn *conn) {
    int64_t late = conn->requests_sent;
    if (peer_takes_more(conn)) {
        arm_timer(conn);
        return;
    }
    /* An answer that arrived while the loop was held up counts. */
    step_live(conn, UV_READABLE);
    if (conn->state == CONN_BUSY && conn->requests_sent == late) {
        lose_by_timeout(conn, "the request was not answered", conn->request_timeout_ms);
    }
}

/* ---- the end ---- */

static void on_closed(void *context) {
    struct db_conn *conn = context;
    if (conn->events.closed != NULL) {
        conn->events.closed(conn->events.context, conn);
    }
    map_finish(&conn->prepared);
    conninfo_close(conn->info);
    free(conn->role);
    free(conn->listen);
    free(conn->settings);
    free(conn->name);
    free(conn->encoding);
    free(conn);
}

static void finish_closing(struct db_conn *conn) {
    if (conn->request != NULL) {
        struct conn_request *request = conn->request;
        conn->request = NULL;
        request_answer(request);
    }
    connect_abandon_lookup(conn);
    close_group_begin(&conn->close_group, on_closed, conn);
    close_group_add(&conn->close_group, (uv_handle_t *)&conn->timer);
    close_group_end(&conn->close_group);
}

static void on_timer(uv_timer_t *timer) {
    struct db_conn *conn = timer->data;
    switch (conn->state) {
    case CONN_DOWN:
        connect_begin(conn);
        return;
    case CONN_RESOLVING:
    case CONN_CONNECTING:
        connect_timed_out(conn);
        return;
    case CONN_SETTING_UP:
        lose_by_timeout(conn, "the session was not set up", conn->connect_timeout_ms);
        return;
    case CONN_READY:
        return; /* has no deadline */
    case CONN_BUSY:
        request_overdue(conn);
        return;
    case CONN_LOST:
        tell_loss(conn);
        return;
    case CONN_CLOSING:
        finish_closing(conn);
        return;
    }
}

/* ---- the public calls ---- */

enum status conn_open(uv_loop_t *loop, const struct conn_options *options,
                      const struct conn_events *events, struct db_conn **conn, struct error *err) {
    struct conninfo *info = NULL;
    enum status code = conninfo_open(options->url, options->role, true, &info, err);
    if (code != STATUS_OK) {
        return code;
    }
    struct db_conn *made = mem_alloc(sizeof *made);
    made->loop = loop;
    made->events = *events;
    made->info = info;
    made->role = mem_copy_string(options->role);
    made->listen = mem_copy_string(options->listen);
    made->settings = mem_copy_string(options->settings);
    made->resets = options->resets;
    made->pooled = options->pooled;
    REQUIRE(!options->pooled || options->listen == NULL);
    made->connect_timeout_ms =
        options->connect_timeout_ms > 0 ? options->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    made->request_timeout_ms = options->request_timeout_ms;
    made->clock = options->clock != NULL ? *options->clock : clock_boottime;
    made->random = options->random != NULL ? *options->random : random_system;
    int rc = uv_timer_init(loop, &made->timer);
    REQUIRE(rc == 0);
    made->timer.data = made;
    arm_timer(made);
    *conn = made;
    return STATUS_OK;
}

bool conn_is_ready(const struct db_conn *conn) {
    return conn->state == CONN_READY;
}

enum status conn_send(struct db_conn *conn, const struct db_request *request, db_done done,
                      void *context, struct error *err) {
    if (conn->state != CONN_READY) {
        return error_set(err, STATUS_AGAIN, "the connection '%s' is %s", conn->role,
                         state_names[conn->state]);
    }
    enum status code = request_check(request, err);
    if (code != STATUS_OK) {
        return code;
    }
    conn->request = request_create(conn, request, done, context);
    bool queued = request_queue(conn, request);
    if (!queued && !conn->request->closing_queued) {
        struct error why = ERROR_NONE;
        pq_error_of_connection(&why, STATUS_UNAVAILABLE, conn->pg);
        request_destroy(conn->request);
        conn->request = NULL;
        conn_lose(conn, &why);
        return error_set(err, STATUS_UNAVAILABLE, "%s", why.text);
    }
    conn->requests_sent++;
    conn_set_state(conn, CONN_BUSY);
    if (!queued) {
        conn_lose_by_libpq(conn);
    } else {
        (void)conn_flush(conn); /* a loss is told from LOST */
    }
    return STATUS_OK;
}

void conn_hurry(struct db_conn *conn) {
    if (conn->state == CONN_DOWN) {
        int rc = uv_timer_start(&conn->timer, on_timer, 0, 0);
        REQUIRE(rc == 0);
    }
}

void conn_reset(struct db_conn *conn, const char *why) {
    struct error error = ERROR_NONE;
    error_set(&error, STATUS_UNAVAILABLE, "reset: %s", why);
    conn_lose(conn, &error);
}

void conn_close(struct db_conn *conn) {
    REQUIRE(conn->state != CONN_CLOSING);
    if (conn->pg != NULL) {
        disconnect(conn);
    }
    if (conn->request != NULL) {
        struct error why = ERROR_NONE;
        error_set(&why, STATUS_UNAVAILABLE, "the connection was closed");
        request_lost(conn->request, &why);
    }
    conn_set_state(conn, CONN_CLOSING);
}
