/* cluster_socket.h - the folder of the server's socket.
 *
 * HOME/run, or, when a socket in it would have a name that the kernel or libpq cannot take (over
 * 107 bytes, or with a comma, which separates hosts), a folder pgstage-XXXXXX below
 * $XDG_RUNTIME_DIR or /tmp to which HOME/run is a link: so every process of the home finds the same
 * one whatever its environment.
 */
#ifndef DB_CLUSTER_SOCKET_H
#define DB_CLUSTER_SOCKET_H

#include "base/buf.h"
#include "base/error.h"
#include "db/cluster_paths.h"
#include "db/cluster_spawn.h"

/* Appends the folder; false when there is none that belongs to the server's user alone. */
bool socket_folder_find(const struct cluster_paths *paths, const struct server_user *user,
                        struct buf *folder);
/* Whether the socket itself is in the folder. */
bool socket_exists(const char *folder);
/* As socket_folder_find, and makes it when needed. When: no server runs; what a dead one left in it
 * is removed.
 */
enum status socket_folder_make(const struct cluster_paths *paths, const struct server_user *user,
                               struct buf *folder, struct error *err) MUST_CHECK;
/* Removes a folder outside of HOME after the server has stopped. */
void socket_folder_drop(const struct cluster_paths *paths, const struct server_user *user);

#endif
