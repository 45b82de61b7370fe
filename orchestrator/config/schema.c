/* schema.c - the table. Defaults are written as a user would write them and go through the same
 * readers, so that documentation and behaviour cannot part. */
#include "config/schema.h"

#include <string.h>

#include "config/pipeline.h"

#define FIELD(type, member)                                                                        \
    .offset = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member)

enum { SECOND_MS = 1000, MINUTE_MS = 60 * SECOND_MS, HOUR_MS = 3600 * SECOND_MS, DAY_MS = 24 * HOUR_MS };
#define YEAR_MS (INT64_C(52) * 7 * DAY_MS) /* 52 weeks */
#define MEGABYTE (INT64_C(1) << 20)
#define TERABYTE (INT64_C(1) << 40)

#define POLICY (LEVEL_STAGE | LEVEL_DEFAULTS)

const char *const config_backoff_names[3] = {
    [BACKOFF_CONSTANT] = "constant",
    [BACKOFF_LINEAR] = "linear",
    [BACKOFF_EXPONENTIAL] = "exponential",
};

static const char *const overlap_words[] = {"skip", "queue", "allow", NULL};
static const char *const stdout_words[] = {"json", "text", "ignore", NULL};
static const char *const on_update_words[] = {"restart", "finish", "interrupt", NULL};
static const char *const missed_words[] = {"skip", "once", "all", NULL};

