/* batches_test.c - runs that are given to a worker together: when, how many, and what becomes of them when one of them
 * spoils the others. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rig.h"

enum { FOR_EVER_MS = 3600000, MANY = 64 };

TestSuite(batches, .timeout = 60);

static struct rig *batch_rig(const char *handler_name, int size, int64_t wait_ms) {
    struct rig *rig = rig_create(handler_name);
    rig->spec.batch_size = size;
    rig->spec.batch_wait_ms = wait_ms;
    rig->spec.grace_ms = 200;
    return rig;
}

static void open_up(struct rig *rig) {
    rig_open(rig);
    rig_wait_room(rig, rig->spec.workers * rig->spec.batch_size);
}

static void start_many(struct rig *rig, const char *key, int count) {
    for (int i = 0; i < count; i++) {
        rig_start(rig, key);
    }
}

static int calls(const struct rig *rig, int size) {
    char text[32];
    snprintf(text, sizeof text, "batch of %d", size);
    return size == 0 ? rig_count_in_log(rig, "batch of ") : rig_count_in_log(rig, text);
}

static void expect_end(const struct rig *rig, uint64_t run, enum pool_end end) {
    const struct rig_end *over = rig_end_of(rig, run);
    cr_assert_not_null(over, "run %d is not over", (int)run);
    cr_expect_eq(over->end, end, "run %d ended as %d: %s", (int)run, (int)over->end, over->message);
}

/* ---- gathering ------------------------------------------------------------------------------------------------------ */

Test(batches, a_full_batch_does_not_wait) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    open_up(rig);
    start_many(rig, "place", 4);
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    rig_wait_ends(rig, 4);
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(rig_number(rig_end_of(rig, (uint64_t)i + 1)), i);
    }
    cr_assert_eq(calls(rig, 4), 1);
    cr_assert_eq(rig->ops.room(rig->pool), 4);
    rig_finish(rig);
}

Test(batches, one_that_is_not_full_waits_and_no_longer) {
    struct rig *rig = batch_rig("normal", 4, 400);
    open_up(rig);
    int64_t began_ms = clock_now_ms(&clock_boottime);
    rig_start(rig, "place");
    rig_linger(rig, 50);
    rig_start(rig, "place");
    rig_wait_ends(rig, 2);
    cr_expect_geq(rig->ends[0].at_ms - began_ms, 400);
    cr_expect_eq(calls(rig, 2), 1);
    /* What comes later waits anew, as long as it may itself. */
    began_ms = clock_now_ms(&clock_boottime);
    rig_start(rig, "place");
    rig_wait_ends(rig, 3);
    cr_expect_geq(rig->ends[2].at_ms - began_ms, 400);
    cr_expect_eq(calls(rig, 1), 1);
    rig_finish(rig);
}

Test(batches, without_a_wait_what_comes_together_goes_together) {
    struct rig *rig = batch_rig("normal", 10, 0);
    open_up(rig);
    start_many(rig, "place", 7);
    rig_wait_ends(rig, 7);
    cr_assert_eq(calls(rig, 7), 1);
    rig_finish(rig);
}

Test(batches, there_is_room_for_a_batch_an_idle_worker) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    rig->spec.workers = 2;
    open_up(rig);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(rig->ops.room(rig->pool), 8 - i);
        rig_start(rig, "sleep:100");
    }
    rig_start(rig, "sleep:100"); /* full: one worker is busy now */
    cr_assert_eq(rig->ops.room(rig->pool), 4);
    cr_assert(rig->ops.has_idle(rig->pool));
    start_many(rig, "sleep:100", 4);
    cr_assert_eq(rig->ops.room(rig->pool), 0);
    cr_assert_eq(rig_try(rig, "echo", false), STATUS_AGAIN);
    rig_wait_ends(rig, 8);
    cr_assert_eq(calls(rig, 4), 2);
    cr_assert_eq(rig->ops.room(rig->pool), 8);
    rig_finish(rig);
}

/* Two of 40 MB are more than a worker should get at once. */
Test(batches, a_batch_is_limited_in_bytes) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    rig->spec.workers = 2;
    open_up(rig);
    size_t length = 40 * 1024 * 1024;
    char *payload = mem_alloc(length);
    memset(payload, ' ', length);
    for (int i = 0; i < 3; i++) {
        rig_start_task(rig, (struct pool_task){.attempt = 1, .payload = {payload, length}}, "pid");
    }
    rig_wait_ends(rig, 2);
    rig_linger(rig, 50);
    cr_assert_eq(rig->end_count, 2, "the third has room beside it");
    cr_assert_eq(calls(rig, 1), 2);
    free(payload);
    rig_finish(rig);
    /* It went back when the pool was closed. */
}

