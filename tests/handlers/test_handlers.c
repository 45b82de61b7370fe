/* test_handlers.c - handlers that behave: what a stage ordinarily does, one thing each. */
#include <ctype.h>
#include <fcntl.h>
#include <pgstage/handler.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static int64_t payload_number(pgstage_task *task, const char *name, int64_t fallback) {
    const json_t *value = json_object_get(pgstage_payload_json(task), name);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static json_t *parse(const char *text, size_t length) {
    return json_loadb(text, length, JSON_DECODE_ANY, NULL);
}

/* Everything that a task is. */
static pgstage_result echo(pgstage_task *task, void *state) {
    (void)state;
    size_t payload_length, input_length;
    const char *payload = pgstage_payload(task, &payload_length);
    const char *input = pgstage_input(task, &input_length);
    json_t *value =
        json_pack("{s:o, s:o, s:i, s:I, s:s, s:s, s:s}", "payload", parse(payload, payload_length),
                  "input", parse(input, input_length), "attempt", pgstage_attempt(task), "version",
                  (json_int_t)pgstage_version(task), "key", pgstage_key(task), "pipeline",
                  pgstage_pipeline(task), "stage", pgstage_stage(task));
    return pgstage_output(task, value);
}
PGSTAGE_HANDLER(echo, .run = echo);

/* What other stages returned. */
static pgstage_result inputs(pgstage_task *task, void *state) {
    (void)state;
    return pgstage_output(task, json_deep_copy(pgstage_inputs_json(task)));
}
PGSTAGE_HANDLER(inputs, .run = inputs);

/* {"text": "abc"} becomes {"text": "ABC"}. */
static pgstage_result upper(pgstage_task *task, void *state) {
    (void)state;
    const char *text = json_string_value(json_object_get(pgstage_payload_json(task), "text"));
    if (text == NULL) {
        return pgstage_fail(task, "the payload has no \"text\"");
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        return pgstage_retry(task, "out of memory");
    }
    for (char *at = copy; *at != '\0'; at++) {
        *at = (char)toupper((unsigned char)*at);
    }
    json_t *value = json_pack("{s:s}", "text", copy);
    free(copy);
    return pgstage_output(task, value);
}
PGSTAGE_HANDLER(upper, .run = upper);

