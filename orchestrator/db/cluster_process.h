/* cluster_process.h - the server's processes as /proc shows them.
 *
 * An id in postmaster.pid may be of a process that has nothing to do with the server: after a
 * reboot or a crash, ids are used again. A process is the server's when it works in the data
 * folder, runs as the server's user, and is no zombie.
 */
#ifndef DB_CLUSTER_PROCESS_H
#define DB_CLUSTER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "db/cluster_paths.h"

bool process_is_alive(pid_t pid);
bool process_is_server(pid_t pid, const char *data, uid_t uid);
/* The living postmaster of a data folder; 0 when there is none. `ready` (may be NULL): it says so
 * itself. */
pid_t process_find_postmaster(const char *data, uid_t uid, bool *ready);
/* False and errno when it cannot be sent. A process that is gone is fine. */
bool process_signal_server(pid_t pid, const char *data, uid_t uid, int number);
/* Signals every process of a server; returns how many there are, and one of them. */
int process_signal_all(const char *data, uid_t uid, int number, pid_t *one);

void process_pause_ms(int ms);

#endif
