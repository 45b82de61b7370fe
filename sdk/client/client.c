/* client.c - documents into pgstage.submit_set, chunk by chunk, each in a savepoint when there is a transaction.
 *
 * The server does not say which document of a chunk it does not like. So when a chunk is refused for what it contains, its
 * halves are tried with a statement that converts and writes nothing, down to the first one that is wrong.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chunk.h"

enum { KEY_MAX_BYTES = 1024 };

static const char submit_text[] =
    "select s.outcome, s.task, s.version from pgstage.submit_set($1::text, $2::text[], $3::jsonb[], $4::timestamptz[],"
    " $5::int[], $6::timestamptz[], $7::boolean) s order by s.ordinal";
static const char convert_text[] = "select $1::text[], $2::jsonb[], $3::timestamptz[], $4::timestamptz[]";

struct call {
    PGconn *pg;
    const char *pipeline;
    struct documents documents;
    bool if_changed, in_transaction;
    struct pgstage_client_error error;
    struct chunk chunk;
};

/* ---- errors ---- */

static enum pgstage_client_code code_of_sqlstate(const char *sqlstate) {
    static const struct {
        const char *prefix;
        enum pgstage_client_code code;
    } meanings[] = {
        {"22", PGSTAGE_CLIENT_INVALID},        {"23", PGSTAGE_CLIENT_INVALID},
        {"54000", PGSTAGE_CLIENT_INVALID},     {"P0F02", PGSTAGE_CLIENT_NO_PIPELINE},
        {"40", PGSTAGE_CLIENT_CONFLICT},       {"55P03", PGSTAGE_CLIENT_CONFLICT},
        {"57014", PGSTAGE_CLIENT_CONFLICT},    {"53", PGSTAGE_CLIENT_UNAVAILABLE},
        {"57", PGSTAGE_CLIENT_UNAVAILABLE},    {"25006", PGSTAGE_CLIENT_UNAVAILABLE},
        {"08", PGSTAGE_CLIENT_LOST},
    };
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (strncmp(sqlstate, meanings[i].prefix, strlen(meanings[i].prefix)) == 0) {
            return meanings[i].code;
        }
    }
    return PGSTAGE_CLIENT_REFUSED;
}

/* A text that was cut off may end in the middle of a character of UTF-8. */
static void cut_between_characters(char *text) {
    size_t end = strlen(text);
    while (end > 0 && ((unsigned char)text[end - 1] & 0xC0) == 0x80) {
        end--;
    }
    if (end > 0 && ((unsigned char)text[end - 1] & 0x80) != 0) {
        end--;
    }
    text[end] = '\0';
}

static enum pgstage_client_code set_error(struct call *call, enum pgstage_client_code code, size_t document,
                                          const char *text) {
    struct pgstage_client_error *error = &call->error;
    error->code = code;
    error->document = document;
    int length = snprintf(error->text, sizeof error->text, "%s", text);
    if (length >= (int)sizeof error->text) {
        cut_between_characters(error->text);
    }
    for (char *at = error->text; *at != '\0'; at++) {
        if (iscntrl((unsigned char)*at)) {
            *at = ' ';
        }
    }
    for (size_t end = strlen(error->text); end > 0 && error->text[end - 1] == ' '; end--) {
        error->text[end - 1] = '\0';
    }
    return code;
}

/* Of a result that is no success, or of none. */
static enum pgstage_client_code set_server_error(struct call *call, const PGresult *result) {
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    snprintf(call->error.sqlstate, sizeof call->error.sqlstate, "%s", sqlstate == NULL ? "" : sqlstate);
    if (PQstatus(call->pg) != CONNECTION_OK) {
        return set_error(call, PGSTAGE_CLIENT_LOST, PGSTAGE_NO_DOCUMENT,
                         message != NULL ? message : PQerrorMessage(call->pg));
    }
    return set_error(call, sqlstate == NULL ? PGSTAGE_CLIENT_MEMORY : code_of_sqlstate(sqlstate), PGSTAGE_NO_DOCUMENT,
                     message != NULL ? message : PQerrorMessage(call->pg));
}

