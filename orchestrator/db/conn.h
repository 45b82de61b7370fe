/* conn.h - one asynchronous connection to PostgreSQL on the loop, for ever reconnecting.
 *
 * The only file that drives libpq's non-blocking side. Requests are sent in pipeline mode, one at a
 * time per connection: a request is a list of statements, wrapped in BEGIN ... COMMIT when
 * `transaction` is set. libuv's contract: conn_send that returns an error never calls back; one
 * that returns OK calls back exactly once, later.
 *
 *   DOWN --(back-off)--> RESOLVING --> CONNECTING --> SETTING_UP --> READY <--> BUSY
 *                                         any --(loss)--> LOST --> DOWN          any --> CLOSING
 *
 * Loss of the connection answers the request in flight: UNAVAILABLE when nothing of it can have
 * been committed, UNCERTAIN when it was a transaction (or a lone statement) whose commit may have
 * happened. Never blocks: host names are looked up in the thread pool, writes are flushed while
 * input is consumed, and results are taken only when not busy. Back-off: 100 ms doubling to 3 s, +-
 * 20 %, reset after 10 s of a live connection; errors are logged at most 6 times a minute.
 * Passwords never appear in logs or errors. When: loop thread only.
 */
#ifndef DB_CONN_H
#define DB_CONN_H

#include <uv.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "db/result.h"

struct db_conn; /* opaque */

/* `name` non-NULL: prepared under that name at its first use on this connection, so a name stands
 * for one text. NULL: sent unnamed. */
struct db_statement {
    const char *name, *text;
    int param_count;
    const struct db_param *params;
};

struct db_request {
    bool transaction;
    int statement_count;
    const struct db_statement *statements; /* copied by libpq's buffers before conn_send returns */
};

/* Borrowed for the callback. results[i] belongs to statements[i] (BEGIN and COMMIT are left out);
 * none unless OK. */
struct db_reply {
    enum status code;   /* OK, UNAVAILABLE, UNCERTAIN, or what the server's error means
                           (conn_status_of_sqlstate) */
    struct error error; /* sqlstate set when the server spoke */
    int failed; /* index of the failing statement; statement_count for COMMIT itself; -1 when none
                 */
    int result_count;
    const struct db_result *const *results;
};

typedef void (*db_done)(void *context, const struct db_reply *reply);

struct conn_events {
    void (*up)(void *context,
               struct db_conn *conn); /* READY after having been down: nothing is known of before */
    void (*down)(void *context, struct db_conn *conn,
                 const struct error *why); /* after the request was answered */
    /* NOTIFY. Several in a row on one channel are told once. */
    void (*notified)(void *context, struct db_conn *conn, const char *channel);
    void (*closed)(void *context,
                   struct db_conn *conn); /* after conn_close; memory is freed when it returns */
    void *context;
};

struct conn_options {
    const char *url; /* conninfo or URI; "" takes libpq's environment */
    const char
        *role; /* "ledger", "watch", "effect 1": in logs and application_name ("pgstage ROLE") */
    const char *listen;         /* channel to LISTEN on before `up`, or NULL */
    const char *settings;       /* SQL run at each connect, or NULL; one or several statements */
    /* Behind a pooler in transaction mode each transaction may have another session, so nothing is left in one: statements
     * are sent unnamed, every request is a transaction, and `settings` (one statement, for the transaction) runs first in
     * each. `listen` is not possible. */
    bool pooled;
    /* Statements of strangers run here: what they leave in the session is undone behind each transaction, committed or not,
     * before it is answered (see conn_reset.c); `settings` is one statement then. When that fails the request is answered
     * all the same, and the session goes. */
    bool resets;
    int64_t connect_timeout_ms; /* 0: 10 s */
    /* An unanswered request takes the connection down after that; 0: never. While the peer still
     * takes bytes of a large one, the time starts anew. */
    int64_t request_timeout_ms;
    const struct clock_ops *clock;
    const struct random_ops *random;
};

/* Copies options; connecting starts at the next loop turn. */
enum status conn_open(uv_loop_t *loop, const struct conn_options *options,
                      const struct conn_events *events, struct db_conn **conn,
                      struct error *err) MUST_CHECK;
bool conn_is_ready(const struct db_conn *conn); /* READY: takes a request now */
enum status conn_send(struct db_conn *conn, const struct db_request *request, db_done done,
                      void *context, struct error *err) MUST_CHECK; /* AGAIN when not READY */
/* Connects now if it waits to: there is reason to think that the server can be reached. */
void conn_hurry(struct db_conn *conn);
/* Drops the connection and connects anew: used when the peer does not answer. A request in flight
 * is answered. */
void conn_reset(struct db_conn *conn, const char *why);
/* A request in flight is answered first (UNAVAILABLE or UNCERTAIN); then `closed`. */
void conn_close(struct db_conn *conn);

/* UNAVAILABLE for classes 08, 53, 57P and 25006; CONFLICT for 40001, 40P01 and P0F01 (our fences);
 * TIMEOUT for 57014 and 55P03; INVALID for 22, 23, 42 and everything else that repeating would not
 * change. */
enum status conn_status_of_sqlstate(const char *sqlstate);

#endif
