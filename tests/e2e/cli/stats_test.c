/* stats_test.c - pgstage stats. */
#include <string.h>

#include "rig.h"
#include "support/pg.h"

static void begin(void) {
    cli_begin();
    make_pipeline();
}

TestSuite(stats, .init = begin, .fini = cli_end, .timeout = 120);

Test(stats, of_a_run) {
    struct run *run = cli("stats lib");
    cr_expect_eq(run->status, 0);
    cr_expect_str_eq(run->err, "nothing ran in that time\n");
    write_file("l", "{\"key\":\"a\"}\n{\"key\":\"b\"}\n{\"key\":\"bad\"}\n");
    cli("submit lib --from l");
    process();
    run = cli("stats lib --json");
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect(has(run->out, "{\"period\":null,\"stage\":\"first\",\"runs\":3,\"failed\":0,\"total_ms\":"), "%s", run->out);
    cr_expect(has(run->out, "{\"period\":null,\"stage\":\"second\",\"runs\":3,\"failed\":1,\"total_ms\":"), "%s", run->out);
    cr_expect(!has(run->out, "_ms\":null"), "%s", run->out);
    run = cli("stats lib --by day --since 2d");
    cr_expect(has(first_line(run->out), "SINCE "), "%s", run->out);
    cr_expect(has(first_line(run->out), " WAIT P95"), "%s", run->out);
    cr_expect(has(run->out, " second "), "%s", run->out);
}

/* Rows of a program that knew of no buckets count; what they did not say is left out. */
Test(stats, of_an_older_program) {
    pg_exec(cli_url(), "insert into pgstage.stage_stat (stage, minute, runs, failed, run_us) values "
                       "(1, date_trunc('minute', now()), 4, 1, 8000)");
    cli_prints("{\"period\":null,\"stage\":\"first\",\"runs\":4,\"failed\":1,\"total_ms\":8.000,\"mean_ms\":2.000,"
               "\"p50_ms\":null,\"p95_ms\":null,\"p99_ms\":null,\"wait_mean_ms\":null,\"wait_p95_ms\":null}\n",
               "stats lib --json");
}

Test(stats, wrong_words) {
    cli_refuses(2, "pgstage stats: --by wants hour, day or stage, not 'week'", "stats lib --by week");
    cli_refuses(2, "pgstage stats: --since wants a duration such as 10s, 5m or 1h30m, not 'x'", "stats lib --since x");
}
