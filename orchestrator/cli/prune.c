/* prune.c - pgstage prune: forgets what is over, after a count and a yes. The leader does the same by itself, as the
 * definitions say.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/catalog.h"
#include "cli/confirm.h"
#include "cli/json_write.h"
#include "cli/output.h"
#include "sql/statements.h"

enum { PAGE = 500, TRIES = 5 };
enum { RULE_PIPELINE, RULE_STATUS, RULE_KEEP_MS };

/* What is to be forgotten; texts are borrowed from the arguments or from `rules`. */
struct rule {
    const char *pipeline, *status, *keep_ms;
    int64_t count, forgotten;
};

struct prune {
    const struct args *args;
    struct db_sync *db;
    struct db_result *rules;
    char older_than_ms[24];
    struct rule *list;
    int count;
};

static const char *noun_of(const struct rule *rule, int64_t count) {
    bool one = count == 1, errors = strcmp(rule->status, "errors") == 0;
    return errors ? (one ? "failed run" : "failed runs") : one ? "task" : "tasks";
}

/* ---- which ------------------------------------------------------------------------------------------------------- */

static enum exit_status take_given_rule(struct prune *prune) {
    const struct args *args = prune->args;
    int64_t older_than_ms = 0;
    if (!args_duration(args, "older-than", &older_than_ms)) {
        return EXIT_WRONG;
    }
    snprintf(prune->older_than_ms, sizeof prune->older_than_ms, "%" PRId64, older_than_ms);
    prune->list[prune->count++] = (struct rule){args->positional[0], args_get(args, "status"), prune->older_than_ms, 0, 0};
    return EXIT_OK;
}

static enum status read_rules(struct prune *prune, struct error *err) {
    struct db_param params[] = {{.data = prune->args->count > 0 ? prune->args->positional[0] : NULL}};
    enum status status = sync_run(prune->db, NULL, sql_prune_rules.text, 1, params, &prune->rules, err);
    if (status != STATUS_OK) {
        return status;
    }
    free(prune->list);
    prune->list = mem_alloc(((size_t)db_rows(prune->rules) + 1) * sizeof *prune->list);
    for (int row = 0; row < db_rows(prune->rules); row++) {
        prune->list[prune->count++] = (struct rule){db_value(prune->rules, row, RULE_PIPELINE),
                                                    db_value(prune->rules, row, RULE_STATUS),
                                                    db_value(prune->rules, row, RULE_KEEP_MS), 0, 0};
    }
    return STATUS_OK;
}

static enum exit_status check_words(const struct args *args) {
    static const char *const statuses[] = {"done", "failed", "cancelled", "errors"};
    const char *status = args_get(args, "status");
    if (args_has(args, "older-than") != (status != NULL)) {
        return usage_error(args, "--status and --older-than go together; without them it is as the definitions say");
    }
    if (status == NULL) {
        return EXIT_OK;
    }
    if (args->count == 0) {
        return usage_error(args, "--status and --older-than want a pipeline");
    }
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (strcmp(statuses[i], status) == 0) {
            return EXIT_OK;
        }
    }
    return usage_error(args, "--status wants done, failed, cancelled or errors, not '%s'", text_shown(status));
}

/* ---- the count and the yes ---------------------------------------------------------------------------------------- */

static enum status count_all(struct prune *prune, int64_t *total, struct error *err) {
    for (int i = 0; i < prune->count; i++) {
        struct rule *rule = &prune->list[i];
        struct db_param params[] = {DB_TEXT(rule->pipeline), DB_TEXT(rule->status), DB_TEXT(rule->keep_ms)};
        struct db_result *result = NULL;
        enum status status = sync_run(prune->db, NULL, sql_prune_count.text, 3, params, &result, err);
        if (status != STATUS_OK) {
            return status;
        }
        rule->count = db_int64(result, 0, 0);
        *total += rule->count;
        sync_result_free(result);
    }
    return STATUS_OK;
}

/* With what it means, where that is not what the word says. */
static void print_counts(const struct prune *prune) {
    bool done = false;
    for (int i = 0; i < prune->count; i++) {
        const struct rule *rule = &prune->list[i];
        char span[48];
        if (rule->count > 0) {
            bool errors = strcmp(rule->status, "errors") == 0;
            done = done || strcmp(rule->status, "done") == 0;
            fprintf(stderr, "%s: %" PRId64 " %s%s%s, older than %s\n", rule->pipeline, rule->count,
                    errors ? "" : rule->status, errors ? "" : " ", noun_of(rule, rule->count),
                    units_format_duration(strtoll(rule->keep_ms, NULL, 10), span, sizeof span));
        }
    }
    if (done) {
        fprintf(stderr, "a document that was done is new when it is submitted again, and runs again, whatever its stamp\n");
    }
}

