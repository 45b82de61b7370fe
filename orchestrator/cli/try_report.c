/* try_report.c - what pgstage try prints: for people, or as one JSON document. */
#include <string.h>

#include "base/units.h"
#include "cli/json_pretty.h"
#include "cli/json_write.h"
#include "cli/output.h"
#include "cli/try.h"

enum { LINE_WIDTH = 100, OUTPUT_SHOWN = 4000, SQL_SHOWN = 2000, PARAMETER_WIDTH = 200, STATEMENTS_SHOWN = 50 };

static bool is_sql(const struct trial *trial) {
    return trial->stage->kind == STAGE_SQL;
}

static const char *word_of(enum trial_next next) {
    static const char *const words[] = {
        [NEXT_NOWHERE] = NULL,      [NEXT_STAGE] = "stage", [NEXT_ROUTE] = "route", [NEXT_DONE] = "done",
        [NEXT_FINISH] = "finish",   [NEXT_SNOOZE] = "snooze", [NEXT_RETRY] = "retry", [NEXT_AGAIN] = "again",
        [NEXT_FAILED] = "failed",
    };
    return words[next];
}

/* ---- for people --------------------------------------------------------------------------------------------------- */

static void add_label(struct buf *out, const char *label) {
    buf_append_format(out, "%-10s ", label);
}

static void add_line(struct buf *out, const char *label, const char *text) {
    if (text != NULL) {
        add_label(out, label);
        text_show(out, text, 0);
        buf_append_char(out, '\n');
    }
}

/* Several lines, each set in. */
static void add_block(struct buf *out, const char *before, const char *text) {
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        struct buf line;
        buf_init(&line, SIZE_MAX);
        buf_append(&line, text, length);
        buf_append_string(out, before);
        text_show(out, line.data, 0);
        buf_append_char(out, '\n');
        buf_finish(&line);
        text += length + (text[length] == '\n');
    }
}

static void add_task(struct buf *out, const struct trial *trial) {
    buf_append_format(out, "%-10s %s of pipeline %s\n", "stage", trial->stage->name, trial->pipeline->name);
    add_label(out, "task");
    text_show(out, trial->task.key.data, 0);
    buf_append_format(out, ", version %lld, attempt %d of %d\n", (long long)trial->task.version, trial->task.attempt,
                      trial->stage->retry.attempts);
}

static void add_outcome(struct buf *out, const struct trial *trial, const struct trial_verdict *verdict) {
    add_label(out, "outcome");
    buf_append_string(out, verdict->outcome);
    if (is_sql(trial) || trial->run.started) {
        buf_append_string(out, " after ");
        text_span(out, (double)trial->run_us / 1000);
    }
    buf_append_char(out, '\n');
    add_line(out, "kind", verdict->kind);
    add_line(out, "reason", verdict->reason);
    if (verdict->last_output != NULL) {
        buf_append_string(out, "last lines\n");
        add_block(out, "    | ", verdict->last_output);
    }
}

static void add_next(struct buf *out, const struct trial *trial, const struct trial_verdict *verdict) {
    char span[48];
    const char *stage = verdict->next_stage;
    units_format_duration(verdict->delay_ms, span, sizeof span);
    if (verdict->next == NEXT_NOWHERE) {
        return;
    }
    add_label(out, "next");
    switch (verdict->next) {
    case NEXT_NOWHERE:
        break;
    case NEXT_STAGE:
        buf_append_format(out, "stage %s", stage);
        break;
    case NEXT_ROUTE:
        buf_append_format(out, "stage %s, where it is routed to", stage);
        break;
    case NEXT_DONE:
        buf_append_string(out, "done: it is the last stage");
        break;
    case NEXT_FINISH:
        buf_append_string(out, "done: the stage finishes the task");
        break;
    case NEXT_SNOOZE:
        buf_append_format(out, "snoozed: this stage again in %s, as the same attempt", span);
        break;
    case NEXT_RETRY:
        buf_append_format(out, "this stage again in about %s, as attempt %d of %d", span, trial->task.attempt + 1,
                          trial->stage->retry.attempts);
        break;
    case NEXT_AGAIN:
        buf_append_string(out, "this stage again at once; no attempt is used, but after three such ends the task runs alone, "
                               "and fails if that ends so as well");
        break;
    case NEXT_FAILED:
        buf_append_string(out, "failed: a person has to look");
        break;
    }
    buf_append_char(out, '\n');
}

/* What came with a snooze, or with statements or a route that failed, does not count. */
static void add_output(struct buf *out, const struct trial *trial, const struct trial_verdict *verdict) {
    const struct pool_text *output = &trial->run.outcome.output;
    bool counts = strcmp(verdict->outcome, "ok") == 0 && verdict->next != NEXT_SNOOZE;
    const char *label = counts ? "output" : "discarded";
    struct buf pretty;
    if (is_sql(trial) || trial->run.outcome.end != POOL_OK) {
        return;
    }
    if (output->data == NULL) {
        add_line(out, "output", counts ? "none" : NULL);
        return;
    }
    buf_init(&pretty, SIZE_MAX);
    bool whole = json_pretty(&pretty, output->data, output->length, LINE_WIDTH, OUTPUT_SHOWN);
    if (strchr(pretty.data, '\n') == NULL && whole) {
        add_line(out, label, pretty.data);
    } else {
        buf_append_format(out, "%s\n", label);
        add_block(out, "    ", pretty.data);
    }
    if (!whole) {
        buf_append_string(out, "    … of ");
        text_size(out, (int64_t)output->length);
        buf_append_string(out, "; --json prints all of it\n");
    }
    buf_finish(&pretty);
}