/* Its payload as it came, byte for byte. */
static pgstage_result pass(pgstage_task *task, void *state) {
    (void)state;
    size_t length;
    const char *payload = pgstage_payload(task, &length);
    if (pgstage_set_output(task, payload, length) != 0) {
        return PGSTAGE_FAIL;
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(pass, .run = pass);

static pgstage_result fail(pgstage_task *task, void *state) {
    (void)state;
    return pgstage_fail(task, "document '%s' cannot be read", pgstage_key(task));
}
PGSTAGE_HANDLER(fail, .run = fail);

static pgstage_result retry(pgstage_task *task, void *state) {
    (void)state;
    return pgstage_retry(task, "attempt %d found the service busy", pgstage_attempt(task));
}
PGSTAGE_HANDLER(retry, .run = retry);

/* Works for {"ms": N}; ends early when it is cancelled, and says which of its questions were
 * answered with yes. */
static pgstage_result sleep_handler(pgstage_task *task, void *state) {
    (void)state;
    const struct timespec step = {.tv_nsec = 1000000};
    int64_t wanted = payload_number(task, "ms", 1000);
    pgstage_log(task, "begun");
    for (int64_t i = 0; i < wanted; i++) {
        if (pgstage_cancelled(task)) {
            return pgstage_retry(task, "cancelled");
        }
        if (pgstage_superseded(task)) {
            return pgstage_retry(task, "superseded");
        }
        nanosleep(&step, NULL);
    }
    return pgstage_output(task, json_pack("{s:I}", "slept_ms", (json_int_t)wanted));
}
PGSTAGE_HANDLER(sleep, .run = sleep_handler);

/* The same as `sleep`, but what it did before it was cancelled counts. */
static pgstage_result sleep_ok(pgstage_task *task, void *state) {
    pgstage_result result = sleep_handler(task, state);
    return result == PGSTAGE_RETRY ? pgstage_output(task, json_string("partly")) : result;
}
PGSTAGE_HANDLER(sleep_ok, .run = sleep_ok);

/* {"bytes": N}: a JSON string of N bytes in all. */
static pgstage_result big_output(pgstage_task *task, void *state) {
    (void)state;
    size_t bytes = (size_t)payload_number(task, "bytes", 1 << 20);
    char *text = malloc(bytes);
    if (text == NULL || bytes < 2) {
        free(text);
        return pgstage_fail(task, "no memory for %zu bytes", bytes);
    }
    memset(text, 'x', bytes);
    text[0] = text[bytes - 1] = '"';
    int code = pgstage_set_output(task, text, bytes);
    free(text);
    return code == 0 ? PGSTAGE_OK : PGSTAGE_FAIL;
}
PGSTAGE_HANDLER(big_output, .run = big_output);

/* {"statements": [{"sql": "...", "parameters": ["a", null]}, ...]} */
static pgstage_result sql(pgstage_task *task, void *state) {
    (void)state;
    size_t index, i;
    json_t *statement, *value;
    const char *parameters[16];
    json_array_foreach(json_object_get(pgstage_payload_json(task), "statements"), index,
                       statement) {
        json_t *list = json_object_get(statement, "parameters");
        int count = 0;
        json_array_foreach(list, i, value) {
            parameters[count++ % 16] = json_string_value(value);
        }
        const char *text = json_string_value(json_object_get(statement, "sql"));
        if (pgstage_sql(task, text, count, parameters) != 0) {
            return PGSTAGE_FAIL;
        }
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(sql, .run = sql);

/* {"lines": N}: so many log lines and progress reports. */
static pgstage_result talk(pgstage_task *task, void *state) {
    (void)state;
    int64_t lines = payload_number(task, "lines", 1);
    for (int64_t i = 1; i <= lines; i++) {
        pgstage_log(task, "line %lld of %lld\n", (long long)i, (long long)lines);
        pgstage_progress(task, (double)i / (double)lines, "line %lld", (long long)i);
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(talk, .run = talk);

/* {"STAGE": ["a", "finish", "snooze:250", ""]}: what becomes of the task at its first, second, ... pass through that stage:
 * a route, an early end, a snooze, or nothing special. The passes are counted in the output, which goes round as the
 * input: {"passes": {"STAGE": n}, "way": "ab..."}. */
static pgstage_result steer(pgstage_task *task, void *state) {
    (void)state;
    const char *stage = pgstage_stage(task);
    json_t *output = json_deep_copy(pgstage_input_json(task));
    if (!json_is_object(output)) {
        json_decref(output);
        output = json_pack("{s:{}, s:s}", "passes", "way", "");
    }
    json_t *passes = json_object_get(output, "passes");
    json_int_t pass = json_integer_value(json_object_get(passes, stage));
    json_object_set_new(passes, stage, json_integer(pass + 1));
    json_object_set_new(output, "way",
                        json_sprintf("%s%s", json_string_value(json_object_get(output, "way")), stage));
    const json_t *plan = json_object_get(pgstage_payload_json(task), stage);
    const char *what = json_string_value(json_array_get(plan, (size_t)pass));
    if (pgstage_output(task, output) != PGSTAGE_OK) {
        return PGSTAGE_FAIL;
    }
    if (what == NULL || what[0] == '\0') {
        return PGSTAGE_OK;
    }
    if (strncmp(what, "snooze:", 7) == 0) {
        return pgstage_snooze(task, strtoll(what + 7, NULL, 10));
    }
    return strcmp(what, "finish") == 0 ? pgstage_finish(task) : pgstage_route(task, what);
}
PGSTAGE_HANDLER(steer, .run = steer);

static pgstage_result remaining(pgstage_task *task, void *state) {
    (void)state;
    return pgstage_output(task, json_integer((json_int_t)pgstage_remaining_ms(task)));
}
PGSTAGE_HANDLER(remaining, .run = remaining);

/* Counts its runs from {"first": N} of its configuration; fini prints the count. */
static pgstage_result count_init(pgstage_worker *worker, void **state) {
    const json_t *first = json_object_get(pgstage_worker_config(worker), "first");
    long long *count = calloc(1, sizeof *count);
    if (count == NULL) {
        return pgstage_worker_fail(worker, "out of memory");
    }
    *count = json_integer_value(first);
    *state = count;
    return PGSTAGE_OK;
}

static pgstage_result count_run(pgstage_task *task, void *state) {
    long long *count = state;
    return pgstage_output(task, json_integer(++*count));
}

static void count_fini(void *state) {
    long long *count = state;
    printf("fini after %lld\n", *count);
    free(count);
}
PGSTAGE_HANDLER(count, .run = count_run, .init = count_init, .fini = count_fini);

/* Prints a line without its newline: it must be out when the run is over. */
static pgstage_result print(pgstage_task *task, void *state) {
    (void)state;
    printf("printed by %s", pgstage_key(task));
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(print, .run = print);

/* Which descriptors are open, which limits hold, and how SIGPIPE and SIGTERM act in a program that
 * it executes. */
static json_t *open_descriptors(void) {
    json_t *list = json_array();
    for (int fd = 0; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) != -1) {
            json_array_append_new(list, json_integer(fd));
        }
    }
    return list;
}

static json_int_t soft_limit(__rlimit_resource_t resource) {
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
               ? (json_int_t)limit.rlim_cur
               : -1;
}

static json_t *first_line_of(const char *command) {
    char line[256] = "";
    FILE *pipe = popen(command, "r");
    if (pipe != NULL) {
        if (fgets(line, sizeof line, pipe) != NULL) {
            line[strcspn(line, "\n")] = '\0';
        }
        pclose(pipe);
    }
    return json_string(line);
}

static pgstage_result surroundings(pgstage_task *task, void *state) {
    (void)state;
    json_t *descriptors = open_descriptors();
    return pgstage_output(
        task,
        json_pack("{s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "descriptors", descriptors, "core",
                  soft_limit(RLIMIT_CORE), "file_size", soft_limit(RLIMIT_FSIZE), "open_files",
                  soft_limit(RLIMIT_NOFILE), "address_space", soft_limit(RLIMIT_AS), "ignored",
                  first_line_of("grep SigIgn /proc/self/status | cut -f2"), "blocked",
                  first_line_of("grep SigBlk /proc/self/status | cut -f2"), "child_fds",
                  first_line_of("ls /proc/self/fd | tr '\\n' ' '")));
}
PGSTAGE_HANDLER(surroundings, .run = surroundings);

/* Works for {"ms": N} whatever happens; says when it is told of a newer version. */
static pgstage_result stubborn(pgstage_task *task, void *state) {
    (void)state;
    const struct timespec step = {.tv_nsec = 1000000};
    int64_t wanted = payload_number(task, "ms", 1000);
    bool told = false;
    for (int64_t i = 0; i < wanted; i++) {
        if (!told && pgstage_superseded(task)) {
            told = true;
            pgstage_log(task, "heard of a newer version");
        }
        nanosleep(&step, NULL);
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(stubborn, .run = stubborn);

/* Reads a book of ten pages. The first run comes to page 5, and ends as {"then": ...} says: "retry", "crash" or "hang". A
 * later run tells where it began. */
static pgstage_result pages(pgstage_task *task, void *state) {
    (void)state;
    double fraction = 0;
    const char *text = NULL;
    if (pgstage_last_progress(task, &fraction, &text)) {
        return pgstage_output(task, json_pack("{s:f, s:s}", "from", fraction, "text", text));
    }
    pgstage_progress(task, 0.5, "page %d of %d", 5, 10);
    const char *then = json_string_value(json_object_get(pgstage_payload_json(task), "then"));
    if (then != NULL && strcmp(then, "crash") == 0) {
        abort();
    }
    while (then != NULL && strcmp(then, "hang") == 0 && !pgstage_cancelled(task)) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return pgstage_retry(task, "the light went out");
}
PGSTAGE_HANDLER(pages, .run = pages);

/* What it got of earlier stages. */
static pgstage_result gather(pgstage_task *task, void *state) {
    (void)state;
    return pgstage_output(task, json_deep_copy(pgstage_inputs_json(task)));
}
PGSTAGE_HANDLER(gather, .run = gather);

/* ---- batches ---- */

static const char *what_to_do(pgstage_task *task) {
    const char *what = json_string_value(json_object_get(pgstage_payload_json(task), "do"));
    return what == NULL ? "" : what;
}

/* What one task of a batch does, as its payload says. */
static pgstage_result batch_item(pgstage_task *task, size_t count) {
    const char *what = what_to_do(task);
    if (strcmp(what, "fail") == 0) {
        return pgstage_fail(task, "%s is bad", pgstage_key(task));
    }
    if (strcmp(what, "retry") == 0) {
        return pgstage_retry(task, "%s is not there yet", pgstage_key(task));
    }
    if (strcmp(what, "route") == 0) {
        return pgstage_route(task, "review");
    }
    if (strcmp(what, "sql") == 0 && pgstage_sql(task, "select 1", 0, NULL) != 0) {
        return PGSTAGE_FAIL;
    }
    pgstage_log(task, "log of %s", pgstage_key(task));
    pgstage_progress(task, 0.5, "half of %s", pgstage_key(task));
    return pgstage_output(task, json_pack("{s:s, s:i}", "key", pgstage_key(task), "count", (int)count));
}

/* Ends the batch as a whole when a task says so. */
static pgstage_result batch(pgstage_task *const *tasks, size_t count, pgstage_result *results, void *state) {
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const char *what = what_to_do(tasks[i]);
        if (strcmp(what, "fail_all") == 0) {
            return pgstage_fail(tasks[i], "the table is gone");
        }
        if (strcmp(what, "retry_all") == 0) {
            return PGSTAGE_RETRY;
        }
        if (strcmp(what, "exit") == 0) {
            exit(3);
        }
        if (strcmp(what, "return_9") == 0) {
            return (pgstage_result)9;
        }
    }
    for (size_t i = 0; i < count; i++) {
        results[i] = batch_item(tasks[i], count);
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(batch, .run_batch = batch);

/* Waits until the second of its tasks is cancelled and the third superseded; the others must be neither. */
static pgstage_result batch_signs(pgstage_task *const *tasks, size_t count, pgstage_result *results, void *state) {
    (void)state;
    const struct timespec step = {.tv_nsec = 1000000};
    if (count != 3) {
        return pgstage_fail(tasks[0], "%zu tasks", count);
    }
    pgstage_log(tasks[0], "begun");
    while (!pgstage_cancelled(tasks[1]) || !pgstage_superseded(tasks[2])) {
        nanosleep(&step, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        results[i] = pgstage_output(
            tasks[i], json_pack("[b,b,b]", pgstage_cancelled(tasks[i]), pgstage_superseded(tasks[i]),
                                pgstage_remaining_ms(tasks[i]) == INT64_MAX));
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(batch_signs, .run_batch = batch_signs);

/* Waits for its end; then the second of its tasks fails, or all of them: {"do": "all"}. */
static pgstage_result batch_ended(pgstage_task *const *tasks, size_t count, pgstage_result *results, void *state) {
    (void)state;
    const struct timespec step = {.tv_nsec = 1000000};
    pgstage_log(tasks[0], "begun");
    while (!pgstage_cancelled(tasks[count - 1])) {
        nanosleep(&step, NULL);
    }
    results[1] = pgstage_retry(tasks[1], "ended");
    return strcmp(what_to_do(tasks[0]), "all") == 0 ? PGSTAGE_RETRY : PGSTAGE_OK;
}
PGSTAGE_HANDLER(batch_ended, .run_batch = batch_ended);

/* Both ways: which one was taken is its output. */
static pgstage_result either_one(pgstage_task *task, void *state) {
    (void)state;
    return pgstage_output(task, json_string("run"));
}

static pgstage_result either_batch(pgstage_task *const *tasks, size_t count, pgstage_result *results, void *state) {
    (void)state;
    for (size_t i = 0; i < count; i++) {
        results[i] = pgstage_output(tasks[i], json_string("run_batch"));
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(either, .run = either_one, .run_batch = either_batch);

/* {"mb": N}: keeps that much memory. */
static pgstage_result grow(pgstage_task *task, void *state) {
    (void)state;
    size_t bytes = (size_t)payload_number(task, "mb", 1) << 20;
    static char *kept;
    kept = realloc(kept, bytes);
    if (kept == NULL) {
        return pgstage_fail(task, "no memory");
    }
    memset(kept, 1, bytes);
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(grow, .run = grow);
