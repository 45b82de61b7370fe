/* try.c - pgstage try FILE STAGE: runs one stage once, and prints what would come of it. Nothing is changed. */
#include "cli/try.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "cli/stop_signal.h"
#include "cli/worker_program.h"

enum { PROGRESS_EVERY_MS = 100 };

/* ---- while it runs: standard error -------------------------------------------------------------------------------- */

/* Behind the word that begins at `at`, and the blank after it. */
static const char *skip_word(const char *at) {
    at += strcspn(at, " ");
    return at + (*at == ' ');
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* What a node logs of the run: what the handler says, and what is wrong. Time, level and names are known here. */
static void on_log(void *context, enum log_level level, const char *line) {
    static const char *const known[] = {"pipeline=", "stage=", "worker=", "run=", "pid="};
    (void)context;
    const char *event = skip_word(skip_word(line)), *at = skip_word(event);
    bool is_said = begins(event, "task.log ") || begins(event, "worker.output");
    bool is_told = begins(event, "worker.end ") || begins(event, "pool.parked "); /* in the outcome */
    if (!is_said && (level > LOG_WARN || is_told)) {
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        at = begins(at, known[i]) ? skip_word(at) : at;
    }
    fprintf(stderr, "%.*s%s\n", (int)(strcspn(event, " ") + 1), event, at);
}

static void on_progress(void *context, double fraction, const char *text) {
    int64_t *said_ms = context, now_ms = clock_now_ms(&clock_boottime);
    if (now_ms >= *said_ms + PROGRESS_EVERY_MS || fraction >= 1) {
        *said_ms = now_ms;
        fprintf(stderr, "progress %.0f%%%s%s\n", fraction * 100, *text == '\0' ? "" : ": ", text_shown(text));
    }
}

static enum exit_status run_worker(struct trial *trial) {
    char worker[PATH_MAX];
    int64_t said_ms = 0;
    struct buf locks;
    struct error err = ERROR_NONE;
    enum exit_status status = worker_program_find(worker, sizeof worker);
    if (status != EXIT_OK) {
        return status;
    }
    buf_init(&locks, PATH_MAX);
    if (cluster_home(trial->args->home, &locks, &err) == STATUS_OK) {
        buf_append_string(&locks, "/nodes");
        const struct try_options options = {
            .pipeline = trial->pipeline,
            .stage = trial->position,
            .task = trial->task,
            .worker_program = worker,
            .lock_folder = locks.data,
            .stop_was_asked = stop_was_asked,
            .progress = on_progress,
            .context = &said_ms,
        };
        stop_listen();
        log_set_level(LOG_INFO);
        log_set_sink(on_log, NULL);
        enum status ran = try_run(&options, &trial->run, &err);
        log_set_sink(NULL, NULL);
        log_set_level(LOG_WARN);
        trial->run_us = ran == STATUS_OK ? trial->run.outcome.run_us : 0;
    }
    buf_finish(&locks);
    return err.code == STATUS_OK ? EXIT_OK : report_error(&err);
}

/* ---- the stage ---------------------------------------------------------------------------------------------------- */

static enum exit_status no_stage(const struct pipeline_def *pipeline, const char *name) {
    struct nearest nearest;
    nearest_init(&nearest, name);
    fprintf(stderr, "pgstage: pipeline '%s' has no stage '%s'; its stages are ", pipeline->name, text_shown(name));
    for (int i = 0; i < pipeline->stage_count; i++) {
        fprintf(stderr, "%s%s", i == 0 ? "" : ", ", pipeline->stages[i].name);
        nearest_offer(&nearest, pipeline->stages[i].name);
    }
    fputc('\n', stderr);
    if (nearest.best != NULL) {
        fprintf(stderr, "did you mean '%s'?\n", nearest.best);
    }
    nearest_finish(&nearest);
    return EXIT_WRONG;
}

/* Only the stage that is tried has to be there. */
static enum exit_status check_handler(struct trial *trial, struct buf *said) {
    bool *elsewhere = mem_alloc(sizeof *elsewhere * (size_t)trial->pipeline->stage_count);
    for (int i = 0; i < trial->pipeline->stage_count; i++) {
        elsewhere[i] = i != trial->position;
    }
    trial->definition.elsewhere = elsewhere;
    return definition_check_handlers(&trial->definition, said);
}

static enum exit_status load(struct trial *trial) {
    const char *name = trial->args->positional[1];
    struct buf said;
    buf_init(&said, SIZE_MAX);
    enum exit_status status = definition_load(trial->args->positional[0], &trial->definition, &said);
    if (status == EXIT_OK) {
        trial->pipeline = trial->definition.def;
        trial->position = pipeline_find_stage(trial->pipeline, name);
        if (trial->position < 0) {
            status = no_stage(trial->pipeline, name);
        } else {
            trial->stage = &trial->pipeline->stages[trial->position];
            status = check_handler(trial, &said);
        }
    }
    return definition_said(status, &said);
}

/* ---- the command -------------------------------------------------------------------------------------------------- */

static enum exit_status connect(struct trial *trial) {
    const struct args *args = trial->args;
    bool is_sql = trial->stage->kind == STAGE_SQL, by_key = args_has(args, "key");
    if (!by_key && !args_has(args, "sql") && !(is_sql && args->database != NULL)) {
        return !is_sql ? EXIT_OK
                       : usage_error(args, "stage '%s' is SQL, which only a database can run: --sql runs it, with --key on a "
                                           "task, in a transaction that is rolled back",
                                     trial->stage->name);
    }
    enum exit_status status = by_key ? session_open(args, &trial->session) : session_open_raw(args, &trial->session);
    trial->connected = status == EXIT_OK;
    return status == EXIT_OK && by_key ? trial_read_task(trial) : status;
}

static enum exit_status report(struct trial *trial) {
    struct trial_verdict verdict = trial_judge(trial);
    struct buf out;
    buf_init(&out, SIZE_MAX);
    if (args_has(trial->args, "json")) {
        trial_write_json(trial, &verdict, &out);
    } else {
        trial_write_text(trial, &verdict, &out);
    }
    output_open();
    output_put(&out);
    buf_finish(&out);
    return output_finish(strcmp(verdict.outcome, "ok") == 0 ? EXIT_OK : EXIT_SOME_FAILED);
}

static enum exit_status run_try(const struct args *args) {
    struct trial trial = {.args = args};
    enum exit_status status = load(&trial);
    status = status == EXIT_OK ? trial_read_options(&trial) : status;
    status = status == EXIT_OK ? connect(&trial) : status;
    if (status == EXIT_OK && trial.stage->kind != STAGE_SQL) {
        status = run_worker(&trial);
    }
    if (status == EXIT_OK) {
        trial_list_statements(&trial);
        status = trial_run_statements(&trial);
    }
    status = status == EXIT_OK ? report(&trial) : status;
    if (trial.connected) {
        session_close(&trial.session);
    }
    try_result_finish(&trial.run);
    definition_finish(&trial.definition);
    arena_finish(&trial.arena);
    free(trial.payload);
    free(trial.input);
    free(trial.inputs);
    return status;
}

static const struct option_spec options[] = {
    {"key", "KEY", "on this task of the pipeline: its payload, and what earlier stages returned in its version"},
    {"payload", "JSON", "on this payload (null); @FILE reads a file, - standard input"},
    {"as", "KEY", "the key of a payload that is no task (try)"},
    {"input", "JSON", "what the stage before returned, instead of what the database has"},
    {"inputs", "JSON", "{\"STAGE\": what it returned, ...}, of stages that `inputs:` names"},
    {"attempt", "N", "which attempt it is"},
    {"sql", NULL, "without --key: run its statements as well, in a transaction that is rolled back"},
    {"json", NULL, "as one JSON document"},
    {0},
};

const struct command command_try = {
    .name = "try",
    .usage = "FILE STAGE [--key KEY | --payload JSON|@FILE|- [--as KEY]] [--input JSON|@FILE|-] [--inputs JSON|@FILE|-]"
             " [--attempt N] [--sql] [--json]",
    .summary = "run one stage once, on a payload or a task, and change nothing",
    .options = options,
    .min_positional = 2,
    .max_positional = 2,
    .run = run_try,
};
