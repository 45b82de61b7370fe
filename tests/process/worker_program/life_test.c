/* A worker's ordinary life: start, runs, stop; and what a wrong start or a wrong message ends in.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

static struct rig rig;

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(worker_life, .fini = finish, .timeout = 180);

static struct wire_bytes bytes_of(const char *text) {
    return (struct wire_bytes){text, (uint32_t)strlen(text)};
}

Test(worker_life, runs_until_it_is_told_to_stop) {
    struct wire_hello hello = rig_hello(HANDLERS, "count");
    hello.config = bytes_of("{\"first\":40}");
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, "41");
    rig_run(&rig, 2, "{}");
    rig_want_output(&rig, 2, "42");
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    cr_assert_str_eq(rig.printed.data, "fini after 42\n");
}

Test(worker_life, gives_the_handler_all_of_a_task) {
    rig_open(&rig, "echo");
    rig_send_run(&rig, &(struct wire_run){.run = UINT64_MAX,
                                          .lease_end_ms = INT64_MAX,
                                          .version = INT64_MAX,
                                          .attempt = 3,
                                          .key = bytes_of("a/\xC3\xA4"),
                                          .payload = bytes_of("{\"n\": 1}"),
                                          .input = bytes_of("[true]")});
    rig_want_output(&rig, UINT64_MAX,
                    "{\"payload\":{\"n\":1},\"input\":[true],\"attempt\":3,\"version\":"
                    "9223372036854775807,\"key\":\"a/\xC3\xA4\",\"pipeline\":\"library\","
                    "\"stage\":\"extract\"}");
    rig_run(&rig, 0, NULL);
    rig_want_output(&rig, 0,
                    "{\"payload\":null,\"input\":null,\"attempt\":1,\"version\":1,\"key\":\"doc\","
                    "\"pipeline\":\"library\",\"stage\":\"extract\"}");
}

Test(worker_life, finishes_its_queue_in_order_before_it_stops) {
    rig_open(&rig, "pass");
    char payload[24];
    for (uint64_t run = 1; run <= 500; run++) {
        snprintf(payload, sizeof payload, "%d", (int)run);
        rig_run(&rig, run, payload);
    }
    rig_stop(&rig);
    for (uint64_t run = 1; run <= 500; run++) {
        snprintf(payload, sizeof payload, "%d", (int)run);
        rig_want_output(&rig, run, payload);
    }
    rig_want_exit(&rig, 0);
}

Test(worker_life, measures_the_time_in_the_handler) {
    rig_open(&rig, "sleep");
    int64_t before = now_ms();
    rig_run(&rig, 1, "{\"ms\":20}");
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    cr_assert_geq(result.run_us, 20000);
    cr_assert_leq(result.run_us, (now_ms() - before + 1) * 1000);
    wire_result_finish(&result);
}

Test(worker_life, passes_statements_and_their_nulls) {
    rig_open(&rig, "sql");
    rig_run(&rig, 1,
            "{\"statements\":[{\"sql\":\"select 1\"},"
            "{\"sql\":\"select $1, $2\",\"parameters\":[\"x\",null]},"
            "{\"sql\":\"select $1\",\"parameters\":[\"\"]}]}");
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    cr_assert_eq(result.outcome, WIRE_OK);
    cr_assert_null(result.output.data);
    cr_assert_eq(result.statement_count, 3);
    cr_assert_str_eq(result.statements[0].sql.data, "select 1");
    cr_assert_eq(result.statements[0].parameter_count, 0);
    cr_assert_eq(result.statements[1].parameter_count, 2);
    cr_assert_str_eq(result.statements[1].parameters[0].data, "x");
    cr_assert_null(result.statements[1].parameters[1].data);
    cr_assert_str_eq(result.statements[2].parameters[0].data, "");
    wire_result_finish(&result);
}

static void want_flow(uint64_t run, enum wire_flow flow, const char *target, int64_t delay_ms) {
    struct wire_result result;
    rig_want_result(&rig, run, &result);
    cr_assert_eq(result.outcome, WIRE_OK, "%s", result.message.data);
    cr_assert_eq(result.flow, flow);
    cr_assert_eq(result.delay_ms, delay_ms);
    if (target == NULL) {
        cr_assert_null(result.target.data);
    } else {
        cr_assert_str_eq(result.target.data, target);
    }
    cr_assert_not_null(result.output.data);
    wire_result_finish(&result);
}

/* What one run said is not taken for the next one's. */
Test(worker_life, passes_on_where_the_task_goes) {
    rig_open(&rig, "steer");
    rig_run(&rig, 1, "{\"extract\": [\"review\"]}");
    rig_run(&rig, 2, "{\"extract\": [\"snooze:1500\"]}");
    rig_run(&rig, 3, "{\"extract\": [\"finish\"]}");
    rig_run(&rig, 4, "{}");
    want_flow(1, WIRE_ROUTE, "review", 0);
    want_flow(2, WIRE_SNOOZE, NULL, 1500);
    want_flow(3, WIRE_FINISH, NULL, 0);
    want_flow(4, WIRE_GO_ON, NULL, 0);
    rig_run(&rig, 5, "{\"extract\": [\"snooze:-1\"]}");
    rig_want_failure(&rig, 5, WIRE_FAIL, "a snooze of -1 ms");
}

