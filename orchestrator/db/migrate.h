/* migrate.h - the schema `pgstage`: made and brought up to date from sql/schema/, one transaction a migration.
 *
 * Safe when ten processes start at once: a transaction-scoped advisory lock, taken with a time-out whose error names the
 * pid that holds it. A killed migrator leaves nothing half-done.
 */
#ifndef DB_MIGRATE_H
#define DB_MIGRATE_H

#include "base/error.h"
#include "db/sync.h"

/* Applies what is missing; *applied (may be NULL) is how many. CONFLICT when the schema is too new for this program. */
enum status migrate_up(struct db_sync *db, int *applied, struct error *err) MUST_CHECK;

/* Makes the roles (sql/schema/0007_roles.sql) and gives them this schema, which is up to date. Again: nothing changes. */
enum status migrate_roles(struct db_sync *db, struct error *err) MUST_CHECK;

/* OK when the schema is what this program needs, or a newer one that works with it; NOT_FOUND when there is none; CONFLICT (older or newer) with a text that
 * says what to do. */
enum status migrate_check(struct db_sync *db, struct error *err) MUST_CHECK;

#endif
