/* What a node says beside its ticks, and what becomes of it when connections break. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "db/conn_private.h"
#include "db/sync.h"
#include "queue/queue_private.h"
#include "rig.h"
#include "support/pg.h"
#include "support/proxy.h"

TestSuite(store_duties, .timeout = 120);

static struct error err;

static void beat(struct rig *rig, int64_t node, int64_t lease_ms) {
    int before = rig->beats;
    cr_assert_eq(rig->ops.beat(rig->ops.context, node, lease_ms, rig_on_beat, rig, &err),
                 STATUS_OK);
    rig_wait(rig, &rig->beats, before + 1);
}

static void lead(struct rig *rig, int64_t node, bool may_rescue, bool fold) {
    int before = rig->leads;
    cr_assert_eq(
        rig->ops.lead(rig->ops.context, node, 60000, may_rescue, fold, rig_on_lead, rig, &err),
        STATUS_OK);
    rig_wait(rig, &rig->leads, before + 1);
}

Test(store_duties, a_node_starts_beats_and_ends) {
    struct rig *rig = rig_open();
    struct store_start start = {
        .node = 81, .host = "h", .lock_path = "/l/81", .pid = 5, .lease_ms = 60000};
    cr_assert_eq(rig->ops.start(rig->ops.context, &start, rig_on_start, rig, &err), STATUS_OK);
    cr_assert_eq(rig->ops.start(rig->ops.context, &start, rig_on_start, rig, &err), STATUS_AGAIN);
    rig_wait(rig, &rig->starts, 1);
    cr_assert_eq(rig->start_answer.code, STATUS_OK);
    cr_assert_eq(rig->start_answer.peer_count, 1);
    cr_assert_eq(rig->start_answer.peers[0].node, RIG_NODE);
    cr_assert_str_eq(rig->start_answer.peers[0].lock_path, "/none");
    /* Its answer was lost: sent again, it changes nothing. */
    cr_assert_eq(rig->ops.start(rig->ops.context, &start, rig_on_start, rig, &err), STATUS_OK);
    rig_wait(rig, &rig->starts, 2);
    cr_assert_eq(rig->start_answer.code, STATUS_OK);

    beat(rig, 81, 90000);
    cr_assert_eq(rig->beat_answer.code, STATUS_OK);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.node where id = 81 and lease_until > "
                              "now() + interval '80 s'"),
                 1);
    beat(rig, 82, 90000);
    cr_assert_eq(rig->beat_answer.code, STATUS_CONFLICT);
    rig_exec(rig, "update pgstage.node set lease_until = now() - interval '1 ms' where id = 81");
    beat(rig, 81, 90000);
    cr_assert_eq(rig->beat_answer.code, STATUS_CONFLICT, "an ended lease does not revive");

    lead(rig, RIG_NODE, false, false);
    cr_assert(rig->lead_answer.leads);
    cr_assert_eq(rig->ops.end(rig->ops.context, RIG_NODE, rig_on_done, rig, &err), STATUS_OK);
    rig_wait(rig, &rig->dones, 1);
    cr_assert_eq(rig->done_answer.code, STATUS_OK);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.node where ended"), 1);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.leader where until > now()"), 0);
    rig_close(rig);
}

/* A producer's transaction was open while its stage was removed. */
Test(store_duties, the_leader_moves_what_stands_at_a_stage_that_is_gone) {
    struct rig *rig = rig_open();
    rig_submit(rig, "k", "1");
    rig_exec(rig, "insert into pgstage.revision (pipeline, number, definition) values (%d, 2, '');"
                  "insert into pgstage.revision_stage (pipeline, revision, position, stage) values (%d, 2, 1, %d);"
                  "update pgstage.pipeline set revision = 2",
             rig->pipeline, rig->pipeline, rig->stages[1]);
    lead(rig, RIG_NODE, false, false);
    cr_assert_eq(rig->lead_answer.staged, 0, "this is done when counts are folded");
    lead(rig, RIG_NODE, false, true);
    cr_assert_eq(rig->lead_answer.staged, 1, "whoever asked should claim it");
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.task where ready_stage = %d", rig->stages[1]), 1);
    rig_close(rig);
}

