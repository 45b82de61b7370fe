/* ends_test.c - how runs end: each way that a worker can go, and what is said of it. (C55, C73,
 * C76) */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <string.h>

#include "base/utf8.h"
#include "rig.h"

TestSuite(ends, .timeout = 60);

Test(ends, echo_succeeds) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    const char payload[] = "{\"a\": [1, 2]}";
    uint64_t run = rig_start_task(
        rig, (struct pool_task){.attempt = 1, .payload = {payload, sizeof payload - 1}}, "echo");
    rig_wait_ends(rig, 1);
    const struct rig_end *end = rig_end_of(rig, run);
    cr_assert_eq(end->end, POOL_OK);
    cr_assert_str_eq(end->kind, "");
    cr_assert_str_eq(end->message, "");
    cr_assert_str_eq(end->last_output, "");
    cr_assert_str_eq(end->output, payload);
    cr_assert_eq(end->run_us, 100);
    rig_finish(rig);
}

Test(ends, the_worker_gets_attempt_and_version) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    rig_start_task(rig, (struct pool_task){.attempt = 3, .version = 42}, "attempt");
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig_number(&rig->ends[0]), 3042);
    rig_finish(rig);
}

Test(ends, the_worker_gets_earlier_outputs_and_progress) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    const char inputs[] = "{\"extract\": 1}", page[] = "page 4";
    rig_start_task(rig,
                   (struct pool_task){.attempt = 1,
                                      .inputs = {inputs, sizeof inputs - 1},
                                      .has_progress = true,
                                      .progress = 0.25,
                                      .progress_text = {page, sizeof page - 1}},
                   "extras");
    rig_wait_ends(rig, 1);
    cr_assert_str_eq(rig->ends[0].output, "{\"extract\": 1} 1 0.25 page 4");
    rig_finish(rig);
}

Test(ends, statements_come_with_their_parameters) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    const struct rig_end *end = rig_run(rig, "statements");
    cr_assert_eq(end->end, POOL_OK);
    cr_assert_eq(end->statement_count, 3);
    cr_assert_str_eq(end->statements, "insert 1(a,,)insert 2()insert 3(c,)");
    rig_finish(rig);
}

Test(ends, a_failure_has_a_message_and_output_that_can_be_stored) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    const struct rig_end *end = rig_run(rig, "fail");
    cr_assert_eq(end->end, POOL_FAIL);
    cr_assert_str_eq(end->kind, "error");
    cr_assert(utf8_is_valid(end->message, strlen(end->message)));
    cr_assert_eq(strncmp(end->message, "bad \xEF\xBF\xBD byte ", 13), 0, "%s", end->message);
    cr_assert_str_eq(end->last_output, "first line\nlast line ?[31m");
    rig_finish(rig);
}

Test(ends, output_of_a_good_run_is_not_reported_with_the_next) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    rig_run(rig, "quiet_noise:2");
    const struct rig_end *end = rig_run(rig, "fail");
    cr_assert_null(strstr(end->last_output, "...."), "%s", end->last_output);
    rig_finish(rig);
}

struct end_case {
    const char *key;
    enum pool_end end;
    const char *kind, *message;
};

/* Each costs the worker; the pool goes on. */
static struct end_case end_cases[] = {
    {"retry", POOL_RETRY, "error", "later"},
    {"signal:11", POOL_CRASH, "crash", "crashed: signal 11 (SIGSEGV)"},
    {"signal:7", POOL_CRASH, "crash", "crashed: signal 7 (SIGBUS)"},
    {"signal:4", POOL_CRASH, "crash", "crashed: signal 4 (SIGILL)"},
    {"signal:8", POOL_CRASH, "crash", "crashed: signal 8 (SIGFPE)"},
    {"signal:6", POOL_CRASH, "crash", "crashed: signal 6 (SIGABRT)"},
    {"signal:31", POOL_CRASH, "crash", "crashed: signal 31 (SIGSYS)"},
    {"signal:24", POOL_CRASH, "crash",
     "crashed: signal 24 (SIGXCPU): the stage's limit of CPU time was reached"},
    {"signal:25", POOL_CRASH, "crash",
     "crashed: signal 25 (SIGXFSZ): the stage's limit of file size was reached"},
    {"signal:9", POOL_LOST, "killed", "killed by signal 9 (SIGKILL)"},
    {"signal:15", POOL_LOST, "killed", "killed by signal 15 (SIGTERM)"},
    {"signal:1", POOL_LOST, "killed", "killed by signal 1 (SIGHUP)"},
    {"exit:0", POOL_CRASH, "no_answer", "exited with status 0 before answering"},
    {"exit:3", POOL_CRASH, "no_answer", "exited with status 3 before answering"},
    {"half:0", POOL_CRASH, "no_answer", "exited with status 0 before answering"},
    {"close", POOL_CRASH, "protocol", "closed its connection and lived on"},
    {"wrong_run", POOL_CRASH, "protocol", "a result of run 2 instead of 1"},
    {"garbage", POOL_CRASH, "protocol", NULL},
};

