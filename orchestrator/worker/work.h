/* work.h - the worker's own folder: its current directory, emptied after each run. Thread rule: the main thread. */
#ifndef WORKER_WORK_H
#define WORKER_WORK_H

#include "base/error.h"

/* Goes to WORK/run. `work` NULL: there is none, and the other functions do nothing. */
enum status work_enter(const char *work, struct error *err) MUST_CHECK;

/* Its path; NULL: there is none. */
const char *work_folder(void);

/* What is in it now (after a handler's init) stays as long as the worker. */
void work_keep(void);

/* After a run: back to it, wherever the handler went, and all that was not kept is removed. */
void work_clean(void);

#endif
