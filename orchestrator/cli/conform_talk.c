#include "cli/conform_talk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/memory.h"

enum { EXACT_DIGITS = 15, SHOWN_BYTES = 160 };

void talk_init(struct talk *talk, char *const *argv, int batch, int64_t timeout_ms) {
    *talk = (struct talk){.argv = argv, .batch = batch, .timeout_ms = timeout_ms};
    talk->open = json_object();
    talk->notes = json_array();
    buf_init(&talk->line, SIZE_MAX);
}

void talk_finish(struct talk *talk) {
    program_kill(&talk->program);
    json_decref(talk->open);
    json_decref(talk->notes);
    buf_finish(&talk->line);
}

bool talk_fail(struct talk *talk, const char *expected, const char *format, ...) {
    va_list args;
    va_start(args, format);
    snprintf(talk->expected, sizeof talk->expected, "%s", expected);
    vsnprintf(talk->came, sizeof talk->came, format, args);
    va_end(args);
    return false;
}

/* ---- JSON without loss ---- */

/* The end of the string whose opening quote is at `at`. */
static const char *skip_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++) {
        at += *at == '\\' ? 1 : 0;
    }
    return at < end ? at + 1 : end;
}

/* Jansson's integers have 64 bits, and its reals lose digits. */
static void mark_number(struct buf *out, const char *at, size_t length) {
    size_t sign = *at == '-' ? 1 : 0;
    bool whole = strspn(at + sign, "0123456789") >= length - sign;
    if (whole && length - sign > EXACT_DIGITS) {
        buf_append_string(out, "\"#");
        buf_append(out, at, length);
        buf_append_char(out, '"');
    } else {
        buf_append(out, at, length);
    }
}

json_t *talk_parse(const char *text, size_t length) {
    struct buf marked;
    buf_init(&marked, SIZE_MAX);
    const char *at = text, *copied = text, *end = text + length;
    while (at < end) {
        const char *from = at;
        if (*at == '"') {
            at = skip_string(at, end);
        } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
            at += strspn(at, "+-.0123456789eE");
            buf_append(&marked, copied, (size_t)(from - copied));
            mark_number(&marked, from, (size_t)(at - from));
            copied = at;
        } else {
            at++;
        }
    }
    buf_append(&marked, copied, (size_t)(end - copied));
    json_t *value = json_loadb(marked.data, marked.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    buf_finish(&marked);
    return value;
}

/* ---- messages of the program ---- */

