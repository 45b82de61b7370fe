/* fake_client.c - a node's connections: when a call takes effect, when it is answered, and what is lost on the way.
 *
 * A call is an object with one event to come at a time: first it takes effect, then it is answered. When its connection is
 * lost it is parted: one half is answered to the client, the other goes on alone (a ghost) or is dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/require.h"
#include "fake_client.h"

static void on_event(void *context);

static int64_t draw(struct fake_client *client, int64_t most) {
    return most <= 0 ? 0 : (int64_t)random_below(&client->random, (uint64_t)most + 1);
}

static bool happens(struct fake_client *client, int per_mille) {
    return per_mille > 0 && random_below(&client->random, 1000) < (uint64_t)per_mille;
}

static void call_free(struct fake_call *call) {
    list_remove(&call->link);
    arena_finish(&call->arena);
    free(call);
}

static struct fake_call **slot_of(const struct fake_call *call) {
    if (call->client == NULL || call->op >= OP_SLOTS) {
        return NULL;
    }
    return call->op == OP_EFFECTS ? &call->client->lanes[call->lane] : &call->client->slots[call->op];
}

/* ---- sending ------------------------------------------------------------------------------------------------------ */

static enum fake_kind kind_of(enum fake_op op) {
    return op == OP_TICK ? FAKE_TICK : op == OP_EFFECTS ? FAKE_EFFECTS : op == OP_RELEASE ? FAKE_RELEASE : FAKE_DUTY;
}

static int64_t draw_latency(struct fake_client *client) {
    int64_t slow = happens(client, client->faults.slow_per_mille) ? draw(client, client->faults.slow_ms) : 0;
    return draw(client, client->faults.latency_ms) + slow;
}

static void draw_fate(struct fake_client *client, struct fake_call *call, int64_t *before_ms) {
    enum fake_kind kind = kind_of(call->op);
    client->sent[kind]++;
    if (client->scripted[kind]) {
        const struct fake_script *script = &client->scripts[kind];
        client->scripted[kind] = false;
        call->fate = script->fate;
        call->after_ms = script->after_ms;
        call->away_ms = script->away_ms;
        *before_ms = script->before_ms;
        return;
    }
    for (int fate = FAKE_CUT_BEFORE; fate < FAKE_FATES && call->fate == FAKE_FINE; fate++) {
        if (happens(client, client->faults.per_mille[kind][fate])) {
            call->fate = (enum fake_fate)fate;
        }
    }
    call->after_ms = draw_latency(client);
    call->away_ms = 1 + draw(client, client->faults.away_ms);
    *before_ms = draw_latency(client);
}

static enum status refuse(struct error *err, enum status code) {
    return error_set(err, code, "fake: %s", status_name(code));
}

static struct fake_call *new_call(struct fake_client *client, enum fake_op op) {
    struct fake_call *call = mem_alloc(sizeof *call);
    *call = (struct fake_call){.store = client->store,
                               .client = client,
                               .op = op,
                               .session = client->session,
                               .bad_chain = -1,
                               .at_fault = -1};
    list_append(&client->calls, &call->link);
    return call;
}

static enum status send_call(struct fake_call *call) {
    struct fake_client *client = call->client;
    int64_t before_ms = 0;
    *slot_of(call) = call;
    draw_fate(client, call, &before_ms);
    promises_on_send(client, call);
    if (client->partition_until_ms > store_now(client->store)) {
        call->fate = FAKE_UNAVAILABLE; /* waits for a connection in vain */
        before_ms = 200;
    }
    fake_time_call(client->store->time, before_ms, on_event, call);
    return STATUS_OK;
}

static bool may_send(const struct fake_client *client, enum fake_op op) {
    return !client->dead && client->slots[op] == NULL;
}

/* ---- what becomes of it ------------------------------------------------------------------------------------------- */

