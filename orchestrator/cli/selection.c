#include "cli/selection.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/output.h"
#include "cli/pattern.h"
#include "db/array.h"
#include "sql/statements.h"

enum { KEY_MAX = 1024 };

static bool is_status(const char *word) {
    static const char *const statuses[] = {"ready", "running", "delayed", "waiting", "done", "failed", "cancelled"};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (strcmp(statuses[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_text(const struct args *args, const char *name) {
    const char *value = args_get(args, name);
    if (value == NULL || utf8_is_valid(value, strlen(value))) {
        return true;
    }
    usage_error(args, "--%s is not UTF-8", name);
    return false;
}

enum exit_status selection_read(const struct args *args, struct selection *selection) {
    *selection = (struct selection){.pipeline = args->positional[0]};
    buf_init(&selection->key_like, SIZE_MAX);
    buf_init(&selection->error_like, SIZE_MAX);
    selection->status = args_get(args, "status");
    selection->stage = args_get(args, "stage");
    selection->by_key = args_has(args, "key");
    selection->by_error = args_has(args, "error");
    selection->by_age = args_has(args, "older-than");
    int64_t older_than_ms = 0;
    if (selection->status != NULL && !is_status(selection->status)) {
        return usage_error(args, "--status wants ready, running, delayed, waiting, done, failed or cancelled, not '%s'",
                           text_shown(selection->status));
    }
    if (!is_text(args, "stage") || !is_text(args, "key") || !is_text(args, "error") ||
        !args_duration(args, "older-than", &older_than_ms)) {
        return EXIT_WRONG;
    }
    if (selection->by_error && args_get(args, "error")[0] == '\0') { /* a variable of a script that is not set */
        return usage_error(args, "--error is empty, which would match every task that has a reason; to mean that, say '*'");
    }
    if (selection->by_key) {
        pattern_to_like(&selection->key_like, args_get(args, "key"));
    }
    if (selection->by_error) {
        pattern_to_like_within(&selection->error_like, args_get(args, "error"));
    }
    snprintf(selection->older_than_ms, sizeof selection->older_than_ms, "%" PRId64, older_than_ms);
    return EXIT_OK;
}

void selection_finish(struct selection *selection) {
    buf_finish(&selection->key_like);
    buf_finish(&selection->error_like);
}

bool selection_is_everything(const struct selection *selection) {
    return selection->status == NULL && selection->stage == NULL && !selection->by_key && !selection->by_error &&
           !selection->by_age;
}

static struct db_param text_or_null(const char *text) {
    return (struct db_param){.data = text};
}

/* The statements take the same parameters; the last one is find_tasks' alone. */
static int param_count(const struct sql_statement *statement) {
    return statement == &sql_find_tasks ? 10 : 9;
}

static enum status page_of(const struct sql_statement *statement, struct selection *selection, struct db_sync *db, int limit,
                           struct db_result **page, struct error *err) {
    char cursor[24], at_most[16];
    snprintf(cursor, sizeof cursor, "%" PRId64, selection->cursor);
    snprintf(at_most, sizeof at_most, "%d", limit);
    struct db_param params[] = {
        DB_TEXT(selection->pipeline),
        DB_NULL,
        text_or_null(selection->status),
        text_or_null(selection->stage),
        text_or_null(selection->by_key ? selection->key_like.data : NULL),
        text_or_null(selection->by_error ? selection->error_like.data : NULL),
        text_or_null(selection->by_age ? selection->older_than_ms : NULL),
        DB_TEXT(cursor),
        DB_TEXT(at_most),
        DB_TEXT(selection->open_only ? "true" : "false"),
    };
    enum status status = sync_run(db, NULL, statement->text, param_count(statement), params, page, err);
    if (status == STATUS_OK && db_rows(*page) > 0) {
        selection->cursor = db_int64(*page, db_rows(*page) - 1, FOUND_ID);
    }
    return status;
}

enum status selection_page(struct selection *selection, struct db_sync *db, int limit, struct db_result **page,
                           struct error *err) {
    return page_of(&sql_find_tasks, selection, db, limit, page, err);
}

enum status selection_ended_periods(struct selection *selection, struct db_sync *db, int limit, struct db_result **page,
                                    struct error *err) {
    return page_of(&sql_ended_periods, selection, db, limit, page, err);
}

void selection_rewind(struct selection *selection) {
    selection->cursor = 0;
}

enum status selection_count(const struct selection *selection, struct db_sync *db, int64_t *count, struct error *err) {
    struct db_param params[] = {
        DB_TEXT(selection->pipeline),
        text_or_null(selection->status),
        text_or_null(selection->stage),
        text_or_null(selection->by_key ? selection->key_like.data : NULL),
        text_or_null(selection->by_error ? selection->error_like.data : NULL),
        text_or_null(selection->by_age ? selection->older_than_ms : NULL),
        DB_TEXT(selection->open_only ? "true" : "false"),
    };
    struct db_result *result = NULL;
    enum status status = sync_run(db, NULL, sql_count_tasks.text, 7, params, &result, err);
    if (status == STATUS_OK) {
        *count = db_int64(result, 0, 0);
        sync_result_free(result);
    }
    return status;
}

static enum status by_keys(const struct sql_statement *statement, struct db_sync *db, const char *pipeline, int count,
                           char *const *keys, struct db_result **page, struct error *err) {
    struct buf array;
    char at_most[16];
    buf_init(&array, SIZE_MAX);
    array_begin(&array);
    for (int i = 0; i < count; i++) {
        array_add_text(&array, keys[i], strlen(keys[i]));
    }
    array_end(&array);
    snprintf(at_most, sizeof at_most, "%d", count);
    struct db_param params[] = {DB_TEXT(pipeline), DB_TEXT(array.data), DB_NULL,      DB_NULL,         DB_NULL,
                                DB_NULL,           DB_NULL,             DB_TEXT("0"), DB_TEXT(at_most),
                                DB_TEXT("false")};
    enum status status = sync_run(db, NULL, statement->text, param_count(statement), params, page, err);
    buf_finish(&array);
    return status;
}

enum status selection_by_keys(struct db_sync *db, const char *pipeline, int count, char *const *keys,
                              struct db_result **page, struct error *err) {
    return by_keys(&sql_find_tasks, db, pipeline, count, keys, page, err);
}

enum status selection_ended_by_keys(struct db_sync *db, const char *pipeline, int count, char *const *keys,
                                    struct db_result **page, struct error *err) {
    return by_keys(&sql_ended_periods, db, pipeline, count, keys, page, err);
}

bool key_check(const struct args *args, const char *key) {
    size_t length = strlen(key);
    if (length >= 1 && length <= KEY_MAX && utf8_is_valid(key, length)) {
        return true;
    }
    if (length == 0) {
        usage_error(args, "a key is empty");
    } else if (length > KEY_MAX) {
        usage_error(args, "the key '%.40s...' has %zu bytes; a key has at most %d", text_shown(key), length, KEY_MAX);
    } else {
        usage_error(args, "the key '%s' is not UTF-8", text_shown(key));
    }
    return false;
}
