/* submit_period.c - submit --every: a period of a task's own, and who may set one. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/output.h"
#include "cli/submit.h"
#include "sql/statements.h"

enum { PERIOD_EVERY, PERIOD_AGAIN };
enum { RIGHT_WAITS, RIGHT_PERIODS };

bool submit_read_period(const char *text, int64_t *ms) {
    *ms = 0;
    return strcmp(text, "none") == 0 || (units_parse_duration(text, ms) && *ms >= 1000 && *ms <= 52 * UNITS_WEEK_MS);
}

enum status submit_find_period(struct db_sync *db, const char *pipeline, const char *key, int64_t *ms, char *again,
                               struct error *err) {
    struct db_param params[] = {DB_TEXT(pipeline), DB_TEXT(key)};
    struct db_result *result = NULL;
    enum status status = sync_run(db, NULL, sql_task_period.text, 2, params, &result, err);
    if (status != STATUS_OK) {
        return status;
    }
    bool has_one = db_rows(result) > 0 && !db_is_null(result, 0, PERIOD_EVERY);
    *ms = has_one ? db_int64(result, 0, PERIOD_EVERY) : db_rows(result) > 0 ? 0 : -1;
    if (has_one && again != NULL) {
        struct buf time;
        buf_init(&time, SIZE_MAX);
        text_time(&time, db_value(result, 0, PERIOD_AGAIN));
        snprintf(again, 64, "%s", time.data);
        buf_finish(&time);
    }
    sync_result_free(result);
    return STATUS_OK;
}

enum status submit_find_rights(struct db_sync *db, struct submit_rights *rights, struct error *err) {
    struct db_result *result = NULL;
    enum status status = sync_run(db, NULL, sql_rights.text, 0, NULL, &result, err);
    if (status == STATUS_OK) {
        rights->waits = db_bool(result, 0, RIGHT_WAITS);
        rights->periods = db_bool(result, 0, RIGHT_PERIODS);
        sync_result_free(result);
    }
    return status;
}
