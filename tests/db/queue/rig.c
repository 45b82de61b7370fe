#include "rig.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "counts.h"
#include "support/pg.h"

enum { DEADLINE_MS = 20000 };

/* ---- SQL beside the queue ---- */

static char *format_text(const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = mem_alloc((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, args);
    return text;
}

int64_t rig_int(struct rig *rig, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *sql = format_text(format, args);
    va_end(args);
    int64_t value = pg_int(rig->url, sql);
    free(sql);
    return value;
}

char *rig_text(struct rig *rig, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *sql = format_text(format, args);
    va_end(args);
    char *value = pg_text(rig->url, sql);
    char *kept = arena_copy_string(&rig->arena, value);
    free(value);
    free(sql);
    return kept;
}

void rig_exec(struct rig *rig, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *sql = format_text(format, args);
    va_end(args);
    pg_exec(rig->url, sql);
    free(sql);
}

int64_t rig_submit(struct rig *rig, const char *key, const char *payload) {
    rig_exec(rig,
             "select pgstage.submit_set('p', array['%s'], array['%s']::jsonb[], "
             "array[null]::timestamptz[],"
             " array[null]::int[], array[null]::timestamptz[], false)",
             key, payload);
    return rig_int(rig, "select id from pgstage.task where key = '%s'", key);
}

/* ---- life ---- */

static void on_ready(void *context) {
    struct rig *rig = context;
    rig->ready++;
}

static void on_woken(void *context) {
    struct rig *rig = context;
    rig->woken++;
}

static void on_tick_timer(uv_timer_t *timer) {
    (void)timer;
}

static void make_pipeline(struct rig *rig) {
    rig_exec(rig,
             "insert into pgstage.pipeline (name, revision) values ('p', 1);"
             "insert into pgstage.stage (pipeline, name) select id, n from pgstage.pipeline,"
             " unnest('{a,b,c}'::text[]) n order by n;"
             "insert into pgstage.revision (pipeline, number, definition) select id, 1, '' from "
             "pgstage.pipeline;"
             "insert into pgstage.revision_stage (pipeline, revision, position, stage)"
             " select pipeline, 1, row_number() over (order by name), id from pgstage.stage;"
             "insert into pgstage.node (id, host, lock_path, pid, lease_until)"
             " values (%d, 'h', '/none', 1, now() + interval '1 hour')",
             RIG_NODE);
    rig->pipeline = (int)rig_int(rig, "select id from pgstage.pipeline");
    for (int i = 0; i < RIG_STAGES; i++) {
        rig->stages[i] =
            (int)rig_int(rig, "select id from pgstage.stage where name = '%c'", 'a' + i);
    }
}

struct rig *rig_open_url(char *database, const char *url, const char *watch_url,
                         int64_t request_timeout_ms) {
    log_set_level(LOG_ERROR);
    struct rig *rig = mem_alloc(sizeof *rig);
    rig->url = database;
    make_pipeline(rig);
    cr_assert_eq(uv_loop_init(&rig->loop), 0);
    cr_assert_eq(uv_timer_init(&rig->loop, &rig->tick), 0);
    uv_timer_start(&rig->tick, on_tick_timer, 2, 2);
    struct queue_options options = {.url = url,
                                    .watch_url = watch_url,
                                    .lane_count = 2,
                                    .request_timeout_ms = request_timeout_ms,
                                    .clock = &clock_boottime,
                                    .random = &random_system};
    struct store_events events = {.ready = on_ready, .woken = on_woken, .context = rig};
    struct error err = ERROR_NONE;
    cr_assert_eq(queue_create(&rig->loop, &options, &events, &rig->ops, &rig->queue, &err),
                 STATUS_OK, "%s", err.text);
    return rig;
}

struct rig *rig_open(void) {
    char *database = pg_new_migrated_database();
    struct rig *rig = rig_open_url(database, database, NULL, 0);
    rig_wait_ready(rig);
    return rig;
}

static void on_queue_closed(void *context) {
    struct rig *rig = context;
    rig->closed = true;
}

void rig_check_counts(struct rig *rig) {
    char *wrong = pg_text(rig->url, counts_sql);
    cr_assert_str_eq(wrong, "", "the counts are wrong: %s", wrong);
    free(wrong);
}

void rig_expect_at_close(struct rig *rig, const int *number, int least) {
    cr_assert_lt(rig->debt_count, (int)(sizeof rig->debts / sizeof *rig->debts));
    rig->debts[rig->debt_count++] = (struct rig_debt){number, least};
}

void rig_close(struct rig *rig) {
    queue_close(rig->queue, on_queue_closed, rig);
    int64_t deadline = clock_now_ms(&clock_boottime) + DEADLINE_MS;
    while (!rig->closed && clock_now_ms(&clock_boottime) < deadline) {
        uv_run(&rig->loop, UV_RUN_ONCE);
    }
    cr_assert(rig->closed, "the queue did not close");
    for (int i = 0; i < rig->debt_count; i++) {
        cr_assert_eq(*rig->debts[i].number, rig->debts[i].least, "a call was not answered");
    }
    uv_close((uv_handle_t *)&rig->tick, NULL);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&rig->loop), 0, "the queue left a handle open");
    rig_check_counts(rig);
    arena_finish(&rig->arena);
    free(rig->url);
    free(rig);
}