static enum status lost_code(const struct fake_call *call) {
    return call->op <= OP_RELEASE ? STATUS_UNCERTAIN : STATUS_UNAVAILABLE;
}

/* Returns the half that is to be answered. */
static struct fake_call *part(struct fake_call *call, bool lives) {
    struct fake_client *client = call->client;
    call->code = lost_code(call);
    promises_on_answer(client, call);
    struct fake_call *reply = new_call(client, call->op);
    reply->lane = call->lane;
    reply->code = call->code;
    reply->done = call->done;
    reply->done_context = call->done_context;
    *slot_of(call) = reply;
    call->client = NULL;
    call->code = STATUS_OK;
    call->dropped = !lives;
    list_remove(&call->link);
    list_append(&client->store->ghosts, &call->link);
    client->store->ghost_count += lives;
    return reply;
}

static void event_call(struct fake_client *client, enum fake_op op, int64_t after_ms) {
    struct fake_call *call = new_call(client, op);
    call->executed = true;
    fake_time_call(client->store->time, after_ms, on_event, call);
}

static void lose_ledger(struct fake_client *client, int64_t away_ms) {
    if (client->ledger_up) {
        client->ledger_up = false;
        event_call(client, OP_DOWN, 0);
        event_call(client, OP_READY, away_ms);
    }
}

static void lose_connection(const struct fake_call *call) {
    struct fake_client *client = call->client;
    if (call->op == OP_TICK || call->op == OP_RELEASE || call->op == OP_END) {
        lose_ledger(client, call->away_ms);
    } else if (call->op == OP_EFFECTS) {
        client->lane_up_at_ms[call->lane] = store_now(client->store) + call->away_ms;
    }
}

static void deliver(struct fake_call *call) {
    struct fake_client *client = call->client;
    struct fake_call **slot = slot_of(call);
    if (slot != NULL) {
        *slot = NULL;
    }
    if (call->op == OP_READY) {
        if (client->partition_until_ms > store_now(client->store)) {
            fake_time_call(client->store->time, client->partition_until_ms - store_now(client->store), on_event, call);
            call->answered = false;
            return;
        }
        client->ledger_up = true;
        client->session++;
    }
    promises_on_answer(client, call);
    call_tell(call);
    call_free(call);
}

static void answer(struct fake_call *call) {
    call->answered = true;
    if (!call->client->frozen) {
        deliver(call);
    }
}

/* The connection is lost while the call is under way. True when its event is used up. */
static bool meet_fate(struct fake_call *call) {
    struct fake_client *client = call->client;
    bool may_linger = call->op != OP_RELEASE || client->faults.late_releases;
    switch (call->fate) {
    case FAKE_FINE:
        return false;
    case FAKE_CUT_BEFORE:
        break;
    case FAKE_CUT_AFTER:
        if (call->op == OP_EFFECTS) {
            call_commit_effects(call);
        } else {
            call_execute(call);
        }
        break;
    case FAKE_GHOST:
        if (may_linger) {
            lose_connection(call);
            struct fake_call *reply = part(call, true);
            fake_time_call(client->store->time, 1 + draw(client, client->faults.ghost_ms), on_event, call);
            answer(reply);
            return true;
        }
        break;
    case FAKE_UNAVAILABLE:
        call->code = STATUS_UNAVAILABLE;
        answer(call);
        return true;
    case FAKE_INTERNAL:
        call->code = STATUS_INTERNAL;
        answer(call);
        return true;
    case FAKE_CONFLICT:
        call->code = call->op == OP_EFFECTS ? STATUS_CONFLICT : STATUS_UNAVAILABLE;
        answer(call);
        return true;
    case FAKE_FATES:
        break;
    }
    call->code = lost_code(call);
    lose_connection(call);
    answer(call);
    return true;
}

