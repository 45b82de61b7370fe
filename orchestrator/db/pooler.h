/* pooler.h - what stands between a connection string and PostgreSQL, found out at the start.
 *
 * A pooler is told by the number that it gives a client for cancelling; one in transaction mode by its giving one server
 * session to two clients that are both connected.
 */
#ifndef DB_POOLER_H
#define DB_POOLER_H

#include "base/error.h"
#include "db/sync.h"

enum pooler { POOLER_NONE, POOLER_OF_SESSIONS, POOLER_OF_TRANSACTIONS };

/* `db` was opened with `url`; a second connection is opened for a moment, only when there is a pooler. */
enum status pooler_find(const char *url, struct db_sync *db, enum pooler *pooler, struct error *err) MUST_CHECK;

/* Whether `url` leads to the same database as `db`, and to sessions of its own, so that it can LISTEN: INVALID, with a text
 * that says what to do, when not. */
enum status pooler_check_direct(const char *url, struct db_sync *db, struct error *err) MUST_CHECK;

#endif
