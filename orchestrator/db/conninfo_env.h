/* conninfo_env.h - a connection string for another libpq program, by its environment: a password on a command line could
 * be read by every user of the host.
 */
#ifndef DB_CONNINFO_ENV_H
#define DB_CONNINFO_ENV_H

#include "base/error.h"

/* Sets PGHOST, PGPASSWORD and so on from a string or URL ("" sets nothing). What has no variable goes to *rest, as a
 * connection string; NULL when there is none. Ownership: *rest is the caller's, free() it. Errors: INVALID when malformed,
 * without a word of the string. */
enum status conninfo_to_environment(const char *url, char **rest, struct error *err) MUST_CHECK;

#endif
