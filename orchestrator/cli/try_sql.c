/* try_sql.c - the statements of a trial: those that its run queued, or those of its sql stage.
 *
 * They run as a node runs them: in one transaction, under the stage's time-out and role, one after the other; and what is
 * checked at commit is checked behind them. Then it is rolled back.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/require.h"
#include "cli/try.h"
#include "queue/effects.h"
#include "sql/statements.h"

#define IDLE_TRANSACTION_MS "60000" /* nobody waits here between two statements */

/* ---- which ones --------------------------------------------------------------------------------------------------- */

static struct pool_text text_of(const char *text) {
    return (struct pool_text){text, strlen(text)};
}

static struct pool_text value_of(struct trial *trial, enum sql_name name) {
    switch (name) {
    case SQL_KEY:
        return trial->task.key;
    case SQL_PAYLOAD:
        return trial->task.payload;
    case SQL_INPUT:
        return trial->task.input;
    case SQL_VERSION:
        return text_of(arena_format(&trial->arena, "%" PRId64, trial->task.version));
    case SQL_UPDATED_AT:
        return text_of(trial->updated_at);
    case SQL_INPUTS:
        return trial->task.inputs;
    }
    REQUIRE(false);
    return (struct pool_text){0};
}

static void list_stage(struct trial *trial) {
    const struct stage_def *stage = trial->stage;
    trial->statement_count = stage->statement_count;
    trial->statements = arena_alloc(&trial->arena, sizeof *trial->statements * (size_t)(stage->statement_count + 1));
    for (int i = 0; i < stage->statement_count; i++) {
        const struct stage_statement *from = &stage->statements[i];
        struct pool_text *params = arena_alloc(&trial->arena, sizeof *params * (size_t)(from->param_count + 1));
        for (int p = 0; p < from->param_count; p++) {
            params[p] = value_of(trial, from->params[p]);
        }
        trial->statements[i] =
            (struct trial_statement){.sql = text_of(from->text), .param_count = from->param_count, .params = params};
    }
}

/* A run that snoozes gives nothing that counts. */
static void list_queued(struct trial *trial) {
    const struct pool_outcome *outcome = &trial->run.outcome;
    if (outcome->end != POOL_OK || outcome->flow == POOL_SNOOZE) {
        return;
    }
    trial->statement_count = outcome->statement_count;
    trial->statements = arena_alloc(&trial->arena, sizeof *trial->statements * (size_t)(outcome->statement_count + 1));
    for (int i = 0; i < outcome->statement_count; i++) {
        const struct pool_statement *from = &outcome->statements[i];
        trial->statements[i] =
            (struct trial_statement){.sql = from->sql, .param_count = from->parameter_count, .params = from->parameters};
    }
}

static void fail(struct trial *trial, int statement, const struct error *err) {
    trial->sql_failed = true;
    trial->failed_statement = statement;
    trial->sql_error = *err;
}

/* Such a statement a node would not send either, and here it would keep what is to be rolled back. */
static void refuse(struct trial *trial) {
    for (int i = 0; i < trial->statement_count && !trial->sql_failed; i++) {
        const char *why = effects_refusal(trial->statements[i].sql.data);
        if (why != NULL) {
            struct error err = ERROR_NONE;
            error_set(&err, STATUS_INVALID, "%s", why);
            fail(trial, i + 1, &err);
        }
    }
}

void trial_list_statements(struct trial *trial) {
    if (trial->stage->kind == STAGE_SQL) {
        list_stage(trial);
    } else {
        list_queued(trial);
    }
    refuse(trial);
}

/* ---- the transaction ---------------------------------------------------------------------------------------------- */

static enum status begin(struct trial *trial, struct error *err) {
    char timeout[24];
    snprintf(timeout, sizeof timeout, "%" PRId64, trial->stage->timeout_ms);
    struct db_param params[] = {DB_TEXT(timeout), DB_TEXT(IDLE_TRANSACTION_MS), DB_TEXT(trial->stage->role)};
    enum status status = sync_script(trial->session.db, "begin", err);
    return status == STATUS_OK ? sync_run(trial->session.db, NULL, sql_effect_begin.text, 3, params, NULL, err) : status;
}

/* Behind each statement: one that could end the transaction in a way that `refuse` does not know is found out. */
static enum status check_stands(struct trial *trial, struct error *err) {
    struct db_result *result = NULL;
    enum status status = sync_run(trial->session.db, NULL, sql_try_end.text, 0, NULL, &result, err);
    if (status == STATUS_OK && !db_bool(result, 0, 0)) {
        status = error_set(err, STATUS_INVALID,
                           "the statement ended its transaction, which a node refuses; what it did may not be rolled back");
    }
    sync_result_free(result);
    return status;
}

static enum status run_one(struct trial *trial, struct trial_statement *statement, struct error *err) {
    struct db_param *params = arena_alloc(&trial->arena, sizeof *params * (size_t)(statement->param_count + 1));
    for (int p = 0; p < statement->param_count; p++) {
        params[p] = (struct db_param){.data = statement->params[p].data};
    }
    struct db_result *result = NULL;
    enum status status =
        sync_run(trial->session.db, NULL, statement->sql.data, statement->param_count, params, &result, err);
    if (status == STATUS_OK) {
        statement->ran = true;
        statement->rows = db_affected(result);
        status = check_stands(trial, err);
    }
    sync_result_free(result);
    return status;
}

static enum status run_all(struct trial *trial, int *at, struct error *err) {
    *at = 0;
    enum status status = begin(trial, err);
    for (int i = 0; i < trial->statement_count && status == STATUS_OK; i++) {
        *at = i + 1;
        status = run_one(trial, &trial->statements[i], err);
    }
    if (status == STATUS_OK) {
        *at = 0;
        status = sync_script(trial->session.db, "set constraints all immediate", err);
    }
    return status;
}

enum exit_status trial_run_statements(struct trial *trial) {
    struct error err = ERROR_NONE, ignored = ERROR_NONE;
    int at = 0;
    if (!trial->connected || trial->sql_failed || trial->statement_count == 0) {
        return EXIT_OK;
    }
    int64_t begun_ms = clock_now_ms(&clock_boottime);
    enum status status = run_all(trial, &at, &err);
    if (trial->stage->kind == STAGE_SQL) {
        trial->run_us = (clock_now_ms(&clock_boottime) - begun_ms) * 1000;
    }
    enum status ended = sync_script(trial->session.db, "rollback", &ignored);
    if (status == STATUS_UNAVAILABLE || status == STATUS_UNCERTAIN) {
        return report_error(&err);
    }
    if (status == STATUS_OK && ended != STATUS_OK) {
        return report_error(&ignored);
    }
    if (status != STATUS_OK) {
        fail(trial, at, &err);
    }
    return EXIT_OK;
}
