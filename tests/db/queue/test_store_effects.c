/* Effects: the user's SQL and its completions are one transaction, and a document's fault is its
 * own. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <stdlib.h>

#include "db/sync.h"
#include "rig.h"
#include "support/pg.h"
#include "support/proxy.h"

TestSuite(store_effects, .timeout = 120);

static int64_t waiting_locks(struct rig *rig) {
    return rig_int(rig, "select count(*) from pg_locks l join pg_stat_activity a using (pid)"
                        " where not l.granted and a.datname = current_database()");
}

enum { TASKS = 3, CLAIM = 71 };

struct effects_case {
    struct rig *rig;
    int64_t tasks[TASKS];
    struct store_param params[TASKS];
    struct store_statement statements[TASKS];
    struct store_effect effects[TASKS];
    struct store_effects request;
};

/* Three claimed tasks, each of which inserts its number into the table `index`. */
static void begin(struct effects_case *it, struct rig *rig) {
    static const char *const numbers[] = {"0", "1", "2"};
    *it = (struct effects_case){.rig = rig};
    rig_exec(rig, "create table public.index (n int, at_version bigint)");
    for (int i = 0; i < TASKS; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        it->tasks[i] = rig_submit(rig, key, "1");
    }
    cr_assert_eq(rig_claim(rig, 0, TASKS, CLAIM)->count, TASKS);
    for (int i = 0; i < TASKS; i++) {
        it->params[i] = (struct store_param){numbers[i], 1};
        it->statements[i] =
            (struct store_statement){"insert into index (n) values ($1)", 1, &it->params[i]};
        it->effects[i] = (struct store_effect){.chain = {.task = it->tasks[TASKS - 1 - i],
                                                         .claim = CLAIM,
                                                         .count = 1,
                                                         .first_stage = rig->stages[0],
                                                         .pipeline = rig->pipeline,
                                                         .revision = 1,
                                                         .ending = STORE_NEXT},
                                               .statement_count = 1,
                                               .statements = &it->statements[i]};
    }
    it->request = (struct store_effects){
        .node = RIG_NODE, .count = TASKS, .effects = it->effects, .timeout_ms = 5000};
}

static int64_t indexed(struct rig *rig) {
    return rig_int(rig, "select count(*) from public.index");
}

static int64_t at_second_stage(struct rig *rig) {
    return rig_int(rig, "select count(*) from pgstage.task where status = 'ready' and stage = %d",
                   rig->stages[1]);
}

/* on_update: finish. A lost answer: the look says what became of it. */
Test(store_effects, keep_a_claim_for_a_newer_version) {
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    for (int i = 0; i < TASKS; i++) {
        it.effects[i].chain.ending = STORE_KEEP;
    }
    rig_submit(rig, "k1", "2");
    for (int sending = 0; sending < 2; sending++) {
        cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK, "%s", rig->effects_answer.error.text);
        cr_assert_eq(indexed(rig), 3, "sent again it does nothing");
        cr_assert_eq(at_second_stage(rig), 2);
        for (int i = 0; i < TASKS; i++) {
            const struct store_effect_verdict *verdict = &rig->effects_answer.verdicts[i];
            cr_assert_not(verdict->dropped);
            cr_assert_eq(verdict->verdict.running, i == 1);
            cr_assert_eq(verdict->verdict.stage, rig->stages[1]);
            cr_assert_eq(verdict->verdict.answer,
                         sending == 0 || i == 1 ? STORE_ACCEPTED : STORE_APPLIED);
        }
    }
    rig_close(rig);
}

Test(store_effects, commits_statements_and_completions_together) {
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    struct store_text output = {"{\"x\":1}", 7};
    it.effects[1].chain.outputs = &output;
    it.effects[2].chain.ending = STORE_STAY;
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK, "%s", rig->effects_answer.error.text);
    cr_assert_eq(indexed(rig), 3);
    cr_assert_eq(at_second_stage(rig), 2);
    for (int i = 0; i < TASKS; i++) {
        const struct store_effect_verdict *verdict = &rig->effects_answer.verdicts[i];
        cr_assert_not(verdict->dropped);
        cr_assert_eq(verdict->verdict.answer, STORE_ACCEPTED);
        cr_assert_eq(verdict->verdict.running, i == 2);
        cr_assert_eq(verdict->verdict.stage, rig->stages[1]);
        cr_assert_eq(verdict->verdict.step, 1);
    }
    cr_assert_eq(rig_int(rig, "select task from pgstage.output"), it.effects[1].chain.task);
    rig_close(rig);
}

