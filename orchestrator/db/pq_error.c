/* pq_error.c - what errors of libpq and of the server mean to pgstage. */
#include "db/pq_error.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "db/conn.h"

static bool has_prefix(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool pq_error_ends_session(const char *sqlstate) {
    return has_prefix(sqlstate, "08") || has_prefix(sqlstate, "57P") ||
           strcmp(sqlstate, "25006") == 0;
}

enum status conn_status_of_sqlstate(const char *sqlstate) {
    static const struct {
        const char *prefix;
        enum status code;
    } meanings[] = {
        {"08", STATUS_UNAVAILABLE},    /* connection */
        {"53", STATUS_UNAVAILABLE},    /* disk full, out of memory, too many connections */
        {"57P", STATUS_UNAVAILABLE},   /* shutting down, starting up */
        {"25006", STATUS_UNAVAILABLE}, /* read-only: a standby, or soon one */
        {"40001", STATUS_CONFLICT},    /* serialization failure */
        {"40P01", STATUS_CONFLICT},    /* deadlock */
        {"P0F01", STATUS_CONFLICT},    /* a fence of ours is not held */
        {"57014", STATUS_TIMEOUT},     /* statement_timeout, or cancelled */
        {"55P03", STATUS_TIMEOUT},     /* lock_timeout, or NOWAIT */
    };
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (has_prefix(sqlstate, meanings[i].prefix)) {
            return meanings[i].code;
        }
    }
    return STATUS_INVALID;
}

bool pq_error_is_from_server(const PGresult *result) {
    return PQresultErrorField(result, PG_DIAG_SQLSTATE) != NULL;
}

enum { TEXT_MAX = 64 * 1024, LINE_MAX_BYTES = 2 * ERROR_TEXT_MAX };

/* Lines become "first; second"; of libpq's explanations, which are indented, each is one sentence
 * over several lines. */
static void append_on_one_line(struct buf *out, const char *text) {
    bool any = false, explaining = false;
    while (*text != '\0') {
        bool indented = *text == '\t';
        text += strspn(text, " \t");
        size_t length = strcspn(text, "\r\n");
        if (length > 0) {
            buf_append_string(out, !any ? "" : indented && explaining ? " " : "; ");
            buf_append(out, text, length < LINE_MAX_BYTES ? length : LINE_MAX_BYTES);
            any = true;
            explaining = indented;
        }
        text += length;
        text += strspn(text, "\r\n");
    }
}

enum status pq_error_of_result(struct error *err, const PGresult *result, bool *fatal) {
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
    const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    bool ends =
        severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
    if (fatal != NULL) {
        *fatal = ends;
    }
    enum status code = sqlstate == NULL ? STATUS_INTERNAL
                       : ends           ? STATUS_UNAVAILABLE
                                        : conn_status_of_sqlstate(sqlstate);
    if (err == NULL || err->code != STATUS_OK) {
        return code;
    }

    struct buf text;
    buf_init(&text, TEXT_MAX);
    append_on_one_line(&text, message != NULL ? message : PQresultErrorMessage(result));
    if (detail != NULL) {
        buf_append_string(&text, "; ");
        append_on_one_line(&text, detail);
    }
    if (hint != NULL) {
        buf_append_string(&text, "; hint: ");
        append_on_one_line(&text, hint);
    } else if (sqlstate != NULL && strcmp(sqlstate, "25006") == 0) {
        buf_append_string(&text, "; hint: this server only reads, as a standby does: name the one that writes, or all of them "
                                 "(postgresql://a,b/db)");
    }
    error_set(err, code, "%s", text.data);
    buf_finish(&text);
    if (sqlstate != NULL) {
        snprintf(err->sqlstate, sizeof err->sqlstate, "%s", sqlstate);
    }
    return code;
}

enum status pq_error_of_connection(struct error *err, enum status code, const PGconn *connection) {
    struct buf text;
    buf_init(&text, TEXT_MAX);
    append_on_one_line(&text, PQerrorMessage(connection));
    error_set(err, code, "%s", text.length > 0 ? text.data : "the connection was lost");
    buf_finish(&text);
    return code;
}
