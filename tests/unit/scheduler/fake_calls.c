/* fake_calls.c - what each call does to the fake store, and how its answer is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/require.h"
#include "fake_client.h"

enum { LOCK_WAIT_MS = 300 };

static bool is_storable(const struct store_chain *chain) {
    for (int i = 0; i < chain->count; i++) {
        const struct store_text *output = &chain->outputs[i];
        if (output->data != NULL && memmem(output->data, output->length, "\\u0000", 6) != NULL) {
            return false;
        }
    }
    return true;
}

/* ---- tick --------------------------------------------------------------------------------------------------------- */

static bool is_refused(struct fake_call *call) {
    int bad = -1, count = 0;
    for (int i = 0; i < call->tick.chain_count; i++) {
        if (!is_storable(&call->tick.chains[i])) {
            bad = i;
            count++;
        }
    }
    if (count == 0) {
        return false;
    }
    call->code = STATUS_INVALID;
    call->bad_chain = call->tick.chain_count > 1 && store_draw(call->store, 2) == 0 ? -1 : bad;
    return true;
}

static void execute_tick(struct fake_call *call) {
    struct fake_store *store = call->store;
    const struct store_tick *tick = &call->tick;
    if (is_refused(call)) {
        return;
    }
    bool *kept = arena_alloc(&call->arena, sizeof *kept * (size_t)(tick->progress_count + 1));
    for (int i = 0; i < tick->progress_count; i++) {
        kept[i] = sql_keep_progress(store, &tick->progress[i]);
    }
    struct store_verdict *verdicts = arena_alloc(&call->arena, sizeof *verdicts * (size_t)(tick->chain_count + 1));
    for (int i = 0; i < tick->chain_count; i++) {
        verdicts[i] = sql_complete(store, &tick->chains[i]);
    }
    struct store_claimed *claimed = arena_alloc(&call->arena, sizeof *claimed * (size_t)(tick->claim_count + 1));
    for (int i = 0; i < tick->claim_count; i++) {
        claimed[i] = sql_claim(store, tick->node, call->session, &tick->claims[i], &call->arena);
    }
    struct store_text *fetched = arena_alloc(&call->arena, sizeof *fetched * (size_t)(tick->fetch_count + 1));
    for (int i = 0; i < tick->fetch_count; i++) {
        const struct store_fetch *fetch = &tick->fetches[i];
        fetched[i] = sql_inputs(store, fetch->task, fetch->claim, fetch->inputs, &call->arena);
    }
    sql_drop_claims(store, tick->node, tick->drop_count, tick->drops);
    sql_add_stats(store, tick);
    struct store_told *told = arena_alloc(&call->arena, sizeof *told * (size_t)(tick->hold_count + 1));
    call->told_count = sql_told(store, tick->hold_count, tick->holds, told);
    call->verdicts = verdicts;
    call->claimed = claimed;
    call->told = told;
    call->fetched = fetched;
    call->kept = kept;
}

/* ---- effects ------------------------------------------------------------------------------------------------------ */

static void look(struct fake_call *call) {
    for (int i = 0; i < call->effects.count; i++) {
        struct store_effect_verdict *verdict = &call->looks[i];
        call->fences[i] = sql_look(call->store, &call->effects.effects[i].chain, &verdict->verdict);
        verdict->dropped = call->fences[i] == FENCE_LOST;
    }
    call->looked = true;
}

static int count_held(const struct fake_call *call) {
    int count = 0;
    for (int i = 0; i < call->effects.count; i++) {
        count += call->fences[i] == FENCE_HELD;
    }
    return count;
}

/* True when the answer is settled: a statement failed, or an output is refused. */
static bool run_statements(struct fake_call *call) {
    struct fake_store *store = call->store;
    int held = count_held(call);
    for (int i = 0; i < call->effects.count; i++) {
        const struct store_effect *effect = &call->effects.effects[i];
        if (call->fences[i] != FENCE_HELD || store->hooks.run_sql == NULL) {
            continue;
        }
        call->code = store->hooks.run_sql(store->hooks.context, store_row_by_id(store, effect->chain.task), effect);
        if (call->code != STATUS_OK) {
            call->sqlstate = call->code == STATUS_CONFLICT ? "40001" : call->code == STATUS_UNAVAILABLE ? "25006" : NULL;
            /* What is found at commit only is not known to be this one's, unless it stands alone. */
            call->at_fault = held > 1 && store_draw(store, 3) == 0 ? -1 : i;
            return true;
        }
    }
    for (int i = 0; i < call->effects.count; i++) {
        if (call->fences[i] == FENCE_HELD && !is_storable(&call->effects.effects[i].chain)) {
            call->code = STATUS_INVALID;
            call->at_fault = held == 1 ? i : -1;
            return true;
        }
    }
    return false;
}

