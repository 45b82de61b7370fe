/* submit.c - pgstage submit PIPELINE KEY, or PIPELINE --from FILE. */
#include "cli/submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/catalog.h"
#include "cli/instant.h"
#include "cli/json_option.h"
#include "cli/output.h"
#include "cli/selection.h"
#include "cli/stop_signal.h"
#include "cli/submit_chunk.h"
#include "sql/statements.h"

struct request {
    struct submit_document document;
    char *payload; /* owned */
    char run_at[64];
};

/* ---- the options of one document ---------------------------------------------------------------------------------- */

/* What makes it a submit of the document when a period is given as well. */
static const char *const of_document[] = {"payload", "updated-at", "if-changed", "priority", "in", "at"};

static enum exit_status read_payload(const struct args *args, struct request *request) {
    size_t length = 0;
    enum exit_status status = json_option_read(args, "payload", &request->payload, &length);
    /* null is no payload, as in the database. */
    if (status == EXIT_OK && request->payload != NULL && !json_text_is_null(request->payload)) {
        request->document.payload = request->payload;
        request->document.payload_length = length;
    }
    return status;
}

static bool read_instant(const struct args *args, const char *name, const char **instant) {
    *instant = args_get(args, name);
    if (*instant == NULL || instant_is_valid(*instant)) {
        return true;
    }
    usage_error(args, "--%s wants " INSTANT_FORM ", not '%s'", name, text_shown(*instant));
    return false;
}

static enum exit_status read_request(const struct args *args, struct request *request) {
    struct submit_document *document = &request->document;
    int64_t priority = 0, in_ms = 0;
    if (args_has(args, "in") && args_has(args, "at")) {
        return usage_error(args, "--in and --at exclude each other");
    }
    if (!key_check(args, args->positional[1]) || !read_instant(args, "updated-at", &document->updated_at) ||
        !read_instant(args, "at", &document->run_at) || !args_int(args, "priority", INT32_MIN, INT32_MAX, &priority) ||
        !args_duration(args, "in", &in_ms)) {
        return EXIT_WRONG;
    }
    document->has_period = args_has(args, "every");
    if (document->has_period && !submit_read_period(args_get(args, "every"), &document->period_ms)) {
        return usage_error(args, "--every wants " PERIOD_FORM ", not '%s'", text_shown(args_get(args, "every")));
    }
    document->is_bare = document->has_period;
    for (size_t i = 0; i < sizeof of_document / sizeof of_document[0]; i++) {
        document->is_bare = document->is_bare && !args_has(args, of_document[i]);
    }
    document->key = args->positional[1];
    document->has_priority = args_has(args, "priority");
    document->priority = (int32_t)priority;
    return read_payload(args, request);
}

/* ---- one document ------------------------------------------------------------------------------------------------- */

/* --in counts from the database's clock: no other is compared with. */
static enum status find_run_at(const struct args *args, struct db_sync *db, struct request *request,
                               struct error *err) {
    int64_t in_ms = 0;
    if (!args_has(args, "in") || !args_duration(args, "in", &in_ms)) {
        return STATUS_OK;
    }
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, in_ms);
    struct db_param params[] = {DB_TEXT(text)};
    struct db_result *result = NULL;
    enum status status = sync_run(db, NULL, sql_instant.text, 1, params, &result, err);
    if (status == STATUS_OK) {
        snprintf(request->run_at, sizeof request->run_at, "%s", db_value(result, 0, 0));
        request->document.run_at = request->run_at;
        sync_result_free(result);
    }
    return status;
}

/* A role that only submits may not look at what there is: it is told less. */
static enum status print_unchanged(const struct args *args, struct db_sync *db, FILE *out, int64_t *version,
                                   struct error *err) {
    struct db_result *found = NULL;
    enum status status = selection_by_keys(db, args->positional[0], 1, args->positional + 1, &found, err);
    bool blind = status != STATUS_OK && err != NULL && strcmp(err->sqlstate, "42501") == 0;
    if (status != STATUS_OK && !blind) {
        return status;
    }
    bool exists = !blind && db_rows(found) > 0;
    *version = exists ? db_int64(found, 0, FOUND_VERSION) : 1;
    if (blind) {
        error_clear(err);
        fprintf(out, "unchanged");
    } else {
        fprintf(out, "unchanged (version %s)", exists ? db_value(found, 0, FOUND_VERSION) : "gone");
    }
    if (!args_has(args, "if-changed") && (exists || blind)) {
        fprintf(out, ": not newer than the stored one%s%s; --if-changed takes any change", exists ? ", of " : "",
                exists ? db_value(found, 0, FOUND_TASK_UPDATED_AT) : "");
    }
    fputc('\n', out);
    sync_result_free(found);
    return STATUS_OK;
}

