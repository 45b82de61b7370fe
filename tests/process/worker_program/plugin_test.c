/* Which handlers a worker takes, and the sentence for each one that it does not. */
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

TestSuite(worker_plugin, .fini = finish, .timeout = 180);

static void want_refused(const char *file, const char *handler, const char *reason) {
    struct wire_hello hello = rig_hello(file, handler);
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_refused(&rig, reason);
    rig_finish(&rig);
}

Test(worker_plugin, says_which_handlers_there_are) {
    want_refused(ABI_HANDLERS, "typo",
                 ABI_HANDLERS " has no handler 'typo'; it exports: absurd_size, longer, newer_abi, "
                              "no_abi, no_run, shorter, too_small");
    want_refused(TEST_BINARY_DIR "/tests/handlers/no_handlers.so", "echo",
                 TEST_BINARY_DIR "/tests/handlers/no_handlers.so has no handler 'echo'; it exports "
                                 "none (PGSTAGE_HANDLER registers one)");
}

Test(worker_plugin, says_why_a_file_is_none) {
    want_refused("/nowhere/x.so", "echo", "cannot open /nowhere/x.so: No such file or directory");
    want_refused("x.so", "echo", "the handler file 'x.so' is no absolute path");
    want_refused("", "echo", "the handler file '' is no absolute path");
    want_refused(TEST_SOURCE_DIR "/CMakeLists.txt", "echo",
                 TEST_SOURCE_DIR
                 "/CMakeLists.txt is not a shared object (build it with: cc -shared "
                 "-fPIC)");
    want_refused("/tmp", "echo", "/tmp is not a shared object (build it with: cc -shared -fPIC)");
    want_refused("/dev/null", "echo",
                 "/dev/null is not a shared object (build it with: cc -shared -fPIC)");
    want_refused(TEST_WORKER, "echo",
                 "cannot load " TEST_WORKER
                 ": cannot dynamically load position-independent executable");
    want_refused(TEST_BINARY_DIR "/tests/handlers/unresolved.so", "unresolved",
                 "cannot load " TEST_BINARY_DIR
                 "/tests/handlers/unresolved.so: undefined symbol: defined_nowhere");
}

Test(worker_plugin, a_fifo_is_not_waited_for) {
    char directory[] = "/tmp/pgstage-test-XXXXXX", file[64], reason[160];
    cr_assert_not_null(mkdtemp(directory));
    snprintf(file, sizeof file, "%s/x.so", directory);
    cr_assert_eq(mkfifo(file, 0600), 0);
    snprintf(reason, sizeof reason, "%s is not a shared object (build it with: cc -shared -fPIC)",
             file);
    want_refused(file, "echo", reason);
    unlink(file);
    rmdir(directory);
}

Test(worker_plugin, says_why_a_registration_cannot_be_used) {
    want_refused(ABI_HANDLERS, "newer_abi",
                 "handler 'newer_abi' of " ABI_HANDLERS
                 " was built for handler ABI 2, newer than this pgstage, which knows 1: update "
                 "pgstage or build it against its header");
    want_refused(ABI_HANDLERS, "no_run",
                 "handler 'no_run' of " ABI_HANDLERS " has neither a .run nor a .run_batch function");
    static const char *const none[] = {"no_abi", "too_small", "absurd_size"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        char reason[1024];
        snprintf(reason, sizeof reason,
                 "handler '%s' of " ABI_HANDLERS
                 " is not a registration (PGSTAGE_HANDLER makes one)",
                 none[i]);
        want_refused(ABI_HANDLERS, none[i], reason);
    }
}

static void want_runs(const char *file, const char *handler, const char *output) {
    struct wire_hello hello = rig_hello(file, handler);
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, "{\"a\":1}");
    rig_want_output(&rig, 1, output);
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    rig_finish(&rig);
}

Test(worker_plugin, takes_registrations_of_other_sizes) {
    want_runs(ABI_HANDLERS, "longer", "\"no state\"");
    want_runs(ABI_HANDLERS, "shorter", "\"no state\"");
}

