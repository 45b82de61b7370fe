/* frozen.c - built against a copy of the header as release 0.2 published it; neither file is ever changed. */
#include <pgstage/handler.h>
#include <stdlib.h>
#include <string.h>

struct state {
    int runs;
    char folder[256];
};

static pgstage_result frozen_init(pgstage_worker *worker, void **state) {
    const char *folder = pgstage_worker_folder(worker);
    if (!json_is_object(pgstage_worker_config(worker)) || strlen(folder) >= sizeof((struct state *)0)->folder) {
        return pgstage_worker_fail(worker, "no configuration");
    }
    struct state *made = calloc(1, sizeof *made);
    *state = made;
    if (made == NULL) {
        return PGSTAGE_RETRY;
    }
    strcpy(made->folder, folder);
    return PGSTAGE_OK;
}

/* Uses every function of that header once. */
static pgstage_result frozen_run(pgstage_task *task, void *state_of_worker) {
    struct state *state = state_of_worker;
    size_t length;
    double fraction = 0;
    const char *text = "none", *payload = pgstage_payload(task, &length), *input = pgstage_input(task, NULL);
    const char *parameters[] = {pgstage_key(task), NULL};
    pgstage_log(task, "%s/%s at version %lld", pgstage_pipeline(task), pgstage_stage(task),
                (long long)pgstage_version(task));
    pgstage_log_with(task, json_pack("{s:i}", "runs", ++state->runs), "a line with a field");
    pgstage_progress(task, 0.5, "half");
    if (pgstage_sql(task, "select $1, $2", 2, parameters) != 0 || pgstage_set_output(task, payload, length) != 0) {
        return PGSTAGE_FAIL;
    }
    if (pgstage_cancelled(task) || pgstage_superseded(task)) {
        return pgstage_fail(task, "told to stop");
    }
    if (pgstage_attempt(task) > 1 || pgstage_remaining_ms(task) == 0) {
        return pgstage_retry(task, "again");
    }
    (void)pgstage_last_progress(task, &fraction, &text);
    json_t *output = json_pack("{s:i, s:s, s:s, s:f, s:s}", "runs", state->runs, "input", input, "folder", state->folder,
                               "fraction", fraction, "text", text);
    json_object_set_new(output, "payload", json_deep_copy(pgstage_payload_json(task)));
    json_object_set_new(output, "parsed_input", json_deep_copy(pgstage_input_json(task)));
    json_object_set_new(output, "inputs_text", json_string(pgstage_inputs(task, NULL)));
    json_object_set_new(output, "inputs", json_deep_copy(pgstage_inputs_json(task)));
    json_object_set_new(output, "extract", json_deep_copy(pgstage_input_of(task, "extract")));
    (void)pgstage_snooze(task, 1);
    (void)pgstage_finish(task);
    (void)pgstage_route(task, "review");
    return pgstage_output(task, output);
}

static pgstage_result frozen_batch(pgstage_task *const *tasks, size_t count, pgstage_result *results, void *state) {
    for (size_t i = 0; i < count; i++) {
        results[i] = frozen_run(tasks[i], state);
    }
    return PGSTAGE_OK;
}

static void frozen_fini(void *state) {
    free(state);
}
PGSTAGE_HANDLER(frozen, .run = frozen_run, .init = frozen_init, .fini = frozen_fini, .run_batch = frozen_batch);
