/* effects.c - a lane: one effect transaction at a time on a connection of its own.
 *
 * First look_at_fences, alone and without a lock: chains whose claim is lost are dropped, those
 * that an earlier sending has committed are known. Then one transaction: the time-outs and the
 * role, the user's statements (behind those of each task its settings are undone), our own role again, the lock of the pipelines (late, so that an
 * `apply` does not wait for a slow statement with every tick behind it), hold_fences, complete,
 * require_steps, COMMIT. What raises P0F01 in it is answered CONFLICT: sent again, the look finds
 * out more.
 */
#include "queue/effects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "db/array.h"
#include "queue/queue_private.h"

/* An effect whose node is frozen in mid-sending must not hold its locks for ever. */
enum { IDLE_TRANSACTION_MS = 60000 };

/* ---- answers ---- */

static void answer(struct lane *lane, const struct store_effects_answer *answer) {
    struct arena arena = lane->arena;
    lane->arena = (struct arena){0};
    lane->state = LANE_IDLE;
    lane->done(lane->done_context, answer);
    arena_finish(&arena);
}

static void answer_success(struct lane *lane) {
    struct store_effects_answer success = {
        .code = STATUS_OK, .at_fault = -1, .verdicts = lane->verdicts};
    answer(lane, &success);
}

static void answer_failure(struct lane *lane, enum status code, const struct error *why,
                           int at_fault) {
    if (at_fault < 0 && lane->held.count == 1 &&
        (code == STATUS_INVALID || code == STATUS_TIMEOUT)) {
        at_fault = lane->held.refs[0].index;
    }
    struct store_effects_answer failure = {.code = code, .error = *why, .at_fault = at_fault};
    failure.error.code = code;
    answer(lane, &failure);
}

/* What the failure of one of our own statements means; the user's SQL had passed by then. */
static enum status own_failure(const struct lane *lane, const struct db_reply *reply) {
    const char *sqlstate = reply->error.sqlstate;
    if (reply->code == STATUS_TIMEOUT) {
        return STATUS_CONFLICT; /* a row or pipeline is locked by somebody else for long */
    }
    if (reply->code != STATUS_INVALID) {
        return reply->code;
    }
    if (reply->failed < lane->first_own) {
        return STATUS_INVALID; /* there is no such role */
    }
    if (reply->failed == lane->hold_at && strcmp(sqlstate, "2D000") == 0) {
        return STATUS_INVALID; /* a statement was COMMIT or the like */
    }
    if (reply->failed == lane->complete_at &&
        (strncmp(sqlstate, "22", 2) == 0 || strncmp(sqlstate, "23", 2) == 0 ||
         strncmp(sqlstate, "54", 2) == 0)) {
        return STATUS_INVALID; /* an output that jsonb refuses */
    }
    return STATUS_INTERNAL;
}

static void take_write_failure(struct lane *lane, const struct db_reply *reply) {
    int failed = reply->failed;
    if (failed >= lane->first_own && failed < lane->end_at) {
        /* A limit set for temporary files or the like is the statement's fault, not the server's.
         */
        bool configured_limit = strcmp(reply->error.sqlstate, "53400") == 0;
        answer_failure(lane, configured_limit ? STATUS_INVALID : reply->code, &reply->error,
                       lane->owners[failed - lane->first_own]);
    } else if (failed < 0 || failed == lane->call.script.count) {
        answer_failure(lane, reply->code, &reply->error, -1); /* the connection, or at COMMIT */
    } else {
        answer_failure(lane, own_failure(lane, reply), &reply->error, -1);
    }
}

/* ---- the transaction ---- */

static void add_begin(struct lane *lane) {
    struct script *script = &lane->call.script;
    struct db_param *begin = script_add(script, &sql_effect_begin, 3);
    begin[0] = script_int(script, lane->timeout_ms);
    begin[1] = script_int(script, IDLE_TRANSACTION_MS);
    begin[2] = script_text(script, lane->db_role);
}

