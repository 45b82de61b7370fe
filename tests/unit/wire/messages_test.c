/* What each message carries, by field, and which well-formed values are refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "samples.h"

TestSuite(wire_messages, .timeout = 60);

static struct buf out;

static void finish(void) {
    buf_finish(&out);
}

static struct wire_frame only_frame(void) {
    struct wire_frame frame;
    cr_assert_eq(wire_next_frame(out.data, out.length, &frame, NULL), STATUS_OK);
    cr_assert_eq(frame.frame_length, out.length);
    return frame;
}

static struct wire_frame sample_frame(const char *name) {
    for (size_t i = 0; i < sample_count; i++) {
        if (strcmp(samples[i].name, name) == 0) {
            buf_init(&out, 1 << 20);
            cr_assert_eq(samples[i].put(&out, NULL), STATUS_OK);
            return only_frame();
        }
    }
    cr_assert_fail("no sample is named %s", name);
    return (struct wire_frame){0};
}

static void check_text(struct wire_bytes got, const char *expected) {
    cr_assert_not_null(got.data);
    cr_assert_eq(got.length, strlen(expected));
    cr_assert_str_eq(got.data, expected, "it can be used as a C string");
}

Test(wire_messages, every_sample_survives_a_round_trip, .fini = finish) {
    for (size_t i = 0; i < sample_count; i++) {
        struct error err = ERROR_NONE;
        struct wire_frame frame = sample_frame(samples[i].name);
        cr_assert_eq(frame.type, samples[i].type);
        struct buf again;
        buf_init(&again, 1 << 20);
        cr_assert_eq(recode(&frame, &again, &err), STATUS_OK, "%s: %s", samples[i].name, err.text);
        cr_assert_eq(again.length, out.length);
        cr_assert_arr_eq(again.data, out.data, out.length);
        buf_finish(&again);
        buf_finish(&out);
    }
}

Test(wire_messages, every_type_has_a_sample_and_refuses_to_be_read_as_another) {
    for (unsigned type = 0; type < 64; type++) {
        const unsigned char header[WIRE_HEADER_BYTES] = {0, 0, 0, 0, (unsigned char)type, 0, 0, 0};
        struct wire_frame frame;
        bool known =
            wire_next_frame((const char *)header, sizeof header, &frame, NULL) == STATUS_OK;
        bool sampled = false;
        for (size_t i = 0; i < sample_count; i++) {
            sampled = sampled || (unsigned)samples[i].type == type;
        }
        cr_assert_eq(known, sampled, "type %u", type);
    }
    struct wire_frame frame = sample_frame("beat");
    struct error err = ERROR_NONE;
    struct wire_log log;
    cr_assert_eq(wire_get_log(&frame, &log, &err), STATUS_PROTOCOL);
    cr_assert_str_eq(err.text, "a malformed LOG message");
    buf_finish(&out);
}

Test(wire_messages, hello, .fini = finish) {
    struct wire_frame frame = sample_frame("hello");
    struct wire_hello m;
    cr_assert_eq(wire_get_hello(&frame, &m, NULL), STATUS_OK);
    cr_assert_eq(m.major, WIRE_MAJOR);
    cr_assert_eq(m.minor, 7);
    cr_assert_eq(m.lease_end_ms, INT64_MAX);
    check_text(m.pipeline, "library");
    check_text(m.stage, "extract");
    check_text(m.handler_file, "/opt/x.so");
    check_text(m.handler_name, "extract");
    check_text(m.config, "{\"a\":1}");
    cr_assert_eq(m.address_space_bytes, 512 << 20);
    cr_assert_eq(m.cpu_seconds, 60);
    cr_assert_eq(m.file_size_bytes, 1);
    cr_assert_eq(m.open_files, INT64_MAX);
}

Test(wire_messages, hello_of_a_program, .fini = finish) {
    struct wire_frame frame = sample_frame("hello, program");
    struct wire_hello m;
    cr_assert_eq(wire_get_hello(&frame, &m, NULL), STATUS_OK);
    cr_assert_eq(m.engine, WIRE_PROGRAM);
    cr_assert_eq(m.stdout_form, WIRE_STDOUT_TEXT);
    cr_assert_eq(m.batch_size, 64);
    cr_assert_eq(m.nice, -20);
    cr_assert_eq(m.full_bytes, 1 << 30);
    check_text(m.folder, "/srv/pipeline");
    check_text(m.work, "/run/work/1");
    check_text(m.user, "nobody");
    cr_assert_eq(m.argument_count, 3);
    check_text(m.arguments[0], "python3");
    check_text(m.arguments[1], "embed.py");
    check_text(m.arguments[2], "");
    wire_hello_finish(&m);
}

Test(wire_messages, a_hello_of_an_older_node_has_a_handler, .fini = finish) {
    buf_init(&out, 1024);
    struct wire_hello old = {.major = WIRE_MAJOR, .minor = WIRE_MINOR_FLOW};
    cr_assert_eq(wire_put_hello(&out, &old, NULL), STATUS_OK);
    struct wire_frame frame;
    cr_assert_eq(wire_next_frame(out.data, out.length, &frame, NULL), STATUS_OK);
    struct wire_hello m;
    cr_assert_eq(wire_get_hello(&frame, &m, NULL), STATUS_OK);
    cr_assert_eq(m.engine, WIRE_HANDLER);
    cr_assert_eq(m.argument_count, 0);
    cr_assert_null(m.work.data);
}

/* What 1.2 added to a RUN takes 21 bytes when it says nothing: a node of 1.1 leaves it out. */
Test(wire_messages, a_run_of_an_older_node_ends_earlier, .fini = finish) {
    enum { ADDED = 4 + 1 + 8 + 4 + 4 };
    buf_init(&out, 1024);
    cr_assert_eq(wire_put_run(&out, &(struct wire_run){.run = 9, .progress = 0.5}, NULL), STATUS_OK);
    struct wire_frame frame;
    cr_assert_eq(wire_next_frame(out.data, out.length, &frame, NULL), STATUS_OK);
    frame.body_length -= ADDED;
    struct wire_run m;
    cr_assert_eq(wire_get_run(&frame, WIRE_MINOR_FLOW, &m, NULL), STATUS_OK);
    cr_assert_eq(m.run, 9);
    cr_assert_eq(m.progress, 0.0);
    cr_assert_eq(m.batch_left, 0);
}

