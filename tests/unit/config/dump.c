/* dump.c - every field of a definition is printed, so that none can change unseen. */
#include "dump.h"

#include <string.h>

#include "config/schema.h"
#include "config/settings.h"

static const char *const sql_words[] = {
    [SQL_KEY] = "key",         [SQL_PAYLOAD] = "payload",       [SQL_INPUT] = "input",
    [SQL_VERSION] = "version", [SQL_UPDATED_AT] = "updated_at", [SQL_INPUTS] = "inputs",
};

static void dump_source(struct buf *out, const struct pipeline_def *def) {
    const struct source_def *source = &def->source;
    size_t folder = strlen(def->folder);
    bool inside = strncmp(source->path, def->folder, folder) == 0;
    buf_append_format(out, "source path=%s%s recursive=%d every_ms=%lld\n", inside ? "FOLDER" : "",
                      source->path + (inside ? folder : 0), source->recursive,
                      (long long)source->every_ms);
    for (const char *const *match = source->match; *match != NULL; match++) {
        buf_append_format(out, "  match=%s\n", *match);
    }
}

static void dump_statement(struct buf *out, const struct stage_statement *statement) {
    buf_append_string(out, "  statement params=");
    for (int i = 0; i < statement->param_count; i++) {
        buf_append_format(out, "%s%s", i == 0 ? "" : ",", sql_words[statement->params[i]]);
    }
    buf_append_format(out, "\n%s\n", statement->text);
}

static void dump_list(struct buf *out, const char *name, const char *const *list) {
    for (int i = 0; list != NULL && list[i] != NULL; i++) {
        buf_append_format(out, "  %s=%s\n", name, list[i]);
    }
}

/* What was not there from the beginning is printed where it is not as by default. */
static void dump_process(struct buf *out, const struct stage_def *stage) {
    if (stage->kind == STAGE_COMMAND || stage->kind == STAGE_PROGRAM) {
        buf_append_format(out, "  %s stdout=%s\n  with=%s\n",
                          stage->kind == STAGE_COMMAND ? "command" : "worker", stage->stdout_form,
                          stage->with_json);
    }
    dump_list(out, "argument", stage->arguments);
    dump_list(out, "inputs", stage->inputs);
    dump_list(out, "env", stage->env);
    if (stage->user != NULL) {
        buf_append_format(out, "  user=%s\n", stage->user);
    }
    if (stage->batch_size != 0) {
        buf_append_format(out, "  batch size=%d wait_ms=%lld\n", stage->batch_size,
                          (long long)stage->batch_wait_ms);
    }
    if (stage->recycle_runs != 0 || stage->recycle_bytes != 0) {
        buf_append_format(out, "  recycle runs=%d memory=%lld\n", stage->recycle_runs,
                          (long long)stage->recycle_bytes);
    }
    if (stage->nice != 0) {
        buf_append_format(out, "  nice=%d\n", stage->nice);
    }
}

static void dump_stage(struct buf *out, const struct stage_def *stage) {
    const struct backoff *backoff = &stage->retry.backoff;
    buf_append_format(out, "stage %s line=%d column=%d\n", stage->name, stage->line, stage->column);
    buf_append_format(out, "  workers=%d timeout_ms=%lld grace_ms=%lld after_commit=%d\n",
                      stage->workers, (long long)stage->timeout_ms, (long long)stage->grace_ms,
                      stage->after_commit);
    buf_append_format(out, "  retry attempts=%d %s first_ms=%lld max_ms=%lld jitter=%d\n",
                      stage->retry.attempts, config_backoff_names[backoff->kind],
                      (long long)backoff->first_ms, (long long)backoff->max_ms,
                      backoff->jitter_percent);
    buf_append_format(out, "  limits memory=%lld cpu=%lld file_size=%lld open_files=%lld\n",
                      (long long)stage->memory_bytes, (long long)stage->cpu_seconds,
                      (long long)stage->file_size_bytes, (long long)stage->open_files);
    if (stage->kind == STAGE_HANDLER) {
        buf_append_format(out, "  handler file=%s name=%s\n  with=%s\n", stage->handler_file,
                          stage->handler_name, stage->with_json);
    }
    dump_process(out, stage);
    if (stage->max_running != 0 || stage->share_percent != 0) {
        buf_append_format(out, "  max_running=%d share=%d\n", stage->max_running,
                          stage->share_percent);
    }
    if (stage->role != NULL) {
        buf_append_format(out, "  role=%s\n", stage->role);
    }
    for (int i = 0; stage->requires != NULL && stage->requires[i] != NULL; i++) {
        buf_append_format(out, "  requires=%s\n", stage->requires[i]);
    }
    if (stage->renamed_from != NULL) {
        buf_append_format(out, "  renamed_from=%s\n", stage->renamed_from);
    }
    for (int i = 0; i < stage->statement_count; i++) {
        dump_statement(out, &stage->statements[i]);
    }
}

void dump_pipeline(struct buf *out, const struct pipeline_def *def) {
    buf_append_format(out, "pipeline %s\n", def->name);
    if (def->max_steps != 1000) {
        buf_append_format(out, "max_steps=%d\n", def->max_steps);
    }
    if (strcmp(def->on_update, "restart") != 0) {
        buf_append_format(out, "on_update=%s\n", def->on_update);
    }
    if (def->source.present) {
        dump_source(out, def);
    }
    const struct retention_def *retention = &def->retention;
    if (retention->done_ms + retention->failed_ms + retention->cancelled_ms > 0 ||
        retention->errors_ms != INT64_C(90) * 24 * 3600 * 1000) {
        buf_append_format(out, "retention done=%lld failed=%lld cancelled=%lld errors=%lld\n",
                          (long long)retention->done_ms, (long long)retention->failed_ms,
                          (long long)retention->cancelled_ms, (long long)retention->errors_ms);
    }
    for (int i = 0; i < def->stage_count; i++) {
        dump_stage(out, &def->stages[i]);
    }
    if (def->schedule_count > 0) { /* every field of a schedule is a setting */
        buf_append_string(out, "settings ");
        settings_write(def, out);
        buf_append_char(out, '\n');
    }
}