/* Its statements, and what keeps their settings from those of others and from ours. */
static void add_statements_of(struct lane *lane, int index) {
    struct script *script = &lane->call.script;
    const struct store_effect *effect = &lane->effects[index];
    int first = script->count;
    for (int k = 0; k < effect->statement_count; k++) {
        const struct store_statement *own = &effect->statements[k];
        struct db_param *params = script_add_text(script, own->text, own->param_count);
        for (int p = 0; p < own->param_count; p++) {
            params[p] = script_bytes(script, own->params[p].data, own->params[p].length);
        }
    }
    if (effect->statement_count > 0) {
        effects_add_undo(script);
        add_begin(lane);
    }
    for (int at = first; at < script->count; at++) {
        lane->owners[at - lane->first_own] = index;
    }
}

/* Returns how many of them are the user's. */
static int add_own_statements(struct lane *lane) {
    struct script *script = &lane->call.script;
    int total = 0;
    for (int i = 0; i < lane->held.count; i++) {
        total += lane->effects[lane->held.refs[i].index].statement_count;
    }
    size_t most = (size_t)total + (size_t)lane->held.count * (EFFECTS_UNDO_MAX + 1) + 1;
    lane->first_own = script->count;
    lane->owners = arena_alloc(&lane->arena, most * sizeof *lane->owners);
    /* In the order of the request: the user's SQL may depend on it. */
    for (int i = 0; i < lane->count; i++) {
        const struct store_effect_verdict *verdict = &lane->verdicts[i];
        bool known = verdict->verdict.answer == STORE_APPLIED || verdict->verdict.answer == STORE_ACCEPTED;
        if (!verdict->dropped && !known) {
            add_statements_of(lane, i);
        }
    }
    lane->end_at = script->count;
    return total;
}

static void add_pipeline_locks(struct lane *lane) {
    struct script *script = &lane->call.script;
    struct db_param *params = script_add(script, &sql_lock_pipelines, 1);
    array_begin(&script->literal);
    for (int i = 0; i < lane->held.count; i++) {
        array_add_int(&script->literal, lane->held.refs[i].chain->pipeline);
    }
    params[0] = script_take_array(script);
}

/* True when the answer has been given: one of the statements that are held cannot be sent at all.
 */
static bool refuse_statements(struct lane *lane) {
    for (int i = 0; i < lane->held.count; i++) {
        int index = lane->held.refs[i].index;
        const struct store_effect *effect = &lane->effects[index];
        for (int k = 0; k < effect->statement_count; k++) {
            const char *why = effects_refusal(effect->statements[k].text);
            if (why != NULL) {
                struct error err = ERROR_NONE;
                error_set(&err, STATUS_INVALID, "%s", why);
                answer_failure(lane, STATUS_INVALID, &err, index);
                return true;
            }
        }
    }
    return false;
}

static void write_effects(struct lane *lane) {
    struct script *script = &lane->call.script;
    if (refuse_statements(lane)) {
        return;
    }
    script_clear(script);
    script->transaction = true;
    add_begin(lane);
    int own_count = add_own_statements(lane);
    struct db_param *end = script_add(script, &sql_effect_end, 1);
    end[0] = script_int(script, lane->queue->request_timeout_ms);
    add_pipeline_locks(lane);
    lane->hold_at = script->count;
    chains_add_hold(script, &lane->held);
    lane->complete_at = script->count;
    chains_add_complete(script, &lane->held, NULL);
    chains_add_require(script, &lane->held);
    int64_t own_ms = lane->timeout_ms * own_count;
    lane->call.limit_ms = lane->timeout_ms > 0 ? own_ms + 2 * lane->queue->request_timeout_ms : 0;
    lane->state = LANE_WRITING;
    struct error err = ERROR_NONE;
    enum status code = channel_post(&lane->channel, &lane->call, &err);
    if (code != STATUS_OK) {
        answer_failure(lane, code == STATUS_LIMIT ? STATUS_INVALID : code, &err, -1);
    }
}

