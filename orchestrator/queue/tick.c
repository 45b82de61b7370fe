/* tick.c - completions, claims and news of a node in one transaction and one round trip.
 *
 * Statements in order: lock_pipelines, keep_progress, complete, a claim each, inputs,
 * claimed_progress, drop_claims, add_stats, told. Progress comes before the completion that may end
 * its claim. Completions come before claims, so that what they make ready can be claimed;
 * drop_claims sees what has left; told sees what was superseded meanwhile.
 */
#include "queue/tick.h"

#include <string.h>

#include "base/memory.h"
#include "db/array.h"
#include "queue/queue_private.h"

static void on_answered(struct call *call, const struct db_reply *reply);
static void on_probed(struct call *call, const struct db_reply *reply);

void tick_init(struct tick_call *tick, struct channel *channel) {
    *tick = (struct tick_call){.channel = channel};
    call_init(&tick->call, 1, on_answered);
    call_init(&tick->probe, 1, on_probed);
}

void tick_finish(struct tick_call *tick) {
    call_finish(&tick->call);
    call_finish(&tick->probe);
    arena_finish(&tick->arena);
}

bool tick_ready(void *context) {
    const struct queue *queue = context;
    return queue->tick.state == TICK_IDLE && !queue->release.active && !queue->end.active &&
           channel_is_free(&queue->ledger);
}

/* ---- the request ---- */

static void add_pipeline_locks(struct script *script, const struct store_tick *request) {
    if (request->chain_count + request->claim_count == 0) {
        return;
    }
    struct db_param *params = script_add(script, &sql_lock_pipelines, 1);
    array_begin(&script->literal);
    int last =
        -1; /* most often all are of one pipeline; the statement takes out what is repeated */
    for (int i = 0; i < request->chain_count; i++) {
        if (request->chains[i].pipeline != last) {
            last = request->chains[i].pipeline;
            array_add_int(&script->literal, last);
        }
    }
    for (int i = 0; i < request->claim_count; i++) {
        if (request->claims[i].pipeline != last) {
            last = request->claims[i].pipeline;
            array_add_int(&script->literal, last);
        }
    }
    params[0] = script_take_array(script);
}

static enum status add_chains(struct tick_call *tick, const struct store_tick *request,
                              struct error *err) {
    struct chain_list *list = &tick->chains;
    *list = (struct chain_list){.count = request->chain_count};
    tick->outputs = (struct chain_outputs){0};
    if (list->count == 0) {
        return STATUS_OK;
    }
    list->refs = arena_alloc(&tick->arena, (size_t)list->count * sizeof *list->refs);
    for (int i = 0; i < list->count; i++) {
        /* The verdicts need the task alone, so the rest of a chain may stay borrowed; see
         * keep_chains. */
        list->refs[i] = (struct chain_ref){.chain = &request->chains[i], .index = i};
    }
    enum status code = chains_sort(list, err);
    if (code == STATUS_OK) {
        tick->complete_at = tick->call.script.count;
        chains_add_complete(&tick->call.script, list, &tick->outputs);
    }
    return code;
}

/* The request is borrowed for the call: from here on the list points at what the answer needs of
 * it. */
static void keep_chains(struct tick_call *tick) {
    struct chain_list *list = &tick->chains;
    for (int i = 0; i < list->count; i++) {
        struct store_chain *kept = arena_alloc(&tick->arena, sizeof *kept);
        kept->task = list->refs[i].chain->task;
        kept->claim = list->refs[i].chain->claim;
        list->refs[i].chain = kept;
    }
}

static void add_claims(struct tick_call *tick, const struct store_tick *request) {
    struct script *script = &tick->call.script;
    tick->claims_at = script->count;
    tick->claim_count = request->claim_count;
    for (int i = 0; i < request->claim_count; i++) {
        const struct store_claim *claim = &request->claims[i];
        bool special = claim->fair || claim->limited;
        struct db_param *params = special ? script_add(script, &sql_claim_some, 8)
                                          : script_add(script, &sql_claim, 7);
        params[0] = script_int(script, claim->stage);
        params[1] = script_int(script, claim->count);
        params[2] = script_int(script, claim->claim);
        params[3] = script_int(script, request->node);
        if (!claim->from_front && claim->from_ready_at != NULL) {
            params[4] = script_int(script, claim->from_priority);
            params[5] = script_text(script, claim->from_ready_at);
        }
        if (claim->previous_stage != 0) {
            params[6] = script_int(script, claim->previous_stage);
        }
        if (special) {
            params[7] = script_text(script, claim->fair ? "t" : "f");
        }
    }
}

