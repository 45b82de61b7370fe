#include "worker/answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "worker/channel.h"

_Static_assert(PGSTAGE_STATEMENTS_MAX <= WIRE_STATEMENTS_MAX &&
                   PGSTAGE_PARAMETERS_MAX <= WIRE_PARAMETERS_MAX &&
                   PGSTAGE_OUTPUT_MAX + PGSTAGE_SQL_MAX + 64 * 1024 * 1024 <= WIRE_FRAME_MAX,
               "every result that the SDK lets a handler make fits in a frame");

/* Of the SDK's, which are far below 4 GB. */
static struct wire_bytes wire_of(struct pgstage_host_text text) {
    return (struct wire_bytes){text.data, (uint32_t)text.length};
}

static void put_failure(struct buf *out, const struct wire_result *result) {
    struct error err = ERROR_NONE;
    if (wire_put_result(out, result, &err) != STATUS_OK) {
        channel_breach("%s", err.text);
    }
}

void answer_put_failure(struct buf *out, uint64_t run, enum wire_outcome outcome, const char *kind, int64_t run_us,
                        const char *text) {
    put_failure(out, &(struct wire_result){.run = run,
                                           .outcome = outcome,
                                           .run_us = run_us,
                                           .message = {text, (uint32_t)strlen(text)},
                                           .kind = {kind, kind == NULL ? 0 : (uint32_t)strlen(kind)}});
}

static void set_flow(struct wire_result *result, const pgstage_task *task) {
    struct pgstage_host_flow flow = pgstage_host_flow(task);
    static const enum wire_flow flows[] = {
        [PGSTAGE_HOST_GO_ON] = WIRE_GO_ON,
        [PGSTAGE_HOST_ROUTE] = WIRE_ROUTE,
        [PGSTAGE_HOST_FINISH] = WIRE_FINISH,
        [PGSTAGE_HOST_SNOOZE] = WIRE_SNOOZE,
    };
    result->flow = flows[flow.kind];
    result->target = wire_of(flow.target);
    result->delay_ms = flow.delay_ms;
}

static void put_success(struct buf *out, struct wire_result *result, const pgstage_task *task) {
    size_t count, parameter_count = 0;
    const struct pgstage_host_statement *from = pgstage_host_statements(task, &count);
    for (size_t i = 0; i < count; i++) {
        parameter_count += (size_t)from[i].parameter_count;
    }
    struct wire_statement *statements = mem_alloc(count * sizeof *statements);
    struct wire_bytes *parameters = mem_alloc(parameter_count * sizeof *parameters), *to;
    to = parameters;
    for (size_t i = 0; i < count; i++) {
        statements[i] =
            (struct wire_statement){.sql = wire_of(from[i].sql),
                                    .parameter_count = (uint32_t)from[i].parameter_count,
                                    .parameters = to};
        for (int j = 0; j < from[i].parameter_count; j++) {
            *to++ = wire_of(from[i].parameters[j]);
        }
    }
    result->outcome = WIRE_OK;
    result->output = wire_of(pgstage_host_output(task));
    result->statement_count = (uint32_t)count;
    result->statements = statements;
    set_flow(result, task);
    struct error err = ERROR_NONE;
    if (wire_put_result(out, result, &err) != STATUS_OK) {
        answer_put_failure(out, result->run, WIRE_FAIL, NULL, result->run_us, err.text);
    }
    free(parameters);
    free(statements);
}

void answer_put(struct buf *out, uint16_t minor, const struct engine_task *task, int64_t run_us) {
    struct wire_result result = {.run = task->run->run, .run_us = run_us};
    if (task->outcome == WIRE_OK) {
        if (pgstage_host_flow(task->task).kind != PGSTAGE_HOST_GO_ON && minor < WIRE_MINOR_FLOW) {
            answer_put_failure(out, result.run, WIRE_RETRY, NULL, run_us,
                               "the node is of an older release, which cannot route, finish early or "
                               "snooze: restart it");
            return;
        }
        put_success(out, &result, task->task);
        return;
    }
    result.outcome = task->outcome;
    result.message = wire_of(pgstage_host_message(task->task));
    if (task->kind != NULL) {
        result.kind = (struct wire_bytes){task->kind, (uint32_t)strlen(task->kind)};
    }
    put_failure(out, &result);
}

void engine_set_returned(struct engine_task *task, pgstage_result returned) {
    switch (returned) {
    case PGSTAGE_OK:
        task->outcome = WIRE_OK;
        return;
    case PGSTAGE_RETRY:
        task->outcome = WIRE_RETRY;
        return;
    case PGSTAGE_FAIL:
        task->outcome = WIRE_FAIL;
        return;
    }
    task->outcome = WIRE_FAIL;
    pgstage_fail(task->task, "the handler returned %d, which is no pgstage_result", (int)returned);
}
