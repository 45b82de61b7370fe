/* fake_client.h - private to the fake store: a node's connections, and the calls that are under way on them. */
#ifndef SUPPORT_FAKE_CLIENT_H
#define SUPPORT_FAKE_CLIENT_H

#include "fake_store_private.h"

enum fake_op {
    OP_TICK,
    OP_EFFECTS,
    OP_RELEASE,
    OP_START,
    OP_BEAT,
    OP_WATCH,
    OP_LEAD,
    OP_END_PEERS,
    OP_END,
    OP_SLOTS,
    OP_READY = OP_SLOTS, /* the store's events, told in one order with the answers */
    OP_DOWN,
    OP_WOKEN,
};

struct fake_watch {
    int stage_count, busy_count, busy_ms;
    const int *stages, *busy;
    bool count_open;
};

struct fake_lead {
    int64_t lease_ms;
    bool may_rescue;
};

struct fake_call {
    struct list link; /* client->calls or store->ghosts */
    struct fake_store *store;
    struct fake_client *client; /* NULL: an old backend's, nobody waits for it */
    enum fake_op op;
    int lane, session;
    bool executed, dropped; /* dropped: its event does nothing but free it */
    bool answered;
    enum fake_fate fate;
    int64_t after_ms, away_ms, waited_ms;
    struct arena arena;

    int64_t node;
    struct store_tick tick;
    struct store_effects effects;
    int hold_count;
    const struct store_hold *holds;
    struct store_start start;
    struct fake_watch watch;
    struct fake_lead lead;
    int node_count;
    const int64_t *nodes;

    bool looked;
    const char *sqlstate; /* of a statement that failed; NULL: none */
    struct store_effect_verdict *looks;
    enum fake_fence *fences;
    enum status code;
    int bad_chain, at_fault;
    int64_t count;
    const struct store_verdict *verdicts;
    const struct store_claimed *claimed;
    int told_count;
    const struct store_told *told;
    const struct store_text *fetched;
    const bool *kept;
    struct store_lead_answer led;
    struct store_start_answer started;
    struct store_watch_answer watched;

    union {
        void (*tick)(void *, const struct store_tick_answer *);
        void (*effects)(void *, const struct store_effects_answer *);
        void (*done)(void *, const struct store_done_answer *);
        void (*start)(void *, const struct store_start_answer *);
        void (*beat)(void *, const struct store_beat_answer *);
        void (*watch)(void *, const struct store_watch_answer *);
        void (*lead)(void *, const struct store_lead_answer *);
    } done;
    void *done_context;
};

/* An end that was sent, of which nobody knows whether it was committed. */
struct fake_open {
    struct list link;
    int64_t task, claim;
    enum store_ending ending;
    int end_step;
    bool effect;
};

struct fake_client {
    struct list link; /* store->clients */
    struct fake_store *store;
    struct random_seeded seeded;
    struct random_ops random;
    struct store_events events;
    struct store_ops ops;
    struct fake_faults faults;
    struct fake_script scripts[FAKE_KINDS];
    bool scripted[FAKE_KINDS];
    bool frozen, dead, ledger_up, killed;
    int session;
    int64_t partition_until_ms, lane_up_at_ms[FAKE_LANES_MAX];
    struct fake_call *slots[OP_SLOTS], *lanes[FAKE_LANES_MAX];
    struct list calls;
    struct list open;
    int sent[FAKE_KINDS];
    int64_t nodes[64];
    int node_count;
};

void client_notify(struct fake_client *client);
void client_forget_ghosts(struct fake_store *store);

/* fake_calls.c: what a call does to the store, and what its answer says */
void call_execute(struct fake_call *call);
/* Effects: true when the rows are locked and it must wait. */
bool call_commit_effects(struct fake_call *call);
void call_tell(struct fake_call *call); /* the client's callback */

/* fake_requests.c: deep copies */
void request_copy_tick(struct fake_call *call, const struct store_tick *tick);
void request_copy_effects(struct fake_call *call, const struct store_effects *effects);
const struct store_hold *request_copy_holds(struct arena *arena, int count, const struct store_hold *holds);

/* fake_promises.c: what a client must keep to */
void promises_on_send(struct fake_client *client, const struct fake_call *call);
void promises_on_answer(struct fake_client *client, const struct fake_call *call);
void promises_forget(struct fake_client *client);

#endif
