#include "node/specs.h"

#include <string.h>

#include "base/require.h"

static enum sched_value value_of(enum sql_name name) {
    switch (name) {
    case SQL_KEY:
        return SCHED_KEY;
    case SQL_PAYLOAD:
        return SCHED_PAYLOAD;
    case SQL_INPUT:
        return SCHED_INPUT;
    case SQL_VERSION:
        return SCHED_VERSION;
    case SQL_UPDATED_AT:
        return SCHED_UPDATED_AT;
    case SQL_INPUTS:
        return SCHED_INPUTS;
    }
    REQUIRE(false);
    return SCHED_KEY;
}

static const struct sched_statement *statements_of(struct arena *arena, const struct stage_def *def) {
    struct sched_statement *statements = arena_alloc(arena, sizeof *statements * (size_t)(def->statement_count + 1));
    for (int i = 0; i < def->statement_count; i++) {
        const struct stage_statement *from = &def->statements[i];
        enum sched_value *params = arena_alloc(arena, sizeof *params * (size_t)(from->param_count + 1));
        for (int p = 0; p < from->param_count; p++) {
            params[p] = value_of(from->params[p]);
        }
        statements[i] = (struct sched_statement){from->text, from->param_count, params};
    }
    return statements;
}

static enum pool_engine engine_of(enum stage_kind kind) {
    return kind == STAGE_COMMAND ? POOL_COMMAND : kind == STAGE_PROGRAM ? POOL_PROGRAM : POOL_HANDLER;
}

static enum pool_stdout form_of(const char *word) {
    return strcmp(word, "text") == 0     ? POOL_STDOUT_TEXT
           : strcmp(word, "ignore") == 0 ? POOL_STDOUT_IGNORE
                                         : POOL_STDOUT_JSON;
}

static const char *handler_file_of(struct arena *arena, const struct pipeline_def *pipeline, const struct stage_def *def) {
    if (def->kind != STAGE_HANDLER) {
        return "";
    }
    return def->handler_file[0] == '/' ? def->handler_file
                                       : arena_format(arena, "%s/%s", pipeline->folder, def->handler_file);
}

struct pool_spec specs_pool(struct arena *arena, const struct pipeline_def *pipeline, const struct stage_def *def) {
    return (struct pool_spec){
        .pipeline = pipeline->name,
        .stage = def->name,
        .engine = engine_of(def->kind),
        .handler_file = handler_file_of(arena, pipeline, def),
        .handler_name = def->kind == STAGE_HANDLER ? def->handler_name : "",
        .arguments = def->arguments,
        .stdout_form = form_of(def->stdout_form),
        .config = def->with_json,
        .folder = pipeline->folder,
        .workers = def->workers,
        .timeout_ms = def->timeout_ms,
        .grace_ms = def->grace_ms,
        .limits = {.address_space_bytes = def->memory_bytes,
                   .cpu_seconds = def->cpu_seconds,
                   .file_size_bytes = def->file_size_bytes,
                   .open_files = def->open_files,
                   .nice = def->nice},
        .env = def->env,
        .user = def->user,
        .batch_size = def->batch_size,
        .batch_wait_ms = def->batch_wait_ms,
        .recycle_runs = def->recycle_runs,
        .recycle_bytes = def->recycle_bytes,
    };
}

/* By the names of this definition: a stage that was renamed has kept its id, and so its outputs. */
static struct store_inputs inputs_of(struct arena *arena, const struct node_pipeline *from, const char *const *names) {
    int count = 0;
    while (names != NULL && names[count] != NULL) {
        count++;
    }
    int *stages = arena_alloc(arena, sizeof *stages * (size_t)(count + 1));
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < from->def->stage_count; k++) {
            if (strcmp(from->def->stages[k].name, names[i]) == 0) {
                stages[i] = from->stage_ids[k];
            }
        }
        REQUIRE(stages[i] != 0); /* the loader knows them */
    }
    return (struct store_inputs){count, stages, names};
}

static enum sched_on_update policy_of(const char *word) {
    return strcmp(word, "finish") == 0      ? SCHED_FINISH
           : strcmp(word, "interrupt") == 0 ? SCHED_INTERRUPT
                                            : SCHED_RESTART;
}

static struct sched_stage stage_of(struct arena *arena, const struct node_pipeline *from, int position) {
    const struct pipeline_def *pipeline = from->def;
    const struct stage_def *def = &pipeline->stages[position];
    struct sched_stage stage = {
        .id = from->stage_ids[position],
        .elsewhere = from->elsewhere != NULL && from->elsewhere[position],
        .name = def->name,
        .kind = def->kind == STAGE_SQL ? SCHED_SQL : SCHED_HANDLER,
        .workers = def->workers,
        .attempts = def->retry.attempts,
        .backoff = def->retry.backoff,
        .timeout_ms = def->timeout_ms,
        .grace_ms = def->grace_ms,
        .after_commit = def->after_commit,
        .share_percent = def->share_percent,
        .limited = def->max_running > 0,
        .role = def->role,
        .inputs = inputs_of(arena, from, def->inputs),
    };
    if (def->kind == STAGE_SQL) {
        stage.statement_count = def->statement_count;
        stage.statements = statements_of(arena, def);
        return stage;
    }
    stage.pool = specs_pool(arena, pipeline, def);
    return stage;
}

struct sched_pipeline *specs_build(struct arena *arena, int count, const struct node_pipeline *pipelines) {
    struct sched_pipeline *built = arena_alloc(arena, sizeof *built * (size_t)(count + 1));
    for (int i = 0; i < count; i++) {
        const struct pipeline_def *def = pipelines[i].def;
        struct sched_stage *stages = arena_alloc(arena, sizeof *stages * (size_t)def->stage_count);
        for (int s = 0; s < def->stage_count; s++) {
            stages[s] = stage_of(arena, &pipelines[i], s);
        }
        built[i] = (struct sched_pipeline){.id = pipelines[i].id,
                                           .revision = pipelines[i].revision,
                                           .name = def->name,
                                           .stage_count = def->stage_count,
                                           .stages = stages,
                                           .on_update = policy_of(def->on_update)};
    }
    return built;
}
