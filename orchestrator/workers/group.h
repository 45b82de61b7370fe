/* group.h - signals to a worker's process group, which has the worker's pid as its number.
 *
 * A worker leads a session of its own (uv_spawn has seen the exec, hence the setsid, when it
 * returns), so a signal to its group reaches the worker and what it started, and never the node. A
 * process that leaves the session is out of reach. When: loop thread only.
 */
#ifndef WORKERS_GROUP_H
#define WORKERS_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

/* A group without members is a no-op. */
void group_signal(pid_t group, int signal);

/* For a group whose leader is reaped: kills what is left of it; true when nothing that can still
 * run is left. `look_closely` tells members that are dead but not reaped by their parent from
 * living ones, by reading /proc. */
bool group_is_gone(pid_t group, bool look_closely);

#endif
