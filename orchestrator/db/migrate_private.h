/* migrate_private.h - for the tests of migrate.c: its parts that take time or a list. */
#ifndef DB_MIGRATE_PRIVATE_H
#define DB_MIGRATE_PRIVATE_H

#include "db/migrate.h"
#include "sql/migrations.h"

/* The one lock of all migrators of a database. */
#define MIGRATE_LOCK_KEY 8100213407529161827

struct migrate_plan {
    const struct sql_migration *migrations; /* in rising order of their numbers */
    int count;
    int64_t lock_timeout_ms;
};

enum status migrate_apply(struct db_sync *db, const struct migrate_plan *plan, int *applied,
                          struct error *err) MUST_CHECK;
enum status migrate_compare(struct db_sync *db, const struct migrate_plan *plan,
                            struct error *err) MUST_CHECK;

#endif
