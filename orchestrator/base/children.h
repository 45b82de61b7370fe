/* children.h - whose child processes of this process are.
 *
 * A node takes over what its dead workers leave behind (workers/orphans.c), and must not mistake for it what another part of
 * the program starts: the embedded database's programs, and its server, which is left to init on purpose. Such a part says
 * when it begins and when it is done; meanwhile this process takes nobody over, and nobody looks for strays. Thread rule:
 * any thread.
 */
#ifndef BASE_CHILDREN_H
#define BASE_CHILDREN_H

#include <stdbool.h>
#include <sys/types.h>

/* Around the whole life of child processes that the caller reaps itself, or gives away. May be nested, and be in several
 * threads at once. Waits while somebody looks at the children. */
void children_private_begin(void);
void children_private_end(void);

/* From now on orphans of this process's descendants become its children (PR_SET_CHILD_SUBREAPER). False: the kernel
 * refuses. */
bool children_take_over(void);

/* To look at the children: true when none of them is private now. Ended by children_look_end. */
bool children_look_begin(void);
void children_look_end(void);

/* Calls `each` for every child of this process, of whatever thread, dead or alive. None is missed that is there all the
 * time, as long as nobody reaps any meanwhile. Async-signal-safe as far as `each` is. */
void children_each(void (*each)(void *context, pid_t child), void *context);

enum children_end {
    CHILDREN_REAPED,
    CHILDREN_DYING,  /* killed: to be called again */
    CHILDREN_FOREIGN /* it may not be killed: a program of another user */
};

/* Kills the child, and reaps it when it is dead. Never waits: one that another child traces is reaped after that one alone,
 * hence kill all, then come back. Async-signal-safe. */
enum children_end children_end(pid_t child);

#endif