static bool fences_hold(const struct fake_call *call) {
    for (int i = 0; i < call->effects.count; i++) {
        const struct store_chain *chain = &call->effects.effects[i].chain;
        const struct fake_row *row = store_row_by_id(call->store, chain->task);
        if (call->fences[i] != FENCE_HELD) {
            continue;
        }
        if (row->status != FAKE_RUNNING || row->claim != chain->claim || row->step < chain->step ||
            row->step >= chain->step + chain->count || !sql_accepts_whole(call->store, chain)) {
            return false;
        }
    }
    return true;
}

bool call_commit_effects(struct fake_call *call) {
    struct fake_store *store = call->store;
    if (count_held(call) == 0 || (call->waited_ms == 0 && run_statements(call))) {
        return false;
    }
    for (int i = 0; i < call->effects.count; i++) {
        const struct fake_row *row = store_row_by_id(store, call->effects.effects[i].chain.task);
        if (call->fences[i] == FENCE_HELD && store_is_locked(store, row)) {
            call->code = STATUS_CONFLICT;
            return call->waited_ms < LOCK_WAIT_MS;
        }
    }
    call->code = fences_hold(call) ? STATUS_OK : STATUS_CONFLICT;
    for (int i = 0; i < call->effects.count && call->code == STATUS_OK; i++) {
        if (call->fences[i] == FENCE_HELD) {
            call->looks[i].verdict = sql_complete(store, &call->effects.effects[i].chain);
        }
    }
    return false;
}

/* ---- duties ------------------------------------------------------------------------------------------------------- */

static void execute_start(struct fake_call *call) {
    struct fake_store *store = call->store;
    if (store->node_count == store->node_capacity) {
        store->node_capacity = store->node_capacity == 0 ? 16 : store->node_capacity * 2;
        store->nodes = mem_resize(store->nodes, (size_t)store->node_capacity, sizeof *store->nodes);
    }
    struct store_peer *peers = arena_alloc(&call->arena, sizeof *peers * (size_t)(store->node_count + 1));
    int count = 0;
    for (int i = 0; i < store->node_count; i++) {
        if (!store->nodes[i].ended) {
            peers[count++] = (struct store_peer){.node = store->nodes[i].id, .lock_path = ""};
        }
    }
    store->nodes[store->node_count++] =
        (struct fake_node){.id = call->start.node, .lease_until_ms = store_now(store) + call->start.lease_ms};
    call->started.peer_count = count;
    call->started.peers = peers;
}

static void execute_beat(struct fake_call *call) {
    struct fake_node *node = store_node(call->store, call->node);
    if (node == NULL || node->ended || node->lease_until_ms <= store_now(call->store)) {
        call->code = STATUS_CONFLICT;
        return;
    }
    node->lease_until_ms = store_now(call->store) + call->lead.lease_ms;
}

static int64_t count_open(const struct fake_store *store, int stage) {
    int64_t open = 0;
    for (int i = 0; i < store->row_count; i++) {
        const struct fake_row *row = store->rows[i];
        open += row->stage == stage &&
                (row->status == FAKE_READY || row->status == FAKE_RUNNING || row->status == FAKE_DELAYED);
    }
    return open;
}

static void execute_watch(struct fake_call *call) {
    struct fake_store *store = call->store;
    const struct fake_watch *watch = &call->watch;
    for (int i = 0; i < watch->busy_count; i++) {
        store->busy_until_ms[watch->busy[i]] = store_now(store) + watch->busy_ms;
    }
    struct store_stage_state *states = arena_alloc(&call->arena, sizeof *states * (size_t)(watch->stage_count + 1));
    for (int i = 0; i < watch->stage_count; i++) {
        states[i] = (struct store_stage_state){.stage = watch->stages[i],
                                               .paused = store->paused[watch->stages[i]],
                                               .limited = store->max_running[watch->stages[i]] > 0,
                                               .open = watch->count_open ? count_open(store, watch->stages[i]) : 0};
    }
    call->watched.stage_count = watch->stage_count;
    call->watched.stages = states;
}

