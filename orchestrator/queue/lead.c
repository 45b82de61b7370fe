/* lead.c - the leader's duties, and the rescue of what dead peers held: long work in small
 * transactions.
 *
 *   TAKE -> STAGE (again while full) -> PERIODS (again while full) -> [END_LEASES -> RESCUE (again
 * while full) -> FORGET] -> [MOVE_STRANDED (again while full) -> FOLD_COUNTS -> FOLD_STATS ->
 * FOLD_HOURS (again while there are)] -> [PRUNE (a few times while there is more)]
 *
 * Every step's effect is fenced by its own statement, so a leader that has lost its term in the
 * middle does no harm. A step that is repeated too often is left to the next call, so that the
 * leadership is renewed in time.
 */
#include "db/array.h"
#include "queue/queue_private.h"

enum { STAGE_BATCH = 1000, PERIOD_BATCH = 500, RESCUE_BATCH = 500, MOVE_BATCH = 500, BATCHES_MAX = 20 };
enum { PRUNE_BATCH = 500, PRUNE_BATCHES = 4 };

/* One batch of a statement that moves tasks: no `apply` meanwhile. */
static void add_batch(struct script *script, const struct sql_statement *statement, int at_most) {
    script->transaction = true;
    script_add(script, &sql_lock_all_pipelines, 0);
    struct db_param *params = script_add(script, statement, 1);
    params[0] = script_int(script, at_most);
}

/* ---- lead ---- */

static void lead_answer(struct lead_call *lead) {
    struct store_lead_answer answer = lead->answer;
    lead->active = false;
    lead->done(lead->done_context, &answer);
}

static void build_step(struct lead_call *lead) {
    struct script *script = &lead->call.script;
    struct db_param *params = NULL;
    script_clear(script);
    switch (lead->step) {
    case LEAD_TAKE:
        params = script_add(script, &sql_lead, 2);
        params[0] = script_int(script, lead->node);
        params[1] = script_int(script, lead->lease_ms);
        return;
    case LEAD_STAGE:
        add_batch(script, &sql_stage_due, STAGE_BATCH);
        return;
    case LEAD_PERIODS:
        add_batch(script, &sql_run_periods, PERIOD_BATCH);
        return;
    case LEAD_END_LEASES:
        script_add(script, &sql_end_leases, 0);
        return;
    case LEAD_RESCUE:
        add_batch(script, &sql_rescue, RESCUE_BATCH);
        return;
    case LEAD_FORGET:
        script_add(script, &sql_forget_nodes, 0);
        return;
    case LEAD_MOVE_STRANDED:
        add_batch(script, &sql_move_stranded, MOVE_BATCH);
        return;
    case LEAD_FOLD_COUNTS:
        script_add(script, &sql_fold_counts, 0);
        return;
    case LEAD_FOLD_STATS:
        script_add(script, &sql_fold_stats, 0);
        return;
    case LEAD_FOLD_HOURS:
        script_add(script, &sql_fold_hours, 0);
        return;
    case LEAD_PRUNE:
        params = script_add(script, &sql_prune, 1);
        params[0] = script_int(script, PRUNE_BATCH);
        return;
    case LEAD_OVER:
        return;
    }
}

/* Whether the step was a full batch, of which there may be more. */
static bool take_result(struct lead_call *lead, const struct db_reply *reply) {
    const struct db_result *last = reply->results[reply->result_count - 1];
    int64_t count = 0;
    switch (lead->step) {
    case LEAD_TAKE:
        lead->answer.leads = db_rows(last) > 0;
        lead->answer.term = lead->answer.leads ? db_int64(last, 0, 0) : 0;
        return false;
    case LEAD_STAGE:
        count = db_int64(last, 0, 0);
        lead->answer.staged += count;
        return count == STAGE_BATCH;
    case LEAD_PERIODS:
        count = db_int64(last, 0, 0);
        lead->answer.staged += count;
        return count == PERIOD_BATCH;
    case LEAD_MOVE_STRANDED:
        count = db_int64(last, 0, 0);
        lead->answer.staged += count;
        return count >= MOVE_BATCH;
    case LEAD_RESCUE:
        count = db_rows(last);
        lead->answer.rescued += count;
        return count == RESCUE_BATCH;
    case LEAD_FOLD_HOURS:
        return db_rows(last) > 0;
    case LEAD_PRUNE:
        lead->prune_more = db_bool(last, 0, 0);
        return lead->prune_more && lead->batches + 1 < PRUNE_BATCHES;
    case LEAD_END_LEASES:
    case LEAD_FORGET:
    case LEAD_FOLD_COUNTS:
    case LEAD_FOLD_STATS:
    case LEAD_OVER:
        return false;
    }
    return false;
}

/* Pruning has time: it goes on at each call until it is through, and then begins with the folding. */
static enum lead_step after_duties(const struct lead_call *lead) {
    return lead->fold ? LEAD_MOVE_STRANDED : lead->prune_more ? LEAD_PRUNE : LEAD_OVER;
}