/* It has closed a stream: mostly because it ended, and how says more. */
static bool fail_end(struct talk *talk, const char *expected, const char *stream) {
    int status;
    if (!program_wait(&talk->program, &status, program_now_ms() + TALK_END_MS)) {
        return talk_fail(talk, expected, "the end of its standard %s, while it lives on", stream);
    }
    if (WIFSIGNALED(status)) {
        return talk_fail(talk, expected, "its death of signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    return talk_fail(talk, expected, "its exit with status %d", WEXITSTATUS(status));
}

static bool read_line(struct talk *talk, int64_t deadline_ms) {
    do {
        switch (program_read_line(&talk->program, &talk->line, deadline_ms)) {
        case PROGRAM_LINE:
            break;
        case PROGRAM_END:
            return fail_end(talk, "a line", "output");
        case PROGRAM_SILENT:
            talk->silent = true;
            return talk_fail(talk, "a line", "nothing in time");
        case PROGRAM_FLOOD:
            return talk_fail(talk, "a line of at most 256 MB", "more than that");
        }
    } while (strspn(talk->line.data, " \t\r") == talk->line.length);
    return true;
}

static json_t *parse_message(struct talk *talk) {
    json_t *message = talk_parse(talk->line.data, talk->line.length);
    if (!json_is_object(message)) {
        talk_fail(talk, "lines of standard output that are JSON objects", "the line: %.*s", SHOWN_BYTES, talk->line.data);
    } else if (!json_is_string(json_object_get(message, "type"))) {
        talk_fail(talk, "a \"type\" in each message", "the line: %.*s", SHOWN_BYTES, talk->line.data);
    } else {
        return message;
    }
    json_decref(message);
    return NULL;
}

json_t *talk_message(struct talk *talk, int64_t deadline_ms) {
    for (;;) {
        json_t *message = read_line(talk, deadline_ms) ? parse_message(talk) : NULL;
        if (message == NULL || strcmp(json_string_value(json_object_get(message, "type")), "log") != 0) {
            return message;
        }
        json_array_append_new(talk->notes, message);
    }
}

/* ---- messages to it ---- */

static bool write_line(struct talk *talk, struct buf *line) {
    buf_append_char(line, '\n');
    bool written = program_write(&talk->program, line->data, line->length, program_now_ms() + talk->timeout_ms);
    buf_finish(line);
    if (!written && talk->program.in < 0) {
        return fail_end(talk, "that it reads its standard input", "input");
    }
    return written || talk_fail(talk, "that it reads its standard input", "it does not in time");
}

bool talk_hello(struct talk *talk, const char *with, const char *members) {
    program_kill(&talk->program);
    json_object_clear(talk->open);
    json_array_clear(talk->notes);
    talk->silent = false;
    struct error err = ERROR_NONE;
    if (program_start(&talk->program, talk->argv, &err) != STATUS_OK) {
        return talk_fail(talk, "that it can be started", "%s", err.text);
    }
    struct buf line;
    buf_init(&line, SIZE_MAX);
    buf_append_format(&line,
                      "{\"type\":\"hello\",\"protocol\":1,\"pipeline\":\"conformance\",\"stage\":\"test\","
                      "\"folder\":\"/nowhere\",\"with\":%s",
                      with);
    if (talk->batch > 0) {
        buf_append_format(&line, ",\"batch\":%d", talk->batch);
    }
    buf_append_format(&line, "%s}", members);
    return write_line(talk, &line);
}

bool talk_start(struct talk *talk, const char *with, const char *members) {
    if (!talk_hello(talk, with, members)) {
        return false;
    }
    json_t *message = talk_message(talk, program_now_ms() + TALK_READY_MS);
    if (message == NULL) {
        snprintf(talk->expected, sizeof talk->expected, "{\"type\":\"ready\"} %s",
                 talk->silent ? "within 30 s of its start" : "as the answer to hello");
        return false;
    }
    bool ready = strcmp(json_string_value(json_object_get(message, "type")), "ready") == 0;
    json_decref(message);
    return ready || talk_fail(talk, "{\"type\":\"ready\"} as the answer to hello", "%.*s", SHOWN_BYTES, talk->line.data);
}

static void put_task(struct talk *talk, struct talk_task *task, struct buf *line) {
    if (task->id[0] == '\0') {
        snprintf(task->id, sizeof task->id, "%u", ++talk->last_id);
    }
    json_object_set(talk->open, task->id, json_true());
    buf_append_format(line, "\"id\":\"%s\",\"key\":\"doc-1\",\"version\":3,\"attempt\":1,\"payload\":", task->id);
    buf_append_string(line, task->payload); /* not by the format: it may have megabytes */
    buf_append_string(line, task->members == NULL ? ",\"input\":null,\"inputs\":{}" : task->members);
}

bool talk_send(struct talk *talk, struct talk_task *tasks, int count, const char *before) {
    struct buf line;
    buf_init(&line, SIZE_MAX);
    buf_append_string(&line, before);
    json_array_clear(talk->notes);
    talk->batch_id[0] = '\0';
    if (talk->batch > 0) {
        snprintf(talk->batch_id, sizeof talk->batch_id, "%u", ++talk->last_id);
        buf_append_format(&line, "{\"type\":\"batch\",\"id\":\"%s\",\"tasks\":[", talk->batch_id);
    }
    for (int i = 0; i < count; i++) {
        buf_append_string(&line, talk->batch == 0 ? "{\"type\":\"task\"," : i == 0 ? "{" : ",{");
        put_task(talk, &tasks[i], &line);
        buf_append_string(&line, talk->batch == 0 ? ",\"timeout_ms\":600000}" : "}");
    }
    if (talk->batch > 0) {
        buf_append_string(&line, "],\"timeout_ms\":600000}");
    }
    return write_line(talk, &line);
}

bool talk_tell(struct talk *talk, const char *id, bool cancelled, bool superseded) {
    struct buf line;
    buf_init(&line, SIZE_MAX);
    buf_append_format(&line, "{\"type\":\"tell\",\"id\":\"%s\",\"cancelled\":%s,\"superseded\":%s}", id,
                      cancelled ? "true" : "false", superseded ? "true" : "false");
    return write_line(talk, &line);
}

/* ---- results ---- */

static bool close_id(struct talk *talk, const json_t *result) {
    const char *id = json_string_value(json_object_get(result, "id"));
    if (id == NULL) {
        return talk_fail(talk, "an \"id\", a text, in each result", "the line: %.*s", SHOWN_BYTES, talk->line.data);
    }
    if (json_object_del(talk->open, id) == 0) {
        return true;
    }
    const char *outcome = json_string_value(json_object_get(result, "outcome"));
    if (strcmp(id, talk->batch_id) == 0 && talk->batch > 0 && outcome != NULL && strcmp(outcome, "ok") != 0) {
        json_object_clear(talk->open);
        return true;
    }
    return talk_fail(talk, "results for ids that are open, one each", "the line: %.*s", SHOWN_BYTES, talk->line.data);
}

json_t *talk_result(struct talk *talk) {
    int64_t deadline_ms = program_now_ms() + talk->timeout_ms;
    for (;;) {
        json_t *message = talk_message(talk, deadline_ms);
        if (message == NULL) {
            snprintf(talk->expected, sizeof talk->expected, "a result");
            return NULL;
        }
        const char *type = json_string_value(json_object_get(message, "type"));
        if (strcmp(type, "progress") == 0) {
            json_array_append_new(talk->notes, message);
            continue;
        }
        bool is_result = strcmp(type, "result") == 0;
        if (is_result && close_id(talk, message)) {
            return message;
        }
        json_decref(message); /* types that are not known are ignored */
        if (is_result) {
            return NULL;
        }
    }
}

/* What a member means when it is not there, or says nothing. */
static const json_t *get_member(const json_t *result, const char *name) {
    const json_t *value = json_object_get(result, name);
    return json_is_null(value) || (strcmp(name, "finish") == 0 && json_is_false(value)) ? NULL : value;
}

/* A parameter's text is what PostgreSQL gets. */
static json_t *text_of_parameter(const json_t *value) {
    if (json_is_string(value) || json_is_null(value)) {
        return json_deep_copy(value);
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    json_t *string = json_string(text);
    free(text);
    return string;
}

static bool same_statements(const json_t *a, const json_t *b) {
    if (!json_is_array(a) || json_array_size(a) != json_array_size(b)) {
        return false;
    }
    bool same = true;
    for (size_t i = 0; i < json_array_size(a) && same; i++) {
        const json_t *one = json_array_get(a, i), *other = json_array_get(b, i);
        const json_t *these = get_member(one, "params"), *those = get_member(other, "params");
        same = json_equal(json_object_get(one, "sql"), json_object_get(other, "sql")) &&
               json_array_size(these) == json_array_size(those);
        for (size_t j = 0; j < json_array_size(these) && same; j++) {
            json_t *left = text_of_parameter(json_array_get(these, j)), *right = text_of_parameter(json_array_get(those, j));
            same = json_equal(left, right);
            json_decref(left);
            json_decref(right);
        }
    }
    return same;
}

static bool same_member(const char *name, const json_t *wanted, const json_t *came) {
    if (wanted == NULL || came == NULL) {
        return wanted == came;
    }
    return strcmp(name, "sql") == 0 ? same_statements(came, wanted) : json_equal(wanted, came);
}

/* Takes the marks of mark_number away again. */
static void unmark_numbers(char *text) {
    char *to = text;
    for (const char *at = text; *at != '\0';) {
        const char *digits = at + 2 + (strncmp(at, "\"#-", 3) == 0 ? 1 : 0);
        size_t count = strncmp(at, "\"#", 2) == 0 ? strspn(digits, "0123456789") : 0;
        if (count > EXACT_DIGITS && digits[count] == '"') {
            size_t length = (size_t)(digits + count - at) - 2;
            memmove(to, at + 2, length);
            to += length;
            at = digits + count + 1;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

static void show(const json_t *value, char *out, size_t size) {
    char *text = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text != NULL) {
        unmark_numbers(text);
    }
    size_t length = text == NULL ? 0 : strlen(text);
    snprintf(out, size, "%.*s%s", SHOWN_BYTES, text == NULL ? "none" : text, length > SHOWN_BYTES ? "..." : "");
    free(text);
}

static bool compare_member(struct talk *talk, const char *name, const json_t *wanted, const json_t *came) {
    if (same_member(name, wanted, came)) {
        return true;
    }
    char a[SHOWN_BYTES + 8], b[SHOWN_BYTES + 8], expected[TALK_WORDS_SIZE];
    show(wanted, a, sizeof a);
    show(came, b, sizeof b);
    snprintf(expected, sizeof expected, "the %s %s", name, a);
    return talk_fail(talk, expected, "%s", b);
}

bool talk_compare(struct talk *talk, const json_t *result, const char *members) {
    static const char *const names[] = {"message", "output", "sql", "route", "finish", "snooze_ms"};
    json_t *wanted = talk_parse(members, strlen(members)), *ok = json_string("ok");
    const json_t *outcome = get_member(result, "outcome"), *wanted_outcome = json_object_get(wanted, "outcome");
    outcome = outcome == NULL ? ok : outcome;
    wanted_outcome = wanted_outcome == NULL ? ok : wanted_outcome;
    bool is_ok = json_equal(wanted_outcome, ok);
    bool same = compare_member(talk, "outcome", wanted_outcome, outcome);
    /* Of a failure the message alone counts, and of a success all but that. */
    for (size_t i = 0; i < sizeof names / sizeof names[0] && same; i++) {
        if (is_ok != (i == 0)) {
            same = compare_member(talk, names[i], get_member(wanted, names[i]), get_member(result, names[i]));
        }
    }
    json_decref(ok);
    json_decref(wanted);
    return same;
}

bool talk_expect(struct talk *talk, const char *payload, const char *members) {
    struct talk_task task = {.payload = payload};
    if (!talk_send(talk, &task, 1, "")) {
        return false;
    }
    json_t *result = talk_result(talk);
    bool same = result != NULL && talk_compare(talk, result, members);
    json_decref(result);
    return same;
}

/* ---- the end ---- */

static bool drain(struct talk *talk) {
    for (;;) {
        switch (program_read_line(&talk->program, &talk->line, program_now_ms() + TALK_END_MS)) {
        case PROGRAM_LINE:
            break;
        case PROGRAM_END:
            return talk->program.said.length == 0 ||
                   talk_fail(talk, "whole lines", "a last line without its end: %.*s", SHOWN_BYTES, talk->program.said.data);
        case PROGRAM_SILENT:
        case PROGRAM_FLOOD:
            return talk_fail(talk, "the end of its standard output", "it is held open");
        }
        if (strspn(talk->line.data, " \t\r") == talk->line.length) {
            continue;
        }
        json_t *message = parse_message(talk);
        if (message == NULL) {
            return false;
        }
        bool is_result = strcmp(json_string_value(json_object_get(message, "type")), "result") == 0;
        json_decref(message);
        if (is_result) {
            return talk_fail(talk, "no result without a task", "the line: %.*s", SHOWN_BYTES, talk->line.data);
        }
    }
}

bool talk_end(struct talk *talk, bool wants_status_0) {
    static const char expected[] = "its exit within 8 s";
    int status;
    if (!program_wait(&talk->program, &status, program_now_ms() + TALK_END_MS)) {
        return talk_fail(talk, expected, "it lives on");
    }
    if (wants_status_0 && WIFSIGNALED(status)) {
        return talk_fail(talk, "its exit with status 0", "its death of signal %d (%s)", WTERMSIG(status),
                         strsignal(WTERMSIG(status)));
    }
    if (wants_status_0 && WEXITSTATUS(status) != 0) {
        return talk_fail(talk, "its exit with status 0", "exit status %d", WEXITSTATUS(status));
    }
    return drain(talk);
}