Test(store_duties, watch_reads_the_states_and_says_busy) {
    struct rig *rig = rig_open();
    rig_submit(rig, "k", "1");
    rig_exec(rig, "update pgstage.stage set paused = true where name = 'b'");
    int busy[] = {rig->stages[2], rig->stages[0]};
    cr_assert_eq(rig->ops.watch(rig->ops.context, RIG_STAGES, rig->stages, true, 2, busy, 60000,
                                rig_on_watch, rig, &err),
                 STATUS_OK);
    rig_wait(rig, &rig->watches, 1);
    cr_assert_eq(rig->watch_answer.code, STATUS_OK, "%s", rig->watch_answer.error.text);
    cr_assert_eq(rig->watch_answer.stage_count, RIG_STAGES);
    for (int i = 0; i < RIG_STAGES; i++) {
        const struct store_stage_state *state = &rig->watch_answer.stages[i];
        cr_assert_eq(state->paused, state->stage == rig->stages[1]);
        cr_assert_eq(state->open, state->stage == rig->stages[0]);
        cr_assert_eq(state->revision, 1);
    }
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.stage where busy_until > now()"), 2);
    /* A claimer that looks by itself is not notified. */
    int woken = rig->woken;
    rig_submit(rig, "k2", "1");
    rig_run_for(rig, 200);
    cr_assert_eq(rig->woken, woken);
    cr_assert_eq(
        rig->ops.watch(rig->ops.context, 0, NULL, false, 0, NULL, 0, rig_on_watch, rig, &err),
        STATUS_OK);
    rig_wait(rig, &rig->watches, 2);
    cr_assert_eq(rig->watch_answer.stage_count, 0);
    rig_close(rig);
}

Test(store_duties, the_leader_stages_rescues_and_folds) {
    struct rig *rig = rig_open();
    rig_exec(
        rig,
        "select pgstage.submit_set('p', array(select 'k' || i from generate_series(1, 2500) i),"
        " array(select null::jsonb from generate_series(1, 2500)),"
        " array(select null::timestamptz from generate_series(1, 2500)),"
        " array(select 0 from generate_series(1, 2500)),"
        " array(select now() + interval '1 hour' from generate_series(1, 2500)), false)");
    lead(rig, RIG_NODE, true, true);
    cr_assert(rig->lead_answer.leads);
    cr_assert_eq(rig->lead_answer.term, 1);
    cr_assert_eq(rig->lead_answer.staged, 0);
    rig_exec(rig, "update pgstage.task set due_at = now() - interval '1 s'");
    lead(rig, RIG_NODE, false, true);
    cr_assert_eq(rig->lead_answer.staged, 2500);
    rig_check_counts(rig);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.task_count_delta"), 0);

    /* Another node claims, and its lease ends; only who may rescue does. */
    rig_exec(rig, "insert into pgstage.node (id, host, lock_path, pid, lease_until) values"
                  " (90, 'h', '/90', 1, now() + interval '1 hour')");
    struct store_claim claim = {.pipeline = rig->pipeline,
                                .stage = rig->stages[0],
                                .count = 1200,
                                .claim = 91,
                                .from_front = true};
    struct store_tick tick = {.node = 90, .claim_count = 1, .claims = &claim};
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK);
    cr_assert_eq(rig->tick_answer.claimed[0].count, 1200);
    rig_exec(rig, "update pgstage.node set lease_until = now() - interval '1 ms' where id = 90");
    lead(rig, RIG_NODE, false, false);
    cr_assert_eq(rig->lead_answer.rescued, 0);
    lead(rig, 90, true, false);
    cr_assert_not(rig->lead_answer.leads, "another one leads");
    lead(rig, RIG_NODE, true, false);
    cr_assert_eq(rig->lead_answer.rescued, 1200);
    cr_assert_eq(
        rig_int(rig, "select count(*) from pgstage.task where rescues = 1 and status = 'ready'"),
        1200);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.claim_batch"), 0);
    rig_check_counts(rig);
    lead(rig, RIG_NODE, true, false);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.node"), 1);
    rig_close(rig);
}