static enum status print_period(const struct args *args, struct db_sync *db, FILE *out, int64_t before_ms,
                                struct error *err) {
    char again[64] = "", span[48];
    int64_t now_ms = 0;
    enum status status = submit_find_period(db, args->positional[0], args->positional[1], &now_ms, again, err);
    if (status == STATUS_OK && now_ms <= 0) {
        fprintf(out, before_ms > 0 ? "period ended\n" : "no period\n");
    } else if (status == STATUS_OK) {
        fprintf(out, "period: every %s, next at %s\n", units_format_duration(now_ms, span, sizeof span), again);
    }
    return status;
}

/* With --wait, standard output is for what the last stage returned. *version is what stands in the database now. */
static enum status print_outcome(const struct args *args, struct db_sync *db, const struct chunk_outcome *outcome,
                                 int64_t period_before_ms, int64_t *version, struct error *err) {
    FILE *out = args_has(args, "wait") ? stderr : stdout;
    enum status status = STATUS_OK;
    *version = outcome->version;
    if (outcome->fresh + outcome->updated > 0) {
        fprintf(out, "%s (version %" PRId64 ")\n", outcome->fresh > 0 ? "new" : "updated", outcome->version);
        return STATUS_OK;
    }
    if (outcome->periods == 0) {
        status = print_unchanged(args, db, out, version, err);
    }
    if (status == STATUS_OK && args_has(args, "every")) {
        status = print_period(args, db, out, period_before_ms, err);
    }
    return status;
}

/* False: it may not, and that is said; nothing was submitted. */
static bool may_do_all(const struct args *args, struct db_sync *db, enum status *status, struct error *err) {
    struct submit_rights rights = {true, true};
    if (args_has(args, "wait") || args_has(args, "every")) {
        *status = submit_find_rights(db, &rights, err);
    }
    const char *why = args_has(args, "wait") && !rights.waits      ? WAIT_WANTS
                      : args_has(args, "every") && !rights.periods ? "--every: " PERIOD_WANTS
                                                                   : NULL;
    if (*status == STATUS_OK && why != NULL) {
        fprintf(stderr, "pgstage: %s; nothing was submitted\n", why);
        return false;
    }
    return *status == STATUS_OK;
}

/* The period that the task has. One that is to end of a task that is not there is a mistyped key, and no document. */
static enum exit_status find_period(const struct args *args, struct db_sync *db, const struct request *request, int64_t *ms) {
    const char *pipeline = args->positional[0], *key = args->positional[1];
    struct error err = ERROR_NONE;
    if (!args_has(args, "every")) {
        return EXIT_OK;
    }
    if (submit_find_period(db, pipeline, key, ms, NULL, &err) != STATUS_OK) {
        return report_store_error(db, pipeline, &err);
    }
    if (*ms >= 0 || !request->document.is_bare || request->document.period_ms > 0) {
        return EXIT_OK;
    }
    enum exit_status known = catalog_check(db, pipeline, NULL, false);
    if (known == EXIT_OK) {
        fprintf(stderr, "pgstage: there is no task '%s' whose period could end; nothing was submitted\n", text_shown(key));
    }
    return known == EXIT_OK ? EXIT_WRONG : known;
}