Test(worker_life, tells_a_node_of_an_older_release_nothing_that_it_does_not_know) {
    struct wire_hello hello = rig_hello(HANDLERS, "steer");
    hello.minor = 0;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, "{\"extract\": [\"finish\"]}");
    rig_want_failure(&rig, 1, WIRE_RETRY,
                     "the node is of an older release, which cannot route, finish early or snooze: "
                     "restart it");
    rig_run(&rig, 2, "{}");
    want_flow(2, WIRE_GO_ON, NULL, 0);
}

Test(worker_life, a_failure_keeps_the_worker_and_drops_what_was_queued) {
    rig_open(&rig, "sql");
    rig_run(&rig, 1, "{\"statements\":[{\"sql\":\"select 1\"},{\"sql\":\"\"}]}");
    rig_want_failure(&rig, 1, WIRE_FAIL, "SQL statement 2 is empty");
    rig_run(&rig, 2, "{\"statements\":[]}");
    rig_want_output(&rig, 2, NULL);
}

Test(worker_life, tells_failures_with_their_reasons) {
    rig_open(&rig, "fail");
    rig_run(&rig, 1, NULL);
    rig_want_failure(&rig, 1, WIRE_FAIL, "document 'doc' cannot be read");
    rig_finish(&rig);
    rig_open(&rig, "retry");
    rig_run(&rig, 1, NULL);
    rig_want_failure(&rig, 1, WIRE_RETRY, "attempt 1 found the service busy");
    rig_finish(&rig);
    rig_open(&rig, "upper");
    rig_run(&rig, 1, "{\"text\":\"abc\"}");
    rig_want_output(&rig, 1, "{\"text\":\"ABC\"}");
    rig_run(&rig, 2, "{\"text\":1}");
    rig_want_failure(&rig, 2, WIRE_FAIL, "the payload has no \"text\"");
}

Test(worker_life, refuses_output_that_cannot_be_stored) {
    static const struct {
        const char *payload, *message;
    } cases[] = {
        {"{\"hex\":\"22ff22\"}",
         "the output is not JSON that can be stored: byte 2: bytes that are not UTF-8"},
        {"{\"hex\":\"225c753030303022\"}", "the output is not JSON that can be stored: byte 2: "
                                           "\\u0000, which PostgreSQL cannot store"},
        {"{\"hex\":\"225c756438303022\"}",
         "the output is not JSON that can be stored: byte 2: half of a surrogate pair"},
        {"{\"hex\":\"7b\"}",
         "the output is not JSON that can be stored: byte 2: it ends too early"},
        {"{\"hex\":\"\"}", "the output is not JSON that can be stored: byte 1: there is no value"},
        {"{\"hex\":\"2200\"}", "the output is not JSON that can be stored: byte 2: a control "
                               "character that is not escaped"},
    };
    rig_open(&rig, "bad_json");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rig_run(&rig, i, cases[i].payload);
        rig_want_failure(&rig, i, WIRE_FAIL, cases[i].message);
    }
    rig_run(&rig, 99, "{\"hex\":\"7b7d\"}");
    rig_want_output(&rig, 99, "{}");
}

