/* real_test.c - the pools with the real worker program and handlers built as users build theirs. */
#ifdef REAL_WORKER

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

TestSuite(real, .timeout = 120);

static struct rig *real_rig(const char *handler_name) {
    struct rig *rig = rig_create(handler_name);
    rig->options.program = REAL_WORKER;
    rig->spec.handler_file = TEST_HANDLERS;
    rig->spec.grace_ms = 200;
    return rig;
}

static uint64_t start_payload(struct rig *rig, const char *payload) {
    return rig_start_task(
        rig, (struct pool_task){.attempt = 1, .version = 1, .payload = {payload, strlen(payload)}},
        "doc-13");
}

struct real_case {
    const char *handler_name, *payload;
    int64_t timeout_ms;
    enum pool_end end;
    const char *kind, *message;
    struct pool_limits limits;
};

static struct real_case real_cases[] = {
    {"echo", "{\"a\": 1}", 0, POOL_OK, "", "", {0}},
    {"fail", "{}", 0, POOL_FAIL, "error", "document 'doc-13' cannot be read", {0}},
    {"retry", "{}", 0, POOL_RETRY, "error", "attempt 1 found the service busy", {0}},
    {"crash_segv", "{}", 0, POOL_CRASH, "crash", "crashed: signal 11 (SIGSEGV)", {0}},
    {"crash_abort", "{}", 0, POOL_CRASH, "crash", "crashed: signal 6 (SIGABRT)", {0}},
    {"spin", "{}", 300, POOL_TIMEOUT, "timeout", "no answer within 300ms", {0}},
    {"spin",
     "{}",
     0,
     POOL_CRASH,
     "crash",
     "crashed: signal 24 (SIGXCPU): the stage's limit of CPU time was reached",
     {.cpu_seconds = 1}},
    {"hang", "{}", 300, POOL_TIMEOUT, "timeout", "no answer within 300ms", {0}},
    {"exit_now", "{}", 0, POOL_CRASH, "no_answer", "exited with status 0 before answering", {0}},
    {"exit3", "{}", 0, POOL_FAIL, "error", "the handler called exit(3) instead of returning", {0}},
    {"close_fd3", "{}", 0, POOL_CRASH, NULL, NULL, {0}},
    {"bad_frame", "{}", 0, POOL_CRASH, "protocol", NULL, {0}},
    {"big_output", "{\"bytes\": 20000000}", 0, POOL_OK, "", "", {0}},
    {"noisy", "{}", 0, POOL_OK, "", "", {0}},
};

ParameterizedTestParameters(real, each_handler) {
    return cr_make_param_array(struct real_case, real_cases,
                               sizeof real_cases / sizeof real_cases[0]);
}

ParameterizedTest(struct real_case *wanted, real, each_handler, .timeout = 120) {
    struct rig *rig = real_rig(wanted->handler_name);
    rig->spec.timeout_ms = wanted->timeout_ms;
    rig->spec.limits = wanted->limits;
    rig_open_up(rig);
    start_payload(rig, wanted->payload);
    rig_wait_ends(rig, 1);
    const struct rig_end *end = &rig->ends[0];
    cr_assert_eq(end->end, wanted->end, "%s: %d %s", wanted->handler_name, (int)end->end,
                 end->message);
    if (wanted->kind != NULL) {
        cr_assert_str_eq(end->kind, wanted->kind);
    }
    if (wanted->message != NULL) {
        cr_assert_str_eq(end->message, wanted->message);
    }
    rig_wait_room(rig, 1); /* the next one is up */
    rig_finish(rig);
}

Test(real, sql_comes_with_its_parameters) {
    struct rig *rig = real_rig("sql");
    rig_open_up(rig);
    start_payload(rig, "{\"statements\": [{\"sql\": \"insert into t values ($1, $2)\", "
                       "\"parameters\": [\"a\", null]}]}");
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig->ends[0].end, POOL_OK, "%s", rig->ends[0].message);
    cr_assert_eq(rig->ends[0].statement_count, 1);
    cr_assert_str_eq(rig->ends[0].statements, "insert into t values ($1, $2)(a,,)");
    rig_finish(rig);
}

static bool is_parked(const struct rig *rig) {
    return rig->ops.state(rig->pool, NULL) == POOL_PARKED;
}

static void expect_parked(const char *handler_name, const char *reason_part) {
    struct rig *rig = real_rig(handler_name);
    rig_open(rig);
    rig_wait(rig, is_parked);
    const char *reason;
    rig->ops.state(rig->pool, &reason);
    cr_assert_not_null(strstr(reason, reason_part), "%s", reason);
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), 3);
    rig_finish(rig);
}

Test(real, a_failing_init_parks_the_pool) {
    expect_parked("init_fail", "the model file x.bin is missing");
}

Test(real, a_handler_that_does_not_exist_parks_the_pool) {
    expect_parked("no_such_handler", "no_such_handler");
}

/* What keeps dying is parked, whatever it is made of: after three answers that it cannot work, or eleven deaths. */
struct sick_case {
    const char *what;
    enum pool_engine engine;
    const char *handler_name;
    const char *arguments[4];
    int starts;
    const char *reason_part;
};

#define READY "read hello; echo '{\"type\":\"ready\"}'; "

