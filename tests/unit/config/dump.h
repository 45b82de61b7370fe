/* dump.h - a definition as text, for golden cases. */
#ifndef TESTS_CONFIG_DUMP_H
#define TESTS_CONFIG_DUMP_H

#include "base/buf.h"
#include "config/pipeline.h"

/* One line a field; paths below the definition's folder begin with FOLDER. */
void dump_pipeline(struct buf *out, const struct pipeline_def *def);

#endif
