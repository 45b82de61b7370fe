/* output.c - lines from two streams, a ring that keeps their ends, and a brake on the log.
 *
 * A worker's stdout and stderr arrive in any order; whole lines of both go into one ring, so that a
 * report reads as the handler wrote it. What is kept is raw; it becomes text when it is asked for.
 */
#include "workers/output.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void output_init(struct output *output, const struct output_source *source) {
    *output = (struct output){.source = *source};
}

bool output_log_wants(struct log_limit *limit, int64_t now_ms) {
    return log_is_on(LOG_INFO) && log_limit_allows(limit, OUTPUT_LINES_PER_MINUTE, now_ms);
}

void output_log(struct log_limit *limit, const char *event, const char *fields, const char *text, size_t length,
                const char *more) {
    if (limit->suppressed > 0) {
        log_event(LOG_INFO, "worker.output_suppressed", "%s lines=%d", fields, limit->suppressed);
        limit->suppressed = 0;
    }
    char line[OUTPUT_LINE_BYTES + 1];
    size_t kept = length < OUTPUT_LINE_BYTES ? length : OUTPUT_LINE_BYTES;
    for (size_t i = 0; i < kept; i++) {
        line[i] = text[i] != '\0' ? text[i] : '?'; /* log_text escapes all else */
    }
    line[kept] = '\0';
    log_event(LOG_INFO, event, "%s text=%s%s", fields, log_text(line), more);
}

/* Only the end of what is longer than the ring. */
static void keep(struct output *output, const char *bytes, size_t length) {
    size_t over = length > OUTPUT_TAIL_BYTES ? length - OUTPUT_TAIL_BYTES : 0;
    output->written += over;
    bytes += over;
    length -= over;
    size_t at = (size_t)(output->written % OUTPUT_TAIL_BYTES);
    size_t first = OUTPUT_TAIL_BYTES - at < length ? OUTPUT_TAIL_BYTES - at : length;
    memcpy(output->tail + at, bytes, first);
    memcpy(output->tail, bytes + first, length - first);
    output->written += length;
}

static void log_line(const struct output *output, enum output_stream stream) {
    const struct output_line *line = &output->lines[stream];
    const struct output_source *source = &output->source;
    char fields[512];
    snprintf(fields, sizeof fields, "pipeline=%.200s stage=%.200s worker=%d stream=%s",
             source->pipeline, source->stage, source->worker,
             stream == OUTPUT_STDERR ? "stderr" : "stdout");
    output_log(source->limit, "worker.output", fields, line->text, line->length, "");
}

static void end_line(struct output *output, enum output_stream stream, int64_t now_ms) {
    struct output_line *line = &output->lines[stream];
    if (output_log_wants(output->source.limit, now_ms)) {
        log_line(output, stream);
    }
    keep(output, line->text, line->length);
    line->length = 0;
}

static size_t count_newlines(const char *bytes, size_t length) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        count += bytes[i] == '\n';
    }
    return count;
}

static bool log_wants_none(const struct output *output, int64_t now_ms) {
    return !log_is_on(LOG_INFO) || log_limit_is_spent(output->source.limit, OUTPUT_LINES_PER_MINUTE, now_ms);
}

/* Whole lines, of which the log wants none. */
static void take_unlogged(struct output *output, enum output_stream stream, const char *bytes, size_t length) {
    struct output_line *line = &output->lines[stream];
    if (log_is_on(LOG_INFO)) {
        log_limit_suppress(output->source.limit, count_newlines(bytes, length));
    }
    keep(output, line->text, line->length);
    line->length = 0;
    keep(output, bytes, length);
}

/* Takes what is of one line, and returns its length. */
static size_t take_part(struct output *output, enum output_stream stream, const char *bytes, size_t length,
                        int64_t now_ms) {
    struct output_line *line = &output->lines[stream];
    size_t room = OUTPUT_LINE_BYTES - line->length;
    size_t part = length < room ? length : room;
    const char *newline = memchr(bytes, '\n', part < length ? part + 1 : part);
    if (newline != NULL) {
        part = (size_t)(newline - bytes);
    }
    memcpy(line->text + line->length, bytes, part);
    line->length += part;
    if (newline != NULL) {
        end_line(output, stream, now_ms);
        keep(output, "\n", 1);
    } else if (line->length == OUTPUT_LINE_BYTES) {
        end_line(output, stream, now_ms);
    }
    return part + (newline != NULL);
}

