#include "samples.h"

#include "support/leaks.h"

static const char binary[] = "a\0b\xFF\xC3";

static enum status put_hello(struct buf *out, struct error *err) {
    return wire_put_hello(out,
                          &(struct wire_hello){.major = WIRE_MAJOR,
                                               .minor = 7,
                                               .lease_end_ms = INT64_MAX,
                                               .pipeline = text_bytes("library"),
                                               .stage = text_bytes("extract"),
                                               .handler_file = text_bytes("/opt/x.so"),
                                               .handler_name = text_bytes("extract"),
                                               .config = text_bytes("{\"a\":1}"),
                                               .address_space_bytes = 512 << 20,
                                               .cpu_seconds = 60,
                                               .file_size_bytes = 1,
                                               .open_files = INT64_MAX},
                          err);
}

static enum status put_hello_empty(struct buf *out, struct error *err) {
    return wire_put_hello(out, &(struct wire_hello){.major = WIRE_MAJOR, .lease_end_ms = INT64_MIN},
                          err);
}

static enum status put_run(struct buf *out, struct error *err) {
    return wire_put_run(out,
                        &(struct wire_run){.run = UINT64_MAX,
                                           .lease_end_ms = 123456789,
                                           .timeout_ms = 60000,
                                           .version = INT64_MIN,
                                           .attempt = 3,
                                           .key = {binary, sizeof binary - 1},
                                           .payload = text_bytes("{\"t\":\"\xC3\xA4\"}"),
                                           .input = text_bytes("[1,2]")},
                        err);
}

static enum status put_run_absent(struct buf *out, struct error *err) {
    return wire_put_run(out, &(struct wire_run){.run = 1, .attempt = INT32_MIN}, err);
}

static enum status put_run_empty(struct buf *out, struct error *err) {
    return wire_put_run(out, &(struct wire_run){.payload = {"", 0}, .input = {"", 0}}, err);
}

static enum status put_tell(struct buf *out, struct error *err) {
    return wire_put_tell(out, &(struct wire_tell){.run = 42, .superseded = true}, err);
}

static enum status put_tell_cancelled(struct buf *out, struct error *err) {
    return wire_put_tell(out, &(struct wire_tell){.run = 42, .cancelled = true}, err);
}

static enum status put_beat(struct buf *out, struct error *err) {
    return wire_put_beat(out, &(struct wire_beat){.lease_end_ms = 0x0102030405060708}, err);
}

static enum status put_ready(struct buf *out, struct error *err) {
    return wire_put_ready(
        out, &(struct wire_ready){.major = WIRE_MAJOR, .minor = 2, .handler_abi = UINT32_MAX}, err);
}

static enum status put_refused(struct buf *out, struct error *err) {
    return wire_put_refused(out, &(struct wire_refused){.reason = text_bytes("no handler")}, err);
}

static enum status put_result(struct buf *out, struct error *err) {
    const struct wire_bytes parameters[] = {text_bytes("x"), {NULL, 0}, {"", 0}};
    const struct wire_statement statements[] = {
        {.sql = text_bytes("select 1")},
        {.sql = text_bytes("select $1, $2, $3"), .parameter_count = 3, .parameters = parameters},
        {.sql = text_bytes("select 2")},
    };
    return wire_put_result(out,
                           &(struct wire_result){.run = 9,
                                                 .outcome = WIRE_OK,
                                                 .run_us = 1234,
                                                 .output = text_bytes("{}"),
                                                 .statement_count = 3,
                                                 .statements = statements},
                           err);
}

static enum status put_result_failed(struct buf *out, struct error *err) {
    return wire_put_result(out,
                           &(struct wire_result){.run = 10,
                                                 .outcome = WIRE_FAIL,
                                                 .run_us = INT64_MAX,
                                                 .message = {binary, sizeof binary - 1}},
                           err);
}

static enum status put_result_retry(struct buf *out, struct error *err) {
    return wire_put_result(
        out, &(struct wire_result){.outcome = WIRE_RETRY, .message = text_bytes("later")}, err);
}

