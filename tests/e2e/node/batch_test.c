/* batch_test.c - stages whose handler gets many tasks at once, through the whole program and its database. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rig.h"
#include "support/pg.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(batch, .init = init, .fini = finish, .timeout = 180);

static void begin(const char *stages) {
    char *text = mem_format("pipeline: p\ndefaults: {retry: {attempts: 3, first: 100ms, jitter: 0%%}}\nstages:\n%s", stages);
    rig_write(&rig, "p.yaml", text);
    free(text);
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    pg_exec(rig.url, "create table seen (key text)");
}

static void stop(void) {
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    rig_check_counts(&rig);
}

/* Tasks of one batch: outputs, statements, routes and failures are each one's own. */
Test(batch, every_task_has_its_own_result) {
    begin("  - {name: read, handler: '%H:pass', workers: 2}\n"
          "  - {name: embed, handler: '%H:spoiled', batch: {size: 64, wait: 500ms}}\n"
          "  - {name: review, handler: '%H:pass'}\n"
          "  - {name: last, handler: '%H:pass'}\n");
    rig_submit(&rig, "plain", 20, "{}");
    rig_submit(&rig, "sql", 20, "{\"sql\": true}");
    rig_submit(&rig, "route", 20, "{\"route\": \"last\"}");
    rig_submit(&rig, "fail", 4, "{\"fail\": true}");
    rig_start(&rig, 0, "--lease 5s --log warn");
    rig_await(&rig, "select count(*) from pgstage.task where status in ('done', 'failed')", 64);
    const char *const outputs = "pgstage.output o join pgstage.task t on t.id = o.task join pgstage.stage s on s.id = o.stage";
    char sql[512];
    snprintf(sql, sizeof sql, "select count(*) from %s where s.name = 'embed' and o.value ->> 'key' = t.key", outputs);
    cr_expect_eq(rig_number(&rig, sql), 60);
    snprintf(sql, sizeof sql, "select (sum(1.0 / (o.value ->> 'of')::int) <= 8)::int from %s where s.name = 'embed'", outputs);
    cr_expect_eq(rig_number(&rig, sql), 1, "64 tasks in more than 8 calls");
    snprintf(sql, sizeof sql, "select count(*) from %s where s.name = 'review' and t.key not like 'route%%'", outputs);
    cr_expect_eq(rig_number(&rig, sql), 40);
    snprintf(sql, sizeof sql, "select count(*) from %s where s.name = 'review'", outputs);
    cr_expect_eq(rig_number(&rig, sql), 40, "those that were routed passed by");
    cr_expect_eq(rig_number(&rig, "select count(distinct key) from seen where key like 'sql%'"), 20);
    cr_expect_eq(rig_number(&rig, "select count(*) from seen"), 20);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure f join pgstage.task t on t.id = f.task where"
                                  " f.kind = 'permanent' and t.key like 'fail%' and f.error_text = t.key || ' alone'"),
                 4);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure"), 4);
    stop();
}

/* One that kills every batch that it is in: it alone is blamed, three times and once more alone; nobody else notices. */
Test(batch, one_that_crashes_costs_itself_alone) {
    begin("  - {name: embed, handler: '%H:spoiled', batch: {size: 64, wait: 300ms}}\n");
    rig_submit(&rig, "good", 63, "{}");
    rig_submit(&rig, "bad", 1, "{\"spoil\": \"segv\"}");
    rig_start(&rig, 0, "--lease 5s --log info");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 63);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'failed' and key = 'bad1' and crashes = 4", 1);
    cr_expect_eq(rig_number(&rig, "select sum(attempt + crashes + rescues) from pgstage.task where key <> 'bad1'"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure f join pgstage.task t on t.id = f.task where"
                                  " t.key = 'bad1' and f.error_text like '%crashed: signal 11 (SIGSEGV)%'"),
                 4);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure"), 4);
    rig_await_log(&rig, 0, "batch.split");
    stop();
}

/* A stop, and a pause, do not wait for a batch to fill: what is gathered is not begun. */
Test(batch, what_is_gathered_goes_back) {
    begin("  - {name: embed, handler: '%H:spoiled', batch: {size: 64, wait: 1h}}\n");
    rig_submit(&rig, "doc", 3, "{}");
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 3);
    cr_assert_eq(rig_run(&rig, NULL, "pause p/embed"), 0);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'ready'", 3);
    cr_assert_eq(rig_run(&rig, NULL, "resume p/embed"), 0);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'running'", 3);
    stop();
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'ready' and attempt = 0"
                                  " and crashes = 0 and rescues = 0"),
                 3);
}

/* One that comes alone waits for as long as it may, and no longer. */
Test(batch, a_late_one_is_not_kept_waiting) {
    begin("  - {name: embed, handler: '%H:spoiled', batch: {size: 64, wait: 400ms}}\n");
    rig_start(&rig, 0, "--lease 5s --log warn");
    rig_submit(&rig, "first", 1, "{}");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 1);
    rig_submit(&rig, "late", 1, "{}");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 2);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where end_time - begin_time between"
                                  " interval '350 ms' and interval '5 s'"),
                 2);
    cr_expect_eq(rig_number(&rig, "select sum((value ->> 'of')::int) from pgstage.output"), 2);
    stop();
}

static double seconds_of(const char *stages) {
    begin(stages);
    rig_submit(&rig, "doc", 256, "{}");
    int64_t began_ms = rig_now_ms();
    cr_assert_eq(rig_run(&rig, NULL, "run p.yaml --until-idle --log warn"), 0);
    int64_t took_ms = rig_now_ms() - began_ms;
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'done'"), 256);
    return (double)took_ms / 1000;
}

/* 20 ms a call, whether it is for one or for many: 256 documents are 5 s of calls, or a tenth of a second. */
Test(batch, calls_are_saved) {
    double took = seconds_of("  - {name: embed, handler: '%H:embed', batch: {size: 64, wait: 200ms}}\n");
    cr_expect_eq(rig_number(&rig, "select (sum(1.0 / (value ->> 'of')::int) < 12)::int from pgstage.output"), 1);
    cr_expect_lt(took, 4.0, "%.1f s", took);
    cr_log_info("256 documents in batches of up to 64: %.2f s", took);
    /* The time of a call is counted once, whatever the number of tasks in it. */
    cr_expect_eq(rig_number(&rig, "select (sum(run_us) between 80000 and 2000000)::int from pgstage.stage_stat"), 1);
}