Test(store_effects, carry_routes_and_early_ends) {
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    it.effects[0].chain.ending = STORE_ROUTE;
    it.effects[0].chain.route_stage = rig->stages[2];
    it.effects[1].chain.ending = STORE_FINISH;
    it.effects[2].chain.ending = STORE_ROUTE;
    it.effects[2].chain.route_stage = 999999;
    for (int pass = 0; pass < 2; pass++) { /* sent again, as after a lost answer, it does nothing */
        cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK, "%s", rig->effects_answer.error.text);
        const struct store_effect_verdict *verdicts = rig->effects_answer.verdicts;
        for (int i = 0; i < TASKS; i++) {
            cr_assert_eq(verdicts[i].verdict.answer, pass == 0 ? STORE_ACCEPTED : STORE_APPLIED);
            cr_assert_not(verdicts[i].verdict.running);
            cr_assert_eq(verdicts[i].verdict.failed, i == 2);
        }
        cr_assert_eq(verdicts[0].verdict.stage, rig->stages[2]);
        cr_assert_eq(indexed(rig), TASKS);
    }
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.task where status = 'done'"), 1);
    rig_close(rig);
}

/* An answer that was lost, a claim that was lost, and one that goes through: each is told from the
 * others. */
Test(store_effects, sent_again_does_nothing_twice) {
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    it.request.count = 2;
    it.effects[1].chain.ending = STORE_STAY;
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK);
    rig_exec(rig, "update pgstage.task set claim = 999 where id = %lld",
             (long long)it.effects[2].chain.task);
    it.request.count = 3;
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK);
    const struct store_effect_verdict *verdicts = rig->effects_answer.verdicts;
    cr_assert_not(verdicts[0].dropped);
    cr_assert_eq(verdicts[0].verdict.answer, STORE_APPLIED);
    cr_assert_not(verdicts[0].verdict.running);
    cr_assert_not(verdicts[1].dropped);
    cr_assert_eq(verdicts[1].verdict.answer, STORE_ACCEPTED);
    cr_assert(verdicts[1].verdict.running);
    cr_assert(verdicts[2].dropped);
    cr_assert_eq(indexed(rig), 2);
    rig_exec(rig, "update pgstage.task set claim = %d where id = %lld", CLAIM,
             (long long)it.effects[2].chain.task);
    rig_close(rig);
}

struct fault {
    const char *sql, *param;
    enum status code;
    bool blamed;
};

/* Whatever a statement does, nothing of the transaction stays, and the effect is named when it can
 * be. */
Test(store_effects, names_the_effect_whose_statement_fails) {
    static const struct fault faults[] = {
        {"insert into index (n) values ($1::text::int)", "x", STATUS_INVALID, true},
        {"select 1/($1::int - 1)", "1", STATUS_INVALID, true},
        {"insert into nowhere values ($1)", "1", STATUS_INVALID, true},
        {"selec $1", "1", STATUS_INVALID, true},
        {"select pg_sleep($1::int * 60)", "1", STATUS_TIMEOUT, true},
        {"copy index to stdout", NULL, STATUS_INVALID, true},
        {" -- a\n/* b /* c */ */ Copy index from STDIN", NULL, STATUS_INVALID, true},
        {"commit", NULL, STATUS_INVALID, true},
        {"ROLLBACK;", NULL, STATUS_INVALID, true},
        {" ; /* ; */ ;commit", NULL, STATUS_INVALID, true},
        {"-- a\rcommit", NULL, STATUS_INVALID, true}, /* where a comment ends for the server */
        {"end work and chain", NULL, STATUS_INVALID, true},
        {"prepare transaction 'x'", NULL, STATUS_INVALID, true},
        {"set pgstage.effect = 'off'", NULL, STATUS_INVALID, true}, /* as if one had slipped through */
        {"insert into once values ($1::int)", "5", STATUS_INVALID,
         false}, /* deferred: fails at our COMMIT */
        {"select $1::text", "a\xC0\x80", STATUS_INVALID, true},
    };
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    rig_exec(rig, "create table public.once (n int unique deferrable initially deferred); insert "
                  "into once values (5)");
    it.request.timeout_ms = 300;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct store_param param = {faults[i].param,
                                    faults[i].param != NULL ? strlen(faults[i].param) : 0};
        it.statements[1] = (struct store_statement){faults[i].sql, faults[i].param != NULL, &param};
        enum status code = rig_effects(rig, &it.request);
        cr_assert_eq(code, faults[i].code, "%s: %s, %s", faults[i].sql, status_name(code),
                     rig->effects_answer.error.text);
        cr_assert_eq(rig->effects_answer.at_fault, faults[i].blamed ? 1 : -1, "%s: %d",
                     faults[i].sql, rig->effects_answer.at_fault);
        cr_assert_eq(rig_int(rig, "select count(*) from pgstage.task where status = 'running'"),
                     TASKS, "%s", faults[i].sql);
        /* Alone it is the one, whatever it did. */
        struct store_effects alone = it.request;
        alone.count = 1;
        alone.effects = &it.effects[1];
        cr_assert_eq(rig_effects(rig, &alone), faults[i].code, "%s", faults[i].sql);
        cr_assert_eq(rig->effects_answer.at_fault, 0, "%s", faults[i].sql);
    }
    cr_assert_eq(indexed(rig), 0);
    /* A parameter with a NUL in it is refused, not cut short. */
    it.params[1] = (struct store_param){"1\0", 2};
    it.statements[1] =
        (struct store_statement){"insert into index (n) values ($1)", 1, &it.params[1]};
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_INVALID);
    cr_assert_eq(rig->effects_answer.at_fault, 1);
    it.params[1] = (struct store_param){"1", 1};
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK, "%s", rig->effects_answer.error.text);
    cr_assert_eq(at_second_stage(rig), TASKS);
    rig_close(rig);
}

