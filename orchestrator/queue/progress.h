/* progress.h - how far runs are, kept and given back: keep_progress.sql and claimed_progress.sql. Private to the queue. */
#ifndef QUEUE_PROGRESS_H
#define QUEUE_PROGRESS_H

#include "ports/store.h"
#include "queue/script.h"

enum { PROGRESS_TEXT_MAX_BYTES = 1024 };

/* Adds keep_progress.sql. The tasks, for progress_read_kept, are the arena's. */
int64_t *progress_add_kept(struct script *script, struct arena *arena, int count, const struct store_progress *progress);
/* Which of them were kept. */
const bool *progress_read_kept(struct arena *arena, const struct db_result *result, int count, const int64_t *tasks);

/* Adds claimed_progress.sql. */
void progress_add_claimed(struct script *script, int count, const struct store_claim *claims);
/* Fills in what the result has of these tasks. */
void progress_read_claimed(const struct db_result *result, int count, struct store_task *tasks);

#endif
