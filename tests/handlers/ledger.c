/* ledger.c - handlers that leave a trace: what a stage did is a row of the table `ledger`, written in the transaction that
 * completes the stage.
 */
#include <pgstage/handler.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A few milliseconds of work, longer for some documents than for others. */
static void work(const pgstage_task *task) {
    unsigned sum = 0;
    for (const char *at = pgstage_key(task); *at != '\0'; at++) {
        sum = sum * 31 + (unsigned char)*at;
    }
    struct timespec pause = {.tv_nsec = (long)(sum % 8) * 1000000};
    nanosleep(&pause, NULL);
}

static pgstage_result step(pgstage_task *task, void *state) {
    (void)state;
    work(task);
    size_t length;
    const char *input = pgstage_input(task, &length);
    json_t *value = json_pack("{s:s, s:I, s:i}", "stage", pgstage_stage(task), "version",
                              (json_int_t)pgstage_version(task), "input_bytes", (int)length);
    (void)input;
    return pgstage_output(task, value);
}
PGSTAGE_HANDLER(step, .run = step);

static pgstage_result ledger(pgstage_task *task, void *state) {
    char version[32];
    snprintf(version, sizeof version, "%lld", (long long)pgstage_version(task));
    const char *parameters[] = {pgstage_key(task), pgstage_stage(task), version};
    if (pgstage_sql(task, "insert into ledger (key, stage, version) values ($1, $2, $3::bigint)", 3, parameters) != 0) {
        return pgstage_fail(task, "the statement was refused");
    }
    return step(task, state);
}
PGSTAGE_HANDLER(ledger, .run = ledger);

/* Does what the payload says: {"do": "crash_abort"}. */
static pgstage_result by_payload(pgstage_task *task, void *state) {
    const char *what = json_string_value(json_object_get(pgstage_payload_json(task), "do"));
    if (what == NULL || strcmp(what, "echo") == 0) {
        return step(task, state);
    }
    if (strcmp(what, "ledger") == 0) {
        return ledger(task, state);
    }
    if (strcmp(what, "crash_abort") == 0) {
        abort();
    }
    if (strcmp(what, "crash_segv") == 0) {
        raise(SIGSEGV);
    }
    if (strcmp(what, "retry") == 0) {
        return pgstage_retry(task, "not yet");
    }
    if (strcmp(what, "exit0") == 0) {
        exit(0);
    }
    if (strcmp(what, "sleep") == 0) {
        json_int_t ms = json_integer_value(json_object_get(pgstage_payload_json(task), "ms"));
        struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
        nanosleep(&pause, NULL);
        return ledger(task, state);
    }
    if (strcmp(what, "bad_sql") == 0) {
        if (pgstage_sql(task, "insert into ledger (key, stage, version) values ('x', 1/0, 1)", 0, NULL) != 0) {
            return pgstage_fail(task, "refused");
        }
        return PGSTAGE_OK;
    }
    if (strcmp(what, "say") == 0) {
        const char *text = json_string_value(json_object_get(pgstage_payload_json(task), "text"));
        pgstage_log(task, "%s", text);
        fprintf(stderr, "%s\n", text);
        return pgstage_fail(task, "%s", text);
    }
    return pgstage_fail(task, "what is '%s'?", what);
}
PGSTAGE_HANDLER(by_payload, .run = by_payload);

/* Starts `sh -c 'sleep 100 | cat'` and waits for it. */
static pgstage_result shell(pgstage_task *task, void *state) {
    (void)task;
    (void)state;
    return system("sleep 100 | cat") == 0 ? PGSTAGE_OK : PGSTAGE_RETRY;
}
PGSTAGE_HANDLER(shell, .run = shell);
