/* work_folder.h - a folder of its own for each worker process, gone when the process is.
 *
 *   ROOT/N          the worker's; what its handler's init makes stays as long as the worker
 *   ROOT/N/run      its current directory and TMPDIR, emptied by the worker after each run
 *
 * ROOT belongs to one node and is named after its lock file, so that a node can tell those of dead ones. Workers that run
 * as another user could not enter a folder below the node's home: theirs lie in /var/tmp. When: loop thread only, but for
 * work_folders_remove_all.
 */
#ifndef WORKERS_WORK_FOLDER_H
#define WORKERS_WORK_FOLDER_H

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"

/* In the worker's folder, made by a worker (worker/limits.c) that crashed when its address space was at its limit. */
#define WORK_MEMORY_MARK ".out-of-memory"

struct work_folders;

/* `root`: absolute, made when the first folder is; NULL: no worker gets a folder. */
struct work_folders *work_folders_create(uv_loop_t *loop, const char *root);

/* Makes a folder; *path is NULL when workers get none. `other_user`: for a worker that will run as another user.
 * Ownership: the caller's, until it gives it to work_folder_remove. */
enum status work_folder_make(struct work_folders *folders, bool other_user, char **path, struct error *err) MUST_CHECK;

/* Takes the path (NULL: nothing is done). One that holds much is removed in the thread pool. */
void work_folder_remove(struct work_folders *folders, char *path);

/* Removes the roots as well; `closed` comes once, later, when all that was to be removed is. */
void work_folders_destroy(struct work_folders *folders, void (*closed)(void *context), void *context);

/* Removes all folders of a node that is dead. Blocking. Errors: INVALID something is left. */
enum status work_folders_remove_all(const char *root, struct error *err) MUST_CHECK;

#endif
