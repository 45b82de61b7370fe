/* worker_frames.c - what a worker says, and what it is told about itself.
 *
 * Nothing here trusts the worker: a message out of place is refused with a sentence, the channel
 * calls it malformed, and that costs the worker. An answer counts when it was read whole, whatever
 * becomes of the process afterwards: a crash after "ok" is the next run's loss, or nobody's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/require.h"
#include "base/utf8.h"
#include "workers/note.h"
#include "workers/worker_parts.h"

enum {
    MESSAGE_MAX_BYTES = 8192,
    PROGRESS_TEXT_MAX_BYTES = 512,
    REFUSED_TEXT_MAX_BYTES = 400,
    DRAIN_MAX_BYTES = 1024 * 1024,
    NOTE_MAX_BYTES = 4096,
};

/* ---- READY, REFUSED ------------------------------------------------------------------------- */

static enum status ready(struct worker *worker, const struct wire_frame *frame, struct error *err) {
    struct wire_ready message;
    enum status code = wire_get_ready(frame, &message, err);
    if (code != STATUS_OK) {
        return code;
    }
    if (worker->was_ready || worker->cause == CAUSE_REFUSED) {
        return error_set(err, STATUS_PROTOCOL, "READY out of place");
    }
    worker->was_ready = true;
    if (worker->state != WORKER_STARTING) {
        return STATUS_OK; /* it is being stopped */
    }
    log_event(LOG_INFO, "worker.ready", "pipeline=%s stage=%s worker=%d pid=%d start_ms=%" PRId64,
              worker->setup->spec->pipeline, worker->setup->spec->stage, worker->number,
              (int)worker->group, worker_now(worker) - worker->started_ms);
    worker_step(worker, EVENT_READY);
    worker->events.ready(worker->events.context, worker);
    return STATUS_OK;
}

static enum status refused(struct worker *worker, const struct wire_frame *frame,
                           struct error *err) {
    struct wire_refused message;
    enum status code = wire_get_refused(frame, &message, err);
    if (code != STATUS_OK) {
        return code;
    }
    if (worker->was_ready || worker->cause == CAUSE_REFUSED) {
        return error_set(err, STATUS_PROTOCOL, "REFUSED out of place");
    }
    struct buf reason;
    buf_init(&reason, REFUSED_TEXT_MAX_BYTES);
    utf8_sanitize(&reason, message.reason.data, message.reason.length, REFUSED_TEXT_MAX_BYTES);
    worker_blame(worker, CAUSE_REFUSED, "%s",
                 reason.length > 0 ? reason.data : "refused without a reason");
    buf_finish(&reason);
    if (worker->state == WORKER_STARTING) {
        worker_step(worker, EVENT_REFUSED);
    }
    return STATUS_OK;
}

/* ---- RESULT --------------------------------------------------------------------------------- */

static struct pool_text text_of(struct wire_bytes bytes) {
    return (struct pool_text){.data = bytes.data, .length = bytes.data != NULL ? bytes.length : 0};
}

/* Ownership: one allocation, free() it; NULL when there are none. */
static struct pool_statement *statements_of(const struct wire_result *result) {
    size_t count = result->statement_count, parameters = 0;
    if (count == 0) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        parameters += result->statements[i].parameter_count;
    }
    struct pool_statement *statements =
        mem_alloc(count * sizeof *statements + parameters * sizeof(struct pool_text));
    struct pool_text *next = (struct pool_text *)(void *)(statements + count);
    for (size_t i = 0; i < count; i++) {
        const struct wire_statement *from = &result->statements[i];
        statements[i] = (struct pool_statement){.sql = text_of(from->sql),
                                                .parameter_count = (int)from->parameter_count,
                                                .parameters = next};
        for (uint32_t p = 0; p < from->parameter_count; p++) {
            *next++ = text_of(from->parameters[p]);
        }
    }
    return statements;
}

/* What the worker wrote before its answer is in the pipes by now; the loop may not have come to it.
 */
static void drain_output(struct worker *worker) {
    for (int i = 0; i < OUTPUT_STREAM_COUNT; i++) {
        uv_os_fd_t fd;
        ssize_t count = 0;
        size_t total = 0;
        if (uv_fileno((uv_handle_t *)&worker->streams[i], &fd) != 0) {
            continue;
        }
        while (total < DRAIN_MAX_BYTES &&
               (count = read(fd, worker->setup->room, worker->setup->room_bytes)) > 0) {
            output_feed(&worker->output, (enum output_stream)i, worker->setup->room, (size_t)count,
                        worker_now(worker));
            total += (size_t)count;
        }
    }
}

