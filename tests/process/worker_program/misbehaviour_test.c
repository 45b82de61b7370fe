/* What a handler can do wrong, and what its node sees of it: a reason where one can be told, else a
 * clear end. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"

static struct rig rig;

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(worker_misbehaviour, .fini = finish, .timeout = 300);

Test(worker_misbehaviour, a_crash_shows_as_its_signal) {
    rig_open(&rig, "crash_segv");
    rig_run(&rig, 1, NULL);
    rig_want_signal(&rig, SIGSEGV);
    rig_want_logged(&rig, "about to crash");
    rig_finish(&rig);
    rig_open(&rig, "crash_abort");
    rig_run(&rig, 1, NULL);
    rig_want_signal(&rig, SIGABRT);
}

Test(worker_misbehaviour, exit_is_told_before_the_end) {
    static const struct {
        const char *handler, *message;
        int status;
    } cases[] = {
        {"exit0", "the handler called exit(0) instead of returning", 0},
        {"exit3", "the handler called exit(3) instead of returning", 3},
        {"exit_thread", "the handler called exit(5) instead of returning", 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rig_open(&rig, cases[i].handler);
        rig_run(&rig, 1, NULL);
        rig_run(&rig, 2, NULL);
        rig_want_failure(&rig, 1, WIRE_FAIL, cases[i].message);
        rig_want_exit(&rig, cases[i].status);
        struct wire_frame frame;
        cr_assert_not(rig_next(&rig, &frame), "run 2 was never begun");
        rig_finish(&rig);
    }
}

Test(worker_misbehaviour, an_exit_that_cannot_be_told_leaves_no_result) {
    rig_open(&rig, "exit_now");
    rig_run(&rig, 1, NULL);
    struct wire_frame frame;
    cr_assert_not(rig_next(&rig, &frame));
    rig_want_exit(&rig, 0);
}

Test(worker_misbehaviour, a_forked_child_is_not_taken_for_the_worker) {
    rig_open(&rig, "child_exit");
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, "0");
    rig_finish(&rig);
    rig_open(&rig, "child_terminated");
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, "15");
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
}

Test(worker_misbehaviour, a_result_out_of_range_is_a_failure_with_words) {
    rig_open(&rig, "returns_7");
    rig_run(&rig, 1, NULL);
    rig_want_failure(&rig, 1, WIRE_FAIL, "the handler returned 7, which is no pgstage_result");
    rig_run(&rig, 2, NULL);
    rig_want_failure(&rig, 2, WIRE_FAIL, "the handler returned 7, which is no pgstage_result");
}

static void want_breach(const char *handler, const char *payload) {
    rig_open(&rig, handler);
    rig_run(&rig, 1, payload);
    rig_want_exit(&rig, 4);
    cr_assert_str_eq(rig.printed.data, "pgstage-worker: the handler closed descriptor 3, which is "
                                       "not its own\n");
    rig_finish(&rig);
}

Test(worker_misbehaviour, closing_the_way_to_the_node_ends_the_worker) {
    want_breach("close_fd3", NULL);
    want_breach("close_fd3", "{\"stay\":1}");
    want_breach("replace_fd3", "{\"file\":\"/dev/null\",\"stay\":1}");
}

Test(worker_misbehaviour, frames_never_end_up_in_a_file_of_the_handlers) {
    char file[] = "/tmp/pgstage-test-XXXXXX", payload[64];
    int fd = mkstemp(file);
    cr_assert_geq(fd, 0);
    snprintf(payload, sizeof payload, "{\"file\":\"%s\"}", file);
    rig_open(&rig, "replace_fd3");
    rig_run(&rig, 1, payload);
    rig_want_exit(&rig, 4);
    struct stat about;
    cr_assert_eq(fstat(fd, &about), 0);
    cr_assert_eq(about.st_size, 0);
    close(fd);
    unlink(file);
}

Test(worker_misbehaviour, garbage_on_the_way_to_the_node_is_recognised_there) {
    rig_open(&rig, "bad_frame");
    rig_run(&rig, 1, NULL);
    rig_want_printed(&rig, "");
    char header[WIRE_HEADER_BYTES];
    ssize_t got = 0;
    while (got < (ssize_t)sizeof header) {
        got += read(rig.node, header + got, sizeof header - (size_t)got);
    }
    struct wire_frame frame;
    cr_assert_eq(wire_next_frame(header, sizeof header, &frame, NULL), STATUS_PROTOCOL);
}

Test(worker_misbehaviour, ten_megabytes_of_noise_on_each_output) {
    rig_open(&rig, "noisy");
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, "\"said it all\"");
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    cr_assert_eq(rig.printed.length, 20 * 1024 * 1024);
    cr_assert_not_null(memmem(rig.printed.data, rig.printed.length, "\xFF\xFE\0 \xE2\x82 \x1B", 8));
}

Test(worker_misbehaviour, the_largest_output_passes_and_one_byte_more_does_not) {
    char payload[64];
    struct wire_result result;
    rig_open(&rig, "big_output");
    rig_run(&rig, 1, "{\"bytes\":134217728}");
    rig_want_result(&rig, 1, &result);
    cr_assert_eq(result.outcome, WIRE_OK);
    cr_assert_eq(result.output.length, 134217728);
    cr_assert_eq(result.output.data[134217727], '"');
    wire_result_finish(&result);
    snprintf(payload, sizeof payload, "{\"bytes\":%d}", 134217729);
    rig_run(&rig, 2, payload);
    rig_want_failure(&rig, 2, WIRE_FAIL,
                     "the output has 134217729 bytes, above the limit of 134217728");
    rig_run(&rig, 3, "{\"bytes\":2}");
    rig_want_output(&rig, 3, "\"\"");
}

/* 100 MB each way at once: the node sends all of it before it reads any of the results, which fill
 * the socket long before. Only a worker that reads while it writes lets it get that far. */
Test(worker_misbehaviour, full_pipes_in_both_directions_are_no_deadlock) {
    enum { RUNS = 100, BYTES = 1024 * 1024 };
    char *payload = malloc(BYTES + 1);
    cr_assert_not_null(payload);
    memset(payload, 'y', BYTES);
    payload[0] = payload[BYTES - 1] = '"';
    payload[BYTES] = '\0';
    rig_open(&rig, "pass");
    for (uint64_t run = 1; run <= RUNS; run++) {
        rig_run(&rig, run, payload);
    }
    for (uint64_t run = 1; run <= RUNS; run++) {
        rig_want_output(&rig, run, payload);
    }
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    free(payload);
}
