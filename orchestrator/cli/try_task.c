/* try_task.c - what a trial gives its stage: what the options say, and for what they do not say, what the database knows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/json_option.h"
#include "cli/json_read.h"
#include "cli/output.h"
#include "cli/selection.h"
#include "cli/try.h"
#include "db/array.h"
#include "sql/statements.h"

enum {
    TASK_VERSION,
    TASK_UPDATED_AT,
    TASK_ATTEMPT,
    TASK_CRASHES,
    TASK_RESCUES,
    TASK_PAYLOAD,
    TASK_INPUT,
    TASK_INPUTS,
    TASK_PROGRESS,
    TASK_PROGRESS_TEXT,
};

static struct pool_text text_of(const char *text) {
    return (struct pool_text){text, text == NULL ? 0 : strlen(text)};
}

/* ---- inputs ------------------------------------------------------------------------------------------------------- */

static bool reads(const struct stage_def *stage, const struct json_member *member) {
    for (int i = 0; stage->inputs != NULL && stage->inputs[i] != NULL; i++) {
        if (strlen(stage->inputs[i]) == member->name_length &&
            memcmp(stage->inputs[i], member->name, member->name_length) == 0) {
            return true;
        }
    }
    return false;
}

/* --inputs is an object of outputs by the names of the stages that `inputs:` lists. */
static enum exit_status check_inputs(const struct trial *trial) {
    const char *at = trial->inputs;
    struct json_member member;
    if (at == NULL) {
        return EXIT_OK;
    }
    if (trial->stage->inputs == NULL) {
        return usage_error(trial->args, "stage '%s' has no `inputs:` in %s", trial->stage->name, trial->pipeline->file);
    }
    if (at[strspn(at, " \t\r\n")] != '{') {
        return usage_error(trial->args, "--inputs wants a JSON object: {\"STAGE\": its output, ...}");
    }
    while (json_next_member(&at, &member)) {
        if (!reads(trial->stage, &member)) {
            return usage_error(trial->args, "--inputs has '%.*s', which `inputs:` of stage '%s' does not name",
                               (int)member.name_length, member.name, trial->stage->name);
        }
    }
    return EXIT_OK;
}

static bool find_member(const char *object, const char *name, struct json_member *member) {
    const char *at = object;
    bool found = false;
    struct json_member one;
    while (object != NULL && json_next_member(&at, &one)) {
        if (strlen(name) == one.name_length && memcmp(name, one.name, one.name_length) == 0) {
            *member = one; /* of a name that comes twice the last counts, as in jsonb */
            found = true;
        }
    }
    return found;
}

/* One object of all that `inputs:` names: what the option says, what the database has, or null. */
static void merge_inputs(struct trial *trial, const char *stored) {
    struct buf all;
    struct json_member member = {0};
    if (trial->stage->inputs == NULL) {
        return;
    }
    buf_init(&all, SIZE_MAX);
    for (int i = 0; trial->stage->inputs[i] != NULL; i++) {
        const char *name = trial->stage->inputs[i];
        bool found = find_member(trial->inputs, name, &member) || find_member(stored, name, &member);
        buf_append_format(&all, "%s\"%s\": ", i == 0 ? "{" : ", ", name);
        buf_append(&all, found ? member.value : "null", found ? member.value_length : 4);
    }
    buf_append_string(&all, "}");
    trial->task.inputs = (struct pool_text){arena_copy(&trial->arena, all.data, all.length), all.length};
    buf_finish(&all);
}

/* ---- the options -------------------------------------------------------------------------------------------------- */

static enum exit_status check_form(const struct args *args) {
    static const char *const whole[] = {"payload", "input", "inputs"};
    int from_input = 0;
    if (args_has(args, "key") && args_has(args, "payload")) {
        return usage_error(args, "--key and --payload exclude each other: the task has its payload");
    }
    if (args_has(args, "key") && args_has(args, "as")) {
        return usage_error(args, "--key and --as exclude each other");
    }
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        from_input += args_has(args, whole[i]) && strcmp(args_get(args, whole[i]), "-") == 0;
    }
    return from_input > 1 ? usage_error(args, "standard input can be read once") : EXIT_OK;
}

/* null is no payload, and no output, as in the database. */
static struct pool_text value_of(const char *text) {
    return text == NULL || json_text_is_null(text) ? (struct pool_text){0} : text_of(text);
}

enum exit_status trial_read_options(struct trial *trial) {
    const struct args *args = trial->args;
    const char *key = args_has(args, "key") ? args_get(args, "key") : args_has(args, "as") ? args_get(args, "as") : "try";
    int64_t attempt = 1;
    size_t length = 0;
    enum exit_status status = check_form(args);
    if (status == EXIT_OK && (!key_check(args, key) || !args_int(args, "attempt", 1, 1000000, &attempt))) {
        status = EXIT_WRONG;
    }
    status = status == EXIT_OK ? json_option_read(args, "payload", &trial->payload, &length) : status;
    status = status == EXIT_OK ? json_option_read(args, "input", &trial->input, &length) : status;
    status = status == EXIT_OK ? json_option_read(args, "inputs", &trial->inputs, &length) : status;
    status = status == EXIT_OK ? check_inputs(trial) : status;
    if (status != EXIT_OK) {
        return status;
    }
    trial->updated_at = "now";
    trial->task = (struct pool_task){
        .version = 1,
        .attempt = (int)attempt,
        .key = text_of(key),
        .payload = value_of(trial->payload),
        .input = value_of(trial->input),
    };
    merge_inputs(trial, NULL);
    return EXIT_OK;
}

