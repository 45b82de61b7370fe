/* conn_connect.c - from host names to a session that is set up.
 *
 * libpq would look names up blocking, so it is given addresses: each host name in the string
 * becomes as many entries as it has addresses, in order, under its own name (certificates are
 * checked against it). While connecting, libpq may close the socket and open another one under the
 * same number: the watcher goes before each PQconnectPoll.
 */
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "db/conn_private.h"
#include "db/pq_error.h"
#include "db/result_pq.h"

enum { LIST_MAX_BYTES = 64 * 1024, SCRIPT_MAX_BYTES = 1024 * 1024 };

static void lose_with_message(struct db_conn *conn) {
    struct error why = ERROR_NONE;
    pq_error_of_connection(&why, STATUS_UNAVAILABLE, conn->pg);
    conn_lose(conn, &why);
}

/* ---- names ---- */

static void add_address(struct db_conn *conn, const struct conninfo_host *host, const char *text) {
    if (conn->address_count < CONN_ADDRESSES_MAX) {
        struct conn_address *address = &conn->addresses[conn->address_count++];
        address->host = host;
        snprintf(address->text, sizeof address->text, "%s", text);
    }
}

static void note_lookup_error(struct db_conn *conn, int rc) {
    error_set(&conn->lookup_error, STATUS_UNAVAILABLE, "the host name %s cannot be looked up: %s",
              log_text(conn->info->hosts[conn->next_host].name), uv_strerror(rc));
}

static void take_addresses(struct db_conn *conn, int status, const struct addrinfo *found) {
    if (status != 0) {
        note_lookup_error(conn, status);
    }
    for (; status == 0 && found != NULL; found = found->ai_next) {
        char text[sizeof conn->addresses[0].text];
        if (getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, NULL, 0,
                        NI_NUMERICHOST) == 0) {
            add_address(conn, &conn->info->hosts[conn->next_host], text);
        }
    }
    conn->next_host++;
}

static void look_up_rest(struct db_conn *conn);

static void on_looked_up(uv_getaddrinfo_t *request, int status, struct addrinfo *found) {
    struct conn_lookup *lookup = request->data;
    struct db_conn *conn = lookup->conn;
    if (conn != NULL) {
        conn->lookup = NULL;
    }
    if (conn != NULL && conn->state == CONN_RESOLVING) {
        /* One that an earlier attempt began serves this one, if it is of the same host. */
        if (lookup->host == conn->next_host) {
            take_addresses(conn, status, found);
        }
        look_up_rest(conn);
    }
    uv_freeaddrinfo(found);
    free(lookup);
}

static int start_lookup(struct db_conn *conn) {
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct conn_lookup *lookup = mem_alloc(sizeof *lookup);
    lookup->conn = conn;
    lookup->host = conn->next_host;
    lookup->request.data = lookup;
    int rc = uv_getaddrinfo(conn->loop, &lookup->request, on_looked_up,
                            conn->info->hosts[conn->next_host].name, NULL, &hints);
    if (rc != 0) {
        free(lookup);
        return rc;
    }
    conn->lookup = lookup;
    return 0;
}

void connect_abandon_lookup(struct db_conn *conn) {
    if (conn->lookup != NULL) {
        conn->lookup->conn = NULL;
        (void)uv_cancel((uv_req_t *)&conn->lookup->request); /* one that runs goes on */
        conn->lookup = NULL;
    }
}

/* ---- connecting ---- */

/* The addresses as three lists, from `first_address` on. */
static PGconn *start_libpq(struct db_conn *conn) {
    struct buf lists[3];
    for (int i = 0; i < 3; i++) {
        buf_init(&lists[i], LIST_MAX_BYTES);
    }
    for (int i = 0; i < conn->address_count; i++) {
        int index = (conn->first_address + i) % conn->address_count;
        const struct conn_address *address = &conn->addresses[index];
        const char *const parts[3] = {address->host->name, address->text, address->host->port};
        for (int part = 0; part < 3; part++) {
            buf_append_string(&lists[part], i > 0 ? "," : "");
            buf_append_string(&lists[part], parts[part]);
        }
    }
    struct conninfo_params params;
    conninfo_params(conn->info, lists[0].data, lists[1].data, lists[2].data, &params);
    PGconn *pg = PQconnectStartParams(params.keywords, params.values, 1);
    for (int i = 0; i < 3; i++) {
        buf_finish(&lists[i]);
    }
    return pg;
}

/* Errors outside of a request are the server's last words: why it ends the session. */
static void on_notice(void *context, const PGresult *notice) {
    struct db_conn *conn = context;
    const char *sqlstate = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
    struct error said = ERROR_NONE;
    bool fatal = false;
    pq_error_of_result(&said, notice, &fatal);
    if (fatal || (sqlstate != NULL && pq_error_ends_session(sqlstate))) {
        conn->farewell = said;
    }
}

static void start_connecting(struct db_conn *conn) {
    conn->pg = start_libpq(conn);
    if (conn->pg == NULL || PQstatus(conn->pg) == CONNECTION_BAD) {
        lose_with_message(conn);
        return;
    }
    PQsetNoticeReceiver(conn->pg, on_notice, conn);
    conn_set_state(conn, CONN_CONNECTING);
    conn_watch(conn, UV_WRITABLE);
}

