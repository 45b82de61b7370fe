/* summary_test.c - what `run --until-idle` says while it waits, and at its end. */
#include <stdlib.h>
#include <string.h>

#include "rig.h"

TestSuite(summary, .init = cli_begin, .fini = cli_end, .timeout = 120);

Test(summary, failures_of_earlier_runs_are_told_apart) {
    make_pipeline();
    cli("submit lib bad1");
    process();
    cli("submit lib bad2");
    struct run *run = cli("run lib.yaml --until-idle --log error");
    cr_expect(has(run->out, ", 1 failed\n  1 failed in second: division by zero  (for instance bad2)\n"
                            "  1 failed before in second: division by zero  (for instance bad1)\n"),
              "%s", run->out);
}

/* The quick one is done at once; the slow one's work counts, though its document goes on elsewhere. */
Test(summary, time_is_until_the_last_run) {
    write_file("p.yaml", "pipeline: p\nstages:\n  - name: a\n    workers: 2\n"
                         "    command: [sh, -c, 'test \"$1\" = slow && exec sleep 1; echo \"{{\\\"finish\\\": true}}\" "
                         ">\"$PGSTAGE_RESULT_FILE\"', sh, '{key}']\n  - {name: b, sql: select 1}\n");
    cli("apply p.yaml");
    cli("submit p quick");
    cli("submit p slow");
    struct run *run = cli("run p.yaml --until-idle --only a --log error");
    cr_expect_eq(run->status, 0, "%s", run->err);
    const char *in = strstr(run->out, "1 document in ");
    cr_assert_not_null(in, "%s", run->out);
    cr_expect_geq(strtod(in + strlen("1 document in "), NULL), 1, "%s", run->out);
}

Test(summary, tells_for_what_it_waits) {
    write_file("p.yaml", "pipeline: p\nstages:\n  - name: a\n    sql: select 1 / 0\n"
                         "    retry: {attempts: 2, first: 4s, jitter: 0%}\n");
    cli("apply p.yaml");
    cli("submit p doc");
    struct run *run = cli("run p.yaml --until-idle --log info");
    const char *told = strstr(run->err, "run.waits tasks=1 for=\"their time, or another node\"\n");
    cr_assert_not_null(told, "%s", run->err);
    cr_expect_null(strstr(told + 1, "run.waits"), "now and then: %s", run->err);
    run = cli("run p.yaml --until-idle --log info");
    cr_expect(!has(run->err, "run.waits"), "%s", run->err);
}

Test(summary, what_is_stuck_is_not_nothing) {
    make_pipeline();
    cli("submit lib doc");
    cli("pause lib/first");
    struct run *run = cli("run lib.yaml --until-idle --log error");
    cr_expect_str_eq(run->out, "0 documents done\n");
    cr_expect(has(run->err, "1 task cannot go on: stage 'first' is paused; resume it, and run again\n"), "%s", run->err);
}