static enum pool_end end_of(enum wire_outcome outcome) {
    switch (outcome) {
    case WIRE_OK:
        return POOL_OK;
    case WIRE_RETRY:
        return POOL_RETRY;
    case WIRE_FAIL:
        return POOL_FAIL;
    case WIRE_CRASH:
        return POOL_CRASH;
    case WIRE_LOST:
        return POOL_LOST;
    case WIRE_SPLIT:
        return POOL_RETRY;
    }
    return POOL_FAIL;
}

/* The word that the worker said, as one of ours: it goes on into the table of failures. */
static const char *kind_of(const struct wire_result *result) {
    static const char *const crashes[] = {"crash", "memory", "no_answer", "protocol", "killed"};
    if (result->outcome == WIRE_LOST) {
        return "killed";
    }
    if (result->outcome != WIRE_CRASH && result->kind.data == NULL) {
        return "error";
    }
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        if (result->kind.data != NULL && strcmp(result->kind.data, crashes[i]) == 0) {
            return crashes[i];
        }
    }
    return "crash";
}

static enum pool_flow flow_of(enum wire_flow flow) {
    switch (flow) {
    case WIRE_GO_ON:
        return POOL_GO_ON;
    case WIRE_ROUTE:
        return POOL_ROUTE;
    case WIRE_FINISH:
        return POOL_FINISH;
    case WIRE_SNOOZE:
        return POOL_SNOOZE;
    }
    return POOL_GO_ON;
}

static void report(struct worker *worker, struct run *run, const struct wire_result *result) {
    struct pool_outcome outcome = {.end = end_of(result->outcome), .run_us = result->run_us};
    struct pool_statement *statements = NULL;
    struct buf message, tail;
    buf_init(&message, MESSAGE_MAX_BYTES);
    buf_init(&tail, OUTPUT_TAIL_BYTES);
    if (run->fate != RUN_OPEN) {
        /* To be interrupted when its turn came, and already over. */
        outcome.end = POOL_INTERRUPTED;
        outcome.kind = "interrupted";
    } else if (result->outcome == WIRE_OK) {
        outcome.output = text_of(result->output);
        outcome.statement_count = (int)result->statement_count;
        outcome.statements = statements = statements_of(result);
        outcome.flow = flow_of(result->flow);
        outcome.target = text_of(result->target);
        outcome.delay_ms = result->delay_ms;
    } else {
        outcome.kind = kind_of(result);
        utf8_sanitize(&message, result->message.data, result->message.length, MESSAGE_MAX_BYTES);
        outcome.message = (struct pool_text){message.data, message.length};
        drain_output(worker);
        output_tail(&worker->output, &tail);
        outcome.last_output = (struct pool_text){tail.length > 0 ? tail.data : NULL, tail.length};
    }
    if (run->batch == NULL || worker->depth == 0) {
        output_forget(&worker->output); /* what was written for a batch belongs to each of its runs */
    }
    worker->events.over(worker->events.context, worker, run, &outcome);
    buf_finish(&message);
    buf_finish(&tail);
    free(statements);
}

/* A worker that is being ended shall not begin what lies behind the run that it answered; the
 * others of its batch are begun. */
static void hurry(struct worker *worker, bool of_batch) {
    if (worker->state == WORKER_TERMINATING && worker->depth > 0 && !of_batch) {
        worker_step(worker, EVENT_KILL);
    }
}

/* The run in hand is answered; its fate may have been decided before. */
static void take_answer(struct worker *worker, struct run *run, const struct wire_result *result) {
    bool of_batch = run->batch != NULL;
    run->split = result->outcome == WIRE_SPLIT;
    list_remove(&run->link);
    worker->depth--;
    if (worker->state == WORKER_BUSY) {
        if (!of_batch) {
            worker->head_ms = worker_now(worker); /* a batch has one time for all */
        }
        if (run->fate == RUN_INTERRUPTED && --worker->interrupts == 0) {
            worker->interrupt_by_ms = INT64_MAX;
        } else if (worker->depth > 0 && worker_head(worker)->fate == RUN_INTERRUPTED) {
            worker->interrupt_by_ms = worker->head_ms; /* its turn came */
        }
        if (worker->depth > 0) {
            worker_arm(worker);
        } else {
            worker->exclusive = false;
            worker_step(worker, EVENT_EMPTY);
        }
    } else if (run->fate != RUN_OPEN) {
        /* We are killing the worker for this run, and `ended` has to wait for that. */
        list_append(&worker->answered, &run->link);
        hurry(worker, of_batch);
        return;
    }
    hurry(worker, of_batch);
    report(worker, run, result);
    if (worker->stop_wanted && worker->state == WORKER_IDLE) {
        worker_step(worker, EVENT_STOP);
    }
}

