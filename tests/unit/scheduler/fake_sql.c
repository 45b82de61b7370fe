/* fake_sql.c - the statements of sql/statements, each a function that takes effect at once. Names as in the SQL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fake_store_private.h"

static int position_of(const struct fake_revision *order, int stage) {
    for (int i = 0; order != NULL && i < order->count; i++) {
        if (order->stages[i] == stage) {
            return i;
        }
    }
    return -1;
}

static int stage_at(const struct fake_revision *order, int position) {
    return order != NULL && position >= 0 && position < order->count ? order->stages[position] : 0;
}

/* ---- the one exit rule ------------------------------------------------------------------------------------------- */

struct leaving {
    enum fake_status want;
    int want_stage;
    bool afresh; /* out: a newer version takes the row */
};

/* Where the row goes; the caller sees to the rest. */
static void leave(struct fake_store *store, struct fake_row *row, struct leaving *leaving) {
    if (store->hooks.leaving != NULL) {
        store->hooks.leaving(store->hooks.context, row);
    }
    bool newer = row->version != row->claimed_version;
    row->status = row->wish ? FAKE_CANCELLED : newer ? FAKE_READY : leaving->want;
    row->stage = row->wish || !newer ? leaving->want_stage : store_order(store, row->pipeline, 0)->stages[0];
    leaving->afresh = newer && row->status == FAKE_READY;
    row->wish = false;
}

static void forget_counters(struct fake_row *row) {
    row->attempt = row->crashes = row->rescues = 0;
}

/* ---- complete ---------------------------------------------------------------------------------------------------- */

struct judged {
    bool fenced, whole;
    int pending, taken;
    int position;   /* of the row's stage in the current order; -1: it has none */
    int next_stage; /* 0: the pipeline ends */
};

static int common_prefix(const struct fake_revision *order, int at, const struct fake_revision *run, int run_at,
                         int count) {
    int agree = 0;
    while (agree < count && at >= 0 && run_at >= 0 && stage_at(order, at + agree) != 0 &&
           stage_at(order, at + agree) == stage_at(run, run_at + agree)) {
        agree++;
    }
    return agree;
}

static struct judged judge(const struct fake_store *store, const struct fake_row *row, const struct store_chain *chain) {
    const struct fake_revision *order = store_order(store, row->pipeline, 0);
    const struct fake_revision *run = store_order(store, row->pipeline, chain->revision);
    struct judged j = {.pending = chain->step + chain->count - row->step};
    j.fenced = row->status == FAKE_RUNNING && row->claim == chain->claim && row->step >= chain->step && j.pending >= 0;
    if (!j.fenced) {
        return j;
    }
    bool agreed = run == order;
    int run_at = position_of(run, chain->first_stage);
    j.position = position_of(order, row->stage);
    j.taken = j.position < 0 ? 0
              : agreed       ? j.pending
                             : common_prefix(order, j.position, run, run_at + row->step - chain->step, j.pending);
    j.next_stage = j.position >= 0 ? stage_at(order, j.position + j.taken) : 0;
    if (j.next_stage == 0 && j.taken == 0) {
        j.next_stage = row->stage;
    }
    int in_hand = run_at < 0 ? 0 : stage_at(run, run_at + chain->count);
    bool flows = chain->ending == STORE_ROUTE || chain->ending == STORE_FINISH;
    if (flows && j.taken == j.pending) {
        j.next_stage = in_hand = chain->route_stage; /* 0 for a finish */
    }
    j.whole = j.taken == j.pending && (agreed || in_hand == j.next_stage);
    return j;
}

static enum fake_status wanted(const struct store_chain *chain, const struct judged *j) {
    if (j->next_stage == 0) {
        return FAKE_DONE;
    }
    bool goes_on = chain->ending == STORE_NEXT || chain->ending == STORE_KEEP || chain->ending == STORE_ROUTE;
    if (!j->whole || goes_on || chain->ending == STORE_RELEASE) {
        return FAKE_READY;
    }
    return chain->ending == STORE_DELAYED ? FAKE_DELAYED : FAKE_FAILED;
}

