/* What `run` finds out of its database before it registers anything: the way to it, and the connections there are. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/run_database.h"
#include "rig.h"
#include "support/pg.h"

TestSuite(room, .init = rig_begin, .fini = rig_end, .timeout = 120);

static struct session session;

/* As a role that gets 8 connections. */
static struct db_sync *open_limited(void) {
    const char *database = pg_database_of(rig_url), *user = strstr(rig_url, "user=postgres");
    char *sql = mem_format("create role few_%s superuser login connection limit 8", database);
    char *url = mem_format("%.*suser=few_%s", (int)(user - rig_url), rig_url, database);
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    pg_exec(rig_url, sql);
    cr_assert_eq(sync_open(url, "test", &db, &err), STATUS_OK, "%s", err.text);
    free(sql);
    free(url);
    return db;
}

static enum exit_status check(const char *stages, bool elsewhere, bool pooled) {
    struct definition definition = {0};
    struct config_report report = {0};
    struct error err = ERROR_NONE;
    char *text = mem_format("pipeline: p\n%s", stages);
    cr_assert_eq(pipeline_parse("/nowhere/p.yaml", text, strlen(text), &definition.def, &report, &err), STATUS_OK, "%s",
                 err.text);
    if (elsewhere) {
        definition.elsewhere = mem_alloc(sizeof *definition.elsewhere);
        definition.elsewhere[0] = true;
    }
    enum exit_status status = run_check_room(&session, &definition, 1, pooled);
    definition_finish(&definition);
    config_report_finish(&report);
    free(text);
    return status;
}

Test(room, what_the_role_does_not_get_is_refused) {
    session.db = open_limited();
    cr_expect_eq(check("stages: [{name: a, sql: select 1, workers: 5}]\n", false, false), EXIT_OK);
    cr_expect_eq(check("stages: [{name: a, sql: select 1, workers: 6}]\n", false, false), EXIT_REFUSED);
    cr_expect_eq(check("stages: [{name: a, sql: select 1, workers: 6}]\n", true, false), EXIT_OK, "others serve it");
    cr_expect_eq(check("stages: [{name: a, sql: select 1, workers: 6}]\n", false, true), EXIT_OK, "the pooler shares them");
    cr_expect_eq(check("stages: [{name: a, handler: 'x.so:x', workers: 6}]\n", false, false), EXIT_OK);
    sync_close(session.db);
}

/* All of the server's but none too many: what handlers and scans may want besides is not there. */
Test(room, what_is_scarce_is_said) {
    session.db = rig_db;
    cr_expect_eq(check("stages: [{name: a, sql: select 1, workers: 5}]\n", false, false), EXIT_OK);
    cr_expect(!rig_logged("connections.scarce"));
    cr_expect_eq(check("stages: [{name: a, sql: select 1, workers: 197}, {name: b, handler: 'x.so:x', workers: 1}]\n", false,
                       false), EXIT_OK);
    cr_expect(rig_logged("connections.scarce wanted=201 "));
    cr_expect_eq(check("source: {files: {path: /nowhere}}\nstages: [{name: a, sql: select 1, workers: 197},"
                       " {name: b, handler: 'x.so:x', workers: 9}]\n", false, false), EXIT_OK);
    cr_expect(rig_logged("connections.scarce wanted=203 "), "two for the SQL that handlers queue, one for scans");
}

static const char *listens_at(const char *option) {
    struct args args = rig_args(0, NULL, option == NULL ? NULL : "listen-database", option);
    struct node_options options = {0};
    cr_expect_eq(run_find_way(&args, &session, &options), EXIT_OK);
    cr_expect_str_eq(options.url, rig_url);
    cr_expect(!options.pooled);
    return options.listen_url;
}

Test(room, where_to_listen_is_said_by_the_option_or_the_environment) {
    session.db = rig_db;
    session.database.url = rig_url;
    char *same = mem_format("%s&application_name=x", rig_url), *another = pg_new_database();
    cr_expect_null(listens_at(NULL));
    setenv("PGSTAGE_LISTEN_DATABASE_URL", "", 1);
    cr_expect_null(listens_at(NULL));
    setenv("PGSTAGE_LISTEN_DATABASE_URL", same, 1);
    cr_expect_str_eq(listens_at(NULL), same);
    setenv("PGSTAGE_LISTEN_DATABASE_URL", another, 1);
    cr_expect_str_eq(listens_at(same), same);
    struct args args = rig_args(0, NULL, NULL, NULL);
    struct node_options options = {0};
    cr_expect_eq(run_find_way(&args, &session, &options), EXIT_WRONG, "notices of another database are no use");
    free(same);
    free(another);
}
