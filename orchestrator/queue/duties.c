/* duties.c - what a node says and asks in one request each: start, beat, watch, notes, release,
 * end. */
#include "base/memory.h"
#include "queue/queue_private.h"

/* On one connection the lower goes first. */
enum { RANK_BEAT, RANK_START, RANK_STATES, RANK_NOTES };
enum { RANK_RELEASE, RANK_TICK, RANK_END };
enum { RANK_FIRE = 1 }; /* beside those of lead.c */

static enum status in_flight(struct error *err, const char *what) {
    return error_set(err, STATUS_AGAIN, "%s is in flight already", what);
}

/* ---- start ---- */

static void on_started(struct call *call, const struct db_reply *reply) {
    struct start_call *start = LIST_ENTRY(call, struct start_call, call);
    struct store_start_answer answer = {.code = reply->code, .error = reply->error};
    struct store_peer *peers = NULL;
    struct arena arena = {0};
    if (reply->code == STATUS_OK) {
        const struct db_result *result = reply->results[1];
        answer.peer_count = db_rows(result);
        peers = arena_alloc(&arena, (size_t)(answer.peer_count + 1) * sizeof *peers);
        for (int row = 0; row < answer.peer_count; row++) {
            peers[row] = (struct store_peer){.node = db_int64(result, row, 0),
                                             .lock_path = db_value(result, row, 1)};
        }
        answer.peers = peers;
    }
    start->active = false;
    start->done(start->done_context, &answer);
    arena_finish(&arena);
}

enum status duties_start(void *context, const struct store_start *request,
                         void (*done)(void *, const struct store_start_answer *),
                         void *done_context, struct error *err) {
    struct queue *queue = context;
    struct start_call *start = &queue->start;
    if (start->active) {
        return in_flight(err, "start");
    }
    struct script *script = &start->call.script;
    script_clear(script);
    script->transaction = true;
    struct db_param *params = script_add(script, &sql_node_start, 5);
    params[0] = script_int(script, request->node);
    params[1] = script_text(script, request->host);
    params[2] = script_text(script, request->lock_path);
    params[3] = script_int(script, request->pid);
    params[4] = script_int(script, request->lease_ms);
    params = script_add(script, &sql_node_peers, 2);
    params[0] = script_text(script, request->host);
    params[1] = script_int(script, request->node);
    enum status code = channel_post(&queue->watch, &start->call, err);
    if (code == STATUS_OK) {
        start->active = true;
        start->done = done;
        start->done_context = done_context;
    }
    return code;
}

/* ---- beat ---- */

static void on_beaten(struct call *call, const struct db_reply *reply) {
    struct beat_call *beat = LIST_ENTRY(call, struct beat_call, call);
    struct store_beat_answer answer = {.code = reply->code, .error = reply->error};
    if (reply->code == STATUS_OK && db_rows(reply->results[0]) == 0) {
        answer.code = error_set(&answer.error, STATUS_CONFLICT, "the lease has ended");
    }
    beat->active = false;
    beat->done(beat->done_context, &answer);
}

enum status duties_beat(void *context, int64_t node, int64_t lease_ms,
                        void (*done)(void *, const struct store_beat_answer *), void *done_context,
                        struct error *err) {
    struct queue *queue = context;
    struct beat_call *beat = &queue->beat;
    if (beat->active) {
        return in_flight(err, "beat");
    }
    script_clear(&beat->call.script);
    struct db_param *params = script_add(&beat->call.script, &sql_beat, 2);
    params[0] = script_int(&beat->call.script, node);
    params[1] = script_int(&beat->call.script, lease_ms);
    enum status code = channel_post(&queue->watch, &beat->call, err);
    if (code == STATUS_OK) {
        beat->active = true;
        beat->done = done;
        beat->done_context = done_context;
    }
    return code;
}

/* ---- watch ---- */

static int64_t ms_or_never(const struct db_result *result, int row, int column) {
    return db_is_null(result, row, column) ? -1 : db_int64(result, row, column);
}

