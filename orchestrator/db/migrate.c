/* migrate.c - one transaction a migration, each under the same transaction-scoped lock.
 *
 * Each migration says which is the oldest program that still works on the schema after it. A program works on a schema
 * that is newer than itself as long as every migration that it does not know says so.
 *
 * The lock is the first thing that a transaction takes, so "create unless it exists" cannot race,
 * and it goes with the transaction: a killed migrator leaves neither a lock nor half a migration.
 * What is missing is looked up anew under each lock, because another migrator may have been faster
 * in between.
 */
#include "db/migrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "db/migrate_private.h"

enum { LOCK_TIMEOUT_MS = 30000, DEADLOCKS_MAX = 5 };

static const char table_exists[] =
    "select exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n"
    " on n.oid = c.relnamespace where n.nspname = 'pgstage' and c.relname = 'schema_migration')";

static const char table_create[] = "create table pgstage.schema_migration ("
                                   " number int primary key,"
                                   " name text not null,"
                                   " applied_at timestamptz not null default pg_catalog.now(),"
                                   " compatible int)";

/* The first five migrations were recorded without it. */
static const char table_has_compatible[] =
    "select exists (select from pg_catalog.pg_attribute"
    " where attrelid = 'pgstage.schema_migration'::pg_catalog.regclass and attname = 'compatible')";
static const char table_add_compatible[] = "alter table pgstage.schema_migration add column compatible int";

/* "create schema if not exists" wants a privilege even when there is nothing to create. */
static const char schema_exists[] =
    "select exists (select from pg_catalog.pg_namespace where nspname = 'pgstage')";

/* pg_locks shows a 64-bit key as two halves, with objsubid 1. */
static const char lock_holder[] =
    "select l.pid from pg_catalog.pg_locks l where l.locktype = 'advisory' and l.granted"
    " and l.objsubid = 1 and (l.classid::bigint << 32 | l.objid::bigint) = $1::bigint"
    " and l.database = (select oid from pg_catalog.pg_database"
    " where datname = pg_catalog.current_database()) limit 1";

/* Whoever migrates for the owner of what is there makes objects that belong to the owner as well. */
static const char become_owner[] =
    "select pg_catalog.set_config('role', r.rolname, true) from pg_catalog.pg_class c"
    " join pg_catalog.pg_roles r on r.oid = c.relowner"
    " where c.oid = 'pgstage.schema_migration'::pg_catalog.regclass and r.rolname <> current_user"
    " and pg_catalog.pg_has_role(r.oid, 'MEMBER')";

static const char settles_rights[] =
    "select pg_catalog.to_regprocedure('pgstage.settle_rights()') is not null";

/* ---- looking ---- */

static enum status ask_bool(struct db_sync *db, const char *text, bool *answer, struct error *err) {
    struct db_result *result = NULL;
    enum status code = sync_run(db, NULL, text, 0, NULL, &result, err);
    if (code == STATUS_OK) {
        *answer = db_bool(result, 0, 0);
        sync_result_free(result);
    }
    return code;
}

/* number, and the oldest program that works with it. */
static enum status read_numbers(struct db_sync *db, struct db_result **numbers, struct error *err) {
    bool told = false;
    enum status code = ask_bool(db, table_has_compatible, &told, err);
    return code != STATUS_OK ? code
                             : sync_run(db, NULL,
                                        told ? "select number, coalesce(compatible, number) from pgstage.schema_migration"
                                               " order by number"
                                             : "select number, number from pgstage.schema_migration order by number",
                                        0, NULL, numbers, err);
}

static bool is_applied(const struct db_result *numbers, int number) {
    for (int row = 0; row < db_rows(numbers); row++) {
        if (db_int64(numbers, row, 0) == number) {
            return true;
        }
    }
    return false;
}

static int64_t highest_applied(const struct db_result *numbers) {
    int rows = db_rows(numbers);
    return rows == 0 ? 0 : db_int64(numbers, rows - 1, 0);
}

static int highest_known(const struct migrate_plan *plan) {
    return plan->count == 0 ? 0 : plan->migrations[plan->count - 1].number;
}

static const struct sql_migration *first_missing(const struct migrate_plan *plan,
                                                 const struct db_result *numbers) {
    for (int i = 0; i < plan->count; i++) {
        if (!is_applied(numbers, plan->migrations[i].number)) {
            return &plan->migrations[i];
        }
    }
    return NULL;
}

/* The oldest program that works on a schema with these migrations: of those that this program does not know, the one that
 * asks most decides. A row without the column, or with null in it, asks for its own number. */