/* True when the statement has taken effect, or never will. */
static bool go_on(struct fake_call *call) {
    struct fake_time *time = call->store->time;
    if (call->op == OP_EFFECTS) {
        if (!call->looked) {
            call_execute(call);
            int64_t most = call->client != NULL ? call->client->faults.sql_ms : 0;
            fake_time_call(time, most > 0 ? draw(call->client, most) : 0, on_event, call);
            return false;
        }
        if (call->client != NULL && meet_fate(call)) {
            return false;
        }
        if (call_commit_effects(call)) {
            call->waited_ms += 20;
            fake_time_call(time, 20, on_event, call);
            return false;
        }
        return true;
    }
    if (call->client != NULL && meet_fate(call)) {
        return false;
    }
    call_execute(call);
    return true;
}

static void on_event(void *context) {
    struct fake_call *call = context;
    if (call->dropped) {
        call_free(call);
        return;
    }
    if (call->executed) {
        answer(call);
        return;
    }
    if (!go_on(call)) {
        return;
    }
    if (call->client == NULL) {
        call->store->ghost_count--;
        call_free(call);
        return;
    }
    call->executed = true;
    fake_time_call(call->store->time, call->after_ms, on_event, call);
}

/* ---- the operations ----------------------------------------------------------------------------------------------- */

static bool tick_is_ready(void *context) {
    const struct fake_client *client = context;
    return !client->dead && client->ledger_up && client->slots[OP_TICK] == NULL && client->slots[OP_RELEASE] == NULL &&
           client->slots[OP_END] == NULL;
}

static enum status tick(void *context, const struct store_tick *request,
                        void (*done)(void *, const struct store_tick_answer *), void *done_context, struct error *err) {
    struct fake_client *client = context;
    if (!tick_is_ready(client)) {
        return refuse(err, STATUS_AGAIN);
    }
    struct fake_call *call = new_call(client, OP_TICK);
    request_copy_tick(call, request);
    call->done.tick = done;
    call->done_context = done_context;
    return send_call(call);
}

static bool lane_is_ready(void *context, int lane) {
    const struct fake_client *client = context;
    REQUIRE(lane >= 0 && lane < FAKE_LANES_MAX);
    return !client->dead && client->lanes[lane] == NULL && client->lane_up_at_ms[lane] <= store_now(client->store) &&
           client->partition_until_ms <= store_now(client->store);
}

static enum status effects(void *context, int lane, const struct store_effects *request,
                           void (*done)(void *, const struct store_effects_answer *), void *done_context,
                           struct error *err) {
    struct fake_client *client = context;
    if (!lane_is_ready(client, lane)) {
        return refuse(err, STATUS_AGAIN);
    }
    struct fake_call *call = new_call(client, OP_EFFECTS);
    call->lane = lane;
    request_copy_effects(call, request);
    call->done.effects = done;
    call->done_context = done_context;
    return send_call(call);
}

static enum status send_done_call(struct fake_call *call, void (*done)(void *, const struct store_done_answer *),
                                  void *done_context) {
    call->done.done = done;
    call->done_context = done_context;
    return send_call(call);
}

static enum status release_unknown(void *context, int64_t node, int count, const struct store_hold *holds,
                                   void (*done)(void *, const struct store_done_answer *), void *done_context,
                                   struct error *err) {
    struct fake_client *client = context;
    if (!tick_is_ready(client)) {
        return refuse(err, STATUS_AGAIN);
    }
    struct fake_call *call = new_call(client, OP_RELEASE);
    call->node = node;
    call->hold_count = count;
    call->holds = request_copy_holds(&call->arena, count, holds);
    return send_done_call(call, done, done_context);
}

static enum status start(void *context, const struct store_start *request,
                         void (*done)(void *, const struct store_start_answer *), void *done_context, struct error *err) {
    struct fake_client *client = context;
    if (!may_send(client, OP_START)) {
        return refuse(err, STATUS_AGAIN);
    }
    struct fake_call *call = new_call(client, OP_START);
    call->start = (struct store_start){.node = request->node, .lease_ms = request->lease_ms};
    call->done.start = done;
    call->done_context = done_context;
    REQUIRE(client->node_count < (int)(sizeof client->nodes / sizeof client->nodes[0]));
    client->nodes[client->node_count++] = request->node;
    return send_call(call);
}

