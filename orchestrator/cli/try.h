/* try.h - the parts of pgstage try: what the stage is given, its run, its statements on a database, what is said of it.
 *
 * Thread rule: the main thread.
 */
#ifndef CLI_TRY_H
#define CLI_TRY_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/definitions.h"
#include "node/try.h"

struct trial_statement {
    struct pool_text sql;
    int param_count;
    const struct pool_text *params; /* data NULL: SQL NULL */
    bool ran;
    int64_t rows; /* that it gave or touched */
};

/* Where the task would go. */
enum trial_next {
    NEXT_NOWHERE, /* nothing is known: it was interrupted, or did not begin */
    NEXT_STAGE,   /* the one behind */
    NEXT_ROUTE,   /* the one it chose */
    NEXT_DONE,    /* there is none behind */
    NEXT_FINISH,  /* it chose so */
    NEXT_SNOOZE,
    NEXT_RETRY,
    NEXT_AGAIN,   /* the same stage at once; the run is not the document's fault alone, and uses no attempt */
    NEXT_FAILED,
};

struct trial_verdict {
    const char *outcome; /* ok, retry, fail, crash, timeout, lost, interrupted or refused */
    const char *kind;    /* as in the table of failures; NULL when it is ok */
    const char *reason;  /* NULL when it is ok */
    const char *last_output; /* NULL: none */
    enum trial_next next;
    const char *next_stage; /* NULL: none */
    int64_t delay_ms;
};

struct trial {
    const struct args *args;
    struct definition definition; /* owned */
    const struct pipeline_def *pipeline;
    const struct stage_def *stage;
    int position;       /* of the stage */
    struct arena arena; /* of all texts here */
    char *payload, *input, *inputs; /* what the options say; owned; NULL: nothing */

    struct session session;
    bool connected;
    struct pool_task task;
    const char *updated_at;
    int crashes, rescues; /* of the task */

    struct try_result run; /* not of an sql stage */
    int64_t run_us;
    int statement_count;
    struct trial_statement *statements;
    int failed_statement; /* from 1; 0: none. The role of the stage and what is checked at commit have no number */
    bool sql_failed;
    struct error sql_error;
};

/* try_task.c: reads the options and, when connected, the task that --key names. EXIT_OK, or what is wrong was printed. */
enum exit_status trial_read_options(struct trial *trial);
enum exit_status trial_read_task(struct trial *trial);

/* try_sql.c: the statements of the stage, or those that the run queued; then, when connected, runs them in a transaction that
 * is rolled back. What they do wrong is in the trial; a database that goes away is printed. */
void trial_list_statements(struct trial *trial);
enum exit_status trial_run_statements(struct trial *trial);

/* try_verdict.c: what a node would make of it. Texts from the trial's arena. */
struct trial_verdict trial_judge(struct trial *trial);

/* try_report.c */
void trial_write_text(const struct trial *trial, const struct trial_verdict *verdict, struct buf *out);
void trial_write_json(const struct trial *trial, const struct trial_verdict *verdict, struct buf *out);

#endif