static int64_t oldest_compatible(const struct migrate_plan *plan, const struct db_result *numbers) {
    int64_t oldest = 0;
    for (int row = 0; row < db_rows(numbers); row++) {
        int64_t asked = db_int64(numbers, row, 1);
        if (db_int64(numbers, row, 0) > highest_known(plan) && asked > oldest) {
            oldest = asked;
        }
    }
    return oldest;
}

static enum status refuse_newer(const struct migrate_plan *plan, const struct db_result *numbers,
                                struct error *err) {
    int64_t oldest = oldest_compatible(plan, numbers);
    if (oldest <= highest_known(plan)) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_CONFLICT,
                     "the database's pgstage schema (migration %" PRId64
                     ") is newer than this program (migration %d), and works with programs from migration %" PRId64
                     " on: use a newer pgstage",
                     highest_applied(numbers), highest_known(plan), oldest);
}

/* ---- applying ---- */

static void roll_back(struct db_sync *db) {
    (void)!sync_script(db, "rollback", NULL);
}

static void name_holder(struct db_sync *db, struct error *err) {
    char key[32];
    snprintf(key, sizeof key, "%lld", (long long)MIGRATE_LOCK_KEY);
    struct db_result *holder = NULL;
    if (sync_run(db, NULL, lock_holder, 1, &DB_TEXT(key), &holder, NULL) != STATUS_OK) {
        return;
    }
    if (err != NULL && db_rows(holder) > 0) {
        error_wrap(err, "another migration is running (server process %s)", db_value(holder, 0, 0));
    }
    sync_result_free(holder);
}

/* Begins a transaction that holds the lock; on an error none is open. */
static enum status begin_locked(struct db_sync *db, const struct migrate_plan *plan,
                                struct error *err) {
    char text[256];
    /* Read committed: with an older snapshot the look-ups below would not see what another migrator
     * did before it let the lock go. */
    snprintf(text, sizeof text,
             "begin isolation level read committed read write; set local lock_timeout = %" PRId64
             "; select pg_catalog.pg_advisory_xact_lock(%lld)",
             plan->lock_timeout_ms, (long long)MIGRATE_LOCK_KEY);
    struct error why = ERROR_NONE;
    enum status code = sync_script(db, text, &why);
    if (code == STATUS_OK) {
        return STATUS_OK;
    }
    roll_back(db);
    if (code == STATUS_TIMEOUT) {
        name_holder(db, &why);
    }
    if (err != NULL && err->code == STATUS_OK) {
        *err = why;
    }
    return code;
}

static enum status ensure_table(struct db_sync *db, struct error *err) {
    bool exists = false;
    enum status code = ask_bool(db, schema_exists, &exists, err);
    if (code == STATUS_OK && !exists) {
        code = sync_script(db, "create schema pgstage", err);
    }
    if (code == STATUS_OK) {
        code = ask_bool(db, table_exists, &exists, err);
    }
    if (code == STATUS_OK && !exists) {
        return sync_script(db, table_create, err);
    }
    if (code == STATUS_OK) {
        code = sync_run(db, NULL, become_owner, 0, NULL, NULL, err);
    }
    if (code == STATUS_OK) {
        code = ask_bool(db, table_has_compatible, &exists, err);
    }
    if (code == STATUS_OK && !exists) {
        code = sync_script(db, table_add_compatible, err);
    }
    return code;
}

/* What came with a migration is nobody's but the owner's until the rights are settled: in its own transaction. */
static enum status settle_rights(struct db_sync *db, struct error *err) {
    bool settles = false;
    enum status code = ask_bool(db, settles_rights, &settles, err);
    return code == STATUS_OK && settles ? sync_script(db, "select pgstage.settle_rights()", err) : code;
}

static enum status apply_migration(struct db_sync *db, const struct sql_migration *migration,
                                   struct error *err) {
    struct error why = ERROR_NONE;
    enum status code = sync_script(db, migration->text, &why);
    if (code == STATUS_OK) {
        char number[16], compatible[16];
        snprintf(number, sizeof number, "%d", migration->number);
        snprintf(compatible, sizeof compatible, "%d", migration->compatible);
        const struct db_param params[] = {DB_TEXT(number), DB_TEXT(migration->name), DB_TEXT(compatible)};
        code = sync_run(db, NULL,
                        "insert into pgstage.schema_migration (number, name, compatible) values ($1, $2, $3)", 3, params,
                        NULL, &why);
    }
    if (code == STATUS_OK) {
        code = settle_rights(db, &why);
    }
    if (code != STATUS_OK) {
        error_wrap(&why, "migration %s", migration->name);
        if (err != NULL && err->code == STATUS_OK) {
            *err = why;
        }
    }
    return code;
}