static void put_output(struct fake_row *row, int stage, const struct store_text *text) {
    struct fake_output *slot = NULL;
    for (int i = 0; i < FAKE_STAGES_MAX && slot == NULL; i++) {
        if (row->outputs[i].stage == stage || row->outputs[i].stage == 0) {
            slot = &row->outputs[i];
        }
    }
    slot->stage = stage;
    slot->version = row->claimed_version;
    free(slot->value);
    slot->value = text->data == NULL ? NULL : mem_copy_bytes(text->data, text->length);
}

static void put_outputs(struct fake_store *store, struct fake_row *row, const struct store_chain *chain,
                        const struct judged *j) {
    int first = row->step - chain->step;
    if (store->hooks.accepting != NULL && j->taken > 0) {
        store->hooks.accepting(store->hooks.context, row, chain, first, j->taken);
    }
    const struct fake_revision *order = store_order(store, row->pipeline, 0);
    for (int i = 0; i < j->taken; i++) {
        put_output(row, order->stages[j->position + i], &chain->outputs[first + i]);
    }
    row->all_accepted += j->taken;
}

static void add_counters(struct fake_row *row, const struct store_chain *chain, const struct judged *j) {
    if (j->taken > 0) {
        forget_counters(row);
    }
    if (!j->whole) {
        return;
    }
    row->attempt += chain->attempts;
    row->crashes += chain->crashes;
    row->rescues += chain->rescues;
    row->all_attempts += chain->attempts;
    row->all_crashes += chain->crashes;
    row->all_rescues += chain->rescues;
    if (chain->kind != NULL) {
        snprintf(row->kind, sizeof row->kind, "%s", chain->kind);
    }
}

static void write_exit(struct fake_store *store, struct fake_row *row, const struct store_chain *chain,
                       const struct judged *j, int64_t ready_at_ms) {
    const struct fake_revision *order = store_order(store, row->pipeline, 0);
    struct leaving leaving = {.want = wanted(chain, j),
                              .want_stage = j->next_stage != 0 ? j->next_stage : order->stages[order->count - 1]};
    bool newer = row->version != row->claimed_version;
    leave(store, row, &leaving);
    if (j->next_stage == 0) {
        row->superseded = 0;
        row->done_version = row->claimed_version;
    } else if (leaving.afresh) {
        row->superseded++;
    }
    row->all_releases += chain->ending == STORE_RELEASE;
    if (leaving.afresh) {
        forget_counters(row);
    }
    bool untouched = j->taken == 0 && chain->ending == STORE_RELEASE && chain->rescues == 0 && chain->crashes == 0 && !newer;
    if (row->status == FAKE_READY) {
        row->ready_at_ms = untouched ? ready_at_ms : store_now(store);
    } else if (row->status == FAKE_DELAYED) {
        row->due_at_ms = store_now(store) + chain->delay_ms;
    }
}

bool sql_accepts_whole(const struct fake_store *store, const struct store_chain *chain) {
    const struct fake_row *row = store_row_by_id(store, chain->task);
    struct judged j = judge(store, row, chain);
    return j.fenced && j.taken == j.pending;
}

static void forget_progress(const struct fake_store *store, struct fake_row *row, const struct store_chain *chain,
                            const struct judged *j) {
    const struct fake_revision *order = store_order(store, row->pipeline, 0);
    bool over = row->progress_version != row->claimed_version || (j->next_stage == 0 && chain->ending != STORE_STAY);
    for (int i = 0; i < j->taken; i++) {
        over = over || row->progress_stage == order->stages[j->position + i];
    }
    if (chain->has_progress && over) {
        row->progress_stage = 0;
    }
}