static enum status put_result_routed(struct buf *out, struct error *err) {
    const struct wire_statement statement = {.sql = text_bytes("select 1")};
    return wire_put_result(out,
                           &(struct wire_result){.run = 11,
                                                 .run_us = 5,
                                                 .output = text_bytes("{}"),
                                                 .statement_count = 1,
                                                 .statements = &statement,
                                                 .flow = WIRE_ROUTE,
                                                 .target = text_bytes("review")},
                           err);
}

static enum status put_result_finished(struct buf *out, struct error *err) {
    return wire_put_result(out, &(struct wire_result){.run = 12, .flow = WIRE_FINISH}, err);
}

static enum status put_result_snoozed(struct buf *out, struct error *err) {
    return wire_put_result(
        out, &(struct wire_result){.run = 13, .flow = WIRE_SNOOZE, .delay_ms = INT64_MAX}, err);
}

static enum status put_log(struct buf *out, struct error *err) {
    return wire_put_log(out, &(struct wire_log){.run = 0, .text = text_bytes("a line\n")}, err);
}

static enum status put_progress(struct buf *out, struct error *err) {
    return wire_put_progress(
        out, &(struct wire_progress){.run = 5, .fraction = 0.25, .text = text_bytes("page 1")},
        err);
}

static enum status put_hello_program(struct buf *out, struct error *err) {
    const struct wire_bytes arguments[] = {text_bytes("python3"), text_bytes("embed.py"), text_bytes("")};
    return wire_put_hello(out,
                          &(struct wire_hello){.major = WIRE_MAJOR,
                                               .minor = WIRE_MINOR_ENGINES,
                                               .engine = WIRE_PROGRAM,
                                               .stdout_form = WIRE_STDOUT_TEXT,
                                               .batch_size = 64,
                                               .nice = -20,
                                               .full_bytes = 1 << 30,
                                               .folder = text_bytes("/srv/pipeline"),
                                               .work = text_bytes("/run/work/1"),
                                               .user = text_bytes("nobody"),
                                               .argument_count = 3,
                                               .arguments = arguments},
                          err);
}

static enum status put_run_batch(struct buf *out, struct error *err) {
    return wire_put_run(out,
                        &(struct wire_run){.run = 9,
                                           .key = text_bytes("k"),
                                           .inputs = text_bytes("{\"a\":1}"),
                                           .has_progress = true,
                                           .progress = 0.4,
                                           .progress_text = text_bytes("page 4 of 10"),
                                           .batch_left = WIRE_BATCH_MAX - 1},
                        err);
}

static enum status put_result_crashed(struct buf *out, struct error *err) {
    return wire_put_result(out,
                           &(struct wire_result){.run = 14,
                                                 .outcome = WIRE_CRASH,
                                                 .message = text_bytes("signal 11"),
                                                 .kind = text_bytes("crash")},
                           err);
}

static enum status put_result_lost(struct buf *out, struct error *err) {
    return wire_put_result(out,
                           &(struct wire_result){.run = 15,
                                                 .outcome = WIRE_LOST,
                                                 .message = text_bytes("signal 9"),
                                                 .kind = text_bytes("killed")},
                           err);
}

static enum status put_result_split(struct buf *out, struct error *err) {
    return wire_put_result(
        out, &(struct wire_result){.run = 16, .outcome = WIRE_SPLIT, .message = text_bytes("no")}, err);
}

static enum status put_log_fields(struct buf *out, struct error *err) {
    return wire_put_log(
        out, &(struct wire_log){.run = 3, .text = text_bytes("empty"), .fields = text_bytes("{\"page\":4}")}, err);
}

