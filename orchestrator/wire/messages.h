/* messages.h - what a node and its worker processes say to each other, and the only place that knows the layout.
 *
 * Frame: u32 body length (at most WIRE_FRAME_MAX), u16 type, u16 flags (0), body; little-endian throughout. Strings and
 * blobs are u32 length + bytes + a NUL that is not counted. Decoding ends with "no bytes left over"; a malformed frame
 * costs the worker that sent it, never the node.
 *
 * node -> worker: HELLO once, then RUN, TELL, BEAT, STOP. worker -> node: READY or REFUSED once, then RESULT in the order
 * of RUN (those of a batch in any order), and LOG, NOTE, PROGRESS, FULL, LAST at any time.
 * Ownership: decoded strings and blobs are borrowed from the frame. Thread rule: none (pure functions).
 */
#ifndef WIRE_MESSAGES_H
#define WIRE_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* 1.1: a RESULT may say where the task goes. A node of 1.0 takes no such RESULT. 1.2: engines, batches, inputs, progress that is
 * kept, kinds of failure, NOTE, FULL, LAST. What 1.2 added to a message stands at its end: a node of 1.1 leaves it out, and is to get
 * nothing that it does not know. */
enum { WIRE_MAJOR = 1, WIRE_MINOR = 2, WIRE_MINOR_FLOW = 1, WIRE_MINOR_ENGINES = 2 };
#define WIRE_FRAME_MAX ((uint32_t)400 * 1024 * 1024)
enum { WIRE_HEADER_BYTES = 8 };
/* Of one RESULT; the second counts the parameters of all its statements. */
enum { WIRE_STATEMENTS_MAX = 100000, WIRE_PARAMETERS_MAX = 1000000 };
enum { WIRE_ARGUMENTS_MAX = 1000, WIRE_BATCH_MAX = 10000 };

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_RUN = 2,
    WIRE_TELL = 3,
    WIRE_BEAT = 4,
    WIRE_STOP = 5, /* no body: finish what is in the pipe, run fini, exit 0 */
    WIRE_READY = 16,
    WIRE_REFUSED = 17,
    WIRE_RESULT = 18,
    WIRE_LOG = 19,
    WIRE_PROGRESS = 20,
    WIRE_FULL = 21, /* no body: the worker has grown beyond what its stage allows; stop it when its pipe is empty */
    WIRE_NOTE = 22, /* a LOG with fields */
    WIRE_LAST = 23, /* no body: it begins nothing more, and ends by itself when it has answered what it has begun */
};

/* `data` may be NULL when absent (only where the field says so). What was decoded has a NUL at data[length], and may have
 * others before it; what is encoded needs none. */
struct wire_bytes {
    const char *data;
    uint32_t length;
};

/* How a worker runs a task. */
enum wire_engine {
    WIRE_HANDLER, /* calls a function of a shared object */
    WIRE_COMMAND, /* starts a program for each task */
    WIRE_PROGRAM, /* a program that stays, and speaks JSON lines */
};

/* What a WIRE_COMMAND's standard output is. */
enum wire_stdout { WIRE_STDOUT_JSON, WIRE_STDOUT_TEXT, WIRE_STDOUT_IGNORE };

struct wire_hello {
    uint16_t major, minor;
    int64_t lease_end_ms; /* CLOCK_BOOTTIME; the worker ends its whole process group at that time; INT64_MAX: none */
    struct wire_bytes pipeline, stage;
    struct wire_bytes handler_file, handler_name; /* absolute path of the .so; name in PGSTAGE_HANDLER(name) */
    struct wire_bytes config;                     /* JSON object */
    int64_t address_space_bytes, cpu_seconds, file_size_bytes, open_files; /* 0: no limit */

    /* 1.2 */
    enum wire_engine engine;
    enum wire_stdout stdout_form;
    uint32_t batch_size; /* runs that the handler may get at once; 0: it takes them one by one */
    int32_t nice;        /* -20 to 19, added to the node's own */
    int64_t full_bytes;  /* resident memory from which on it sends FULL; 0: never */
    struct wire_bytes folder; /* absolute, of the pipeline file */
    struct wire_bytes work;   /* absolute, the worker's own folder; absent: none */
    struct wire_bytes user;   /* to become before anything of the user's is loaded; absent: nobody else */
    uint32_t argument_count;  /* of COMMAND and PROGRAM: the program and its arguments; else 0 */
    const struct wire_bytes *arguments; /* decoded into memory that wire_hello_finish frees */
};

struct wire_run {
    uint64_t run;         /* names this run in TELL, RESULT and PROGRESS */
    int64_t lease_end_ms; /* as in HELLO */
    int64_t timeout_ms;   /* from the moment the handler starts; 0: none */
    int64_t version;
    int32_t attempt;
    struct wire_bytes key, payload, input; /* JSON texts; absent: JSON null */

    /* 1.2 */
    struct wire_bytes inputs; /* JSON object: outputs of earlier stages by name; absent: the stage asks for none */
    bool has_progress;        /* what an earlier run of this stage in this version reported last */
    double progress;
    struct wire_bytes progress_text;
    uint32_t batch_left; /* so many of the RUNs that follow belong to the same batch */
};

struct wire_tell {
    uint64_t run;
    bool cancelled, superseded;
};

struct wire_beat {
    int64_t lease_end_ms;
};

struct wire_ready {
    uint16_t major, minor;
    uint32_t handler_abi;
};

/* How the reason of a REFUSED ends when it is not the program's own: what it wrote last says more. */
#define WIRE_ENDED_EARLY "before it was ready"

struct wire_refused {
    struct wire_bytes reason;
};