void output_feed(struct output *output, enum output_stream stream, const char *bytes, size_t length,
                 int64_t now_ms) {
    const char *end = bytes + length, *newline = memrchr(bytes, '\n', length);
    const char *rest = newline != NULL ? newline + 1 : bytes;
    while (bytes < rest && !log_wants_none(output, now_ms)) {
        bytes += take_part(output, stream, bytes, (size_t)(rest - bytes), now_ms);
    }
    if (bytes < rest) {
        take_unlogged(output, stream, bytes, (size_t)(rest - bytes));
    }
    while (rest < end) {
        rest += take_part(output, stream, rest, (size_t)(end - rest), now_ms);
    }
}

void output_end(struct output *output, int64_t now_ms) {
    for (int stream = 0; stream < OUTPUT_STREAM_COUNT; stream++) {
        if (output->lines[stream].length > 0) {
            end_line(output, (enum output_stream)stream, now_ms);
            keep(output, "\n", 1);
        }
    }
}

void output_forget(struct output *output) {
    output->written = 0;
}

/* The ring and the unfinished lines in order, raw. */
static size_t unroll(const struct output *output, char raw[]) {
    size_t held = output->written < OUTPUT_TAIL_BYTES ? (size_t)output->written : OUTPUT_TAIL_BYTES;
    size_t start = (size_t)((output->written - held) % OUTPUT_TAIL_BYTES);
    for (size_t i = 0; i < held; i++) {
        raw[i] = output->tail[(start + i) % OUTPUT_TAIL_BYTES];
    }
    if (output->written > OUTPUT_TAIL_BYTES) {
        /* The first line lost its beginning. */
        const char *newline = memchr(raw, '\n', held);
        if (newline != NULL && newline + 1 < raw + held) {
            held -= (size_t)(newline + 1 - raw);
            memmove(raw, newline + 1, held);
        }
    }
    for (int stream = 0; stream < OUTPUT_STREAM_COUNT; stream++) {
        const struct output_line *line = &output->lines[stream];
        if (line->length > 0 && held > 0 && raw[held - 1] != '\n') {
            raw[held++] = '\n';
        }
        memcpy(raw + held, line->text, line->length);
        held += line->length;
    }
    return held;
}

enum { RAW_MAX = OUTPUT_TAIL_BYTES + OUTPUT_STREAM_COUNT * (OUTPUT_LINE_BYTES + 1) };

void output_tail(const struct output *output, struct buf *out) {
    char raw[RAW_MAX];
    size_t length = unroll(output, raw);
    while (length > 0 && (raw[length - 1] == '\n' || raw[length - 1] == '\0')) {
        length--;
    }
    /* An ill-formed byte becomes three; the end is what matters, so the front is cut, at a
     * character. */
    struct buf text;
    buf_init(&text, (size_t)3 * RAW_MAX);
    utf8_sanitize(&text, raw, length, (size_t)3 * RAW_MAX);
    size_t skip = text.length > OUTPUT_TAIL_BYTES ? text.length - OUTPUT_TAIL_BYTES : 0;
    while (skip > 0 && skip < text.length && ((unsigned char)text.data[skip] & 0xC0) == 0x80) {
        skip++;
    }
    buf_append(out, text.data + skip, text.length - skip);
    buf_finish(&text);
}

void output_last_line(const struct output *output, struct buf *out) {
    struct buf tail;
    buf_init(&tail, OUTPUT_TAIL_BYTES);
    output_tail(output, &tail);
    size_t end = tail.length;
    while (end > 0 && (tail.data[end - 1] == '\n' || tail.data[end - 1] == ' ')) {
        end--;
    }
    size_t start = end;
    while (start > 0 && tail.data[start - 1] != '\n') {
        start--;
    }
    buf_append(out, tail.data + start, end - start);
    buf_finish(&tail);
}
