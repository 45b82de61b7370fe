/* pause.c - pgstage pause and resume: a pipeline or a stage is not claimed from, or is again. */
#include <stdio.h>

#include "cli/catalog.h"
#include "cli/json_write.h"
#include "cli/output.h"
#include "cli/target.h"
#include "sql/statements.h"

/* *whole: whether the pipeline is paused as a whole then; a stage of it that goes on does not, while it is. */
static enum status set_paused(struct db_sync *db, const struct target *target, bool paused, bool *whole, struct error *err) {
    struct db_param params[] = {DB_TEXT(target->pipeline.data), {.data = target->stage}, DB_TEXT(paused ? "t" : "f")};
    struct db_result *result = NULL;
    enum status status = sync_run(db, NULL, sql_set_paused.text, 3, params, &result, err);
    if (status == STATUS_OK) {
        *whole = db_rows(result) > 0 && db_bool(result, 0, 0);
        sync_result_free(result);
    }
    return status;
}

static void print(const struct args *args, const struct target *target, bool paused, bool pipeline_paused) {
    if (args_has(args, "json")) {
        struct buf out;
        buf_init(&out, SIZE_MAX);
        json_begin(&out, NULL, '{');
        json_add_text(&out, "pipeline", target->pipeline.data);
        json_add_text(&out, "stage", target->stage);
        json_add_bool(&out, "paused", paused || pipeline_paused);
        json_end(&out, '}');
        printf("%s\n", out.data);
        buf_finish(&out);
        return;
    }
    printf("%s %s\n", target->text, paused ? "is paused" : "goes on");
    if (!paused && pipeline_paused) {
        fprintf(stderr, "pgstage: but the pipeline is paused as a whole; pgstage resume %s lets it go on\n",
                target->pipeline.data);
    }
}

static enum exit_status set(const struct args *args, bool paused) {
    struct target target;
    struct session session;
    struct error err = ERROR_NONE;
    target_init(&target, args->positional[0]);
    enum exit_status status = catalog_open(args, target.pipeline.data, target.stage, &session);
    if (status == EXIT_OK) {
        bool whole = false;
        enum status code = set_paused(session.db, &target, paused, &whole, &err);
        status = code == STATUS_OK ? EXIT_OK : report_error(&err);
        if (code == STATUS_OK) {
            print(args, &target, paused, whole);
        }
        session_close(&session);
    }
    target_finish(&target);
    return status == EXIT_OK ? output_finish(EXIT_OK) : status;
}

static enum exit_status run_pause(const struct args *args) {
    return set(args, true);
}

static enum exit_status run_resume(const struct args *args) {
    return set(args, false);
}

static const struct option_spec options[] = {{"json", NULL, "print {\"pipeline\", \"stage\", \"paused\"}"}, {0}};

const struct command command_pause = {
    .name = "pause",
    .usage = "PIPELINE[/STAGE] [--json]",
    .summary = "start no more tasks of a pipeline or a stage; what runs goes to its end",
    .options = options,
    .min_positional = 1,
    .max_positional = 1,
    .run = run_pause,
};

const struct command command_resume = {
    .name = "resume",
    .usage = "PIPELINE[/STAGE] [--json]",
    .summary = "let a paused stage go on, or a pipeline with all its stages",
    .options = options,
    .min_positional = 1,
    .max_positional = 1,
    .run = run_resume,
};