bool sql_keep_progress(struct fake_store *store, const struct store_progress *progress) {
    struct fake_row *row = store_row_by_id(store, progress->task);
    if (store_is_locked(store, row) || row->status != FAKE_RUNNING || row->claim != progress->claim) {
        return false;
    }
    row->progress_stage = progress->stage;
    row->progress_version = row->claimed_version;
    row->progress = progress->fraction;
    snprintf(row->progress_text, sizeof row->progress_text, "%s", progress->text);
    row->all_progress++;
    return true;
}

struct store_text sql_inputs(const struct fake_store *store, int64_t task, int64_t claim, const struct store_inputs *inputs,
                             struct arena *arena) {
    const struct fake_row *row = store_row_by_id(store, task);
    if (row->status != FAKE_RUNNING || row->claim != claim) {
        return (struct store_text){0};
    }
    const char *text = "{";
    for (int i = 0; i < inputs->count; i++) {
        const struct fake_output *output = fake_row_output(row, inputs->stages[i]);
        const char *value = output != NULL && output->version == row->claimed_version ? output->value : NULL;
        text = arena_format(arena, "%s%s\"%s\":%s", text, i > 0 ? "," : "", inputs->names[i], value != NULL ? value : "null");
    }
    text = arena_format(arena, "%s}", text);
    return (struct store_text){text, strlen(text)};
}

static struct store_verdict not_fenced(const struct fake_row *row, const struct store_chain *chain) {
    bool before = row->status != FAKE_RUNNING && row->claim == chain->claim &&
                  row->step == chain->step + chain->count && chain->ending != STORE_STAY;
    return (struct store_verdict){
        .answer = before ? STORE_APPLIED : STORE_REFUSED,
        .step = row->step,
        .stage = row->stage,
        .done = before && row->status == FAKE_DONE,
        .failed = before && row->status == FAKE_FAILED};
}

struct store_verdict sql_complete(struct fake_store *store, const struct store_chain *chain) {
    struct fake_row *row = store_row_by_id(store, chain->task);
    if (store_is_locked(store, row)) {
        return (struct store_verdict){.answer = STORE_BUSY, .running = true};
    }
    struct judged j = judge(store, row, chain);
    if (!j.fenced) {
        return not_fenced(row, chain);
    }
    int64_t ready_at_ms = row->ready_at_ms;
    if (j.taken > 0 && j.next_stage != 0) {
        row->came_from = store_order(store, row->pipeline, 0)->stages[j.position + j.taken - 1];
        row->came_to = j.next_stage;
    }
    put_outputs(store, row, chain, &j);
    add_counters(row, chain, &j);
    forget_progress(store, row, chain, &j);
    bool newer = row->version != row->claimed_version;
    if (chain->ending == STORE_STAY || (chain->ending == STORE_KEEP && newer && j.whole && j.next_stage != 0 && !row->wish)) {
        const struct fake_revision *order = store_order(store, row->pipeline, 0);
        row->stage = j.next_stage != 0 ? j.next_stage : order->stages[order->count - 1];
    } else {
        write_exit(store, row, chain, &j, ready_at_ms);
    }
    row->step = chain->step + chain->count - j.pending + j.taken;
    return (struct store_verdict){.answer = STORE_ACCEPTED,
                                  .step = row->step,
                                  .stage = row->stage,
                                  .running = row->status == FAKE_RUNNING,
                                  .done = row->status == FAKE_DONE,
                                  .failed = row->status == FAKE_FAILED};
}

enum fake_fence sql_look(const struct fake_store *store, const struct store_chain *chain, struct store_verdict *verdict) {
    const struct fake_row *row = store_row_by_id(store, chain->task);
    *verdict = (struct store_verdict){
        .answer = STORE_REFUSED, .step = row->step, .stage = row->stage, .failed = row->status == FAKE_FAILED};
    if (row->claim != chain->claim) {
        return FENCE_LOST;
    }
    bool running = row->status == FAKE_RUNNING;
    if (row->step == chain->step + chain->count &&
        (chain->ending == STORE_KEEP || running == (chain->ending == STORE_STAY))) {
        verdict->answer = running ? STORE_ACCEPTED : STORE_APPLIED;
        verdict->running = running;
        verdict->done = row->status == FAKE_DONE;
        return FENCE_APPLIED;
    }
    bool in_steps = row->step >= chain->step && row->step <= chain->step + chain->count - 1;
    return running && in_steps && sql_accepts_whole(store, chain) ? FENCE_HELD : FENCE_LOST;
}