Test(store_duties, a_dead_peer_is_ended_and_its_tasks_are_free_at_once) {
    struct rig *rig = rig_open();
    rig_exec(rig, "insert into pgstage.node (id, host, lock_path, pid, lease_until) values"
                  " (90, 'h', '/90', 1, now() + interval '1 hour'), (91, 'other', '/91', 1, now() "
                  "+ interval '1 hour')");
    rig_submit(rig, "k1", "1");
    struct store_claim claim = {.pipeline = rig->pipeline,
                                .stage = rig->stages[0],
                                .count = 1,
                                .claim = 92,
                                .from_front = true};
    struct store_tick tick = {.node = 90, .claim_count = 1, .claims = &claim};
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK);
    rig_submit(rig, "k2", "1");
    tick.node = 91;
    claim.claim = 93;
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK);
    int64_t dead[] = {90, 91};
    cr_assert_eq(rig->ops.end_peers(rig->ops.context, "h", 2, dead, rig_on_done, rig, &err),
                 STATUS_OK);
    rig_wait(rig, &rig->dones, 1);
    cr_assert_eq(rig->done_answer.code, STATUS_OK);
    cr_assert_eq(rig->done_answer.count, 1, "a node of another host is not ended");
    cr_assert_eq(
        rig_int(rig, "select count(*) from pgstage.task where key = 'k1' and status = 'ready'"), 1);
    cr_assert_eq(
        rig_int(rig, "select count(*) from pgstage.task where key = 'k2' and status = 'running'"),
        1);
    rig_close(rig);
}

Test(store_duties, releases_what_the_node_does_not_know) {
    struct rig *rig = rig_open();
    int64_t known = rig_submit(rig, "k1", "1");
    rig_claim(rig, 0, 1, 95);
    rig_submit(rig, "k2", "1");
    rig_claim(rig, 0, 1, 96);
    struct store_hold hold = {.task = known, .claim = 95};
    cr_assert_eq(
        rig->ops.release_unknown(rig->ops.context, RIG_NODE, 1, &hold, rig_on_done, rig, &err),
        STATUS_OK);
    cr_assert_not(rig->ops.tick_ready(rig->ops.context));
    rig_wait(rig, &rig->dones, 1);
    cr_assert_eq(rig->done_answer.count, 1);
    cr_assert_eq(
        rig_int(rig, "select count(*) from pgstage.task where status = 'ready' and key = 'k2'"), 1);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.claim_batch"), 1);
    cr_assert_eq(
        rig->ops.release_unknown(rig->ops.context, RIG_NODE, 0, NULL, rig_on_done, rig, &err),
        STATUS_OK);
    rig_wait(rig, &rig->dones, 2);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.claim_batch"), 0);
    rig_close(rig);
}

/* The lease first: no work of the leader, and no lock that it waits for, holds up a heartbeat. */
Test(store_duties, a_beat_does_not_wait_behind_the_leaders_work) {
    struct rig *rig = rig_open();
    struct db_sync *apply = NULL;
    cr_assert_eq(sync_open(rig->url, "apply", &apply, &err), STATUS_OK);
    char sql[128];
    snprintf(sql, sizeof sql,
             "begin; select pg_advisory_xact_lock(1885827947, %d);"
             " update pgstage.stage set paused = paused",
             rig->pipeline);
    cr_assert_eq(sync_script(apply, sql, &err), STATUS_OK);
    cr_assert_eq(
        rig->ops.lead(rig->ops.context, RIG_NODE, 60000, true, true, rig_on_lead, rig, &err),
        STATUS_OK);
    while (
        rig_int(rig, "select count(*) from pg_locks l join pg_stat_activity a using (pid) where l.locktype = 'advisory'"
                     " and not l.granted and a.datname = current_database()") == 0) {
        rig_run_for(rig, 5);
    }
    cr_assert_eq(rig->ops.watch(rig->ops.context, RIG_STAGES, rig->stages, false, RIG_STAGES,
                                rig->stages, 1000, rig_on_watch, rig, &err),
                 STATUS_OK);
    beat(rig, RIG_NODE, 60000);
    cr_assert_eq(rig->beat_answer.code, STATUS_OK);
    rig_wait(rig, &rig->watches, 1);
    cr_assert_eq(rig->leads, 0);
    cr_assert_eq(sync_script(apply, "commit", &err), STATUS_OK);
    rig_wait(rig, &rig->leads, 1);
    cr_assert_eq(rig->lead_answer.code, STATUS_OK);
    sync_close(apply);
    rig_close(rig);
}

