/* lifeline.h - what ends a worker: its node's death, its lease, SIGTERM; and what its handler forked.
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

/* Ends the process when `parent` is no longer its parent. What a handler's children leave behind becomes this process's. */
void lifeline_start(pid_t parent);

/* To be called again when this process has become another user: the kernel forgets the watch then. */
void lifeline_watch_parent(void);

/* KILLs what descends from this process, and its whole process group with it. */
_Noreturn void lifeline_end(void);

/* The children that are there now (after a handler's init) live as long as the worker. */
void lifeline_keep_children(void);
/* After a run: kills and reaps every other child, those that left the group included. Costs a system call when there are
 * no children. False: some hang in the kernel and are left; this process is to run nothing more. */
bool lifeline_reap_strays(void);
/* Kills them once but for that one, which the caller reaps: as long as a stray traces it, nobody can. */
void lifeline_kill_strays_but(pid_t but);
/* Before this process ends in order: kills and reaps those that were kept, too. */
void lifeline_end_children(void);

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

#endif
