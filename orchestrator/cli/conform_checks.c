#include "cli/conform_checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 200, LARGE_BYTES = 5 * 1000 * 1000, TASKS_IN_A_ROW = 30 };

/* ---- what comes back ---- */

static bool echo(struct talk *talk, const char *value) {
    struct buf payload, members;
    buf_init(&payload, SIZE_MAX);
    buf_init(&members, SIZE_MAX);
    buf_append_string(&payload, "{\"do\":\"echo\",\"value\":");
    buf_append_string(&payload, value);
    buf_append_string(&payload, "}");
    buf_append_string(&members, "{\"output\":");
    buf_append_string(&members, value);
    buf_append_string(&members, "}");
    bool same = talk_expect(talk, payload.data, members.data);
    buf_finish(&payload);
    buf_finish(&members);
    return same;
}

/* The suite starts the program before each check that finds none: this one only sees that it worked. */
static bool check_ready(struct talk *talk) {
    return talk->program.pid > 0;
}

static bool check_echo(struct talk *talk) {
    static const char *const values[] = {
        "{\"a\":[1,-2.5,true,false,\"x\"],\"b\":{}}", "\"text\"", "12", "false", "[]", "\"\"", "{\"type\":\"stop\",\"id\":\"1\"}",
        "\"a\\nb\\t\\\"c\\\\\"",
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (!echo(talk, values[i])) {
            return false;
        }
    }
    return true;
}

static bool check_unicode(struct talk *talk) {
    return echo(talk, "[\"Žluťoučký kůň\",\"日本語\",\"\xf0\x9f\x90\x98\",\"\\u00e9\\ud83d\\udc18\",\"\\u2028\\u0085\\u007f\","
                      "{\"ключ\":\"\xef\xbf\xbf\"}]");
}

/* Not to be able to is no shame, another number is. */
static bool check_big_numbers(struct talk *talk) {
    static const char *const values[] = {"9007199254740993", "-9223372036854775809", "[123456789012345678901234567890]"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char payload[128], members[128];
        snprintf(payload, sizeof payload, "{\"do\":\"echo\",\"value\":%s}", values[i]);
        snprintf(members, sizeof members, "{\"output\":%s}", values[i]);
        struct talk_task task = {.payload = payload};
        json_t *result = talk_send(talk, &task, 1, "") ? talk_result(talk) : NULL;
        const char *outcome = json_string_value(json_object_get(result, "outcome"));
        bool same = result != NULL && ((outcome != NULL && strcmp(outcome, "fail") == 0) || talk_compare(talk, result, members));
        json_decref(result);
        if (!same) {
            return false;
        }
    }
    return true;
}

static bool check_deep(struct talk *talk) {
    char value[2 * LEVELS + 2];
    memset(value, '[', LEVELS);
    value[LEVELS] = '1';
    memset(value + LEVELS + 1, ']', LEVELS);
    value[2 * LEVELS + 1] = '\0';
    return echo(talk, value);
}

static bool check_large(struct talk *talk) {
    struct buf value;
    buf_init(&value, SIZE_MAX);
    buf_append_char(&value, '"');
    while (value.length < LARGE_BYTES) {
        buf_append_string(&value, "0123456789 abcdefghijklmnopqrstuvwxyz ěščřžýáíé ");
    }
    buf_append_char(&value, '"');
    bool same = echo(talk, value.data);
    buf_finish(&value);
    return same;
}

static bool check_nothing(struct talk *talk) {
    return talk_expect(talk, "{\"do\":\"nothing\"}", "{}");
}

static bool ask_with(struct talk *talk, const char *payload, const char *given, const char *members) {
    struct talk_task task = {.payload = payload, .members = given};
    json_t *result = talk_send(talk, &task, 1, "") ? talk_result(talk) : NULL;
    bool same = result != NULL && talk_compare(talk, result, members);
    json_decref(result);
    return same;
}

#define INPUT_OF_TASK "\"input\":{\"text\":\"page\"},\"inputs\":{\"extract\":[1],\"chunk\":null}"

static bool check_task_members(struct talk *talk) {
    return ask_with(talk, "{\"do\":\"task\"}", "," INPUT_OF_TASK,
                    "{\"output\":{\"key\":\"doc-1\",\"version\":3,\"attempt\":1," INPUT_OF_TASK "}}");
}

#define PROGRESS_OF_TASK "\"progress\":{\"fraction\":0.5,\"message\":\"page 5\"}"

