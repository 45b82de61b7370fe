/* pgstage.submit in SQL: in the caller's transaction, from triggers, and in nobody's way. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "producer.h"

TestSuite(submit, .timeout = 60, .init = producer_open, .fini = producer_close);

Test(submit, gives_one_row_and_knows_what_is_newer) {
    expect_text("select concat_ws(' ', outcome, task, version) from pgstage.submit('p', 'k')", "new 1 1");
    expect_text("select outcome from pgstage.submit('p', 'k', '{\"a\": 1}', pgstage.now() - interval '1 hour')", "unchanged");
    expect_text("select concat_ws(' ', outcome, version) from pgstage.submit('p', 'k', '{\"a\": 1}', priority => 5)",
                "updated 2");
    expect_text("select concat_ws(' ', priority, payload, status) from pgstage.task", "5 {\"a\": 1} ready");
    expect_text("select outcome from pgstage.submit('p', 'k', '{\"a\": 2}', '2001-01-01', if_changed => true)", "updated");
    expect_text("select outcome from pgstage.submit('p', 'k', '{\"a\": 2}', '2001-01-01', if_changed => true)", "unchanged");
    expect_text("select outcome from pgstage.submit('p', 'later', run_at => pgstage.now() + interval '1 hour')", "new");
    expect_text("select status from pgstage.task where key = 'later'", "delayed");
    expect_state("select pgstage.submit('p', null)", "22004");
    expect_state("select pgstage.submit('nobody', 'k')", "P0F02");
    expect_state("select pgstage.submit('p', '')", "22023");
}

/* What array_agg with a filter makes, say: no document may get another one's payload. */
Test(submit, arrays_have_one_length_and_times_an_end) {
    static const char *const wrong[] = {
        "'{x,y}', '{1}', null, null, null", "'{x}', '{1,2}', null, null, null", "'{x}', '{}', null, null, null",
        "'{x,y}', null, '{2001-01-01}', null, null", "'{x,y}', null, null, '{1}', null",
        "'{x,y}', null, null, null, '{2001-01-01}'", "'{{x,y},{z,u}}', null, null, null, null",
        "'{x,y}', '{{1,2}}', null, null, null", "'{x}', null, '{infinity}', null, null",
        "'{x}', null, null, null, '{-infinity}'",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char sql[256];
        snprintf(sql, sizeof sql, "select pgstage.submit_set('p', %s, false)", wrong[i]);
        expect_state(sql, "22023");
    }
    expect_state("select pgstage.submit('p', 'k', null, 'infinity')", "22023");
    cr_expect_eq(producer_number("select count(*) from pgstage.task"), 0);
    expect_state("select pgstage.submit_set('p', '{x,y}', '{1,2}', null, '{1,2}', null, false)", "");
}

/* The message is the function's: a check's would show the row, and the payload in it. */
Test(submit, refuses_a_key_that_cannot_be_without_showing_the_payload) {
    static const char *const calls[] = {"select pgstage.submit('p', '', '\"canary\"')",
                                        "select pgstage.submit('p', repeat('k', 1025), '\"canary\"')"};
    for (int i = 0; i < 2; i++) {
        PGresult *result = PQexec(producer, calls[i]);
        cr_expect_not_null(strstr(PQerrorMessage(producer), "a key has 1 to 1024 bytes"), "%s", PQerrorMessage(producer));
        cr_expect_null(strstr(PQerrorMessage(producer), "canary"), "%s", PQerrorMessage(producer));
        PQclear(result);
    }
}

Test(submit, is_there_with_the_commit_and_gone_with_the_rollback) {
    expect_state("begin; select pgstage.submit('p', 'k')", "");
    cr_expect_eq(producer_number("select count(*) from pgstage.task"), 0);
    expect_state("rollback", "");
    cr_expect_eq(producer_number("select count(*) from pgstage.task"), 0);
    cr_expect_eq(producer_number("select count(*) from pgstage.task_count_delta"), 0);
    expect_state("begin; select pgstage.submit('p', 'k')", "");
    expect_state("commit", "");
    cr_expect_eq(producer_number("select count(*) from pgstage.task"), 1);
}

Test(submit, works_in_triggers_of_rows_and_of_statements) {
    expect_state("create table document (id text primary key, body text, changed timestamptz default clock_timestamp());"
                 "create function row_changed() returns trigger language plpgsql as $$ begin"
                 "  perform pgstage.submit('p', 'row ' || new.id, to_jsonb(new), new.changed); return null; end $$;"
                 "create function set_changed() returns trigger language plpgsql as $$ begin"
                 "  perform pgstage.submit_set('p', array_agg('set ' || id), array_agg(to_jsonb(r)), array_agg(changed),"
                 "   null, null, false) from changed_rows r having count(*) > 0; return null; end $$;"
                 "create trigger one after insert or update on document for each row execute function row_changed();"
                 "create trigger many after insert on document referencing new table as changed_rows"
                 " for each statement execute function set_changed();",
                 "");
    expect_state("insert into document (id, body) select i::text, 'text' from generate_series(1, 50) i", "");
    cr_expect_eq(producer_number("select count(*) from pgstage.task where payload->>'body' = 'text'"), 100);
    expect_state("update document set body = 'other', changed = clock_timestamp() where id = '7'", "");
    cr_expect_eq(producer_number("select version from pgstage.task where key = 'row 7'"), 2);
    expect_state("insert into document (id) select '1'", "23505");
    cr_expect_eq(producer_number("select count(*) from pgstage.task"), 100);
    cr_expect_eq(producer_number("select sum(n) from pgstage.task_count_delta"), 100);
}

