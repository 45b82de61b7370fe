/* fake_store.h - the task store in memory, for simulations: what the statements of sql/ do, on one table of rows.
 *
 * A store is the database; a client is what one node has of it: its connections, as the operation table of ports/store.h.
 * A statement takes effect a while after it was sent, at once and whole, and its answer comes a while after that. What
 * goes wrong in between is drawn from the seed, or scripted for the next call of a kind. Thread rule: one thread.
 */
#ifndef SUPPORT_FAKE_STORE_H
#define SUPPORT_FAKE_STORE_H

#include "base/random.h"
#include "fake_time.h"
#include "ports/store.h"

enum { FAKE_STAGES_MAX = 8, FAKE_LANES_MAX = 32 };

struct fake_store;
struct fake_client;

/* ---- rows -------------------------------------------------------------------------------------------------------- */

enum fake_status { FAKE_READY, FAKE_RUNNING, FAKE_DELAYED, FAKE_DONE, FAKE_FAILED, FAKE_CANCELLED };

struct fake_output {
    int stage;
    int64_t version; /* 0: there is none */
    char *value;     /* NULL: it was confirmed without a value */
};

struct fake_row {
    int64_t id;
    char key[24], payload[32];
    int pipeline, stage;
    enum fake_status status;
    int64_t version, claimed_version, done_version, claim, node;
    int step, attempt, crashes, rescues, superseded, priority;
    int came_from, came_to; /* the stage whose completion brought it to came_to; 0: none */
    int64_t ready_at_ms, due_at_ms;
    int64_t locked_until_ms; /* by somebody else's transaction */
    bool wish;               /* to cancel, marked while it ran */
    struct fake_output outputs[FAKE_STAGES_MAX];
    int progress_stage; /* 0: there is none */
    int64_t progress_version;
    double progress;
    char progress_text[24];

    /* What happened to it in all, for checks. */
    int all_attempts, all_crashes, all_rescues, all_releases, all_accepted, all_progress;
    char kind[16];
};

struct fake_store_hooks { /* each may be NULL but `broken` */
    /* A row is about to leave running. */
    void (*leaving)(void *context, const struct fake_row *row);
    /* Transitions first .. first + count - 1 of the chain are about to be accepted. */
    void (*accepting)(void *context, const struct fake_row *row, const struct store_chain *chain, int first, int count);
    /* The statements of an effect: OK, or the code with which one fails. */
    enum status (*run_sql)(void *context, const struct fake_row *row, const struct store_effect *effect);
    /* A promise that a client must keep is broken. */
    void (*broken)(void *context, const char *what);
    void *context;
};

struct fake_store *fake_store_create(struct fake_time *time, uint64_t seed, const struct fake_store_hooks *hooks);
void fake_store_destroy(struct fake_store *store); /* when its clients are */
/* A new revision of the pipeline; returns its number. */
int fake_store_define(struct fake_store *store, int pipeline, int stage_count, const int *stages);

/* ---- what people do ---------------------------------------------------------------------------------------------- */

struct fake_row *fake_store_submit(struct fake_store *store, int pipeline, const char *key); /* new, or a newer version */
void fake_store_cancel(struct fake_store *store, struct fake_row *row);
void fake_store_retry(struct fake_store *store, struct fake_row *row);
void fake_store_pause(struct fake_store *store, int stage, bool paused);
void fake_store_limit(struct fake_store *store, int stage, int max_running); /* 0: none */
void fake_store_mute(struct fake_store *store, bool muted); /* NOTIFY does not get through */
/* What nodes have said of their runs, each counted once; and how many ticks said something. */
struct fake_stats {
    int64_t runs, failed, run_us, waits, wait_us, in_buckets;
    int ticks;
    int64_t last_ms, shortest_ms; /* between two ticks of new statistics */
};
const struct fake_stats *fake_store_stats(const struct fake_store *store);
void fake_store_lock(struct fake_store *store, struct fake_row *row, int64_t for_ms);

/* ---- looks ------------------------------------------------------------------------------------------------------- */

int fake_store_row_count(const struct fake_store *store);
struct fake_row *fake_store_row(const struct fake_store *store, int index);
struct fake_row *fake_store_find(const struct fake_store *store, const char *key); /* NULL when there is none */
const struct fake_output *fake_row_output(const struct fake_row *row, int stage); /* NULL when there is none */
int fake_store_batch_count(const struct fake_store *store);
int fake_store_ghost_count(const struct fake_store *store); /* statements in old backends */
const char *fake_status_name(enum fake_status status);
/* The process of a node is gone, with all its workers (an inherited file lock would tell). */
bool fake_store_node_is_dead(const struct fake_store *store, int64_t node);

/* ---- clients ----------------------------------------------------------------------------------------------------- */

enum fake_kind {
    FAKE_TICK,
    FAKE_EFFECTS,
    FAKE_RELEASE,
    FAKE_DUTY, /* start, beat, watch, lead, end_peers, end */
    FAKE_KINDS
};

enum fake_fate {
    FAKE_FINE,
    FAKE_CUT_BEFORE,  /* the connection is lost, and the statement with it */
    FAKE_CUT_AFTER,   /* it is committed, its answer is lost with the connection */
    FAKE_GHOST,       /* the connection is lost, an old backend goes on with the statement later */
    FAKE_UNAVAILABLE, /* nothing was done, the connection is still there */
    FAKE_INTERNAL,
    FAKE_CONFLICT,
    FAKE_FATES
};

struct fake_faults {
    int per_mille[FAKE_KINDS][FAKE_FATES];
    int slow_per_mille;
    int64_t latency_ms;       /* of a statement, and of its answer: up to this */
    int64_t slow_ms, away_ms; /* up to this: a slow one, a lost connection */
    int64_t ghost_ms;         /* how late an old backend comes, up to this */
    int64_t sql_ms;           /* statements of an effect */
    /* Old backends run release_unknown late, too. Holds only if the store tells their claims from those of the session
     * that came after; sql/statements/release_unknown.sql does not. */
    bool late_releases;
};

struct fake_client *fake_client_create(struct fake_store *store, uint64_t seed, const struct store_events *events);
void fake_client_destroy(struct fake_client *client); /* when nothing of it is in flight */
const struct store_ops *fake_client_ops(struct fake_client *client);
void fake_client_set_faults(struct fake_client *client, const struct fake_faults *faults);

struct fake_script { /* for the next call of a kind */
    enum fake_fate fate;
    int64_t before_ms, after_ms; /* until it takes effect, until it is answered */
    int64_t away_ms;             /* how long a lost connection stays away */
};
void fake_client_script(struct fake_client *client, enum fake_kind kind, struct fake_script script);
/* While frozen nothing is told to the client; what was sent goes its way. */
void fake_client_freeze(struct fake_client *client, bool frozen);
/* The network is gone for a while: whatever is in flight is lost or left behind, nothing gets through. */
void fake_client_partition(struct fake_client *client, int64_t for_ms);
/* The process is killed: what is in flight is lost, or left behind in its backends. It is answered at once, and everything
 * fails from here on. */
void fake_client_kill(struct fake_client *client);
int fake_client_in_flight(const struct fake_client *client);
int fake_client_sent(const struct fake_client *client, enum fake_kind kind); /* calls so far */

#endif