/* C39: whoever is woken after a reconnect looks, and what was submitted in the gap is found. */
Test(store_duties, is_woken_by_a_submit_and_by_each_reconnect) {
    struct rig *rig = rig_open();
    int woken = rig->woken;
    rig_submit(rig, "k", "1");
    rig_wait(rig, &rig->woken, woken + 1);
    woken = rig->woken;
    rig_exec(rig, "select pg_terminate_backend(pid) from pg_stat_activity where "
                  "application_name = 'pgstage watch' and datname = current_database()");
    rig_wait(rig, &rig->woken, woken + 1);
    woken = rig->woken;
    rig_submit(rig, "k2", "1");
    rig_wait(rig, &rig->woken, woken + 1);
    int ready = rig->ready;
    rig_exec(rig, "select pg_terminate_backend(pid) from pg_stat_activity where "
                  "application_name = 'pgstage ledger' and datname = current_database()");
    rig_wait(rig, &rig->ready, ready + 1);
    cr_assert(rig->ops.tick_ready(rig->ops.context));
    rig_close(rig);
}

/* An effect connection that is open: lanes are at their first use. */
static void open_a_lane(struct rig *rig) {
    int64_t task = rig_submit(rig, "lane", "1");
    rig_claim(rig, 0, 1, 7);
    struct store_effect effect = {.chain = {.task = task,
                                            .claim = 7,
                                            .count = 1,
                                            .first_stage = rig->stages[0],
                                            .pipeline = rig->pipeline,
                                            .revision = 1,
                                            .ending = STORE_NEXT}};
    struct store_effects effects = {.node = RIG_NODE, .count = 1, .effects = &effect};
    cr_assert_eq(rig_effects(rig, &effects), STATUS_OK, "%s", rig->effects_answer.error.text);
}

static bool all_wait_long(const struct queue *queue) {
    LIST_EACH(link, &queue->channels) {
        const struct db_conn *conn = LIST_ENTRY(link, struct channel, link)->conn;
        if (conn->state != CONN_DOWN || uv_timer_get_due_in(&conn->timer) <= 1500) {
            return false;
        }
    }
    return true;
}

static bool all_are_free(const struct queue *queue) {
    LIST_EACH(link, &queue->channels) {
        if (!channel_is_free(LIST_ENTRY(link, struct channel, link))) {
            return false;
        }
    }
    return true;
}

/* All have been away for so long that they wait for seconds: the first that finds the server calls the others. */
Test(store_duties, one_connection_that_comes_up_brings_the_others) {
    char *database = pg_new_migrated_database();
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", pg_database_of(database));
    struct rig *rig = rig_open_url(database, url, NULL, 0);
    struct queue *queue = rig->queue;
    rig_wait_ready(rig);
    open_a_lane(rig);
    int count = 0;
    LIST_EACH(link, &queue->channels) {
        count++;
    }
    cr_assert_eq(count, 4);
    proxy_set_mode(proxy, PROXY_REFUSE);
    proxy_cut(proxy);
    int64_t deadline = clock_now_ms(&clock_boottime) + 60000;
    while (!all_wait_long(queue)) {
        cr_assert(clock_now_ms(&clock_boottime) < deadline, "they do not wait longer and longer");
        uv_run(&rig->loop, UV_RUN_ONCE);
    }
    proxy_set_mode(proxy, PROXY_FORWARD);
    deadline = clock_now_ms(&clock_boottime) + 1200;
    conn_hurry(queue->duty.conn);
    while (!all_are_free(queue)) {
        cr_assert(clock_now_ms(&clock_boottime) < deadline, "one waits out its back-off");
        uv_run(&rig->loop, UV_RUN_ONCE);
    }
    rig_close(rig);
    proxy_stop(proxy);
    free(url);
}

