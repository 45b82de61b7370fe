/* messages.c - each message as a put function and a get function that list the same fields in the
 * same order.
 *
 * HELLO and READY begin with the protocol's version. When its major part is another one, nothing
 * after it is looked at: the rest may be laid out in any way.
 */
#include "wire/messages.h"

#include <stdlib.h>

#include "base/memory.h"
#include "wire/frame.h"

/* The least that one takes in a frame: counts are checked against the bytes that are there before
 * memory is asked for. */
enum { STATEMENT_MIN_BYTES = 9, PARAMETER_MIN_BYTES = 4 };

static enum status check_major(uint16_t major, uint16_t minor, const char *peer,
                               struct error *err) {
    if (major == WIRE_MAJOR) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_PROTOCOL,
                     "the %s speaks protocol %u.%u, this program %d.%d: both must come from the "
                     "same release",
                     peer, (unsigned)major, (unsigned)minor, WIRE_MAJOR, WIRE_MINOR);
}

static void put_engine(struct frame_writer *w, const struct wire_hello *m) {
    put_u8(w, (uint8_t)m->engine);
    put_u8(w, (uint8_t)m->stdout_form);
    put_u32(w, m->batch_size);
    put_u32(w, (uint32_t)m->nice);
    put_i64(w, m->full_bytes);
    put_bytes(w, m->folder);
    put_optional(w, m->work);
    put_optional(w, m->user);
    put_u32(w, m->argument_count);
    for (uint32_t i = 0; i < m->argument_count; i++) {
        put_bytes(w, m->arguments[i]);
    }
}

static void get_arguments(struct frame_reader *r, struct wire_hello *m) {
    uint32_t count = get_u32(r);
    frame_want(r, count <= WIRE_ARGUMENTS_MAX);
    frame_want(r, (count == 0) == (m->engine == WIRE_HANDLER));
    if (r->failed || count == 0) {
        return;
    }
    struct wire_bytes *arguments = mem_alloc(count * sizeof *arguments);
    m->arguments = arguments;
    m->argument_count = count;
    for (uint32_t i = 0; i < count; i++) {
        arguments[i] = get_bytes(r);
    }
}

static void get_engine(struct frame_reader *r, struct wire_hello *m) {
    uint8_t engine = get_u8(r), form = get_u8(r);
    frame_want(r, engine <= WIRE_PROGRAM && form <= WIRE_STDOUT_IGNORE);
    m->engine = (enum wire_engine)engine;
    m->stdout_form = (enum wire_stdout)form;
    m->batch_size = get_u32(r);
    m->nice = (int32_t)get_u32(r);
    m->full_bytes = get_count(r);
    m->folder = get_bytes(r);
    m->work = get_optional(r);
    m->user = get_optional(r);
    frame_want(r, m->batch_size <= WIRE_BATCH_MAX && m->nice >= -20 && m->nice <= 19);
    get_arguments(r, m);
}

void wire_hello_finish(struct wire_hello *m) {
    free((void *)(uintptr_t)m->arguments);
    *m = (struct wire_hello){0};
}

enum status wire_put_hello(struct buf *out, const struct wire_hello *m, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, WIRE_HELLO);
    put_u16(&w, m->major);
    put_u16(&w, m->minor);
    put_i64(&w, m->lease_end_ms);
    put_bytes(&w, m->pipeline);
    put_bytes(&w, m->stage);
    put_bytes(&w, m->handler_file);
    put_bytes(&w, m->handler_name);
    put_bytes(&w, m->config);
    put_i64(&w, m->address_space_bytes);
    put_i64(&w, m->cpu_seconds);
    put_i64(&w, m->file_size_bytes);
    put_i64(&w, m->open_files);
    if (m->minor >= WIRE_MINOR_ENGINES) {
        put_engine(&w, m);
    }
    return frame_end(&w, err);
}

