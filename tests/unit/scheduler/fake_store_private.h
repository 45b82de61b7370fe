/* fake_store_private.h - the tables of the fake store, and its statements. */
#ifndef SUPPORT_FAKE_STORE_PRIVATE_H
#define SUPPORT_FAKE_STORE_PRIVATE_H

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "fake_store.h"

enum { FAKE_PIPELINES_MAX = 4, FAKE_REVISIONS_MAX = 8, FAKE_PAUSES_MAX = 64 };

struct fake_revision {
    int count, stages[FAKE_STAGES_MAX];
};

struct fake_pipeline {
    int id, revision; /* the current one; 1 is revisions[0] */
    struct fake_revision revisions[FAKE_REVISIONS_MAX];
};

struct fake_batch {
    struct list link;
    int64_t claim, node;
    int session; /* of the node's ledger connection */
    int count;
    int64_t *ids;
};

struct fake_node {
    int64_t id, lease_until_ms;
    bool ended, dead;
    int64_t stat_seq;
};

struct fake_store {
    struct fake_time *time;
    struct random_seeded seeded;
    struct random_ops random;
    struct fake_store_hooks hooks;
    struct fake_row **rows;
    int row_count, row_capacity;
    int pipeline_count;
    struct fake_pipeline pipelines[FAKE_PIPELINES_MAX];
    bool paused[FAKE_PAUSES_MAX];             /* by stage id */
    int max_running[FAKE_PAUSES_MAX];
    int64_t busy_until_ms[FAKE_PAUSES_MAX];
    bool muted;
    struct list batches;
    struct fake_node *nodes;
    int node_count, node_capacity;
    int64_t leader, leader_until_ms, leader_term;
    struct fake_stats stats;
    struct list clients;
    struct list ghosts; /* calls without a client */
    int ghost_count;
};

int64_t store_now(const struct fake_store *store);
void store_broken(const struct fake_store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t store_draw(struct fake_store *store, int64_t most); /* 0 .. most */
struct fake_row *store_row_by_id(const struct fake_store *store, int64_t id);
const struct fake_revision *store_order(const struct fake_store *store, int pipeline, int revision); /* 0: current */
bool store_is_locked(const struct fake_store *store, const struct fake_row *row);
struct fake_node *store_node(const struct fake_store *store, int64_t id);
void store_wake(struct fake_store *store, int stage);

/* fake_sql.c: one function a statement */
struct store_verdict sql_complete(struct fake_store *store, const struct store_chain *chain);
bool sql_accepts_whole(const struct fake_store *store, const struct store_chain *chain);
struct store_claimed sql_claim(struct fake_store *store, int64_t node, int session, const struct store_claim *claim,
                               struct arena *arena);
void sql_drop_claims(struct fake_store *store, int64_t node, int count, const int64_t *claims);
void sql_add_stats(struct fake_store *store, const struct store_tick *tick);
bool sql_keep_progress(struct fake_store *store, const struct store_progress *progress);
struct store_text sql_inputs(const struct fake_store *store, int64_t task, int64_t claim, const struct store_inputs *inputs,
                             struct arena *arena);
int sql_told(const struct fake_store *store, int count, const struct store_hold *holds, struct store_told *told);
enum fake_fence { FENCE_HELD, FENCE_APPLIED, FENCE_LOST };
enum fake_fence sql_look(const struct fake_store *store, const struct store_chain *chain, struct store_verdict *verdict);
int sql_release_unknown(struct fake_store *store, int64_t node, int session, int count, const struct store_hold *holds);
int sql_stage_due(struct fake_store *store);
void sql_end_leases(struct fake_store *store);
int sql_rescue(struct fake_store *store);
void sql_node_end(struct fake_store *store, int64_t node);
bool sql_batch_is_used(const struct fake_store *store, const struct fake_batch *batch);
void sql_remove_batch(struct fake_batch *batch);

#endif
