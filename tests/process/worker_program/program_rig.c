#include "program_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static struct wire_bytes bytes_of(const char *text) {
    return (struct wire_bytes){text, (uint32_t)strlen(text)};
}

struct wire_hello program_hello(const char *script) {
    static char *whole;
    static struct wire_bytes arguments[3];
    free(whole);
    whole = mem_format("%s%s", PROGRAM_BEGIN, script);
    arguments[0] = bytes_of("/usr/bin/python3");
    arguments[1] = bytes_of("-c");
    arguments[2] = bytes_of(whole);
    struct wire_hello hello = rig_hello("", "");
    hello.engine = WIRE_PROGRAM;
    hello.argument_count = 3;
    hello.arguments = arguments;
    return hello;
}

void program_begin(struct rig *rig, const char *script) {
    struct wire_hello hello = program_hello(script);
    rig_start(rig);
    rig_say_hello(rig, &hello);
}

void program_open(struct rig *rig, const char *script) {
    program_begin(rig, script);
    rig_want_ready(rig);
}

void program_run_batch(struct rig *rig, uint64_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        char payload[16];
        snprintf(payload, sizeof payload, "%d", (int)i);
        rig_send_run(rig, &(struct wire_run){.run = first + i,
                                             .lease_end_ms = INT64_MAX,
                                             .version = 1,
                                             .attempt = 1,
                                             .key = bytes_of("doc"),
                                             .payload = bytes_of(payload),
                                             .batch_left = count - 1 - i});
    }
}

void program_want_end(struct rig *rig, uint64_t run, enum wire_outcome outcome, const char *kind, const char *message) {
    struct wire_result result;
    rig_want_result(rig, run, &result);
    cr_assert_eq(result.outcome, outcome, "outcome %d: %s", (int)result.outcome, result.message.data);
    cr_assert_str_eq(result.kind.data == NULL ? "" : result.kind.data, kind == NULL ? "" : kind, "%s", result.message.data);
    cr_assert_not_null(result.message.data);
    cr_assert_str_eq(result.message.data, message);
    wire_result_finish(&result);
}
