/* conform_ends.c - checks of how a program begins and ends: each has one of its own. */
#include <signal.h>
#include <string.h>

#include "cli/conform_checks.h"

bool check_unknown_members(struct talk *talk) {
    struct talk_task task = {.payload = "{\"do\":\"echo\",\"value\":1}",
                             .members = ",\"input\":null,\"inputs\":{},\"colour\":\"blue\",\"more\":{\"a\":[]}"};
    if (!talk_start(talk, "{}", ",\"colour\":\"blue\",\"more\":{\"a\":[]}") || !talk_send(talk, &task, 1, "")) {
        return false;
    }
    json_t *result = talk_result(talk);
    bool same = result != NULL && talk_compare(talk, result, "{\"output\":1}");
    json_decref(result);
    return same;
}

bool check_refused(struct talk *talk) {
    static const char expected[] = "{\"type\":\"refused\",\"message\":\"with: 'model' is missing\"}";
    if (!talk_hello(talk, "{\"refuse\":\"with: 'model' is missing\"}", "")) {
        return false;
    }
    json_t *message = talk_message(talk, program_now_ms() + TALK_READY_MS), *wanted = talk_parse(expected, strlen(expected));
    if (message == NULL) {
        json_decref(wanted);
        return false;
    }
    bool same = json_equal(json_object_get(message, "type"), json_object_get(wanted, "type")) &&
                json_equal(json_object_get(message, "message"), json_object_get(wanted, "message"));
    json_decref(message);
    json_decref(wanted);
    return same ? talk_end(talk, false) : talk_fail(talk, expected, "the line: %.160s", talk->line.data);
}

static bool write_stop(struct talk *talk) {
    static const char stop[] = "{\"type\":\"stop\"}\n";
    bool written = program_write(&talk->program, stop, sizeof stop - 1, program_now_ms() + talk->timeout_ms);
    program_close_input(&talk->program);
    return written || talk_fail(talk, "that it reads its standard input", "it does not");
}

bool check_stop(struct talk *talk) {
    return write_stop(talk) && talk_end(talk, true);
}

bool check_end_of_input(struct talk *talk) {
    program_close_input(&talk->program);
    return talk_end(talk, false);
}

bool check_sigterm(struct talk *talk) {
    kill(talk->program.pid, SIGTERM);
    return talk_end(talk, false);
}