static enum lead_step next_step(const struct lead_call *lead) {
    switch (lead->step) {
    case LEAD_TAKE:
        return lead->answer.leads ? LEAD_STAGE : LEAD_OVER;
    case LEAD_STAGE:
        return LEAD_PERIODS;
    case LEAD_PERIODS:
        if (lead->may_rescue) {
            return LEAD_END_LEASES;
        }
        return after_duties(lead);
    case LEAD_END_LEASES:
        return LEAD_RESCUE;
    case LEAD_RESCUE:
        return LEAD_FORGET;
    case LEAD_FORGET:
        return after_duties(lead);
    case LEAD_MOVE_STRANDED:
        return LEAD_FOLD_COUNTS;
    case LEAD_FOLD_COUNTS:
        return LEAD_FOLD_STATS;
    case LEAD_FOLD_STATS:
        return LEAD_FOLD_HOURS;
    case LEAD_FOLD_HOURS:
        return LEAD_PRUNE;
    case LEAD_PRUNE:
    case LEAD_OVER:
        return LEAD_OVER;
    }
    return LEAD_OVER;
}

static void on_lead_step(struct call *call, const struct db_reply *reply) {
    struct lead_call *lead = LIST_ENTRY(call, struct lead_call, call);
    struct queue *queue = LIST_ENTRY(lead, struct queue, lead);
    lead->answer.code = reply->code;
    lead->answer.error = reply->error;
    if (reply->code != STATUS_OK) {
        lead_answer(lead);
        return;
    }
    bool more = take_result(lead, reply) && ++lead->batches < BATCHES_MAX;
    if (!more) {
        lead->batches = 0;
        lead->step = next_step(lead);
    }
    if (lead->step == LEAD_OVER) {
        lead_answer(lead);
        return;
    }
    build_step(lead);
    lead->answer.code = channel_post(&queue->duty, &lead->call, &lead->answer.error);
    if (lead->answer.code != STATUS_OK) {
        lead_answer(lead);
    }
}

enum status lead_lead(void *context, int64_t node, int64_t lease_ms, bool may_rescue, bool fold,
                      void (*done)(void *, const struct store_lead_answer *), void *done_context,
                      struct error *err) {
    struct queue *queue = context;
    struct lead_call *lead = &queue->lead;
    if (lead->active) {
        return error_set(err, STATUS_AGAIN, "lead is in flight already");
    }
    lead->step = LEAD_TAKE;
    lead->batches = 0;
    lead->node = node;
    lead->lease_ms = lease_ms;
    lead->may_rescue = may_rescue;
    lead->fold = fold;
    lead->answer = (struct store_lead_answer){0};
    build_step(lead);
    enum status code = channel_post(&queue->duty, &lead->call, err);
    if (code == STATUS_OK) {
        lead->active = true;
        lead->done = done;
        lead->done_context = done_context;
    }
    return code;
}

/* ---- end_peers ---- */

static void answer_peers(struct peers_call *peers, enum status code, const struct error *why) {
    struct store_done_answer answer = {.code = code, .error = *why, .count = peers->rescued};
    peers->active = false;
    peers->done(peers->done_context, &answer);
}

static void on_peers_step(struct call *call, const struct db_reply *reply) {
    struct peers_call *peers = LIST_ENTRY(call, struct peers_call, call);
    struct queue *queue = LIST_ENTRY(peers, struct queue, peers);
    bool more = !peers->ended;
    if (reply->code == STATUS_OK && peers->ended) {
        int count = db_rows(reply->results[1]);
        peers->rescued += count;
        more = count == RESCUE_BATCH;
    }
    if (reply->code != STATUS_OK || !more) {
        answer_peers(peers, reply->code, &reply->error);
        return;
    }
    peers->ended = true;
    script_clear(&peers->call.script);
    add_batch(&peers->call.script, &sql_rescue, RESCUE_BATCH);
    struct error err = ERROR_NONE;
    enum status code = channel_post(&queue->duty, &peers->call, &err);
    if (code != STATUS_OK) {
        answer_peers(peers, code, &err);
    }
}

enum status lead_end_peers(void *context, const char *host, int count, const int64_t *nodes,
                           done_callback done, void *done_context, struct error *err) {
    struct queue *queue = context;
    struct peers_call *peers = &queue->peers;
    if (peers->active) {
        return error_set(err, STATUS_AGAIN, "end_peers is in flight already");
    }
    peers->ended = false;
    peers->rescued = 0;
    struct script *script = &peers->call.script;
    script_clear(script);
    struct db_param *params = script_add(script, &sql_end_nodes, 2);
    params[0] = script_bigints(script, nodes, count);
    params[1] = script_text(script, host);
    enum status code = channel_post(&queue->duty, &peers->call, err);
    if (code == STATUS_OK) {
        peers->active = true;
        peers->done = done;
        peers->done_context = done_context;
    }
    return code;
}

void lead_init(struct queue *queue) {
    call_init(&queue->lead.call, 1, on_lead_step);
    call_init(&queue->peers.call, 0, on_peers_step);
}

void lead_finish(struct queue *queue) {
    call_finish(&queue->lead.call);
    call_finish(&queue->peers.call);
}