Test(store_effects, refuses_an_output_that_jsonb_refuses) {
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    struct store_text output = {"{", 1};
    it.effects[1].chain.outputs = &output;
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_INVALID);
    cr_assert_eq(rig->effects_answer.at_fault, -1);
    cr_assert_eq(indexed(rig), 0);
    rig_close(rig);
}

Test(store_effects, runs_under_the_role_and_completes_under_our_own) {
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    rig_exec(
        rig,
        "do $$ begin create role effect_user; exception when duplicate_object then null; end $$");
    it.request.role = "effect_user";
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_INVALID);
    cr_assert_eq(rig->effects_answer.at_fault, 0, "the first statement has no right to the table");
    rig_exec(rig, "grant insert on public.index to effect_user");
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK, "%s", rig->effects_answer.error.text);
    cr_assert_eq(at_second_stage(rig), TASKS);
    it.request.role = "no such role";
    it.effects[0].chain.task = rig_submit(rig, "later", "1");
    it.effects[0].chain.claim = 72;
    it.request.count = 1;
    cr_assert_eq(rig_claim(rig, 0, 1, 72)->count, 1);
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_INVALID);
    rig_close(rig);
}

/* A claim is lost while the statements run: the fence raises, and nothing of them stays. */
Test(store_effects, a_claim_that_is_lost_meanwhile_undoes_all) {
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    rig_exec(rig, "create table public.gate (n int); insert into gate values (1)");
    it.statements[1] =
        (struct store_statement){"update gate set n = n + $1::int", 1, &it.params[1]};
    struct db_sync *other = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(rig->url, "other", &other, &err), STATUS_OK);
    cr_assert_eq(sync_script(other, "begin; update gate set n = 0", &err), STATUS_OK);
    rig_send_effects(rig, 0, &it.request);
    cr_assert_not(rig->ops.lane_ready(rig->ops.context, 0));
    while (waiting_locks(rig) == 0) {
        rig_run_for(rig, 5);
    }
    /* The lane waits in the user's SQL: no document is locked by it. */
    rig_exec(rig, "set lock_timeout = '2s'; update pgstage.node set ended = true where id = %d",
             RIG_NODE);
    rig_exec(rig, "set lock_timeout = '2s'; update pgstage.task set claim = 999 where id = %lld",
             (long long)it.effects[0].chain.task);
    cr_assert_eq(sync_script(other, "commit", &err), STATUS_OK);
    rig_wait(rig, &rig->effects, 1);
    cr_assert_eq(rig->effects_answer.code, STATUS_CONFLICT, "%s", rig->effects_answer.error.text);
    cr_assert_eq(indexed(rig), 0);
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK);
    cr_assert(rig->effects_answer.verdicts[0].dropped);
    cr_assert_eq(rig->effects_answer.verdicts[1].verdict.answer, STORE_ACCEPTED);
    cr_assert_eq(indexed(rig), 1);
    rig_exec(rig, "update pgstage.task set claim = %d where claim = 999", CLAIM);
    sync_close(other);
    rig_close(rig);
}