/* ---- claim ------------------------------------------------------------------------------------------------------- */

static bool is_claimable(const struct fake_store *store, const struct fake_row *row, const struct store_claim *claim) {
    if (row->status != FAKE_READY || row->stage != claim->stage || store_is_locked(store, row)) {
        return false;
    }
    if (claim->from_front) {
        return true;
    }
    int64_t from_ms = strtoll(claim->from_ready_at, NULL, 10) - 1000;
    return row->priority > claim->from_priority ||
           (row->priority == claim->from_priority && row->ready_at_ms >= from_ms);
}

static bool goes_before(const struct fake_row *a, const struct fake_row *b, bool fair) {
    if (!fair && a->priority != b->priority) {
        return a->priority < b->priority;
    }
    return a->ready_at_ms != b->ready_at_ms ? a->ready_at_ms < b->ready_at_ms : a->id < b->id;
}

static struct fake_row *most_urgent(const struct fake_store *store, const struct store_claim *claim) {
    struct fake_row *best = NULL;
    for (int i = 0; i < store->row_count; i++) {
        struct fake_row *row = store->rows[i];
        if (is_claimable(store, row, claim) && (best == NULL || goes_before(row, best, claim->fair))) {
            best = row;
        }
    }
    return best;
}

/* Whether one more of the stage may run. */
static bool has_place(const struct fake_store *store, int stage) {
    int running = 0;
    for (int i = 0; i < store->row_count; i++) {
        running += store->rows[i]->status == FAKE_RUNNING && store->rows[i]->stage == stage;
    }
    return store->max_running[stage] == 0 || running < store->max_running[stage];
}

static bool batch_exists(const struct fake_store *store, int64_t claim) {
    LIST_EACH(link, &store->batches) {
        if (LIST_ENTRY(link, struct fake_batch, link)->claim == claim) {
            return true;
        }
    }
    return false;
}

static struct store_text text_of(struct arena *arena, const char *text) {
    if (text == NULL) {
        return (struct store_text){0};
    }
    return (struct store_text){arena_copy_string(arena, text), strlen(text)};
}

static void take_row(const struct fake_store *store, struct fake_row *row, int64_t node,
                     const struct store_claim *claim, struct arena *arena, struct store_task *task) {
    row->status = FAKE_RUNNING;
    row->claim = claim->claim;
    row->step = 0;
    row->node = node;
    row->claimed_version = row->version;
    int fed_by = row->came_from != 0 && row->came_to == row->stage ? row->came_from : claim->previous_stage;
    const struct fake_output *input = fed_by == 0 ? NULL : fake_row_output(row, fed_by);
    *task = (struct store_task){
        .task = row->id,
        .version = row->version,
        .waited_us = (store_now(store) - row->ready_at_ms) * 1000,
        .attempt = row->attempt,
        .crashes = row->crashes,
        .rescues = row->rescues,
        .superseded = row->superseded,
        .priority = row->priority,
        .key = arena_copy_string(arena, row->key),
        .ready_at = arena_format(arena, "%lld", (long long)row->ready_at_ms),
        .updated_at = arena_format(arena, "u%lld", (long long)row->version),
        .payload = text_of(arena, row->payload),
        .input = input != NULL && input->version == row->version ? text_of(arena, input->value) : (struct store_text){0},
        .has_progress_row = row->progress_stage != 0,
    };
    if (claim->inputs != NULL) {
        task->inputs = sql_inputs(store, row->id, row->claim, claim->inputs, arena);
    }
    if (row->progress_stage == row->stage && row->progress_version == row->version) {
        task->has_progress = true;
        task->progress = row->progress;
        task->progress_text = arena_copy_string(arena, row->progress_text);
    }
}