Test(batches, a_worker_is_replaced_between_batches) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    rig->spec.recycle_runs = 6;
    open_up(rig);
    for (int i = 0; i < 4; i++) {
        rig_wait_room(rig, 4);
        start_many(rig, "pid", 4);
        rig_wait_ends(rig, 4 * i + 4);
    }
    cr_expect_eq(rig_number(&rig->ends[0]), rig_number(&rig->ends[7]));
    cr_expect_neq(rig_number(&rig->ends[7]), rig_number(&rig->ends[8]));
    cr_expect_eq(rig_number(&rig->ends[8]), rig_number(&rig->ends[15]));
    rig_finish(rig);
}

/* ---- one that spoils the others ------------------------------------------------------------------------------------- */

struct poison_case {
    const char *key;
    int place; /* among the MANY */
    enum pool_end end;
    const char *kind, *message;
};

static struct poison_case poison_cases[] = {
    {"poison:1", 37, POOL_FAIL, "error", "it tastes bad"},
    {"poison:2", 63, POOL_TIMEOUT, "timeout", "no answer within 600ms"},
    {"poison:3", 12, POOL_CRASH, "no_answer", "exited with status 0 before answering"},
    {"poison:4", 31, POOL_CRASH, "protocol", NULL},
    {"poison:111", 0, POOL_CRASH, "crash", "crashed: signal 11 (SIGSEGV)"},
    {"poison:111", 63, POOL_CRASH, "crash", "crashed: signal 11 (SIGSEGV)"},
    {"poison:109", 20, POOL_LOST, "killed", "killed by signal 9 (SIGKILL)"},
    {"poison:6", 50, POOL_CRASH, "no_answer", "the program died"},
    {"late_poison:111", 40, POOL_CRASH, "crash", "crashed: signal 11 (SIGSEGV)"},
};

ParameterizedTestParameters(batches, one_of_many) {
    return cr_make_param_array(struct poison_case, poison_cases, sizeof poison_cases / sizeof poison_cases[0]);
}

/* Only that one fails, with its kind, after 2 log2 n + 1 calls; and no brake is felt, though half of the calls crash. */
ParameterizedTest(struct poison_case *wanted, batches, one_of_many, .timeout = 60) {
    struct rig *rig = batch_rig("normal", MANY, FOR_EVER_MS);
    rig->options.restart = (struct backoff){BACKOFF_CONSTANT, 300000, 300000, 0};
    rig->options.short_life_pause_ms = 300000;
    rig->spec.timeout_ms = wanted->end == POOL_TIMEOUT ? 600 : 0;
    open_up(rig);
    for (int i = 0; i < MANY; i++) {
        rig_start(rig, i == wanted->place ? wanted->key : "echo");
    }
    rig_wait_ends(rig, MANY);
    const struct rig_end *bad = rig_end_of(rig, (uint64_t)wanted->place + 1);
    cr_assert_eq(bad->end, wanted->end, "%d: %s", (int)bad->end, bad->message);
    cr_assert_str_eq(bad->kind, wanted->kind);
    if (wanted->message != NULL) {
        cr_assert_str_eq(bad->message, wanted->message);
    }
    cr_assert_not_null(strstr(bad->last_output, "poisoned"), "%s", bad->last_output);
    for (uint64_t run = 1; run <= MANY; run++) {
        if (run != bad->run) {
            expect_end(rig, run, POOL_OK);
        }
    }
    bool early = strncmp(wanted->key, "late", 4) == 0; /* what was answered before is not run again */
    cr_assert(early ? calls(rig, 0) < 13 : calls(rig, 0) == 13, "%d calls:\n%s", calls(rig, 0), rig->log);
    cr_assert_eq(rig_count_in_log(rig, "batch.split"), early ? calls(rig, 0) / 2 : 6);
    rig_finish(rig);
}

Test(batches, halves_keep_the_order_and_go_before_others) {
    struct rig *rig = batch_rig("normal", 8, 30);
    open_up(rig);
    for (int i = 0; i < 8; i++) {
        rig_start(rig, i == 7 ? "poison:1" : "echo");
    }
    rig_wait_ends(rig, 8);
    for (int i = 0; i < 8; i++) {
        cr_expect_eq(rig->ends[i].run, i + 1);
    }
    rig_finish(rig);
}