static bool is_fine(const PGresult *result) {
    return PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK;
}

/* ---- statements ---- */

static bool command(struct call *call, const char *text) {
    PGresult *result = PQexec(call->pg, text);
    bool fine = is_fine(result);
    if (!fine) {
        (void)set_server_error(call, result);
    }
    PQclear(result);
    return fine;
}

/* Runs one statement; in a transaction it leaves nothing of itself when it fails. NULL: failed, the error is set. */
static PGresult *run(struct call *call, const char *text, int count, const char *const *values) {
    if (call->in_transaction && !command(call, "savepoint pgstage_submit")) {
        return NULL;
    }
    PGresult *result = PQexecParams(call->pg, text, count, NULL, values, NULL, NULL, 0);
    bool fine = is_fine(result);
    if (!fine) {
        (void)set_server_error(call, result);
        PQclear(result);
        result = NULL;
    }
    if (call->in_transaction && PQstatus(call->pg) == CONNECTION_OK) {
        struct pgstage_client_error first = call->error;
        bool settled = (fine || command(call, "rollback to savepoint pgstage_submit")) &&
                       command(call, "release savepoint pgstage_submit");
        if (!fine) {
            call->error = first; /* what went wrong first */
        } else if (!settled) {
            PQclear(result);
            result = NULL;
        }
    }
    return result;
}

/* ---- which document is wrong ---- */

static bool converts(struct call *call, size_t first, size_t count) {
    if (!chunk_fill(&call->chunk, &call->documents, first, count)) {
        return true;
    }
    const struct chunk_text *arrays = call->chunk.arrays;
    const char *values[] = {arrays[CHUNK_KEYS].data, arrays[CHUNK_PAYLOADS].data, arrays[CHUNK_STAMPS].data,
                            arrays[CHUNK_RUN_ATS].data};
    PGresult *result = run(call, convert_text, 4, values);
    bool fine = result != NULL || call->error.code != PGSTAGE_CLIENT_INVALID;
    PQclear(result);
    return fine;
}

/* The chunk was refused for its content. Leaves the error of the document alone, if it is one document's. */
static void find_wrong(struct call *call, size_t first, size_t count) {
    struct pgstage_client_error whole = call->error;
    if (converts(call, first, count)) {
        call->error = whole; /* what is wrong is not what a document looks like */
        return;
    }
    while (count > 1) {
        size_t half = count / 2;
        if (converts(call, first, half)) {
            first += half;
            count -= half;
        } else {
            count = half;
        }
    }
    if (converts(call, first, 1)) {
        call->error = whole;
        return;
    }
    call->error.document = first;
}

/* ---- a chunk ---- */

static enum pgstage_outcome outcome_of(const char *name) {
    return strcmp(name, "new") == 0 ? PGSTAGE_NEW : strcmp(name, "updated") == 0 ? PGSTAGE_UPDATED : PGSTAGE_UNCHANGED;
}

static void take_outcomes(const PGresult *result, char *submitted, size_t size, size_t count) {
    for (size_t i = 0; i < count && i < (size_t)PQntuples(result); i++) {
        struct pgstage_submitted one = {.outcome = outcome_of(PQgetvalue(result, (int)i, 0)),
                                        .task = strtoll(PQgetvalue(result, (int)i, 1), NULL, 10),
                                        .version = strtoll(PQgetvalue(result, (int)i, 2), NULL, 10)};
        memcpy(submitted + i * size, &one, size < sizeof one ? size : sizeof one);
    }
}