struct store_claimed sql_claim(struct fake_store *store, int64_t node, int session, const struct store_claim *claim,
                               struct arena *arena) {
    struct store_claimed claimed = {0};
    const struct fake_node *known = store_node(store, node);
    if (known == NULL || known->ended || store->paused[claim->stage] || batch_exists(store, claim->claim)) {
        return claimed;
    }
    if (store->max_running[claim->stage] > 0 && !claim->limited) {
        return claimed;
    }
    struct store_task *tasks = arena_alloc(arena, sizeof *tasks * (size_t)claim->count);
    struct fake_row *row;
    while (claimed.count < claim->count && has_place(store, claim->stage) && (row = most_urgent(store, claim)) != NULL) {
        take_row(store, row, node, claim, arena, &tasks[claimed.count++]);
    }
    claimed.tasks = tasks;
    if (claimed.count > 0) {
        struct fake_batch *batch = mem_alloc(sizeof *batch);
        *batch = (struct fake_batch){.claim = claim->claim, .node = node, .session = session, .count = claimed.count};
        batch->ids = mem_alloc(sizeof *batch->ids * (size_t)claimed.count);
        for (int i = 0; i < claimed.count; i++) {
            batch->ids[i] = tasks[i].task;
        }
        list_append(&store->batches, &batch->link);
    }
    return claimed;
}

bool sql_batch_is_used(const struct fake_store *store, const struct fake_batch *batch) {
    for (int i = 0; i < batch->count; i++) {
        const struct fake_row *row = store_row_by_id(store, batch->ids[i]);
        if (row->status == FAKE_RUNNING && row->claim == batch->claim) {
            return true;
        }
    }
    return false;
}

void sql_remove_batch(struct fake_batch *batch) {
    list_remove(&batch->link);
    free(batch->ids);
    free(batch);
}

void sql_drop_claims(struct fake_store *store, int64_t node, int count, const int64_t *claims) {
    LIST_EACH_SAFE(link, after, &store->batches) {
        struct fake_batch *batch = LIST_ENTRY(link, struct fake_batch, link);
        bool named = false;
        for (int i = 0; i < count; i++) {
            named = named || claims[i] == batch->claim;
        }
        if (named && batch->node == node && !sql_batch_is_used(store, batch)) {
            sql_remove_batch(batch);
        }
    }
}

void sql_add_stats(struct fake_store *store, const struct store_tick *tick) {
    struct fake_node *node = store_node(store, tick->stat_node);
    if (tick->stat_count == 0 || node == NULL || tick->stat_seq <= node->stat_seq) {
        return;
    }
    struct fake_stats *all = &store->stats;
    int64_t since_ms = store_now(store) - all->last_ms;
    all->shortest_ms = all->ticks == 1 || (all->ticks > 1 && since_ms < all->shortest_ms) ? since_ms : all->shortest_ms;
    all->last_ms = store_now(store);
    all->ticks++;
    node->stat_seq = tick->stat_seq;
    for (int i = 0; i < tick->stat_count; i++) {
        const struct store_stat *stat = &tick->stats[i];
        all->runs += stat->runs;
        all->failed += stat->failed;
        all->run_us += stat->run_us;
        all->waits += stat->waits;
        all->wait_us += stat->wait_us;
        for (int b = 0; b < STORE_BUCKETS; b++) {
            all->in_buckets += stat->run_buckets[b] + stat->wait_buckets[b];
        }
    }
}

int sql_told(const struct fake_store *store, int count, const struct store_hold *holds, struct store_told *told) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        const struct fake_row *row = store_row_by_id(store, holds[i].task);
        bool newer = row->version != row->claimed_version;
        if (row->status == FAKE_RUNNING && row->claim == holds[i].claim && (newer || row->wish)) {
            told[found++] = (struct store_told){row->id, row->claim, newer, row->wish};
        }
    }
    return found;
}

