/* holders.h - which processes of this host hold a lock that was inherited, and what descends from them.
 *
 * A worker holds its node's lock file as descriptor 4. A process that has the file open there without being part of the
 * lock is no holder.
 */
#ifndef NODE_HOLDERS_H
#define NODE_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

struct holder {
    pid_t pid, parent;
    unsigned long long started; /* with the pid, who it is */
    bool holds, doomed;         /* doomed: it holds, or descends from one that does */
};

struct holders {
    struct holder *list; /* every living process that this one can see */
    size_t count;
    size_t doomed;
    bool are_ours; /* the caller is one of them, or descends from one: hands off */
};

/* One look at /proc. Blocking. End it with holders_finish. */
void holders_find(struct holders *holders, const struct stat *lock);
void holders_finish(struct holders *holders);

/* Signals that very process, and no later one that got its number. False: it is gone, or may not be signalled. */
bool holder_signal(const struct holder *holder, int signal);

#endif
