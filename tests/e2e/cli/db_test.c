/* db_test.c - pgstage db. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

TestSuite(db, .init = cli_begin, .fini = cli_end, .timeout = 300);

Test(db, url_is_that_of_the_database_a_command_would_use) {
    char line[512];
    snprintf(line, sizeof line, "%s\n", cli_url());
    cli_prints(line, "db url");
    cli_prints("postgresql://somewhere/x\n", "db url --database postgresql://somewhere/x");
    cli_prints("postgresql://somewhere/x\n", "db --database postgresql://somewhere/x url");
    struct run *run = shell("unset PGSTAGE_DATABASE_URL; PGHOST=somewhere exec \"$PGSTAGE\" db url");
    cr_expect_str_eq(run->out, "postgresql://\n");
}

Test(db, psql_gets_the_rest_of_the_line) {
    cli_prints("1\n", "db psql -X -A -t -c 'select 1'");
    cli_prints("2\n", "db psql -- -X -A -t -c 'select 2'");
    cli_prints("3\n", "db psql -X -A -t --set x=3 -f - <<'E'\nselect :x;\nE");
    struct run *run = cli("db psql -X -A -t -c 'select current_database()'");
    cr_expect(has(cli_url(), first_line(run->out)), "%s", run->out);
}

Test(db, psql_decides_the_exit_status) {
    struct run *run = cli("db psql -X -c 'selec'");
    cr_expect_eq(run->status, 1);
    cr_expect(has(run->err, "syntax error"), "%s", run->err);
    run = cli("db psql -X -v ON_ERROR_STOP=1 -f - <<'E'\nselec;\nE");
    cr_expect_eq(run->status, 3);
    run = shell("PATH=/nowhere exec \"$PGSTAGE\" db psql");
    cr_expect_eq(run->status, 2);
    cr_expect_str_eq(run->err, "pgstage: there is no psql in PATH: install PostgreSQL's client programs\n");
}

Test(db, a_password_is_on_no_command_line_and_in_no_message) {
    struct run *run = shell("PGSTAGE_DATABASE_URL=\"$PGSTAGE_DATABASE_URL&password=canary\" exec \"$PGSTAGE\" db psql -X -A "
                            "-t -c '\\! echo $PGPASSWORD; tr \"\\0\" \" \" </proc/$PPID/cmdline'");
    cr_expect_str_eq(first_line(run->out), "canary", "%s%s", run->out, run->err);
    cr_expect(!has(run->out + 6, "canary"), "%s", run->out);
    cr_expect(has(run->out, "psql"), "%s", run->out);
    run = shell("PGSTAGE_DATABASE_URL='postgresql://u:can@ary@/x' exec \"$PGSTAGE\" db psql -X -c 'select 1'");
    cr_expect_neq(run->status, 0);
    cr_expect(!has(run->err, "ary"), "%s", run->err);
}

Test(db, the_embedded_one_starts_and_stops) {
    unsetenv("PGSTAGE_DATABASE_URL");
    struct run *run = cli("db stop");
    cr_expect_str_eq(run->out, "the embedded database does not run\n", "%s", run->err);
    run = cli("db start");
    cr_expect_str_eq(run->out, "the embedded database runs until `pgstage db stop`\n", "%s", run->err);
    cr_expect_eq(run->status, 0);
    run = cli("db psql -X -A -t -c 'select current_database()'");
    cr_expect_str_eq(run->out, "pgstage\n", "%s", run->err);
    run = cli("db url");
    cr_expect(has(run->out, "dbname=pgstage"), "%s", run->out);
    cr_expect_str_empty(run->err);
    run = cli("status");
    cr_expect(has(run->out, "no pipelines yet"), "the schema is made at the first use: %s", run->err);
    run = cli("db stop");
    cr_expect_str_eq(run->out, "the embedded database has stopped\n", "%s", run->err);
    run = cli("db url");
    cr_expect_str_eq(run->err, "pgstage: it runs only while pgstage uses it; `pgstage db start` keeps it running\n");
}
