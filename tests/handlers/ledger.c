/* ledger.c - handlers that leave a trace: what a stage did is a row of the table `ledger`, written in the transaction that
 * completes the stage.
 */
#include <pgstage/handler.h>
#include <stdio.h>
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
