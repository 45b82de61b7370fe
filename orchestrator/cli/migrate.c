/* migrate.c - pgstage migrate: makes the schema, or brings it up to date; the roles on demand. */
#include "db/migrate.h"

#include <stdio.h>

#include "cli/command.h"
#include "cli/output.h"
#include "sql/migrations.h"

/* The same steps for psql on an empty database: with them recorded, `pgstage migrate` finds nothing left to do. */
static void print_script(bool with_roles) {
    puts("begin;\ncreate schema if not exists pgstage;\n"
         "create table pgstage.schema_migration (number int primary key, name text not null, "
         "applied_at timestamptz not null default pg_catalog.now(), compatible int);");
    for (int i = 0; i < sql_migration_count; i++) {
        printf("\n%s\ninsert into pgstage.schema_migration (number, name, compatible) values (%d, '%s', %d);\n",
               sql_migrations[i].text, sql_migrations[i].number, sql_migrations[i].name, sql_migrations[i].compatible);
    }
    printf("\nselect pgstage.settle_rights();\n%scommit;\n", with_roles ? "select pgstage.make_roles();\n" : "");
}

static enum exit_status run_migrate(const struct args *args) {
    if (args_has(args, "print")) {
        print_script(args_has(args, "roles"));
        return EXIT_OK;
    }
    struct session session;
    enum exit_status status = session_open_raw(args, &session);
    if (status != EXIT_OK) {
        return status;
    }
    struct error err = ERROR_NONE;
    int applied = 0;
    if (migrate_up(session.db, &applied, &err) != STATUS_OK) {
        status = report_error(&err);
    } else if (applied == 0) {
        puts("the schema is up to date");
    } else {
        printf("%d migration%s applied\n", applied, text_plural(applied));
    }
    if (status == EXIT_OK && args_has(args, "roles")) {
        if (migrate_roles(session.db, &err) != STATUS_OK) {
            status = report_error(&err);
        } else {
            puts("pgstage_owner owns the schema; grant pgstage_orchestrator, pgstage_enqueuer and pgstage_viewer to your roles");
        }
    }
    session_close(&session);
    return status;
}

static const struct option_spec options[] = {
    {"print", NULL, "print the SQL instead of running it"},
    {"roles", NULL, "make the roles owner, orchestrator, enqueuer and viewer, and give them their rights; wants a role that may create roles"},
    {0},
};

const struct command command_migrate = {
    .name = "migrate",
    .usage = "[--print] [--roles]",
    .summary = "make the schema, or bring it up to date",
    .options = options,
    .run = run_migrate,
};