static void start_more(struct rig *rig, const struct rig_end *end) {
    if (end->run == 2) {
        start_many(rig, "echo", 2); /* a batch of their own, and the worker is idle */
    }
}

Test(batches, what_is_gathered_comes_after_the_halves) {
    struct rig *rig = batch_rig("normal", 2, FOR_EVER_MS);
    rig->on_ended = start_more;
    open_up(rig);
    rig_start(rig, "sour");
    rig_start(rig, "echo");
    rig_wait_ends(rig, 4);
    cr_expect_eq(rig->ends[0].run, 2);
    cr_expect_eq(rig->ends[1].run, 1);
    cr_expect_eq(rig->ends[1].end, POOL_FAIL);
    rig_finish(rig);
}

Test(batches, two_bad_ones_are_both_found) {
    struct rig *rig = batch_rig("normal", 16, FOR_EVER_MS);
    rig->spec.workers = 2;
    open_up(rig);
    for (int i = 0; i < 16; i++) {
        rig_start(rig, i == 3 ? "poison:111" : i == 12 ? "poison:1" : "echo");
    }
    rig_wait_ends(rig, 16);
    for (int i = 0; i < 16; i++) {
        expect_end(rig, (uint64_t)i + 1, i == 3 ? POOL_CRASH : i == 12 ? POOL_FAIL : POOL_OK);
    }
    rig_finish(rig);
}

/* Answers come before the death, and in any order. */
Test(batches, what_was_answered_is_over) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    open_up(rig);
    uint64_t first = rig_start(rig, "last_first");
    rig_start(rig, "pid");
    uint64_t bad = rig_start(rig, "late_poison:111");
    uint64_t last = rig_start(rig, "echo");
    rig_wait_ends(rig, 4);
    cr_expect_str_eq(rig_end_of(rig, first)->output, "\"first\"");
    cr_expect_str_eq(rig_end_of(rig, last)->output, "\"last\"");
    expect_end(rig, bad, POOL_CRASH);
    cr_expect_eq(calls(rig, 0), 2, "only the one without an answer was run again");
    rig_finish(rig);
}

Test(batches, the_time_is_that_of_the_whole_batch) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    rig->spec.timeout_ms = 700;
    open_up(rig);
    start_many(rig, "sleep:200", 4);
    rig_wait_ends(rig, 4);
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(rig->ends[i].end, POOL_OK);
    }
    cr_expect_eq(rig_count_in_log(rig, "batch.split"), 1, "%s", rig->log);
    cr_expect_eq(rig_count_in_log(rig, "kind=timeout"), 1);
    rig_finish(rig);
}

/* A worker that never got the batch is not held against it. */
Test(batches, one_that_was_never_read_goes_back_whole) {
    struct rig *rig = batch_rig("normal", 2, 0);
    open_up(rig);
    rig_start(rig, "leave");
    rig_wait_ends(rig, 1);
    rig_start(rig, "echo");
    rig_start(rig, "echo");
    rig_wait_ends(rig, 3);
    expect_end(rig, 2, POOL_RETURNED);
    expect_end(rig, 3, POOL_RETURNED);
    cr_expect_eq(rig_count_in_log(rig, "batch.split"), 0);
    rig_finish(rig);
}

Test(batches, what_was_written_is_reported_with_each_that_failed) {
    struct rig *rig = batch_rig("normal", 3, FOR_EVER_MS);
    open_up(rig);
    rig_start(rig, "fail");
    rig_start(rig, "echo");
    rig_start(rig, "retry");
    rig_wait_ends(rig, 3);
    cr_expect_not_null(strstr(rig_end_of(rig, 1)->last_output, "last line"));
    cr_expect_not_null(strstr(rig_end_of(rig, 3)->last_output, "last line"));
    start_many(rig, "retry", 3);
    rig_wait_ends(rig, 6);
    cr_expect_null(strstr(rig_end_of(rig, 6)->last_output, "last line"), "of another batch");
    rig_finish(rig);
}

/* ---- told, interrupted, alone --------------------------------------------------------------------------------------- */

