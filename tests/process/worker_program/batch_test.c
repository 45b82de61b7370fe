/* Several runs at once: gathered from the pipe, answered one by one, or all told to be split. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

static struct rig rig;

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(worker_batch, .fini = finish, .timeout = 180);

static void open_batch(const char *handler, uint32_t size) {
    struct wire_hello hello = rig_hello(HANDLERS, handler);
    hello.batch_size = size;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
}

static void want_refused(const char *handler, const char *reason) {
    struct wire_hello hello = rig_hello(HANDLERS, handler);
    hello.batch_size = 2;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_refused(&rig, reason);
}

/* One run of a batch, of which `left` follow; its key is "doc" and its number. */
static void send_run(uint64_t run, const char *payload, uint32_t left, int64_t timeout_ms) {
    char key[16];
    int length = snprintf(key, sizeof key, "doc%d", (int)run);
    rig_send_run(&rig, &(struct wire_run){.run = run,
                                          .lease_end_ms = INT64_MAX,
                                          .timeout_ms = timeout_ms,
                                          .version = 1,
                                          .attempt = 1,
                                          .key = {key, (uint32_t)length},
                                          .payload = {payload, (uint32_t)strlen(payload)},
                                          .batch_left = left});
}

static void send_batch(const char *const *payloads, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        send_run(i + 1, payloads[i], count - 1 - i, 0);
    }
}

Test(worker_batch, each_task_has_a_result_of_its_own) {
    open_batch("batch", 6);
    send_batch((const char *const[]){"{}", "{\"do\":\"fail\"}", "{\"do\":\"retry\"}", "{\"do\":\"route\"}",
                                     "{\"do\":\"sql\"}", "{}"},
               6);
    rig_want_output(&rig, 1, "{\"key\":\"doc1\",\"count\":6}");
    rig_want_failure(&rig, 2, WIRE_FAIL, "doc2 is bad");
    rig_want_failure(&rig, 3, WIRE_RETRY, "doc3 is not there yet");
    struct wire_result result;
    rig_want_result(&rig, 4, &result);
    cr_assert_eq(result.flow, WIRE_ROUTE);
    cr_assert_str_eq(result.target.data, "review");
    wire_result_finish(&result);
    rig_want_result(&rig, 5, &result);
    cr_assert_eq(result.statement_count, 1);
    wire_result_finish(&result);
    rig_want_output(&rig, 6, "{\"key\":\"doc6\",\"count\":6}");
    rig_want_logged(&rig, "log of doc1\nlog of doc5\nlog of doc6\n");
    cr_assert_eq(rig.progress_count, 3, "one of each task, whenever the last was: %d", rig.progress_count);
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
}

Test(worker_batch, one_that_fails_as_a_whole_is_to_be_split) {
    open_batch("batch", 3);
    send_batch((const char *const[]){"{}", "{\"do\":\"fail_all\"}", "{}"}, 3);
    for (uint64_t run = 1; run <= 3; run++) {
        rig_want_failure(&rig, run, WIRE_SPLIT, "the table is gone");
    }
    send_batch((const char *const[]){"{}", "{\"do\":\"retry_all\"}"}, 2);
    for (uint64_t run = 1; run <= 2; run++) {
        rig_want_failure(&rig, run, WIRE_SPLIT, "the handler gave no reason");
    }
    send_batch((const char *const[]){"{\"do\":\"return_9\"}", "{}"}, 2);
    for (uint64_t run = 1; run <= 2; run++) {
        rig_want_failure(&rig, run, WIRE_SPLIT, "the handler returned 9, which is no pgstage_result");
    }
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
}

Test(worker_batch, of_one_that_fails_is_that_task_s_failure) {
    open_batch("batch", 3);
    send_batch((const char *const[]){"{\"do\":\"fail_all\"}"}, 1);
    rig_want_failure(&rig, 1, WIRE_FAIL, "the table is gone");
    send_batch((const char *const[]){"{\"do\":\"retry_all\"}"}, 1);
    rig_want_failure(&rig, 1, WIRE_RETRY, "the handler gave no reason");
    send_batch((const char *const[]){"{}"}, 1);
    rig_want_output(&rig, 1, "{\"key\":\"doc1\",\"count\":1}");
}

Test(worker_batch, an_exit_says_split_to_all_or_fails_the_one) {
    open_batch("batch", 3);
    send_batch((const char *const[]){"{}", "{\"do\":\"exit\"}"}, 2);
    rig_want_failure(&rig, 1, WIRE_SPLIT, "the handler called exit(3) instead of returning");
    rig_want_failure(&rig, 2, WIRE_SPLIT, "the handler called exit(3) instead of returning");
    rig_want_exit(&rig, 3);
    rig_finish(&rig);
    open_batch("batch", 3);
    send_batch((const char *const[]){"{\"do\":\"exit\"}"}, 1);
    rig_want_failure(&rig, 1, WIRE_FAIL, "the handler called exit(3) instead of returning");
    rig_want_exit(&rig, 3);
}

