/* cluster.h - the embedded PostgreSQL: a private cluster in pgstage's home folder, on a Unix socket only.
 *
 * Layout of HOME (0700; as root 0711 so that the server's user can reach its part):
 *   pg/          data directory, owned by the server's user, 0700
 *   log/         postgresql.log (at most some 16 MB, then .1), start.log: what the last start said before that
 *   run/         the socket, 0700 (moves to a private folder below the runtime folder when its path would be too long)
 *   cluster.lock one starter or stopper at a time (flock)                users.lock   shared flock held by each user
 *   server.lock  held by every process of the server, which inherits it: free means that none lives
 *   held         exists between `db start` and `db stop`: the last user does not stop the server
 *   nodes/       lock files of running nodes
 * The server is started detached (own session), outlives a killed pgstage, and is found again by the next start, which
 * also recovers after a crash of the server. The last user stops it (fast). Blocking; used before the loop starts.
 *
 * The server's user is pgstage's own; as root the owner of pg/, else `postgres`, else `nobody`. Only it and the owner of
 * HOME can connect. Its programs are looked for in PGSTAGE_PG_BINDIR and nowhere else when that is set; otherwise in PATH,
 * the distributions' places (newest first) and `pg_config --bindir`. Data are started with the version that made them.
 */
#ifndef DB_CLUSTER_H
#define DB_CLUSTER_H

#include "base/buf.h"
#include "base/error.h"

struct cluster; /* opaque: this process as a user of the cluster */

/* The home folder: `option`, else PGSTAGE_HOME, else for root /var/lib/pgstage, else $XDG_STATE_HOME/pgstage or
 * ~/.local/state/pgstage. Made when missing. Appends an absolute path. */
enum status cluster_home(const char *option, struct buf *home, struct error *err) MUST_CHECK;

/* Makes the cluster if there is none, starts it if it does not run, and becomes one of its users. */
enum status cluster_use(const char *home, struct cluster **cluster, struct error *err) MUST_CHECK;
/* A connection string of the cluster's database `pgstage`. Borrowed. */
const char *cluster_url(const struct cluster *cluster);
/* For a user that lives long: starts the server again when it has gone, and bounds its log. Call it now and then, and when
 * the database has been away for a while. When: blocking, also in the thread pool; one thread at a time. */
enum status cluster_tend(struct cluster *cluster, struct error *err) MUST_CHECK;
/* Stops being a user; the last one stops the server unless it is held. NULL is a no-op. */
void cluster_release(struct cluster *cluster);

/* `db start`: start and hold. `db stop`: let go, and stop when no other process uses it (CONFLICT names their number). */
enum status cluster_hold(const char *home, struct error *err) MUST_CHECK;
enum status cluster_stop(const char *home, struct error *err) MUST_CHECK;
/* Whether a server answers on it now; *pid 0 when not. */
enum status cluster_state(const char *home, int *pid, bool *held, struct error *err) MUST_CHECK;

#endif