static void on_watched(struct call *call, const struct db_reply *reply) {
    struct watch_call *states = LIST_ENTRY(call, struct watch_call, call);
    enum { STAGE, PAUSED, REVISION, OPEN, LIMITED, SCHEDULE, SCAN };
    struct store_watch_answer answer = {.code = reply->code, .error = reply->error};
    struct arena arena = {0};
    if (reply->code == STATUS_OK) {
        const struct db_result *result = reply->results[states->states_at];
        answer.stage_count = db_rows(result);
        struct store_stage_state *list =
            arena_alloc(&arena, (size_t)(answer.stage_count + 1) * sizeof *list);
        for (int row = 0; row < answer.stage_count; row++) {
            list[row] = (struct store_stage_state){.stage = (int)db_int64(result, row, STAGE),
                                                   .revision = (int)db_int64(result, row, REVISION),
                                                   .paused = db_bool(result, row, PAUSED),
                                                   .limited = db_bool(result, row, LIMITED),
                                                   .open = db_int64(result, row, OPEN),
                                                   .schedule_ms = ms_or_never(result, row, SCHEDULE),
                                                   .scan = db_int64(result, row, SCAN)};
        }
        answer.stages = list;
    }
    states->active = false;
    states->done(states->done_context, &answer);
    arena_finish(&arena);
}

enum status duties_watch(void *context, int stage_count, const int *stages, bool count_open,
                         int busy_count, const int *busy, int busy_ms,
                         void (*done)(void *, const struct store_watch_answer *),
                         void *done_context, struct error *err) {
    struct queue *queue = context;
    struct watch_call *states = &queue->states;
    if (states->active) {
        return in_flight(err, "watch");
    }
    struct script *script = &states->call.script;
    script_clear(script);
    if (busy_count > 0) {
        script->transaction = true;
        struct db_param *params = script_add(script, &sql_busy, 2);
        params[0] = script_ints(script, busy, busy_count);
        params[1] = script_int(script, busy_ms);
    }
    states->states_at = script->count;
    struct db_param *params = script_add(script, &sql_pipelines_state, 3);
    params[0] = script_ints(script, stages, stage_count);
    params[1] = DB_TEXT(count_open ? "t" : "f");
    params[2] = DB_TEXT(queue->labels);
    enum status code = channel_post(&queue->watch, &states->call, err);
    if (code == STATUS_OK) {
        states->active = true;
        states->done = done;
        states->done_context = done_context;
    }
    return code;
}

/* ---- fire, on the duty connection: it may wait for locks ---- */

static void on_fired(struct call *call, const struct db_reply *reply) {
    struct fire_call *fire = LIST_ENTRY(call, struct fire_call, call);
    struct store_fire_answer answer = {.code = reply->code, .error = reply->error};
    if (reply->code == STATUS_OK) {
        answer.looked = db_int64(reply->results[1], 0, 0);
        answer.wait_ms = ms_or_never(reply->results[1], 0, 1);
    }
    fire->active = false;
    fire->done(fire->done_context, &answer);
}

enum status duties_fire(void *context, int pipeline_count, const int *pipelines, int at_most,
                        void (*done)(void *, const struct store_fire_answer *), void *done_context,
                        struct error *err) {
    struct queue *queue = context;
    struct fire_call *fire = &queue->fire;
    if (fire->active) {
        return in_flight(err, "fire");
    }
    struct script *script = &fire->call.script;
    script_clear(script);
    script->transaction = true;
    struct db_param *params = script_add(script, &sql_lock_pipelines, 1);
    params[0] = script_ints(script, pipelines, pipeline_count);
    params = script_add(script, &sql_fire_schedules, 3);
    params[0] = script_ints(script, pipelines, pipeline_count);
    params[1] = script_int(script, at_most);
    params[2] = DB_TEXT(queue->labels);
    enum status code = channel_post(&queue->duty, &fire->call, err);
    if (code == STATUS_OK) {
        fire->active = true;
        fire->done = done;
        fire->done_context = done_context;
    }
    return code;
}

/* ---- notes, on the watch connection; release_unknown and end, on the ledger ---- */

static void answer_done(struct done_call *call, const struct db_reply *reply, int64_t count) {
    struct store_done_answer answer = {.code = reply->code, .error = reply->error, .count = count};
    call->active = false;
    call->done(call->done_context, &answer);
}

