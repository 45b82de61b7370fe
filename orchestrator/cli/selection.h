/* selection.h - which tasks a command means: the filter options that `tasks`, retry, cancel and rerun share.
 */
#ifndef CLI_SELECTION_H
#define CLI_SELECTION_H

#include "base/buf.h"
#include "cli/command.h"

/* Part of the option table of every command that selects. */
#define SELECTION_OPTIONS \
    {"status", "STATUS", "ready, running, delayed, waiting, done, failed or cancelled"}, \
        {"stage", "STAGE", "that stand at this stage"}, \
        {"key", "PATTERN", "whose key matches: * and ? are wild"}, \
        {"error", "PATTERN", "whose reason matches; without * and ?: contains it"}, \
        {"older-than", "DURATION", "that nothing has happened to for that long"}

struct selection {
    const char *pipeline, *status, *stage; /* borrowed; NULL: any */
    struct buf key_like, error_like;
    bool by_key, by_error, by_age;
    bool open_only; /* none that is done or cancelled */
    char older_than_ms[24];
    int64_t cursor; /* ids up to it were given */
};

/* Columns of a page. */
enum {
    FOUND_ID,
    FOUND_KEY,
    FOUND_STAGE,
    FOUND_STATUS,
    FOUND_VERSION,
    FOUND_ATTEMPT,
    FOUND_PRIORITY,
    FOUND_TASK_UPDATED_AT,
    FOUND_UPDATED,
    FOUND_DUE_AT,
    FOUND_ERROR_TEXT,
    FOUND_LEFT = FOUND_VERSION, /* of selection_ended_periods: how many there were in all from here on */
};

/* Reads the options; a mistake is printed. Finish it in any case. */
enum exit_status selection_read(const struct args *args, struct selection *selection);
void selection_finish(struct selection *selection);
/* No filter was given. */
bool selection_is_everything(const struct selection *selection);

/* The next tasks in id order. Ownership: the caller frees the result. */
enum status selection_page(struct selection *selection, struct db_sync *db, int limit, struct db_result **page,
                           struct error *err) MUST_CHECK;
/* The same of tasks at their end whose period would run them again. Columns: to FOUND_STATUS, and FOUND_LEFT. */
enum status selection_ended_periods(struct selection *selection, struct db_sync *db, int limit, struct db_result **page,
                                    struct error *err) MUST_CHECK;
void selection_rewind(struct selection *selection);
enum status selection_count(const struct selection *selection, struct db_sync *db, int64_t *count,
                            struct error *err) MUST_CHECK;

/* Tasks with these keys: rows as of a page. */
enum status selection_by_keys(struct db_sync *db, const char *pipeline, int count, char *const *keys,
                              struct db_result **page, struct error *err) MUST_CHECK;
/* Those of them that selection_ended_periods would give. */
enum status selection_ended_by_keys(struct db_sync *db, const char *pipeline, int count, char *const *keys,
                                    struct db_result **page, struct error *err) MUST_CHECK;

/* Prints what is wrong with a key: empty, longer than 1,024 bytes, not UTF-8. */
bool key_check(const struct args *args, const char *key);

#endif
