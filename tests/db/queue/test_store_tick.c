/* The tick of the store: completions, claims, news, and what PostgreSQL refuses. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "db/sync.h"
#include "rig.h"

TestSuite(store_tick, .timeout = 120);

static struct store_chain chain_of(const struct rig *rig, int64_t task, int64_t claim,
                                   enum store_ending ending) {
    return (struct store_chain){.task = task,
                                .claim = claim,
                                .first_stage = rig->stages[0],
                                .pipeline = rig->pipeline,
                                .revision = 1,
                                .ending = ending};
}

Test(store_tick, claims_completes_and_tells_in_the_order_of_the_request) {
    struct rig *rig = rig_open();
    int64_t first = rig_submit(rig, "k1", "{\"n\":1}");
    int64_t second = rig_submit(rig, "k2", "null");
    rig_exec(rig, "update pgstage.task set payload = null where key = 'k2'");
    const struct store_claimed *claimed = rig_claim(rig, 0, 10, 41);
    cr_assert_eq(claimed->count, 2);
    cr_assert_str_eq(claimed->tasks[0].key, "k1");
    cr_assert_str_eq(claimed->tasks[0].payload.data, "{\"n\": 1}");
    cr_assert_null(claimed->tasks[0].input.data);
    cr_assert_null(claimed->tasks[1].payload.data);
    cr_assert_eq(claimed->tasks[0].version, 1);

    /* In falling order of ids; the second stays, and is told that it was superseded. */
    struct store_text outputs[] = {{"{\"a\":\"x\\\"y\\\\z\"}", 15}, {NULL, 0}};
    struct store_chain chains[] = {chain_of(rig, second, 41, STORE_STAY),
                                   chain_of(rig, first, 41, STORE_NEXT)};
    chains[0].count = 1;
    chains[0].outputs = &outputs[1];
    chains[1].count = 1;
    chains[1].outputs = &outputs[0];
    rig_submit(rig, "k2", "2");
    struct store_hold hold = {.task = second, .claim = 41};
    struct store_claim claim = {.pipeline = rig->pipeline,
                                .stage = rig->stages[1],
                                .previous_stage = rig->stages[0],
                                .count = 5,
                                .claim = 42,
                                .from_front = true};
    struct store_stat stat = {.stage = rig->stages[0], .runs = 2, .failed = 0, .run_us = 10, .waits = 2, .wait_us = 5};
    stat.run_buckets[7] = 2;
    stat.wait_buckets[127] = 1;
    stat.wait_buckets[0] = 1;
    int64_t drop = 40;
    struct store_tick tick = {.node = RIG_NODE,
                              .chain_count = 2,
                              .claim_count = 1,
                              .drop_count = 1,
                              .stat_count = 1,
                              .hold_count = 1,
                              .chains = chains,
                              .claims = &claim,
                              .drops = &drop,
                              .stats = &stat,
                              .stat_node = RIG_NODE,
                              .stat_seq = 1,
                              .holds = &hold};
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    const struct store_verdict *verdicts = rig->tick_answer.verdicts;
    cr_assert_eq(verdicts[0].answer, STORE_ACCEPTED);
    cr_assert(verdicts[0].running);
    cr_assert_eq(verdicts[0].step, 1);
    cr_assert_eq(verdicts[1].answer, STORE_ACCEPTED);
    cr_assert_not(verdicts[1].running);
    cr_assert_eq(verdicts[1].stage, rig->stages[1]);
    cr_assert_eq(rig->tick_answer.claimed[0].count, 1);
    cr_assert_str_eq(rig->tick_answer.claimed[0].tasks[0].input.data, "{\"a\": \"x\\\"y\\\\z\"}");
    cr_assert_eq(rig->tick_answer.told_count, 1);
    cr_assert(rig->tick_answer.told[0].superseded);
    cr_assert_not(rig->tick_answer.told[0].cancelled);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.stage_stat where runs = 2 and waits = 2 and wait_us = 5 and "
                              "run_buckets = '{519}' and wait_buckets = '{256,383}'"),
                 1);
    rig_close(rig);
}

