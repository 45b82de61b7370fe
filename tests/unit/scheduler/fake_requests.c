/* fake_requests.c - requests are borrowed for the call, and a fake store looks at them later: it keeps copies. */
#include <string.h>

#include "fake_client.h"

static void *copy(struct arena *arena, const void *items, int count, size_t size) {
    return count == 0 ? NULL : arena_copy(arena, items, (size_t)count * size);
}

static void copy_chain(struct arena *arena, struct store_chain *chain) {
    struct store_text *outputs = copy(arena, chain->outputs, chain->count, sizeof *outputs);
    for (int i = 0; i < chain->count; i++) {
        if (outputs[i].data != NULL) {
            outputs[i].data = arena_copy(arena, outputs[i].data, outputs[i].length);
        }
    }
    chain->outputs = outputs;
    chain->kind = arena_copy_string(arena, chain->kind);
    chain->reason = arena_copy_string(arena, chain->reason);
    chain->detail = arena_copy_string(arena, chain->detail);
}

const struct store_hold *request_copy_holds(struct arena *arena, int count, const struct store_hold *holds) {
    return copy(arena, holds, count, sizeof *holds);
}

void request_copy_tick(struct fake_call *call, const struct store_tick *tick) {
    struct arena *arena = &call->arena;
    call->tick = *tick;
    call->node = tick->node;
    struct store_chain *chains = copy(arena, tick->chains, tick->chain_count, sizeof *chains);
    for (int i = 0; i < tick->chain_count; i++) {
        copy_chain(arena, &chains[i]);
    }
    struct store_claim *claims = copy(arena, tick->claims, tick->claim_count, sizeof *claims);
    for (int i = 0; i < tick->claim_count; i++) {
        claims[i].from_ready_at = arena_copy_string(arena, claims[i].from_ready_at);
        claims[i].inputs = copy(arena, claims[i].inputs, claims[i].inputs != NULL, sizeof *claims[i].inputs);
    }
    struct store_progress *progress = copy(arena, tick->progress, tick->progress_count, sizeof *progress);
    for (int i = 0; i < tick->progress_count; i++) {
        progress[i].text = arena_copy_string(arena, progress[i].text);
    }
    call->tick.progress = progress;
    call->tick.fetches = copy(arena, tick->fetches, tick->fetch_count, sizeof *tick->fetches);
    call->tick.chains = chains;
    call->tick.claims = claims;
    call->tick.drops = copy(arena, tick->drops, tick->drop_count, sizeof *tick->drops);
    call->tick.stats = copy(arena, tick->stats, tick->stat_count, sizeof *tick->stats);
    call->tick.holds = request_copy_holds(arena, tick->hold_count, tick->holds);
}

static void copy_statements(struct arena *arena, struct store_effect *effect) {
    struct store_statement *statements = copy(arena, effect->statements, effect->statement_count, sizeof *statements);
    for (int i = 0; i < effect->statement_count; i++) {
        struct store_param *params = copy(arena, statements[i].params, statements[i].param_count, sizeof *params);
        for (int p = 0; p < statements[i].param_count; p++) {
            if (params[p].data != NULL) {
                params[p].data = arena_copy(arena, params[p].data, params[p].length);
            }
        }
        statements[i].text = arena_copy_string(arena, statements[i].text);
        statements[i].params = params;
    }
    effect->statements = statements;
}

void request_copy_effects(struct fake_call *call, const struct store_effects *effects) {
    struct arena *arena = &call->arena;
    call->effects = *effects;
    call->node = effects->node;
    struct store_effect *copies = copy(arena, effects->effects, effects->count, sizeof *copies);
    for (int i = 0; i < effects->count; i++) {
        copy_chain(arena, &copies[i].chain);
        copy_statements(arena, &copies[i]);
    }
    call->effects.effects = copies;
    call->effects.role = arena_copy_string(arena, effects->role);
    call->looks = arena_alloc(arena, sizeof *call->looks * (size_t)effects->count);
    call->fences = arena_alloc(arena, sizeof *call->fences * (size_t)effects->count);
}