void rig_wait(struct rig *rig, const int *number, int least) {
    int64_t deadline = clock_now_ms(&clock_boottime) + DEADLINE_MS;
    while (*number < least) {
        cr_assert(clock_now_ms(&clock_boottime) < deadline, "waited in vain (%d of %d)", *number,
                  least);
        uv_run(&rig->loop, UV_RUN_ONCE);
    }
}

void rig_wait_ready(struct rig *rig) {
    rig_wait(rig, &rig->ready, 1);
    rig_wait(rig, &rig->woken, 1);
}

void rig_run_for(struct rig *rig, int64_t ms) {
    int64_t deadline = clock_now_ms(&clock_boottime) + ms;
    while (clock_now_ms(&clock_boottime) < deadline) {
        uv_run(&rig->loop, UV_RUN_ONCE);
    }
}

/* ---- answers ---- */

static void *keep(struct rig *rig, const void *items, int count, size_t size) {
    return items == NULL || count == 0 ? NULL
                                       : arena_copy(&rig->arena, items, (size_t)count * size);
}

static struct store_text keep_text(struct rig *rig, struct store_text text) {
    if (text.data != NULL) {
        text.data = arena_copy(&rig->arena, text.data, text.length);
    }
    return text;
}

static struct store_claimed keep_claimed(struct rig *rig, const struct store_claimed *claimed) {
    struct store_claimed copy = *claimed;
    struct store_task *tasks = arena_alloc(&rig->arena, (size_t)(copy.count + 1) * sizeof *tasks);
    for (int i = 0; i < copy.count; i++) {
        tasks[i] = claimed->tasks[i];
        tasks[i].key = arena_copy_string(&rig->arena, tasks[i].key);
        tasks[i].ready_at = arena_copy_string(&rig->arena, tasks[i].ready_at);
        tasks[i].updated_at = arena_copy_string(&rig->arena, tasks[i].updated_at);
        tasks[i].payload = keep_text(rig, tasks[i].payload);
        tasks[i].input = keep_text(rig, tasks[i].input);
        tasks[i].inputs = keep_text(rig, tasks[i].inputs);
        tasks[i].progress_text = arena_copy_string(&rig->arena, tasks[i].progress_text);
    }
    copy.tasks = tasks;
    return copy;
}

static void on_tick(void *context, const struct store_tick_answer *answer) {
    struct rig *rig = context;
    struct store_tick_answer *copy = &rig->tick_answer;
    *copy = *answer;
    copy->verdicts = keep(rig, answer->verdicts, rig->chain_count, sizeof *answer->verdicts);
    copy->told = keep(rig, answer->told, answer->told_count, sizeof *answer->told);
    copy->kept = keep(rig, answer->kept, rig->progress_count, sizeof *answer->kept);
    struct store_text *fetched = keep(rig, answer->fetched, rig->fetch_count, sizeof *fetched);
    for (int i = 0; fetched != NULL && i < rig->fetch_count; i++) {
        fetched[i] = keep_text(rig, fetched[i]);
    }
    copy->fetched = fetched;
    if (answer->claimed != NULL) {
        struct store_claimed *claimed =
            arena_alloc(&rig->arena, (size_t)rig->claim_count * sizeof *claimed);
        for (int i = 0; i < rig->claim_count; i++) {
            claimed[i] = keep_claimed(rig, &answer->claimed[i]);
        }
        copy->claimed = claimed;
    }
    rig->ticks++;
}

