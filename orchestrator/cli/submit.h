/* submit.h - the parts of pgstage submit: one document, JSON lines, and the wait for one document's end.
 */
#ifndef CLI_SUBMIT_H
#define CLI_SUBMIT_H

#include "cli/command.h"

enum { PAYLOAD_MAX = 128 << 20 };

/* Reads args' --from. */
enum exit_status submit_lines(const struct args *args, struct db_sync *db);

/* Waits until that version of the document, or a newer one, is at its end, and prints what its last stage returned. */
enum exit_status submit_wait(const struct args *args, struct session *session, int64_t version);

/* ---- a period of a task's own ---- */

/* A duration from one second to 52 weeks, or "none" (0). */
#define PERIOD_FORM "a duration from 1s to 52w, like 6h, or none"
bool submit_read_period(const char *text, int64_t *ms);

/* The period that a task has: 0 when it has none, -1 when there is no such task. `again` (of 64 bytes, or NULL): its next time. */
enum status submit_find_period(struct db_sync *db, const char *pipeline, const char *key, int64_t *ms, char *again,
                               struct error *err) MUST_CHECK;

/* ---- rights ---- */

/* Whether this session's role may do more than submit; asked before anything is. */
struct submit_rights {
    bool waits, periods;
};
enum status submit_find_rights(struct db_sync *db, struct submit_rights *rights, struct error *err) MUST_CHECK;
#define WAIT_WANTS "--wait reads the task, which this role may not: pgstage_orchestrator is wanted"
#define PERIOD_WANTS "this role may not set periods: pgstage_orchestrator is wanted"

#endif
