/* prune_test.c - pgstage prune, and the leader that does it by itself. */
#include <string.h>

#include "base/clock.h"
#include "rig.h"
#include "support/pg.h"

/* Done: a, b. Failed: bad, all two days ago. Ready: r. */
static void begin(void) {
    cli_begin();
    make_pipeline();
    write_file("l", "{\"key\":\"a\"}\n{\"key\":\"b\"}\n{\"key\":\"bad\"}\n");
    cli("submit lib --from l");
    process();
    pg_exec(cli_url(), "update pgstage.task set end_time = end_time - interval '2 days';"
                       "update pgstage.failure set at = at - interval '2 days'");
    cli("submit lib r");
}

TestSuite(prune, .init = begin, .fini = cli_end, .timeout = 120);

static void expect_true_counts(void) {
    cr_expect_eq(number("select count(*) from (select pipeline, stage, status, sum(n) as n from (select * from "
                        "pgstage.task_count union all select * from pgstage.task_count_delta) c group by 1, 2, 3) c full "
                        "join (select pipeline, stage, status, count(*) as n from pgstage.task group by 1, 2, 3) t "
                        "using (pipeline, stage, status) where coalesce(c.n, 0) <> coalesce(t.n, 0)"),
                 0);
}

Test(prune, as_asked_for) {
    cli_refuses(4, "lib: 2 done tasks, older than 1d", "prune lib --status done --older-than 1d");
    cli_prints("0 tasks and 0 failed runs forgotten\n", "prune lib --status done --older-than 3d");
    cli_prints("0 tasks and 1 failed run forgotten\n", "prune lib --status errors --older-than 1d --yes");
    cli_prints("2 tasks and 0 failed runs forgotten\n", "prune lib --status done --older-than 1d --yes");
    cr_expect_eq(number("select count(*) from pgstage.task"), 2);
    expect_true_counts();
    cli_prints("new (version 1)\n", "submit lib a --updated-at 2001-01-01T00:00:00Z");
}

Test(prune, as_the_definition_says) {
    cli_prints("0 tasks and 0 failed runs forgotten\n", "prune");
    write_file("lib.yaml", "pipeline: lib\nretention: {done: 1d, errors: 36h}\nstages:\n  - {name: first, sql: select 1}\n"
                           "  - {name: second, sql: select 1}\n");
    cli_prints("pipeline 'lib' is at revision 2\n", "apply lib.yaml");
    struct run *run = cli("prune");
    cr_expect_eq(run->status, 4);
    cr_expect_str_eq(run->err, "lib: 2 done tasks, older than 1d\nlib: 1 failed run, older than 1d12h\n"
                               "a document that was done is new when it is submitted again, and runs again, whatever its stamp\n"
                               "pgstage: say --yes to forget them\n");
    cli_prints("{\"tasks\": 2, \"failed_runs\": 1}\n", "prune lib --yes --json");
    expect_true_counts();
}

/* Nothing of the page was done: it is sent again, but not for ever. */
Test(prune, a_deadlock_is_tried_again) {
    pg_exec(cli_url(), "create sequence tries; create function clash() returns trigger language plpgsql as $$ begin"
                       " if nextval('public.tries') < 5 then raise 'deadlock detected' using errcode = '40P01'; end if;"
                       " return null; end $$;"
                       "create trigger clash before delete on pgstage.task for each statement execute function clash()");
    cli_prints("2 tasks and 0 failed runs forgotten\n", "prune lib --status done --older-than 1d --yes");
    expect_true_counts();
    pg_exec(cli_url(), "alter sequence tries minvalue -1000 restart -1000");
    struct run *run = cli("prune lib --status failed --older-than 1d --yes");
    cr_expect_eq(run->status, 3);
    cr_expect(has(run->err, "deadlock detected"), "%s", run->err);
    cr_expect_eq(number("select count(*) from pgstage.task where key = 'bad'"), 1);
}

/* Rows of failed runs, and statuses of which there is nothing to forget, are no documents that would run again. */
Test(prune, tells_only_what_it_would_do) {
    write_file("lib.yaml", "pipeline: lib\nretention: {done: 30d, errors: 36h}\nstages:\n  - {name: first, sql: select 1}\n"
                           "  - {name: second, sql: select 1}\n");
    cli_prints("pipeline 'lib' is at revision 2\n", "apply lib.yaml");
    struct run *run = cli("prune");
    cr_expect_eq(run->status, 4);
    cr_expect_str_eq(run->err, "lib: 1 failed run, older than 1d12h\npgstage: say --yes to forget them\n");
}

Test(prune, the_leader_does_it_by_itself) {
    write_file("lib.yaml", "pipeline: lib\nretention: {done: 1d}\nstages:\n  - {name: first, sql: select 1}\n"
                           "  - {name: second, sql: select 1}\n");
    node_start("lib.yaml");
    int64_t deadline_ms = clock_now_ms(&clock_boottime) + 60000;
    while (number("select count(*) from pgstage.task where key in ('a', 'b')") > 0) {
        cr_assert(clock_now_ms(&clock_boottime) < deadline_ms);
    }
    node_stop();
    cr_expect_eq(number("select count(*) from pgstage.task where key in ('r', 'bad')"), 2);
    expect_true_counts();
}

Test(prune, wrong_words) {
    cli_refuses(2, "pgstage prune: --status and --older-than go together; without them it is as the definitions say",
                "prune lib --status done");
    cli_refuses(2, "pgstage prune: --status wants done, failed, cancelled or errors, not 'ready'",
                "prune lib --status ready --older-than 1d");
    cli_refuses(2, "pgstage prune: --status and --older-than go together; without them it is as the definitions say",
                "prune lib --older-than 1d");
    cli_refuses(2, "pgstage prune: --older-than wants a duration such as 10s, 5m or 1h30m, not 'x'",
                "prune lib --status done --older-than x");
    cli_refuses(2, "pgstage prune: --status and --older-than want a pipeline", "prune --status done --older-than 1d");
    cli_refuses(2, "pgstage: there is no pipeline 'lab'; did you mean 'lib'?", "prune lab");
}