static enum status end_peers(void *context, const char *host, int count, const int64_t *nodes,
                             void (*done)(void *, const struct store_done_answer *), void *done_context,
                             struct error *err) {
    struct fake_client *client = context;
    (void)host;
    if (!may_send(client, OP_END_PEERS)) {
        return refuse(err, STATUS_AGAIN);
    }
    struct fake_call *call = new_call(client, OP_END_PEERS);
    call->node_count = count;
    call->nodes = (const int64_t *)(const void *)arena_copy(&call->arena, nodes, sizeof *nodes * (size_t)count);
    return send_done_call(call, done, done_context);
}

static enum status end(void *context, int64_t node, void (*done)(void *, const struct store_done_answer *),
                       void *done_context, struct error *err) {
    struct fake_client *client = context;
    if (!may_send(client, OP_END)) {
        return refuse(err, STATUS_AGAIN);
    }
    struct fake_call *call = new_call(client, OP_END);
    call->node = node;
    return send_done_call(call, done, done_context);
}

static enum status beat(void *context, int64_t node, int64_t lease_ms,
                        void (*done)(void *, const struct store_beat_answer *), void *done_context, struct error *err) {
    struct fake_client *client = context;
    if (!may_send(client, OP_BEAT)) {
        return refuse(err, STATUS_AGAIN);
    }
    struct fake_call *call = new_call(client, OP_BEAT);
    call->node = node;
    call->lead.lease_ms = lease_ms;
    call->done.beat = done;
    call->done_context = done_context;
    return send_call(call);
}

static enum status watch(void *context, int stage_count, const int *stages, bool count_open, int busy_count,
                         const int *busy, int busy_ms, void (*done)(void *, const struct store_watch_answer *),
                         void *done_context, struct error *err) {
    struct fake_client *client = context;
    if (!may_send(client, OP_WATCH)) {
        return refuse(err, STATUS_AGAIN);
    }
    struct fake_call *call = new_call(client, OP_WATCH);
    int *kept = arena_alloc(&call->arena, sizeof *kept * (size_t)(stage_count + busy_count + 1));
    memcpy(kept, stages, sizeof *kept * (size_t)stage_count);
    memcpy(kept + stage_count, busy, sizeof *kept * (size_t)busy_count);
    call->watch = (struct fake_watch){stage_count, busy_count, busy_ms, kept, kept + stage_count, count_open};
    call->done.watch = done;
    call->done_context = done_context;
    return send_call(call);
}

static enum status lead(void *context, int64_t node, int64_t lease_ms, bool may_rescue, bool fold,
                        void (*done)(void *, const struct store_lead_answer *), void *done_context, struct error *err) {
    struct fake_client *client = context;
    (void)fold;
    if (!may_send(client, OP_LEAD)) {
        return refuse(err, STATUS_AGAIN);
    }
    struct fake_call *call = new_call(client, OP_LEAD);
    call->node = node;
    call->lead = (struct fake_lead){lease_ms, may_rescue};
    call->done.lead = done;
    call->done_context = done_context;
    return send_call(call);
}

static const struct store_ops operations = {
    .tick = tick,
    .tick_ready = tick_is_ready,
    .effects = effects,
    .lane_ready = lane_is_ready,
    .release_unknown = release_unknown,
    .start = start,
    .end_peers = end_peers,
    .end = end,
    .beat = beat,
    .watch = watch,
    .lead = lead,
};

/* ---- life --------------------------------------------------------------------------------------------------------- */