enum status wire_get_hello(const struct wire_frame *f, struct wire_hello *m, struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_HELLO);
    *m = (struct wire_hello){.major = get_u16(&r)};
    m->minor = get_u16(&r);
    if (!r.failed && check_major(m->major, m->minor, "node", err) != STATUS_OK) {
        return STATUS_PROTOCOL;
    }
    m->lease_end_ms = get_i64(&r);
    m->pipeline = get_bytes(&r);
    m->stage = get_bytes(&r);
    m->handler_file = get_bytes(&r);
    m->handler_name = get_bytes(&r);
    m->config = get_bytes(&r);
    m->address_space_bytes = get_count(&r);
    m->cpu_seconds = get_count(&r);
    m->file_size_bytes = get_count(&r);
    m->open_files = get_count(&r);
    if (!r.failed && m->minor >= WIRE_MINOR_ENGINES) {
        get_engine(&r, m);
    }
    enum status status = frame_done(&r, WIRE_HELLO, err);
    if (status != STATUS_OK) {
        wire_hello_finish(m);
    }
    return status;
}

enum status wire_put_run(struct buf *out, const struct wire_run *m, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, WIRE_RUN);
    put_u64(&w, m->run);
    put_i64(&w, m->lease_end_ms);
    put_i64(&w, m->timeout_ms);
    put_i64(&w, m->version);
    put_u32(&w, (uint32_t)m->attempt);
    put_bytes(&w, m->key);
    put_optional(&w, m->payload);
    put_optional(&w, m->input);
    put_optional(&w, m->inputs);
    put_u8(&w, m->has_progress);
    put_double(&w, m->progress);
    put_optional(&w, m->progress_text);
    put_u32(&w, m->batch_left);
    return frame_end(&w, err);
}

enum status wire_get_run(const struct wire_frame *f, uint16_t minor, struct wire_run *m,
                         struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_RUN);
    *m = (struct wire_run){.run = get_u64(&r)};
    m->lease_end_ms = get_i64(&r);
    m->timeout_ms = get_count(&r);
    m->version = get_i64(&r);
    m->attempt = (int32_t)get_u32(&r);
    m->key = get_bytes(&r);
    m->payload = get_optional(&r);
    m->input = get_optional(&r);
    if (minor >= WIRE_MINOR_ENGINES) {
        m->inputs = get_optional(&r);
        m->has_progress = get_bool(&r);
        m->progress = get_double(&r);
        m->progress_text = get_optional(&r);
        m->batch_left = get_u32(&r);
        frame_want(&r, m->progress >= 0.0 && m->progress <= 1.0);
        frame_want(&r, m->batch_left < WIRE_BATCH_MAX);
    }
    return frame_done(&r, WIRE_RUN, err);
}

enum status wire_put_tell(struct buf *out, const struct wire_tell *m, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, WIRE_TELL);
    put_u64(&w, m->run);
    put_u8(&w, m->cancelled);
    put_u8(&w, m->superseded);
    return frame_end(&w, err);
}

enum status wire_get_tell(const struct wire_frame *f, struct wire_tell *m, struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_TELL);
    *m = (struct wire_tell){.run = get_u64(&r)};
    m->cancelled = get_bool(&r);
    m->superseded = get_bool(&r);
    return frame_done(&r, WIRE_TELL, err);
}

enum status wire_put_beat(struct buf *out, const struct wire_beat *m, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, WIRE_BEAT);
    put_i64(&w, m->lease_end_ms);
    return frame_end(&w, err);
}

enum status wire_get_beat(const struct wire_frame *f, struct wire_beat *m, struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_BEAT);
    *m = (struct wire_beat){.lease_end_ms = get_i64(&r)};
    return frame_done(&r, WIRE_BEAT, err);
}

enum status wire_put_stop(struct buf *out, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, WIRE_STOP);
    return frame_end(&w, err);
}

enum status wire_get_stop(const struct wire_frame *f, struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_STOP);
    return frame_done(&r, WIRE_STOP, err);
}

enum status wire_put_ready(struct buf *out, const struct wire_ready *m, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, WIRE_READY);
    put_u16(&w, m->major);
    put_u16(&w, m->minor);
    put_u32(&w, m->handler_abi);
    return frame_end(&w, err);
}

