/* specs.h - from a pipeline's definition to what the scheduler and the pools want to know. */
#ifndef NODE_SPECS_H
#define NODE_SPECS_H

#include "base/arena.h"
#include "node/node.h"

/* Memory from `arena`; texts are borrowed from the definition. */
struct sched_pipeline *specs_build(struct arena *arena, int count, const struct node_pipeline *pipelines);

/* The workers of one stage, which is not an sql stage. Memory as above. */
struct pool_spec specs_pool(struct arena *arena, const struct pipeline_def *pipeline, const struct stage_def *def);

#endif