static void add_progress(struct tick_call *tick, const struct store_tick *request) {
    tick->progress_count = request->progress_count;
    if (request->progress_count > 0) {
        tick->keep_at = tick->call.script.count;
        tick->progress_tasks =
            progress_add_kept(&tick->call.script, &tick->arena, request->progress_count, request->progress);
    }
}

/* What claimed and held tasks need of what happened before. */
static void add_past(struct tick_call *tick, const struct store_tick *request) {
    struct script *script = &tick->call.script;
    tick->fetch_count = request->fetch_count;
    tick->wanted = inputs_keep(&tick->arena, request);
    int at = script->count;
    if (inputs_add(script, tick->claim_count + tick->fetch_count, tick->wanted)) {
        tick->inputs_at = at;
    }
    if (request->claim_count > 0) {
        tick->progress_at = script->count;
        progress_add_claimed(script, request->claim_count, request->claims);
    }
}

static void add_rest(struct tick_call *tick, const struct store_tick *request) {
    struct script *script = &tick->call.script;
    if (request->drop_count > 0) {
        struct db_param *params = script_add(script, &sql_drop_claims, 2);
        params[0] = script_int(script, request->node);
        params[1] = script_bigints(script, request->drops, request->drop_count);
    }
    if (request->stat_count > 0) {
        stats_add(script, request);
    }
    if (request->hold_count > 0) {
        tick->told_at = script->count;
        struct db_param *params = script_add(script, &sql_told, 2);
        params[0] = queue_hold_tasks(script, request->hold_count, request->holds);
        params[1] = queue_hold_claims(script, request->hold_count, request->holds);
    }
}

enum status tick_send(void *context, const struct store_tick *request,
                      void (*done)(void *, const struct store_tick_answer *), void *done_context,
                      struct error *err) {
    struct queue *queue = context;
    struct tick_call *tick = &queue->tick;
    if (!tick_ready(context)) {
        return error_set(err, STATUS_AGAIN, "the ledger connection takes no tick now");
    }
    struct script *script = &tick->call.script;
    script_clear(script);
    arena_finish(&tick->arena);
    tick->complete_at = tick->claims_at = tick->told_at = -1;
    tick->keep_at = tick->inputs_at = tick->progress_at = -1;
    tick->claim_count = 0;
    add_pipeline_locks(script, request);
    add_progress(tick, request);
    enum status code = add_chains(tick, request, err);
    if (code != STATUS_OK) {
        return code;
    }
    add_claims(tick, request);
    add_past(tick, request);
    add_rest(tick, request);
    if (script->count == 0) {
        return error_set(err, STATUS_INVALID, "an empty tick");
    }
    script->transaction = script->count > 1;
    keep_chains(tick);
    code = channel_post(tick->channel, &tick->call, err);
    if (code == STATUS_OK) {
        tick->state = TICK_WRITING;
        tick->done = done;
        tick->done_context = done_context;
    }
    return code;
}

/* ---- the answer ---- */

/* The receiver may send the next tick at once, while it still reads this answer. */
static void answer(struct tick_call *tick, const struct store_tick_answer *answer) {
    struct arena arena = tick->arena;
    tick->arena = (struct arena){0};
    tick->state = TICK_IDLE;
    tick->done(tick->done_context, answer);
    arena_finish(&arena);
}

static void answer_failure(struct tick_call *tick, enum status code, const struct error *why,
                           int bad_chain) {
    struct store_tick_answer failure = {.code = code, .error = *why, .bad_chain = bad_chain};
    failure.error.code = code;
    answer(tick, &failure);
}

static struct store_text text_of(const struct db_result *result, int row, int column) {
    if (db_is_null(result, row, column)) {
        return (struct store_text){0};
    }
    return (struct store_text){.data = db_value(result, row, column),
                               .length = db_length(result, row, column)};
}