ParameterizedTestParameters(ends, each_kind) {
    return cr_make_param_array(struct end_case, end_cases, sizeof end_cases / sizeof end_cases[0]);
}

ParameterizedTest(struct end_case *wanted, ends, each_kind, .timeout = 60) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    const struct rig_end *end = rig_run(rig, wanted->key);
    cr_assert_eq(end->end, wanted->end, "%s: %d %s", wanted->key, (int)end->end, end->message);
    cr_assert_str_eq(end->kind, wanted->kind);
    if (wanted->message != NULL) {
        cr_assert_str_eq(end->message, wanted->message);
    } else {
        cr_assert_str_not_empty(end->message);
    }
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    rig_finish(rig);
}

Test(ends, a_crash_is_reported_with_the_last_lines) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    cr_assert_str_eq(rig_run(rig, "signal:11")->last_output, "about to die");
    rig_finish(rig);
}

/* A run given to a worker that is dying unseen would be its loss: waits until the death is known.
 */
static void wait_for_replacement(struct rig *rig) {
    while (rig_count_in_log(rig, "worker.ready") < 2) {
        rig_linger(rig, 1);
    }
}

Test(ends, an_answer_counts_though_the_worker_crashes_after_it) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    const struct rig_end *end = rig_run(rig, "ok_then:11");
    cr_assert_eq(end->end, POOL_OK);
    cr_assert_str_eq(end->output, "\"done\"");
    wait_for_replacement(rig);
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    rig_finish(rig);
}

static void start_one_more(struct rig *rig, const struct rig_end *end) {
    (void)end;
    rig->on_ended = NULL;
    rig_start(rig, "echo");
}

/* As one whose handler called exit(): the next run is not its fault, nor the pool's. */
Test(ends, a_run_that_its_worker_could_not_get_is_given_back) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    for (int i = 0; i < 12; i++) {
        rig->on_ended = start_one_more;
        cr_assert_eq(rig_run(rig, "leave:3")->end, POOL_OK);
        rig_wait_ends(rig, 2 * (i + 1));
        cr_assert_eq(rig->ends[2 * i + 1].end, POOL_RETURNED);
    }
    rig_wait_room(rig, 1);
    cr_assert_eq(rig->ops.state(rig->pool, NULL), POOL_UP);
    rig_finish(rig);
}

Test(ends, a_second_answer_costs_the_worker_but_not_the_run) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    cr_assert_str_eq(rig_run(rig, "twice")->output, "1");
    wait_for_replacement(rig);
    cr_assert_eq(rig_count_in_log(rig, "why=\"a result without a task in hand\""), 2);
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    rig_finish(rig);
}

Test(ends, a_worker_killed_while_busy_costs_nothing_but_the_run) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    pid_t pid = (pid_t)rig_number(rig_run(rig, "pid"));
    uint64_t run = rig_start(rig, "hang");
    rig_linger(rig, 20);
    kill(pid, SIGKILL);
    rig_wait_ends(rig, 2);
    cr_assert_eq(rig_end_of(rig, run)->end, POOL_LOST);
    cr_assert_str_eq(rig_end_of(rig, run)->message, "killed by signal 9 (SIGKILL)");
    cr_assert_eq(rig_run(rig, "echo")->end, POOL_OK);
    rig_finish(rig);
}

Test(ends, a_worker_killed_while_idle_is_replaced) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    for (int i = 0; i < 30; i++) { /* more often than deaths of its own would be forgiven */
        pid_t pid = (pid_t)rig_number(rig_run(rig, "pid"));
        kill(pid, SIGKILL);
        rig_wait_log(rig, "worker.end ", i + 1);
        rig_wait_room(rig, 1);
    }
    cr_assert_eq(rig->ops.state(rig->pool, NULL), POOL_UP);
    rig_finish(rig);
}

Test(ends, progress_and_log_lines_are_passed_on) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    cr_assert_eq(rig_run(rig, "progress")->end, POOL_OK);
    cr_assert_eq(rig->progress_count, 2, "the one of another run is not passed on");
    cr_assert_eq(rig->fraction, 1.0);
    cr_assert_eq(rig_count_in_log(rig, "task.log pipeline=library stage=extract worker=1 run=1 "
                                       "text=\"a line of the handler's\""),
                 1);
    cr_assert_eq(rig_count_in_log(rig, " run=1 text=\"with fields\" page=3 why=\"a \\\"b\\\"\\nlevel=x\" "
                                       "a___=true _run=null l=\"[1]\" f=0.4"),
                 1);
    cr_assert_eq(rig_count_in_log(rig, " text=\"strange\" fields=\"{\\\"a\\\": 1e999}\\n\""), 1);
    rig_finish(rig);
}

Test(ends, tell_reaches_the_handler) {
    struct rig *rig = rig_create("normal");
    rig_open_up(rig);
    uint64_t run = rig_start(rig, "told");
    rig->ops.tell(rig->pool, run, true, false);
    rig->ops.tell(rig->pool, 4711, true, true); /* unknown: ignored */
    rig_wait_ends(rig, 1);
    cr_assert_eq(rig_number(&rig->ends[0]), 1);
    rig_finish(rig);
}
