#include "world.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "counts.h"
#include "sql/migrations.h"
#include "support/pg.h"

enum { PARAMS_MAX = 20, WAIT_MS = 15000, ROUNDS_MAX = 30 };

#define SESSION_SETTINGS                                                                           \
    "set statement_timeout = '60s'; set lock_timeout = '5s'; set jit = off; set timezone = 'UTC'"

/* ---- reasons ---- */

bool world_expect(struct world *world, bool held, const char *format, ...) {
    if (!held && world->why[0] == '\0') {
        va_list args;
        va_start(args, format);
        vsnprintf(world->why, sizeof world->why, format, args);
        va_end(args);
    }
    return held && world->why[0] == '\0';
}

bool world_is_sound(struct world *world) {
    const char *wrong = world_text(world, "%s", counts_sql);
    world_expect(world, wrong[0] == '\0', "counts: %s", wrong);
    return world->why[0] == '\0';
}

/* ---- texts ---- */

static char *replaced(const char *text, const char *from, const char *to, const char *where) {
    const char *at = strstr(text, from);
    cr_assert_not_null(at, "%s has no '%s'", where, from);
    cr_assert_null(strstr(at + 1, from), "%s has '%s' twice", where, from);
    return mem_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static char *mutated(const struct mutation *mutation, const char *text) {
    char *once = replaced(text, mutation->from, mutation->to, mutation->where);
    if (mutation->also_from == NULL) {
        return once;
    }
    char *twice = replaced(once, mutation->also_from, mutation->also_to, mutation->where);
    free(once);
    return twice;
}

/* Ownership: free() it. */
static char *text_of(const struct world *world, const struct sql_statement *sql) {
    const struct mutation *mutation = world->mutation;
    if (mutation != NULL && strcmp(mutation->where, sql->name) == 0) {
        return mutated(mutation, sql->text);
    }
    return mem_copy_string(sql->text);
}

/* "create or replace function NAME(...) ...;" from the migrations. */
static char *function_text(const char *name) {
    char *head = mem_format("create function %s(", name);
    for (int i = 0; i < sql_migration_count; i++) {
        const char *start = strstr(sql_migrations[i].text, head);
        if (start != NULL) {
            const char *end = strstr(start, "\n$$;\n");
            cr_assert_not_null(end);
            char *text =
                mem_format("create or replace %.*s\n$$;\n", (int)(end - start - 7), start + 7);
            free(head);
            return text;
        }
    }
    cr_assert_fail("there is no function %s", name);
    return NULL;
}

void world_mutate(struct world *world, const struct mutation *mutation) {
    const struct mutation *last = world->mutation;
    if (last != NULL && strncmp(last->where, "pgstage.", 8) == 0) {
        char *text = function_text(last->where);
        world_script(world, world->eye, text);
        free(text);
    }
    world->mutation = mutation;
    if (mutation != NULL && strncmp(mutation->where, "pgstage.", 8) == 0) {
        char *text = function_text(mutation->where);
        char *changed = mutated(mutation, text);
        world_script(world, world->eye, changed);
        free(changed);
        free(text);
    }
}

/* ---- running ---- */

static const struct db_result *run(struct world *world, struct db_sync *session, const char *text,
                                   int count, const struct db_param *params, struct error *err) {
    struct db_result *result = NULL;
    if (sync_run(session, NULL, text, count, params, &result, err) != STATUS_OK) {
        return NULL;
    }
    cr_assert_lt(world->result_count, (int)(sizeof world->results / sizeof *world->results));
    world->results[world->result_count++] = result;
    return result;
}

static const struct db_result *run_noted(struct world *world, struct db_sync *session,
                                         const char *text, int count, const struct db_param *params,
                                         const char *name) {
    struct error err = ERROR_NONE;
    const struct db_result *result = run(world, session, text, count, params, &err);
    world_expect(world, result != NULL, "%s: %s %s", name, err.sqlstate, err.text);
    return result;
}

static void take_params(struct db_param *params, int count, va_list args) {
    cr_assert_leq(count, PARAMS_MAX);
    for (int i = 0; i < count; i++) {
        params[i] = DB_TEXT(va_arg(args, const char *));
    }
}

const struct db_result *world_call(struct world *world, struct db_sync *session,
                                   const struct sql_statement *sql, int count, ...) {
    struct db_param params[PARAMS_MAX];
    va_list args;
    va_start(args, count);
    take_params(params, count, args);
    va_end(args);
    char *text = text_of(world, sql);
    const struct db_result *result = run_noted(world, session, text, count, params, sql->name);
    free(text);
    return result;
}

static char *format_list(const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = mem_alloc((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, args);
    return text;
}

const struct db_result *world_sql(struct world *world, struct db_sync *session, const char *format,
                                  ...) {
    va_list args;
    va_start(args, format);
    char *sql = format_list(format, args);
    va_end(args);
    const struct db_result *result = run_noted(world, session, sql, 0, NULL, sql);
    free(sql);
    return result;
}

bool world_fails(struct world *world, struct db_sync *session, const char *sqlstate,
                 const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *sql = format_list(format, args);
    va_end(args);
    struct error err = ERROR_NONE;
    const struct db_result *result = run(world, session, sql, 0, NULL, &err);
    bool failed = result == NULL && strcmp(err.sqlstate, sqlstate) == 0;
    world_expect(world, failed, "%s: %s instead of %s", sql, result != NULL ? "success" : err.text,
                 sqlstate);
    free(sql);
    return failed;
}

int64_t world_int(struct world *world, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *sql = format_list(format, args);
    va_end(args);
    const struct db_result *result = run_noted(world, world->eye, sql, 0, NULL, sql);
    free(sql);
    return result == NULL || db_rows(result) == 0 ? 0 : db_int64(result, 0, 0);
}

const char *world_text(struct world *world, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *sql = format_list(format, args);
    va_end(args);
    const struct db_result *result = run_noted(world, world->eye, sql, 0, NULL, "look");
    free(sql);
    return result == NULL || db_rows(result) == 0 ? "" : db_value(result, 0, 0);
}

void world_script(struct world *world, struct db_sync *session, const char *sql) {
    struct error err = ERROR_NONE;
    enum status code = sync_script(session, sql, &err);
    world_expect(world, code == STATUS_OK, "%.100s: %s", sql, err.text);
}

/* ---- two at once ---- */

static struct pending {
    pthread_t thread;
    struct world *world;
    char *text, *values[PARAMS_MAX];
    int count;
    const char *name;
    bool done;
    struct error err;
    struct db_result *result;
} pending;

static void *run_pending(void *context) {
    struct pending *call = context;
    struct db_param params[PARAMS_MAX];
    for (int i = 0; i < call->count; i++) {
        params[i] = DB_TEXT(call->values[i]);
    }
    enum status code = sync_run(call->world->one, NULL, call->text, call->count, params,
                                &call->result, &call->err);
    (void)code; /* kept in the error */
    __atomic_store_n(&call->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static int64_t waiting_locks(struct world *world) {
    return world_int(world, "select count(*) from pg_locks l join pg_stat_activity a using (pid)"
                            " where not l.granted and a.datname = current_database()");
}

static void begin(struct world *world, const char *name, char *text, int count,
                  const struct db_param *params) {
    pending = (struct pending){.world = world, .text = text, .count = count, .name = name};
    for (int i = 0; i < count; i++) {
        pending.values[i] = mem_copy_string(params[i].data);
    }
    cr_assert_eq(pthread_create(&pending.thread, NULL, run_pending, &pending), 0);
    int64_t deadline = clock_now_ms(&clock_boottime) + WAIT_MS;
    while (!__atomic_load_n(&pending.done, __ATOMIC_ACQUIRE) && waiting_locks(world) == 0 &&
           clock_now_ms(&clock_boottime) < deadline) {
    }
}

void world_begin_call(struct world *world, const struct sql_statement *sql, int count, ...) {
    struct db_param params[PARAMS_MAX];
    va_list args;
    va_start(args, count);
    take_params(params, count, args);
    va_end(args);
    begin(world, sql->name, text_of(world, sql), count, params);
}

const struct db_result *world_join(struct world *world) {
    pthread_join(pending.thread, NULL);
    world_expect(world, pending.result != NULL, "%s: %s %s", pending.name, pending.err.sqlstate,
                 pending.err.text);
    if (pending.result != NULL) {
        world->results[world->result_count++] = pending.result;
    }
    for (int i = 0; i < pending.count; i++) {
        free(pending.values[i]);
    }
    free(pending.text);
    return pending.result;
}

/* Where a statement waits for the advisory lock 77: after its snapshot, before any row is looked
 * at. */
static const struct gate {
    const char *name, *from, *to;
} gates[] = {
    {"complete", "    select * from unnest($1::bigint[],",
     "    select u.* from gate, unnest($1::bigint[],"},
    {"rescue", "from pgstage.claim_batch b cross join unnest",
     "from gate cross join pgstage.claim_batch b cross join unnest"},
    {"release_unknown", "from pgstage.claim_batch b cross join unnest",
     "from gate cross join pgstage.claim_batch b cross join unnest"},
    {"stage_due", "select t.id, t.due_at from pgstage.task t",
     "select t.id, t.due_at from gate, pgstage.task t"},
    {"claim", "    select t.id\n      from pgstage.task t",
     "    select t.id\n      from gate, pgstage.task t"},
};

static char *gated(const struct world *world, const struct sql_statement *sql) {
    char *text = text_of(world, sql);
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++) {
        if (strcmp(gates[i].name, sql->name) == 0) {
            char *waiting = replaced(text, gates[i].from, gates[i].to, sql->name);
            char *whole = replaced(
                waiting, "\nwith ",
                "\nwith gate as materialized (select pg_advisory_xact_lock(77)::text as passed), ",
                sql->name);
            free(waiting);
            free(text);
            return whole;
        }
    }
    cr_assert_fail("%s has no gate", sql->name);
    return text;
}

static const struct db_result *race(struct world *world, const struct sql_statement *sql,
                                    void (*meanwhile)(struct world *world, void *context),
                                    void *context, int count, const struct db_param *params) {
    world_script(world, world->two, "select pg_advisory_lock(77)");
    begin(world, sql->name, gated(world, sql), count, params);
    meanwhile(world, context);
    world_script(world, world->two, "select pg_advisory_unlock(77)");
    return world_join(world);
}

const struct db_result *world_race(struct world *world, const struct sql_statement *sql,
                                   void (*meanwhile)(struct world *world, void *context),
                                   void *context, int count, ...) {
    struct db_param params[PARAMS_MAX];
    va_list args;
    va_start(args, count);
    take_params(params, count, args);
    va_end(args);
    return race(world, sql, meanwhile, context, count, params);
}

/* ---- life ---- */

static struct db_sync *open_session(const char *url, const char *role) {
    struct error err = ERROR_NONE;
    struct db_sync *session = NULL;
    cr_assert_eq(sync_open(url, role, &session, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(sync_script(session, SESSION_SETTINGS, &err), STATUS_OK, "%s", err.text);
    return session;
}

struct world *world_open(void) {
    struct world *world = mem_alloc(sizeof *world);
    world->url = pg_new_migrated_database();
    world->one = open_session(world->url, "one");
    world->two = open_session(world->url, "two");
    world->eye = open_session(world->url, "eye");
    world_reset(world);
    return world;
}

void world_forget_results(struct world *world) {
    for (int i = 0; i < world->result_count; i++) {
        sync_result_free(world->results[i]);
    }
    world->result_count = 0;
}

void world_close(struct world *world) {
    world_mutate(world, NULL);
    world_forget_results(world);
    sync_close(world->one);
    sync_close(world->two);
    sync_close(world->eye);
    free(world->url);
    free(world);
}

void world_reset(struct world *world) {
    world_forget_results(world);
    /* A scenario that failed may have left a transaction open, or the gate's lock. */
    struct error err = ERROR_NONE;
    enum status one = sync_script(
        world->one, "rollback; reset all; select pg_advisory_unlock_all();" SESSION_SETTINGS, &err);
    enum status two = sync_script(
        world->two, "rollback; reset all; select pg_advisory_unlock_all();" SESSION_SETTINGS, &err);
    cr_assert(one == STATUS_OK && two == STATUS_OK, "%s", err.text);
    world->why[0] = '\0';
    world_script(
        world, world->eye,
        "truncate pgstage.task, pgstage.claim_batch, pgstage.output, pgstage.failure, pgstage.node,"
        " pgstage.leader, pgstage.task_count, pgstage.task_count_delta, pgstage.stage_stat, "
        "pgstage.pipeline,"
        " pgstage.revision, pgstage.stage, pgstage.revision_stage restart identity cascade;"
        "insert into pgstage.pipeline (name) values ('p');"
        "insert into pgstage.node (id, host, lock_path, pid, lease_until)"
        " select n, 'host', '/lock', 1, now() + interval '1 hour' from generate_series(11, 13) n");
    world->pipeline = (int)world_int(world, "select id from pgstage.pipeline");
    world->revision = 0;
    world_revise(world, "{a,b,c}");
    for (int i = 0; i < STAGE_COUNT; i++) {
        world->stages[i] =
            (int)world_int(world, "select id from pgstage.stage where name = '%c'", 'a' + i);
    }
    cr_assert_str_eq(world->why, "");
}

void world_revise(struct world *world, const char *stages) {
    world->revision++;
    world_sql(world, world->eye,
              "insert into pgstage.stage (pipeline, name) select %d, n from unnest('%s'::text[]) "
              "with ordinality u(n, i)"
              " order by i on conflict do nothing",
              world->pipeline, stages);
    world_sql(world, world->eye,
              "insert into pgstage.revision (pipeline, number, definition) values (%d, %d, '')",
              world->pipeline, world->revision);
    world_sql(world, world->eye,
              "insert into pgstage.revision_stage (pipeline, revision, position, stage)"
              " select %d, %d, u.i, s.id from unnest('%s'::text[]) with ordinality u(n, i)"
              " join pgstage.stage s on s.name = u.n",
              world->pipeline, world->revision, stages);
    world_sql(world, world->eye, "update pgstage.pipeline set revision = %d", world->revision);
}

/* ---- the protocol in short ---- */

int64_t world_submit(struct world *world, const char *key) {
    char keys[128];
    snprintf(keys, sizeof keys, "{\"%s\"}", key);
    world_call(world, world->eye, &sql_submit, 7, "p", keys, "{\"{}\"}", "{2001-01-01}", "{0}",
               "{NULL}", "f");
    return world_int(world, "select id from pgstage.task where key = '%s'", key);
}

void world_resubmit(struct world *world, int64_t task) {
    const struct db_result *row = world_sql(
        world, world->eye,
        "select s.outcome from pgstage.task t, pgstage.submit_set('p', array[t.key::text],"
        " array[jsonb_build_object('v', t.version + 1)], array[t.task_updated_at + interval '1 "
        "day'],"
        " array[null]::int[], array[null]::timestamptz[], false) s where t.id = %" PRId64,
        task);
    world_expect(world,
                 row != NULL && db_rows(row) == 1 && strcmp(db_value(row, 0, 0), "updated") == 0,
                 "a newer submit was not accepted");
}

void world_cancel(struct world *world, int64_t task) {
    world_sql(world, world->eye, "select pgstage.cancel_tasks(array[%" PRId64 "])", task);
}

int64_t world_new_claim(struct world *world) {
    return 1000 + ++world->last_claim;
}

int64_t world_claim(struct world *world, int64_t node, int stage, int at_most, int *count) {
    int64_t claim = world_new_claim(world);
    char texts[5][24];
    snprintf(texts[0], sizeof *texts, "%d", world->stages[stage]);
    snprintf(texts[1], sizeof *texts, "%d", at_most);
    snprintf(texts[2], sizeof *texts, "%" PRId64, claim);
    snprintf(texts[3], sizeof *texts, "%" PRId64, node);
    snprintf(texts[4], sizeof *texts, "%d", stage > 0 ? world->stages[stage - 1] : 0);
    const struct db_result *result =
        world_call(world, world->one, &sql_claim, 7, texts[0], texts[1], texts[2], texts[3], NULL,
                   NULL, stage > 0 ? texts[4] : NULL);
    if (count != NULL) {
        *count = result != NULL ? db_rows(result) : 0;
    }
    return claim;
}

void world_end_lease(struct world *world, int64_t node) {
    world_sql(world, world->eye,
              "update pgstage.node set lease_until = now() - interval '1 ms' where id = %" PRId64,
              node);
    world_call(world, world->eye, &sql_end_leases, 0);
}

const struct db_result *world_rescue(struct world *world) {
    return world_call(world, world->one, &sql_rescue, 1, "500");
}

const struct db_result *world_release(struct world *world, int64_t node, int64_t known_task,
                                      int64_t known_claim) {
    char texts[3][32];
    snprintf(texts[0], sizeof *texts, "%" PRId64, node);
    snprintf(texts[1], sizeof *texts, known_task != 0 ? "{%" PRId64 "}" : "{}", known_task);
    snprintf(texts[2], sizeof *texts, known_task != 0 ? "{%" PRId64 "}" : "{}", known_claim);
    return world_call(world, world->one, &sql_release_unknown, 3, texts[0], texts[1], texts[2]);
}

struct move_texts {
    char values[17][512];
    struct db_param params[17];
};

static void write_move(const struct world *world, const struct move *move, struct move_texts *out) {
    static const int from_count[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 10};
    int64_t numbers[11] = {move->task,
                           move->claim,
                           move->step,
                           move->count,
                           world->stages[move->first],
                           move->revision != 0 ? move->revision : 1,
                           0,
                           move->attempts,
                           move->crashes,
                           move->rescues,
                           move->delay_ms};
    for (size_t i = 0; i < sizeof from_count / sizeof *from_count; i++) {
        snprintf(out->values[from_count[i]], sizeof *out->values, "{%" PRId64 "}",
                 numbers[from_count[i]]);
    }
    snprintf(out->values[6], sizeof *out->values, "{%s}", move->ending);
    snprintf(out->values[11], sizeof *out->values, "{%s}",
             move->kind != NULL ? move->kind : "NULL");
    snprintf(out->values[12], sizeof *out->values, "{%s}",
             move->reason != NULL ? move->reason : "NULL");
    snprintf(out->values[13], sizeof *out->values, "{NULL}");
    char *lists[] = {out->values[14], out->values[15], out->values[16]};
    size_t used[3] = {0};
    for (int list = 0; list < 3; list++) {
        used[list] = (size_t)snprintf(lists[list], sizeof *out->values, "{");
    }
    for (int k = 0; k < move->count && move->output != NULL; k++) {
        const char *comma = k > 0 ? "," : "";
        used[0] += (size_t)snprintf(lists[0] + used[0], sizeof *out->values - used[0], "%s%" PRId64,
                                    comma, move->task);
        used[1] +=
            (size_t)snprintf(lists[1] + used[1], sizeof *out->values - used[1], "%s%d", comma, k);
        used[2] += (size_t)snprintf(lists[2] + used[2], sizeof *out->values - used[2], "%s\"%s\"",
                                    comma, move->output);
    }
    for (int list = 0; list < 3; list++) {
        snprintf(lists[list] + used[list], sizeof *out->values - used[list], "}");
    }
    for (int i = 0; i < 17; i++) {
        out->params[i] = DB_TEXT(out->values[i]);
    }
}

static int stage_of(const struct world *world, int64_t id) {
    for (int i = 0; i < STAGE_COUNT; i++) {
        if (world->stages[i] == id) {
            return i;
        }
    }
    return -1;
}

static struct verdict read_verdict(struct world *world, const struct db_result *result) {
    struct verdict verdict = {.stage = -1};
    if (result == NULL || db_rows(result) != 1) {
        return verdict;
    }
    snprintf(verdict.answer, sizeof verdict.answer, "%s", db_value(result, 0, 2));
    verdict.step = (int)db_int64(result, 0, 3);
    verdict.stage = stage_of(world, db_int64(result, 0, 4));
    snprintf(verdict.status, sizeof verdict.status, "%s", db_value(result, 0, 5));
    return verdict;
}

struct verdict world_complete(struct world *world, struct db_sync *session,
                              const struct move *move) {
    struct move_texts texts;
    write_move(world, move, &texts);
    char *text = text_of(world, &sql_complete);
    const struct db_result *result = run_noted(world, session, text, 17, texts.params, "complete");
    free(text);
    return read_verdict(world, result);
}

struct verdict world_race_complete(struct world *world, const struct move *move,
                                   void (*meanwhile)(struct world *world, void *context),
                                   void *context) {
    struct move_texts texts;
    write_move(world, move, &texts);
    return read_verdict(world, race(world, &sql_complete, meanwhile, context, 17, texts.params));
}

struct row world_row(struct world *world, int64_t task) {
    struct row row = {.stage = -1};
    const struct db_result *r =
        world_sql(world, world->eye,
                  "select status, stage, version, claimed_version, done_version, claim, node, "
                  "step, attempt, crashes, rescues,"
                  " superseded, wish is not null, error_text is not null from pgstage.task where "
                  "id = %" PRId64,
                  task);
    if (r == NULL || db_rows(r) == 0) {
        return row;
    }
    row = (struct row){.stage = stage_of(world, db_int64(r, 0, 1)),
                       .version = db_int64(r, 0, 2),
                       .claimed_version = db_int64(r, 0, 3),
                       .done_version = db_int64(r, 0, 4),
                       .claim = db_int64(r, 0, 5),
                       .node = db_int64(r, 0, 6),
                       .step = (int)db_int64(r, 0, 7),
                       .attempt = (int)db_int64(r, 0, 8),
                       .crashes = (int)db_int64(r, 0, 9),
                       .rescues = (int)db_int64(r, 0, 10),
                       .superseded = (int)db_int64(r, 0, 11),
                       .has_wish = db_bool(r, 0, 12),
                       .has_error = db_bool(r, 0, 13),
                       .exists = true};
    snprintf(row.status, sizeof row.status, "%s", db_value(r, 0, 0));
    return row;
}

static bool rest_round(struct world *world) {
    bool worked = false;
    world_sql(world, world->eye,
              "update pgstage.task set due_at = now() - interval '1 ms' where due_at is not null");
    world_call(world, world->eye, &sql_stage_due, 1, "100");
    for (int stage = 0; stage < STAGE_COUNT; stage++) {
        int count = 0;
        int64_t claim = world_claim(world, NODE_LAST, stage, 100, &count);
        for (int i = 0; i < count && world->why[0] == '\0'; i++) {
            int64_t task = world_int(world,
                                     "select id from pgstage.task where claim = %" PRId64
                                     " and status = 'running' limit 1",
                                     claim);
            struct move move = {.task = task,
                                .claim = claim,
                                .count = 1,
                                .first = stage,
                                .ending = "next",
                                .output = "1",
                                .revision = world->revision};
            struct verdict verdict = world_complete(world, world->one, &move);
            world_expect(world, strcmp(verdict.answer, "accepted") == 0, "the rest was %s",
                         verdict.answer);
            worked = true;
        }
    }
    return worked;
}

void world_rest(struct world *world) {
    int rounds = 0;
    while (world->why[0] == '\0' && rest_round(world)) {
        world_expect(world, ++rounds < ROUNDS_MAX, "it never comes to rest");
    }
}