static void execute_lead(struct fake_call *call) {
    struct fake_store *store = call->store;
    const struct fake_node *node = store_node(store, call->node);
    bool free = store->leader_until_ms <= store_now(store);
    if (node == NULL || node->ended || (!free && store->leader != call->node)) {
        return;
    }
    store->leader_term += free || store->leader != call->node;
    store->leader = call->node;
    store->leader_until_ms = store_now(store) + call->lead.lease_ms;
    call->led.leads = true;
    call->led.term = store->leader_term;
    call->led.staged = sql_stage_due(store);
    if (call->lead.may_rescue) {
        sql_end_leases(store);
        call->led.rescued = sql_rescue(store);
    }
}

static void execute_end_peers(struct fake_call *call) {
    for (int i = 0; i < call->node_count; i++) {
        struct fake_node *node = store_node(call->store, call->nodes[i]);
        if (node != NULL) {
            node->ended = true;
        }
    }
    call->count = sql_rescue(call->store);
}

void call_execute(struct fake_call *call) {
    switch (call->op) {
    case OP_TICK:
        execute_tick(call);
        break;
    case OP_EFFECTS:
        look(call);
        break;
    case OP_RELEASE:
        call->count = sql_release_unknown(call->store, call->node, call->session, call->hold_count, call->holds);
        break;
    case OP_START:
        execute_start(call);
        break;
    case OP_BEAT:
        execute_beat(call);
        break;
    case OP_WATCH:
        execute_watch(call);
        break;
    case OP_LEAD:
        execute_lead(call);
        break;
    case OP_END_PEERS:
        execute_end_peers(call);
        break;
    case OP_END:
        sql_node_end(call->store, call->node);
        break;
    case OP_READY:
    case OP_DOWN:
    case OP_WOKEN:
        break;
    }
}

/* ---- answers ------------------------------------------------------------------------------------------------------ */

static struct error error_of(const struct fake_call *call) {
    struct error error = ERROR_NONE;
    if (call->code != STATUS_OK) {
        error_set(&error, call->code, "fake: %s", status_name(call->code));
        snprintf(error.sqlstate, sizeof error.sqlstate, "%s", call->sqlstate != NULL ? call->sqlstate : "");
    }
    return error;
}

static void tell_tick(struct fake_call *call) {
    struct store_tick_answer answer = {.code = call->code,
                                       .error = error_of(call),
                                       .bad_chain = call->bad_chain,
                                       .verdicts = call->verdicts,
                                       .claimed = call->claimed,
                                       .told_count = call->told_count,
                                       .told = call->told,
                                       .fetched = call->fetched,
                                       .kept = call->kept};
    call->done.tick(call->done_context, &answer);
}

static void tell_effects(struct fake_call *call) {
    struct store_effects_answer answer = {
        .code = call->code, .error = error_of(call), .at_fault = call->at_fault, .verdicts = call->looks};
    call->done.effects(call->done_context, &answer);
}

static void tell_done(struct fake_call *call) {
    struct store_done_answer answer = {.code = call->code, .error = error_of(call), .count = call->count};
    call->done.done(call->done_context, &answer);
}

void call_tell(struct fake_call *call) {
    const struct store_events *events = &call->client->events;
    switch (call->op) {
    case OP_TICK:
        tell_tick(call);
        break;
    case OP_EFFECTS:
        tell_effects(call);
        break;
    case OP_RELEASE:
    case OP_END_PEERS:
    case OP_END:
        tell_done(call);
        break;
    case OP_START:
        call->started.code = call->code;
        call->started.error = error_of(call);
        call->done.start(call->done_context, &call->started);
        break;
    case OP_BEAT:
        call->done.beat(call->done_context, &(struct store_beat_answer){.code = call->code, .error = error_of(call)});
        break;
    case OP_WATCH:
        call->watched.code = call->code;
        call->watched.error = error_of(call);
        call->done.watch(call->done_context, &call->watched);
        break;
    case OP_LEAD:
        call->led.code = call->code;
        call->led.error = error_of(call);
        call->done.lead(call->done_context, &call->led);
        break;
    case OP_READY:
        events->ready(events->context);
        break;
    case OP_DOWN:
        if (events->down != NULL) {
            events->down(events->context);
        }
        break;
    case OP_WOKEN:
        events->woken(events->context);
        break;
    }
}