/* ---- the deed ----------------------------------------------------------------------------------------------------- */

/* One page, a transaction of its own. A deadlock with somebody else's: nothing was done, it is sent again. */
static enum status forget_page(struct prune *prune, struct rule *rule, int64_t *cursor, bool *over, struct error *err) {
    char after[24], at_most[16];
    snprintf(after, sizeof after, "%" PRId64, *cursor);
    snprintf(at_most, sizeof at_most, "%d", PAGE);
    struct db_param params[] = {DB_TEXT(rule->pipeline), DB_TEXT(rule->status), DB_TEXT(rule->keep_ms), DB_TEXT(after),
                                DB_TEXT(at_most)};
    enum status status = STATUS_CONFLICT;
    for (int i = 0; i < TRIES && status == STATUS_CONFLICT; i++) {
        struct db_result *result = NULL;
        error_clear(err);
        status = sync_run(prune->db, NULL, sql_prune_page.text, 5, params, &result, err);
        if (status == STATUS_OK) {
            *over = db_rows(result) == 0;
            *cursor = *over ? *cursor : db_int64(result, 0, 0);
            rule->forgotten += *over ? 0 : db_int64(result, 0, 1);
            sync_result_free(result);
        }
    }
    return status;
}

static enum status forget_all(struct prune *prune, struct error *err) {
    for (int i = 0; i < prune->count; i++) {
        struct rule *rule = &prune->list[i];
        int64_t cursor = 0;
        for (bool over = rule->count == 0; !over;) {
            enum status status = forget_page(prune, rule, &cursor, &over, err);
            if (status != STATUS_OK) {
                return status;
            }
        }
    }
    return STATUS_OK;
}

static void print(const struct prune *prune) {
    int64_t tasks = 0, runs = 0;
    for (int i = 0; i < prune->count; i++) {
        *(strcmp(prune->list[i].status, "errors") == 0 ? &runs : &tasks) += prune->list[i].forgotten;
    }
    if (args_has(prune->args, "json")) {
        printf("{\"tasks\": %" PRId64 ", \"failed_runs\": %" PRId64 "}\n", tasks, runs);
    } else {
        printf("%" PRId64 " task%s and %" PRId64 " failed run%s forgotten\n", tasks, text_plural(tasks), runs,
               text_plural(runs));
    }
}

static enum exit_status forget(struct prune *prune) {
    struct error err = ERROR_NONE;
    int64_t total = 0;
    if ((prune->count == 0 && read_rules(prune, &err) != STATUS_OK) || count_all(prune, &total, &err) != STATUS_OK) {
        return report_error(&err);
    }
    if (total > 0 && !args_has(prune->args, "yes")) {
        print_counts(prune);
    }
    enum exit_status status = total > 0 ? confirm(prune->args, "forget them?", "say --yes to forget them") : EXIT_OK;
    if (status == EXIT_OK && forget_all(prune, &err) != STATUS_OK) {
        return report_error(&err); /* pages that are committed stay so */
    }
    if (status == EXIT_OK) {
        print(prune);
        status = output_finish(EXIT_OK);
    }
    return status;
}

static enum exit_status run_prune(const struct args *args) {
    struct prune prune = {.args = args, .list = mem_alloc(sizeof *prune.list)};
    struct session session = {0};
    enum exit_status status = check_words(args);
    if (status == EXIT_OK && args_has(args, "status")) {
        status = take_given_rule(&prune);
    }
    if (status == EXIT_OK) {
        status = catalog_open(args, args->count > 0 ? args->positional[0] : NULL, NULL, &session);
    }
    if (status == EXIT_OK) {
        prune.db = session.db;
        status = forget(&prune);
        sync_result_free(prune.rules);
        session_close(&session);
    }
    free(prune.list);
    return status;
}

static const struct option_spec options[] = {
    {"status", "STATUS", "done, failed, cancelled; or errors, for the rows of failed runs"},
    {"older-than", "DURATION", "that came to it longer ago than that"},
    {"yes", NULL, "do not ask whether it is meant"},
    {"json", NULL, "print {\"tasks\": N, \"failed_runs\": N}"},
    {0},
};

const struct command command_prune = {
    .name = "prune",
    .usage = "[PIPELINE] [--status S --older-than D] [--yes] [--json]",
    .summary = "forget what is over, as `retention:` says or as asked for",
    .options = options,
    .max_positional = 1,
    .run = run_prune,
};