static void take_written(struct lane *lane, const struct db_reply *reply) {
    if (reply->code != STATUS_OK) {
        take_write_failure(lane, reply);
        return;
    }
    struct store_verdict *verdicts =
        arena_alloc(&lane->arena, (size_t)lane->count * sizeof *verdicts);
    struct error err = ERROR_NONE;
    if (chains_read_verdicts(&lane->held, reply->results[lane->complete_at], verdicts, &err) !=
        STATUS_OK) {
        answer_failure(lane, STATUS_UNCERTAIN, &err, -1);
        return;
    }
    for (int i = 0; i < lane->held.count; i++) {
        int index = lane->held.refs[i].index;
        lane->verdicts[index].verdict = verdicts[index];
    }
    answer_success(lane);
}

/* ---- the look ---- */

static void take_fence(struct lane *lane, const struct chain_ref *ref,
                       const struct db_result *result, int row) {
    enum { TASK, STATE, STEP, STAGE, STATUS };
    struct store_effect_verdict *verdict = &lane->verdicts[ref->index];
    const char *state = db_value(result, row, STATE);
    bool running = strcmp(db_value(result, row, STATUS), "running") == 0;
    verdict->verdict = (struct store_verdict){.answer = STORE_REFUSED,
                                              .step = (int)db_int64(result, row, STEP),
                                              .stage = (int)db_int64(result, row, STAGE),
                                              .failed = strcmp(db_value(result, row, STATUS), "failed") == 0};
    if (strcmp(state, "held") == 0) {
        lane->held.refs[lane->held.count++] = *ref;
    } else if (strcmp(state, "applied") == 0) {
        /* As complete answers it: what goes on under the claim is accepted anew, what has left was
         * applied before. */
        verdict->verdict.answer = running ? STORE_ACCEPTED : STORE_APPLIED;
        verdict->verdict.running = running;
        verdict->verdict.done = strcmp(db_value(result, row, STATUS), "done") == 0;
    } else {
        verdict->dropped = true;
    }
}

static void take_look(struct lane *lane, const struct db_reply *reply) {
    if (reply->code != STATUS_OK) {
        /* Nothing has been written, whatever became of the look. */
        enum status code = reply->code == STATUS_INVALID ? STATUS_INTERNAL : STATUS_UNAVAILABLE;
        answer_failure(lane, code, &reply->error, -1);
        return;
    }
    const struct db_result *result = reply->results[0];
    if (db_rows(result) != lane->all.count) {
        struct error err = ERROR_NONE;
        error_set(&err, STATUS_INTERNAL, "look_at_fences: %d rows for %d chains", db_rows(result),
                  lane->all.count);
        answer_failure(lane, STATUS_INTERNAL, &err, -1);
        return;
    }
    for (int row = 0; row < lane->all.count; row++) {
        take_fence(lane, &lane->all.refs[row], result, row);
    }
    if (lane->held.count == 0) {
        answer_success(lane);
    } else {
        write_effects(lane);
    }
}

static void on_answered(struct call *call, const struct db_reply *reply) {
    struct lane *lane = LIST_ENTRY(call, struct lane, call);
    if (lane->state == LANE_LOOKING) {
        take_look(lane, reply);
    } else {
        take_written(lane, reply);
    }
}

/* ---- lanes ---- */

static void on_up(struct channel *channel) {
    (void)channel; /* its waiting call is sent by the channel */
}

static void on_notified(struct channel *channel) {
    (void)channel;
}

static void on_closed(struct channel *channel) {
    struct lane *lane = channel->context;
    queue_channel_closed(lane->queue);
}

static const struct channel_events lane_events = {
    .up = on_up, .notified = on_notified, .closed = on_closed};