Test(batches, one_that_is_gathered_can_be_interrupted_and_told) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    open_up(rig);
    start_many(rig, "place", 3);
    rig->ops.interrupt(rig->pool, 1);
    rig->ops.interrupt(rig->pool, 1);
    rig->ops.tell(rig->pool, 3, false, true);
    cr_assert_eq(rig->end_count, 0, "not inside of the call");
    cr_assert_eq(rig->ops.room(rig->pool), 3);
    rig_wait_ends(rig, 2);
    expect_end(rig, 1, POOL_INTERRUPTED);
    expect_end(rig, 3, POOL_RETURNED);
    start_many(rig, "place", 3);
    rig_wait_ends(rig, 6);
    cr_expect_eq(calls(rig, 4), 1);
    cr_expect_eq(rig_count_in_log(rig, "worker.start"), 1);
    rig_finish(rig);
}

Test(batches, those_in_hand_are_told) {
    struct rig *rig = batch_rig("normal", 2, FOR_EVER_MS);
    open_up(rig);
    start_many(rig, "told", 2);
    rig_wait_log(rig, "batch of", 1);
    rig->ops.tell(rig->pool, 1, false, true);
    rig_wait_ends(rig, 1);
    rig->ops.tell(rig->pool, 2, true, false);
    rig_wait_ends(rig, 2);
    cr_expect_eq(rig_number(rig_end_of(rig, 1)), 2);
    cr_expect_eq(rig_number(rig_end_of(rig, 2)), 1);
    rig_finish(rig);
}

Test(batches, an_interrupt_costs_the_others_nothing) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    open_up(rig);
    rig_start(rig, "echo");
    rig_start(rig, "hang");
    start_many(rig, "echo", 2);
    rig_wait_ends(rig, 1);
    rig->ops.interrupt(rig->pool, 3);
    rig_wait_ends(rig, 4);
    expect_end(rig, 1, POOL_OK);
    expect_end(rig, 2, POOL_RETURNED);
    expect_end(rig, 3, POOL_INTERRUPTED);
    expect_end(rig, 4, POOL_RETURNED);
    cr_expect_eq(rig_count_in_log(rig, "batch.split"), 0);
    rig_finish(rig);
}

/* Also when the worker answers for the others while it is being ended. */
Test(batches, answers_count_that_come_while_the_worker_is_ended) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    rig->spec.grace_ms = 5000;
    open_up(rig);
    rig_start(rig, "late:300");
    start_many(rig, "place", 3);
    rig_wait_log(rig, "ignoring TERM", 1);
    rig->ops.interrupt(rig->pool, 2);
    rig_wait_ends(rig, 4);
    expect_end(rig, 1, POOL_OK);
    expect_end(rig, 2, POOL_INTERRUPTED);
    expect_end(rig, 3, POOL_OK);
    expect_end(rig, 4, POOL_OK);
    rig_finish(rig);
}

Test(batches, halves_that_wait_can_be_interrupted_and_told) {
    struct rig *rig = batch_rig("slow:200", 8, FOR_EVER_MS);
    open_up(rig);
    rig_start(rig, "poison:111");
    start_many(rig, "echo", 7);
    rig_wait_log(rig, "batch.split", 1);
    rig->ops.tell(rig->pool, 2, true, false);
    for (uint64_t run = 5; run <= 8; run++) { /* the whole second half */
        rig->ops.interrupt(rig->pool, run);
    }
    rig_wait_ends(rig, 8);
    expect_end(rig, 1, POOL_CRASH);
    expect_end(rig, 2, POOL_RETURNED);
    expect_end(rig, 3, POOL_OK);
    expect_end(rig, 8, POOL_INTERRUPTED);
    cr_expect_eq(calls(rig, 8) + calls(rig, 3), 2);
    rig_finish(rig);
}

/* The time-out has decided already: what is to be interrupted, or is not wanted any more, is not run again. */
Test(batches, one_that_is_interrupted_while_its_batch_dies_is_not_run_again) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    rig->spec.timeout_ms = 100;
    rig->spec.grace_ms = 300;
    open_up(rig);
    rig_start(rig, "poison:5");
    start_many(rig, "echo", 3);
    rig_wait_log(rig, "poisoned", 1);
    rig_linger(rig, 150);
    rig_linger(rig, 20); /* TERM is sent */
    rig->ops.interrupt(rig->pool, 1);
    rig->ops.tell(rig->pool, 2, false, true);
    rig_wait_ends(rig, 4);
    expect_end(rig, 1, POOL_INTERRUPTED);
    expect_end(rig, 2, POOL_RETURNED);
    expect_end(rig, 3, POOL_OK);
    cr_expect_eq(calls(rig, 1), 2);
    rig_finish(rig);
}