/* While the statements run, a submit of the same document and an apply of the pipeline wait for
 * nothing. */
Test(store_effects, a_slow_statement_holds_up_nobody) {
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    rig_exec(rig, "create table public.gate (n int); insert into gate values (1)");
    it.statements[1] =
        (struct store_statement){"update gate set n = n + $1::int", 1, &it.params[1]};
    struct db_sync *other = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(rig->url, "other", &other, &err), STATUS_OK);
    cr_assert_eq(sync_script(other, "begin; update gate set n = 0", &err), STATUS_OK);
    rig_send_effects(rig, 0, &it.request);
    while (waiting_locks(rig) == 0) {
        rig_run_for(rig, 5);
    }
    rig_exec(rig, "set lock_timeout = '2s'; select pg_advisory_xact_lock(1885827947, %d)",
             rig->pipeline);
    rig_exec(rig, "set lock_timeout = '2s'; select pgstage.submit_set('p', '{k0}', '{9}', "
                  "array[null]::timestamptz[],"
                  " '{0}', array[null]::timestamptz[], false)");
    cr_assert_eq(sync_script(other, "commit", &err), STATUS_OK);
    rig_wait(rig, &rig->effects, 1);
    cr_assert_eq(rig->effects_answer.code, STATUS_OK, "%s", rig->effects_answer.error.text);
    cr_assert_eq(
        rig_int(rig, "select stage from pgstage.task where key = 'k0' and status = 'ready'"),
        rig->stages[0]);
    cr_assert_eq(at_second_stage(rig), 2);
    sync_close(other);
    rig_close(rig);
}

/* The definition changed: what the current one does not agree with is dropped, not tried for ever.
 */
Test(store_effects, a_changed_definition_drops_what_it_does_not_agree_with) {
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    rig_exec(rig,
             "insert into pgstage.revision (pipeline, number, definition) values (%d, 2, 'new')",
             rig->pipeline);
    rig_exec(rig, "insert into pgstage.revision_stage values (%d, 2, 1, %d), (%d, 2, 2, %d)",
             rig->pipeline, rig->stages[1], rig->pipeline, rig->stages[2]);
    rig_exec(rig, "update pgstage.pipeline set revision = 2");
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK, "%s", rig->effects_answer.error.text);
    cr_assert(rig->effects_answer.verdicts[0].dropped);
    cr_assert_eq(indexed(rig), 0);
    /* One that keeps the stage at the front is agreed with, whatever comes behind. */
    rig_exec(rig,
             "delete from pgstage.revision_stage where revision = 2;"
             "insert into pgstage.revision_stage values (%d, 2, 1, %d), (%d, 2, 2, %d)",
             rig->pipeline, rig->stages[0], rig->pipeline, rig->stages[2]);
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK, "%s", rig->effects_answer.error.text);
    cr_assert_eq(rig->effects_answer.verdicts[0].verdict.stage, rig->stages[2]);
    cr_assert_eq(indexed(rig), TASKS);
    rig_close(rig);
}

Test(store_effects, the_commit_is_uncertain_when_its_answer_is_lost) {
    char *database = pg_new_migrated_database();
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", pg_database_of(database));
    struct rig *rig = rig_open_url(database, url, NULL, 0);
    rig_wait_ready(rig);
    struct effects_case it;
    begin(&it, rig);
    /* The first request opens the lane; it is answered. */
    struct store_effects none = it.request;
    struct store_effect lost = it.effects[0];
    lost.chain.claim = 5;
    none.count = 1;
    none.effects = &lost;
    cr_assert_eq(rig_effects(rig, &none), STATUS_OK);
    cr_assert(rig->effects_answer.verdicts[0].dropped);
    /* The statements wait, so that the answers are held back before the commit is made. */
    rig_exec(rig, "create table public.gate (n int); insert into gate values (1)");
    it.statements[1] =
        (struct store_statement){"update gate set n = n + $1::int", 1, &it.params[1]};
    struct db_sync *other = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(rig->url, "other", &other, &err), STATUS_OK);
    cr_assert_eq(sync_script(other, "begin; update gate set n = 0", &err), STATUS_OK);
    rig_send_effects(rig, 0, &it.request);
    while (waiting_locks(rig) == 0) {
        rig_run_for(rig, 5);
    }
    proxy_set_mode(proxy, PROXY_HOLD_REPLIES);
    cr_assert_eq(sync_script(other, "commit", &err), STATUS_OK);
    while (indexed(rig) < 2) {
        rig_run_for(rig, 5);
    }
    proxy_cut(proxy);
    proxy_set_mode(proxy, PROXY_FORWARD);
    rig_wait(rig, &rig->effects, 2);
    cr_assert_eq(rig->effects_answer.code, STATUS_UNCERTAIN, "%s", rig->effects_answer.error.text);
    /* Sent again, when the lane is back: nothing runs twice. */
    cr_assert_eq(rig_effects(rig, &it.request), STATUS_OK, "%s", rig->effects_answer.error.text);
    for (int i = 0; i < TASKS; i++) {
        cr_assert_eq(rig->effects_answer.verdicts[i].verdict.answer, STORE_APPLIED);
    }
    cr_assert_eq(indexed(rig), 2);
    sync_close(other);
    rig_close(rig);
    proxy_stop(proxy);
    free(url);
}

