/* pipeline.h - a pipeline's definition as read from YAML: validated, with types from the schema table.
 *
 * The loader reads libyaml's events itself: duplicate and unknown keys are errors, scalars get their type from the key
 * they belong to (never from YAML's guessing), durations and sizes want units, aliases and anchors are refused, one
 * document a file. Limits: file 1 MB, depth 32. All independent mistakes of a file are reported, not just the first.
 * Names of pipelines and stages: [A-Za-z0-9_][A-Za-z0-9_.-]*, at most 63 bytes, always text. In all values but `sql:`,
 * ${NAME} and ${NAME:-default} are replaced from the environment (the default also for an empty variable); $${ is ${.
 * Ownership: everything hangs in the definition's arena. Thread rule: immutable once loaded.
 */
#ifndef CONFIG_PIPELINE_H
#define CONFIG_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/backoff.h"
#include "base/buf.h"
#include "base/error.h"
#include "config/cron.h"

enum { CONFIG_NAME_MAX = 63, CONFIG_STAGES_MAX = 100, CONFIG_SCHEDULES_MAX = 100, CONFIG_WORKERS_MAX = 1000 };

enum stage_kind {
    STAGE_HANDLER, /* a function of a shared object */
    STAGE_COMMAND, /* a program for each task */
    STAGE_PROGRAM, /* `worker:`, a program that stays */
    STAGE_SQL,
};



struct stage_retry {
    int attempts; /* runs at this stage before it is failed; 1 to 10000; default 5 */
    struct backoff backoff; /* exponential, first 10s, max 1h, jitter 10% */
};

/* One statement of an `sql:` stage, with its :names replaced by $1 ... $N. */
struct stage_statement {
    const char *text;
    int param_count;
    const enum sql_name {
        SQL_KEY,
        SQL_PAYLOAD,
        SQL_INPUT,
        SQL_VERSION,
        SQL_UPDATED_AT,
        SQL_INPUTS,
    } *params; /* params[i] is what $(i+1) gets */
};

struct stage_def {
    const char *name;
    int line, column; /* where it stands in the file */
    enum stage_kind kind;
    const char *handler_file, *handler_name; /* STAGE_HANDLER: as written, relative to the file's folder; NAME */
    const char *const *arguments; /* STAGE_COMMAND, STAGE_PROGRAM: as written, NULL-terminated; else NULL */
    const char *stdout_form;      /* STAGE_COMMAND: json (the default), text or ignore */
    const char *const *inputs;    /* names of earlier stages whose outputs it reads, NULL-terminated; NULL: none */
    const char *const *env;       /* NAME or NAME=VALUE, NULL-terminated; NULL: none */
    const char *user;             /* whom its workers run as, or NULL */
    int batch_size;               /* 0: no batches */
    int64_t batch_wait_ms;        /* default 0.2 s */
    int recycle_runs;             /* 0: never */
    int64_t recycle_bytes;        /* 0: never */
    int nice;                     /* of limits: 0 to 19 */
    int statement_count;                     /* STAGE_SQL */
    const struct stage_statement *statements;
    const char *role;     /* STAGE_SQL: `role:` to SET LOCAL ROLE, or NULL */
    int workers;          /* default 1 */
    int64_t timeout_ms;   /* default 60 s; 0: none ("timeout: none") */
    int64_t grace_ms;     /* between TERM and KILL; default 5 s */
    struct stage_retry retry;
    int64_t memory_bytes, cpu_seconds, file_size_bytes, open_files; /* limits:; 0: none */
    const char *with_json; /* `with:` as JSON object text, "{}" when absent; scalars in it are strings unless they are
                              plain true/false/null or decimal numbers (JSON's forms), as in JSON; a key without a
                              value is a mistake */
    bool after_commit;     /* start only when the predecessor's result is committed */
    const char *const *requires; /* labels that a node must have to serve it, NULL-terminated; NULL: none */
    const char *renamed_from;    /* the name that the stage had before, or NULL */
    int max_running;       /* tasks of the stage that run at a time on all nodes; 0: no limit */
    int share_percent;     /* of what it starts, so many at least are those that are ready longest; 0: none */
};

