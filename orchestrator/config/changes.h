/* changes.h - what is different between two definitions of a pipeline, for a person.
 *
 * Thread rule: any thread; pure.
 */
#ifndef CONFIG_CHANGES_H
#define CONFIG_CHANGES_H

#include "config/pipeline.h"

/* Appends "stage 'b' added, stage 'a': workers 2 -> 4", or nothing when a node would act alike under both. */
void changes_write(const struct pipeline_def *before, const struct pipeline_def *now, struct buf *out);

#endif