/* Two claims of a stage in a tick: the oldest first, then the most urgent. */
Test(store_tick, claims_the_longest_ready_and_what_a_limit_leaves) {
    struct rig *rig = rig_open();
    for (int i = 0; i < 6; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        rig_submit(rig, key, "1");
        rig_exec(rig, "update pgstage.task set priority = -%d where key = '%s'", i, key);
    }
    struct store_claim claims[2] = {
        {.pipeline = rig->pipeline, .stage = rig->stages[0], .count = 1, .fair = true, .claim = 61, .from_front = true},
        {.pipeline = rig->pipeline, .stage = rig->stages[0], .count = 1, .claim = 62, .from_front = true}};
    struct store_tick tick = {.node = RIG_NODE, .claim_count = 2, .claims = claims};
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    cr_assert_eq(rig->tick_answer.claimed[0].count, 1);
    cr_assert_str_eq(rig->tick_answer.claimed[0].tasks[0].key, "k0");
    cr_assert_str_eq(rig->tick_answer.claimed[1].tasks[0].key, "k5");
    rig_exec(rig, "update pgstage.stage set max_running = 3");
    claims[0] = (struct store_claim){
        .pipeline = rig->pipeline, .stage = rig->stages[0], .count = 4, .limited = true, .claim = 63, .from_front = true};
    tick.claim_count = 1;
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    cr_assert_eq(rig->tick_answer.claimed[0].count, 1);
    cr_assert_not(rig->tick_answer.claimed[0].busy);
    /* Somebody else is claiming there. */
    struct db_sync *other = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(rig->url, "other", &other, &err), STATUS_OK, "%s", err.text);
    char lock[120];
    snprintf(lock, sizeof lock, "begin; select pg_advisory_xact_lock(1885827948, %d)", rig->stages[0]);
    cr_assert_eq(sync_script(other, lock, &err), STATUS_OK, "%s", err.text);
    claims[0].claim = 64;
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    cr_assert_eq(rig->tick_answer.claimed[0].count, 0);
    cr_assert(rig->tick_answer.claimed[0].busy);
    sync_close(other);
    rig_close(rig);
}

Test(store_tick, starts_a_claim_where_the_last_one_ended) {
    struct rig *rig = rig_open();
    for (int i = 0; i < 4; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        rig_submit(rig, key, "1");
    }
    const struct store_claimed *claimed = rig_claim(rig, 0, 2, 51);
    cr_assert_eq(claimed->count, 2);
    struct store_claim claim = {.pipeline = rig->pipeline,
                                .stage = rig->stages[0],
                                .count = 9,
                                .claim = 52,
                                .from_priority = claimed->tasks[1].priority,
                                .from_ready_at = claimed->tasks[1].ready_at};
    struct store_tick tick = {.node = RIG_NODE, .claim_count = 1, .claims = &claim};
    /* A task that is ready before that instant waits for a claim from the front. */
    rig_exec(rig,
             "update pgstage.task set ready_at = ready_at - interval '1 hour' where key = 'k3'");
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK);
    cr_assert_eq(rig->tick_answer.claimed[0].count, 1);
    cr_assert_str_eq(rig->tick_answer.claimed[0].tasks[0].key, "k2");
    cr_assert_eq(rig_claim(rig, 0, 9, 53)->count, 1);
    rig_close(rig);
}

/* C72, C73: one document's content fails that document alone, and nothing else of the tick is lost.
 */
struct refused {
    const char *data;
    size_t length;
};

Test(store_tick, finds_the_chain_whose_output_cannot_be_stored) {
    static const struct refused refused[] = {
        {"\"a\\u0000b\"", 10}, {"\"\0\"", 3},   {"\"\xff\"", 3}, {"{", 1}, {"", 0},
        {"\"\\ud800\"", 8},    {"1e999999", 8},
    };
    enum { TASKS = 7 };
    struct rig *rig = rig_open();
    int64_t tasks[TASKS];
    for (int i = 0; i < TASKS; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        tasks[i] = rig_submit(rig, key, "1");
    }
    cr_assert_eq(rig_claim(rig, 0, TASKS, 61)->count, TASKS);
    for (int bad = 0; bad < TASKS; bad++) {
        struct store_chain chains[TASKS];
        struct store_text outputs[TASKS];
        for (int i = 0; i < TASKS; i++) {
            chains[i] = chain_of(rig, tasks[i], 61, STORE_NEXT);
            chains[i].count = 1;
            outputs[i] = (struct store_text){"{\"fine\":true}", 13};
            chains[i].outputs = &outputs[i];
        }
        outputs[bad] = (struct store_text){refused[bad].data, refused[bad].length};
        struct store_tick tick = {.node = RIG_NODE, .chain_count = TASKS, .chains = chains};
        cr_assert_eq(rig_tick(rig, &tick), STATUS_INVALID, "%d: %s", bad,
                     rig->tick_answer.error.text);
        cr_assert_eq(rig->tick_answer.bad_chain, bad, "%d: %s", bad, rig->tick_answer.error.text);
        cr_assert_eq(rig_int(rig, "select count(*) from pgstage.task where status = 'running'"),
                     TASKS);
        /* The tick without it goes through at once. */
        cr_assert(rig->ops.tick_ready(rig->ops.context));
    }
    rig_close(rig);
}

