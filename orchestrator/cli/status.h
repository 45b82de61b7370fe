/* status.h - what pgstage status reads from the database at one time.
 */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include "base/buf.h"
#include "cli/command.h"

struct status_view {
    const char *pipeline; /* only this one; NULL: all. Borrowed */
    struct db_result *stages, *nodes, *health;
    struct db_result *schedules; /* those that need a person; NULL: none */
    struct db_result *oldest; /* claims that are older than a minute; NULL: there is none */
};

/* Columns of sql/statements/status.sql, status_nodes.sql, status_oldest.sql, status_schedules.sql and
 * status_health.sql. */
enum {
    STAGE_PIPELINE,
    STAGE_NAME,
    STAGE_POSITION,
    STAGE_PAUSED,
    STAGE_READY,
    STAGE_RUNNING,
    STAGE_DELAYED,
    STAGE_WAITING,
    STAGE_DONE,
    STAGE_FAILED,
    STAGE_CANCELLED,
    STAGE_RUNS_PER_MINUTE,
    STAGE_FAILED_PER_MINUTE,
    STAGE_MEAN_MS,
    STAGE_OLDEST_MS,
    STAGE_REQUIRES,
};
enum { NODE_ID, NODE_HOST, NODE_PID, NODE_STARTED, NODE_UP_MS, NODE_ALIVE, NODE_LEADS, NODE_CLAIMS, NODE_NOTES };
enum { OLDEST_PIPELINE, OLDEST_STAGE, OLDEST_KEY, OLDEST_AGE_MS, OLDEST_NODE, OLDEST_PID, OLDEST_HOST };
enum { SCHEDULE_PIPELINE, SCHEDULE_NAME, SCHEDULE_TICK, SCHEDULE_ERROR, SCHEDULE_OVERDUE_MS };
enum { HEALTH_DELTAS, HEALTH_HOLDER_PID, HEALTH_HOLDER_MS, HEALTH_NOTIFY_PERCENT };

/* Something that a person should know. Borrowed for the call; pipeline and stage NULL: it is about no single one. */
struct status_warning {
    const char *pipeline, *stage, *text;
};

/* Calls `each` for every warning. */
void status_warnings(const struct status_view *view, void (*each)(void *context, const struct status_warning *warning),
                     void *context);

/* The view as a page of text (colours when wanted), and as one JSON document. */
void status_write_text(const struct status_view *view, bool colour, struct buf *out);
void status_write_json(const struct status_view *view, struct buf *out);

#endif
