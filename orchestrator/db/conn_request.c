/* conn_request.c - one request: queued into libpq's pipeline, taken back result by result.
 *
 * What is queued: [BEGIN] [SETTINGS] (PREPARE? STATEMENT)* [COMMIT] [RESET ...] SYNC. An error makes the server skip
 * all up to the sync; when the transaction is then still open, ROLLBACK [RESET ...] SYNC follows before the request
 * is answered. The reset shares the sync with what it follows: behind a pooler in transaction mode the session may be
 * somebody else's after that.
 *
 * A large request keeps its closing part (COMMIT and the sync, without which nothing commits) back
 * until all else has left libpq's buffer. So "closing_queued" is what separates UNAVAILABLE from
 * UNCERTAIN.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/require.h"
#include "db/conn_private.h"
#include "db/pq_error.h"
#include "db/result_pq.h"

enum {
    PARAMS_MAX = 65535,               /* the protocol's 16 bits */
    STATEMENT_MAX_BYTES = 1000000000, /* a message of PostgreSQL is below 2^30 bytes */
    LARGE_ABOVE_BYTES = 32 * 1024,
};

/* ---- making ---- */

static size_t param_bytes(const struct db_param *param) {
    return param->data == NULL ? 0 : param->binary ? param->length : strlen(param->data);
}

static size_t statement_bytes(const struct db_statement *statement) {
    size_t bytes = strlen(statement->text);
    for (int i = 0; i < statement->param_count; i++) {
        bytes += param_bytes(&statement->params[i]);
    }
    return bytes;
}

enum status request_check(const struct db_request *request, struct error *err) {
    REQUIRE(request->statement_count > 0);
    for (int i = 0; i < request->statement_count; i++) {
        const struct db_statement *statement = &request->statements[i];
        REQUIRE(statement->param_count >= 0);
        if (statement->param_count > PARAMS_MAX) {
            return error_set(err, STATUS_LIMIT,
                             "a statement has %d parameters, at most %d can be sent",
                             statement->param_count, PARAMS_MAX);
        }
        size_t bytes = statement_bytes(statement);
        if (bytes > STATEMENT_MAX_BYTES) {
            return error_set(err, STATUS_LIMIT, "a statement has %zu bytes, at most %d can be sent",
                             bytes, STATEMENT_MAX_BYTES);
        }
    }
    return STATUS_OK;
}

struct conn_request *request_create(const struct db_conn *conn, const struct db_request *request, db_done done,
                                    void *context) {
    size_t statements = (size_t)request->statement_count;
    struct conn_request *made = mem_alloc(sizeof *made);
    made->done = done;
    made->context = context;
    made->transaction = request->transaction || conn->pooled;
    made->resets = request->transaction && conn->resets;
    made->statement_count = request->statement_count;
    made->failed = -1;
    made->entries = mem_alloc((2 * statements + 4 + REQUEST_RESET_ENTRIES) * sizeof *made->entries);
    made->results = mem_alloc(statements * sizeof *made->results);
    return made;
}

void request_destroy(struct conn_request *request) {
    for (int i = 0; i < request->statement_count; i++) {
        PQclear(request->results[i]);
    }
    free(request->results);
    free(request->entries);
    free(request);
}

/* ---- prepared statements ---- */

/* FNV-1a (Fowler, Noll, Vo). */
static int64_t name_key(const char *name) {
    uint64_t hash = 14695981039346656037U;
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * 1099511628211U;
    }
    return (int64_t)hash;
}

static void forget_prepared(struct db_conn *conn, int64_t key) {
    free(map_remove(&conn->prepared, key));
}

void request_forget_prepared(struct db_conn *conn) {
    MAP_EACH(slot, &conn->prepared) {
        free(slot->value);
    }
    map_finish(&conn->prepared);
    conn->prepared = (struct map){0};
}

/* ---- queueing ---- */

static struct request_entry *add_entry(struct conn_request *request, enum entry_kind kind,
                                       int statement) {
    struct request_entry *entry = &request->entries[request->entry_count++];
    *entry = (struct request_entry){.kind = kind, .statement = statement};
    return entry;
}