static void add_inputs(struct tick_call *tick, const struct db_reply *reply, int claim, int count,
                       struct store_task *tasks) {
    const struct store_inputs *inputs = &tick->wanted[claim].inputs;
    for (int i = 0; i < count && inputs->count > 0; i++) {
        tasks[i].inputs = inputs_read(&tick->arena, reply->results[tick->inputs_at], tasks[i].task, inputs);
    }
}

static struct store_claimed read_claimed(struct tick_call *tick, const struct db_reply *reply,
                                         int claim) {
    struct arena *arena = &tick->arena;
    const struct db_result *result = reply->results[tick->claims_at + claim];
    enum {
        ID,
        VERSION,
        KEY,
        PAYLOAD,
        INPUT,
        PRIORITY,
        READY_AT,
        ATTEMPT,
        CRASHES,
        RESCUES,
        SUPERSEDED,
        UPDATED_AT,
        WAITED_US
    };
    int count = db_rows(result);
    if (count == 0 || db_is_null(result, 0, ID)) {
        return (struct store_claimed){.busy = count > 0};
    }
    struct store_task *tasks = arena_alloc(arena, (size_t)count * sizeof *tasks);
    for (int row = 0; row < count; row++) {
        tasks[row] = (struct store_task){
            .task = db_int64(result, row, ID),
            .version = db_int64(result, row, VERSION),
            .waited_us = db_int64(result, row, WAITED_US),
            .attempt = (int)db_int64(result, row, ATTEMPT),
            .crashes = (int)db_int64(result, row, CRASHES),
            .rescues = (int)db_int64(result, row, RESCUES),
            .superseded = (int)db_int64(result, row, SUPERSEDED),
            .priority = (int)db_int64(result, row, PRIORITY),
            .key = db_value(result, row, KEY),
            .ready_at = db_value(result, row, READY_AT),
            .updated_at = db_value(result, row, UPDATED_AT),
            .payload = text_of(result, row, PAYLOAD),
            .input = text_of(result, row, INPUT),
        };
    }
    add_inputs(tick, reply, claim, count, tasks);
    progress_read_claimed(reply->results[tick->progress_at], count, tasks);
    return (struct store_claimed){.count = count, .tasks = tasks};
}

static const struct store_text *read_fetched(struct tick_call *tick, const struct db_reply *reply) {
    struct store_text *fetched = arena_alloc(&tick->arena, (size_t)(tick->fetch_count + 1) * sizeof *fetched);
    for (int i = 0; i < tick->fetch_count && tick->inputs_at >= 0; i++) {
        const struct inputs_wanted *wanted = &tick->wanted[tick->claim_count + i];
        fetched[i] = inputs_read(&tick->arena, reply->results[tick->inputs_at], wanted->task, &wanted->inputs);
    }
    return fetched;
}

static int read_told(struct arena *arena, const struct db_result *result,
                     const struct store_told **told) {
    enum { TASK, CLAIM, SUPERSEDED, CANCELLED };
    int count = db_rows(result);
    struct store_told *list = arena_alloc(arena, (size_t)(count + 1) * sizeof *list);
    for (int row = 0; row < count; row++) {
        list[row] = (struct store_told){
            .task = db_int64(result, row, TASK),
            .claim = db_int64(result, row, CLAIM),
            .superseded = db_bool(result, row, SUPERSEDED),
            .cancelled = db_bool(result, row, CANCELLED),
        };
    }
    *told = list;
    return count;
}

