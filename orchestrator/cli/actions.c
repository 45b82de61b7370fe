#include "cli/actions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/catalog.h"
#include "cli/confirm.h"
#include "cli/output.h"
#include "db/array.h"

enum { BATCH = 1000, TRIES = 5 };

struct work {
    const struct args *args;
    const struct action *action;
    struct db_sync *db;
    struct selection selection;
    int64_t touched, running, periods;
    bool some_failed;
};

/* Where the keys begin among the arguments: behind the pipeline, and the number if there is one. */
static int first_key(const struct work *work) {
    return work->action->number_what != NULL ? 2 : 1;
}

static int key_count(const struct work *work) {
    return work->args->count - first_key(work);
}

static bool applies_to(const struct action *action, const char *status) {
    if (action->statuses == NULL) {
        return true;
    }
    for (int i = 0; action->statuses[i] != NULL; i++) {
        if (strcmp(action->statuses[i], status) == 0) {
            return true;
        }
    }
    return false;
}

/* One transaction. Somebody else's locks may make a deadlock of it: then nothing was done, and it is sent again. */
static enum status send_batch(struct work *work, const char *ids, int64_t *touched, struct error *err) {
    struct db_param params[] = {DB_TEXT(ids), DB_NULL};
    int param_count = 1;
    if (work->action->from_stage) {
        params[1].data = args_get(work->args, "from");
        param_count = 2;
    } else if (work->action->number_what != NULL) {
        params[1].data = work->args->positional[1];
        param_count = 2;
    }
    const struct sql_statement *statement = work->action->statement;
    enum status status = STATUS_CONFLICT;
    for (int i = 0; i < TRIES && status == STATUS_CONFLICT; i++) {
        struct db_result *result = NULL;
        error_clear(err);
        status = sync_run(work->db, statement->name, statement->text, param_count, params, &result, err);
        if (status == STATUS_OK) {
            *touched = db_int64(result, 0, 0);
            sync_result_free(result);
        }
    }
    return status;
}

/* `fit`: only those of its tasks that the action applies to. */
static enum status act_on_page(struct work *work, const struct db_result *page, bool fit, struct error *err) {
    struct buf ids;
    int count = 0;
    int64_t running = 0, touched = 0;
    buf_init(&ids, SIZE_MAX);
    array_begin(&ids);
    for (int row = 0; row < db_rows(page); row++) {
        const char *status = db_value(page, row, FOUND_STATUS);
        if (!fit || applies_to(work->action, status)) {
            array_add_int(&ids, db_int64(page, row, FOUND_ID));
            running += strcmp(status, "running") == 0;
            count++;
        }
    }
    array_end(&ids);
    enum status code = count > 0 ? send_batch(work, ids.data, &touched, err) : STATUS_OK;
    buf_finish(&ids);
    if (code == STATUS_OK) {
        work->touched += touched;
        work->running += running;
    }
    return code;
}

/* ---- by key ------------------------------------------------------------------------------------------------------- */

static void name_unknown_keys(struct work *work, const struct db_result *page, int count, char *const *keys) {
    for (int i = 0; i < count; i++) {
        int row = 0;
        while (row < db_rows(page) && strcmp(db_value(page, row, FOUND_KEY), keys[i]) != 0) {
            row++;
        }
        if (row == db_rows(page)) {
            fprintf(stderr, "pgstage: pipeline '%s' has no task '%s'\n", work->selection.pipeline, text_shown(keys[i]));
            work->some_failed = true;
        }
    }
}

/* Both are in id order. */
static void name_unfit_tasks(const struct work *work, const struct db_result *page, const struct db_result *ended) {
    int at = 0;
    for (int row = 0; row < db_rows(page); row++) {
        const char *status = db_value(page, row, FOUND_STATUS);
        bool had_period = ended != NULL && at < db_rows(ended) &&
                          db_int64(ended, at, FOUND_ID) == db_int64(page, row, FOUND_ID);
        at += had_period;
        if (!applies_to(work->action, status)) {
            fprintf(stderr, "pgstage: '%s' is %s: %s\n", text_shown(db_value(page, row, FOUND_KEY)), status,
                    had_period ? "its period is ended" : work->action->otherwise);
        }
    }
}