static enum status open_lane(struct queue *queue, int index, struct error *err) {
    struct lane *lane = mem_alloc(sizeof *lane);
    lane->queue = queue;
    snprintf(lane->role, sizeof lane->role, "effect %d", index + 1);
    enum status code =
        queue_open_channel(queue, &lane->channel, lane->role, &lane_events, lane, err);
    if (code != STATUS_OK) {
        free(lane);
        return code;
    }
    call_init(&lane->call, 0, on_answered);
    queue->lanes[index] = lane;
    return STATUS_OK;
}

void effects_lane_finish(struct lane *lane) {
    if (lane != NULL) {
        call_finish(&lane->call);
        arena_finish(&lane->arena);
        free(lane);
    }
}

bool effects_lane_ready(void *context, int lane) {
    const struct queue *queue = context;
    if (queue->closing || lane < 0 || lane >= queue->lane_count) {
        return false;
    }
    return queue->lanes[lane] == NULL || (queue->lanes[lane]->state == LANE_IDLE &&
                                          channel_is_free(&queue->lanes[lane]->channel));
}

/* ---- the request ---- */

static enum status check_effects(const struct store_effects *request, struct error *err) {
    if (request->count < 1) {
        return error_set(err, STATUS_INVALID, "no effects");
    }
    for (int i = 0; i < request->count; i++) {
        const struct store_chain *chain = &request->effects[i].chain;
        bool ends_well = chain->ending == STORE_NEXT || chain->ending == STORE_STAY ||
                         chain->ending == STORE_KEEP || chain->ending == STORE_ROUTE ||
                         chain->ending == STORE_FINISH;
        if (chain->count < 1 || !ends_well) {
            return error_set(err, STATUS_INVALID, "effect %d completes no transition", i);
        }
    }
    return STATUS_OK;
}

static enum status keep_request(struct lane *lane, const struct store_effects *request,
                                struct error *err) {
    struct arena *arena = &lane->arena;
    size_t count = (size_t)request->count;
    lane->count = request->count;
    lane->effects = effects_copy(arena, request->count, request->effects);
    lane->timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : 0;
    lane->db_role = arena_copy_string(arena, request->role);
    lane->verdicts = arena_alloc(arena, count * sizeof *lane->verdicts);
    lane->held = (struct chain_list){.refs = arena_alloc(arena, count * sizeof *lane->held.refs)};
    lane->all = (struct chain_list){.count = request->count,
                                    .refs = arena_alloc(arena, count * sizeof *lane->all.refs)};
    for (int i = 0; i < request->count; i++) {
        lane->all.refs[i] = (struct chain_ref){.chain = &lane->effects[i].chain, .index = i};
    }
    return chains_sort(&lane->all, err);
}

enum status effects_send(void *context, int index, const struct store_effects *request,
                         void (*done)(void *, const struct store_effects_answer *),
                         void *done_context, struct error *err) {
    struct queue *queue = context;
    if (index < 0 || index >= queue->lane_count) {
        return error_set(err, STATUS_INVALID, "there is no effect lane %d", index);
    }
    enum status code = check_effects(request, err);
    if (code == STATUS_OK && queue->closing) {
        code = error_set(err, STATUS_UNAVAILABLE, "the queue is closing");
    }
    if (code == STATUS_OK && queue->lanes[index] == NULL) {
        code = open_lane(queue, index, err);
    }
    if (code != STATUS_OK) {
        return code;
    }
    struct lane *lane = queue->lanes[index];
    if (lane->state != LANE_IDLE) {
        return error_set(err, STATUS_AGAIN, "effect lane %d is busy", index);
    }
    code = keep_request(lane, request, err);
    if (code == STATUS_OK) {
        script_clear(&lane->call.script);
        chains_add_look(&lane->call.script, &lane->all);
        lane->call.limit_ms = queue->request_timeout_ms;
        code = channel_post(&lane->channel, &lane->call, err);
    }
    if (code != STATUS_OK) {
        arena_finish(&lane->arena);
        return code;
    }
    lane->state = LANE_LOOKING;
    lane->done = done;
    lane->done_context = done_context;
    return STATUS_OK;
}
