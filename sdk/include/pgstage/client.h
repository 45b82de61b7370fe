/* pgstage/client.h - submit documents to a pipeline, on your own connection and in your own transaction.
 *
 *     #include <pgstage/client.h>
 *
 *     PQclear(PQexec(pg, "begin"));
 *     PQclear(PQexec(pg, "insert into letters (id, body) values ('l1', 'Dear all')"));
 *     struct pgstage_document document = {.key = "l1", .payload = "{\"table\": \"letters\"}"};
 *     struct pgstage_client_error error;
 *     if (pgstage_submit(pg, "words", &document, NULL, NULL, &error) != PGSTAGE_CLIENT_OK) {
 *         fprintf(stderr, "%s\n", error.text);
 *     }
 *     PQclear(PQexec(pg, "commit"));   // the letter and its task are there, both or neither
 *
 * Link with -lpgstage_client (pkg-config: pgstage-client). The role of the connection needs pgstage_enqueuer.
 *
 * Transactions: the library never begins or ends one. Within yours, each call and each chunk of a call is a savepoint of
 * its own: when it fails, your transaction goes on as if it had not been called. Without one, each chunk commits by itself.
 * While your transaction is open, other work on the same documents waits for it; other documents do not.
 * Blocking: as long as PQexecParams does on this connection; what bounds that (statement_timeout, lock_timeout) is yours.
 * Ownership: everything given is borrowed for the call; nothing is kept, and nothing needs to be freed.
 * Texts: in the encoding of the connection (client_encoding), both ways.
 * Thread rule: as libpq's: one thread at a time on a connection. There is no state outside of the connection.
 * Errors: functions return a code; `error`, when it is not NULL, says more. All outputs are set in either case.
 */
#ifndef PGSTAGE_CLIENT_H
#define PGSTAGE_CLIENT_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PGSTAGE_CLIENT_API __attribute__((visibility("default")))

/* Units: documents, and bytes, of one chunk. A larger document goes alone. */
#define PGSTAGE_CHUNK_DOCUMENTS 1000
#define PGSTAGE_CHUNK_BYTES ((size_t)8 * 1024 * 1024)

enum pgstage_client_code {
    PGSTAGE_CLIENT_OK = 0,
    PGSTAGE_CLIENT_INVALID = 1,     /* a document is wrong: error.document says which; repeating would not help */
    PGSTAGE_CLIENT_NO_PIPELINE = 2, /* nobody has registered the pipeline */
    PGSTAGE_CLIENT_STATE = 3,       /* the connection is busy, in pipeline mode, or its transaction has failed already */
    PGSTAGE_CLIENT_CONFLICT = 4,    /* it clashed with other sessions (class 40, a time-out): may work later */
    PGSTAGE_CLIENT_UNAVAILABLE = 5, /* the server refuses now (class 53, 57), or only reads: may work later */
    PGSTAGE_CLIENT_LOST = 6,        /* the connection was lost; without a transaction the chunk may have been committed:
                                       submit it again, that does no harm */
    PGSTAGE_CLIENT_REFUSED = 7,     /* the server refused for another reason: rights, a schema that is not there */
    PGSTAGE_CLIENT_MEMORY = 8,
};

#define PGSTAGE_NO_DOCUMENT ((size_t)-1)

struct pgstage_client_error {
    enum pgstage_client_code code;
    char sqlstate[6]; /* "" when the server did not speak */
    size_t document;  /* index of the document that is wrong, or PGSTAGE_NO_DOCUMENT */
    char text[512];   /* one line; never a payload or a password */
};

/* Zero is the default of every field. Fields are only ever appended. */
struct pgstage_document {
    const char *key;        /* 1 to 1,024 bytes */
    const char *payload;    /* JSON; NULL: none */
    const char *updated_at; /* which state of the document it is, as PostgreSQL reads timestamptz; NULL: now */
    const char *run_at;     /* not before then; NULL: at once */
    bool has_priority;      /* false: 0, or what the task has */
    int priority;           /* lower first */
};

/* Fields are only ever appended. */
struct pgstage_submit_options {
    bool if_changed; /* take a document whose stamp or payload differs at all, not only a newer one */
};

enum pgstage_outcome {
    PGSTAGE_NOT_SUBMITTED = 0, /* its chunk failed, or was not reached */
    PGSTAGE_NEW = 1,
    PGSTAGE_UPDATED = 2,
    PGSTAGE_UNCHANGED = 3, /* the task is as new already: nothing was done */
};

struct pgstage_submitted {
    enum pgstage_outcome outcome;
    int64_t task, version; /* 0 when not submitted or unchanged */
};

/* The functions behind the calls below: they take the sizes that the caller was compiled with. Since: 0.1 */
PGSTAGE_CLIENT_API enum pgstage_client_code pgstage_client_submit(
    PGconn *connection, const char *pipeline, const struct pgstage_document *documents, size_t count,
    size_t document_size, const struct pgstage_submit_options *options, size_t options_size,
    struct pgstage_submitted *submitted, size_t submitted_size, struct pgstage_client_error *error);

/* Submits `count` documents, in chunks of at most PGSTAGE_CHUNK_DOCUMENTS and PGSTAGE_CHUNK_BYTES. At the first chunk that
 * fails it ends: nothing of that chunk is submitted, the chunks before it are. A key may come again; the later document
 * counts, by the rule for newer ones. Memory: a few times a chunk, however many documents there are.
 * options: NULL for the defaults. submitted: NULL, or one for each document. */
static inline enum pgstage_client_code pgstage_submit_many(PGconn *connection, const char *pipeline,
                                                           const struct pgstage_document *documents, size_t count,
                                                           const struct pgstage_submit_options *options,
                                                           struct pgstage_submitted *submitted,
                                                           struct pgstage_client_error *error) {
    return pgstage_client_submit(connection, pipeline, documents, count, sizeof *documents, options, sizeof *options,
                                 submitted, sizeof *submitted, error);
}

/* Submits one document. submitted: NULL when not wanted. */
static inline enum pgstage_client_code pgstage_submit(PGconn *connection, const char *pipeline,
                                                      const struct pgstage_document *document,
                                                      const struct pgstage_submit_options *options,
                                                      struct pgstage_submitted *submitted,
                                                      struct pgstage_client_error *error) {
    return pgstage_submit_many(connection, pipeline, document, 1, options, submitted, error);
}

#ifdef __cplusplus
}
#endif

#endif
