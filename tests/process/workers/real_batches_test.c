/* real_batches_test.c - one task that spoils a batch for all, with the real worker program. */
#ifdef REAL_WORKER

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

enum { MANY = 64, FOR_EVER_MS = 3600000 };

TestSuite(real_batches, .timeout = 120);

struct spoil_case {
    const char *payload;
    int place;
    enum pool_end end;
    const char *kind, *message;
};

static struct spoil_case spoil_cases[] = {
    {"{\"spoil\": \"fail\"}", 5, POOL_FAIL, "error", "the-bad-one spoils it"},
    {"{\"spoil\": \"segv\"}", 63, POOL_CRASH, "crash", "crashed: signal 11 (SIGSEGV)"},
    {"{\"spoil\": \"segv\"}", 0, POOL_CRASH, "crash", "crashed: signal 11 (SIGSEGV)"},
    {"{\"spoil\": \"kill\"}", 32, POOL_LOST, "killed", "killed by signal 9 (SIGKILL)"},
    {"{\"spoil\": \"leave\"}", 17, POOL_CRASH, "no_answer", "exited with status 0 before answering"},
    {"{\"spoil\": \"hang\"}", 50, POOL_TIMEOUT, "timeout", "no answer within 1s"},
};

ParameterizedTestParameters(real_batches, one_of_many) {
    return cr_make_param_array(struct spoil_case, spoil_cases, sizeof spoil_cases / sizeof spoil_cases[0]);
}

static struct rig *open_batches(const char *handler_name, int64_t timeout_ms, int64_t recycle_bytes) {
    struct rig *rig = rig_create(handler_name);
    rig->options.program = REAL_WORKER;
    rig->spec.handler_file = TEST_HANDLERS;
    rig->spec.grace_ms = 0;
    rig->spec.timeout_ms = timeout_ms;
    rig->spec.batch_size = MANY;
    rig->spec.batch_wait_ms = FOR_EVER_MS;
    rig->spec.recycle_bytes = recycle_bytes;
    rig_open(rig);
    rig_wait_room(rig, MANY);
    return rig;
}

static void start_all(struct rig *rig, int place, const char *payload) {
    for (int i = 0; i < MANY; i++) {
        const char *own = i == place ? payload : "{}";
        rig_start_task(rig, (struct pool_task){.attempt = 1, .version = 1, .payload = {own, strlen(own)}},
                       i == place ? "the-bad-one" : "good");
    }
}

/* Exactly that one fails, with its kind. One call more than twice log2 n. */
ParameterizedTest(struct spoil_case *wanted, real_batches, one_of_many, .timeout = 120) {
    struct rig *rig = open_batches("spoiled", wanted->end == POOL_TIMEOUT ? 1000 : 0, 0);
    start_all(rig, wanted->place, wanted->payload);
    rig_wait_ends(rig, MANY);
    for (uint64_t run = 1; run <= MANY; run++) {
        const struct rig_end *end = rig_end_of(rig, run);
        bool is_bad = run == (uint64_t)wanted->place + 1;
        cr_assert_eq(end->end, is_bad ? wanted->end : POOL_OK, "run %d: %d %s", (int)run, (int)end->end, end->message);
        cr_assert_str_eq(end->kind, is_bad ? wanted->kind : "");
        cr_assert_str_eq(end->message, is_bad ? wanted->message : "");
    }
    rig_wait_log(rig, "a call with", 13);
    cr_assert_eq(rig_count_in_log(rig, "a call with"), 13);
    rig_finish(rig);
}

/* One that leaks costs the worker, when the batch is done, and no task. */
Test(real_batches, one_that_leaks) {
    struct rig *rig = open_batches("spoiled", 0, 250 * 1024 * 1024);
    start_all(rig, 40, "{\"spoil\": \"leak\"}");
    rig_wait_ends(rig, MANY);
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(rig->ends[i].end, POOL_OK, "%s", rig->ends[i].message);
    }
    rig_wait_log(rig, "worker.ready", 2);
    rig_wait_room(rig, MANY);
    start_all(rig, -1, NULL);
    rig_wait_ends(rig, 2 * MANY);
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), 2);
    cr_assert_eq(rig_count_in_log(rig, "a call with 64"), 2);
    rig_finish(rig);
}

Test(real_batches, an_item_has_its_share_of_the_time) {
    struct rig *rig = open_batches("embed", 0, 0);
    start_all(rig, -1, NULL);
    rig_wait_ends(rig, MANY);
    int64_t run_us = 0;
    for (int i = 0; i < MANY; i++) {
        run_us += rig->ends[i].run_us;
    }
    cr_assert(run_us > 19000 && run_us < 500000, "%ld us for a call of 20 ms", (long)run_us);
    rig_finish(rig);
}

#else
typedef int real_worker_is_not_built; /* an empty file is not C */
#endif