Test(store_effects, lanes_run_side_by_side) {
    struct rig *rig = rig_open();
    struct effects_case it;
    begin(&it, rig);
    struct store_effects first = it.request, second = it.request;
    first.count = 1;
    second.count = 2;
    second.effects = &it.effects[1];
    cr_assert(rig->ops.lane_ready(rig->ops.context, 0));
    cr_assert(rig->ops.lane_ready(rig->ops.context, 1));
    cr_assert_not(rig->ops.lane_ready(rig->ops.context, 2));
    rig_send_effects(rig, 0, &first);
    rig_send_effects(rig, 1, &second);
    struct error err = ERROR_NONE;
    cr_assert_eq(rig->ops.effects(rig->ops.context, 1, &second, NULL, NULL, &err), STATUS_AGAIN);
    error_clear(&err);
    cr_assert_eq(rig->ops.effects(rig->ops.context, 2, &second, NULL, NULL, &err), STATUS_INVALID);
    rig_wait(rig, &rig->effects, 2);
    cr_assert_eq(at_second_stage(rig), TASKS);
    rig_close(rig);
}

/* What a statement leaves, and whether a session is without it. Some by a function, of which
 * the text tells nothing. */
static const struct leak {
    const char *leaves, *clean;
} leaks[] = {
    {"set search_path = pg_catalog", "current_setting('search_path') like '%public%'"},
    {"set session_replication_role = replica", "current_setting('session_replication_role') = 'origin'"},
    {"select set_config('work_mem', '99kB', false)", "current_setting('work_mem') <> '99kB'"},
    {"do $$ begin perform set_config('DateStyle', 'German', false); end $$", "current_setting('DateStyle') like 'ISO%'"},
    {"set client_encoding = 'LATIN1'", "current_setting('client_encoding') = 'UTF8'"},
    {"set application_name = 'x'", "current_setting('application_name') = 'pgstage effect 1'"},
    {"set default_transaction_read_only = on", "current_setting('transaction_read_only') = 'off'"},
    {"set default_transaction_isolation = 'serializable'", "current_setting('transaction_isolation') = 'read committed'"},
    {"set client_connection_check_interval = '9s'", "current_setting('client_connection_check_interval') = '5s'"},
    {"set role leak_role", "current_user = session_user"},
    {"set session authorization leak_role", "session_user <> 'leak_role'"},
    {"create temporary table leaked (n int)", "to_regclass('pg_temp.leaked') is null"},
    {"declare leaked cursor with hold for select 1", "not exists (select from pg_cursors where name = 'leaked')"},
    {"prepare leaked as select 1", "not exists (select from pg_prepared_statements where name = 'leaked')"},
    {"listen leaked", "not exists (select from pg_listening_channels())"},
    {"select pg_advisory_lock(4711)", "not exists (select from pg_locks where locktype = 'advisory' and objid = 4711)"},
};
enum { LEAKS = sizeof leaks / sizeof *leaks };

/* One more task and its effect of one statement. */
static struct store_effect an_effect(struct rig *rig, const struct store_statement *statement) {
    static int number;
    char key[16];
    snprintf(key, sizeof key, "leak%d", ++number);
    int64_t task = rig_submit(rig, key, "1");
    cr_assert_eq(rig_claim(rig, 0, 1, 1000 + number)->count, 1);
    return (struct store_effect){.chain = {.task = task,
                                           .claim = 1000 + number,
                                           .count = 1,
                                           .first_stage = rig->stages[0],
                                           .pipeline = rig->pipeline,
                                           .revision = 1,
                                           .ending = STORE_NEXT},
                                 .statement_count = 1,
                                 .statements = statement};
}