bool request_queue_command(struct db_conn *conn, enum entry_kind kind, const char *text) {
    add_entry(conn->request, kind, -1);
    return PQsendQueryParams(conn->pg, text, 0, NULL, NULL, NULL, NULL, 0) == 1;
}

static bool queue_sync(struct db_conn *conn) {
    add_entry(conn->request, ENTRY_SYNC, -1);
    return PQpipelineSync(conn->pg) == 1;
}

/* Sets *name to what the statement is prepared under, NULL when it has to go unnamed. */
static bool queue_prepare(struct db_conn *conn, const struct db_statement *statement, int index,
                          const char **name) {
    *name = conn->pooled ? NULL : statement->name;
    if (*name == NULL) {
        return true;
    }
    int64_t key = name_key(statement->name);
    const char *known = map_get(&conn->prepared, key);
    if (known != NULL) {
        *name = strcmp(known, statement->name) == 0 ? known : NULL;
        return true;
    }
    map_put(&conn->prepared, key, mem_copy_string(statement->name));
    add_entry(conn->request, ENTRY_PREPARE, index)->name_key = key;
    return PQsendPrepare(conn->pg, statement->name, statement->text, 0, NULL) == 1;
}

bool request_queue_named(struct db_conn *conn, enum entry_kind kind, const struct db_statement *statement, int index) {
    const char *name = NULL;
    if (!queue_prepare(conn, statement, index, &name)) {
        return false;
    }
    size_t count = (size_t)statement->param_count;
    const char **values = mem_resize(NULL, count, sizeof *values);
    int *lengths = mem_resize(NULL, count, sizeof *lengths);
    int *formats = mem_resize(NULL, count, sizeof *formats);
    for (size_t i = 0; i < count; i++) {
        const struct db_param *param = &statement->params[i];
        values[i] = param->data;
        lengths[i] = (int)param->length;
        formats[i] = param->binary;
    }
    add_entry(conn->request, kind, index);
    int sent = name != NULL ? PQsendQueryPrepared(conn->pg, name, statement->param_count, values,
                                                  lengths, formats, 0)
                            : PQsendQueryParams(conn->pg, statement->text, statement->param_count,
                                                NULL, values, lengths, formats, 0);
    free(formats);
    free(lengths);
    free(values);
    return sent == 1;
}

bool request_queue_closing(struct db_conn *conn) {
    struct conn_request *request = conn->request;
    request->closing_held = false;
    request->closing_queued = true;
    return (!request->transaction || request_queue_command(conn, ENTRY_COMMIT, "COMMIT")) && reset_queue(conn) &&
           queue_sync(conn);
}

bool request_queue(struct db_conn *conn, const struct db_request *request) {
    if (conn->request->transaction &&
        !request_queue_command(conn, ENTRY_BEGIN, conn->pooled ? "BEGIN ISOLATION LEVEL READ COMMITTED" : "BEGIN")) {
        return false;
    }
    if (conn->pooled && conn->settings != NULL && !request_queue_command(conn, ENTRY_SETTINGS, conn->settings)) {
        return false;
    }
    size_t bytes = 0;
    for (int i = 0; i < request->statement_count; i++) {
        if (!request_queue_named(conn, ENTRY_STATEMENT, &request->statements[i], i)) {
            return false;
        }
        bytes += statement_bytes(&request->statements[i]);
    }
    conn->request->is_large = bytes > LARGE_ABOVE_BYTES;
    conn->request->closing_held = conn->request->is_large;
    return conn->request->is_large || request_queue_closing(conn);
}

/* ---- failing ---- */

static int failed_statement(const struct conn_request *request, const struct request_entry *entry) {
    switch (entry->kind) {
    case ENTRY_PREPARE:
    case ENTRY_STATEMENT:
        return entry->statement;
    case ENTRY_COMMIT:
    case ENTRY_SYNC: /* where a lone statement commits */
        return request->statement_count;
    case ENTRY_BEGIN:
    case ENTRY_SETTINGS:
    case ENTRY_RESET:
    case ENTRY_LEFT:
    case ENTRY_ROLLBACK:
        return -1;
    }
    return -1;
}