struct fake_client *fake_client_create(struct fake_store *store, uint64_t seed, const struct store_events *events) {
    struct fake_client *client = mem_alloc(sizeof *client);
    client->store = store;
    client->random = random_from_seed(&client->seeded, seed);
    client->events = *events;
    client->ops = operations;
    client->ops.context = client;
    client->ledger_up = true;
    list_init(&client->calls);
    list_init(&client->open);
    list_append(&store->clients, &client->link);
    return client;
}

const struct store_ops *fake_client_ops(struct fake_client *client) {
    return &client->ops;
}

/* What is left are events: nobody waits for them any more. */
void fake_client_destroy(struct fake_client *client) {
    LIST_EACH_SAFE(link, after, &client->calls) {
        struct fake_call *call = LIST_ENTRY(link, struct fake_call, link);
        REQUIRE(call->op >= OP_SLOTS);
        if (call->answered) {
            call_free(call); /* it waited for a thaw */
            continue;
        }
        call->client = NULL;
        call->dropped = true;
        list_remove(&call->link);
        list_append(&client->store->ghosts, &call->link);
    }
    promises_forget(client);
    list_remove(&client->link);
    free(client);
}

void client_forget_ghosts(struct fake_store *store) {
    LIST_EACH_SAFE(link, after, &store->ghosts) {
        call_free(LIST_ENTRY(link, struct fake_call, link));
    }
}

void fake_client_set_faults(struct fake_client *client, const struct fake_faults *faults) {
    client->faults = *faults;
}

void fake_client_script(struct fake_client *client, enum fake_kind kind, struct fake_script script) {
    client->scripts[kind] = script;
    client->scripted[kind] = true;
}

void client_notify(struct fake_client *client) {
    if (!client->dead && client->partition_until_ms <= store_now(client->store)) {
        event_call(client, OP_WOKEN, draw(client, client->faults.latency_ms));
    }
}

void fake_client_freeze(struct fake_client *client, bool frozen) {
    client->frozen = frozen;
    bool any = !frozen;
    while (any) {
        any = false;
        LIST_EACH(link, &client->calls) {
            struct fake_call *call = LIST_ENTRY(link, struct fake_call, link);
            if (call->answered) {
                deliver(call);
                any = true;
                break;
            }
        }
    }
}

/* Parts all that is in flight: what has not taken effect is left behind or lost. */
static void part_all(struct fake_client *client, bool at_once) {
    struct fake_call *calls[OP_SLOTS + FAKE_LANES_MAX];
    int count = 0;
    LIST_EACH(link, &client->calls) {
        struct fake_call *call = LIST_ENTRY(link, struct fake_call, link);
        if (call->op < OP_SLOTS && !call->answered) {
            calls[count++] = call;
        }
    }
    for (int i = 0; i < count; i++) {
        bool may_linger = calls[i]->op != OP_RELEASE || client->faults.late_releases;
        bool lives = !calls[i]->executed && may_linger && draw(client, 1) == 0;
        struct fake_call *reply = part(calls[i], lives);
        if (at_once) {
            answer(reply);
        } else {
            reply->executed = true;
            fake_time_call(client->store->time, 50 + draw(client, 200), on_event, reply);
        }
    }
}

void fake_client_partition(struct fake_client *client, int64_t for_ms) {
    client->partition_until_ms = store_now(client->store) + for_ms;
    part_all(client, false);
    lose_ledger(client, for_ms + 1);
}

void fake_client_kill(struct fake_client *client) {
    fake_client_freeze(client, false);
    client->dead = true;
    for (int i = 0; i < client->node_count; i++) {
        struct fake_node *node = store_node(client->store, client->nodes[i]);
        if (node != NULL) {
            node->dead = true;
        }
    }
    part_all(client, true);
}

int fake_client_in_flight(const struct fake_client *client) {
    int count = 0;
    LIST_EACH(link, &client->calls) {
        count += LIST_ENTRY(link, struct fake_call, link)->op < OP_SLOTS;
    }
    return count;
}

int fake_client_sent(const struct fake_client *client, enum fake_kind kind) {
    return client->sent[kind];
}
