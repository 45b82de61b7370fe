/* run.c - pgstage run FILE...: registers the pipelines and runs a node for them. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/init.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/reload.h"
#include "cli/run_database.h"
#include "cli/serving.h"
#include "cli/stop_signal.h"
#include "cli/worker_program.h"

struct run_state {
    struct definition_set set;
    bool *named; /* one an argument: it names a pipeline, not a file */
    struct reload_source reload;
    struct session session;
    char worker[PATH_MAX];
    char **labels; /* owned */
    struct node_options options;
    struct progress *progress;
};

static enum exit_status load_files(const struct args *args, struct run_state *state) {
    enum exit_status worst = EXIT_OK;
    struct buf said;
    buf_init(&said, SIZE_MAX);
    definition_set_init(&state->set, args->count);
    state->named = mem_alloc(sizeof *state->named * (size_t)(args->count + 1));
    for (int i = 0; i < args->count; i++) {
        state->named[i] = definition_is_name(args->positional[i]);
        if (!state->named[i]) {
            enum exit_status status = definition_load(args->positional[i], &state->set.definitions[i], &said);
            worst = status > worst ? status : worst;
        }
    }
    return definition_said(worst, &said);
}

static enum exit_status load_named(const struct args *args, struct run_state *state, struct buf *said) {
    enum exit_status worst = EXIT_OK;
    for (int i = 0; i < args->count; i++) {
        struct definition *definition = &state->set.definitions[i];
        if (state->named[i]) {
            definition_finish(definition); /* of an earlier try */
            enum exit_status status =
                definition_load_current(state->session.db, args->positional[i], NULL, definition, said);
            worst = status > worst ? status : worst;
        }
    }
    return worst;
}

static bool are_different(const struct args *args, const struct run_state *state) {
    for (int i = 0; i < state->set.count; i++) {
        for (int k = 0; k < i; k++) {
            if (strcmp(state->set.definitions[i].def->name, state->set.definitions[k].def->name) == 0) {
                usage_error(args, "'%s' and '%s' are the same pipeline", args->positional[k], args->positional[i]);
                return false;
            }
        }
    }
    return true;
}

/* A node that would do nothing is a mistake in its options. */
static bool serves_something(const struct args *args, struct run_state *state) {
    size_t length = 0;
    const char *unknown = serving_unknown(args, state->set.definitions, state->set.count, &length);
    if (unknown != NULL) {
        usage_error(args, "no stage is named '%.*s'", (int)length, unknown);
        return false;
    }
    if (serving_settle(args, state->set.definitions, state->set.count)) {
        return true;
    }
    struct buf missing;
    buf_init(&missing, SIZE_MAX);
    for (int i = 0; i < state->set.count; i++) {
        serving_missing_labels(args, &state->set.definitions[i], &missing);
    }
    usage_error(args, "this node would serve no stage%s%s", missing.length > 0 ? ": stages require " : "", missing.data);
    buf_finish(&missing);
    return false;
}

/* A file that equals an earlier one of the last ten revisions: the node works under the one that is current now, if it can. */
static enum exit_status take_current(const struct args *args, struct run_state *state, int index, struct buf *said) {
    struct definition *definition = &state->set.definitions[index];
    const char *file = args->positional[index];
    int older = definition->revision;
    struct buf why;
    buf_init(&why, SIZE_MAX);
    enum exit_status status = reload_take_current(args, state->session.db, file, definition, &why);
    if (status == EXIT_OK) {
        buf_append_format(said, "pgstage: %s: it equals revision %d; the current one, revision %d, is run instead. To make the "
                          "file current again: pgstage apply %s\n", file, older, definition->revision, file);
    } else if (status != EXIT_NO_DATABASE) {
        buf_append(said, why.data, why.length);
        buf_append_format(said, "pgstage: %s: it equals revision %d, and is run as that: the current one cannot be. To make the "
                          "file current again: pgstage apply %s\n", file, older, file);
        status = EXIT_OK;
    }
    buf_finish(&why);
    return status;
}

/* *replaced is set when another definition than that of its file is to be run. */
static enum exit_status register_all(const struct args *args, struct run_state *state, bool *replaced, struct buf *said) {
    for (int i = 0; i < state->set.count; i++) {
        struct definition *definition = &state->set.definitions[i];
        enum exit_status status = definition_register(state->session.db, definition, DEFINITION_RUN, said);
        if (status == EXIT_OK && definition->is_older) {
            *replaced = true;
            status = take_current(args, state, i, said);
        }
        if (status != EXIT_OK) {
            return status;
        }
    }
    return EXIT_OK;
}