Test(wire_messages, run_of_a_batch, .fini = finish) {
    struct wire_frame frame = sample_frame("run, batch");
    struct wire_run m;
    cr_assert_eq(wire_get_run(&frame, WIRE_MINOR, &m, NULL), STATUS_OK);
    check_text(m.inputs, "{\"a\":1}");
    cr_assert(m.has_progress);
    cr_assert_eq(m.progress, 0.4);
    check_text(m.progress_text, "page 4 of 10");
    cr_assert_eq(m.batch_left, WIRE_BATCH_MAX - 1);
}

Test(wire_messages, results_beyond_the_handler, .fini = finish) {
    static const struct {
        const char *sample;
        enum wire_outcome outcome;
        const char *kind;
    } rows[] = {{"result, crashed", WIRE_CRASH, "crash"},
                {"result, lost", WIRE_LOST, "killed"},
                {"result, split", WIRE_SPLIT, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire_frame frame = sample_frame(rows[i].sample);
        struct wire_result m;
        cr_assert_eq(wire_get_result(&frame, &m, NULL), STATUS_OK);
        cr_assert_eq(m.outcome, rows[i].outcome);
        cr_assert_eq(m.flow, WIRE_GO_ON);
        if (rows[i].kind == NULL) {
            cr_assert_null(m.kind.data);
        } else {
            check_text(m.kind, rows[i].kind);
        }
        wire_result_finish(&m);
        buf_finish(&out);
    }
}

Test(wire_messages, run, .fini = finish) {
    struct wire_frame frame = sample_frame("run");
    struct wire_run m;
    cr_assert_eq(wire_get_run(&frame, WIRE_MINOR, &m, NULL), STATUS_OK);
    cr_assert_eq(m.run, UINT64_MAX);
    cr_assert_eq(m.lease_end_ms, 123456789);
    cr_assert_eq(m.timeout_ms, 60000);
    cr_assert_eq(m.version, INT64_MIN);
    cr_assert_eq(m.attempt, 3);
    cr_assert_eq(m.key.length, 5);
    cr_assert_arr_eq(m.key.data, "a\0b\xFF\xC3", 5);
    check_text(m.payload, "{\"t\":\"\xC3\xA4\"}");
    check_text(m.input, "[1,2]");
}

Test(wire_messages, run_tells_absent_from_empty, .fini = finish) {
    struct wire_frame frame = sample_frame("run, absent texts");
    struct wire_run m;
    cr_assert_eq(wire_get_run(&frame, WIRE_MINOR, &m, NULL), STATUS_OK);
    check_text(m.key, "");
    cr_assert_null(m.payload.data);
    cr_assert_null(m.input.data);
    cr_assert_eq(m.attempt, INT32_MIN);
    buf_finish(&out);

    frame = sample_frame("run, empty texts");
    cr_assert_eq(wire_get_run(&frame, WIRE_MINOR, &m, NULL), STATUS_OK);
    check_text(m.payload, "");
    check_text(m.input, "");
}

Test(wire_messages, tell_beat_and_ready, .fini = finish) {
    struct wire_frame frame = sample_frame("tell superseded");
    struct wire_tell tell;
    cr_assert_eq(wire_get_tell(&frame, &tell, NULL), STATUS_OK);
    cr_assert_eq(tell.run, 42);
    cr_assert(tell.superseded && !tell.cancelled);
    buf_finish(&out);

    frame = sample_frame("beat");
    struct wire_beat beat;
    cr_assert_eq(wire_get_beat(&frame, &beat, NULL), STATUS_OK);
    cr_assert_eq(beat.lease_end_ms, 0x0102030405060708);
    buf_finish(&out);

    frame = sample_frame("ready");
    struct wire_ready ready;
    cr_assert_eq(wire_get_ready(&frame, &ready, NULL), STATUS_OK);
    cr_assert_eq(ready.major, WIRE_MAJOR);
    cr_assert_eq(ready.minor, 2);
    cr_assert_eq(ready.handler_abi, UINT32_MAX);
}

Test(wire_messages, result, .fini = finish) {
    struct wire_frame frame = sample_frame("result");
    struct wire_result m;
    cr_assert_eq(wire_get_result(&frame, &m, NULL), STATUS_OK);
    cr_assert_eq(m.run, 9);
    cr_assert_eq(m.outcome, WIRE_OK);
    cr_assert_eq(m.run_us, 1234);
    cr_assert_null(m.message.data);
    check_text(m.output, "{}");
    cr_assert_eq(m.statement_count, 3);
    check_text(m.statements[0].sql, "select 1");
    cr_assert_eq(m.statements[0].parameter_count, 0);
    check_text(m.statements[1].sql, "select $1, $2, $3");
    cr_assert_eq(m.statements[1].parameter_count, 3);
    check_text(m.statements[1].parameters[0], "x");
    cr_assert_null(m.statements[1].parameters[1].data);
    check_text(m.statements[1].parameters[2], "");
    check_text(m.statements[2].sql, "select 2");
    wire_result_finish(&m);
    wire_result_finish(&m);
}

Test(wire_messages, a_result_says_where_the_task_goes, .fini = finish) {
    struct wire_frame frame = sample_frame("result, routed");
    struct wire_result m;
    cr_assert_eq(wire_get_result(&frame, &m, NULL), STATUS_OK);
    cr_assert_eq(m.outcome, WIRE_OK);
    cr_assert_eq(m.flow, WIRE_ROUTE);
    check_text(m.target, "review");
    check_text(m.output, "{}");
    cr_assert_eq(m.statement_count, 1);
    wire_result_finish(&m);
    buf_finish(&out);

    frame = sample_frame("result, finished");
    cr_assert_eq(wire_get_result(&frame, &m, NULL), STATUS_OK);
    cr_assert_eq(m.flow, WIRE_FINISH);
    cr_assert_null(m.target.data);
    buf_finish(&out);

    frame = sample_frame("result, snoozed");
    cr_assert_eq(wire_get_result(&frame, &m, NULL), STATUS_OK);
    cr_assert_eq(m.flow, WIRE_SNOOZE);
    cr_assert_eq(m.delay_ms, INT64_MAX);
}

/* Nothing that could not be meant: a route without a stage, a stage or a time without its like. */
Test(wire_messages, a_flow_that_means_nothing_is_refused, .fini = finish) {
    const struct wire_bytes name = {"x", 1};
    const struct wire_result bad[] = {
        {.flow = WIRE_ROUTE},
        {.flow = WIRE_FINISH, .target = name},
        {.flow = WIRE_SNOOZE, .target = name},
        {.flow = WIRE_SNOOZE, .delay_ms = -1},
        {.flow = WIRE_FINISH, .delay_ms = 1},
        {.flow = WIRE_ROUTE, .target = name, .delay_ms = 1},
        {.flow = (enum wire_flow)4},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        buf_init(&out, 1024);
        cr_assert_eq(wire_put_result(&out, &bad[i], NULL), STATUS_OK);
        struct wire_frame frame = only_frame();
        struct wire_result m;
        cr_assert_eq(wire_get_result(&frame, &m, NULL), STATUS_PROTOCOL, "row %zu", i);
        buf_finish(&out);
    }
}

Test(wire_messages, log_progress_and_refused, .fini = finish) {
    struct wire_frame frame = sample_frame("log");
    struct wire_log log;
    cr_assert_eq(wire_get_log(&frame, &log, NULL), STATUS_OK);
    check_text(log.text, "a line\n");
    buf_finish(&out);

    frame = sample_frame("progress");
    struct wire_progress progress;
    cr_assert_eq(wire_get_progress(&frame, &progress, NULL), STATUS_OK);
    cr_assert_eq(progress.run, 5);
    cr_assert(progress.fraction > 0.24 && progress.fraction < 0.26);
    check_text(progress.text, "page 1");
    buf_finish(&out);

    frame = sample_frame("refused");
    struct wire_refused refused;
    cr_assert_eq(wire_get_refused(&frame, &refused, NULL), STATUS_OK);
    check_text(refused.reason, "no handler");
}

Test(wire_messages, another_major_version_is_refused_in_words, .fini = finish) {
    static const char rest_unknown[] = "\2\0\5\0whatever a later version may write here";
    struct wire_frame frame = {
        .type = WIRE_HELLO, .body = rest_unknown, .body_length = sizeof rest_unknown};
    struct error err = ERROR_NONE;
    struct wire_hello hello;
    cr_assert_eq(wire_get_hello(&frame, &hello, &err), STATUS_PROTOCOL);
    cr_assert_eq(hello.major, 2);
    cr_assert_eq(hello.minor, 5);
    cr_assert_str_eq(err.text, "the node speaks protocol 2.5, this program 1.2: both must come "
                               "from the same release");
    frame.type = WIRE_READY;
    error_clear(&err);
    struct wire_ready ready;
    cr_assert_eq(wire_get_ready(&frame, &ready, &err), STATUS_PROTOCOL);
    cr_assert_eq(ready.major, 2);
    cr_assert_str_eq(err.text, "the worker speaks protocol 2.5, this program 1.2: both must come "
                               "from the same release");
    buf_init(&out, 1);
}

Test(wire_messages, progress_beyond_its_range_is_refused, .fini = finish) {
    static const double bad[] = {-0.001, 1.001, -INFINITY, INFINITY, NAN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        buf_init(&out, 1024);
        cr_assert_eq(wire_put_progress(&out, &(struct wire_progress){.fraction = bad[i]}, NULL),
                     STATUS_OK);
        struct wire_frame frame = only_frame();
        struct wire_progress m;
        cr_assert_eq(wire_get_progress(&frame, &m, NULL), STATUS_PROTOCOL);
        buf_finish(&out);
    }
}

Test(wire_messages, negative_spans_and_limits_are_refused, .fini = finish) {
    static const struct wire_hello hellos[] = {
        {.major = WIRE_MAJOR, .address_space_bytes = -1},
        {.major = WIRE_MAJOR, .cpu_seconds = -1},
        {.major = WIRE_MAJOR, .file_size_bytes = -1},
        {.major = WIRE_MAJOR, .open_files = INT64_MIN},
    };
    for (size_t i = 0; i < sizeof hellos / sizeof hellos[0]; i++) {
        buf_init(&out, 1024);
        cr_assert_eq(wire_put_hello(&out, &hellos[i], NULL), STATUS_OK);
        struct wire_frame frame = only_frame();
        struct wire_hello m;
        cr_assert_eq(wire_get_hello(&frame, &m, NULL), STATUS_PROTOCOL);
        buf_finish(&out);
    }
    buf_init(&out, 1024);
    cr_assert_eq(wire_put_run(&out, &(struct wire_run){.timeout_ms = -1}, NULL), STATUS_OK);
    struct wire_frame frame = only_frame();
    struct wire_run run;
    cr_assert_eq(wire_get_run(&frame, WIRE_MINOR, &run, NULL), STATUS_PROTOCOL);
    buf_clear(&out);
    cr_assert_eq(wire_put_result(&out, &(struct wire_result){.run_us = -1}, NULL), STATUS_OK);
    frame = only_frame();
    struct wire_result result;
    cr_assert_eq(wire_get_result(&frame, &result, NULL), STATUS_PROTOCOL);
}

/* What a RESULT's fixed part looks like when it claims counts that its few bytes cannot hold. */
static enum status result_with_counts(uint32_t statements, uint32_t parameters, const char *rest,
                                      size_t rest_length) {
    char body[8 + 1 + 8 + 4 + 4 + 4 + 4 + 64] = {0};
    memset(body + 17, 0xFF, 8); /* message and output: absent */
    for (int i = 0; i < 4; i++) {
        body[25 + i] = (char)(unsigned char)(statements >> (8 * i));
        body[29 + i] = (char)(unsigned char)(parameters >> (8 * i));
    }
    memcpy(body + 33, rest, rest_length);
    struct wire_frame frame = {
        .type = WIRE_RESULT, .body = body, .body_length = (uint32_t)(33 + rest_length)};
    struct wire_result m;
    enum status status = wire_get_result(&frame, &m, NULL);
    wire_result_finish(&m);
    return status;
}

Test(wire_messages, counts_are_checked_before_memory_is_asked_for) {
    static const char one_statement[] = {1, 0, 0, 0, 's', 0, 1, 0, 0, 0, -1, -1, -1, -1};
    cr_assert_eq(result_with_counts(0, 0, "", 0), STATUS_OK);
    cr_assert_eq(result_with_counts(1, 1, one_statement, sizeof one_statement), STATUS_OK);
    cr_assert_eq(result_with_counts(1, 0, one_statement, sizeof one_statement), STATUS_PROTOCOL);
    cr_assert_eq(result_with_counts(1, 2, one_statement, sizeof one_statement), STATUS_PROTOCOL);
    cr_assert_eq(result_with_counts(2, 1, one_statement, sizeof one_statement), STATUS_PROTOCOL);
    cr_assert_eq(result_with_counts(0, 1, "\xFF\xFF\xFF\xFF", 4), STATUS_PROTOCOL);
    cr_assert_eq(result_with_counts(UINT32_MAX, 0, "", 0), STATUS_PROTOCOL);
    cr_assert_eq(result_with_counts(0, UINT32_MAX, "", 0), STATUS_PROTOCOL);
    cr_assert_eq(result_with_counts(UINT32_MAX, UINT32_MAX, "", 0), STATUS_PROTOCOL);
}

Test(wire_messages, a_result_holds_as_many_statements_as_documented, .fini = finish) {
    size_t count = WIRE_STATEMENTS_MAX;
    struct wire_statement *statements = mem_alloc((count + 1) * sizeof *statements);
    struct wire_bytes *parameters = mem_alloc((WIRE_PARAMETERS_MAX + 1) * sizeof *parameters);
    buf_init(&out, WIRE_FRAME_MAX);
    struct wire_result m = {.statements = statements, .statement_count = (uint32_t)count};
    statements[0].parameters = parameters;
    statements[0].parameter_count = WIRE_PARAMETERS_MAX;
    cr_assert_eq(wire_put_result(&out, &m, NULL), STATUS_OK);
    struct wire_frame frame = only_frame();
    struct wire_result got;
    cr_assert_eq(wire_get_result(&frame, &got, NULL), STATUS_OK);
    cr_assert_eq(got.statement_count, count);
    wire_result_finish(&got);
    buf_clear(&out);

    m.statement_count++;
    struct error err = ERROR_NONE;
    cr_assert_eq(wire_put_result(&out, &m, &err), STATUS_INVALID);
    cr_assert_str_eq(err.text, "more than 100000 statements or 1000000 parameters");
    m.statement_count--;
    statements[0].parameter_count++;
    cr_assert_eq(wire_put_result(&out, &m, NULL), STATUS_INVALID);
    cr_assert_eq(out.length, 0);
    free(parameters);
    free(statements);
}

Test(wire_messages, a_frame_over_the_limit_is_never_written, .fini = finish) {
    /* Refused by its length: its bytes, which are not there, are not looked at. */
    const struct wire_bytes big = {"", WIRE_FRAME_MAX};
    buf_init(&out, SIZE_MAX);
    cr_assert_eq(wire_put_stop(&out, NULL), STATUS_OK);
    struct error err = ERROR_NONE;
    struct wire_run m = {.payload = big};
    cr_assert_eq(wire_put_run(&out, &m, &err), STATUS_INVALID);
    cr_assert_str_eq(err.text, "a message is larger than the limit of 419430400 bytes");
    cr_assert_eq(out.length, WIRE_HEADER_BYTES);
    cr_assert_not(out.overflow);
}