static enum status act_on_keys(struct work *work, int count, char *const *keys, struct error *err) {
    struct db_result *page = NULL, *ended = NULL;
    enum status code = STATUS_OK;
    if (work->action->ends_periods) {
        code = selection_ended_by_keys(work->db, work->selection.pipeline, count, keys, &ended, err);
    }
    if (code == STATUS_OK) {
        code = selection_by_keys(work->db, work->selection.pipeline, count, keys, &page, err);
    }
    if (code == STATUS_OK) {
        name_unknown_keys(work, page, count, keys);
        code = act_on_page(work, page, !work->action->ends_periods, err);
    }
    if (code == STATUS_OK) {
        name_unfit_tasks(work, page, ended);
        work->periods += ended != NULL ? db_rows(ended) : 0;
    }
    sync_result_free(page);
    sync_result_free(ended);
    return code;
}

static enum exit_status act_by_keys(struct work *work) {
    int total = key_count(work);
    char **keys = work->args->positional + first_key(work);
    for (int first = 0; first < total; first += BATCH) {
        int count = total - first < BATCH ? total - first : BATCH;
        struct error err = ERROR_NONE;
        if (act_on_keys(work, count, keys + first, &err) != STATUS_OK) {
            return report_error(&err);
        }
    }
    return EXIT_OK;
}

/* ---- by filter ---------------------------------------------------------------------------------------------------- */

/* Calls `each` for every status to search for, or once for the one that was asked for. */
static enum status for_statuses(struct work *work, enum status (*each)(struct work *, void *, struct error *), void *data,
                                struct error *err) {
    const char *asked = work->selection.status;
    if (asked != NULL && !applies_to(work->action, asked)) {
        return STATUS_OK; /* only their periods are meant */
    }
    if (asked != NULL || !work->action->search_each) {
        work->selection.open_only = asked == NULL && work->action->statuses != NULL;
        return each(work, data, err);
    }
    enum status code = STATUS_OK;
    for (int i = 0; code == STATUS_OK && work->action->statuses[i] != NULL; i++) {
        work->selection.status = work->action->statuses[i];
        code = each(work, data, err);
    }
    work->selection.status = asked;
    return code;
}

static enum status count_one(struct work *work, void *data, struct error *err) {
    int64_t *total = data, count = 0;
    enum status code = selection_count(&work->selection, work->db, &count, err);
    *total += count;
    return code;
}

static enum status act_on_one(struct work *work, void *data, struct error *err) {
    (void)data;
    selection_rewind(&work->selection);
    for (bool over = false; !over;) {
        struct db_result *page = NULL;
        enum status code = selection_page(&work->selection, work->db, BATCH, &page, err);
        if (code == STATUS_OK) {
            over = db_rows(page) < BATCH;
            code = act_on_page(work, page, true, err);
            sync_result_free(page);
        }
        if (code != STATUS_OK) {
            return code;
        }
    }
    return STATUS_OK;
}

/* Tasks at their end: only their periods are left to end. */
static enum status count_periods(struct work *work, int64_t *count, struct error *err) {
    struct db_result *page = NULL;
    *count = 0;
    selection_rewind(&work->selection);
    enum status code = selection_ended_periods(&work->selection, work->db, 1, &page, err);
    if (code == STATUS_OK && db_rows(page) > 0) {
        *count = db_int64(page, 0, FOUND_LEFT);
    }
    sync_result_free(page);
    return code;
}

static enum status end_periods(struct work *work, struct error *err) {
    selection_rewind(&work->selection);
    for (;;) {
        struct db_result *page = NULL;
        enum status code = selection_ended_periods(&work->selection, work->db, BATCH, &page, err);
        int found = code == STATUS_OK ? db_rows(page) : 0;
        if (found > 0) {
            code = act_on_page(work, page, false, err);
            work->periods += code == STATUS_OK ? found : 0;
        }
        sync_result_free(page);
        if (code != STATUS_OK || found < BATCH) {
            return code;
        }
    }
}

/* `periods` of the count are at their end. */
static enum exit_status ask(const struct work *work, int64_t count, int64_t periods) {
    const char *verb = work->action->verb, *pipeline = work->selection.pipeline, *s = text_plural(count);
    char *only = periods > 0 ? mem_format(" (%" PRId64 " at an end: only the period)", periods) : mem_copy_string("");
    char *question = mem_format("%s %" PRId64 " task%s of pipeline '%s'%s?", verb, count, s, pipeline, only);
    char *refusal = mem_format("%" PRId64 " task%s of pipeline '%s' match%s%s; say --yes to %s %s", count, s, pipeline,
                               count == 1 ? "es" : "", only, verb, count == 1 ? "it" : "them");
    enum exit_status status = confirm(work->args, question, refusal);
    free(question);
    free(refusal);
    free(only);
    return status;
}