static enum status send_sql(struct rig *rig, int count, const struct store_statement *statements) {
    struct store_effect effects[2];
    for (int i = 0; i < count; i++) {
        effects[i] = an_effect(rig, &statements[i]);
    }
    struct store_effects request = {.node = RIG_NODE, .count = count, .effects = effects, .timeout_ms = 5000};
    return rig_effects(rig, &request);
}

static struct rig *open_for_leaks(void) {
    struct rig *rig = rig_open();
    rig_exec(rig, "do $$ begin create role leak_role superuser; exception when duplicate_object then null; end $$");
    rig_exec(rig, "create table public.seen (pid int)");
    return rig;
}

/* It notes its session when that is clean, and fails if it is not. */
static void expect_clean(struct rig *rig, const struct leak *leak, const char *after) {
    char text[512];
    snprintf(text, sizeof text,
             "insert into public.seen select pg_backend_pid() / case when %s then 1 else 0 end", leak->clean);
    struct store_statement look = {text, 0, NULL};
    cr_expect_eq(send_sql(rig, 1, &look), STATUS_OK, "%s, %s: %s", leak->leaves, after, rig->effects_answer.error.text);
}

Test(store_effects, what_a_statement_leaves_in_the_session_is_undone) {
    struct rig *rig = open_for_leaks();
    for (int i = 0; i < LEAKS; i++) {
        struct store_statement leaves = {leaks[i].leaves, 0, NULL};
        cr_expect_eq(send_sql(rig, 1, &leaves), STATUS_OK, "%s: %s", leaks[i].leaves, rig->effects_answer.error.text);
        /* Before anything else is sent: an idle session must not hold what others wait for. */
        cr_expect_eq(rig_int(rig, "select count(*) from pg_locks where locktype = 'advisory' and objid = 4711"), 0, "%s",
                     leaks[i].leaves);
        expect_clean(rig, &leaks[i], "committed");
    }
    cr_expect_eq(rig_int(rig, "select count(distinct pid) from seen"), 1, "it is one session");
    rig_close(rig);
}

Test(store_effects, what_a_rolled_back_statement_leaves_is_undone) {
    struct rig *rig = open_for_leaks();
    rig_exec(rig, "create table public.once (n int unique deferrable initially deferred); insert into once values (5)");
    static const char *const ends[] = {"select 1/0", "insert into public.once values (5)"};
    for (int i = 0; i < LEAKS; i++) {
        for (int k = 0; k < 2; k++) { /* the second is found at COMMIT */
            struct store_statement both[] = {{leaks[i].leaves, 0, NULL}, {ends[k], 0, NULL}};
            if (k == 1) { /* first, or there are no triggers at session_replication_role = replica */
                both[1] = both[0];
                both[0].text = ends[k];
            }
            struct store_effect effect = an_effect(rig, both);
            effect.statement_count = 2;
            struct store_effects request = {.node = RIG_NODE, .count = 1, .effects = &effect, .timeout_ms = 5000};
            cr_expect_neq(rig_effects(rig, &request), STATUS_OK);
            cr_expect_eq(rig_int(rig, "select count(*) from pg_locks where locktype = 'advisory' and objid = 4711"), 0,
                         "%s", leaks[i].leaves);
            expect_clean(rig, &leaks[i], ends[k]);
        }
    }
    cr_expect_eq(rig_int(rig, "select count(distinct pid) from seen"), 1, "it is one session");
    rig_close(rig);
}

/* Documents of one transaction share locks and listening, which end with it, and names of prepared statements. */
Test(store_effects, documents_of_one_transaction_do_not_see_each_others_settings) {
    struct rig *rig = open_for_leaks();
    for (int i = 0; i < LEAKS; i++) {
        if (strstr(leaks[i].leaves, "default_") != NULL || strncmp(leaks[i].leaves, "prepare", 7) == 0 ||
            strncmp(leaks[i].leaves, "listen", 6) == 0 || strstr(leaks[i].leaves, "advisory") != NULL) {
            continue;
        }
        char text[512];
        snprintf(text, sizeof text, "insert into public.seen select 1 / case when %s then 1 else 0 end", leaks[i].clean);
        struct store_statement both[] = {{leaks[i].leaves, 0, NULL}, {text, 0, NULL}};
        cr_expect_eq(send_sql(rig, 2, both), STATUS_OK, "%s: %s", leaks[i].leaves, rig->effects_answer.error.text);
    }
    rig_close(rig);
}