Test(batches, interrupt_all_ends_all) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    rig->spec.workers = 2;
    open_up(rig);
    start_many(rig, "hang", 4);
    start_many(rig, "echo", 2);
    rig->ops.interrupt_all(rig->ops.context, true);
    rig_wait_ends(rig, 6);
    for (uint64_t run = 1; run <= 6; run++) {
        expect_end(rig, run, POOL_INTERRUPTED);
    }
    rig_finish(rig);
}

Test(batches, interrupt_all_leaves_no_halves) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    rig->spec.timeout_ms = 100;
    rig->spec.grace_ms = 300;
    open_up(rig);
    start_many(rig, "poison:5", 4);
    rig_wait_log(rig, "poisoned", 1);
    rig_linger(rig, 150);
    rig_linger(rig, 20);
    rig->ops.interrupt_all(rig->ops.context, false);
    rig_wait_ends(rig, 4);
    for (uint64_t run = 1; run <= 4; run++) {
        expect_end(rig, run, POOL_INTERRUPTED);
    }
    rig_finish(rig);
}

/* What is gathered does not go with it, and does not wait for it longer than for a worker. */
Test(batches, alone_is_a_batch_of_one_in_a_fresh_process) {
    struct rig *rig = batch_rig("normal", 4, 50);
    open_up(rig);
    start_many(rig, "pid", 4);
    rig_wait_ends(rig, 4);
    start_many(rig, "pid", 2);
    uint64_t alone = rig_start_task(rig, (struct pool_task){.attempt = 1, .alone = true}, "pid");
    rig_wait_ends(rig, 7);
    cr_expect_neq(rig_number(rig_end_of(rig, alone)), rig_number(&rig->ends[0]));
    cr_expect_eq(calls(rig, 1), 1);
    cr_expect_eq(calls(rig, 2), 1);
    uint64_t bad = rig_start_task(rig, (struct pool_task){.attempt = 1, .alone = true}, "poison:111");
    rig_wait_ends(rig, 8);
    expect_end(rig, bad, POOL_CRASH);
    rig_finish(rig);
}

/* ---- nothing more comes --------------------------------------------------------------------------------------------- */

Test(batches, what_is_gathered_is_given_back) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    open_up(rig);
    start_many(rig, "echo", 3);
    rig->ops.give_back(rig->pool);
    cr_assert_eq(rig->end_count, 0, "not inside of the call");
    cr_assert_eq(rig->ops.room(rig->pool), 4);
    rig_wait_ends(rig, 3);
    for (uint64_t run = 1; run <= 3; run++) {
        expect_end(rig, run, POOL_RETURNED);
    }
    cr_expect_eq(calls(rig, 0), 0);
    rig_finish(rig);
}

Test(batches, halves_are_given_back_until_the_next_start) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    rig->spec.timeout_ms = 200;
    open_up(rig);
    start_many(rig, "poison:2", 4);
    rig->ops.give_back(rig->pool);
    rig_wait_ends(rig, 4);
    for (uint64_t run = 1; run <= 4; run++) {
        expect_end(rig, run, POOL_RETURNED);
    }
    rig_wait_room(rig, 4);
    start_many(rig, "poison:1", 4);
    rig_wait_ends(rig, 8);
    for (uint64_t run = 5; run <= 8; run++) {
        expect_end(rig, run, POOL_FAIL);
    }
    rig_finish(rig);
}

Test(batches, a_pool_that_closes_holds_nothing_back) {
    struct rig *rig = batch_rig("normal", 4, FOR_EVER_MS);
    rig->spec.timeout_ms = 200;
    rig->spec.workers = 2;
    open_up(rig);
    start_many(rig, "poison:2", 4);
    start_many(rig, "echo", 3);
    rig_wait_log(rig, "poisoned", 1);
    rig_finish(rig); /* which counts the ends */
}

Test(batches, a_parked_pool_gives_back_what_it_gathered) {
    struct rig *rig = batch_rig("idle_exit:100", 4, FOR_EVER_MS);
    open_up(rig);
    start_many(rig, "echo", 2);
    rig_wait_ends(rig, 2);
    expect_end(rig, 1, POOL_RETURNED);
    expect_end(rig, 2, POOL_RETURNED);
    cr_expect_eq(rig->ops.state(rig->pool, NULL), POOL_PARKED);
    rig_finish(rig);
}
