/* rig.h - a process and its nodes as reloads and schedules see them: no database, no worker process, and a clock that
 * stands still until the test moves it. The loop is real, so that what is read in the thread pool comes back.
 */
#ifndef NODE_UNIT_RIG_H
#define NODE_UNIT_RIG_H

#include <criterion/criterion.h>

#include "node/private.h"

enum { RIG_STAGE = 11, RIG_NODES = 3 };

/* How the workers of a node's only stage, "work", are. */
struct pool {
    struct pool_events events;
    enum pool_state state;
    const char *reason; /* PARKED */
};

struct rig {
    struct process process;
    struct node_result result;
    int64_t now_ms;
    struct pipeline_def *def;
    struct node_pipeline pipelines[RIG_NODES];
    struct pool pools[RIG_NODES];
    struct node nodes[RIG_NODES];
    int node_count;
};

extern struct rig rig;

/* As .init and .fini of a suite. The front node is nodes[0], of revision 1, with its lease and its workers. */
void rig_begin(void);
void rig_end(void);
/* One more node, that is up. */
struct node *rig_add_node(int revision, enum pool_state state);
/* Runs the loop until nothing is under way. */
void rig_settle(void);
/* How many lines were logged that have the text in them. */
int rig_logged(const char *text);

#endif