Test(worker_life, logs_and_reports_progress_with_the_run) {
    rig_open(&rig, "talk");
    rig_run(&rig, 1, "{\"lines\":20000}");
    rig_want_output(&rig, 1, NULL);
    cr_assert_not_null(strstr(rig.logged.data, "line 1 of 20000\nline 2 of 20000\n"));
    cr_assert_not_null(strstr(rig.logged.data, "\nline 20000 of 20000\n"));
    cr_assert(rig.fraction >= 1.0, "the last word is told always");
    cr_assert_lt(rig.progress_count, 2000, "those between are thinned out");
}

Test(worker_life, prints_of_a_run_are_out_before_its_result) {
    rig_open(&rig, "print");
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, NULL);
    rig_want_printed(&rig, "printed by doc");
}

Test(worker_life, knows_the_time_that_is_left) {
    rig_open(&rig, "remaining");
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, "9223372036854775807");
    struct wire_run run = {.run = 2, .lease_end_ms = INT64_MAX, .timeout_ms = INT64_MAX};
    rig_send_run(&rig, &run);
    rig_want_output(&rig, 2, "9223372036854775807");
    run.timeout_ms = 3600000;
    rig_send_run(&rig, &run);
    struct wire_result result;
    rig_want_result(&rig, 2, &result);
    cr_assert_leq(atoll(result.output.data), 3600000);
    cr_assert_gt(atoll(result.output.data), 3600000 - DEADLINE_MS);
    wire_result_finish(&result);
}

Test(worker_life, hears_while_it_runs_that_it_is_cancelled_or_superseded) {
    rig_open(&rig, "sleep");
    rig_run(&rig, 1, "{\"ms\":600000}");
    rig_want_logged(&rig, "begun");
    rig_tell(&rig, 7, true, true);
    rig_tell(&rig, 1, false, true);
    rig_want_failure(&rig, 1, WIRE_RETRY, "superseded");
    rig_tell(&rig, 1, true, false);
    rig_run(&rig, 2, "{\"ms\":600000}");
    rig_tell(&rig, 2, true, false);
    rig_want_failure(&rig, 2, WIRE_RETRY, "cancelled");
    rig_run(&rig, 3, "{\"ms\":1}");
    rig_want_output(&rig, 3, "{\"slept_ms\":1}");
}

Test(worker_life, hears_it_of_runs_that_wait_in_its_queue) {
    rig_open(&rig, "sleep");
    rig_run(&rig, 1, "{\"ms\":600000}");
    rig_run(&rig, 2, "{\"ms\":600000}");
    rig_run(&rig, 3, "{\"ms\":600000}");
    rig_tell(&rig, 3, true, false);
    rig_tell(&rig, 2, false, true);
    rig_tell(&rig, 1, true, false);
    rig_want_failure(&rig, 1, WIRE_RETRY, "cancelled");
    rig_want_failure(&rig, 2, WIRE_RETRY, "superseded");
    rig_want_failure(&rig, 3, WIRE_RETRY, "cancelled");
}

/* Of the signals 1 to 31: the C library's posix_spawn ignores two of its own above them. */
static unsigned long signal_set(const char *output, const char *name) {
    char key[32];
    snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(output, key);
    cr_assert_not_null(at, "%s", output);
    return strtoul(at + strlen(key), NULL, 16) & 0x7FFFFFFF;
}

Test(worker_life, has_descriptors_0_to_4_and_default_signals) {
    int lock = open("/dev/null", O_RDWR | O_CLOEXEC), foreign = fcntl(lock, F_DUPFD_CLOEXEC, 100);
    rig_start_like(&rig, &(struct rig_setup){.lock_fd = lock, .foreign_fd = foreign});
    close(lock);
    close(foreign);
    struct wire_hello hello = rig_hello(HANDLERS, "surroundings");
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, NULL);
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    const char *output = result.output.data;
    cr_assert_not_null(strstr(output, "\"descriptors\":[0,1,2,3,4]"), "%s", output);
    cr_assert_not_null(strstr(output, "\"core\":0"), "%s", output);
    cr_assert_eq(signal_set(output, "ignored"), 0, "%s", output);
    cr_assert_eq(signal_set(output, "blocked"), 0, "%s", output);
    /* A program it executes: the lock is inherited, the way to the node is not (3 is what ls itself
     * opened). */
    cr_assert_not_null(strstr(output, "\"child_fds\":\"0 1 2 3 4 \""), "%s", output);
    wire_result_finish(&result);
}