/* The run in hand of that number; those of a batch are in hand together. NULL: there is none. */
static struct run *find_in_hand(struct worker *worker, uint64_t id) {
    LIST_EACH(node, &worker->pipe) {
        struct run *run = LIST_ENTRY(node, struct run, link);
        if (run->id == id) {
            return run;
        }
        if (run->batch == NULL) {
            break;
        }
    }
    return NULL;
}

static enum status result(struct worker *worker, const struct wire_frame *frame,
                          struct error *err) {
    struct wire_result message = {0};
    struct run *head = worker_head(worker), *run = NULL;
    enum status code = wire_get_result(frame, &message, err);
    if (code == STATUS_OK && head == NULL) {
        code = error_set(err, STATUS_PROTOCOL, "a result without a task in hand");
    } else if (code == STATUS_OK && (run = find_in_hand(worker, message.run)) == NULL) {
        code = error_set(err, STATUS_PROTOCOL, "a result of run %" PRIu64 " instead of %" PRIu64,
                         message.run, head->id);
    }
    if (code == STATUS_OK) {
        take_answer(worker, run, &message);
    }
    wire_result_finish(&message);
    return code;
}

/* ---- LOG, PROGRESS -------------------------------------------------------------------------- */

static enum status log_line(struct worker *worker, const struct wire_frame *frame,
                            struct error *err) {
    struct wire_log message;
    enum status code = wire_get_log(frame, &message, err);
    if (code != STATUS_OK) {
        return code;
    }
    if (!output_log_wants(worker->setup->log_limit, worker_now(worker))) {
        return STATUS_OK;
    }
    char fields[512];
    snprintf(fields, sizeof fields, "pipeline=%.200s stage=%.200s worker=%d run=%" PRIu64,
             worker->setup->spec->pipeline, worker->setup->spec->stage, worker->number,
             message.run);
    struct buf more;
    buf_init(&more, NOTE_MAX_BYTES);
    if (message.fields.data != NULL) {
        note_put_fields(&more, message.fields.data, message.fields.length);
    }
    output_log(worker->setup->log_limit, "task.log", fields, message.text.data, message.text.length, more.data);
    buf_finish(&more);
    return STATUS_OK;
}

static enum status progress(struct worker *worker, const struct wire_frame *frame,
                            struct error *err) {
    struct wire_progress message;
    enum status code = wire_get_progress(frame, &message, err);
    if (code != STATUS_OK) {
        return code;
    }
    struct run *run = find_in_hand(worker, message.run);
    if (run == NULL) {
        return STATUS_OK; /* a thread of the handler that outlived its run */
    }
    struct buf text;
    buf_init(&text, PROGRESS_TEXT_MAX_BYTES);
    utf8_sanitize(&text, message.text.data, message.text.length, PROGRESS_TEXT_MAX_BYTES);
    worker->events.progress(worker->events.context, run, message.fraction, text.data);
    buf_finish(&text);
    return STATUS_OK;
}

/* A worker that is full before its first task would be so for ever: replaced at once, again and
 * again, without a brake. */
static enum status full(struct worker *worker, const struct wire_frame *frame, struct error *err) {
    enum status code = wire_get_full(frame, err);
    if (code != STATUS_OK) {
        return code;
    }
    if (worker->fresh) {
        return error_set(err, STATUS_PROTOCOL, "FULL before its first task");
    }
    worker_stop(worker);
    return STATUS_OK;
}

static enum status last(struct worker *worker, const struct wire_frame *frame, struct error *err) {
    enum status code = wire_get_last(frame, err);
    worker->said_last = worker->said_last || code == STATUS_OK;
    return code;
}

/* ---- the stream's events -------------------------------------------------------------------- */

static enum status on_frame(void *context, const struct wire_frame *frame, struct error *err) {
    struct worker *worker = context;
    switch (frame->type) {
    case WIRE_READY:
        return ready(worker, frame, err);
    case WIRE_REFUSED:
        return refused(worker, frame, err);
    case WIRE_RESULT:
        return result(worker, frame, err);
    case WIRE_LOG:
    case WIRE_NOTE:
        return log_line(worker, frame, err);
    case WIRE_PROGRESS:
        return progress(worker, frame, err);
    case WIRE_FULL:
        return full(worker, frame, err);
    case WIRE_LAST:
        return last(worker, frame, err);
    case WIRE_HELLO:
    case WIRE_RUN:
    case WIRE_TELL:
    case WIRE_BEAT:
    case WIRE_STOP:
        break;
    }
    return error_set(err, STATUS_PROTOCOL, "a message of type %d, which only a node sends",
                     (int)frame->type);
}

