#include "worker/result_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

enum { MESSAGE_MAX_BYTES = 8000, NUMBER_MAX_BYTES = 20 };

enum member { OUTCOME, OUTPUT, MESSAGE, SQL, ROUTE, FINISH, SNOOZE_MS, MEMBER_COUNT };

/* A member's place in `wants` is its number above. */
static void read_members(struct json_span object, struct json_want wants[MEMBER_COUNT]) {
    static const char *const names[MEMBER_COUNT] = {
        [OUTCOME] = "outcome", [OUTPUT] = "output", [MESSAGE] = "message",      [SQL] = "sql",
        [ROUTE] = "route",     [FINISH] = "finish", [SNOOZE_MS] = "snooze_ms",
    };
    for (int i = 0; i < MEMBER_COUNT; i++) {
        wants[i] = (struct json_want){.name = names[i]};
    }
    json_text_members(object, wants, MEMBER_COUNT);
}

void result_json_set_message(struct engine_task *task, struct json_span string) {
    struct buf plain, text;
    buf_init(&plain, string.length * 3);
    buf_init(&text, MESSAGE_MAX_BYTES + 16);
    json_text_string(string, &plain);
    utf8_sanitize(&text, plain.data, plain.length, MESSAGE_MAX_BYTES);
    pgstage_fail(task->task, "%s", text.data);
    buf_finish(&text);
    buf_finish(&plain);
}

/* ---- texts for SQL ---- */

/* False: the text has a NUL or half a surrogate pair, which no text of the database can hold. Ownership: the caller frees. */
static bool take_text(struct json_span string, char **text) {
    struct buf plain;
    buf_init(&plain, string.length * 3);
    bool whole = json_text_string(string, &plain);
    *text = buf_take(&plain);
    buf_finish(&plain);
    return whole;
}

/* SQL NULL is NULL. */
static bool take_parameter(struct json_span value, char **text) {
    switch (json_text_kind(value)) {
    case 'n':
        *text = NULL;
        return true;
    case '"':
        return take_text(value, text);
    default:
        *text = mem_copy_bytes(value.at, value.length);
        return true;
    }
}

static size_t count_elements(struct json_span array) {
    const char *at = NULL;
    struct json_span name, value;
    size_t count = 0;
    while (json_text_next(array, &at, &name, &value)) {
        count++;
    }
    return count;
}

static pgstage_result queue_statement(pgstage_task *task, struct json_span sql, struct json_span params) {
    size_t capacity = json_text_is_given(params) ? count_elements(params) : 0, count = 0;
    if (capacity > PGSTAGE_PARAMETERS_MAX) {
        return pgstage_fail(task, "the result's 'sql' has a statement with %zu parameters", capacity);
    }
    char *text, **parameters = mem_alloc((capacity + 1) * sizeof *parameters);
    bool whole = take_text(sql, &text);
    const char *at = NULL;
    struct json_span name, value;
    while (count < capacity && json_text_next(params, &at, &name, &value)) {
        whole = take_parameter(value, &parameters[count++]) && whole;
    }
    pgstage_result returned = PGSTAGE_OK;
    if (!whole) {
        returned = pgstage_fail(task, "the result's 'sql' has a NUL character or half a surrogate pair in a text, which "
                                      "PostgreSQL cannot store");
    } else if (pgstage_sql(task, text, (int)count, (const char *const *)parameters) != 0) {
        returned = PGSTAGE_FAIL; /* the refusal is its reason */
    }
    while (count > 0) {
        free(parameters[--count]);
    }
    free(parameters);
    free(text);
    return returned;
}

static pgstage_result apply_sql(pgstage_task *task, struct json_span list) {
    if (json_text_kind(list) != '[') {
        return pgstage_fail(task, "the result's 'sql' is no list");
    }
    const char *at = NULL;
    struct json_span name, statement;
    while (json_text_next(list, &at, &name, &statement)) {
        struct json_want wants[] = {{.name = "sql"}, {.name = "params"}};
        if (json_text_kind(statement) == '{') {
            json_text_members(statement, wants, 2);
        }
        if (json_text_kind(wants[0].value) != '"' ||
            (json_text_is_given(wants[1].value) && json_text_kind(wants[1].value) != '[')) {
            return pgstage_fail(task, "the result's 'sql' has an entry that is not {\"sql\": TEXT, \"params\": LIST}");
        }
        pgstage_result returned = queue_statement(task, wants[0].value, wants[1].value);
        if (returned != PGSTAGE_OK) {
            return returned;
        }
    }
    return PGSTAGE_OK;
}