static void look_up_rest(struct db_conn *conn) {
    for (; conn->next_host < conn->info->host_count; conn->next_host++) {
        const struct conninfo_host *host = &conn->info->hosts[conn->next_host];
        if (!host->needs_lookup) {
            add_address(conn, host, host->address);
            continue;
        }
        int rc = conn->lookup != NULL ? 0 : start_lookup(conn);
        if (rc == 0) {
            return; /* goes on when it is done */
        }
        note_lookup_error(conn, rc);
    }
    if (conn->info->host_count > 0 && conn->address_count == 0) {
        error_set(&conn->lookup_error, STATUS_UNAVAILABLE, "no host has an address");
        conn_lose(conn, &conn->lookup_error);
        return;
    }
    start_connecting(conn);
}

void connect_begin(struct db_conn *conn) {
    conn_set_state(conn, CONN_RESOLVING);
    conn->next_host = 0;
    conn->address_count = 0;
    memset(conn->addresses, 0, sizeof conn->addresses);
    error_clear(&conn->lookup_error);
    look_up_rest(conn);
}

/* ---- set-up ---- */

/* A server that runs a long statement for a client that is gone is to notice. Not every version and
 * platform can. */
static const char check_client[] =
    "do $$ begin perform pg_catalog.set_config('client_connection_check_interval', '10s', false);"
    " exception when others then null; end $$;\n";

static void append_listen(struct buf *script, PGconn *pg, const char *channel) {
    char *identifier = PQescapeIdentifier(pg, channel, strlen(channel));
    if (identifier != NULL) {
        buf_append_format(script, "LISTEN %s", identifier);
    }
    PQfreemem(identifier);
}

/* Not in pipeline mode yet: only the simple protocol takes several statements in one text. */
static bool send_setup(struct db_conn *conn) {
    struct buf script;
    buf_init(&script, SCRIPT_MAX_BYTES);
    /* A pooler gives out a session for this alone, and takes it back as it is. */
    buf_append_string(&script, conn->pooled ? "select 1" : check_client);
    if (conn->settings != NULL && !conn->pooled) {
        buf_append_format(&script, "%s\n;", conn->settings);
    }
    if (conn->listen != NULL) {
        append_listen(&script, conn->pg, conn->listen);
    }
    bool sent = !script.overflow && PQsendQuery(conn->pg, script.data) == 1;
    buf_finish(&script);
    return sent;
}

static void start_setup(struct db_conn *conn) {
    conn_set_state(conn, CONN_SETTING_UP);
    if (PQsetnonblocking(conn->pg, 1) != 0 || !send_setup(conn)) {
        lose_with_message(conn);
        return;
    }
    (void)conn_flush(conn);
}

bool connect_take_setup(struct db_conn *conn) {
    while (!PQisBusy(conn->pg)) {
        PGresult *result = PQgetResult(conn->pg);
        if (result == NULL) {
            return PQenterPipelineMode(conn->pg) == 1;
        }
        ExecStatusType status = PQresultStatus(result);
        bool fine =
            status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
        struct error why = ERROR_NONE;
        if (!fine) {
            pq_error_of_result(&why, result, NULL);
            error_wrap(&why, "setting up the session");
        }
        PQclear(result);
        if (!fine) {
            conn_lose(conn, &why);
            return false;
        }
    }
    return false;
}

void connect_continue(struct db_conn *conn) {
    conn_unwatch(conn);
    switch (PQconnectPoll(conn->pg)) {
    case PGRES_POLLING_READING:
        conn_watch(conn, UV_READABLE);
        return;
    case PGRES_POLLING_WRITING:
        conn_watch(conn, UV_WRITABLE);
        return;
    case PGRES_POLLING_OK:
        start_setup(conn);
        return;
    case PGRES_POLLING_FAILED:
    case PGRES_POLLING_ACTIVE:
        conn->first_address = 0;
        lose_with_message(conn);
        return;
    }
}

/* ---- the deadline ---- */

static bool is_current(const struct db_conn *conn, const struct conn_address *address) {
    const char *name = address->host->name[0] != '\0' ? address->host->name : address->text;
    const char *port = address->host->port;
    return strcmp(PQhost(conn->pg), name) == 0 &&
           (address->text[0] == '\0' || strcmp(PQhostaddr(conn->pg), address->text) == 0) &&
           (port[0] == '\0' || strcmp(PQport(conn->pg), port) == 0);
}

void connect_timed_out(struct db_conn *conn) {
    struct error why = ERROR_NONE;
    if (conn->state == CONN_RESOLVING) {
        error_set(&why, STATUS_UNAVAILABLE,
                  "the host name %s was not looked up within %" PRId64 " ms",
                  log_text(conn->info->hosts[conn->next_host].name), conn->connect_timeout_ms);
    } else {
        error_set(&why, STATUS_UNAVAILABLE, "host %s, port %s did not answer within %" PRId64 " ms",
                  log_text(PQhost(conn->pg)), log_text(PQport(conn->pg)), conn->connect_timeout_ms);
    }
    /* One silent host must not keep the ones behind it from being tried. */
    for (int i = 0; conn->state == CONN_CONNECTING && i < conn->address_count; i++) {
        if (is_current(conn, &conn->addresses[i])) {
            conn->first_address = (i + 1) % conn->address_count;
            break;
        }
    }
    conn_lose(conn, &why);
}