static bool submit_chunk(struct call *call, size_t first, size_t count, char *submitted, size_t submitted_size) {
    if (!chunk_fill(&call->chunk, &call->documents, first, count)) {
        (void)set_error(call, PGSTAGE_CLIENT_MEMORY, PGSTAGE_NO_DOCUMENT, "not enough memory");
        return false;
    }
    const struct chunk_text *arrays = call->chunk.arrays;
    const char *values[] = {call->pipeline,
                            arrays[CHUNK_KEYS].data,
                            arrays[CHUNK_PAYLOADS].data,
                            arrays[CHUNK_STAMPS].data,
                            arrays[CHUNK_PRIORITIES].data,
                            arrays[CHUNK_RUN_ATS].data,
                            call->if_changed ? "true" : "false"};
    PGresult *result = run(call, submit_text, 7, values);
    if (result == NULL) {
        if (call->error.code == PGSTAGE_CLIENT_INVALID) {
            find_wrong(call, first, count);
        }
        return false;
    }
    if (submitted != NULL) {
        take_outcomes(result, submitted + first * submitted_size, submitted_size, count);
    }
    PQclear(result);
    return true;
}

/* ---- the call ---- */

static bool check_connection(struct call *call) {
    if (call->pg == NULL || PQstatus(call->pg) != CONNECTION_OK) {
        (void)set_error(call, PGSTAGE_CLIENT_LOST, PGSTAGE_NO_DOCUMENT, "there is no connection");
        return false;
    }
    const char *why = NULL;
    switch (PQtransactionStatus(call->pg)) {
    case PQTRANS_IDLE:
        break;
    case PQTRANS_INTRANS:
        call->in_transaction = true;
        break;
    case PQTRANS_ACTIVE:
        why = "the connection is busy with another statement";
        break;
    case PQTRANS_INERROR:
        why = "the transaction has failed before this call: roll it back";
        break;
    case PQTRANS_UNKNOWN:
        why = "the connection is in no state to be used";
        break;
    }
    if (why == NULL && PQpipelineStatus(call->pg) != PQ_PIPELINE_OFF) {
        why = "the connection is in pipeline mode";
    }
    if (why != NULL) {
        (void)set_error(call, PGSTAGE_CLIENT_STATE, PGSTAGE_NO_DOCUMENT, why);
    }
    return why == NULL;
}

/* What the server's check would refuse without saying whose it is. Names the first one. */
static bool check_keys(struct call *call, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++) {
        struct pgstage_document document = chunk_document(&call->documents, i);
        size_t length = document.key == NULL ? 0 : strlen(document.key);
        if (length == 0 || length > KEY_MAX_BYTES) {
            (void)set_error(call, PGSTAGE_CLIENT_INVALID, i, "a key has from 1 to 1,024 bytes");
            return false;
        }
    }
    return true;
}

static void submit_all(struct call *call, char *submitted, size_t submitted_size) {
    for (size_t first = 0; first < call->documents.count && call->error.code == PGSTAGE_CLIENT_OK;) {
        size_t count = chunk_measure(&call->chunk, &call->documents, first);
        if (!check_keys(call, first, count) || !submit_chunk(call, first, count, submitted, submitted_size)) {
            return;
        }
        first += count;
    }
}

enum pgstage_client_code pgstage_client_submit(PGconn *connection, const char *pipeline,
                                               const struct pgstage_document *documents, size_t count,
                                               size_t document_size, const struct pgstage_submit_options *options,
                                               size_t options_size, struct pgstage_submitted *submitted,
                                               size_t submitted_size, struct pgstage_client_error *error) {
    if (submitted != NULL) {
        memset((void *)submitted, 0, count * submitted_size);
    }
    enum pgstage_client_code code = PGSTAGE_CLIENT_MEMORY;
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        if (error != NULL) {
            *error = (struct pgstage_client_error){.code = code, .document = PGSTAGE_NO_DOCUMENT, .text = "not enough memory"};
        }
        return code;
    }
    call->pg = connection;
    call->pipeline = pipeline;
    call->documents = (struct documents){(const char *)documents, document_size, count};
    call->if_changed = options != NULL && options_size > 0 && options->if_changed;
    call->error.document = PGSTAGE_NO_DOCUMENT;
    if (check_connection(call)) {
        submit_all(call, (char *)submitted, submitted_size);
    }
    code = call->error.code;
    if (error != NULL) {
        *error = call->error;
    }
    chunk_finish(&call->chunk);
    free(call);
    return code;
}