static enum exit_status act_by_filter(struct work *work) {
    struct error err = ERROR_NONE;
    int64_t count = 0, periods = 0;
    enum status code = for_statuses(work, count_one, &count, &err);
    if (code == STATUS_OK && work->action->ends_periods) {
        code = count_periods(work, &periods, &err);
    }
    if (code != STATUS_OK) {
        return report_error(&err);
    }
    enum exit_status status = count + periods > 0 ? ask(work, count + periods, periods) : EXIT_OK;
    if (status != EXIT_OK) {
        return status;
    }
    code = periods > 0 ? end_periods(work, &err) : STATUS_OK; /* before more tasks come to their end */
    if (code == STATUS_OK && count > 0) {
        code = for_statuses(work, act_on_one, NULL, &err);
    }
    if (code != STATUS_OK) {
        status = report_error(&err);
        fprintf(stderr, "pgstage: before that: %" PRId64 " %s\n", work->touched, work->action->done);
        return work->touched > 0 && status == EXIT_WRONG ? EXIT_SOME_FAILED : status;
    }
    return status;
}

/* ---- both --------------------------------------------------------------------------------------------------------- */

static bool is_number(const char *text) {
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && number >= INT32_MIN && number <= INT32_MAX;
}

static enum exit_status check_words(const struct work *work) {
    const struct args *args = work->args;
    if (work->action->number_what != NULL && !is_number(args->positional[1])) {
        return usage_error(args, "%s is a whole number from %d to %d, not '%s'", work->action->number_what, INT32_MIN,
                           INT32_MAX, text_shown(args->positional[1]));
    }
    bool filtered = !selection_is_everything(&work->selection);
    bool all = work->action->from_stage && args_has(args, "all");
    if (key_count(work) > 0 && (filtered || all)) {
        return usage_error(args, "keys and a filter exclude each other");
    }
    if (filtered && all) {
        return usage_error(args, "--all and a filter exclude each other");
    }
    if (key_count(work) == 0 && !filtered && !all) {
        return usage_error(args, "which tasks? Name keys, or give --status, --stage, --key, --error or --older-than%s",
                           work->action->from_stage ? ", or --all" : "");
    }
    if (work->selection.status != NULL && !applies_to(work->action, work->selection.status) && !work->action->ends_periods) {
        return usage_error(args, "a task that is %s cannot be %s: %s", work->selection.status, work->action->done,
                           work->action->otherwise);
    }
    for (int i = first_key(work); i < args->count; i++) {
        if (!key_check(args, args->positional[i])) {
            return EXIT_WRONG;
        }
    }
    return EXIT_OK;
}

static enum exit_status check_names(const struct work *work) {
    const char *pipeline = work->selection.pipeline;
    enum exit_status status = catalog_check(work->db, pipeline, work->selection.stage, false);
    if (status == EXIT_OK && work->action->from_stage && args_has(work->args, "from")) {
        status = catalog_check(work->db, pipeline, args_get(work->args, "from"), true);
    }
    return status;
}

static void print_result(const struct work *work) {
    if (args_has(work->args, "json")) {
        printf("{\"tasks\": %" PRId64 ", \"running\": %" PRId64, work->touched, work->touched > 0 ? work->running : 0);
        if (work->action->ends_periods) {
            printf(", \"periods\": %" PRId64, work->periods);
        }
        puts("}");
        return;
    }
    printf("%" PRId64 " %s", work->touched, work->action->done);
    if (work->running > 0 && work->touched > 0 && work->action->number_what == NULL) {
        printf("; %" PRId64 " of them %s running and %s told within a second", work->running,
               work->running == 1 ? "is" : "are", work->running == 1 ? "is" : "are");
    }
    if (work->periods > 0) {
        printf("; %" PRId64 " period%s ended", work->periods, text_plural(work->periods));
    }
    putchar('\n');
}

enum exit_status action_run(const struct args *args, const struct action *action) {
    struct work work = {.args = args, .action = action};
    struct session session = {0};
    enum exit_status status = selection_read(args, &work.selection);
    if (status == EXIT_OK) {
        status = check_words(&work);
    }
    if (status == EXIT_OK) {
        status = session_open(args, &session);
    }
    if (status == EXIT_OK) {
        work.db = session.db;
        status = check_names(&work);
        if (status == EXIT_OK) {
            status = key_count(&work) > 0 ? act_by_keys(&work) : act_by_filter(&work);
        }
        session_close(&session);
    }
    selection_finish(&work.selection);
    if (status == EXIT_OK) {
        output_open();
        print_result(&work);
        status = output_finish(work.some_failed ? EXIT_SOME_FAILED : EXIT_OK);
    }
    return status;
}