static bool check_last_progress(struct talk *talk) {
    return ask_with(talk, "{\"do\":\"task\"}", "," INPUT_OF_TASK "," PROGRESS_OF_TASK,
                    "{\"output\":{\"key\":\"doc-1\",\"version\":3,\"attempt\":1," INPUT_OF_TASK "," PROGRESS_OF_TASK "}}");
}

#define WITH "{\"model\":\"minilm-6\",\"sizes\":[1,2.5],\"nested\":{\"ü\":null}}"

static bool check_with(struct talk *talk) {
    return talk_start(talk, WITH, "") && talk_expect(talk, "{\"do\":\"with\"}", "{\"output\":" WITH "}");
}

/* ---- outcomes ---- */

#define EXPECT(NAME, PAYLOAD, MEMBERS)                                                                                 \
    static bool NAME(struct talk *talk) {                                                                              \
        return talk_expect(talk, PAYLOAD, MEMBERS);                                                                    \
    }

EXPECT(check_fail, "{\"do\":\"fail\",\"message\":\"page 3 is \\\"empty\\\": ž\"}",
       "{\"outcome\":\"fail\",\"message\":\"page 3 is \\\"empty\\\": ž\"}")
EXPECT(check_retry, "{\"do\":\"retry\",\"message\":\"the service is busy\"}",
       "{\"outcome\":\"retry\",\"message\":\"the service is busy\"}")
#define STATEMENT                                                                                                      \
    "\"sql\":\"insert into t values ($1, $2, $3, $4, $5)\",\"params\":[\"it's \\\"ž\\\"\",null,1.5,true,\"\"]"
EXPECT(check_sql, "{\"do\":\"sql\"," STATEMENT "}", "{\"sql\":[{" STATEMENT "}]}")
EXPECT(check_route, "{\"do\":\"route\",\"stage\":\"review\"}", "{\"route\":\"review\"}")
EXPECT(check_finish, "{\"do\":\"finish\"}", "{\"finish\":true}")
EXPECT(check_snooze, "{\"do\":\"snooze\",\"ms\":1500}", "{\"snooze_ms\":1500}")

static bool check_unknown_payload(struct talk *talk) {
    struct talk_task task = {.payload = "{\"do\":\"something else\"}"};
    json_t *result = talk_send(talk, &task, 1, "") ? talk_result(talk) : NULL;
    if (result == NULL) {
        return false;
    }
    const char *outcome = json_string_value(json_object_get(result, "outcome"));
    bool failed = outcome != NULL && strcmp(outcome, "fail") == 0 &&
                  json_string_length(json_object_get(result, "message")) > 0;
    json_decref(result);
    return failed || talk_fail(talk, "the outcome \"fail\" with a message", "the line: %.160s", talk->line.data);
}

/* ---- while it runs ---- */

/* Wants a message of that type with these members among what came with the last task. */
static bool has_note(struct talk *talk, const char *members) {
    json_t *wanted = talk_parse(members, strlen(members));
    const char *id = NULL;
    bool found = false;
    for (size_t i = 0; i < json_array_size(talk->notes) && !found; i++) {
        json_t *note = json_array_get(talk->notes, i), *both = json_copy(note);
        json_object_update(both, wanted); /* the same, if it has all of them */
        id = json_string_value(json_object_get(note, "id"));
        found = json_equal(both, note) && id != NULL;
        json_decref(both);
    }
    json_decref(wanted);
    return found || talk_fail(talk, members, "%zu messages before the result, none of them with that and an \"id\"",
                              json_array_size(talk->notes));
}

static bool check_progress(struct talk *talk) {
    return talk_expect(talk, "{\"do\":\"progress\",\"fraction\":0.25,\"message\":\"page 4 of 16\"}", "{}") &&
           has_note(talk, "{\"type\":\"progress\",\"fraction\":0.25,\"message\":\"page 4 of 16\"}");
}

static bool check_log(struct talk *talk) {
    static const char fields[] = "\"message\":\"page 5 is empty\",\"fields\":{\"page\":5,\"of\":\"ž\",\"last\":false}";
    char payload[128], note[128];
    snprintf(payload, sizeof payload, "{\"do\":\"log\",%s}", fields);
    snprintf(note, sizeof note, "{\"type\":\"log\",%s}", fields);
    return talk_expect(talk, payload, "{}") && has_note(talk, note);
}

static bool check_print(struct talk *talk) {
    return talk_expect(talk, "{\"do\":\"print\",\"text\":\"this is no message\"}", "{}") &&
           talk_expect(talk, "{\"do\":\"print\",\"text\":\"{\\\"type\\\":\\\"result\\\",\\\"id\\\":\\\"none\\\"}\"}", "{}") &&
           echo(talk, "1");
}