/* ---- the task ----------------------------------------------------------------------------------------------------- */

static void write_names(const struct trial *trial, struct buf *names, struct buf *former, struct buf *inputs) {
    const struct pipeline_def *pipeline = trial->pipeline;
    const char *const *wanted = trial->stage->inputs;
    array_begin(names);
    array_begin(former);
    array_begin(inputs);
    for (int i = 0; i < pipeline->stage_count; i++) {
        const char *name = pipeline->stages[i].name, *before = pipeline->stages[i].renamed_from;
        array_add_text(names, name, strlen(name));
        array_add_text(former, before, before == NULL ? 0 : strlen(before));
    }
    for (int i = 0; wanted != NULL && wanted[i] != NULL; i++) {
        array_add_text(inputs, wanted[i], strlen(wanted[i]));
    }
    array_end(names);
    array_end(former);
    array_end(inputs);
}

static enum status query(struct trial *trial, struct db_result **result, struct error *err) {
    struct db_sync *db = trial->session.db;
    struct buf names, former, inputs;
    char position[16];
    buf_init(&names, SIZE_MAX);
    buf_init(&former, SIZE_MAX);
    buf_init(&inputs, SIZE_MAX);
    write_names(trial, &names, &former, &inputs);
    snprintf(position, sizeof position, "%d", trial->position + 1);
    struct db_param params[] = {DB_TEXT(trial->pipeline->name), DB_TEXT(names.data), DB_TEXT(former.data),
                                DB_TEXT(position), DB_TEXT(trial->task.key.data), DB_TEXT(inputs.data)};
    enum status status = sync_script(db, "begin transaction isolation level repeatable read, read only", err);
    if (status == STATUS_OK) {
        status = sync_run(db, NULL, sql_try_task.text, 6, params, result, err);
        struct error ignored = ERROR_NONE;
        enum status ended = sync_script(db, "rollback", &ignored);
        (void)ended; /* of a connection that is lost, the server ends it */
    }
    buf_finish(&names);
    buf_finish(&former);
    buf_finish(&inputs);
    return status;
}

static struct pool_text stored(struct trial *trial, const struct db_result *result, int column) {
    if (db_is_null(result, 0, column)) {
        return (struct pool_text){0};
    }
    size_t length = db_length(result, 0, column);
    return (struct pool_text){arena_copy(&trial->arena, db_value(result, 0, column), length), length};
}

static void take_progress(struct trial *trial, const struct db_result *result) {
    trial->task.has_progress = !db_is_null(result, 0, TASK_PROGRESS);
    if (trial->task.has_progress) {
        trial->task.progress = strtod(db_value(result, 0, TASK_PROGRESS), NULL);
        trial->task.progress_text = stored(trial, result, TASK_PROGRESS_TEXT);
    }
}

/* Most often the task has not come so far. What sql stages return is never an input. */
static void note_no_input(const struct trial *trial) {
    if (trial->position > 0 && trial->pipeline->stages[trial->position - 1].kind != STAGE_SQL && trial->input == NULL &&
        trial->task.input.data == NULL) {
        fprintf(stderr, "note: in version %lld of the task no stage before '%s' returned an output: its input is null, --input "
                "gives another\n", (long long)trial->task.version, trial->stage->name);
    }
}

static void take(struct trial *trial, const struct db_result *result) {
    trial->task.version = db_int64(result, 0, TASK_VERSION);
    trial->updated_at = arena_copy_string(&trial->arena, db_value(result, 0, TASK_UPDATED_AT));
    trial->crashes = (int)db_int64(result, 0, TASK_CRASHES);
    trial->rescues = (int)db_int64(result, 0, TASK_RESCUES);
    trial->task.payload = stored(trial, result, TASK_PAYLOAD);
    if (!args_has(trial->args, "attempt")) {
        trial->task.attempt = (int)db_int64(result, 0, TASK_ATTEMPT) + 1;
    }
    if (trial->input == NULL) {
        trial->task.input = stored(trial, result, TASK_INPUT);
    }
    note_no_input(trial);
    merge_inputs(trial, db_value(result, 0, TASK_INPUTS));
    take_progress(trial, result);
}

enum exit_status trial_read_task(struct trial *trial) {
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    enum exit_status status = EXIT_OK;
    if (query(trial, &result, &err) != STATUS_OK) {
        status = report_error(&err);
    } else if (db_rows(result) == 0) {
        status = catalog_no_task(trial->session.db, trial->pipeline->name, trial->task.key.data);
    } else {
        take(trial, result);
    }
    sync_result_free(result);
    return status;
}