static void add_statement(struct buf *out, const struct trial *trial, int index) {
    const struct trial_statement *one = &trial->statements[index];
    struct buf cut;
    buf_init(&cut, SIZE_MAX);
    buf_append(&cut, one->sql.data, one->sql.length < SQL_SHOWN ? one->sql.length : SQL_SHOWN);
    buf_append_string(&cut, one->sql.length > SQL_SHOWN ? " …" : "");
    buf_append_format(out, "  statement %d\n", index + 1);
    add_block(out, "    ", cut.data);
    buf_finish(&cut);
    for (int p = 0; p < one->param_count; p++) {
        buf_append_format(out, "    $%d = ", p + 1);
        const char *value = one->params[p].data;
        bool looks_null = value != NULL && strcmp(value, "null") == 0; /* of text, as of jsonb */
        text_show(out, value == NULL ? "null" : looks_null ? "'null'" : value, PARAMETER_WIDTH);
        buf_append_char(out, '\n');
    }
    if (index + 1 == trial->failed_statement) {
        add_block(out, "    ! ", trial->sql_error.text);
    } else if (one->ran) {
        buf_append_format(out, "    %lld row%s\n", (long long)one->rows, text_plural(one->rows));
    }
}

static void add_statements(struct buf *out, const struct trial *trial) {
    int count = trial->statement_count, shown = count < STATEMENTS_SHOWN ? count : STATEMENTS_SHOWN;
    if (count == 0) {
        return;
    }
    add_label(out, "sql");
    buf_append_format(out, "%d statement%s, %s\n", count, text_plural(count),
                      trial->connected ? "rolled back" : "not run: --sql runs them in a transaction that is rolled back");
    for (int i = 0; i < count; i++) {
        if (i < shown || i + 1 == trial->failed_statement) {
            add_statement(out, trial, i);
        }
    }
    if (shown < count) {
        buf_append_format(out, "  … %d more; --json prints all of them\n", count - shown);
    }
}

void trial_write_text(const struct trial *trial, const struct trial_verdict *verdict, struct buf *out) {
    add_task(out, trial);
    add_outcome(out, trial, verdict);
    add_output(out, trial, verdict);
    add_next(out, trial, verdict);
    add_statements(out, trial);
}

/* ---- as JSON ------------------------------------------------------------------------------------------------------ */

static void write_next(struct buf *out, const struct trial *trial, const struct trial_verdict *verdict) {
    if (verdict->next == NEXT_NOWHERE) {
        json_add_raw(out, "next", NULL);
        return;
    }
    json_begin(out, "next", '{');
    json_add_text(out, "action", word_of(verdict->next));
    json_add_text(out, "stage", verdict->next_stage);
    if (verdict->next == NEXT_RETRY || verdict->next == NEXT_SNOOZE) {
        json_add_int(out, "delay_ms", verdict->delay_ms);
    }
    if (verdict->next == NEXT_RETRY) {
        json_add_int(out, "attempt", trial->task.attempt + 1);
    }
    json_end(out, '}');
}

static void write_statements(struct buf *out, const struct trial *trial) {
    json_begin(out, "statements", '[');
    for (int i = 0; i < trial->statement_count; i++) {
        const struct trial_statement *one = &trial->statements[i];
        json_begin(out, NULL, '{');
        json_add_text(out, "sql", one->sql.data);
        json_begin(out, "params", '[');
        for (int p = 0; p < one->param_count; p++) {
            json_add_text(out, NULL, one->params[p].data);
        }
        json_end(out, ']');
        if (one->ran) {
            json_add_int(out, "rows", one->rows);
        } else {
            json_add_raw(out, "rows", NULL);
        }
        json_add_text(out, "error", i + 1 == trial->failed_statement ? trial->sql_error.text : NULL);
        json_end(out, '}');
    }
    json_end(out, ']');
}

void trial_write_json(const struct trial *trial, const struct trial_verdict *verdict, struct buf *out) {
    json_begin(out, NULL, '{');
    json_add_text(out, "pipeline", trial->pipeline->name);
    json_add_text(out, "stage", trial->stage->name);
    json_add_text(out, "key", trial->task.key.data);
    json_add_int(out, "version", trial->task.version);
    json_add_int(out, "attempt", trial->task.attempt);
    json_add_int(out, "attempts", trial->stage->retry.attempts);
    json_add_text(out, "outcome", verdict->outcome);
    json_add_text(out, "kind", verdict->kind);
    json_add_text(out, "reason", verdict->reason);
    json_add_text(out, "last_output", verdict->last_output);
    json_add_int(out, "run_us", trial->run_us);
    json_add_raw(out, "output", is_sql(trial) ? NULL : trial->run.outcome.output.data);
    write_next(out, trial, verdict);
    json_add_bool(out, "rolled_back", trial->connected && trial->statement_count > 0);
    write_statements(out, trial);
    json_end(out, '}');
    buf_append_char(out, '\n');
}