Test(worker_batch, two_in_the_pipe_are_not_mixed_up) {
    open_batch("batch", 3);
    send_run(1, "{}", 1, 0);
    send_run(2, "{}", 0, 0);
    send_run(3, "{}", 0, 0);
    send_run(4, "{}", 2, 0);
    send_run(5, "{}", 1, 0);
    send_run(6, "{}", 0, 0);
    rig_want_output(&rig, 1, "{\"key\":\"doc1\",\"count\":2}");
    rig_want_output(&rig, 2, "{\"key\":\"doc2\",\"count\":2}");
    rig_want_output(&rig, 3, "{\"key\":\"doc3\",\"count\":1}");
    for (uint64_t run = 4; run <= 6; run++) {
        char output[64];
        snprintf(output, sizeof output, "{\"key\":\"doc%d\",\"count\":3}", (int)run);
        rig_want_output(&rig, run, output);
    }
}

Test(worker_batch, each_task_is_cancelled_and_superseded_and_timed_alone) {
    open_batch("batch_signs", 3);
    send_run(1, "{}", 2, 0);
    send_run(2, "{}", 1, 0);
    send_run(3, "{}", 0, 60000);
    rig_want_logged(&rig, "begun");
    rig_tell(&rig, 2, true, false);
    rig_tell(&rig, 3, false, true);
    rig_want_output(&rig, 1, "[false,false,true]");
    rig_want_output(&rig, 2, "[true,false,true]");
    rig_want_output(&rig, 3, "[false,true,false]");
}

/* Results go out in the order of the runs, so the first that is not to be told ends them. */
Test(worker_batch, after_term_what_is_done_is_told_up_to_the_first_failure) {
    struct wire_frame frame;
    open_batch("batch_ended", 3);
    send_batch((const char *const[]){"{}", "{}", "{}"}, 3);
    rig_want_logged(&rig, "begun");
    cr_assert_eq(kill(rig.pid, SIGTERM), 0);
    rig_want_output(&rig, 1, NULL);
    cr_assert_not(rig_next(&rig, &frame));
    rig_want_signal(&rig, SIGTERM);
    rig_finish(&rig);
    open_batch("batch_ended", 3);
    send_batch((const char *const[]){"{\"do\":\"all\"}", "{}", "{}"}, 3);
    rig_want_logged(&rig, "begun");
    cr_assert_eq(kill(rig.pid, SIGTERM), 0);
    cr_assert_not(rig_next(&rig, &frame));
    rig_want_signal(&rig, SIGTERM);
}

Test(worker_batch, which_function_is_called) {
    struct wire_hello hello = rig_hello(HANDLERS, "either");
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, "\"run\"");
    rig_finish(&rig);
    open_batch("either", 1);
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, "\"run_batch\"");
    rig_finish(&rig);
    open_batch("batch", 0);
    rig_run(&rig, 1, "{}");
    rig_want_output(&rig, 1, "{\"key\":\"doc\",\"count\":1}");
    rig_finish(&rig);
    want_refused("echo", "handler 'echo' of " HANDLERS
                         " has no .run_batch function, which a stage with batch: needs");
}

static void want_breach(const char *text) {
    char line[200];
    snprintf(line, sizeof line, "%s", text);
    rig_want_printed(&rig, line);
    rig_want_exit(&rig, 4);
    rig_finish(&rig);
}

Test(worker_batch, a_node_that_counts_wrong_is_not_served) {
    open_batch("batch", 3);
    send_run(1, "{}", 2, 0);
    send_run(2, "{}", 0, 0);
    want_breach("the node sent a batch that is not counted down to 0");
    open_batch("batch", 3);
    send_run(1, "{}", 2, 0);
    rig_stop(&rig);
    want_breach("the node sent STOP in the middle of a batch");
    open_batch("batch", 1);
    send_run(1, "{}", 1, 0);
    send_run(2, "{}", 0, 0);
    want_breach("the node sent a batch of 2 runs");
}

Test(worker_batch, a_handler_that_grew_says_that_it_is_full_once) {
    struct wire_hello hello = rig_hello(HANDLERS, "grow");
    hello.full_bytes = 512 << 20;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, "{\"mb\":1}");
    rig_run(&rig, 2, "{\"mb\":600}");
    rig_want_output(&rig, 1, NULL);
    rig_want_output(&rig, 2, NULL);
    struct wire_frame frame;
    cr_assert(rig_next(&rig, &frame));
    cr_assert_eq(frame.type, WIRE_FULL);
    rig_run(&rig, 3, "{\"mb\":600}");
    rig_want_output(&rig, 3, NULL);
    rig_run(&rig, 4, "{\"mb\":1}");
    rig_want_output(&rig, 4, NULL);
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
}
