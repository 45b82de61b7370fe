/* host.h - what proves that a process of this host is alive: a lock file that it and its workers hold.
 *
 * The lock is flock(2) on an open file that workers inherit, so it is held until the last of them is gone. A second file
 * beside it, ".life", is locked by the node's process alone: the first held without the second is a node that died before
 * its workers, whatever process has its number now, in whatever container. Lock files of other hosts, or of containers with another view of the file system, prove nothing: those nodes are left to their lease.
 */
#ifndef NODE_HOST_H
#define NODE_HOST_H

#include <stdbool.h>

#include "base/error.h"

struct host_lock {
    int fd;      /* -1: none */
    int life_fd; /* -1: none; no other program gets it */
    char *path;
    char *life; /* the path, and ".life" */
    char *work; /* where its workers' folders are: the path, and ".work" */
};

/* The kernel's boot id: lock files can be compared within one. Borrowed, never NULL. */
const char *host_identity(void);

/* Creates and locks FOLDER/node-PID-RANDOM.lock. The folder is made if need be, for its owner alone. Errors: INVALID it is
 * somebody else's, or a link. */
enum status host_lock_take(const char *folder, struct host_lock *lock, struct error *err) MUST_CHECK;
void host_lock_release(struct host_lock *lock); /* removes the file */

/* True when the file exists and nobody holds it: the process and all its workers are gone. Removes the file then. */
bool host_lock_is_dead(const char *path);

/* True when the file is held although the node itself is gone. Only of files of this user's. */
bool host_lock_is_abandoned(const char *path);

/* Removes what workers of dead nodes left in their folders. Blocking. */
void host_remove_leftovers(const char *folder);

#endif
