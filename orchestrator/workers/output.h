/* output.h - what one worker writes to its stdout and stderr: each line goes to the log, the last
 * few kilobytes are kept for reports of failed runs.
 *
 * Memory is fixed, however much a worker writes; and once the log takes no more, so is what a read costs, but for a look
 * for newlines. Used by worker.c. When: loop thread only.
 */
#ifndef WORKERS_OUTPUT_H
#define WORKERS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"

enum {
    OUTPUT_TAIL_BYTES = 4096,
    OUTPUT_LINE_BYTES = 1000, /* longer lines are logged in parts */
    OUTPUT_LINES_PER_MINUTE = 120,
};

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_STREAM_COUNT };

/* Whose lines they are; borrowed, outlives the output. */
struct output_source {
    const char *pipeline, *stage;
    int worker;
    struct log_limit *limit; /* shared by the workers of a stage */
};

/* An unfinished line. */
struct output_line {
    char text[OUTPUT_LINE_BYTES];
    size_t length;
};

struct output {
    struct output_source source;
    char tail[OUTPUT_TAIL_BYTES]; /* a ring of whole lines */
    uint64_t written;             /* bytes that ever went into the ring */
    struct output_line lines[OUTPUT_STREAM_COUNT];
};

void output_init(struct output *output, const struct output_source *source);
void output_feed(struct output *output, enum output_stream stream, const char *bytes, size_t length,
                 int64_t now_ms);

/* Ends unfinished lines: the process is gone. */
void output_end(struct output *output, int64_t now_ms);

/* Forgets the whole lines that were kept: a run ended well, and the next one's report shall not
 * show them. */
void output_forget(struct output *output);

/* Appends the last lines as storable text, at most OUTPUT_TAIL_BYTES; nothing when there are none.
 */
void output_tail(const struct output *output, struct buf *out);

/* The last line that is not blank, as storable text; "" when there is none. */
void output_last_line(const struct output *output, struct buf *out);

/* Whether the log takes one more line now, as output_log asks; if not, the line counts as left out. What makes its fields
 * costs more than that, and a handler may write a million lines a second. */
bool output_log_wants(struct log_limit *limit, int64_t now_ms);

/* One line of foreign text into the log, after output_log_wants said yes; what was left out before is told with it.
 * `fields` is as for log_event, without the text; `more` ("" or " key=value") stands
 * behind the text. */
void output_log(struct log_limit *limit, const char *event, const char *fields, const char *text,
                size_t length, const char *more);

#endif