enum status wire_get_ready(const struct wire_frame *f, struct wire_ready *m, struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_READY);
    *m = (struct wire_ready){.major = get_u16(&r)};
    m->minor = get_u16(&r);
    if (!r.failed && check_major(m->major, m->minor, "worker", err) != STATUS_OK) {
        return STATUS_PROTOCOL;
    }
    m->handler_abi = get_u32(&r);
    return frame_done(&r, WIRE_READY, err);
}

enum status wire_put_refused(struct buf *out, const struct wire_refused *m, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, WIRE_REFUSED);
    put_bytes(&w, m->reason);
    return frame_end(&w, err);
}

enum status wire_get_refused(const struct wire_frame *f, struct wire_refused *m,
                             struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_REFUSED);
    *m = (struct wire_refused){.reason = get_bytes(&r)};
    return frame_done(&r, WIRE_REFUSED, err);
}

static uint64_t count_parameters(const struct wire_result *m) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < m->statement_count; i++) {
        total += m->statements[i].parameter_count;
    }
    return total;
}

/* 0 to 2: OK, RETRY, FAIL; then ROUTE, FINISH, SNOOZE; then CRASH, LOST, SPLIT. */
enum { CODE_FLOW = WIRE_FAIL, CODE_LAST_FLOW = WIRE_FAIL + WIRE_SNOOZE, CODE_BEYOND = WIRE_SNOOZE };

static uint8_t code_of(const struct wire_result *m) {
    if (m->outcome > WIRE_FAIL) {
        return (uint8_t)((int)m->outcome + CODE_BEYOND);
    }
    return (uint8_t)(m->flow == WIRE_GO_ON ? (int)m->outcome : CODE_FLOW + (int)m->flow);
}

enum status wire_put_result(struct buf *out, const struct wire_result *m, struct error *err) {
    uint64_t parameter_total = count_parameters(m);
    if (m->statement_count > WIRE_STATEMENTS_MAX || parameter_total > WIRE_PARAMETERS_MAX) {
        return error_set(err, STATUS_INVALID, "more than %d statements or %d parameters",
                         WIRE_STATEMENTS_MAX, WIRE_PARAMETERS_MAX);
    }
    struct frame_writer w;
    frame_begin(&w, out, WIRE_RESULT);
    put_u64(&w, m->run);
    put_u8(&w, code_of(m));
    put_i64(&w, m->run_us);
    put_optional(&w, m->message);
    put_optional(&w, m->output);
    put_u32(&w, m->statement_count);
    put_u32(&w, (uint32_t)parameter_total);
    for (uint32_t i = 0; i < m->statement_count; i++) {
        const struct wire_statement *statement = &m->statements[i];
        put_bytes(&w, statement->sql);
        put_u32(&w, statement->parameter_count);
        for (uint32_t j = 0; j < statement->parameter_count; j++) {
            put_optional(&w, statement->parameters[j]);
        }
    }
    if (m->flow != WIRE_GO_ON) {
        put_optional(&w, m->target);
        put_i64(&w, m->delay_ms);
    }
    if (m->outcome > WIRE_FAIL) {
        put_optional(&w, m->kind);
    }
    return frame_end(&w, err);
}

/* Statements and their parameters are one piece of memory, so that one free() releases both. */
static void get_statements(struct frame_reader *r, struct wire_result *m) {
    uint32_t count = get_u32(r), parameters_left = get_u32(r);
    frame_want(r, count <= WIRE_STATEMENTS_MAX && parameters_left <= WIRE_PARAMETERS_MAX);
    frame_want(r, (uint64_t)count * STATEMENT_MIN_BYTES +
                          (uint64_t)parameters_left * PARAMETER_MIN_BYTES <=
                      frame_left(r));
    frame_want(r, count > 0 || parameters_left == 0);
    if (r->failed || count == 0) {
        return;
    }
    struct wire_statement *statements =
        mem_alloc(count * sizeof *statements + parameters_left * sizeof(struct wire_bytes));
    struct wire_bytes *parameter = (struct wire_bytes *)(statements + count);
    m->statements = statements;
    m->statement_count = count;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        statements[i].sql = get_bytes(r);
        statements[i].parameter_count = get_u32(r);
        statements[i].parameters = parameter;
        frame_want(r, statements[i].parameter_count <= parameters_left);
        for (uint32_t j = 0; j < statements[i].parameter_count && !r->failed; j++) {
            *parameter++ = get_optional(r);
            parameters_left--;
        }
    }
    frame_want(r, parameters_left == 0);
}

