/* output.c - the stage's output, and the statements for the completing transaction. Both are
 * checked here, where the handler that made them can still be told: in the database they would fail
 * the transaction of other documents, too. */
#include <string.h>

#include "memory.h"
#include "task.h"
#include "text.h"

enum {
    PARAMETERS_OF_ONE_MAX = 65535
}; /* the count is an unsigned 16-bit number in PostgreSQL's protocol */

static int check_output(pgstage_task *task, const char *json, size_t length) {
    if (length > PGSTAGE_OUTPUT_MAX) {
        return task_refuse(task, PGSTAGE_E_LIMIT,
                           "the output has %zu bytes, above the limit of %zu", length,
                           PGSTAGE_OUTPUT_MAX);
    }
    struct json_fault fault;
    if (!json_is_storable(json, length, &fault)) {
        return task_refuse(task, fault.is_limit ? PGSTAGE_E_LIMIT : PGSTAGE_E_INVALID,
                           "the output is not JSON that can be stored: byte %zu: %s",
                           fault.offset + 1, fault.what);
    }
    return 0;
}

/* Ownership: takes `json`, which sdk_allocate() made. */
static void keep_output(pgstage_task *task, char *json, size_t length) {
    sdk_release((void *)task->output.data);
    task->output = (struct pgstage_host_text){json, length};
}

static char *allocate_output(pgstage_task *task, size_t length) {
    char *copy = sdk_allocate(length + 1);
    if (copy == NULL) {
        task_refuse(task, PGSTAGE_E_MEMORY, "no memory for an output of %zu bytes", length);
        return NULL;
    }
    copy[length] = '\0';
    return copy;
}

int pgstage_set_output(pgstage_task *task, const char *json, size_t length) {
    task_called(task, __func__);
    if (json == NULL) {
        return task_refuse(task, PGSTAGE_E_INVALID, "the output is NULL");
    }
    int code = check_output(task, json, length);
    if (code != 0) {
        return code;
    }
    char *copy = allocate_output(task, length);
    if (copy == NULL) {
        return PGSTAGE_E_MEMORY;
    }
    memcpy(copy, json, length);
    keep_output(task, copy, length);
    return 0;
}

static int write_output(pgstage_task *task, const json_t *value) {
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT;
    if (value == NULL) {
        return task_refuse(task, PGSTAGE_E_INVALID,
                           "the output is NULL (did json_pack or json_object fail?)");
    }
    size_t length = json_dumpb(value, NULL, 0, flags);
    if (length == 0) {
        return task_refuse(task, PGSTAGE_E_INVALID,
                           "the output cannot be written as JSON (does it contain itself, or is memory short?)");
    }
    if (length > PGSTAGE_OUTPUT_MAX) {
        return check_output(task, NULL, length);
    }
    char *text = allocate_output(task, length);
    if (text == NULL) {
        return PGSTAGE_E_MEMORY;
    }
    json_dumpb(value, text, length, flags);
    int code = check_output(task, text, length);
    if (code != 0) {
        sdk_release(text);
        return code;
    }
    keep_output(task, text, length);
    return 0;
}

pgstage_result pgstage_output(pgstage_task *task, json_t *value) {
    task_called(task, __func__);
    int code = write_output(task, value);
    json_decref(value);
    return code == 0 ? PGSTAGE_OK : task_fail(task, "%s", task->refusal);
}

struct pgstage_host_text pgstage_host_output(const pgstage_task *task) {
    return task->output;
}

/* ---- statements ---- */