Test(store_tick, finds_one_of_several_bad_outputs) {
    struct rig *rig = rig_open();
    int64_t task = rig_submit(rig, "k", "1");
    cr_assert_eq(rig_claim(rig, 0, 1, 62)->count, 1);
    struct store_text outputs[] = {{"1", 1}, {"x", 1}, {"y", 1}};
    struct store_chain chain = chain_of(rig, task, 62, STORE_NEXT);
    chain.count = 3;
    chain.outputs = outputs;
    struct store_tick tick = {.node = RIG_NODE, .chain_count = 1, .chains = &chain};
    cr_assert_eq(rig_tick(rig, &tick), STATUS_INVALID);
    cr_assert_eq(rig->tick_answer.bad_chain, 0);
    outputs[1] = outputs[2] = outputs[0];
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.output"), 3);
    rig_close(rig);
}

/* C73: whatever a handler wrote can be stored. C35: no delay is too long. */
Test(store_tick, stores_any_failure_text_and_any_delay) {
    struct rig *rig = rig_open();
    int64_t task = rig_submit(rig, "k", "1");
    cr_assert_eq(rig_claim(rig, 0, 1, 63)->count, 1);
    static char detail[1 << 20];
    for (size_t i = 0; i < sizeof detail - 1; i++) {
        detail[i] = (char)(i % 255 + 1);
    }
    struct store_chain chain = chain_of(rig, task, 63, STORE_DELAYED);
    chain.attempts = 1;
    chain.delay_ms = INT64_MAX;
    chain.kind = "error";
    chain.reason = "\xff\xfe\x1b[31m \xed\xa0\x80 \xf0\x9f\x98";
    chain.detail = detail;
    struct store_tick tick = {.node = RIG_NODE, .chain_count = 1, .chains = &chain};
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    cr_assert_eq(rig->tick_answer.verdicts[0].answer, STORE_ACCEPTED);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.failure where octet_length(detail) "
                              "between 16000 and 16384"),
                 1);
    cr_assert_eq(
        rig_int(rig,
                "select count(*) from pgstage.task where due_at > now() + interval '99 years'"),
        1);
    rig_close(rig);
}

static struct store_progress progress_of(const struct rig *rig, int64_t task, int64_t claim, double fraction,
                                         const char *text) {
    return (struct store_progress){
        .task = task, .claim = claim, .stage = rig->stages[0], .fraction = fraction, .text = text};
}

Test(store_tick, keeps_progress_and_gives_it_back_with_the_next_claim) {
    struct rig *rig = rig_open();
    int64_t first = rig_submit(rig, "k1", "1"), second = rig_submit(rig, "k2", "1");
    cr_assert_not(rig_claim(rig, 0, 2, 71)->tasks[0].has_progress_row);
    static char text[4000] = "page 4 \xff\x01";
    memset(text + 9, 'x', sizeof text - 10);
    struct store_progress said[] = {progress_of(rig, second, 71, 7.5, text), progress_of(rig, first, 70, 0.25, "stray"),
                                    progress_of(rig, first, 71, 0.25, NULL)};
    struct store_chain chains[] = {chain_of(rig, first, 71, STORE_RELEASE), chain_of(rig, second, 71, STORE_RELEASE)};
    struct store_tick tick = {
        .node = RIG_NODE, .progress_count = 3, .progress = said, .chain_count = 2, .chains = chains};
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    cr_assert(rig->tick_answer.kept[0]);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.progress where octet_length(text) between 1000 and 1024"), 1);
    const struct store_claimed *claimed = rig_claim(rig, 0, 2, 72);
    cr_assert(claimed->tasks[0].has_progress && claimed->tasks[0].has_progress_row);
    cr_assert_eq(claimed->tasks[0].progress, 0.25);
    cr_assert_str_eq(claimed->tasks[0].progress_text, "");
    cr_assert_eq(claimed->tasks[1].progress, 1.0);
    cr_assert_eq(strncmp(claimed->tasks[1].progress_text, "page 4 ", 7), 0);
    /* The newer version has not come so far; its first stage takes the row away. */
    chains[0].claim = 72;
    tick = (struct store_tick){.node = RIG_NODE, .chain_count = 1, .chains = chains};
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK);
    rig_submit(rig, "k1", "2");
    claimed = rig_claim(rig, 0, 1, 73);
    cr_assert(claimed->tasks[0].has_progress_row);
    cr_assert_not(claimed->tasks[0].has_progress);
    chains[0] = chain_of(rig, first, 73, STORE_NEXT);
    chains[0].count = 1;
    chains[0].outputs = &(struct store_text){NULL, 0};
    chains[0].has_progress = true;
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK);
    cr_assert_eq(rig_int(rig, "select count(*) from pgstage.progress"), 1);
    rig_close(rig);
}