static void get_outcome(struct frame_reader *r, struct wire_result *m) {
    uint8_t code = get_u8(r);
    frame_want(r, code <= WIRE_SPLIT + CODE_BEYOND);
    if (code > CODE_LAST_FLOW) {
        m->outcome = (enum wire_outcome)(code - CODE_BEYOND);
    } else if (code > WIRE_FAIL) {
        m->flow = (enum wire_flow)(code - CODE_FLOW);
    } else {
        m->outcome = (enum wire_outcome)code;
    }
}

static void get_flow(struct frame_reader *r, struct wire_result *m) {
    if (r->failed || m->flow == WIRE_GO_ON) {
        return;
    }
    m->target = get_optional(r);
    m->delay_ms = get_count(r);
    frame_want(r, (m->flow == WIRE_ROUTE) == (m->target.data != NULL));
    frame_want(r, m->flow == WIRE_SNOOZE || m->delay_ms == 0);
}

enum status wire_get_result(const struct wire_frame *f, struct wire_result *m, struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_RESULT);
    *m = (struct wire_result){.run = get_u64(&r)};
    get_outcome(&r, m);
    m->run_us = get_count(&r);
    m->message = get_optional(&r);
    m->output = get_optional(&r);
    get_statements(&r, m);
    get_flow(&r, m);
    if (m->outcome > WIRE_FAIL) {
        m->kind = get_optional(&r);
    }
    enum status status = frame_done(&r, WIRE_RESULT, err);
    if (status != STATUS_OK) {
        wire_result_finish(m);
    }
    return status;
}

void wire_result_finish(struct wire_result *m) {
    free((void *)m->statements);
    *m = (struct wire_result){0};
}

enum status wire_put_log(struct buf *out, const struct wire_log *m, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, m->fields.data == NULL ? WIRE_LOG : WIRE_NOTE);
    put_u64(&w, m->run);
    put_bytes(&w, m->text);
    if (m->fields.data != NULL) {
        put_bytes(&w, m->fields);
    }
    return frame_end(&w, err);
}

enum status wire_get_log(const struct wire_frame *f, struct wire_log *m, struct error *err) {
    struct frame_reader r;
    enum wire_type type = f->type == WIRE_NOTE ? WIRE_NOTE : WIRE_LOG;
    frame_open(&r, f, type);
    *m = (struct wire_log){.run = get_u64(&r)};
    m->text = get_bytes(&r);
    if (type == WIRE_NOTE) {
        m->fields = get_bytes(&r);
    }
    return frame_done(&r, type, err);
}

enum status wire_put_progress(struct buf *out, const struct wire_progress *m, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, WIRE_PROGRESS);
    put_u64(&w, m->run);
    put_double(&w, m->fraction);
    put_bytes(&w, m->text);
    return frame_end(&w, err);
}

enum status wire_get_progress(const struct wire_frame *f, struct wire_progress *m,
                              struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_PROGRESS);
    *m = (struct wire_progress){.run = get_u64(&r)};
    m->fraction = get_double(&r);
    /* Written so that it refuses what is not a number, too. */
    frame_want(&r, m->fraction >= 0.0 && m->fraction <= 1.0);
    m->text = get_bytes(&r);
    return frame_done(&r, WIRE_PROGRESS, err);
}

enum status wire_put_full(struct buf *out, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, WIRE_FULL);
    return frame_end(&w, err);
}

enum status wire_get_full(const struct wire_frame *f, struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_FULL);
    return frame_done(&r, WIRE_FULL, err);
}

enum status wire_put_last(struct buf *out, struct error *err) {
    struct frame_writer w;
    frame_begin(&w, out, WIRE_LAST);
    return frame_end(&w, err);
}

enum status wire_get_last(const struct wire_frame *f, struct error *err) {
    struct frame_reader r;
    frame_open(&r, f, WIRE_LAST);
    return frame_done(&r, WIRE_LAST, err);
}