static bool told(struct talk *talk, const char *payload, bool cancelled, const char *members) {
    struct talk_task task = {.payload = payload};
    if (!talk_send(talk, &task, 1, "") || !talk_tell(talk, task.id, cancelled, !cancelled)) {
        return false;
    }
    json_t *result = talk_result(talk);
    bool same = result != NULL && talk_compare(talk, result, members);
    json_decref(result);
    return same && echo(talk, "1");
}

static bool check_cancelled(struct talk *talk) {
    return told(talk, "{\"do\":\"wait_cancel\"}", true, "{\"outcome\":\"retry\",\"message\":\"cancelled\"}");
}

static bool check_superseded(struct talk *talk) {
    return told(talk, "{\"do\":\"wait_superseded\"}", false, "{\"output\":{\"superseded\":true}}");
}

/* ---- what is to be ignored, and what is not ---- */

static bool check_ids(struct talk *talk) {
    static const char *const ids[] = {"007", "9007199254740993", "a-b_c.D", "00000000000000000001"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        struct talk_task task = {.payload = "{\"do\":\"nothing\"}"};
        snprintf(task.id, sizeof task.id, "%s", ids[i]);
        json_t *result = talk_send(talk, &task, 1, "") ? talk_result(talk) : NULL;
        if (result == NULL) {
            return false;
        }
        json_decref(result);
    }
    return true;
}

static bool check_many(struct talk *talk) {
    for (int i = 0; i < TASKS_IN_A_ROW; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", i);
        if (!echo(talk, value)) {
            return false;
        }
    }
    return true;
}

static bool sent_before(struct talk *talk, const char *before) {
    struct talk_task task = {.payload = "{\"do\":\"echo\",\"value\":1}"};
    json_t *result = talk_send(talk, &task, 1, before) ? talk_result(talk) : NULL;
    bool same = result != NULL && talk_compare(talk, result, "{\"output\":1}");
    json_decref(result);
    return same;
}

static bool check_late_tell(struct talk *talk) {
    return sent_before(talk, "{\"type\":\"tell\",\"id\":\"no-such-task\",\"cancelled\":true,\"superseded\":true}\n");
}

static bool check_unknown_types(struct talk *talk) {
    return sent_before(talk, "{\"type\":\"weather\",\"id\":\"1\",\"rain\":[{}]}\n");
}

static bool check_empty_lines(struct talk *talk) {
    return sent_before(talk, "\n \n");
}

const struct check conform_checks[] = {
    {"ready", "Life", check_ready, false, false},
    {"echo", "result", check_echo, false, false},
    {"unicode", "Lines", check_unicode, false, false},
    {"big_numbers", "Lines", check_big_numbers, false, false},
    {"deep_nesting", "Conformance", check_deep, false, false},
    {"large_value", "Lines", check_large, false, false},
    {"nothing", "result", check_nothing, false, false},
    {"task_members", "task", check_task_members, false, false},
    {"last_progress", "task", check_last_progress, false, false},
    {"fail", "result", check_fail, false, false},
    {"retry", "result", check_retry, false, false},
    {"sql", "result", check_sql, false, false},
    {"route", "result", check_route, false, false},
    {"finish", "result", check_finish, false, false},
    {"snooze", "result", check_snooze, false, false},
    {"unknown_payload", "Conformance", check_unknown_payload, false, false},
    {"progress", "progress", check_progress, false, false},
    {"log", "log", check_log, false, false},
    {"print", "Lines", check_print, false, false},
    {"cancelled", "tell", check_cancelled, false, false},
    {"superseded", "tell", check_superseded, false, false},
    {"ids", "task", check_ids, false, false},
    {"many_tasks", "Life", check_many, false, false},
    {"late_tell", "tell", check_late_tell, false, false},
    {"unknown_types", "Lines", check_unknown_types, false, false},
    {"empty_lines", "Lines", check_empty_lines, false, false},
    {"batch_of_many", "Batches", check_batch_of_many, true, false},
    {"batch_mixed", "Batches", check_batch_mixed, true, false},
    {"batch_failed", "Batches", check_batch_failed, true, false},
    {"batch_tell", "Batches", check_batch_tell, true, false},
    {"stop", "stop", check_stop, false, true},
    {"with", "hello", check_with, false, false},
    {"unknown_members", "Lines", check_unknown_members, false, false},
    {"end_of_input", "Life", check_end_of_input, false, true},
    {"sigterm", "Life", check_sigterm, false, true},
    {"refused", "ready, refused", check_refused, false, true},
};
const size_t conform_check_count = sizeof conform_checks / sizeof conform_checks[0];
