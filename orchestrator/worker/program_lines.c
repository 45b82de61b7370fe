#include "worker/program_lines.h"

#include <inttypes.h>

#include "worker/json_text.h"

static void put_text(struct buf *out, const char *name, struct wire_bytes text) {
    buf_append_format(out, ",\"%s\":", name);
    json_text_quote(out, text.data, text.length);
}

/* JSON text may have line ends between its tokens, and nowhere else: a message is one line. */
static void put_json(struct buf *out, const char *name, struct wire_bytes text, const char *absent) {
    buf_append_format(out, ",\"%s\":", name);
    if (text.data == NULL) {
        buf_append_string(out, absent);
        return;
    }
    size_t from = out->length;
    buf_append(out, text.data, text.length);
    for (size_t i = from; i < out->length; i++) {
        if (out->data[i] == '\n' || out->data[i] == '\r') {
            out->data[i] = ' ';
        }
    }
}

void program_put_hello(struct buf *out, const struct wire_hello *hello) {
    buf_append_string(out, "{\"type\":\"hello\",\"protocol\":1");
    put_text(out, "pipeline", hello->pipeline);
    put_text(out, "stage", hello->stage);
    if (hello->folder.length > 0) {
        put_text(out, "folder", hello->folder);
    }
    put_json(out, "with", hello->config, "{}");
    if (hello->batch_size > 0) {
        buf_append_format(out, ",\"batch\":%" PRIu32, hello->batch_size);
    }
    buf_append_char(out, '}');
}

/* Without its braces. */
static void put_task(struct buf *out, const struct wire_run *run, uint64_t id) {
    buf_append_format(out, "\"id\":\"%" PRIu64 "\"", id);
    put_text(out, "key", run->key);
    buf_append_format(out, ",\"version\":%" PRId64 ",\"attempt\":%" PRId32, run->version, run->attempt);
    put_json(out, "payload", run->payload, "null");
    put_json(out, "input", run->input, "null");
    put_json(out, "inputs", run->inputs, "{}");
    if (run->has_progress) {
        buf_append_format(out, ",\"progress\":{\"fraction\":%.17g", run->progress);
        put_text(out, "message", run->progress_text);
        buf_append_char(out, '}');
    }
}

static void put_timeout(struct buf *out, const struct wire_run *run) {
    if (run->timeout_ms > 0) {
        buf_append_format(out, ",\"timeout_ms\":%" PRId64, run->timeout_ms);
    }
}

void program_put_call(struct buf *out, const struct wire_hello *hello, const struct engine_call *call, uint64_t first_id) {
    if (hello->batch_size == 0) {
        buf_append_string(out, "{\"type\":\"task\",");
        put_task(out, call->tasks[0].run, first_id);
    } else {
        buf_append_format(out, "{\"type\":\"batch\",\"id\":\"%" PRIu64 "\",\"tasks\":[", first_id);
        for (size_t i = 0; i < call->count; i++) {
            buf_append_string(out, i == 0 ? "{" : ",{");
            put_task(out, call->tasks[i].run, first_id + 1 + i);
            buf_append_char(out, '}');
        }
        buf_append_char(out, ']');
    }
    put_timeout(out, call->tasks[0].run);
    buf_append_char(out, '}');
}

void program_put_tell(struct buf *out, uint64_t id, bool cancelled, bool superseded) {
    buf_append_format(out, "{\"type\":\"tell\",\"id\":\"%" PRIu64 "\",\"cancelled\":%s,\"superseded\":%s}", id,
                      cancelled ? "true" : "false", superseded ? "true" : "false");
}

void program_put_stop(struct buf *out) {
    buf_append_string(out, "{\"type\":\"stop\"}");
}
