/* cluster_server.h - the server itself: making its data, starting and stopping it.
 *
 * Whoever calls start, stop or tend holds HOME/cluster.lock. Every process of the server, and of
 * initdb, inherits a lock on HOME/server.lock: while that cannot be had, one of them lives, even
 * when nothing in /proc shows it (another container with the same folder), and the data must not be
 * touched.
 */
#ifndef DB_CLUSTER_SERVER_H
#define DB_CLUSTER_SERVER_H

#include "base/error.h"
#include "db/cluster_paths.h"
#include "db/cluster_programs.h"
#include "db/cluster_spawn.h"

struct server {
    struct cluster_paths paths;
    struct server_user user;
};

enum status server_init(struct server *server, const char *home, struct error *err) MUST_CHECK;
void server_finish(struct server *server);

/* Returns when the server answers, made and started as needed; appends the socket's folder. */
enum status server_ensure(struct server *server, struct buf *socket_folder,
                          struct error *err) MUST_CHECK;
/* Fast shutdown; fine when nothing runs. */
enum status server_stop(struct server *server, struct error *err) MUST_CHECK;
/* Renames the log when it has become large; a running server goes on in a new file. */
void server_bound_log(const struct server *server, const char *socket_folder);
/* Its process when it runs; 0 when not. */
pid_t server_pid(const struct server *server);

/* Runs initdb. `lock` is the descriptor of HOME/server.lock, which initdb inherits. */
enum status server_make_data(const struct server *server, const struct server_programs *programs,
                             int lock, struct error *err) MUST_CHECK;
/* Runs the server and returns when it answers. The same for `lock`. */
enum status server_launch(const struct server *server, const struct server_programs *programs,
                          int lock, const char *socket_folder, struct error *err) MUST_CHECK;

#endif