Test(worker_plugin, takes_a_handler_built_against_the_first_header) {
    want_runs(TEST_BINARY_DIR "/tests/handlers/frozen_v1.so", "frozen",
              "{\"runs\":1,\"text\":\"null\",\"input\":null,\"payload\":{\"a\":1}}");
}

static const char second_output[] =
    "{\"runs\":1,\"input\":\"null\",\"folder\":\"/srv\",\"fraction\":0.25,\"text\":\"a quarter\",\"payload\":[1],"
    "\"parsed_input\":null,\"inputs_text\":\"{\\\"extract\\\": [2]}\",\"inputs\":{\"extract\":[2]},\"extract\":[2]}";

Test(worker_plugin, takes_a_handler_built_against_the_header_of_the_second_release) {
    struct wire_hello hello = rig_hello(TEST_BINARY_DIR "/tests/handlers/frozen_v1_1.so", "frozen");
    hello.folder = (struct wire_bytes){"/srv", 4};
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_send_run(&rig, &(struct wire_run){.run = 1,
                                          .lease_end_ms = INT64_MAX,
                                          .attempt = 1,
                                          .key = {"doc", 3},
                                          .payload = {"[1]", 3},
                                          .inputs = {"{\"extract\": [2]}", 16},
                                          .has_progress = true,
                                          .progress = 0.25,
                                          .progress_text = {"a quarter", 9}});
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    cr_assert_eq(result.outcome, WIRE_OK, "%s", result.message.data);
    cr_assert_eq(result.flow, WIRE_ROUTE);
    cr_assert_str_eq(result.output.data, second_output);
    cr_assert_not_null(strstr(rig.logged.data, "\na line with a field {\"runs\":1}\n"), "%s", rig.logged.data);
    wire_result_finish(&result);
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    rig_finish(&rig);
}

/* A node of wire 1.1 knows no NOTE. */
Test(worker_plugin, an_older_node_gets_the_line_without_its_fields) {
    struct wire_hello hello = rig_hello(TEST_BINARY_DIR "/tests/handlers/frozen_v1_1.so", "frozen");
    hello.minor = WIRE_MINOR_FLOW;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, "[1]");
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    cr_assert_eq(result.outcome, WIRE_OK, "%s", result.message.data);
    cr_assert_not_null(strstr(rig.logged.data, "\na line with a field\n"), "%s", rig.logged.data);
    wire_result_finish(&result);
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    rig_finish(&rig);
}

Test(worker_plugin, says_why_init_failed) {
    want_refused(HANDLERS, "init_fail",
                 "init of handler 'init_fail' failed: the model file x.bin is missing");
    want_refused(HANDLERS, "init_fail_silently",
                 "init of handler 'init_fail_silently' failed: the handler gave no reason");
    struct wire_hello hello = rig_hello(HANDLERS, "init_exit");
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    struct wire_frame frame;
    cr_assert(rig_next(&rig, &frame));
    struct wire_refused refused;
    cr_assert_eq(wire_get_refused(&frame, &refused, NULL), STATUS_OK);
    cr_assert_str_eq(refused.reason.data, "the handler's init called exit(0) instead of returning");
    rig_want_exit(&rig, 0);
}

Test(worker_plugin, wants_an_object_for_its_configuration) {
    static const char *const bad[] = {"", "[]", "{", "{\"a\":1} x", "null"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct wire_hello hello = rig_hello(HANDLERS, "count");
        hello.config = (struct wire_bytes){bad[i], (uint32_t)strlen(bad[i])};
        rig_start(&rig);
        rig_say_hello(&rig, &hello);
        struct wire_frame frame;
        cr_assert(rig_next(&rig, &frame));
        struct wire_refused refused;
        cr_assert_eq(wire_get_refused(&frame, &refused, NULL), STATUS_OK, "%s", bad[i]);
        cr_assert_not_null(
            strstr(refused.reason.data, "the stage's configuration cannot be used: "));
        rig_want_exit(&rig, 3);
        rig_finish(&rig);
    }
}