static void on_released(struct call *call, const struct db_reply *reply) {
    int64_t count = reply->code == STATUS_OK ? db_rows(reply->results[1]) : 0;
    answer_done(LIST_ENTRY(call, struct done_call, call), reply, count);
}

static void on_ended(struct call *call, const struct db_reply *reply) {
    int64_t count = reply->code == STATUS_OK ? db_affected(reply->results[1]) : 0;
    answer_done(LIST_ENTRY(call, struct done_call, call), reply, count);
}

static enum status post_done_call(struct channel *channel, struct done_call *call,
                                  done_callback done, void *done_context, struct error *err) {
    enum status code = channel_post(channel, &call->call, err);
    if (code == STATUS_OK) {
        call->active = true;
        call->done = done;
        call->done_context = done_context;
    }
    return code;
}

static void on_noted(struct call *call, const struct db_reply *reply) {
    int64_t count = reply->code == STATUS_OK ? db_affected(reply->results[0]) : 0;
    answer_done(LIST_ENTRY(call, struct done_call, call), reply, count);
}

enum status duties_notes(void *context, int64_t node, const char *notes, done_callback done,
                         void *done_context, struct error *err) {
    struct queue *queue = context;
    if (queue->notes.active) {
        return in_flight(err, "notes");
    }
    struct script *script = &queue->notes.call.script;
    script_clear(script);
    struct db_param *params = script_add(script, &sql_node_notes, 2);
    params[0] = script_int(script, node);
    params[1] = script_text(script, notes);
    return post_done_call(&queue->watch, &queue->notes, done, done_context, err);
}

enum status duties_release_unknown(void *context, int64_t node, int hold_count,
                                   const struct store_hold *holds, done_callback done,
                                   void *done_context, struct error *err) {
    struct queue *queue = context;
    /* A tick in flight may be writing claims that the node will know in a moment. */
    if (!tick_ready(queue)) {
        return error_set(err, STATUS_AGAIN, "the ledger connection is busy");
    }
    struct script *script = &queue->release.call.script;
    script_clear(script);
    script->transaction = true;
    script_add(script, &sql_lock_all_pipelines, 0);
    struct db_param *params = script_add(script, &sql_release_unknown, 3);
    params[0] = script_int(script, node);
    params[1] = queue_hold_tasks(script, hold_count, holds);
    params[2] = queue_hold_claims(script, hold_count, holds);
    params = script_add(script, &sql_drop_empty_claims, 2);
    params[0] = script_int(script, node);
    params[1] = queue_hold_claims(script, hold_count, holds);
    return post_done_call(&queue->ledger, &queue->release, done, done_context, err);
}

enum status duties_end(void *context, int64_t node, done_callback done, void *done_context,
                       struct error *err) {
    struct queue *queue = context;
    if (queue->end.active) {
        return in_flight(err, "end");
    }
    struct script *script = &queue->end.call.script;
    script_clear(script);
    script->transaction = true;
    struct db_param *params = script_add(script, &sql_lead_end, 1);
    params[0] = script_int(script, node);
    params = script_add(script, &sql_node_end, 1);
    params[0] = script_int(script, node);
    return post_done_call(&queue->ledger, &queue->end, done, done_context, err);
}

void duties_init(struct queue *queue) {
    call_init(&queue->start.call, RANK_START, on_started);
    call_init(&queue->beat.call, RANK_BEAT, on_beaten);
    call_init(&queue->states.call, RANK_STATES, on_watched);
    call_init(&queue->fire.call, RANK_FIRE, on_fired);
    call_init(&queue->notes.call, RANK_NOTES, on_noted);
    call_init(&queue->release.call, RANK_RELEASE, on_released);
    call_init(&queue->end.call, RANK_END, on_ended);
}

void duties_finish(struct queue *queue) {
    call_finish(&queue->start.call);
    call_finish(&queue->beat.call);
    call_finish(&queue->states.call);
    call_finish(&queue->fire.call);
    call_finish(&queue->notes.call);
    call_finish(&queue->release.call);
    call_finish(&queue->end.call);
}
