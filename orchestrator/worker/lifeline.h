/* lifeline.h - what ends a worker: its node's death, its lease, SIGTERM.
 *
 * The node spawned this process as the leader of its own session, so the process group is this
 * worker, and what its handler forked. Thread rule: any thread; lifeline_start once, first of all,
 * while there is one thread.
 */
#ifndef WORKER_LIFELINE_H
#define WORKER_LIFELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The descriptor over which the node and this process talk. */
enum { LIFELINE_FD = 3 };

/* Ends the process when `parent` is no longer its parent. */
void lifeline_start(pid_t parent);

/* KILLs the whole process group. */
_Noreturn void lifeline_end(void);

/* Units: ms of CLOCK_BOOTTIME; INT64_MAX: no end. */
void lifeline_set_lease_end(int64_t lease_end_ms);
/* Ends the group when the lease has ended or the parent is another, else how long poll() may sleep
 * before the next look. Units: ms. */
int lifeline_check(void);

/* While a handler runs, SIGTERM is noted and the handler can ask for it; at any other time it ends
 * this process. */
void lifeline_set_busy(bool busy);
bool lifeline_is_terminated(void);
/* Dies of SIGTERM, as the node that sent it expects. */
_Noreturn void lifeline_obey_terminate(void);

/* False in a child that the handler forked: it shares this program's signal and exit handlers, but
 * not its duties. */
bool lifeline_is_worker_process(void);

/* Kills and reaps every child that this process has. When: no child is wanted, by the main thread. */
void lifeline_reap_strays(void);

#endif