/* ---- release, rescue, stage --------------------------------------------------------------------------------------- */

static void release(struct fake_store *store, struct fake_row *row, bool rescue) {
    struct leaving leaving = {.want = rescue && row->rescues >= 9 ? FAKE_FAILED : FAKE_READY, .want_stage = row->stage};
    leave(store, row, &leaving);
    row->all_releases++;
    if (leaving.afresh) {
        forget_counters(row);
    } else if (rescue) {
        row->rescues++;
    }
    if (row->status == FAKE_READY && (rescue || leaving.afresh)) {
        row->ready_at_ms = store_now(store);
    }
}

static bool holds_claim(int count, const struct store_hold *holds, int64_t claim, int64_t task) {
    for (int i = 0; i < count; i++) {
        if (holds[i].claim == claim && (task == 0 || holds[i].task == task)) {
            return true;
        }
    }
    return false;
}

int sql_release_unknown(struct fake_store *store, int64_t node, int session, int count, const struct store_hold *holds) {
    int released = 0;
    LIST_EACH_SAFE(link, after, &store->batches) {
        struct fake_batch *batch = LIST_ENTRY(link, struct fake_batch, link);
        if (batch->node != node || batch->session > session) {
            continue;
        }
        for (int i = 0; i < batch->count; i++) {
            struct fake_row *row = store_row_by_id(store, batch->ids[i]);
            if (row->status == FAKE_RUNNING && row->claim == batch->claim && row->node == node &&
                !store_is_locked(store, row) && !holds_claim(count, holds, batch->claim, row->id)) {
                release(store, row, false);
                released++;
            }
        }
        if (!holds_claim(count, holds, batch->claim, 0) && !sql_batch_is_used(store, batch)) {
            sql_remove_batch(batch);
        }
    }
    return released;
}

int sql_stage_due(struct fake_store *store) {
    int staged = 0;
    for (int i = 0; i < store->row_count; i++) {
        struct fake_row *row = store->rows[i];
        if (row->status == FAKE_DELAYED && row->due_at_ms <= store_now(store) && !store_is_locked(store, row)) {
            row->status = FAKE_READY;
            row->ready_at_ms = row->due_at_ms;
            staged++;
            store_wake(store, row->stage);
        }
    }
    return staged;
}

void sql_end_leases(struct fake_store *store) {
    for (int i = 0; i < store->node_count; i++) {
        if (store->nodes[i].lease_until_ms <= store_now(store)) {
            store->nodes[i].ended = true;
        }
    }
}

int sql_rescue(struct fake_store *store) {
    int rescued = 0;
    LIST_EACH_SAFE(link, after, &store->batches) {
        struct fake_batch *batch = LIST_ENTRY(link, struct fake_batch, link);
        const struct fake_node *node = store_node(store, batch->node);
        if (node != NULL && !node->ended) {
            continue;
        }
        for (int i = 0; i < batch->count; i++) {
            struct fake_row *row = store_row_by_id(store, batch->ids[i]);
            if (row->status == FAKE_RUNNING && row->claim == batch->claim && !store_is_locked(store, row)) {
                release(store, row, true);
                store_wake(store, row->stage);
                rescued++;
            }
        }
        /* forget_nodes.sql */
        if (!sql_batch_is_used(store, batch)) {
            sql_remove_batch(batch);
        }
    }
    return rescued;
}

void sql_node_end(struct fake_store *store, int64_t node) {
    LIST_EACH_SAFE(link, after, &store->batches) {
        struct fake_batch *batch = LIST_ENTRY(link, struct fake_batch, link);
        if (batch->node == node && !sql_batch_is_used(store, batch)) {
            sql_remove_batch(batch);
        }
    }
    struct fake_node *known = store_node(store, node);
    if (known != NULL) {
        known->ended = true;
    }
}