enum wire_outcome {
    WIRE_OK = 0,
    WIRE_RETRY = 1,
    WIRE_FAIL = 2,
    WIRE_CRASH = 3, /* 1.2: the program that ran the task died of it; `kind` says how */
    WIRE_LOST = 4,  /* 1.2: the program that ran the task was killed by somebody else */
    WIRE_SPLIT = 5, /* 1.2: the batch failed as a whole: nobody knows which of its runs is at fault */
};

/* Where a task goes after WIRE_OK. Anything but GO_ON is written as an outcome of its own, with what belongs to it behind
 * the statements: a RESULT of a task that just goes on is as it was in 1.0. So are CRASH, LOST and SPLIT, with `kind`. */
enum wire_flow { WIRE_GO_ON = 0, WIRE_ROUTE = 1, WIRE_FINISH = 2, WIRE_SNOOZE = 3 };

struct wire_statement {
    struct wire_bytes sql;
    uint32_t parameter_count;
    const struct wire_bytes *parameters; /* data NULL: SQL NULL */
};

struct wire_result {
    uint64_t run;
    enum wire_outcome outcome;
    int64_t run_us; /* time in the handler */
    struct wire_bytes message; /* absent when OK */
    struct wire_bytes output;  /* JSON text; absent: none */
    uint32_t statement_count;
    const struct wire_statement *statements; /* decoded into memory that wire_result_finish frees */
    enum wire_flow flow;
    struct wire_bytes target; /* WIRE_ROUTE: name of the stage; else absent */
    int64_t delay_ms;         /* WIRE_SNOOZE */
    struct wire_bytes kind;   /* CRASH, LOST: for `failure`, "crash", "memory", "killed" ...; SPLIT: for the log,
                               * absent when the handler said so; else absent */
};

struct wire_log {
    uint64_t run; /* 0: no task */
    struct wire_bytes text;
    struct wire_bytes fields; /* 1.2: JSON object; absent: none. It decides whether this is a LOG or a NOTE */
};

struct wire_progress {
    uint64_t run;
    double fraction;
    struct wire_bytes text;
};

/* Each appends one whole frame to `out`; INVALID when it would exceed WIRE_FRAME_MAX or what `out` may hold (nothing is
 * appended). */
enum status wire_put_hello(struct buf *out, const struct wire_hello *m, struct error *err) MUST_CHECK;
enum status wire_put_run(struct buf *out, const struct wire_run *m, struct error *err) MUST_CHECK;
enum status wire_put_tell(struct buf *out, const struct wire_tell *m, struct error *err) MUST_CHECK;
enum status wire_put_beat(struct buf *out, const struct wire_beat *m, struct error *err) MUST_CHECK;
enum status wire_put_stop(struct buf *out, struct error *err) MUST_CHECK;
enum status wire_put_ready(struct buf *out, const struct wire_ready *m, struct error *err) MUST_CHECK;
enum status wire_put_refused(struct buf *out, const struct wire_refused *m, struct error *err) MUST_CHECK;
enum status wire_put_result(struct buf *out, const struct wire_result *m, struct error *err) MUST_CHECK;
enum status wire_put_log(struct buf *out, const struct wire_log *m, struct error *err) MUST_CHECK;
enum status wire_put_progress(struct buf *out, const struct wire_progress *m, struct error *err) MUST_CHECK;
enum status wire_put_full(struct buf *out, struct error *err) MUST_CHECK;
enum status wire_put_last(struct buf *out, struct error *err) MUST_CHECK;

/* A frame at the front of `bytes`: OK (type, body and the frame's whole length are set), AGAIN (more bytes are needed:
 * frame_length in all, or 0 while even the header is not whole; `err` is left alone), PROTOCOL (length over the limit,
 * flags not 0, unknown type). */
struct wire_frame {
    enum wire_type type;
    const char *body;
    uint32_t body_length;
    size_t frame_length;
};
enum status wire_next_frame(const char *bytes, size_t length, struct wire_frame *frame, struct error *err)
    MUST_CHECK;

/* Each wants a frame of its type; PROTOCOL when the body is malformed, has bytes left over or holds a value out of its
 * range. A HELLO or READY of another major version is PROTOCOL too, with a sentence for the reader in `err`; major and
 * minor are set then. */
enum status wire_get_hello(const struct wire_frame *f, struct wire_hello *m, struct error *err) MUST_CHECK;
/* `minor`: of the HELLO that came before it. */
enum status wire_get_run(const struct wire_frame *f, uint16_t minor, struct wire_run *m, struct error *err) MUST_CHECK;
enum status wire_get_tell(const struct wire_frame *f, struct wire_tell *m, struct error *err) MUST_CHECK;
enum status wire_get_beat(const struct wire_frame *f, struct wire_beat *m, struct error *err) MUST_CHECK;
enum status wire_get_stop(const struct wire_frame *f, struct error *err) MUST_CHECK;
enum status wire_get_ready(const struct wire_frame *f, struct wire_ready *m, struct error *err) MUST_CHECK;
enum status wire_get_refused(const struct wire_frame *f, struct wire_refused *m, struct error *err) MUST_CHECK;
enum status wire_get_result(const struct wire_frame *f, struct wire_result *m, struct error *err) MUST_CHECK;
enum status wire_get_log(const struct wire_frame *f, struct wire_log *m, struct error *err) MUST_CHECK;
enum status wire_get_progress(const struct wire_frame *f, struct wire_progress *m, struct error *err) MUST_CHECK;
enum status wire_get_full(const struct wire_frame *f, struct error *err) MUST_CHECK;
enum status wire_get_last(const struct wire_frame *f, struct error *err) MUST_CHECK;
/* What wire_get_hello allocated; a zeroed struct is a no-op. */
void wire_hello_finish(struct wire_hello *m);
void wire_result_finish(struct wire_result *m); /* what wire_get_result allocated; a zeroed struct is a no-op */

#endif
