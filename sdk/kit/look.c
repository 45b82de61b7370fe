/* look.c - what the last run left. */
#include <stdlib.h>
#include <string.h>

#include "kit.h"

static struct kit_task *ended(const pgstage_test *test) {
    struct kit_task *task = kit_selected(test);
    if (!task->has_ended) {
        kit_misuse("there is nothing to look at: the task has not run");
    }
    return task;
}

pgstage_result pgstage_test_result(const pgstage_test *test) {
    return ended(test)->result;
}

const char *pgstage_test_message(const pgstage_test *test) {
    if (test->start_message != NULL) {
        return test->start_message;
    }
    const struct kit_task *task = kit_selected(test);
    if (!task->has_ended && test->worker != NULL) {
        return ""; /* it was only started */
    }
    task = ended(test);
    if (task->result == PGSTAGE_OK) {
        return "";
    }
    return task->returned[0] != '\0' ? task->returned : pgstage_host_message(task->task).data;
}

/* ---- what counts only when the task went well ---- */

static struct pgstage_host_flow flow_of(const struct kit_task *task) {
    return task->result == PGSTAGE_OK ? pgstage_host_flow(task->task)
                                      : (struct pgstage_host_flow){.kind = PGSTAGE_HOST_GO_ON};
}

static bool counts(const struct kit_task *task) {
    return task->result == PGSTAGE_OK && flow_of(task).kind != PGSTAGE_HOST_SNOOZE;
}

const char *pgstage_test_output(const pgstage_test *test, size_t *length) {
    const struct kit_task *task = ended(test);
    struct pgstage_host_text output = {NULL, 0};
    if (counts(task)) {
        output = pgstage_host_output(task->task);
    }
    if (length != NULL) {
        *length = output.length;
    }
    return output.data;
}

const json_t *pgstage_test_output_json(pgstage_test *test) {
    struct kit_task *task = ended(test);
    size_t length;
    const char *text = pgstage_test_output(test, &length);
    if (text != NULL && task->output_json == NULL) {
        json_error_t error;
        task->output_json = json_loadb(text, length, JSON_DECODE_ANY, &error);
        if (task->output_json == NULL) {
            kit_misuse("jansson cannot hold the output, look at its text: %s", error.text);
        }
    }
    return task->output_json;
}

static const struct pgstage_host_statement *statements_of(const pgstage_test *test, int *count) {
    const struct kit_task *task = ended(test);
    size_t found = 0;
    const struct pgstage_host_statement *statements = NULL;
    if (counts(task)) {
        statements = pgstage_host_statements(task->task, &found);
    }
    *count = (int)found;
    return statements;
}

static const struct pgstage_host_statement *statement_at(const pgstage_test *test, int index) {
    int count;
    const struct pgstage_host_statement *statements = statements_of(test, &count);
    if (index < 0 || index >= count) {
        kit_misuse("there is no statement %d: there are %d, from 0 on", index, count);
    }
    return &statements[index];
}

int pgstage_test_sql_count(const pgstage_test *test) {
    int count;
    statements_of(test, &count);
    return count;
}

const char *pgstage_test_sql(const pgstage_test *test, int statement) {
    return statement_at(test, statement)->sql.data;
}

int pgstage_test_parameter_count(const pgstage_test *test, int statement) {
    return statement_at(test, statement)->parameter_count;
}

const char *pgstage_test_parameter(const pgstage_test *test, int statement, int parameter) {
    const struct pgstage_host_statement *found = statement_at(test, statement);
    if (parameter < 0 || parameter >= found->parameter_count) {
        kit_misuse("statement %d has no parameter %d: it has %d, from 0 on", statement, parameter, found->parameter_count);
    }
    return found->parameters[parameter].data;
}

const char *pgstage_test_route(const pgstage_test *test) {
    return flow_of(ended(test)).target.data;
}

bool pgstage_test_finished(const pgstage_test *test) {
    return flow_of(ended(test)).kind == PGSTAGE_HOST_FINISH;
}

int64_t pgstage_test_snooze_ms(const pgstage_test *test) {
    struct pgstage_host_flow flow = flow_of(ended(test));
    return flow.kind == PGSTAGE_HOST_SNOOZE ? flow.delay_ms : -1;
}

/* ---- what was said ---- */

int pgstage_test_log_count(const pgstage_test *test) {
    return ended(test)->line_count;
}

static struct kit_line *line_at(const pgstage_test *test, int line) {
    const struct kit_task *task = ended(test);
    if (line < 0 || line >= task->line_count) {
        kit_misuse("there is no log line %d: there are %d, from 0 on", line, task->line_count);
    }
    return &task->lines[line];
}

const char *pgstage_test_log(const pgstage_test *test, int line) {
    return line_at(test, line)->text;
}

const json_t *pgstage_test_log_fields(const pgstage_test *test, int line) {
    struct kit_line *found = line_at(test, line);
    if (found->fields != NULL && found->parsed_fields == NULL) {
        found->parsed_fields = json_loads(found->fields, JSON_ALLOW_NUL, NULL);
    }
    return found->parsed_fields;
}

int pgstage_test_progress_count(const pgstage_test *test) {
    return ended(test)->report_count;
}

void pgstage_test_progress(const pgstage_test *test, int report, double *fraction, const char **text) {
    const struct kit_task *task = ended(test);
    if (report < 0 || report >= task->report_count) {
        kit_misuse("there is no progress %d: there are %d reports, from 0 on", report, task->report_count);
    }
    if (fraction != NULL) {
        *fraction = task->reports[report].fraction;
    }
    if (text != NULL) {
        *text = task->reports[report].text;
    }
}

int pgstage_test_call_count(const pgstage_test *test) {
    return atomic_load(&test->calls);
}