/* ---- where to go ---- */

static pgstage_result apply_route(pgstage_task *task, struct json_span stage) {
    char *name = NULL;
    if (json_text_kind(stage) != '"' || !take_text(stage, &name)) {
        free(name);
        return pgstage_fail(task, "the result's 'route' is not the name of a stage");
    }
    pgstage_result returned = pgstage_route(task, name);
    free(name);
    return returned;
}

static pgstage_result apply_snooze(pgstage_task *task, struct json_span value) {
    char digits[NUMBER_MAX_BYTES + 1] = "", *end = digits;
    if (json_text_kind(value) == '0' && value.length <= NUMBER_MAX_BYTES) {
        memcpy(digits, value.at, value.length);
        digits[value.length] = '\0';
    }
    errno = 0;
    long long ms = strtoll(digits, &end, 10);
    if (end == digits || *end != '\0' || errno != 0 || ms < 0) {
        return pgstage_fail(task, "the result's 'snooze_ms' is not a whole number of milliseconds");
    }
    return pgstage_snooze(task, ms);
}

static pgstage_result apply_flow(pgstage_task *task, const struct json_want *wants) {
    bool routes = json_text_is_given(wants[ROUTE].value), snoozes = json_text_is_given(wants[SNOOZE_MS].value),
         finishes = json_text_is_given(wants[FINISH].value) && json_text_kind(wants[FINISH].value) != 'f';
    if (routes + snoozes + finishes > 1) {
        return pgstage_fail(task, "the result has more than one of 'route', 'finish' and 'snooze_ms'");
    }
    if (routes) {
        return apply_route(task, wants[ROUTE].value);
    }
    if (snoozes) {
        return apply_snooze(task, wants[SNOOZE_MS].value);
    }
    if (finishes) {
        return json_text_kind(wants[FINISH].value) == 't'
                   ? pgstage_finish(task)
                   : pgstage_fail(task, "the result's 'finish' is neither true nor false");
    }
    return PGSTAGE_OK;
}

/* ---- the whole ---- */

static bool is_text(struct json_span value, const char *text) {
    return json_text_kind(value) == '"' && value.length == strlen(text) + 2 &&
           memcmp(value.at + 1, text, strlen(text)) == 0;
}

static pgstage_result apply_success(pgstage_task *task, const struct json_want *wants) {
    struct json_span output = wants[OUTPUT].value;
    if (output.at != NULL && pgstage_set_output(task, output.at, output.length) != 0) {
        return PGSTAGE_FAIL; /* the refusal is its reason */
    }
    if (json_text_is_given(wants[SQL].value)) {
        pgstage_result returned = apply_sql(task, wants[SQL].value);
        if (returned != PGSTAGE_OK) {
            return returned;
        }
    }
    return apply_flow(task, wants);
}

void result_json_apply(struct json_span object, struct engine_task *task) {
    struct json_want wants[MEMBER_COUNT];
    read_members(object, wants);
    struct json_span outcome = wants[OUTCOME].value, message = wants[MESSAGE].value;
    if (!json_text_is_given(outcome) || is_text(outcome, "ok")) {
        engine_set_returned(task, apply_success(task->task, wants));
        return;
    }
    bool retry = is_text(outcome, "retry");
    task->outcome = retry ? WIRE_RETRY : WIRE_FAIL;
    if (!retry && !is_text(outcome, "fail")) {
        pgstage_fail(task->task, "the result's 'outcome' is none of \"ok\", \"retry\" and \"fail\"");
    } else if (json_text_kind(message) == '"') {
        result_json_set_message(task, message);
    } else {
        pgstage_fail(task->task, json_text_is_given(message) ? "the result's 'message' is no text"
                                                             : "the program gave no reason");
    }
}
