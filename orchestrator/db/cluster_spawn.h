/* cluster_spawn.h - running PostgreSQL's programs as the user that the server runs as, without a
 * shell.
 *
 * Who that is: pgstage's own user; when that is root, which PostgreSQL refuses, the owner of the
 * data folder that is there, else `postgres`, else `nobody`. Every program starts in its own
 * session, in "/", with a fixed environment, default signals, umask 077, and no descriptor but 0,
 * 1, 2 and `keep`.
 */
#ifndef DB_CLUSTER_SPAWN_H
#define DB_CLUSTER_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "db/cluster_paths.h"

struct server_user {
    char *name;
    char *owner; /* name of the user whom pgstage runs as */
    uid_t uid;
    gid_t gid;
    bool change; /* pgstage is root and must become this user first */
};

enum status server_user_find(const struct cluster_paths *paths, struct server_user *user,
                             struct error *err) MUST_CHECK;
void server_user_finish(struct server_user *user);

/* Whether the user can enter `path`; names the folder above it that stops it. Also finds that
 * pgstage, as root, may not become the user at all. */
enum status server_user_check_reach(const struct server_user *user, const char *path,
                                    struct error *err) MUST_CHECK;

struct spawn {
    const struct server_user *user;
    const char *const *argv; /* argv[0] is an absolute path */
    int keep; /* a descriptor that the program inherits under its number; -1 for none */
};

/* Runs a program to its end; it is killed when the calling thread dies. Appends standard output and
 * error to `output`. INVALID: it could not be run. Otherwise *wait_status is as of waitpid. */
enum status spawn_run(const struct spawn *spawn, const char *input, struct buf *output,
                      int *wait_status, struct error *err) MUST_CHECK;
/* Starts a program that outlives pgstage and is nobody's child, so that no unreaped pgstage can
 * make it a zombie. */
enum status spawn_detached(const struct spawn *spawn, int output, pid_t *pid,
                           struct error *err) MUST_CHECK;

#endif
