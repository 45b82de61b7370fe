/* orphans.h - what a dead worker's handler left behind, and that belongs to nobody else, is killed.
 *
 * A process that left its worker's group (setsid, a second fork) is its worker's child when its own parent ends, and
 * the node's when the worker is dead: both are subreapers. The children that a node knows are its workers; every other
 * one is a stray. Used by the pools and the node. When: loop thread only.
 */
#ifndef WORKERS_ORPHANS_H
#define WORKERS_ORPHANS_H

#include <stdbool.h>
#include <sys/types.h>

/* From now on this process takes strays over. Not when it has children already: it was started in the place of
 * another program, and could not tell that one's from its own. Says so in the log then. */
void orphans_take_over(void);

/* Worker processes, from their start until they are reaped. */
void orphans_know(pid_t worker);
void orphans_forget(pid_t worker);

/* Kills strays and reaps what is dead of them; true when none is left. Of no effect without orphans_take_over. */
bool orphans_are_gone(void);

#endif