static enum exit_status read_options(const struct args *args, struct run_state *state) {
    struct node_options *options = &state->options;
    options->lease_ms = 30 * 1000;
    if (!args_duration(args, "lease", &options->lease_ms) || !args_duration(args, "grace", &options->drain_ms)) {
        return EXIT_WRONG;
    }
    if (!serving_check(args)) {
        return EXIT_WRONG;
    }
    options->labels = (const char *const *)(state->labels = serving_labels(args));
    if (options->lease_ms < 300) {
        return usage_error(args, "--lease wants at least 300ms");
    }
    options->until_idle = args_has(args, "until-idle");
    options->no_schedules = args_has(args, "no-schedules");
    if (args_has(args, "schedules-only") && (options->no_schedules || options->until_idle || args_has(args, "stage") ||
                                    args_has(args, "only"))) {
        return usage_error(args, "--schedules-only runs no stages: it goes with none of --no-schedules, --until-idle, --stage "
                                 "and --only");
    }
    enum log_level level = options->until_idle && isatty(STDERR_FILENO) ? LOG_WARN : LOG_INFO;
    const char *name = args_get(args, "log");
    if (name != NULL && !log_level_from_name(name, &level)) {
        return usage_error(args, "--log wants error, warn, info or debug, not '%s'", name);
    }
    log_set_level(level);
    return EXIT_OK;
}

static enum status tend(void *context, struct error *err) {
    return cluster_tend(context, err);
}

static enum exit_status run_node(const struct args *args, struct run_state *state) {
    struct buf locks;
    buf_init(&locks, PATH_MAX);
    struct error err = ERROR_NONE;
    enum status status = cluster_home(args->home, &locks, &err);
    if (status != STATUS_OK) {
        buf_finish(&locks);
        return report_error(&err);
    }
    buf_append_string(&locks, "/nodes");
    state->options.tend = state->session.database.cluster != NULL ? tend : NULL;
    state->options.tend_context = state->session.database.cluster;
    state->options.pipeline_count = state->set.count;
    state->options.pipelines = state->set.pipelines;
    state->options.worker_program = state->worker;
    state->options.lock_folder = locks.data;
    state->progress = progress_create(args_has(args, "until-idle"));
    state->options.report = progress_report;
    state->options.context = state->progress;
    state->options.stop_was_asked = stop_was_asked;
    state->options.reload_was_asked = reload_was_asked;
    state->reload = (struct reload_source){args, state->named, state->session.database.url, state->set.definitions};
    state->options.reload = reload_read;
    state->options.release = reload_release;
    state->options.reload_context = &state->reload;
    struct node_result result = {0};
    status = node_run(&state->options, &result, &err);
    buf_finish(&locks);
    enum exit_status exit_status = EXIT_OK;
    if (status != STATUS_OK) {
        exit_status = report_error(&err);
    } else if (result.unclean) {
        fprintf(stderr, "pgstage: the database was away at the end; what was running is taken over after its lease\n");
        exit_status = EXIT_NO_DATABASE;
    } else if (state->options.until_idle && result.failed + result.stuck > 0) {
        exit_status = EXIT_SOME_FAILED;
    }
    if (result.stuck > 0) {
        fprintf(stderr, "pgstage: %lld task%s cannot go on: %s; %s, and run again\n", (long long)result.stuck,
                text_plural(result.stuck), result.stuck_reason,
                strstr(result.stuck_reason, " is paused") != NULL ? "resume it" : "mend it");
    }
    if (status == STATUS_OK && state->options.until_idle) {
        progress_summary(state->progress, &result, state->session.database.url, state->set.count, state->set.pipelines);
    }
    if (result.signalled && state->options.until_idle) {
        fprintf(stderr, "pgstage: stopped before all was done; the rest goes on at the next run\n");
    }
    progress_destroy(state->progress);
    return exit_status;
}

/* Of the stages that are served here; what is not there parks its pool, and may come. */
static enum exit_status check_files(const struct run_state *state) {
    struct buf said;
    enum exit_status status = EXIT_OK;
    buf_init(&said, SIZE_MAX);
    for (int i = 0; i < state->set.count; i++) {
        if (definition_check_files(&state->set.definitions[i], &said) != EXIT_OK) {
            status = EXIT_WRONG;
        }
    }
    return definition_said(status, &said);
}

