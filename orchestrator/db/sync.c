/* sync.c - blocking libpq. Statements are prepared under their name at their first use, and the role's time-outs are put
 * aside; unless a pooler stands between: then the next transaction may have another session, which knows nothing of
 * either, and this one may be given to somebody else.
 */
#include "db/sync.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/memory.h"
#include "db/conninfo.h"
#include "db/pq_error.h"
#include "db/result_pq.h"

struct db_sync {
    PGconn *pg;
    bool has_own_session;
    char **prepared;
    size_t prepared_count;
};

static void on_notice(void *context, const PGresult *notice) {
    (void)context;
    (void)notice; /* libpq's default would write to standard error */
}

/* A pooler makes up the number that its client would cancel requests with: the session is nobody's then, and left alone.
 * Commands wait as long as their work takes, whatever time-outs the role has; who is in a hurry has Ctrl-C. */
static enum status settle_session(PGconn *pg, bool *is_own, struct error *err) {
    char *sql = mem_format("select case when pg_catalog.pg_backend_pid() = %d then"
                           " pg_catalog.set_config('statement_timeout', '0', false)"
                           " || pg_catalog.set_config('lock_timeout', '0', false)"
                           " || pg_catalog.set_config('idle_in_transaction_session_timeout', '0', false)"
                           " || pg_catalog.set_config('idle_session_timeout', '0', false) end",
                           PQbackendPID(pg));
    PGresult *result = PQexec(pg, sql);
    enum status code = STATUS_OK;
    if (PQntuples(result) == 1) {
        *is_own = PQgetisnull(result, 0, 0) == 0;
    } else if (PQstatus(pg) == CONNECTION_OK) {
        code = pq_error_of_result(err, result, NULL);
    } else {
        code = pq_error_of_connection(err, STATUS_UNAVAILABLE, pg);
    }
    PQclear(result);
    free(sql);
    return code;
}

static PGconn *connect_by(const struct conninfo *info) {
    struct conninfo_params params;
    conninfo_params(info, NULL, NULL, NULL, &params);
    return PQconnectdbParams(params.keywords, params.values, 1);
}

/* Of several servers the one that writes; while there is none, one that can be read. A connection that failed is one to
 * ask why. */
static enum status connect_to_best(const char *url, const char *role, PGconn **pg, struct error *err) {
    struct conninfo *any = NULL, *writer = NULL;
    enum status code = conninfo_open(url, role, false, &any, err);
    if (code != STATUS_OK) {
        return code;
    }
    *pg = NULL;
    if (any->host_count > 1) {
        code = conninfo_open(url, role, true, &writer, err);
        *pg = code == STATUS_OK ? connect_by(writer) : NULL;
        conninfo_close(writer);
    }
    if (code == STATUS_OK && (*pg == NULL || PQstatus(*pg) != CONNECTION_OK)) {
        PQfinish(*pg);
        *pg = connect_by(any);
    }
    conninfo_close(any);
    return code;
}

enum status sync_open(const char *url, const char *role, struct db_sync **db, struct error *err) {
    PGconn *pg = NULL;
    enum status code = connect_to_best(url, role, &pg, err);
    if (code != STATUS_OK) {
        return code;
    }
    if (PQstatus(pg) != CONNECTION_OK) {
        code = pq_error_of_connection(err, STATUS_UNAVAILABLE, pg);
        PQfinish(pg);
        return code;
    }
    PQsetNoticeReceiver(pg, on_notice, NULL);
    bool has_own_session = false;
    code = settle_session(pg, &has_own_session, err);
    if (code != STATUS_OK) {
        PQfinish(pg);
        return code;
    }
    *db = mem_alloc(sizeof **db);
    (*db)->pg = pg;
    (*db)->has_own_session = has_own_session;
    return STATUS_OK;
}

void sync_close(struct db_sync *db) {
    if (db == NULL) {
        return;
    }
    PQfinish(db->pg);
    for (size_t i = 0; i < db->prepared_count; i++) {
        free(db->prepared[i]);
    }
    free(db->prepared);
    free(db);
}

/* True when a loss from now on leaves it open whether something was committed. */
static bool may_commit(const struct db_sync *db, const char *text) {
    text += strspn(text, " \t\r\n");
    return PQtransactionStatus(db->pg) == PQTRANS_IDLE || strncasecmp(text, "commit", 6) == 0 ||
           strncasecmp(text, "end", 3) == 0;
}

/* A connection that the server has closed while it was idle: nothing has been sent, so nothing is
 * uncertain. */
static enum status check_alive(struct db_sync *db, struct error *err) {
    struct pollfd socket = {.fd = PQsocket(db->pg), .events = POLLIN};
    bool lost = PQstatus(db->pg) != CONNECTION_OK;
    while (!lost && poll(&socket, 1, 0) == 1) {
        lost = PQconsumeInput(db->pg) == 0; /* its last words come ahead of the end */
    }
    return lost ? pq_error_of_connection(err, STATUS_UNAVAILABLE, db->pg) : STATUS_OK;
}