/* Within the lock: applies the first missing migration. *done: none was missing. */
static enum status apply_next(struct db_sync *db, const struct migrate_plan *plan, bool *done,
                              struct error *err) {
    enum status code = ensure_table(db, err);
    struct db_result *numbers = NULL;
    if (code == STATUS_OK) {
        code = read_numbers(db, &numbers, err);
    }
    if (code == STATUS_OK) {
        code = refuse_newer(plan, numbers, err);
    }
    if (code == STATUS_OK) {
        const struct sql_migration *next = first_missing(plan, numbers);
        *done = next == NULL;
        code = next == NULL ? STATUS_OK : apply_migration(db, next, err);
    }
    sync_result_free(numbers);
    return code;
}

struct step {
    const struct migrate_plan *plan;
    bool done; /* nothing was left to do */
};
typedef enum status step_run(struct db_sync *db, struct step *step, struct error *err);

static enum status apply_step(struct db_sync *db, struct step *step, struct error *err) {
    return apply_next(db, step->plan, &step->done, err);
}

static enum status roles_step(struct db_sync *db, struct step *step, struct error *err) {
    (void)step;
    return sync_script(db, "select pgstage.make_roles()", err);
}

static enum status try_step(struct db_sync *db, step_run *run, struct step *step, struct error *err) {
    enum status code = begin_locked(db, step->plan, err);
    if (code != STATUS_OK) {
        return code;
    }
    code = run(db, step, err);
    if (code == STATUS_OK) {
        code = sync_script(db, "commit", err);
    } else {
        roll_back(db);
    }
    return code;
}

/* One transaction under the lock. It takes locks on many tables that nodes are at work on: a deadlock with them is nobody's
 * mistake, and is tried again. */
static enum status run_step(struct db_sync *db, step_run *run, struct step *step, struct error *err) {
    struct error why = ERROR_NONE;
    enum status code = try_step(db, run, step, &why);
    for (int again = 0; code != STATUS_OK && strcmp(why.sqlstate, "40P01") == 0 && again < DEADLOCKS_MAX; again++) {
        error_clear(&why);
        code = try_step(db, run, step, &why);
    }
    if (code != STATUS_OK && err != NULL && err->code == STATUS_OK) {
        *err = why;
    }
    return code;
}

enum status migrate_apply(struct db_sync *db, const struct migrate_plan *plan, int *applied,
                          struct error *err) {
    int count = 0;
    enum status code = STATUS_OK;
    struct step step = {.plan = plan};
    while (code == STATUS_OK && !step.done) {
        code = run_step(db, apply_step, &step, err);
        count += code == STATUS_OK && !step.done;
    }
    if (applied != NULL) {
        *applied = count;
    }
    return code;
}

/* ---- comparing ---- */

enum status migrate_compare(struct db_sync *db, const struct migrate_plan *plan,
                            struct error *err) {
    bool exists = false;
    enum status code = ask_bool(db, table_exists, &exists, err);
    if (code != STATUS_OK) {
        return code;
    }
    if (!exists) {
        return error_set(err, STATUS_NOT_FOUND,
                         "the database has no pgstage schema: run `pgstage migrate`");
    }
    struct db_result *numbers = NULL;
    code = read_numbers(db, &numbers, err);
    if (code == STATUS_OK) {
        code = refuse_newer(plan, numbers, err);
    }
    if (code == STATUS_OK && first_missing(plan, numbers) != NULL) {
        code = error_set(err, STATUS_CONFLICT,
                         "the database's pgstage schema (migration %" PRId64
                         ") is older than this program (migration %d): run `pgstage migrate`",
                         highest_applied(numbers), highest_known(plan));
    }
    sync_result_free(numbers);
    return code;
}

enum status migrate_roles(struct db_sync *db, struct error *err) {
    struct migrate_plan plan = {.lock_timeout_ms = LOCK_TIMEOUT_MS};
    struct step step = {.plan = &plan};
    return run_step(db, roles_step, &step, err);
}

static struct migrate_plan embedded_plan(void) {
    return (struct migrate_plan){.migrations = sql_migrations,
                                 .count = sql_migration_count,
                                 .lock_timeout_ms = LOCK_TIMEOUT_MS};
}

enum status migrate_up(struct db_sync *db, int *applied, struct error *err) {
    struct migrate_plan plan = embedded_plan();
    return migrate_apply(db, &plan, applied, err);
}

enum status migrate_check(struct db_sync *db, struct error *err) {
    struct migrate_plan plan = embedded_plan();
    return migrate_compare(db, &plan, err);
}
