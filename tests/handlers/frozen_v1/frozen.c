/* frozen.c - built against a copy of the header as ABI 1 was published; neither file is ever
 * changed. */
#include <pgstage/handler.h>
#include <stdlib.h>

static pgstage_result frozen_init(pgstage_worker *worker, void **state) {
    if (!json_is_object(pgstage_worker_config(worker))) {
        return pgstage_worker_fail(worker, "no configuration");
    }
    *state = calloc(1, sizeof(int));
    return *state == NULL ? PGSTAGE_RETRY : PGSTAGE_OK;
}

/* Uses every function of that header once. */
static pgstage_result frozen_run(pgstage_task *task, void *state) {
    int *runs = state;
    size_t length;
    const char *payload = pgstage_payload(task, &length);
    const char *parameters[] = {pgstage_key(task), NULL};
    pgstage_log(task, "%s/%s at version %lld", pgstage_pipeline(task), pgstage_stage(task),
                (long long)pgstage_version(task));
    pgstage_progress(task, 0.5, "half");
    if (pgstage_sql(task, "select $1, $2", 2, parameters) != 0 ||
        pgstage_set_output(task, payload, length) != 0) {
        return PGSTAGE_FAIL;
    }
    if (pgstage_cancelled(task) || pgstage_superseded(task)) {
        return pgstage_fail(task, "told to stop");
    }
    if (pgstage_attempt(task) > 1 || pgstage_remaining_ms(task) == 0) {
        return pgstage_retry(task, "again");
    }
    const char *input = pgstage_input(task, NULL);
    json_t *parsed_input = json_deep_copy(pgstage_input_json(task));
    json_t *parsed_payload = json_deep_copy(pgstage_payload_json(task));
    return pgstage_output(task, json_pack("{s:i, s:s, s:o, s:o}", "runs", ++*runs, "text", input,
                                          "input", parsed_input, "payload", parsed_payload));
}

static void frozen_fini(void *state) {
    free(state);
}
PGSTAGE_HANDLER(frozen, .run = frozen_run, .init = frozen_init, .fini = frozen_fini);
