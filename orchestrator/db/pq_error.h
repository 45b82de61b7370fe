/* pq_error.h - libpq's and the server's errors as struct error. Private to db/.
 *
 * No connection string and no password is ever part of a text.
 */
#ifndef DB_PQ_ERROR_H
#define DB_PQ_ERROR_H

#include <libpq-fe.h>
#include <stdbool.h>

#include "base/error.h"

/* Sets what the server reported: message, detail and hint on one line, and the SQLSTATE. `fatal`
 * (may be NULL): the server ends the session. Returns the code. */
enum status pq_error_of_result(struct error *err, const PGresult *result, bool *fatal);

/* True when the server sent this error: libpq's own ones have no SQLSTATE. */
bool pq_error_is_from_server(const PGresult *result);

/* Sets libpq's message about the connection, on one line. */
enum status pq_error_of_connection(struct error *err, enum status code, const PGconn *connection);

/* True when a session that reported this is of no more use: shut down, lost, or read-only. */
bool pq_error_ends_session(const char *sqlstate);

#endif
