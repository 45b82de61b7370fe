/* progress.h - what `run --until-idle` shows: a bar per stage on a terminal, and a summary at the end. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "node/node.h"

struct progress; /* opaque */

/* Bars are drawn only when `wanted` and standard error is a terminal. */
struct progress *progress_create(bool wanted);
void progress_report(void *progress, const struct node_report *report);
void progress_destroy(struct progress *progress);

/* "N documents in S s (R documents/s), F failed", or how many runs there were when none came to its end; what waits for other
 * nodes; then the reasons of what stands failed. On standard output. */
void progress_summary(struct progress *progress, const struct node_result *result, const char *url, int pipeline_count,
                      const struct node_pipeline *pipelines);

#endif
