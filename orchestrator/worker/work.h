/* work.h - the worker's own folder: WORK, and its current directory WORK/run; both are emptied after each run. Thread rule:
 * the main thread. */
#ifndef WORKER_WORK_H
#define WORKER_WORK_H

#include <stdbool.h>

#include "base/error.h"

/* Goes to WORK/run. `work` NULL: there is none, and the other functions do nothing. */
enum status work_enter(const char *work, struct error *err) MUST_CHECK;

/* Its path; NULL: there is none. */
const char *work_folder(void);

/* What is in WORK and in WORK/run now (after a handler's init) stays as long as the worker. `is_held`: a program that stays
 * has it as its current directory, too, so that no other can take its place. */
void work_keep(bool is_held);

/* After a run: back to it, wherever the handler went, and all that was not kept is removed. Three system calls when nothing
 * changed. False: it cannot be put right (removed, replaced, not writable), why is in the log; this process is to run
 * nothing more. */
bool work_clean(void) MUST_CHECK;

/* Before a run: whether the folder is there still, for others can reach it. One system call. False: as work_clean. */
bool work_is_there(void) MUST_CHECK;

#endif