/* The commit was made, its answer is lost: what is sent again is known. */
Test(store_duties, a_tick_whose_answer_is_lost_is_uncertain_and_idempotent) {
    char *database = pg_new_migrated_database();
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", pg_database_of(database));
    struct rig *rig = rig_open_url(database, url, NULL, 0);
    rig_wait_ready(rig);
    int64_t task = rig_submit(rig, "k", "1");
    rig_submit(rig, "k2", "1");
    cr_assert_eq(rig_claim(rig, 0, 1, 101)->count, 1);
    struct store_chain chain = {.task = task,
                                .claim = 101,
                                .count = 1,
                                .first_stage = rig->stages[0],
                                .pipeline = rig->pipeline,
                                .revision = 1,
                                .ending = STORE_NEXT};
    struct store_claim claim = {.pipeline = rig->pipeline,
                                .stage = rig->stages[0],
                                .count = 5,
                                .claim = 102,
                                .from_front = true};
    struct store_tick tick = {
        .node = RIG_NODE, .chain_count = 1, .chains = &chain, .claim_count = 1, .claims = &claim};
    proxy_set_mode(proxy, PROXY_HOLD_REPLIES);
    rig_send_tick(rig, &tick);
    while (rig_int(rig, "select count(*) from pgstage.task where status = 'ready' and stage = %d",
                   rig->stages[1]) == 0) {
        rig_run_for(rig, 5);
    }
    int ready = rig->ready;
    proxy_cut(proxy);
    proxy_set_mode(proxy, PROXY_FORWARD);
    rig_wait(rig, &rig->ticks, 2);
    cr_assert_eq(rig->tick_answer.code, STATUS_UNCERTAIN);
    struct error why = ERROR_NONE;
    if (!rig->ops.tick_ready(rig->ops.context)) {
        cr_assert_eq(rig->ops.tick(rig->ops.context, &tick, NULL, NULL, &why), STATUS_AGAIN);
    }
    rig_wait(rig, &rig->ready, ready + 1);
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    cr_assert_eq(rig->tick_answer.verdicts[0].answer, STORE_APPLIED);
    /* The claim is known: its tasks are not given twice, but released as unknown. */
    cr_assert_eq(rig->tick_answer.claimed[0].count, 0);
    cr_assert_eq(
        rig->ops.release_unknown(rig->ops.context, RIG_NODE, 0, NULL, rig_on_done, rig, &why),
        STATUS_OK);
    rig_wait(rig, &rig->dones, 1);
    cr_assert_eq(rig->done_answer.count, 1);
    rig_close(rig);
    proxy_stop(proxy);
    free(url);
}

/* The database is away: calls wait a bounded time and say so; ticks are not taken; and it closes.
 */