const struct sample samples[] = {
    {"hello", WIRE_HELLO, put_hello},
    {"hello, empty", WIRE_HELLO, put_hello_empty},
    {"hello, program", WIRE_HELLO, put_hello_program},
    {"run", WIRE_RUN, put_run},
    {"run, batch", WIRE_RUN, put_run_batch},
    {"run, absent texts", WIRE_RUN, put_run_absent},
    {"run, empty texts", WIRE_RUN, put_run_empty},
    {"tell superseded", WIRE_TELL, put_tell},
    {"tell cancelled", WIRE_TELL, put_tell_cancelled},
    {"beat", WIRE_BEAT, put_beat},
    {"stop", WIRE_STOP, wire_put_stop},
    {"ready", WIRE_READY, put_ready},
    {"refused", WIRE_REFUSED, put_refused},
    {"result", WIRE_RESULT, put_result},
    {"result, failed", WIRE_RESULT, put_result_failed},
    {"result, retry", WIRE_RESULT, put_result_retry},
    {"result, routed", WIRE_RESULT, put_result_routed},
    {"result, finished", WIRE_RESULT, put_result_finished},
    {"result, snoozed", WIRE_RESULT, put_result_snoozed},
    {"result, crashed", WIRE_RESULT, put_result_crashed},
    {"result, lost", WIRE_RESULT, put_result_lost},
    {"result, split", WIRE_RESULT, put_result_split},
    {"log", WIRE_LOG, put_log},
    {"note", WIRE_NOTE, put_log_fields},
    {"progress", WIRE_PROGRESS, put_progress},
    {"full", WIRE_FULL, wire_put_full},
    {"last", WIRE_LAST, wire_put_last},
};
const size_t sample_count = sizeof samples / sizeof samples[0];

#define RECODE(message)                                                                            \
    do {                                                                                           \
        struct wire_##message m;                                                                   \
        status = wire_get_##message(frame, &m, err);                                               \
        if (status == STATUS_OK) {                                                                 \
            status = wire_put_##message(out, &m, err);                                             \
        }                                                                                          \
    } while (0)

static enum status recode_hello(const struct wire_frame *frame, struct buf *out, struct error *err) {
    struct wire_hello m;
    enum status status = wire_get_hello(frame, &m, err);
    if (status == STATUS_OK) {
        status = wire_put_hello(out, &m, err);
    }
    wire_hello_finish(&m);
    return status;
}

static enum status recode_run(const struct wire_frame *frame, struct buf *out, struct error *err) {
    struct wire_run m;
    enum status status = wire_get_run(frame, WIRE_MINOR, &m, err);
    return status == STATUS_OK ? wire_put_run(out, &m, err) : status;
}

static enum status recode_result(const struct wire_frame *frame, struct buf *out,
                                 struct error *err) {
    struct wire_result m;
    enum status status = wire_get_result(frame, &m, err);
    if (status == STATUS_OK) {
        status = wire_put_result(out, &m, err);
    }
    wire_result_finish(&m);
    return status;
}

enum status recode(const struct wire_frame *frame, struct buf *out, struct error *err) {
    leaks_fail_tests();
    enum status status = STATUS_INTERNAL;
    switch (frame->type) {
    case WIRE_HELLO:
        status = recode_hello(frame, out, err);
        break;
    case WIRE_RUN:
        status = recode_run(frame, out, err);
        break;
    case WIRE_TELL:
        RECODE(tell);
        break;
    case WIRE_BEAT:
        RECODE(beat);
        break;
    case WIRE_STOP:
        status = wire_get_stop(frame, err);
        if (status == STATUS_OK) {
            status = wire_put_stop(out, err);
        }
        break;
    case WIRE_READY:
        RECODE(ready);
        break;
    case WIRE_REFUSED:
        RECODE(refused);
        break;
    case WIRE_RESULT:
        status = recode_result(frame, out, err);
        break;
    case WIRE_LOG:
    case WIRE_NOTE:
        RECODE(log);
        break;
    case WIRE_PROGRESS:
        RECODE(progress);
        break;
    case WIRE_LAST:
        status = wire_get_last(frame, err);
        if (status == STATUS_OK) {
            status = wire_put_last(out, err);
        }
        break;
    case WIRE_FULL:
        status = wire_get_full(frame, err);
        if (status == STATUS_OK) {
            status = wire_put_full(out, err);
        }
        break;
    }
    return status;
}