/* A producer that sits in its transaction holds up its own document, and nothing else: others submit, nodes claim,
 * complete and stage, definitions are applied. */
Test(submit, an_open_transaction_holds_up_its_own_document_only) {
    expect_state("select pgstage.submit('p', 'known'), pgstage.submit('p', 'other')", "");
    expect_state("begin; select pgstage.submit('p', 'known', '{}'), pgstage.submit('p', 'fresh')", "");
    producer_exec("set lock_timeout = '10s'");
    producer_exec("select pgstage.submit('p', 'another'); select pgstage.submit('p', 'other', '{\"a\": 2}')");
    producer_exec("select count(*) from pgstage.submit_set('p', '{x,y,z}', null, null, null, null, false)");
    /* The known one is locked: a claim takes the others. */
    producer_exec("insert into pgstage.node (id, host, lock_path, pid, lease_until) values (1, 'h', '/l', 1, now() + '1h')");
    cr_expect_eq(producer_claim(), 5);
    producer_exec("select pgstage.register('p', 'pipeline: p # changed', '{a,b}', 'apply')");
    producer_exec("select pgstage.cancel_tasks(array(select id from pgstage.task where key = 'another'))");
    /* Its own documents wait for it. */
    producer_exec("set lock_timeout = '50ms'");
    expect_other_state("select pgstage.submit('p', 'known')", "55P03");
    expect_other_state("select pgstage.submit('p', 'fresh')", "55P03");
    expect_state("commit", "");
    producer_exec("set lock_timeout = 0");
    cr_expect_eq(producer_claim(), 2);
}

/* C28: what is committed late, with an older or an equal stamp, is found all the same: nothing remembers how far it has
 * looked, each document is compared with itself. */
Test(submit, c28_a_late_commit_is_not_overlooked) {
    producer_exec("insert into pgstage.node (id, host, lock_path, pid, lease_until) values (1, 'h', '/l', 1, now() + '1h')");
    expect_state("select pgstage.submit('p', k, null, '2026-01-01 10:00') from unnest('{a,b,c}'::text[]) k", "");
    cr_expect_eq(producer_claim(), 3);
    producer_exec("update pgstage.task set status = 'done', done_version = version");
    expect_state("begin; select pgstage.submit('p', 'a', '{}', '2026-01-01 10:01')", "");
    producer_exec("select pgstage.submit('p', 'b', '{}', '2026-01-01 10:05')");
    cr_expect_eq(producer_claim(), 1);
    expect_state("commit; select pgstage.submit('p', 'c', '{}', '2026-01-01 10:05')", "");
    cr_expect_eq(producer_claim(), 2);
}

/* C58: commits to a stage whose claimer has said that it looks by itself notify nobody; later the first ones do. */
Test(submit, c58_a_busy_stage_is_not_notified) {
    producer_exec("listen pgstage; update pgstage.stage set busy_until = pgstage.now() + interval '1 minute'");
    for (int i = 0; i < 50; i++) {
        expect_state("select pgstage.submit('p', gen_random_uuid()::text)", "");
    }
    cr_expect_eq(producer_notices(), 0);
    cr_expect_eq(producer_number("select (pg_notification_queue_usage() * 100)::int"), 0);
    producer_exec("update pgstage.stage set busy_until = pgstage.now() - interval '1 ms'");
    expect_state("select pgstage.submit('p', 'last')", "");
    cr_expect_eq(producer_notices(), 1);
}

/* C59: one wake-up a statement at most, and no name in it, so that nothing is too long for it. */
Test(submit, c59_wakes_once_and_with_nothing_in_it) {
    char *key = mem_alloc(1025);
    memset(key, 'k', 1024);
    char *pipeline = mem_format("select count(*) from pgstage.submit_set('p', array(select left('%s', 1020) || i"
                                " from generate_series(1000, 3000) i), null, null, null, null, false)",
                                key);
    char *large = mem_format("select pgstage.submit('p', 'large', jsonb_build_object('text', repeat('x', 1000000)))");
    producer_exec("listen pgstage");
    expect_state(pipeline, "");
    cr_expect_eq(producer_notices(), 1);
    expect_state(large, "");
    cr_expect_eq(producer_notices(), 1);
    expect_state("select pgstage.submit('p', 'i' || i) from generate_series(1, 100) i", "");
    cr_expect_eq(producer_notices(), 1); /* the same text twice in a transaction is told once */
    free(key);
    free(pipeline);
    free(large);
}
