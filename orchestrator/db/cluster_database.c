/* cluster_database.c - libpq, blocking, with a limit on each connection attempt. */
#include "db/cluster_database.h"

#include <libpq-fe.h>
#include <string.h>

enum { PARAMETER_COUNT = 12 };

struct parameters {
    const char *names[PARAMETER_COUNT];
    const char *values[PARAMETER_COUNT];
};

/* Each is named so that no variable of the environment (PGHOSTADDR, PGPORT, PGSSLMODE ...) can lead
 * elsewhere. */
static struct parameters parameters_of(const char *socket_folder, const struct server_user *user,
                                       const char *database) {
    return (struct parameters){
        .names = {"host", "hostaddr", "port", "dbname", "user", "requirepeer", "connect_timeout",
                  "sslmode", "gssencmode", "channel_binding", "application_name", NULL},
        .values = {socket_folder, "", "5432", database, "pgstage", user->name, "10", "disable",
                   "disable", "disable", "pgstage start", NULL},
    };
}

enum answer database_ask(const char *socket_folder, const struct server_user *user) {
    struct parameters parameters = parameters_of(socket_folder, user, "pgstage");
    switch (PQpingParams(parameters.names, parameters.values, 0)) {
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
    struct parameters parameters = parameters_of(socket_folder, user, database);
    *connection = PQconnectdbParams(parameters.names, parameters.values, 0);
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