static enum exit_status send(const struct args *args, struct session *session, struct request *request) {
    struct db_sync *db = session->db;
    int64_t version = 0, period_before_ms = 0;
    enum status status = STATUS_OK;
    struct error err = ERROR_NONE;
    if (!may_do_all(args, db, &status, &err)) {
        return status == STATUS_OK ? EXIT_WRONG : report_error(&err);
    }
    enum exit_status fit = find_period(args, db, request, &period_before_ms);
    if (fit != EXIT_OK) {
        return fit;
    }
    if (args_has(args, "wait")) {
        stop_listen(); /* before anything is said that a person may answer with Ctrl-C */
    }
    struct chunk *chunk = mem_alloc(sizeof *chunk);
    struct chunk_outcome outcome = {0};
    chunk_init(chunk, args->positional[0], args_has(args, "if-changed"));
    status = find_run_at(args, db, request, &err);
    if (status == STATUS_OK) {
        chunk_add(chunk, &request->document);
        status = chunk_send(chunk, db, &outcome, &err);
    }
    if (status == STATUS_OK) {
        status = print_outcome(args, db, &outcome, period_before_ms, &version, &err);
    }
    chunk_finish(chunk);
    free(chunk);
    if (status != STATUS_OK) {
        return report_store_error(db, args->positional[0], &err);
    }
    return args_has(args, "wait") ? submit_wait(args, session, version) : output_finish(EXIT_OK);
}

/* ---- the command -------------------------------------------------------------------------------------------------- */

static enum exit_status check_form(const struct args *args) {
    static const char *const of_one[] = {"payload", "updated-at", "priority", "in", "at", "every"};
    int64_t timeout_ms = 0;
    if (!args_duration(args, "timeout", &timeout_ms)) {
        return EXIT_WRONG;
    }
    if (args_has(args, "timeout") && !args_has(args, "wait")) {
        return usage_error(args, "--timeout is for --wait");
    }
    if (args_has(args, "wait") && args_has(args, "from")) {
        return usage_error(args, "--wait is for one document: it and --from exclude each other");
    }
    if (!args_has(args, "from")) {
        return args->count == 2 ? EXIT_OK : usage_error(args, "which document? Name its key, or give --from FILE");
    }
    if (args->count == 2) {
        return usage_error(args, "a key and --from exclude each other");
    }
    for (size_t i = 0; i < sizeof of_one / sizeof of_one[0]; i++) {
        if (args_has(args, of_one[i])) {
            return usage_error(args, "--%s and --from exclude each other: the lines say it", of_one[i]);
        }
    }
    return EXIT_OK;
}

static enum exit_status run_submit(const struct args *args) {
    struct request request = {0};
    struct session session;
    bool lines = args_has(args, "from");
    enum exit_status status = check_form(args);
    if (status == EXIT_OK && !lines) {
        status = read_request(args, &request);
    }
    if (status == EXIT_OK) {
        status = session_open(args, &session);
        if (status == EXIT_OK) {
            status = lines ? submit_lines(args, session.db) : send(args, &session, &request);
            session_close(&session);
        }
    }
    free(request.payload);
    return status;
}

static const struct option_spec options[] = {
    {"payload", "JSON", "the document's payload; @FILE reads a file, - standard input"},
    {"updated-at", "TIME", "which state of the document it is; only a newer one is taken (now): " INSTANT_FORM},
    {"if-changed", NULL, "take it when the time or the payload differs at all"},
    {"priority", "N", "lower goes first (0)"},
    {"in", "DURATION", "start that much later"},
    {"at", "TIME", "start then: " INSTANT_FORM},
    {"wait", NULL, "until it is at its end: prints what its last stage returned; status 1 when it failed, was cancelled, or is late"},
    {"timeout", "DURATION", "wait that long at most; the task goes on"},
    {"every", "DURATION", "run it again each time that so much has passed; none ends that. Alone it submits a new key only"},
    {"from", "FILE", "JSON lines: {\"key\", \"payload\", \"updated_at\", \"priority\", \"run_at\", \"every\"}; - for standard input"},
    {0},
};

const struct command command_submit = {
    .name = "submit",
    .usage = "PIPELINE KEY [--payload JSON|@FILE|-] [--updated-at TIME] [--if-changed] [--priority N]"
             " [--in DURATION|--at TIME] [--every DURATION] [--wait [--timeout D]]\n"
             "       pgstage submit PIPELINE --from FILE|- [--if-changed]",
    .summary = "submit documents",
    .options = options,
    .min_positional = 1,
    .max_positional = 2,
    .run = run_submit,
};
