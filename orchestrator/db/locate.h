/* locate.h - which database a command means: --database URL, else PGSTAGE_DATABASE_URL, else libpq's variables when one
 * of PGHOST, PGHOSTADDR, PGPORT, PGDATABASE, PGUSER or PGSERVICE is set (url ""), else the embedded cluster.
 */
#ifndef DB_LOCATE_H
#define DB_LOCATE_H

#include "base/error.h"
#include "db/cluster.h"

struct database {
    char *url;               /* owned */
    struct cluster *cluster; /* owned; NULL when the database is the user's own */
};

enum status database_locate(const char *url_option, const char *home_option, struct database *database,
                            struct error *err) MUST_CHECK;
void database_release(struct database *database);

#endif
