/* world.c - sessions, statements with a mutation, and two statements at once. */
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

enum { PARAMS_MAX = 20, WAIT_MS = 15000 };

#define SESSION_SETTINGS                                                                           \
    "set statement_timeout = '60s'; set lock_timeout = '2s'; set jit = off; set timezone = 'UTC'"

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

/* "create or replace function NAME(...) ...;" from the last migration that has it. */
static char *function_text(const char *name) {
    char *head = mem_format(" function %s(", name);
    for (int i = sql_migration_count - 1; i >= 0; i--) {
        const char *start = strstr(sql_migrations[i].text, head);
        while (start != NULL && strncmp(start - 6, "create", 6) != 0 && strncmp(start - 7, "replace", 7) != 0) {
            start = strstr(start + 1, head);
        }
        if (start != NULL) {
            const char *end = strstr(start, "\n$$;\n");
            cr_assert_not_null(end);
            char *text = mem_format("create or replace%.*s\n$$;\n", (int)(end - start), start);
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

const struct db_result *world_call_with(struct world *world, struct db_sync *session,
                                        const struct sql_statement *sql, int count,
                                        const struct db_param *params) {
    char *text = text_of(world, sql);
    const struct db_result *result = run_noted(world, session, text, count, params, sql->name);
    free(text);
    return result;
}

const struct db_result *world_call(struct world *world, struct db_sync *session,
                                   const struct sql_statement *sql, int count, ...) {
    struct db_param params[PARAMS_MAX];
    va_list args;
    va_start(args, count);
    take_params(params, count, args);
    va_end(args);
    return world_call_with(world, session, sql, count, params);
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
    {"claim_some", "select * from pgstage.claim_some($1::int,",
     "with unused as (select 1) select claim_some.* from gate, pgstage.claim_some($1::int + length(gate.passed),"},
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

const struct db_result *world_race_with(struct world *world, const struct sql_statement *sql,
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
    return world_race_with(world, sql, meanwhile, context, count, params);
}

/* ---- life ---- */

static struct db_sync *open_session(const char *url, const char *role) {
    struct error err = ERROR_NONE;
    struct db_sync *session = NULL;
    cr_assert_eq(sync_open(url, role, &session, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(sync_script(session, SESSION_SETTINGS, &err), STATUS_OK, "%s", err.text);
    return session;
}

/* test.set_clock stops the database's clock, until test.start_clock. The function that reads it is
 * replaced only then: it costs more than the real one. */
static const char clock_sql[] =
    "create schema test;"
    "create table test.clock (at timestamptz);"
    "create function test.set_clock(at timestamptz) returns void language plpgsql as $test$ begin"
    " delete from test.clock; insert into test.clock values (set_clock.at);"
    " create or replace function pgstage.now() returns timestamptz language sql stable"
    " as 'select at from test.clock'; end $test$;"
    "create function test.start_clock() returns void language plpgsql as $test$ begin"
    " if exists (select from test.clock) then delete from test.clock;"
    " create or replace function pgstage.now() returns timestamptz language sql stable parallel safe"
    " as 'select statement_timestamp()'; end if; end $test$";

struct world *world_open(void) {
    struct world *world = mem_alloc(sizeof *world);
    world->url = pg_new_migrated_database();
    world->one = open_session(world->url, "one");
    world->two = open_session(world->url, "two");
    world->eye = open_session(world->url, "eye");
    world_script(world, world->eye, clock_sql);
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
        /* For a few rows this is cheaper than truncate, which makes every file anew. */
        "select test.start_clock(); delete from pgstage.schedule; delete from pgstage.periodic;"
        "delete from pgstage.output; delete from pgstage.failure; delete from pgstage.task;"
        "delete from pgstage.claim_batch; delete from pgstage.node; delete from pgstage.leader;"
        "delete from pgstage.task_count; delete from pgstage.task_count_delta;"
        "delete from pgstage.stage_stat; delete from pgstage.stat_guard;"
        "update pgstage.prune_cursor set last_id = 0, rest_until = '-infinity'; delete from pgstage.revision_stage;"
        "delete from pgstage.revision; delete from pgstage.stage; delete from pgstage.pipeline;"
        "alter sequence pgstage.task_id_seq restart; alter sequence pgstage.pipeline_id_seq restart;"
        "alter sequence pgstage.stage_id_seq restart; alter sequence pgstage.failure_id_seq restart;"
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
