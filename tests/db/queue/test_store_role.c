/* Time-outs that an administrator has set on the role end nothing of ours: statements wait for locks as long as they must. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rig.h"
#include "support/pg.h"

TestSuite(store_role, .timeout = 120);

enum { LIMIT_MS = 400, HELD_MS = 3 * LIMIT_MS, CLAIM = 71 };

/* A queue whose connections are of a role that is in a hurry. */
static struct rig *open_hurried(void) {
    char *database = pg_new_migrated_database();
    const char *name = pg_database_of(database);
    char *sql = mem_format("create role hurry_%s superuser login; alter role hurry_%s set statement_timeout = %d;"
                           " alter role hurry_%s set lock_timeout = %d;"
                           " alter role hurry_%s set idle_in_transaction_session_timeout = %d;"
                           " alter role hurry_%s set idle_session_timeout = %d;"
                           " alter role hurry_%s set default_transaction_isolation = 'serializable'",
                           name, name, LIMIT_MS, name, LIMIT_MS, name, LIMIT_MS, name, LIMIT_MS, name);
    pg_exec(database, sql);
    const char *user = strstr(database, "user=postgres");
    cr_assert_not_null(user);
    char *url = mem_format("%.*suser=hurry_%s", (int)(user - database), database, name);
    struct rig *rig = rig_open_url(database, url, NULL, 30000);
    free(sql);
    free(url);
    rig_wait_ready(rig);
    return rig;
}

static PGconn *hold(struct rig *rig, const char *sql) {
    PGconn *pg = PQconnectdb(rig->url);
    PQclear(PQexec(pg, "begin"));
    PGresult *result = PQexec(pg, sql);
    cr_assert(PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK, "%s",
              PQerrorMessage(pg));
    PQclear(result);
    return pg;
}

Test(store_role, a_tick_waits_longer_than_the_role_may) {
    struct rig *rig = open_hurried();
    rig_submit(rig, "k", "1");
    PGconn *holder = hold(rig, "lock table pgstage.claim_batch in exclusive mode");
    struct store_claim claim = {
        .pipeline = rig->pipeline, .stage = rig->stages[0], .count = 1, .claim = CLAIM, .from_front = true};
    struct store_tick tick = {.node = RIG_NODE, .claim_count = 1, .claims = &claim};
    rig_send_tick(rig, &tick);
    rig_run_for(rig, HELD_MS);
    cr_expect_eq(rig->ticks, 0);
    PQfinish(holder);
    rig_wait(rig, &rig->ticks, 1);
    cr_expect_eq(rig->tick_answer.code, STATUS_OK, "%s", rig->tick_answer.error.text);
    cr_expect_eq(rig->ready, 1, "the connection was lost meanwhile");
    rig_close(rig);
}

/* The user's statements are under the user's lock time-out; the fences behind them are not. */
Test(store_role, an_effect_waits_for_its_fences_and_its_statements_for_nobody) {
    struct rig *rig = open_hurried();
    int64_t task = rig_submit(rig, "k", "1");
    cr_assert_eq(rig_claim(rig, 0, 1, CLAIM)->count, 1);
    struct store_statement statement = {"select 1", 0, NULL};
    struct store_effect effect = {.chain = {.task = task,
                                            .claim = CLAIM,
                                            .count = 1,
                                            .first_stage = rig->stages[0],
                                            .pipeline = rig->pipeline,
                                            .revision = 1,
                                            .ending = STORE_NEXT},
                                  .statement_count = 1,
                                  .statements = &statement};
    struct store_effects request = {.node = RIG_NODE, .count = 1, .effects = &effect, .timeout_ms = 20000};
    PGconn *holder = hold(rig, "select 1 from pgstage.task for update");
    rig_send_effects(rig, 0, &request);
    rig_run_for(rig, HELD_MS);
    cr_expect_eq(rig->effects, 0);
    PQclear(PQexec(holder, "rollback"));
    rig_wait(rig, &rig->effects, 1);
    cr_expect_eq(rig->effects_answer.code, STATUS_OK, "%s", rig->effects_answer.error.text);
    PQfinish(holder);

    holder = hold(rig, "create table public.held (n int); commit; begin; lock table public.held");
    task = rig_submit(rig, "l", "1");
    cr_assert_eq(rig_claim(rig, 0, 1, CLAIM + 1)->count, 1);
    effect.chain.task = task;
    effect.chain.claim = CLAIM + 1;
    statement.text = "select * from public.held";
    cr_expect_eq(rig_effects(rig, &request), STATUS_TIMEOUT);
    cr_expect_str_eq(rig->effects_answer.error.sqlstate, "55P03");
    PQfinish(holder);
    rig_close(rig);
}
