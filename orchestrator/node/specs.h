/* specs.h - from a pipeline's definition to what the scheduler and the pools want to know. */
#ifndef NODE_SPECS_H
#define NODE_SPECS_H

#include "base/arena.h"
#include "node/node.h"

/* Memory from `arena`; texts are borrowed from the definition. */
struct sched_pipeline *specs_build(struct arena *arena, int count, const struct node_pipeline *pipelines);

#endif