/* Whether the definitions give the node something to do that may be loaded, and the server the connections for it. */
static enum exit_status check_served(const struct args *args, struct run_state *state) {
    if (!serves_something(args, state)) {
        return EXIT_WRONG;
    }
    enum exit_status status = check_files(state);
    if (status != EXIT_OK) {
        return status;
    }
    return run_check_room(&state->session, state->set.definitions, state->set.count, state->options.pooled);
}

static enum exit_status register_definitions(const struct args *args, struct run_state *state) {
    struct buf said;
    bool replaced = false;
    buf_init(&said, SIZE_MAX);
    enum exit_status status = load_named(args, state, &said);
    if (status == EXIT_OK) {
        status = are_different(args, state) ? check_served(args, state) : EXIT_WRONG;
    }
    status = status == EXIT_OK ? register_all(args, state, &replaced, &said) : status;
    status = definition_said(status, &said);
    if (status == EXIT_OK && replaced) {
        status = check_served(args, state); /* what the files say was looked at before */
    }
    for (int i = 0; status == EXIT_OK && i < state->set.count; i++) {
        state->set.pipelines[i] = definition_for_node(&state->set.definitions[i]);
    }
    return status;
}

/* Connects and registers. A node that serves waits for its database as long as it takes, at its start as later. */
static enum exit_status start(const struct args *args, struct run_state *state) {
    const struct backoff pace = {BACKOFF_EXPONENTIAL, 100, 10 * 1000, 20};
    struct error told = ERROR_NONE;
    for (int64_t attempt = 1;; attempt++) {
        struct error err = ERROR_NONE;
        enum status connected = session_connect_checked(args, &state->session, &err);
        enum exit_status status = EXIT_NO_DATABASE;
        if (connected == STATUS_OK) {
            status = run_find_way(args, &state->session, &state->options);
            status = status == EXIT_OK ? register_definitions(args, state) : status;
            sync_close(state->session.db);
            state->session.db = NULL;
        } else if (!status_is_transient(connected) || state->options.until_idle) {
            return report_error(&err);
        } else if (strcmp(err.text, told.text) != 0) {
            told = err;
            fprintf(stderr, "pgstage: %s\npgstage: trying again until the database is there\n", err.text);
        }
        if (status != EXIT_NO_DATABASE || state->options.until_idle || stop_was_asked()) {
            return status;
        }
        session_close(&state->session);
        stop_wait_ms(backoff_delay_ms(&pace, attempt, &random_system));
    }
}

static enum exit_status run_run(const struct args *args) {
    struct run_state state = {0};
    enum exit_status status = read_options(args, &state);
    if (status == EXIT_OK) {
        init_if_first_process();
        stop_listen();
        status = load_files(args, &state);
    }
    if (status == EXIT_OK) {
        status = worker_program_find(state.worker, sizeof state.worker);
    }
    if (status == EXIT_OK) {
        status = start(args, &state);
        if (status == EXIT_OK) {
            status = run_node(args, &state);
        } else if (status == EXIT_NO_DATABASE && stop_was_asked()) {
            status = EXIT_OK; /* nothing was begun */
        }
        session_close(&state.session);
    }
    definition_set_finish(&state.set);
    serving_labels_free(state.labels);
    free(state.named);
    return status;
}

static const struct option_spec options[] = {
    {"until-idle", NULL, "end when nothing is left to do, with a summary"},
    {"stage", "NAME=N,...", "workers of a stage, or of several; 0: this node does not serve it"},
    {"only", "STAGE,...", "serve these stages only; also PIPELINE/STAGE"},
    {"label", "NAME,...", "what this node has: it serves stages all of whose `requires` are among these"},
    {"no-schedules", NULL, "fire no schedules: other nodes do"},
    {"schedules-only", NULL, "fire schedules, and run no stages and scan no sources"},
    {"grace", "DURATION", "after the first signal, kill what still runs after that time"},
    {"lease", "DURATION", "how long the node may be silent before others take over (30s)"},
    {"listen-database", "URL", "where to LISTEN, when --database leads to a pooler in transaction mode"},
    {"log", "LEVEL", "error, warn, info or debug"},
    {0},
};

const struct command command_run_pipelines = {
    .name = "run",
    .usage = "FILE...|NAME... [--until-idle] [--stage NAME=N,...] [--only STAGE,...] [--label NAME,...]"
             " [--no-schedules|--schedules-only] [--grace D] [--lease D] [--log LEVEL] [--listen-database URL]",
    .summary = "run pipelines",
    .options = options,
    .min_positional = 1,
    .max_positional = -1,
    .run = run_run,
};
