#include "worker/program_answers.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "worker/result_json.h"

enum { QUOTED_BYTES = 80, TEXT_MAX_BYTES = 8000, FIELDS_MAX_BYTES = 1024 * 1024, ID_SIZE = 24 };

static bool is_text(struct json_span value, const char *text) {
    return json_text_kind(value) == '"' && value.length == strlen(text) + 2 &&
           memcmp(value.at + 1, text, strlen(text)) == 0;
}

/* What a string says, as text that may be logged; "" for what is none. Ownership: buf_finish is the caller's. */
static struct buf text_of(struct json_span string) {
    struct buf plain, text;
    buf_init(&plain, SIZE_MAX);
    buf_init(&text, TEXT_MAX_BYTES + 16);
    if (json_text_kind(string) == '"') {
        json_text_string(string, &plain);
        utf8_sanitize(&text, plain.data, plain.length, TEXT_MAX_BYTES);
    }
    buf_finish(&plain);
    return text;
}

static enum status breach(struct error *err, const char *what, const char *line, size_t length) {
    struct buf shown;
    buf_init(&shown, QUOTED_BYTES + 16);
    utf8_sanitize(&shown, line, length, QUOTED_BYTES);
    error_set(err, STATUS_PROTOCOL, "the program %s: %s", what, shown.data);
    buf_finish(&shown);
    return STATUS_PROTOCOL;
}

/* ---- ids ---- */

/* The number of the task in hand that has this id; -1: none has. Those that were answered count. */
static int64_t find_task(const struct answers *answers, struct json_span id) {
    uint64_t first = answers->first_id + (answers->is_batch ? 1 : 0);
    char digits[ID_SIZE] = "";
    if (answers->call == NULL || json_text_kind(id) != '"' || id.length > sizeof digits) {
        return -1;
    }
    memcpy(digits, id.at + 1, id.length - 2);
    uint64_t index = strtoull(digits, NULL, 10) - first;
    char same[ID_SIZE];
    snprintf(same, sizeof same, "%" PRIu64, first + index);
    return index < answers->call->count && strcmp(same, digits) == 0 ? (int64_t)index : -1;
}

static bool is_batch_id(const struct answers *answers, struct json_span id) {
    char own[ID_SIZE];
    snprintf(own, sizeof own, "%" PRIu64, answers->first_id);
    return answers->call != NULL && answers->is_batch && is_text(id, own);
}

static pgstage_task *task_of(const struct answers *answers, pgstage_task *nobody, struct json_span id) {
    int64_t index = find_task(answers, id);
    return index < 0 ? nobody : answers->call->tasks[index].task;
}

/* ---- messages ---- */

/* Which task is to blame is not known: what was answered before does not count. */
static enum status take_batch_result(struct answers *answers, struct json_span object, struct error *err) {
    struct json_span outcome = json_text_member(object, "outcome", strlen("outcome"));
    if (!is_text(outcome, "retry") && !is_text(outcome, "fail")) {
        return breach(err, "answered a batch as a whole with another outcome than \"retry\" and \"fail\"", object.at,
                      object.length);
    }
    result_json_apply(object, &answers->call->tasks[0]);
    answers->call->failed_whole = true;
    answers->left = 0;
    return STATUS_OK;
}

static enum status take_result(struct answers *answers, struct json_span object, struct json_span id, struct error *err) {
    if (is_batch_id(answers, id) && answers->left > 0) {
        return take_batch_result(answers, object, err);
    }
    int64_t index = find_task(answers, id);
    if (index < 0 || answers->answered[index]) {
        return breach(err, json_text_kind(id) == '"' ? "sent a result for an id that is not open" : "sent a result without an id",
                      object.at, object.length);
    }
    answers->answered[index] = true;
    answers->left--;
    result_json_apply(object, &answers->call->tasks[index]);
    return STATUS_OK;
}

static void take_log(pgstage_task *task, struct json_span message, struct json_span fields) {
    struct buf text = text_of(message);
    json_t *parsed = NULL;
    if (json_text_kind(fields) == '{' && fields.length <= FIELDS_MAX_BYTES) {
        parsed = json_loadb(fields.at, fields.length, 0, NULL);
    }
    if (parsed != NULL) {
        pgstage_log_with(task, parsed, "%s", text.data);
    } else {
        pgstage_log(task, "%s", text.data);
    }
    buf_finish(&text);
}

static void take_progress(pgstage_task *task, struct json_span fraction, struct json_span message) {
    if (json_text_kind(fraction) != '0') {
        return;
    }
    struct buf text = text_of(message);
    pgstage_progress(task, strtod(fraction.at, NULL), "%s", text.data); /* a number ends where the line goes on */
    buf_finish(&text);
}

static void ignore(pgstage_task *nobody, struct json_span type) {
    static bool said; /* once is enough for whoever reads the log */
    if (!said) {
        struct buf text = text_of(type);
        pgstage_log(nobody, "the program sent a message of the type '%s', which is not known here (such ones are ignored)",
                    text.data);
        buf_finish(&text);
        said = true;
    }
}

static enum status refuse(struct json_span message, struct error *err) {
    struct buf text = text_of(message);
    error_set(err, STATUS_INVALID, "the program refused to start: %s", text.length > 0 ? text.data : "it gave no reason");
    buf_finish(&text);
    return STATUS_OK;
}

enum status answers_take(struct answers *answers, pgstage_task *nobody, const char *line, size_t length,
                         enum answers_said *said, struct error *err) {
    struct json_span object;
    size_t fault;
    *said = ANSWERS_GO_ON;
    if (strspn(line, " \t\r") >= length) {
        return STATUS_OK; /* the newline stops it */
    }
    if (!json_text_check(line, length, &object, &fault) || json_text_kind(object) != '{') {
        return breach(err, "wrote a line that is no JSON object", line, length);
    }
    enum { TYPE, ID, MESSAGE, FIELDS, FRACTION };
    struct json_want wants[] = {{.name = "type"}, {.name = "id"}, {.name = "message"}, {.name = "fields"}, {.name = "fraction"}};
    json_text_members(object, wants, sizeof wants / sizeof wants[0]);
    struct json_span type = wants[TYPE].value, id = wants[ID].value, message = wants[MESSAGE].value;
    if (json_text_kind(type) != '"') {
        return breach(err, "wrote a message without a type", line, length);
    }
    if (is_text(type, "result")) {
        return take_result(answers, object, id, err);
    }
    if (is_text(type, "log")) {
        take_log(task_of(answers, nobody, id), message, wants[FIELDS].value);
    } else if (is_text(type, "progress")) {
        if (find_task(answers, id) >= 0) {
            take_progress(task_of(answers, nobody, id), wants[FRACTION].value, message);
        }
    } else if (is_text(type, "ready")) {
        *said = ANSWERS_READY;
    } else if (is_text(type, "refused")) {
        *said = ANSWERS_REFUSED;
        return refuse(message, err);
    } else {
        ignore(nobody, type);
    }
    return STATUS_OK;
}