/* Stages 0 and 1 of the task, each with the name of the stage in upper case as its output. */
static void run_two_stages(struct rig *rig, int64_t task, int64_t claim, bool silent) {
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(rig_claim(rig, i, 1, claim + i)->count, 1);
        struct store_text output = {i == 0 ? "{\"n\": 12345678901234567890.10}" : "\"B\"", i == 0 ? 30 : 3};
        if (i == 1 && silent) {
            output = (struct store_text){0};
        }
        struct store_chain chain = chain_of(rig, task, claim + i, STORE_NEXT);
        chain.first_stage = rig->stages[i];
        chain.count = 1;
        chain.outputs = &output;
        struct store_tick tick = {.node = RIG_NODE, .chain_count = 1, .chains = &chain};
        cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    }
}

Test(store_tick, gives_the_outputs_that_a_stage_asks_for_by_name) {
    struct rig *rig = rig_open();
    run_two_stages(rig, rig_submit(rig, "k1", "1"), 80, false);
    int64_t second = rig_submit(rig, "k2", "1");
    run_two_stages(rig, second, 82, true);
    int stages[] = {rig->stages[1], rig->stages[0]};
    const char *names[] = {"b", "first-one"};
    struct store_inputs inputs = {2, stages, names};
    for (int fair = 0; fair < 2; fair++) {
        struct store_claim claims[] = {
            {.pipeline = rig->pipeline, .stage = rig->stages[0], .count = 5, .claim = 90 + fair, .from_front = true},
            {.pipeline = rig->pipeline, .stage = rig->stages[2], .previous_stage = rig->stages[1], .count = 5,
             .fair = fair == 1, .claim = 85 + fair, .from_front = true, .inputs = &inputs}};
        struct store_tick tick = {.node = RIG_NODE, .claim_count = 2, .claims = claims};
        cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
        const struct store_claimed *claimed = &rig->tick_answer.claimed[1];
        cr_assert_eq(claimed->count, 2);
        cr_assert_str_eq(claimed->tasks[0].inputs.data, "{\"b\":\"B\",\"first-one\":{\"n\": 12345678901234567890.10}}");
        cr_assert_eq(claimed->tasks[0].inputs.length, strlen(claimed->tasks[0].inputs.data));
        cr_assert_str_eq(claimed->tasks[1].inputs.data, "{\"b\":null,\"first-one\":{\"n\": 12345678901234567890.10}}");
        if (fair == 0) {
            struct error err = ERROR_NONE;
            cr_assert_eq(rig->ops.release_unknown(rig->ops.context, RIG_NODE, 0, NULL, rig_on_done, rig, &err), STATUS_OK);
            rig_wait(rig, &rig->dones, 1);
        }
    }
    /* The same for tasks that are held; one claim is not ours. */
    struct store_fetch fetches[] = {{second, 86, &inputs}, {second, 85, &inputs}};
    struct store_tick tick = {.node = RIG_NODE, .fetch_count = 2, .fetches = fetches};
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    cr_assert_str_eq(rig->tick_answer.fetched[0].data, "{\"b\":null,\"first-one\":{\"n\": 12345678901234567890.10}}");
    tick.fetch_count = 1;
    tick.fetches = &fetches[1];
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK);
    cr_assert_null(rig->tick_answer.fetched[0].data);
    rig_close(rig);
}

