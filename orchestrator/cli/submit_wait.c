/* submit_wait.c - submit --wait: looks at the task, less and less often, until its version is at its end.
 *
 * The version that was submitted, or a newer one. Nothing is held meanwhile: a database that is away for a while is waited
 * for, and Ctrl-C leaves the task to go on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/output.h"
#include "cli/stop_signal.h"
#include "cli/submit.h"
#include "sql/statements.h"

enum { POLL_FIRST_MS = 10, POLL_MAX_MS = 500 };
enum { STATE, STAGE, ERROR_TEXT, OUTPUT, ID };

static enum status look(struct session *session, const char *pipeline, const char *key, int64_t version,
                        struct db_result **result, struct error *err) {
    char text[24];
    enum status status = STATUS_OK;
    snprintf(text, sizeof text, "%" PRId64, version);
    error_clear(err);
    if (session->db == NULL) {
        status = sync_open(session->database.url, "submit", &session->db, err);
    }
    if (status == STATUS_OK) {
        struct db_param params[] = {DB_TEXT(pipeline), DB_TEXT(key), DB_TEXT(text)};
        status = sync_run(session->db, sql_wait_task.name, sql_wait_task.text, 3, params, result, err);
    }
    if (status != STATUS_OK && status_is_transient(status)) {
        sync_close(session->db);
        session->db = NULL;
    }
    return status;
}

/* True when the task is at its end; then it is printed. *task: the one that is waited for, 0 before the first look. */
static bool is_over(const char *key, const struct db_result *result, int64_t *task, enum exit_status *status) {
    if (db_rows(result) == 0 || (*task != 0 && db_int64(result, 0, ID) != *task)) {
        fprintf(stderr, "pgstage: the task '%s' is gone\n", text_shown(key));
        *status = EXIT_SOME_FAILED;
        return true;
    }
    *task = db_int64(result, 0, ID);
    const char *state = db_value(result, 0, STATE);
    if (strcmp(state, "done") == 0) {
        printf("%s\n", db_is_null(result, 0, OUTPUT) ? "null" : db_value(result, 0, OUTPUT));
        *status = output_finish(EXIT_OK);
        return true;
    }
    if (strcmp(state, "open") == 0) {
        return false;
    }
    const char *reason = db_value(result, 0, ERROR_TEXT);
    fprintf(stderr, "pgstage: the task '%s' %s%s at stage '%s'%s%s\n", text_shown(key),
            strcmp(state, "cancelled") == 0 ? "was " : "", state,
            db_value(result, 0, STAGE), reason[0] == '\0' ? "" : ": ", text_shown(reason));
    *status = EXIT_SOME_FAILED;
    return true;
}

enum exit_status submit_wait(const struct args *args, struct session *session, int64_t version) {
    const char *pipeline = args->positional[0], *key = args->positional[1];
    int64_t task = 0, timeout_ms = -1, begun = clock_now_ms(&clock_boottime), delay = POLL_FIRST_MS;
    if (!args_duration(args, "timeout", &timeout_ms)) {
        return EXIT_WRONG;
    }
    for (;;) {
        struct db_result *result = NULL;
        struct error err = ERROR_NONE;
        enum exit_status status = EXIT_OK;
        enum status code = look(session, pipeline, key, version, &result, &err);
        bool over = code == STATUS_OK && is_over(key, result, &task, &status);
        sync_result_free(result);
        if (over) {
            return status;
        }
        int64_t waited = clock_now_ms(&clock_boottime) - begun;
        bool late = timeout_ms >= 0 && waited >= timeout_ms;
        if (code != STATUS_OK && (late || stop_was_asked() || !status_is_transient(code))) {
            return report_error(&err);
        }
        if (late || stop_was_asked()) {
            fprintf(stderr, "pgstage: the task '%s' %s; it goes on\n", text_shown(key),
                    late ? "did not come to its end in time" : "is not at its end");
            return EXIT_SOME_FAILED;
        }
        stop_wait_ms(timeout_ms >= 0 && timeout_ms - waited < delay ? timeout_ms - waited : delay);
        delay = delay * 3 / 2 < POLL_MAX_MS ? delay * 3 / 2 : POLL_MAX_MS;
    }
}
