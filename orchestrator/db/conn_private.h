/* conn_private.h - what the files of conn share: conn.c (states, loss, the public calls),
 * conn_connect.c (from a name to a connection that is set up), conn_request.c (one request in a
 * pipeline) and conn_reset.c (the session as it was). Private to them.
 */
#ifndef DB_CONN_PRIVATE_H
#define DB_CONN_PRIVATE_H

#include <libpq-fe.h>
#include <uv.h>

#include "base/close_group.h"
#include "base/log.h"
#include "base/map.h"
#include "db/conn.h"
#include "db/conninfo.h"

enum { CONN_ADDRESSES_MAX = 32 };

enum conn_state {
    CONN_DOWN,       /* waits for the back-off */
    CONN_RESOLVING,  /* host names in the thread pool */
    CONN_CONNECTING, /* PQconnectPoll */
    CONN_SETTING_UP, /* settings and LISTEN; not in pipeline mode yet */
    CONN_READY,
    CONN_BUSY, /* a request is in flight */
    CONN_LOST, /* closed; its request and `down` are due in the next loop turn */
    CONN_CLOSING,
};

/* A poll handle outlives its socket by a loop turn, so it is no part of the connection. */
struct conn_watcher {
    uv_poll_t poll;
    struct db_conn *conn;
    int events;
};

/* A lookup cannot be stopped: it may outlive the attempt that began it, and the connection. */
struct conn_lookup {
    uv_getaddrinfo_t request;
    struct db_conn *conn; /* NULL: closed meanwhile */
    int host;
};

enum entry_kind {
    ENTRY_BEGIN,
    ENTRY_SETTINGS, /* of a pooled connection */
    ENTRY_PREPARE,
    ENTRY_STATEMENT,
    ENTRY_COMMIT,
    ENTRY_RESET, /* the session as it was */
    ENTRY_LEFT,  /* part of the reset: answers whether prepared statements were left */
    ENTRY_SYNC,
    ENTRY_ROLLBACK
};

/* One message group in the pipeline, in the order in which its results come back. */
struct request_entry {
    enum entry_kind kind;
    int statement;
    int64_t name_key; /* of ENTRY_PREPARE, in `prepared` */
};

struct conn_request {
    db_done done;
    void *context;
    bool transaction;
    int statement_count;
    struct request_entry *entries;
    int entry_count, current;
    bool has_result;     /* of the current entry */
    bool is_large;       /* of more than a few packets */
    int unacknowledged;  /* bytes of a large one that the kernel held when they were last looked at
                          */
    bool closing_held;   /* COMMIT and the sync are not queued yet */
    bool closing_queued; /* from here on a loss leaves the outcome unknown */
    bool finished;       /* code, error and results say how it ended */
    bool resets;         /* the session is to be reset behind it */
    bool was_reset;      /* or the reset failed, and the session goes */
    bool ending;         /* it failed: ROLLBACK or the reset is on its way */
    bool left_prepared;  /* by SQL: to be dropped yet */
    int reset_at;        /* the first entry of the reset: an error from there on is not the request's; 0: none is queued */
    bool poisoned;       /* the session is of no more use after this request */
    enum status code;
    struct error error;
    struct error reset_error; /* why the session could not be reset */
    int failed;
    PGresult **results;
};

/* Where to try: a host, and its address when it had to be looked up or came with the string. */
struct conn_address {
    const struct conninfo_host *host;
    char text[64];
};

struct db_conn {
    uv_loop_t *loop;
    struct conn_events events;
    struct conninfo *info;
    char *role, *listen, *settings;
    bool pooled, resets;
    char *name, *encoding; /* application_name and client_encoding as the session began; with `resets` */
    int64_t connect_timeout_ms, request_timeout_ms;
    struct clock_ops clock;
    struct random_ops random;

    enum conn_state state;
    uv_timer_t timer; /* the deadline of the state */
    struct close_group close_group;
    PGconn *pg;
    struct conn_watcher *watcher; /* of the socket of `pg` */

    struct conn_lookup *lookup;
    int next_host;                                     /* that RESOLVING looks at */
    struct conn_address addresses[CONN_ADDRESSES_MAX]; /* what it found, in the string's order */
    int address_count;
    int first_address; /* tried first: the one behind an address that did not answer */
    struct error lookup_error;

    struct conn_request *request;
    int64_t requests_sent;
    struct map prepared; /* hash of a name -> the name, of what this session has prepared */

    bool was_up;
    int64_t up_since_ms;
    int64_t failures; /* attempts in a row that did not bring it up; for the back-off */
    int64_t relapses; /* times in a row that it came up and did not last */
    struct error loss;
    struct error farewell;     /* what the server said outside of a request before it hung up */
    struct error socket_error; /* why reading failed */
    struct log_limit log_limit;
};

/* conn.c */
void conn_set_state(struct db_conn *conn, enum conn_state state);
void conn_watch(struct db_conn *conn, int events);
void conn_unwatch(struct db_conn *conn);
void conn_lose(struct db_conn *conn, const struct error *why);
void conn_lose_by_libpq(struct db_conn *conn); /* with the server's words, else with libpq's */
bool conn_flush(struct db_conn *conn);         /* false: lost */
void conn_enter_ready(struct db_conn *conn);

/* conn_connect.c */
void connect_begin(struct db_conn *conn);
void connect_continue(struct db_conn *conn);   /* CONNECTING: the socket is ready */
bool connect_take_setup(struct db_conn *conn); /* SETTING_UP: takes what arrived; true when done */
void connect_timed_out(struct db_conn *conn);  /* the next attempt begins behind the host at hand */
void connect_abandon_lookup(struct db_conn *conn); /* the connection is closed */

/* conn_reset.c */
void reset_note_beginning(struct db_conn *conn); /* READY: what a reset goes back to */
bool reset_queue(struct db_conn *conn);
/* What the reset found that it could not undo by itself; true when there is something, so that a sync is to follow. */
bool reset_has_rest(const struct conn_request *request);
bool reset_queue_rest(struct db_conn *conn);

/* conn_request.c */
enum { REQUEST_RESET_ENTRIES = 10 };
bool request_queue_command(struct db_conn *conn, enum entry_kind kind, const char *text);
/* Prepared under its name, unless the connection is pooled. */
bool request_queue_named(struct db_conn *conn, enum entry_kind kind, const struct db_statement *statement, int index);
enum status request_check(const struct db_request *request, struct error *err) MUST_CHECK;
struct conn_request *request_create(const struct db_conn *conn, const struct db_request *request, db_done done,
                                    void *context);
/* Queues conn->request, all of it or, when large, all but its end; false: libpq refused. */
bool request_queue(struct db_conn *conn, const struct db_request *request);
bool request_queue_closing(struct db_conn *conn);
/* Takes what has arrived; true once the request is finished. */
bool request_receive(struct db_conn *conn);
void request_lost(struct conn_request *request, const struct error *why);
void request_answer(struct conn_request *request); /* calls back and frees */
void request_destroy(struct conn_request *request);
void request_forget_prepared(struct db_conn *conn);

#endif
