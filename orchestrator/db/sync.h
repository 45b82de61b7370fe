/* sync.h - a blocking connection for commands; never used on the loop.
 *
 * Thread rule: one thread at a time (source scans may use one in the thread pool). No reconnecting: a failure is the
 * command's answer. Errors carry PostgreSQL's message, detail and hint; never a password.
 */
#ifndef DB_SYNC_H
#define DB_SYNC_H

#include "base/error.h"
#include "db/result.h"

struct db_sync; /* opaque */

/* With several hosts: to the one that writes; while none does, to one that can be read. */
enum status sync_open(const char *url, const char *role, struct db_sync **db, struct error *err) MUST_CHECK;
void sync_close(struct db_sync *db);
bool sync_has_own_session(const struct db_sync *db); /* false: a pooler stands between */

/* One statement; `name` as in conn.h. Ownership: *result is freed with sync_result_free; may be NULL when not wanted. */
enum status sync_run(struct db_sync *db, const char *name, const char *text, int param_count,
                     const struct db_param *params, struct db_result **result, struct error *err) MUST_CHECK;
/* Several statements in one string, no parameters, no results (migrations, BEGIN, COMMIT). */
enum status sync_script(struct db_sync *db, const char *text, struct error *err) MUST_CHECK;
void sync_result_free(struct db_result *result);
/* Waits for a NOTIFY or the deadline. Units: milliseconds. OK in both cases. */
enum status sync_wait(struct db_sync *db, int64_t timeout_ms, struct error *err) MUST_CHECK;

#endif