Test(worker_life, without_a_lock_there_is_no_descriptor_4) {
    rig_open(&rig, "surroundings");
    rig_run(&rig, 1, NULL);
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    cr_assert_not_null(strstr(result.output.data, "\"descriptors\":[0,1,2,3]"));
    wire_result_finish(&result);
}

Test(worker_life, is_of_no_use_by_hand) {
    static const char *const wrong[] = {"", "0", "-1", "x", "12x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rig_start_like(&rig, &(struct rig_setup){.parent = wrong[i]});
        rig_want_exit(&rig, 2);
        cr_assert_str_eq(rig.printed.data,
                         "usage: pgstage-worker PARENT-PID (started by `pgstage run`, not by "
                         "hand)\n");
        rig_finish(&rig);
    }
    rig_start_like(&rig, &(struct rig_setup){.without_socket = true});
    rig_want_exit(&rig, 4);
    cr_assert_str_eq(rig.printed.data, "pgstage-worker: descriptor 3 is no socket: this program is "
                                       "started by pgstage itself\n");
}

Test(worker_life, ends_at_once_when_its_parent_is_another) {
    rig_start_like(&rig, &(struct rig_setup){.parent = "1"});
    rig_want_exit(&rig, 1);
    cr_assert_str_eq(rig.printed.data, "");
}

Test(worker_life, another_major_version_is_refused_in_words) {
    struct wire_hello hello = rig_hello(HANDLERS, "echo");
    hello.major = WIRE_MAJOR + 1;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_refused(&rig, "the node speaks protocol 2.2, this program 1.2: both must come from "
                           "the same release");
}

Test(worker_life, malformed_messages_end_it_with_status_4) {
    static const struct {
        const char *bytes;
        size_t length;
        bool after_ready;
        const char *printed;
    } cases[] = {
        {"GET / HTTP/1.0\r\n", 16, false, "the node sent a frame of the unknown type 8239"},
        {"\0\0\0\0\1\0\0\0", 8, false, "the node sent a malformed HELLO message"},
        {"\0\0\0\0\5\0\0\0", 8, false, "the node sent a malformed HELLO message"},
        {"\1\0\0\0\2\0\0\0x", 9, true, "the node sent a malformed RUN message"},
        {"\1\0\0\0\5\0\0\0x", 9, true, "the node sent a STOP message with 1 bytes left over"},
        {"\0\0\0\0\3\0\0\0", 8, true, "the node sent a malformed TELL message"},
        {"\0\0\0\0\4\0\0\0", 8, true, "the node sent a malformed BEAT message"},
        {"\0\0\0\0\1\0\0\0", 8, true, "the node sent a message of type 1, which does not belong"},
        {"\0\0\0\0\x13\0\0\0", 8, true, "the node sent a message of type 19, which does not"},
        {"\0\0\0\0\2\0\1\0", 8, true, "the node sent a frame with the unknown flags 0x0001"},
        {"\xFF\xFF\xFF\xFF\2\0\0\0", 8, true, "the node sent a frame of 4294967295 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].after_ready) {
            rig_open(&rig, "echo");
        } else {
            rig_start(&rig);
        }
        rig_send_raw(&rig, cases[i].bytes, cases[i].length);
        rig_want_exit(&rig, 4);
        cr_assert_not_null(strstr(rig.printed.data, cases[i].printed), "case %zu: %s", i,
                           rig.printed.data);
        rig_finish(&rig);
    }
}

Test(worker_life, random_bytes_never_do_more_than_end_it) {
    unsigned seed = 1;
    for (int turn = 0; turn < 50; turn++) {
        char bytes[64];
        rig_open(&rig, "echo");
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1103515245u + 12345u;
            bytes[i] = (char)(unsigned char)(seed >> 24);
        }
        bytes[6] = 1; /* flags that no version knows: none of them is a message by chance */
        rig_send_raw(&rig, bytes, sizeof bytes);
        rig_want_exit(&rig, 4);
        rig_finish(&rig);
    }
}