/* The first failure is the request's; the server skips what follows. */
static void fail(struct conn_request *request, enum status code, const struct error *why,
                 int failed) {
    if (request->code == STATUS_OK) {
        request->code = code;
        request->error = *why;
        request->error.code = code;
        request->failed = failed;
    }
}

static void fail_with_text(struct conn_request *request, enum status code, const char *text) {
    struct error why = ERROR_NONE;
    error_set(&why, code, "%s", text);
    fail(request, code, &why, failed_statement(request, &request->entries[request->current]));
}

static enum status loss_code(const struct conn_request *request) {
    return request->closing_queued ? STATUS_UNCERTAIN : STATUS_UNAVAILABLE;
}

void request_lost(struct conn_request *request, const struct error *why) {
    if (!request->finished) {
        fail(request, loss_code(request), why, -1);
        request->finished = true;
    }
}

/* The prepared statement is unknown to the server, or known with another meaning: after DISCARD, or
 * when a pooler gave us another session, or when a table changed. A new session knows nothing of
 * it. */
static bool is_stale_statement(const struct request_entry *entry, const PGresult *result) {
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
    return strcmp(sqlstate, "26000") == 0 ||
           (strcmp(sqlstate, "42P05") == 0 && entry->kind == ENTRY_PREPARE) ||
           (strcmp(sqlstate, "0A000") == 0 && function != NULL &&
            strcmp(function, "RevalidateCachedQuery") == 0);
}

static bool is_of_reset(const struct conn_request *request) {
    return request->reset_at > 0 && request->current >= request->reset_at;
}

static void fail_reset(struct conn_request *request, const struct error *why) {
    request->reset_error = *why;
    request->reset_error.code = STATUS_UNAVAILABLE;
    error_wrap(&request->reset_error, "resetting the session");
    request->was_reset = true;
    request->poisoned = true;
}

static void take_error(struct db_conn *conn, const PGresult *result) {
    struct conn_request *request = conn->request;
    const struct request_entry *entry = &request->entries[request->current];
    struct error why = ERROR_NONE;
    bool fatal = false;
    enum status code = pq_error_of_result(&why, result, &fatal);
    bool commits = entry->kind == ENTRY_COMMIT || entry->kind == ENTRY_SYNC;
    if (!pq_error_is_from_server(result)) {
        request->poisoned = true;
        if (PQstatus(conn->pg) == CONNECTION_BAD) {
            return; /* the loss answers the request */
        }
        code = loss_code(request);
    } else if (is_of_reset(request)) {
        fail_reset(request, &why);
        return;
    } else if (fatal) {
        /* "Terminating" can hit a commit that was made and waits for a standby. */
        code = commits || !request->transaction ? loss_code(request) : STATUS_UNAVAILABLE;
        request->poisoned = true;
    } else if (is_stale_statement(entry, result)) {
        code = STATUS_UNAVAILABLE;
        request->poisoned = true;
    } else if (pq_error_ends_session(why.sqlstate)) {
        request->poisoned = true;
    }
    fail(request, code, &why, failed_statement(request, entry));
}

/* ---- taking ---- */

static void take_success(struct conn_request *request, PGresult **result) {
    const struct request_entry *entry = &request->entries[request->current];
    if (entry->kind == ENTRY_STATEMENT) {
        PQclear(request->results[entry->statement]);
        request->results[entry->statement] = *result;
        *result = NULL;
    } else if (entry->kind == ENTRY_COMMIT && strcmp(PQcmdStatus(*result), "COMMIT") != 0) {
        fail_with_text(request, STATUS_INVALID, "the transaction was rolled back");
    } else if (entry->kind == ENTRY_RESET) {
        request->was_reset = true;
    } else if (entry->kind == ENTRY_LEFT) {
        request->left_prepared = PQntuples(*result) == 1 && PQgetvalue(*result, 0, 0)[0] == 't';
    }
}

