/* cluster_database.c - libpq, blocking, with a limit on each connection attempt. */
#include "db/cluster_database.h"

#include <libpq-fe.h>
#include <string.h>

enum { CONNINFO_MAX = 8192 };

static void append_value(struct buf *out, const char *name, const char *value) {
    buf_append_format(out, "%s='", name);
    for (; *value != '\0'; value++) {
        if (*value == '\'' || *value == '\\') {
            buf_append_char(out, '\\');
        }
        buf_append_char(out, *value);
    }
    buf_append_string(out, "' ");
}

/* Names each parameter so that no variable of the environment (PGHOSTADDR, PGPORT, PGSSLMODE ...)
 * can lead elsewhere. A string, because libpq takes an empty value in an array for one that is not
 * given. */
static void compose(struct buf *out, const char *socket_folder, const struct server_user *user,
                    const char *database) {
    buf_init(out, CONNINFO_MAX);
    append_value(out, "host", socket_folder);
    append_value(out, "dbname", database);
    append_value(out, "requirepeer", user->name);
    buf_append_string(
        out, "hostaddr='' port=5432 user=pgstage password='' connect_timeout=10 sslmode=disable "
             "gssencmode=disable channel_binding=disable target_session_attrs=any options='' "
             "client_encoding=UTF8 application_name='pgstage start'");
}

enum answer database_ask(const char *socket_folder, const struct server_user *user) {
    struct buf conninfo;
    compose(&conninfo, socket_folder, user, "pgstage");
    PGPing ping = PQping(conninfo.data);
    buf_finish(&conninfo);
    switch (ping) {
    case PQPING_OK:
        return ANSWER_READY;
    case PQPING_REJECT:
        return ANSWER_BUSY;
    case PQPING_NO_RESPONSE:
    case PQPING_NO_ATTEMPT:
        break;
    }
    return ANSWER_NONE;
}

/* The connection is set in any case and is to be finished. */
static enum status connect_to(const char *socket_folder, const struct server_user *user,
                              const char *database, PGconn **connection, struct error *err) {
    struct buf conninfo;
    compose(&conninfo, socket_folder, user, database);
    *connection = PQconnectdb(conninfo.data);
    buf_finish(&conninfo);
    if (PQstatus(*connection) == CONNECTION_OK) {
        return STATUS_OK;
    }
    const char *text = PQerrorMessage(*connection);
    return error_set(err, STATUS_UNAVAILABLE, "the database server cannot be used: %.*s",
                     (int)strcspn(text, "\n"), text);
}

static enum status run(PGconn *connection, const char *statement, int *rows, struct error *err) {
    PGresult *result = PQexec(connection, statement);
    enum status status = STATUS_OK;
    ExecStatusType outcome = PQresultStatus(result);
    if (outcome != PGRES_TUPLES_OK && outcome != PGRES_COMMAND_OK) {
        const char *text = PQerrorMessage(connection);
        status = error_set(err, STATUS_UNAVAILABLE, "the database server cannot be used: %.*s",
                           (int)strcspn(text, "\n"), text);
    } else if (rows != NULL) {
        *rows = PQntuples(result);
    }
    PQclear(result);
    return status;
}

/* When: with the cluster's lock, so that no other process makes it meanwhile. */
static enum status create_missing(const char *socket_folder, const struct server_user *user,
                                  struct error *err) {
    PGconn *connection;
    int rows = 0;
    enum status status = connect_to(socket_folder, user, "postgres", &connection, err);
    if (status == STATUS_OK) {
        status = run(connection, "SELECT 1 FROM pg_catalog.pg_database WHERE datname = 'pgstage'",
                     &rows, err);
    }
    if (status == STATUS_OK && rows == 0) {
        status = run(connection, "CREATE DATABASE pgstage", NULL, err);
    }
    PQfinish(connection);
    return status;
}

enum status database_ensure(const char *socket_folder, const struct server_user *user,
                            struct error *err) {
    PGconn *connection;
    enum status status = connect_to(socket_folder, user, "pgstage", &connection, NULL);
    PQfinish(connection);
    if (status == STATUS_OK) {
        return STATUS_OK;
    }
    status = create_missing(socket_folder, user, err);
    if (status != STATUS_OK) {
        return status;
    }
    status = connect_to(socket_folder, user, "pgstage", &connection, err);
    PQfinish(connection);
    return status;
}

enum status database_reopen_log(const char *socket_folder, const struct server_user *user,
                                struct error *err) {
    PGconn *connection;
    enum status status = connect_to(socket_folder, user, "postgres", &connection, err);
    if (status == STATUS_OK) {
        status = run(connection, "SELECT pg_catalog.pg_rotate_logfile()", NULL, err);
    }
    PQfinish(connection);
    return status;
}

void database_append_url(struct buf *url, const char *socket_folder) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+";
    buf_append_string(url, "host=");
    bool quote = socket_folder[strspn(socket_folder, plain)] != '\0';
    if (quote) {
        buf_append_char(url, '\'');
    }
    for (const char *c = socket_folder; *c != '\0'; c++) {
        if (*c == '\'' || *c == '\\') {
            buf_append_char(url, '\\');
        }
        buf_append_char(url, *c);
    }
    /* The port is named because PGPORT would count otherwise. */
    buf_append_string(url, quote ? "' port=5432 dbname=pgstage user=pgstage"
                                 : " port=5432 dbname=pgstage user=pgstage");
}