/* on_update: finish. */
Test(store_tick, keeps_a_claim_for_a_newer_version) {
    struct rig *rig = rig_open();
    int64_t first = rig_submit(rig, "k1", "1"), second = rig_submit(rig, "k2", "1");
    cr_assert_eq(rig_claim(rig, 0, 2, 95)->count, 2);
    rig_submit(rig, "k2", "2");
    struct store_text none = {0};
    struct store_chain chains[] = {chain_of(rig, first, 95, STORE_KEEP), chain_of(rig, second, 95, STORE_KEEP)};
    chains[0].count = chains[1].count = 1;
    chains[0].outputs = chains[1].outputs = &none;
    struct store_tick tick = {.node = RIG_NODE, .chain_count = 2, .chains = chains};
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    cr_assert_not(rig->tick_answer.verdicts[0].running);
    cr_assert(rig->tick_answer.verdicts[1].running);
    cr_assert_eq(rig->tick_answer.verdicts[1].stage, rig->stages[1]);
    rig_close(rig);
}

Test(store_tick, refuses_an_empty_tick_and_a_task_named_twice) {
    struct rig *rig = rig_open();
    struct error err = ERROR_NONE;
    struct store_tick empty = {.node = RIG_NODE};
    cr_assert_eq(rig->ops.tick(rig->ops.context, &empty, NULL, NULL, &err), STATUS_INVALID);
    struct store_chain chains[] = {chain_of(rig, 5, 1, STORE_NEXT),
                                   chain_of(rig, 5, 1, STORE_NEXT)};
    struct store_tick twice = {.node = RIG_NODE, .chain_count = 2, .chains = chains};
    error_clear(&err);
    cr_assert_eq(rig->ops.tick(rig->ops.context, &twice, NULL, NULL, &err), STATUS_INVALID);
    cr_assert(rig->ops.tick_ready(rig->ops.context));
    rig_close(rig);
}

Test(store_tick, takes_one_at_a_time) {
    struct rig *rig = rig_open();
    struct store_hold hold = {.task = 1, .claim = 1};
    struct store_tick tick = {.node = RIG_NODE, .hold_count = 1, .holds = &hold};
    rig_send_tick(rig, &tick);
    cr_assert_not(rig->ops.tick_ready(rig->ops.context));
    struct error err = ERROR_NONE;
    cr_assert_eq(rig->ops.tick(rig->ops.context, &tick, NULL, NULL, &err), STATUS_AGAIN);
    cr_assert_eq(
        rig->ops.release_unknown(rig->ops.context, RIG_NODE, 0, NULL, rig_on_done, rig, &err),
        STATUS_AGAIN);
    rig_wait(rig, &rig->ticks, 1);
    cr_assert_eq(rig->tick_answer.told_count, 0);
    rig_close(rig);
}

Test(store_tick, answers_what_is_in_flight_when_it_closes) {
    struct rig *rig = rig_open();
    struct store_hold hold = {.task = 1, .claim = 1};
    struct store_tick tick = {.node = RIG_NODE, .hold_count = 1, .holds = &hold};
    rig_send_tick(rig, &tick);
    rig_expect_at_close(rig, &rig->ticks, 1);
    rig_close(rig);
}

/* Ledger trouble that no content explains is not blamed on a task. */
Test(store_tick, does_not_blame_a_chain_for_a_broken_schema) {
    struct rig *rig = rig_open();
    int64_t task = rig_submit(rig, "k", "1");
    cr_assert_eq(rig_claim(rig, 0, 1, 64)->count, 1);
    struct store_chain chain = chain_of(rig, task, 64, STORE_NEXT);
    chain.count = 1;
    struct store_tick tick = {.node = RIG_NODE, .chain_count = 1, .chains = &chain};
    rig_exec(rig, "alter table pgstage.failure rename to gone");
    cr_assert_eq(rig_tick(rig, &tick), STATUS_INTERNAL);
    cr_assert_eq(rig->tick_answer.bad_chain, -1);
    rig_exec(rig, "alter table pgstage.gone rename to failure");
    cr_assert_eq(rig_tick(rig, &tick), STATUS_OK, "%s", rig->tick_answer.error.text);
    rig_close(rig);
}