Test(store_duties, calls_are_answered_while_nothing_can_be_reached) {
    char *database = pg_new_migrated_database();
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", pg_database_of(database));
    proxy_set_mode(proxy, PROXY_REFUSE);
    struct rig *rig = rig_open_url(database, url, NULL, 300);
    struct store_hold hold = {.task = 1, .claim = 1};
    struct store_tick tick = {.node = RIG_NODE, .hold_count = 1, .holds = &hold};
    cr_assert_not(rig->ops.tick_ready(rig->ops.context));
    cr_assert_eq(rig->ops.tick(rig->ops.context, &tick, NULL, NULL, &err), STATUS_AGAIN);
    beat(rig, RIG_NODE, 1000);
    cr_assert_eq(rig->beat_answer.code, STATUS_UNAVAILABLE);
    lead(rig, RIG_NODE, false, false);
    cr_assert_eq(rig->lead_answer.code, STATUS_UNAVAILABLE);
    struct store_effect effect = {
        .chain = {.task = 1, .claim = 1, .count = 1, .ending = STORE_NEXT}};
    struct store_effects effects = {.node = RIG_NODE, .count = 1, .effects = &effect};
    cr_assert_eq(rig_effects(rig, &effects), STATUS_UNAVAILABLE);
    cr_assert_not(rig->ops.lane_ready(rig->ops.context, 0));
    /* It comes back, and so does everything else. */
    proxy_set_mode(proxy, PROXY_FORWARD);
    rig_wait_ready(rig);
    beat(rig, RIG_NODE, 1000);
    cr_assert_eq(rig->beat_answer.code, STATUS_OK);
    /* Closed with calls that wait and calls in flight. */
    proxy_set_mode(proxy, PROXY_BLACKHOLE);
    rig_expect_at_close(rig, &rig->beats, rig->beats + 1);
    rig_expect_at_close(rig, &rig->leads, rig->leads + 1);
    rig_expect_at_close(rig, &rig->effects, rig->effects + 1);
    cr_assert_eq(rig->ops.beat(rig->ops.context, RIG_NODE, 1, rig_on_beat, rig, &err), STATUS_OK);
    cr_assert_eq(rig->ops.lead(rig->ops.context, RIG_NODE, 1, false, false, rig_on_lead, rig, &err),
                 STATUS_OK);
    rig_send_effects(rig, 1, &effects);
    rig_close(rig);
    proxy_stop(proxy);
    free(url);
}

/* A peer that takes and never answers: the request time-out takes the connection down. */
Test(store_duties, a_silent_peer_is_left_after_the_request_time_out) {
    char *database = pg_new_migrated_database();
    struct proxy *proxy = proxy_start(pg_socket_path());
    char *url = proxy_url(proxy, "127.0.0.1", pg_database_of(database));
    struct rig *rig = rig_open_url(database, url, NULL, 400);
    rig_wait_ready(rig);
    struct store_effect effect = {
        .chain = {.task = 1, .claim = 1, .count = 1, .ending = STORE_NEXT}};
    struct store_effects effects = {.node = RIG_NODE, .count = 1, .effects = &effect};
    cr_assert_eq(rig_effects(rig, &effects), STATUS_OK);
    proxy_set_mode(proxy, PROXY_BLACKHOLE);
    rig_send_effects(rig, 0, &effects);
    beat(rig, RIG_NODE, 1000);
    cr_assert_eq(rig->beat_answer.code, STATUS_UNCERTAIN);
    rig_wait(rig, &rig->effects, 2);
    cr_assert_eq(rig->effects_answer.code, STATUS_UNAVAILABLE, "a look writes nothing");
    proxy_cut(proxy);
    proxy_set_mode(proxy, PROXY_FORWARD);
    rig_close(rig);
    proxy_stop(proxy);
    free(url);
}

Test(store_duties, closes_at_once_after_it_was_made) {
    char *database = pg_new_migrated_database();
    struct rig *rig = rig_open_url(database, database, NULL, 0);
    rig_close(rig);
    struct uv_loop_s loop;
    cr_assert_eq(uv_loop_init(&loop), 0);
    struct queue_options options = {
        .url = "host=/x port=nonsense", .clock = &clock_boottime, .random = &random_system};
    struct store_events events = {0};
    struct store_ops ops;
    struct queue *queue = NULL;
    enum status code = queue_create(&loop, &options, &events, &ops, &queue, &err);
    cr_assert(code != STATUS_OK || queue != NULL);
    if (code == STATUS_OK) {
        queue_close(queue, NULL, NULL);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
}
