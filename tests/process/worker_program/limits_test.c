/* The kernel's limits, as a stage's YAML sets them. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static struct rig rig;

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(worker_limits, .fini = finish, .timeout = 180);

static void open_with(const struct wire_hello *hello) {
    rig_start(&rig);
    rig_say_hello(&rig, hello);
    rig_want_ready(&rig);
}

Test(worker_limits, cpu_time_kills_a_run_that_computes_for_ever) {
    struct wire_hello hello = rig_hello(HANDLERS, "spin");
    hello.cpu_seconds = 1;
    open_with(&hello);
    rig_run(&rig, 1, NULL);
    rig_want_signal(&rig, SIGXCPU);
}

/* Eight runs of 300 ms with a limit of one second each: together they use more than one run may. */
Test(worker_limits, cpu_time_is_counted_for_each_run_alone) {
    struct wire_hello hello = rig_hello(HANDLERS, "burn");
    hello.cpu_seconds = 1;
    open_with(&hello);
    for (uint64_t run = 1; run <= 8; run++) {
        rig_run(&rig, run, "{\"ms\":300}");
        rig_want_output(&rig, run, NULL);
    }
    rig_run(&rig, 9, "{\"ms\":3000}");
    rig_want_signal(&rig, SIGXCPU);
}

Test(worker_limits, file_size) {
    struct wire_hello hello = rig_hello(HANDLERS, "fill_file");
    hello.file_size_bytes = 100000;
    open_with(&hello);
    rig_run(&rig, 1, "{\"bytes\":100000}");
    rig_want_output(&rig, 1, NULL);
    rig_run(&rig, 2, "{\"bytes\":100001}");
    rig_want_signal(&rig, SIGXFSZ);
}

Test(worker_limits, open_files) {
    struct wire_hello hello = rig_hello(HANDLERS, "surroundings");
    hello.open_files = 64;
    hello.file_size_bytes = 12345;
    open_with(&hello);
    rig_run(&rig, 1, NULL);
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    cr_assert_not_null(strstr(result.output.data, "\"open_files\":64"));
    cr_assert_not_null(strstr(result.output.data, "\"file_size\":12345"));
    wire_result_finish(&result);
    rig_finish(&rig);

    hello.open_files = INT64_MAX; /* above what we may give: as much as we may */
    open_with(&hello);
    rig_finish(&rig);

#ifndef __SANITIZE_ADDRESS__ /* its leak check opens a file at the exit */
    hello.open_files = 3;    /* so few that the library cannot be opened */
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_refused(&rig, "cannot open " HANDLERS ": Too many open files");
#endif
}

#ifndef __SANITIZE_ADDRESS__ /* the sanitizer needs terabytes of address space: the worker sets no \
                                limit then */
Test(worker_limits, address_space) {
    struct wire_hello hello = rig_hello(HANDLERS, "alloc");
    hello.address_space_bytes = 256 << 20;
    open_with(&hello);
    rig_run(&rig, 1, "{\"max_mb\":4096}");
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    cr_assert_eq(result.outcome, WIRE_FAIL);
    int taken_mb;
    cr_assert_eq(sscanf(result.message.data, "no memory after %d MB", &taken_mb), 1);
    cr_assert(taken_mb > 200 && taken_mb < 256, "%d", taken_mb);
    wire_result_finish(&result);
}

Test(worker_limits, a_payload_beyond_the_memory_costs_this_worker_alone) {
    size_t length = 100 << 20;
    char *payload = malloc(length + 1);
    cr_assert_not_null(payload);
    memset(payload, 'z', length);
    payload[0] = payload[length - 1] = '"';
    payload[length] = '\0';
    struct wire_hello hello = rig_hello(HANDLERS, "sleep");
    hello.address_space_bytes = 64 << 20;
    open_with(&hello);
    struct buf out;
    buf_init(&out, WIRE_FRAME_MAX);
    struct wire_run run = {.lease_end_ms = INT64_MAX, .payload = {payload, (uint32_t)length}};
    cr_assert_eq(wire_put_run(&out, &run, NULL), STATUS_OK);
    rig_send_raw(&rig, out.data, WIRE_HEADER_BYTES);
    rig_want_signal(&rig, SIGABRT);
    cr_assert_str_eq(rig.printed.data, "pgstage: out of memory\n");
    buf_finish(&out);
    free(payload);
}

Test(worker_limits, so_little_memory_that_nothing_can_be_loaded) {
    struct wire_hello hello = rig_hello(HANDLERS, "echo");
    hello.address_space_bytes = 1 << 20;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_wait(&rig);
    cr_assert_gt(rig.printed.length + rig.in.length, 0, "it says something");
}
#else
Test(worker_limits, address_space_is_not_limited_under_the_sanitizer) {
    struct wire_hello hello = rig_hello(HANDLERS, "alloc");
    hello.address_space_bytes = 256 << 20;
    open_with(&hello);
    rig_run(&rig, 1, "{\"max_mb\":16}");
    rig_want_output(&rig, 1, NULL);
    rig_finish(&rig);
}
#endif