static void answer_success(struct tick_call *tick, const struct db_reply *reply) {
    struct store_tick_answer success = {.code = STATUS_OK, .bad_chain = -1};
    struct arena *arena = &tick->arena;
    if (tick->complete_at >= 0) {
        struct store_verdict *verdicts =
            arena_alloc(arena, (size_t)tick->chains.count * sizeof *verdicts);
        enum status code = chains_read_verdicts(&tick->chains, reply->results[tick->complete_at],
                                                verdicts, &success.error);
        if (code != STATUS_OK) {
            /* It is committed, and not understood: sending it again gives the verdicts once more.
             */
            answer_failure(tick, STATUS_UNCERTAIN, &success.error, -1);
            return;
        }
        success.verdicts = verdicts;
    }
    if (tick->claim_count > 0) {
        struct store_claimed *claimed =
            arena_alloc(arena, (size_t)tick->claim_count * sizeof *claimed);
        for (int i = 0; i < tick->claim_count; i++) {
            claimed[i] = read_claimed(tick, reply, i);
        }
        success.claimed = claimed;
    }
    success.fetched = read_fetched(tick, reply);
    if (tick->keep_at >= 0) {
        success.kept = progress_read_kept(arena, reply->results[tick->keep_at],
                                          tick->progress_count, tick->progress_tasks);
    }
    if (tick->told_at >= 0) {
        success.told_count = read_told(arena, reply->results[tick->told_at], &success.told);
    }
    answer(tick, &success);
}

/* ---- which output is refused ---- */

/* 22, 23 and 54: the data is at fault. Anything else that does not pass by itself is a fault of the
 * schema or our own. */
static bool is_content_error(const char *sqlstate) {
    return strncmp(sqlstate, "22", 2) == 0 || strncmp(sqlstate, "23", 2) == 0 ||
           strncmp(sqlstate, "54", 2) == 0;
}

static void answer_refused(struct tick_call *tick, int bad_chain) {
    answer_failure(tick, STATUS_INVALID, &tick->refusal, bad_chain);
}

/* Halves the range that holds a refused output, then proves that the last one is refused alone. */
static void probe_next(struct tick_call *tick) {
    int count = tick->probe_high - tick->probe_low;
    if (count == 0) {
        answer_refused(tick, tick->chains.count == 1 ? 0 : -1);
        return;
    }
    tick->probe_end = count == 1 ? tick->probe_high : tick->probe_low + count / 2;
    const struct chain_outputs *outputs = &tick->outputs;
    size_t start = outputs->items[tick->probe_low].start;
    size_t end = outputs->items[tick->probe_end - 1].end;
    struct script *script = &tick->probe.script;
    script_clear(script);
    struct db_param *params = script_add(script, &sql_check_outputs, 1);
    buf_append_char(&script->literal, '{');
    buf_append(&script->literal, outputs->literal + start, end - start);
    params[0] = script_take_array(script);
    struct error err = ERROR_NONE;
    tick->state = TICK_PROBING;
    if (channel_post(tick->channel, &tick->probe, &err) != STATUS_OK) {
        answer_failure(tick, STATUS_UNAVAILABLE, &err, -1);
    }
}

static void on_probed(struct call *call, const struct db_reply *reply) {
    struct tick_call *tick = LIST_ENTRY(call, struct tick_call, probe);
    bool alone = tick->probe_end - tick->probe_low == 1 && tick->probe_high == tick->probe_end;
    if (reply->code == STATUS_INVALID) {
        tick->refusal = reply->error;
        if (alone) {
            answer_refused(tick, tick->outputs.items[tick->probe_low].index);
            return;
        }
        tick->probe_high = tick->probe_end;
    } else if (reply->code == STATUS_OK) {
        tick->probe_low = tick->probe_end;
    } else {
        /* Only the tick could have written, and it was rolled back. */
        answer_failure(tick, STATUS_UNAVAILABLE, &reply->error, -1);
        return;
    }
    probe_next(tick);
}

static void on_answered(struct call *call, const struct db_reply *reply) {
    struct tick_call *tick = LIST_ENTRY(call, struct tick_call, call);
    if (reply->code == STATUS_OK) {
        answer_success(tick, reply);
    } else if (reply->code != STATUS_INVALID) {
        answer_failure(tick, reply->code, &reply->error, -1);
    } else if (reply->failed >= 0 && reply->failed == tick->complete_at &&
               is_content_error(reply->error.sqlstate)) {
        tick->refusal = reply->error;
        tick->probe_low = 0;
        tick->probe_high = tick->outputs.count;
        probe_next(tick);
    } else if (strcmp(reply->error.sqlstate, "23505") == 0) {
        /* A claim that an old backend is writing at the same time: it is known when this is sent
         * again. */
        answer_failure(tick, STATUS_CONFLICT, &reply->error, -1);
    } else {
        answer_failure(tick, STATUS_INTERNAL, &reply->error, -1);
    }
}