/* More to do behind the sync, before the request is answered. The entry in front is none of the reset's, so that reset_at
 * is not 0. */
static void begin_anew(struct conn_request *request) {
    request->entry_count = 0;
    request->current = 0;
    request->reset_at = 0;
    request->has_result = false;
}

static bool queue_ending(struct db_conn *conn, bool open) {
    begin_anew(conn->request);
    conn->request->ending = true;
    return request_queue_command(conn, ENTRY_ROLLBACK, open ? "ROLLBACK" : "") && reset_queue(conn) && queue_sync(conn);
}

static bool queue_rest(struct db_conn *conn) {
    begin_anew(conn->request);
    return reset_queue_rest(conn) && queue_sync(conn);
}

/* The pipeline is at its end. True when the request is. */
static bool take_sync(struct db_conn *conn) {
    struct conn_request *request = conn->request;
    bool in_place = request->entries[request->current].kind == ENTRY_SYNC;
    bool open = PQtransactionStatus(conn->pg) != PQTRANS_IDLE;
    if (!in_place) {
        fail_with_text(request, loss_code(request), "the answers do not fit the request");
        request->poisoned = true;
    } else if ((open || (request->resets && !request->was_reset)) && !request->ending && !request->poisoned) {
        if (open) {
            fail_with_text(request, STATUS_INVALID, "the statement left a transaction open");
        }
        if (queue_ending(conn, open)) {
            return false;
        }
        request->poisoned = true;
    } else if (!open && !request->poisoned && reset_has_rest(request)) {
        if (queue_rest(conn)) {
            return false;
        }
        request->poisoned = true;
    } else if (open) {
        request->poisoned = true;
    }
    request->finished = true;
    return true;
}

/* One non-NULL result. True when the request is finished. */
static bool take_result(struct db_conn *conn, PGresult *result) {
    struct conn_request *request = conn->request;
    const struct request_entry *entry = &request->entries[request->current];
    bool finished = false;
    request->has_result = true;
    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY:
        take_success(request, &result);
        break;
    case PGRES_PIPELINE_SYNC:
        finished = take_sync(conn);
        break;
    case PGRES_PIPELINE_ABORTED:
        break;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
        /* The protocol cannot leave this state within a pipeline. */
        fail_with_text(request, STATUS_INVALID, "COPY to or from the client is not possible here");
        request->poisoned = true;
        request->finished = true;
        finished = true;
        break;
    case PGRES_FATAL_ERROR:
    case PGRES_NONFATAL_ERROR:
    case PGRES_BAD_RESPONSE:
    case PGRES_SINGLE_TUPLE:
        take_error(conn, result);
        break;
    }
    if (entry->kind == ENTRY_PREPARE && PQresultStatus(result) != PGRES_COMMAND_OK) {
        forget_prepared(conn, entry->name_key);
    }
    PQclear(result);
    return finished;
}

bool request_receive(struct db_conn *conn) {
    struct conn_request *request = conn->request;
    while (!PQisBusy(conn->pg)) {
        PGresult *result = PQgetResult(conn->pg);
        if (result != NULL) {
            if (take_result(conn, result)) {
                return true;
            }
            continue;
        }
        if (!request->has_result) {
            return false; /* idle: the closing part is still held */
        }
        request->has_result = false;
        /* An error at commit time comes ahead of the sync, which has no NULL behind it. */
        if (request->entries[request->current].kind != ENTRY_SYNC) {
            request->current++;
        }
    }
    return false;
}

/* ---- answering ---- */

void request_answer(struct conn_request *request) {
    struct db_reply reply = {
        .code = request->code, .error = request->error, .failed = request->failed};
    if (request->code == STATUS_UNCERTAIN) {
        error_wrap(&reply.error, "the outcome is not known");
    }
    if (request->code == STATUS_OK) {
        reply.result_count = request->statement_count;
        reply.results = (const struct db_result *const *)(void *)request->results;
    }
    if (request->done != NULL) {
        request->done(request->context, &reply);
    }
    request_destroy(request);
}