static void on_malformed(void *context, const struct error *why) {
    struct worker *worker = context;
    log_event(LOG_WARN, "worker.malformed", "pipeline=%s stage=%s worker=%d pid=%d why=%s",
              worker->setup->spec->pipeline, worker->setup->spec->stage, worker->number,
              (int)worker->group, log_text(why->text));
    worker_blame(worker, CAUSE_PROTOCOL, "%s", why->text);
    worker_step(worker, EVENT_MALFORMED);
}

static void on_ended(void *context) {
    struct worker *worker = context;
    worker->open_ends--;
    worker_step(worker, EVENT_PIPE_END);
    if (worker->state == WORKER_ENDING) {
        worker_end_poll(worker);
    }
}

/* At most one BEAT waits in the pipe of a worker that does not read. */
static void on_sending(void *context) {
    struct worker *worker = context;
    int64_t lease_end_ms = *worker->setup->lease_end_ms;
    if (worker->lease_told_ms == lease_end_ms || worker->channel.writes > 0) {
        return;
    }
    struct error err = ERROR_NONE;
    enum status put =
        wire_put_beat(stream_out(&worker->channel), &(struct wire_beat){lease_end_ms}, &err);
    REQUIRE(put == STATUS_OK);
    worker->lease_told_ms = lease_end_ms;
}

static void on_leaving(void *context) {
    struct worker *worker = context;
    worker->unsent = 0;
}

static void on_sent(void *context) {
    struct worker *worker = context;
    if (worker->lease_told_ms != *worker->setup->lease_end_ms) {
        stream_touch(&worker->channel);
    }
}

const struct stream_events worker_channel_events = {
    .frame = on_frame,
    .malformed = on_malformed,
    .ended = on_ended,
    .sending = on_sending,
    .leaving = on_leaving,
    .sent = on_sent,
};

static struct wire_bytes bytes_of(const char *text) {
    return (struct wire_bytes){.data = text, .length = text == NULL ? 0 : (uint32_t)strlen(text)};
}

static int count_arguments(const struct pool_spec *spec) {
    int count = 0;
    while (spec->arguments != NULL && spec->arguments[count] != NULL) {
        count++;
    }
    return count;
}

struct wire_hello worker_hello(const struct pool_spec *spec, int64_t lease_end_ms) {
    static const enum wire_engine engines[] = {[POOL_HANDLER] = WIRE_HANDLER,
                                               [POOL_COMMAND] = WIRE_COMMAND,
                                               [POOL_PROGRAM] = WIRE_PROGRAM};
    static const enum wire_stdout forms[] = {[POOL_STDOUT_JSON] = WIRE_STDOUT_JSON,
                                             [POOL_STDOUT_TEXT] = WIRE_STDOUT_TEXT,
                                             [POOL_STDOUT_IGNORE] = WIRE_STDOUT_IGNORE};
    int argument_count = count_arguments(spec);
    struct wire_bytes *arguments = mem_alloc((size_t)argument_count * sizeof *arguments);
    for (int i = 0; i < argument_count; i++) {
        arguments[i] = bytes_of(spec->arguments[i]);
    }
    return (struct wire_hello){
        .major = WIRE_MAJOR,
        .minor = WIRE_MINOR,
        .lease_end_ms = lease_end_ms,
        .pipeline = bytes_of(spec->pipeline),
        .stage = bytes_of(spec->stage),
        .handler_file = bytes_of(spec->handler_file),
        .handler_name = bytes_of(spec->handler_name),
        .config = bytes_of(spec->config),
        .address_space_bytes = spec->limits.address_space_bytes,
        .cpu_seconds = spec->limits.cpu_seconds,
        .file_size_bytes = spec->limits.file_size_bytes,
        .open_files = spec->limits.open_files,
        .engine = engines[spec->engine],
        .stdout_form = forms[spec->stdout_form],
        .batch_size = (uint32_t)spec->batch_size,
        .nice = spec->limits.nice,
        .full_bytes = spec->recycle_bytes,
        .folder = bytes_of(spec->folder),
        .user = bytes_of(spec->user),
        .argument_count = (uint32_t)argument_count,
        .arguments = arguments,
    };
}

void worker_send_hello(struct worker *worker) {
    worker->lease_told_ms = *worker->setup->lease_end_ms;
    struct wire_hello message = worker_hello(worker->setup->spec, worker->lease_told_ms);
    message.work = bytes_of(worker->work);
    struct error err = ERROR_NONE;
    enum status put = wire_put_hello(stream_out(&worker->channel), &message, &err);
    wire_hello_finish(&message);
    REQUIRE(put == STATUS_OK); /* the pool tried it when it was opened */
}