/* clang-format off */
const struct config_key config_keys[] = {
    {.name = "pipeline", .levels = LEVEL_PIPELINE, .type = TYPE_NAME, .required = true,
     FIELD(pipeline_def, name),
     .description = "The pipeline's name, always taken as text."},
    {.name = "source", .levels = LEVEL_PIPELINE, .type = TYPE_MAPPING, .inner = LEVEL_SOURCE,
     .description = "Where documents come from. Without it they are submitted by programs."},
    {.name = "defaults", .levels = LEVEL_PIPELINE, .type = TYPE_MAPPING, .inner = LEVEL_DEFAULTS,
     .description = "Policy of all stages that do not say otherwise, key by key."},
    {.name = "max_steps", .levels = LEVEL_PIPELINE, .type = TYPE_INTEGER, .fallback = "1000",
     FIELD(pipeline_def, max_steps), .low = 1, .high = 1000000,
     .description = "Stages that a task may pass in one version before it is failed: the end of "
                    "routes that go round in a circle. Not less than there are stages."},
    {.name = "on_update", .levels = LEVEL_PIPELINE, .type = TYPE_WORD, .words = on_update_words,
     .fallback = "restart", FIELD(pipeline_def, on_update),
     .description = "What becomes of a task that is running when its document is updated: it "
                    "restarts when the stage in hand ends, it finishes all stages first, or its run "
                    "is interrupted."},
    {.name = "retention", .levels = LEVEL_PIPELINE, .type = TYPE_MAPPING,
     .inner = LEVEL_RETENTION,
     .description = "How long what is over is kept. Without it tasks are kept for good."},
    {.name = "stages", .levels = LEVEL_PIPELINE, .type = TYPE_STAGES, .inner = LEVEL_STAGE,
     .required = true, .low = 1, .high = CONFIG_STAGES_MAX,
     .description = "The steps of the pipeline, in order."},

    {.name = "schedule", .levels = LEVEL_PIPELINE, .type = TYPE_SCHEDULES, .inner = LEVEL_SCHEDULE,
     .low = 1, .high = CONFIG_SCHEDULES_MAX,
     .description = "What is to be done at certain times."},

    {.name = "files", .levels = LEVEL_SOURCE, .type = TYPE_MAPPING, .inner = LEVEL_FILES,
     .required = true,
     .description = "Each file of a folder is a document."},
    {.name = "path", .levels = LEVEL_FILES, .type = TYPE_PATH, .required = true,
     FIELD(source_def, path),
     .description = "The folder: absolute, below the home folder (~/...), or relative to the "
                    "folder of this file."},
    {.name = "match", .levels = LEVEL_FILES, .type = TYPE_TEXTS, .fallback = "*",
     FIELD(source_def, match), .low = 1, .high = 100,
     .description = "Patterns of the names wanted, one or a list: * and ?, and ** across folders. "
                    "Quote those that begin with '*'."},
    {.name = "recursive", .levels = LEVEL_FILES, .type = TYPE_BOOLEAN, .fallback = "true",
     FIELD(source_def, recursive),
     .description = "Whether folders inside the folder are searched as well."},
    {.name = "every", .levels = LEVEL_FILES, .type = TYPE_DURATION, .fallback = "10s",
     FIELD(source_def, every_ms), .low = 100, .high = YEAR_MS,
     .description = "How long to wait between two scans."},

    {.name = "done", .levels = LEVEL_RETENTION, .type = TYPE_DURATION, .fallback = "none",
     FIELD(retention_def, done_ms), .low = MINUTE_MS, .high = 10 * YEAR_MS, .none_allowed = true,
     .description = "How long a task is kept after it was done; 'none' for good. A document that is "
                    "forgotten is new when it is submitted again. Not with 'source'."},
    {.name = "failed", .levels = LEVEL_RETENTION, .type = TYPE_DURATION, .fallback = "none",
     FIELD(retention_def, failed_ms), .low = MINUTE_MS, .high = 10 * YEAR_MS, .none_allowed = true,
     .description = "The same for failed tasks."},
    {.name = "cancelled", .levels = LEVEL_RETENTION, .type = TYPE_DURATION, .fallback = "none",
     FIELD(retention_def, cancelled_ms), .low = MINUTE_MS, .high = 10 * YEAR_MS,
     .none_allowed = true,
     .description = "The same for cancelled tasks."},
    {.name = "errors", .levels = LEVEL_RETENTION, .type = TYPE_DURATION, .fallback = "90d",
     FIELD(retention_def, errors_ms), .low = MINUTE_MS, .high = 10 * YEAR_MS, .none_allowed = true,
     .description = "How long the reasons of failed runs are kept, whatever became of the task."},

    {.name = "name", .levels = LEVEL_STAGE, .type = TYPE_NAME, .required = true,
     FIELD(stage_def, name),
     .description = "The stage's name, unique in the pipeline, always taken as text."},
    {.name = "handler", .levels = LEVEL_STAGE, .type = TYPE_HANDLER, .only = USE_HANDLER,
     .description = "FILE.so:NAME, a handler made with PGSTAGE_HANDLER(NAME, ...). The file is "
                    "relative to the folder of this file."},
    {.name = "command", .levels = LEVEL_STAGE, .type = TYPE_ARGUMENTS, .only = USE_COMMAND,
     FIELD(stage_def, arguments), .low = 1, .high = 1000,
     .description = "A program and its arguments, run once for each task: the task as JSON on "
                    "standard input, the output on standard output. No shell is used; {key}, "
                    "{payload.NAME} and others in arguments are replaced."},
    {.name = "worker", .levels = LEVEL_STAGE, .type = TYPE_ARGUMENTS, .only = USE_PROGRAM,
     FIELD(stage_def, arguments), .low = 1, .high = 1000,
     .description = "A program and its arguments that stays, and takes one task after the other: "
                    "JSON lines over standard input and output."},
    {.name = "sql", .levels = LEVEL_STAGE, .type = TYPE_SQL, .only = USE_SQL, .high = 100,
     .description = "A statement, or a list of them, run in one transaction. :key is text, "
                    ":payload, :input and :inputs are jsonb, :version is bigint, :updated_at is "
                    "timestamptz. Environment variables are not replaced here."},
    {.name = "workers", .levels = POLICY, .type = TYPE_INTEGER, .fallback = "1",
     FIELD(stage_def, workers), .low = 1, .high = CONFIG_WORKERS_MAX,
     .description = "Worker processes of the stage on each node; connections if it is SQL."},
    {.name = "timeout", .levels = POLICY, .type = TYPE_DURATION, .fallback = "60s",
     FIELD(stage_def, timeout_ms), .low = 1, .high = YEAR_MS, .none_allowed = true,
     .description = "How long one run may take; 'none' for no limit."},
    {.name = "grace", .levels = POLICY, .type = TYPE_DURATION, .fallback = "5s",
     .only = USE_PROCESS, FIELD(stage_def, grace_ms), .low = 0, .high = HOUR_MS,
     .description = "How long a run that is to end may take to do so before it is killed; 0s "
                    "kills at once."},
    {.name = "retry", .levels = POLICY, .type = TYPE_MAPPING, .inner = LEVEL_RETRY,
     .description = "What follows a failed run."},
    {.name = "limits", .levels = POLICY, .type = TYPE_MAPPING, .inner = LEVEL_LIMITS,
     .only = USE_PROCESS,
     .description = "What a worker process, or the program of a command, may use."},
    {.name = "with", .levels = LEVEL_STAGE, .type = TYPE_JSON, .only = USE_PROCESS,
     .fallback = "{}", FIELD(stage_def, with_json),
     .description = "Settings for the handler or program, passed on as JSON: true, false, null and "
                    "JSON numbers are such when they stand without quotes, all else is text."},
    {.name = "stdout", .levels = LEVEL_STAGE, .type = TYPE_WORD, .words = stdout_words,
     .only = USE_COMMAND, .fallback = "json", FIELD(stage_def, stdout_form),
     .description = "What the command's standard output is: its output as JSON; text, which becomes "
                    "the output {\"text\": ...}; or nothing of interest."},
    {.name = "inputs", .levels = LEVEL_STAGE, .type = TYPE_NAMES, FIELD(stage_def, inputs),
     .low = 1, .high = CONFIG_STAGES_MAX,
     .description = "Earlier stages, one or a list, whose outputs the stage reads by name. Without "
                    "it a stage reads what the stage before it returned."},
    {.name = "env", .levels = POLICY, .type = TYPE_VARIABLES, .only = USE_PROCESS,
     FIELD(stage_def, env), .low = 1, .high = 100,
     .description = "Environment variables for the worker, one or a list: NAME is taken from the "
                    "node's environment, NAME=VALUE is set. Without being listed only PATH, LANG, LC_*, "
                    "TZ, HOME, USER and LOGNAME are passed on."},
    {.name = "user", .levels = POLICY, .type = TYPE_TEXT, .only = USE_PROCESS,
     FIELD(stage_def, user), .high = 32,
     .description = "The name of the user of the operating system whom the workers run as. The node "
                    "must run as root, or as that user."},
    {.name = "batch", .levels = LEVEL_STAGE, .type = TYPE_MAPPING, .inner = LEVEL_BATCH,
     .only = USE_PROCESS,
     .description = "Tasks are given to the handler or program several at a time."},
    {.name = "recycle", .levels = POLICY, .type = TYPE_MAPPING, .inner = LEVEL_RECYCLE,
     .only = USE_PROCESS,
     .description = "When a worker process is replaced by a fresh one."},
    {.name = "role", .levels = LEVEL_STAGE, .type = TYPE_ROLE, .only = USE_SQL,
     FIELD(stage_def, role),
     .description = "The database role that the statements run as."},
    {.name = "after_commit", .levels = LEVEL_STAGE, .type = TYPE_BOOLEAN, .fallback = "false",
     .only = USE_PROCESS, FIELD(stage_def, after_commit),
     .description = "Whether the stage starts only when its predecessor's result is committed. "
                    "For stages with effects outside the database."},

    {.name = "requires", .levels = LEVEL_STAGE, .type = TYPE_LABELS, .low = 1, .high = 20,
     FIELD(stage_def, requires),
     .description = "Labels, one or a list: only nodes that were started with all of them "
                    "(pgstage run --label NAME) serve the stage."},
    {.name = "renamed_from", .levels = LEVEL_STAGE, .type = TYPE_NAME,
     FIELD(stage_def, renamed_from),
     .description = "The name that the stage had before: its tasks, outputs and pause stay with it. "
                    "Without effect once it has its new name."},
    {.name = "max_running", .levels = LEVEL_STAGE, .type = TYPE_INTEGER,
     FIELD(stage_def, max_running), .low = 1, .high = 10000,
     .description = "How many tasks of the stage may run at a time on all nodes together. Without "
                    "it as many as there are workers."},
    {.name = "share", .levels = LEVEL_STAGE, .type = TYPE_PERCENT, FIELD(stage_def, share_percent),
     .low = 1, .high = 100,
     .description = "Of the tasks that the stage starts, at least that many are those that have "
                    "been ready longest, whatever their priority."},

    {.name = "attempts", .levels = LEVEL_RETRY, .type = TYPE_INTEGER, .fallback = "5",
     FIELD(stage_def, retry.attempts), .low = 1, .high = 10000,
     .description = "Runs at this stage before the task is failed; 1 for no retry."},
    {.name = "backoff", .levels = LEVEL_RETRY, .type = TYPE_BACKOFF, .fallback = "exponential",
     FIELD(stage_def, retry.backoff.kind),
     .description = "How the wait grows from one retry to the next."},
    {.name = "first", .levels = LEVEL_RETRY, .type = TYPE_DURATION, .fallback = "10s",
     FIELD(stage_def, retry.backoff.first_ms), .low = 0, .high = YEAR_MS,
     .description = "The wait before the first retry; 0s for none."},
    {.name = "max", .levels = LEVEL_RETRY, .type = TYPE_DURATION, .fallback = "1h",
     FIELD(stage_def, retry.backoff.max_ms), .low = 0, .high = YEAR_MS,
     .description = "The longest wait; not less than 'first'."},
    {.name = "jitter", .levels = LEVEL_RETRY, .type = TYPE_PERCENT, .fallback = "10%",
     FIELD(stage_def, retry.backoff.jitter_percent), .low = 0, .high = 100,
     .description = "How far waits are spread at random, so that tasks do not retry together."},

    {.name = "memory", .levels = LEVEL_LIMITS, .type = TYPE_SIZE, .fallback = "none",
     FIELD(stage_def, memory_bytes), .low = 16 * MEGABYTE, .high = 16 * TERABYTE,
     .none_allowed = true,
     .description = "Address space of a worker process."},
    {.name = "cpu", .levels = LEVEL_LIMITS, .type = TYPE_SECONDS, .fallback = "none",
     FIELD(stage_def, cpu_seconds), .low = 1, .high = YEAR_MS / SECOND_MS, .none_allowed = true,
     .description = "Processor time of one run, in whole seconds."},
    {.name = "file_size", .levels = LEVEL_LIMITS, .type = TYPE_SIZE, .fallback = "none",
     FIELD(stage_def, file_size_bytes), .low = 1, .high = 16 * TERABYTE, .none_allowed = true,
     .description = "Size of a file that a worker process writes."},
    {.name = "open_files", .levels = LEVEL_LIMITS, .type = TYPE_INTEGER, .fallback = "none",
     FIELD(stage_def, open_files), .low = 16, .high = 1048576, .none_allowed = true,
     .description = "Files that a worker process may have open."},
    {.name = "nice", .levels = LEVEL_LIMITS, .type = TYPE_INTEGER, .fallback = "none",
     FIELD(stage_def, nice), .low = 1, .high = 19, .none_allowed = true,
     .description = "How far worker processes stand back behind others that want the processor."},

    {.name = "size", .levels = LEVEL_BATCH, .type = TYPE_INTEGER, .required = true,
     FIELD(stage_def, batch_size), .low = 2, .high = 10000,
     .description = "Tasks of a batch, at most."},
    {.name = "wait", .levels = LEVEL_BATCH, .type = TYPE_DURATION, .fallback = "200ms",
     FIELD(stage_def, batch_wait_ms), .low = 0, .high = HOUR_MS,
     .description = "How long a batch that is not full waits for more tasks."},
    {.name = "runs", .levels = LEVEL_RECYCLE, .type = TYPE_INTEGER, .fallback = "none",
     FIELD(stage_def, recycle_runs), .low = 1, .high = 1000000000, .none_allowed = true,
     .description = "After so many tasks."},
    {.name = "memory", .levels = LEVEL_RECYCLE, .type = TYPE_SIZE, .fallback = "none",
     FIELD(stage_def, recycle_bytes), .low = MEGABYTE, .high = 16 * TERABYTE, .none_allowed = true,
     .description = "When it holds that much memory after a task."},

    {.name = "name", .levels = LEVEL_SCHEDULE, .type = TYPE_NAME, .required = true,
     FIELD(schedule_def, name),
     .description = "The schedule's name, unique in the pipeline."},
    {.name = "every", .levels = LEVEL_SCHEDULE, .type = TYPE_DURATION,
     FIELD(schedule_def, every_ms), .low = SECOND_MS, .high = YEAR_MS,
     .description = "A period. Its grid begins when the schedule is first registered with it."},
    {.name = "cron", .levels = LEVEL_SCHEDULE, .type = TYPE_TEXT, .high = 500,
     FIELD(schedule_def, cron_text),
     .description = "Five fields: minute, hour, day of the month, month and weekday; or @hourly, "
                    "@daily, @weekly, @monthly, @yearly."},
    {.name = "timezone", .levels = LEVEL_SCHEDULE, .type = TYPE_TEXT, .high = 60,
     .fallback = "UTC", FIELD(schedule_def, timezone),
     .description = "The time zone of 'cron', like Europe/Berlin."},
    {.name = "do", .levels = LEVEL_SCHEDULE, .type = TYPE_DO, .inner = LEVEL_DO, .required = true,
     .description = "What it does: 'scan' the sources, 'rerun' all tasks that are done, or "
                    "'submit' a document."},
    {.name = "overlap", .levels = LEVEL_SCHEDULE, .type = TYPE_WORD, .words = overlap_words,
     .fallback = "skip", FIELD(schedule_def, overlap),
     .description = "What a tick does while the last one's work is going on: skip it, wait for its "
                    "end, or begin beside it."},
    {.name = "missed", .levels = LEVEL_SCHEDULE, .type = TYPE_WORD, .words = missed_words,
     .fallback = "once", FIELD(schedule_def, missed),
     .description = "What becomes of ticks that passed while no node ran: none, the newest, or all "
                    "of them fire."},
    {.name = "jitter", .levels = LEVEL_SCHEDULE, .type = TYPE_DURATION, .fallback = "0s",
     FIELD(schedule_def, jitter_ms), .low = 0, .high = HOUR_MS,
     .description = "How far a tick is put off at most; less than 'every', or than the smallest gap "
                    "between two ticks of 'cron'."},
    {.name = "timeout", .levels = LEVEL_SCHEDULE, .type = TYPE_DURATION, .fallback = "none",
     FIELD(schedule_def, timeout_ms), .low = SECOND_MS, .high = YEAR_MS, .none_allowed = true,
     .description = "A task that was submitted and has not ended so long after is cancelled."},
    {.name = "requires", .levels = LEVEL_SCHEDULE, .type = TYPE_LABELS, .low = 1, .high = 20,
     FIELD(schedule_def, requires),
     .description = "Labels, one or a list: only nodes that were started with all of them "
                    "(pgstage run --label NAME) fire the schedule."},
    {.name = "submit", .levels = LEVEL_DO, .type = TYPE_MAPPING, .inner = LEVEL_SUBMIT,
     .description = "Submits a document."},
    {.name = "rerun", .levels = LEVEL_DO, .type = TYPE_MAPPING, .inner = LEVEL_RERUN,
     .description = "Runs all tasks that are done again."},
    {.name = "key", .levels = LEVEL_SUBMIT, .type = TYPE_TEXT, .high = 1000, .required = true,
     FIELD(schedule_def, key),
     .description = "The document's key; {tick} in it is the tick's instant, like "
                    "2026-12-01T03:00:00Z. At most 1,024 bytes with instants of 27 bytes."},
    {.name = "payload", .levels = LEVEL_SUBMIT, .type = TYPE_JSON,
     FIELD(schedule_def, payload_json),
     .description = "The document's payload; {tick} in it is the tick's instant."},
    {.name = "priority", .levels = LEVEL_SUBMIT, .type = TYPE_INTEGER,
     FIELD(schedule_def, priority), .low = INT32_MIN, .high = INT32_MAX,
     .description = "The document's priority, lower first. Without it a document that is there keeps "
                    "its own; a new one has 0."},
    {.name = "from", .levels = LEVEL_RERUN, .type = TYPE_NAME, .required = true,
     FIELD(schedule_def, from),
     .description = "The stage from which on tasks run again."},
};
/* clang-format on */

const int config_key_count = sizeof config_keys / sizeof config_keys[0];
_Static_assert(sizeof config_keys / sizeof config_keys[0] <= CONFIG_KEYS_MAX, "walk.c keeps a mark a row");

const struct config_key *config_key_find(enum config_level level, const char *name) {
    for (int i = 0; i < config_key_count; i++) {
        if ((config_keys[i].levels & level) != 0 && strcmp(config_keys[i].name, name) == 0) {
            return &config_keys[i];
        }
    }
    return NULL;
}

bool config_key_is_kind(const struct config_key *key) {
    return (key->levels & LEVEL_STAGE) != 0 &&
           (key->type == TYPE_HANDLER || key->type == TYPE_ARGUMENTS || key->type == TYPE_SQL);
}