/* Takes a result of any kind: *result is it when it is wanted and fine, else it is freed. */
static enum status take(struct db_sync *db, PGresult *pq, bool committing,
                        struct db_result **result, struct error *err) {
    ExecStatusType status = PQresultStatus(pq);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY) {
        if (result != NULL) {
            *result = result_of_pq(pq);
        } else {
            PQclear(pq);
        }
        return STATUS_OK;
    }
    struct error why = ERROR_NONE;
    enum status code = STATUS_INVALID;
    if (pq == NULL) {
        code = pq_error_of_connection(&why, STATUS_UNAVAILABLE, db->pg);
    } else if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) {
        code = error_set(&why, STATUS_INVALID, "COPY to or from the client is not possible here");
    } else {
        code = pq_error_of_result(&why, pq, NULL);
    }
    if (PQstatus(db->pg) == CONNECTION_BAD) {
        code = committing ? STATUS_UNCERTAIN : STATUS_UNAVAILABLE;
    }
    PQclear(pq);
    if (err != NULL && err->code == STATUS_OK) {
        *err = why;
        err->code = code;
    }
    return code;
}

bool sync_has_own_session(const struct db_sync *db) {
    return db->has_own_session;
}

static enum status prepare(struct db_sync *db, const char *name, const char *text,
                           struct error *err) {
    for (size_t i = 0; i < db->prepared_count; i++) {
        if (strcmp(db->prepared[i], name) == 0) {
            return STATUS_OK;
        }
    }
    enum status code = take(db, PQprepare(db->pg, name, text, 0, NULL), false, NULL, err);
    if (code == STATUS_OK) {
        db->prepared = mem_resize(db->prepared, db->prepared_count + 1, sizeof *db->prepared);
        db->prepared[db->prepared_count++] = mem_copy_string(name);
    }
    return code;
}

static PGresult *execute(struct db_sync *db, const char *name, const char *text, int param_count,
                         const struct db_param *params) {
    size_t count = (size_t)param_count;
    const char **values = mem_resize(NULL, count, sizeof *values);
    int *lengths = mem_resize(NULL, count, sizeof *lengths);
    int *formats = mem_resize(NULL, count, sizeof *formats);
    for (size_t i = 0; i < count; i++) {
        values[i] = params[i].data;
        lengths[i] = (int)params[i].length;
        formats[i] = params[i].binary;
    }
    PGresult *result =
        name != NULL ? PQexecPrepared(db->pg, name, param_count, values, lengths, formats, 0)
                     : PQexecParams(db->pg, text, param_count, NULL, values, lengths, formats, 0);
    free(formats);
    free(lengths);
    free(values);
    return result;
}

enum status sync_run(struct db_sync *db, const char *name, const char *text, int param_count,
                     const struct db_param *params, struct db_result **result, struct error *err) {
    enum status code = check_alive(db, err);
    if (code == STATUS_OK && !db->has_own_session) {
        name = NULL;
    }
    if (code == STATUS_OK && name != NULL) {
        code = prepare(db, name, text, err);
    }
    if (code != STATUS_OK) {
        return code;
    }
    bool committing = may_commit(db, text);
    return take(db, execute(db, name, text, param_count, params), committing, result, err);
}

enum status sync_script(struct db_sync *db, const char *text, struct error *err) {
    enum status code = check_alive(db, err);
    if (code != STATUS_OK) {
        return code;
    }
    bool committing = may_commit(db, text);
    return take(db, PQexec(db->pg, text), committing, NULL, err);
}

void sync_result_free(struct db_result *result) {
    PQclear(result_pq(result));
}

/* True when a notification was there; all that are there are taken. */
static bool take_notifications(struct db_sync *db) {
    bool any = false;
    for (PGnotify *notify; (notify = PQnotifies(db->pg)) != NULL; any = true) {
        PQfreemem(notify);
    }
    return any;
}

enum status sync_wait(struct db_sync *db, int64_t timeout_ms, struct error *err) {
    int64_t deadline = clock_now_ms(&clock_boottime) + timeout_ms;
    while (!take_notifications(db)) {
        int64_t left = deadline - clock_now_ms(&clock_boottime);
        if (left <= 0) {
            return STATUS_OK;
        }
        struct pollfd socket = {.fd = PQsocket(db->pg), .events = POLLIN};
        int ready = poll(&socket, 1, left < 60000 ? (int)left : 60000);
        if (ready < 0 && errno != EINTR) {
            return error_set_errno(err, STATUS_INTERNAL, errno, "waiting for a notification");
        }
        if (ready > 0 && PQconsumeInput(db->pg) == 0) {
            return pq_error_of_connection(err, STATUS_UNAVAILABLE, db->pg);
        }
    }
    return STATUS_OK;
}
