/* abandoned.h - what outlived the kill -9 of a node of this host.
 *
 * A worker ends itself when its node dies, but not while it is stopped (SIGSTOP, a debugger, a frozen group): it would go on
 * to hold its node's lock, and its programs would run beside the next run of their documents.
 */
#ifndef NODE_ABANDONED_H
#define NODE_ABANDONED_H

/* When the lock is held although its node is gone: kills every process that holds it and all that descends from those, as
 * far as this user may, and waits until they are dead (no longer than seconds). Never what belongs to a node that lives.
 * Blocking: thread pool. */
void abandoned_end(const char *lock_path);

/* The same for every lock of the folder. */
void abandoned_end_all(const char *folder);

#endif
