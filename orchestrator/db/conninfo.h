/* conninfo.h - a connection string, read once: what pgstage adds to it, and whose names must be
 * looked up. Private to db/.
 *
 * Errors never show a part of the string: where it is malformed, any part may be the password.
 */
#ifndef DB_CONNINFO_H
#define DB_CONNINFO_H

#include <libpq-fe.h>
#include <stdbool.h>

#include "base/error.h"

/* One entry of a multi-host string. */
struct conninfo_host {
    char *name, *address, *port; /* "" when not given */
    bool needs_lookup;           /* `name` is a host name and no address came with it */
};

enum { CONNINFO_ADDED_MAX = 8 };

struct conninfo {
    char *url, *application_name;
    struct conninfo_host *hosts; /* none: libpq's default */
    int host_count;
    struct {
        const char *keyword, *value;
    } added[CONNINFO_ADDED_MAX]; /* what neither the string nor the environment sets */
    int added_count;
};

/* `writes`: refuse servers that only read, unless target_session_attrs is set. INVALID when
 * malformed. */
enum status conninfo_open(const char *url, const char *role, bool writes, struct conninfo **info,
                          struct error *err) MUST_CHECK;
void conninfo_close(struct conninfo *info);

enum { CONNINFO_PARAMS_MAX = CONNINFO_ADDED_MAX + 7 };

/* For PQconnect*Params with expand_dbname; ends with NULL. `hosts`, `addresses` and `ports` replace
 * those of the string unless NULL. */
struct conninfo_params {
    const char *keywords[CONNINFO_PARAMS_MAX], *values[CONNINFO_PARAMS_MAX];
};
void conninfo_params(const struct conninfo *info, const char *hosts, const char *addresses,
                     const char *ports, struct conninfo_params *params);

#endif
