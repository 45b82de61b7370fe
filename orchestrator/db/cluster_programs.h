/* cluster_programs.h - PostgreSQL's server programs on this machine.
 *
 * Searched, in this order: PGSTAGE_PG_BINDIR, and nothing else when it is set; the folders of PATH;
 * the usual places of distributions, newest version first; what `pg_config --bindir` says.
 */
#ifndef DB_CLUSTER_PROGRAMS_H
#define DB_CLUSTER_PROGRAMS_H

#include "base/error.h"
#include "db/cluster_spawn.h"

enum { PROGRAMS_MAJOR_MIN = 15 };

struct server_programs {
    char *postgres, *initdb; /* absolute paths */
    int major;
};

/* `major` 0: the first that is new enough. Otherwise the first of that version, which made the data
 * in `data`. */
enum status programs_find(const struct server_user *user, int major, const char *data,
                          struct server_programs *programs, struct error *err) MUST_CHECK;
void programs_finish(struct server_programs *programs);

#endif
