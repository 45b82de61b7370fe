/* migrate_test.c - the schema and the roles by hand, and what commands may do as each role. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rig.h"

TestSuite(migrate, .init = cli_begin, .fini = cli_end, .timeout = 120);

Test(migrate, what_it_prints_makes_the_same_schema) {
    struct run *run = shell("$PGSTAGE migrate --print --roles >schema.sql && "
                            "psql -X -q -v ON_ERROR_STOP=1 -c 'drop schema pgstage cascade' -f schema.sql "
                            "\"$PGSTAGE_DATABASE_URL\" >psql.log 2>&1 || { cat psql.log >&2; exit 1; }");
    cr_assert_eq(run->status, 0, "%s", run->err);
    cli_prints("the schema is up to date\n", "migrate");
    cr_expect_eq(number("select count(*) from pg_class where relnamespace = 'pgstage'::regnamespace"
                        " and relowner <> 'pgstage_owner'::regrole"),
                 0);
    make_pipeline();
    process();
}

/* The URL of a new role that has been granted this one. Ownership: free() it. */
static char *as_member_of(const char *role) {
    const char *user = strstr(cli_url(), "user=postgres");
    cr_assert_not_null(user);
    int64_t n = number("select oid::bigint from pg_database where datname = current_database()");
    char *name = mem_format("m_%s_%lld", role, (long long)n);
    char *sql = mem_format("create role %s login; grant %s to %s; select ''", name, role, name);
    free(text(sql));
    char *url = mem_format("%.*suser=%s", (int)(user - cli_url()), cli_url(), name);
    free(sql);
    free(name);
    return url;
}

static void expect(const char *url, int status, const char *arguments) {
    struct run *run = cli("%s --database '%s'", arguments, url);
    cr_expect_eq(run->status, status, "%s: %d, %s%s", arguments, run->status, run->out, run->err);
    cr_expect_eq(status == 0, !has(run->err, "permission denied"), "%s: %s", arguments, run->err);
    cr_expect_eq(status == 0, !has(run->err, "\nhint: this role lacks rights on the schema pgstage; see pgstage migrate --roles: "),
                 "%s: %s", arguments, run->err);
}

Test(migrate, commands_work_as_far_as_their_role_may) {
    make_pipeline();
    cr_assert_eq(cli("migrate --roles")->status, 0);
    char *enqueuer = as_member_of("pgstage_enqueuer"), *viewer = as_member_of("pgstage_viewer");
    expect(enqueuer, 0, "submit lib k1 --payload '{\"a\": 1}' --in 1s");
    expect(enqueuer, 0, "submit lib k1 --updated-at 2020-01-01T00:00:00Z"); /* unchanged */
    expect(enqueuer, 2, "status");
    expect(enqueuer, 2, "show lib k1");
    write_file("lines", "{\"key\": \"k2\", \"payload\": {\"a\": 2}}\n");
    expect(enqueuer, 0, "submit lib --from lines");
    expect(viewer, 0, "status");
    expect(viewer, 0, "tasks lib");
    expect(viewer, 0, "errors lib");
    expect(viewer, 2, "show lib k1");
    expect(viewer, 2, "submit lib k3");
    expect(viewer, 2, "cancel lib k1");
    expect(viewer, 2, "apply lib.yaml");
    expect(viewer, 2, "check lib.yaml --against-db");
    expect(viewer, 2, "migrate --roles");
    free(enqueuer);
    free(viewer);
}

/* What a role may not do is found out before anything is submitted. */
Test(migrate, an_enqueuer_neither_waits_nor_sets_periods) {
    make_pipeline();
    cr_assert_eq(cli("migrate --roles")->status, 0);
    char *enqueuer = as_member_of("pgstage_enqueuer"), *runner = as_member_of("pgstage_orchestrator");
    cli_refuses(2, "pgstage: --wait reads the task, which this role may not: pgstage_orchestrator is wanted; nothing was submitted",
                "submit lib k --wait --database '%s'", enqueuer);
    cli_refuses(2, "pgstage: --every: this role may not set periods: pgstage_orchestrator is wanted; nothing was submitted",
                "submit lib k --every 1h --database '%s'", enqueuer);
    write_file("l", "{\"key\": \"a\"}\n{\"key\": \"b\", \"every\": \"1h\"}\n");
    struct run *run = cli_refuses(2, "l:2: every: this role may not set periods: pgstage_orchestrator is wanted",
                                  "submit lib --from l --database '%s'", enqueuer);
    cr_expect(has(run->err, "\nnothing was submitted\n"), "%s", run->err);
    cr_expect_eq(number("select count(*) from pgstage.task"), 0);
    run = cli("submit lib k --wait --timeout 0s --every 1h --database '%s'", runner);
    cr_expect_eq(run->status, 1, "%s", run->err);
    cr_expect_eq(number("select count(*) from pgstage.periodic"), 1);
    cli_prints("unchanged: not newer than the stored one; --if-changed takes any change\n",
               "submit lib k --updated-at 2001-01-01T00:00:00Z --database '%s'", enqueuer);
    free(enqueuer);
    free(runner);
}