static int check_sql(pgstage_task *task, const char *sql, int parameter_count,
                     const char *const *parameters) {
    size_t number = task->statement_count + 1;
    if (sql == NULL || sql[0] == '\0') {
        return task_refuse(task, PGSTAGE_E_INVALID, "SQL statement %zu is empty", number);
    }
    if (parameter_count < 0 || parameter_count > PARAMETERS_OF_ONE_MAX ||
        (parameter_count > 0 && parameters == NULL)) {
        return task_refuse(task, PGSTAGE_E_INVALID, "SQL statement %zu: %d is no parameter count",
                           number, parameter_count);
    }
    if (!text_is_utf8(sql, strlen(sql))) {
        return task_refuse(task, PGSTAGE_E_INVALID, "SQL statement %zu is not UTF-8", number);
    }
    for (int i = 0; i < parameter_count; i++) {
        if (parameters[i] != NULL && !text_is_utf8(parameters[i], strlen(parameters[i]))) {
            return task_refuse(task, PGSTAGE_E_INVALID,
                               "parameter $%d of SQL statement %zu is not UTF-8", i + 1, number);
        }
    }
    return 0;
}

static size_t text_bytes(const char *sql, int parameter_count, const char *const *parameters) {
    size_t bytes = strlen(sql);
    for (int i = 0; i < parameter_count; i++) {
        bytes += parameters[i] == NULL ? 0 : strlen(parameters[i]);
    }
    return bytes;
}

static int check_sql_limits(pgstage_task *task, size_t bytes, int parameter_count) {
    if (task->statement_count >= PGSTAGE_STATEMENTS_MAX ||
        task->parameter_count + (size_t)parameter_count > PGSTAGE_PARAMETERS_MAX) {
        return task_refuse(task, PGSTAGE_E_LIMIT,
                           "more than %d SQL statements or %d parameters in one run",
                           PGSTAGE_STATEMENTS_MAX, PGSTAGE_PARAMETERS_MAX);
    }
    if (bytes > PGSTAGE_SQL_MAX - task->sql_bytes) {
        return task_refuse(task, PGSTAGE_E_LIMIT,
                           "the SQL statements of one run exceed the limit of %zu bytes",
                           PGSTAGE_SQL_MAX);
    }
    return 0;
}

static bool grow_statements(pgstage_task *task) {
    if (task->statement_count < task->statement_capacity) {
        return true;
    }
    size_t capacity = task->statement_capacity == 0 ? 4 : task->statement_capacity * 2;
    struct pgstage_host_statement *larger = sdk_allocate(capacity * sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    if (task->statement_count > 0) {
        memcpy(larger, task->statements, task->statement_count * sizeof *larger);
    }
    sdk_release(task->statements);
    task->statements = larger;
    task->statement_capacity = capacity;
    return true;
}

/* Copies `text` with its NUL to `*to` and moves that behind it. */
static struct pgstage_host_text copy_text(char **to, const char *text) {
    if (text == NULL) {
        return (struct pgstage_host_text){NULL, 0};
    }
    size_t length = strlen(text);
    struct pgstage_host_text copy = {memcpy(*to, text, length + 1), length};
    *to += length + 1;
    return copy;
}

int pgstage_sql(pgstage_task *task, const char *sql, int parameter_count,
                const char *const *parameters) {
    task_called(task, __func__);
    int code = check_sql(task, sql, parameter_count, parameters);
    if (code != 0) {
        return code;
    }
    size_t bytes = text_bytes(sql, parameter_count, parameters);
    code = check_sql_limits(task, bytes, parameter_count);
    if (code != 0) {
        return code;
    }
    size_t count = (size_t)parameter_count;
    struct pgstage_host_text *copies = NULL;
    if (grow_statements(task)) {
        copies = sdk_allocate(count * sizeof *copies + bytes + count + 1);
    }
    if (copies == NULL) {
        return task_refuse(task, PGSTAGE_E_MEMORY, "no memory for an SQL statement");
    }
    char *to = (char *)(copies + count);
    struct pgstage_host_statement *statement = &task->statements[task->statement_count++];
    *statement = (struct pgstage_host_statement){
        .sql = copy_text(&to, sql), .parameter_count = parameter_count, .parameters = copies};
    for (size_t i = 0; i < count; i++) {
        copies[i] = copy_text(&to, parameters[i]);
    }
    task->sql_bytes += bytes;
    task->parameter_count += count;
    return 0;
}

const struct pgstage_host_statement *pgstage_host_statements(const pgstage_task *task,
                                                             size_t *count) {
    *count = task->statement_count;
    return task->statements;
}