struct source_def {
    bool present;
    const char *path;       /* absolute, ~ and ${NAME:-default} resolved */
    const char *const *match; /* globs, NULL-terminated; default {"*"} */
    bool recursive;         /* default true */
    int64_t every_ms;       /* default 10 s */
};

struct retention_def { /* after its end; 0: for good */
    int64_t done_ms, failed_ms, cancelled_ms;
    int64_t errors_ms; /* of failed runs; default 90 d */
};

enum schedule_action { SCHEDULE_SUBMIT, SCHEDULE_SCAN, SCHEDULE_RERUN };

struct schedule_def {
    const char *name;
    int64_t every_ms;      /* 0: `cron` says when */
    const char *cron_text; /* NULL: `every_ms` does */
    struct cron_masks cron;
    const char *timezone; /* of cron; default UTC. Whether there is such a zone, the database says */
    enum schedule_action action;
    const char *key;          /* SCHEDULE_SUBMIT; may hold {tick} */
    const char *payload_json; /* SCHEDULE_SUBMIT: JSON object text, or NULL */
    int priority;             /* SCHEDULE_SUBMIT */
    bool has_priority;        /* without it a document keeps its own */
    const char *from;         /* SCHEDULE_RERUN: a stage, or NULL */
    const char *overlap;      /* skip, queue or allow; default skip */
    const char *missed;       /* skip, once or all; default once */
    int64_t jitter_ms;        /* default 0 */
    int64_t timeout_ms;       /* SCHEDULE_SUBMIT; 0: none, the default */
    const char *const *requires; /* labels that a node must have to fire it, NULL-terminated; NULL: none */
};

struct pipeline_def {
    struct arena arena;
    const char *name;
    const char *file;   /* as given */
    const char *folder; /* absolute folder of the file: handlers are relative to it */
    const char *text;   /* the file's bytes, as stored with the revision */
    size_t text_length;
    const char *on_update; /* of a task that runs meanwhile: restart (the default), finish or interrupt */
    int max_steps; /* transitions of a task in one version; default 1000 */
    int stage_count;
    const struct stage_def *stages;
    struct source_def source;
    struct retention_def retention;
    int schedule_count;
    const struct schedule_def *schedules;
};

/* One mistake: "FILE:LINE:COL: MESSAGE", the line, a caret, and a hint ("did you mean 'attempts'?"). */
struct config_report {
    struct buf text; /* ready to print, all mistakes in file order */
    int mistakes;
};

/* Reads and validates a file. INVALID: see the report (which is initialised in any case; finish it with
 * config_report_finish). NOT_FOUND / INVALID with err set and an empty report (mistakes is 0) when the file cannot be
 * read at all. When there is a report, err holds its first mistake as one line, for those who print no more. */
enum status pipeline_load(const char *path, struct pipeline_def **def, struct config_report *report,
                          struct error *err) MUST_CHECK;
/* The same for text kept in the database (a stored revision); `path` names it in errors and gives the folder. */
enum status pipeline_parse(const char *path, const char *text, size_t length, struct pipeline_def **def,
                           struct config_report *report, struct error *err) MUST_CHECK;
void pipeline_free(struct pipeline_def *def);
/* The index of the stage of that name; -1: there is none. NULL has no stage. */
int pipeline_find_stage(const struct pipeline_def *def, const char *name);

/* Whether the text is a label of a node: letters, digits, '_', '-', '.', '='; 1 to 63 bytes. */
bool config_is_label(const char *text);
void config_report_finish(struct config_report *report);

/* The JSON Schema (draft 2020-12) of a pipeline file, printed from the same table the loader uses. */
void config_print_schema(struct buf *out);

/* Replaces :key, :payload, :input, :inputs, :version, :updated_at by $1..$N (each with its cast; a name that repeats keeps its
 * number), leaving quoted text, comments, dollar quotes, :: and := alone. INVALID with err's line and column in `text`
 * for an unknown :name, $N, a second statement, no statement, and quotes that are not closed. Memory from `arena`. */
enum status sql_bind_names(struct arena *arena, const char *text, struct stage_statement *out, struct error *err)
    MUST_CHECK;

#endif
