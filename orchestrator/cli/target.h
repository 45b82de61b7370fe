/* target.h - PIPELINE or PIPELINE/STAGE, as pause, resume and drain take it.
 */
#ifndef CLI_TARGET_H
#define CLI_TARGET_H

#include "base/buf.h"
#include "cli/command.h"

struct target {
    const char *text;                  /* as given; borrowed */
    struct buf pipeline;
    const char *stage;                 /* borrowed; NULL: the pipeline as a whole */
};

void target_init(struct target *target, const char *text);
void target_finish(struct target *target);

#endif