void rig_send_tick(struct rig *rig, const struct store_tick *tick) {
    struct error err = ERROR_NONE;
    rig->chain_count = tick->chain_count;
    rig->claim_count = tick->claim_count;
    rig->progress_count = tick->progress_count;
    rig->fetch_count = tick->fetch_count;
    int before = rig->ticks;
    cr_assert_eq(rig->ops.tick(rig->ops.context, tick, on_tick, rig, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(rig->ticks, before, "answered within the call");
}

enum status rig_tick(struct rig *rig, const struct store_tick *tick) {
    int before = rig->ticks;
    rig_send_tick(rig, tick);
    rig_wait(rig, &rig->ticks, before + 1);
    return rig->tick_answer.code;
}

const struct store_claimed *rig_claim(struct rig *rig, int stage, int count, int64_t claim) {
    struct store_claim one = {.pipeline = rig->pipeline,
                              .stage = rig->stages[stage],
                              .previous_stage = stage > 0 ? rig->stages[stage - 1] : 0,
                              .count = count,
                              .claim = claim,
                              .from_front = true};
    struct store_tick tick = {.node = RIG_NODE, .claim_count = 1, .claims = &one};
    enum status code = rig_tick(rig, &tick);
    cr_assert_eq(code, STATUS_OK, "%s", rig->tick_answer.error.text);
    return &rig->tick_answer.claimed[0];
}

static void on_effects(void *context, const struct store_effects_answer *answer) {
    struct rig *rig = context;
    rig->effects_answer = *answer;
    rig->effects_answer.verdicts =
        keep(rig, answer->verdicts, rig->effect_count, sizeof *answer->verdicts);
    rig->effects++;
}

void rig_send_effects(struct rig *rig, int lane, const struct store_effects *effects) {
    struct error err = ERROR_NONE;
    rig->effect_count = effects->count;
    int before = rig->effects;
    cr_assert_eq(rig->ops.effects(rig->ops.context, lane, effects, on_effects, rig, &err),
                 STATUS_OK, "%s", err.text);
    cr_assert_eq(rig->effects, before, "answered within the call");
}

enum status rig_effects(struct rig *rig, const struct store_effects *effects) {
    int before = rig->effects;
    rig_send_effects(rig, 0, effects);
    rig_wait(rig, &rig->effects, before + 1);
    return rig->effects_answer.code;
}

void rig_on_done(void *context, const struct store_done_answer *answer) {
    struct rig *rig = context;
    rig->done_answer = *answer;
    rig->dones++;
}

void rig_on_start(void *context, const struct store_start_answer *answer) {
    struct rig *rig = context;
    rig->start_answer = *answer;
    struct store_peer *peers =
        arena_alloc(&rig->arena, (size_t)(answer->peer_count + 1) * sizeof *peers);
    for (int i = 0; i < answer->peer_count; i++) {
        peers[i].node = answer->peers[i].node;
        peers[i].lock_path = arena_copy_string(&rig->arena, answer->peers[i].lock_path);
    }
    rig->start_answer.peers = peers;
    rig->starts++;
}

void rig_on_beat(void *context, const struct store_beat_answer *answer) {
    struct rig *rig = context;
    rig->beat_answer = *answer;
    rig->beats++;
}

void rig_on_watch(void *context, const struct store_watch_answer *answer) {
    struct rig *rig = context;
    rig->watch_answer = *answer;
    rig->watch_answer.stages =
        keep(rig, answer->stages, answer->stage_count, sizeof *answer->stages);
    rig->watches++;
}

void rig_on_lead(void *context, const struct store_lead_answer *answer) {
    struct rig *rig = context;
    rig->lead_answer = *answer;
    rig->leads++;
}