static struct sick_case sick_cases[] = {
    {"a handler whose init exits", POOL_HANDLER, "init_exit", {NULL}, 3, "init called exit(0)"},
    {"a handler whose init hangs", POOL_HANDLER, "init_hang", {NULL}, 11, "init hangs"},
    {"a command with a placeholder that is none", POOL_COMMAND, "", {"echo", "{nonesuch}"}, 3, "nonesuch"},
    {"a worker that exits at once", POOL_PROGRAM, "", {"sh", "-c", "exit 7"}, 3, "exited with status 7"},
    {"a worker that is killed at its start", POOL_PROGRAM, "", {"sh", "-c", "kill -9 $$"}, 3, "SIGKILL"},
    {"a worker that is not there", POOL_PROGRAM, "", {"no-such-program"}, 3, "no-such-program"},
    {"a worker that refuses",
     POOL_PROGRAM,
     "",
     {"sh", "-c", "read hello; echo '{\"type\":\"refused\",\"message\":\"no model\"}'"},
     3,
     "no model"},
    {"a worker that says nothing", POOL_PROGRAM, "", {"sh", "-c", "sleep 1000"}, 11, "silence at start"},
    {"a worker that says nonsense", POOL_PROGRAM, "", {"sh", "-c", "echo hello; sleep 1000"}, 3, "hello"},
    {"a worker that dies when it is ready", POOL_PROGRAM, "", {"sh", "-c", READY "exit 7"}, 11, "status 7"},
};

ParameterizedTestParameters(real, what_keeps_dying_is_parked) {
    return cr_make_param_array(struct sick_case, sick_cases, sizeof sick_cases / sizeof sick_cases[0]);
}

ParameterizedTest(struct sick_case *wanted, real, what_keeps_dying_is_parked, .timeout = 60) {
    char folder[] = "/tmp/pgstage-sick-XXXXXX", work[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(work, sizeof work, "%s/work", folder);
    struct rig *rig = real_rig(wanted->handler_name);
    rig->options.work_root = work;
    bool silent = strcmp(wanted->reason_part, "init hangs") == 0 || strcmp(wanted->reason_part, "silence at start") == 0;
    rig->options.start_timeout_ms = silent ? 300 : 0;
    rig->options.short_life_pause_ms = 200;
    rig->spec.engine = wanted->engine;
    rig->spec.folder = folder;
    rig->spec.workers = 5; /* many workers do not multiply it */
    if (wanted->engine != POOL_HANDLER) {
        rig->spec.handler_file = "";
        rig->spec.arguments = wanted->arguments;
    }
    rig_open(rig);
    rig_wait(rig, is_parked);
    const char *reason = NULL;
    rig->ops.state(rig->pool, &reason);
    cr_expect_not_null(strstr(reason, wanted->reason_part), "%s: %s", wanted->what, reason);
    int starts = rig_count_in_log(rig, "worker.start");
    cr_expect(starts >= wanted->starts && starts <= 12, "%s: %d starts", wanted->what, starts);
    cr_expect_eq(rig_count_in_log(rig, "pool.parked"), 1);
    rig_finish(rig);
    cr_expect_eq(rmdir(folder), 0, "%s: its folder is not empty", wanted->what);
}

Test(real, tell_cancels_a_handler_that_asks) {
    struct rig *rig = real_rig("sleep");
    rig_open_up(rig);
    uint64_t run = start_payload(rig, "{\"ms\": 60000}");
    rig_linger(rig, 50);
    rig->ops.tell(rig->pool, run, true, false);
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig->ends[0].end, POOL_RETRY);
    cr_assert_str_eq(rig->ends[0].message, "cancelled");
    rig_finish(rig);
}

Test(real, a_lease_that_ends_ends_the_worker_and_a_renewed_one_brings_it_back) {
    struct rig *rig = real_rig("sleep");
    rig_open(rig);
    rig->ops.set_lease_end(rig->ops.context, clock_now_ms(&clock_boottime) + 1500);
    rig_wait_room(rig, 1);
    start_payload(rig, "{\"ms\": 60000}");
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig->ends[0].end, POOL_LOST, "%s", rig->ends[0].message);
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), 1);
    rig->ops.set_lease_end(rig->ops.context, clock_now_ms(&clock_boottime) + 60000);
    rig_wait_room(rig, 1);
    rig_finish(rig);
}

Test(real, a_thousand_short_runs_in_order) {
    struct rig *rig = real_rig("echo");
    rig->spec.workers = 1;
    rig_open_up(rig);
    for (int started = 0; started < 1000;) {
        rig_freeze(rig);
        int room = rig->ops.room(rig->pool);
        for (; room > 0 && started < 1000; room--, started++) {
            start_payload(rig, "{\"n\": 1}");
        }
        rig_thaw(rig);
        rig_wait_ends(rig, rig->end_count + 1);
    }
    rig_wait_ends(rig, 1000);
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(rig->ends[i].end, POOL_OK);
        cr_assert_eq(rig->ends[i].run, i + 1);
    }
    cr_assert_eq(rig_count_in_log(rig, "worker.start"), 1);
    rig_finish(rig);
}

#else
typedef int real_worker_is_not_built; /* an empty file is not C */
#endif
