/* try_program_test.c - pgstage try on stages that are programs: command: and worker:. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "rig.h"

static void write_script(const char *name, const char *text) {
    write_file(name, text);
    cr_assert_eq(chmod(name, 0755), 0);
}

static void begin(void) {
    cli_begin_without_database();
    write_file("p.yaml", "pipeline: p\n"
                         "defaults: {timeout: 20s, grace: 200ms, retry: {attempts: 3, first: 30s}}\n"
                         "stages:\n"
                         "  - {name: cat, command: [cat]}\n"
                         "  - {name: words, command: [wc, -c, '{folder}/{key}'], stdout: text}\n"
                         "  - {name: script, command: [sh, -c, 'eval \"$0\"', '{payload.do}']}\n"
                         "  - {name: endless, command: [sh, -c, 'echo \"child $$\" >&2; sleep 1000'], timeout: none}\n"
                         "  - {name: nothing, command: [no-such-program]}\n"
                         "  - {name: many, command: [./many], batch: {size: 8, wait: 10m}}\n"
                         "  - {name: line, worker: [./line], with: {size: 3}}\n"
                         "  - {name: refuses, worker: [./refuses]}\n"
                         "  - {name: mute, worker: [./mute], timeout: 300ms}\n"
                         "  - {name: dies, worker: [./dies]}\n");
    write_script("many", "#!/bin/sh\nread task\ncase $task in *'\"id\":\"'*) ;; *) exit 65;; esac\n"
                         "id=${task#*\\\"id\\\":\\\"}; id=${id%%\\\"*}\n"
                         "printf '{\"results\":[{\"id\":\"%s\",\"output\":\"of a batch\"}]}' \"$id\"\n");
    write_script("line", "#!/bin/sh\nread hello\necho '{\"type\":\"ready\"}'\nread task\n"
                         "id=${task#*\\\"id\\\":\\\"}; id=${id%%\\\"*}\n"
                         "echo '{\"type\":\"log\",\"message\":\"at work\",\"fields\":{\"n\":7}}'\n"
                         "echo '{\"type\":\"progress\",\"id\":\"'$id'\",\"fraction\":0.5,\"message\":\"half\"}'\n"
                         "echo '{\"type\":\"result\",\"id\":\"'$id'\",\"output\":{\"n\":1},\"route\":\"cat\","
                         "\"sql\":[{\"sql\":\"select $1\",\"params\":[\"x\",\"null\",null]}]}'\nread stop\n");
    write_script("refuses", "#!/bin/sh\nread hello\necho '{\"type\":\"refused\",\"message\":\"there is no model\"}'\n");
    write_script("mute", "#!/bin/sh\nread hello\necho '{\"type\":\"ready\"}'\nsleep 1000\n");
    write_script("dies", "#!/bin/sh\nread hello\necho '{\"type\":\"ready\"}'\nread task\necho 'no more' >&2\nkill -SEGV $$\n");
}

TestSuite(try_program, .init = begin, .fini = cli_end, .timeout = 120);

static json_t *trial(int status, const char *arguments) {
    struct run *run = cli("try p.yaml %s --json", arguments);
    cr_expect_eq(run->status, status, "%s: status %d: %s%s", arguments, run->status, run->out, run->err);
    json_t *document = json_loads(run->out, 0, NULL);
    cr_assert_not_null(document, "%s: %s%s", arguments, run->out, run->err);
    return document;
}

static const char *text_of(const json_t *document, const char *name) {
    const char *value = json_string_value(json_object_get(document, name));
    return value == NULL ? "" : value;
}

static void expect_json(const json_t *value, const char *wanted) {
    char *got = json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS);
    cr_expect_str_eq(got == NULL ? "nothing" : got, wanted);
    free(got);
}

static void expect_end(const char *arguments, const char *outcome, const char *kind, const char *reason) {
    json_t *document = trial(1, arguments);
    cr_expect_str_eq(text_of(document, "outcome"), outcome, "%s: %s", arguments, text_of(document, "outcome"));
    cr_expect_str_eq(text_of(document, "kind"), kind, "%s: %s", arguments, text_of(document, "kind"));
    cr_expect(has(text_of(document, "reason"), reason), "%s: %s", arguments, text_of(document, "reason"));
    json_decref(document);
}

Test(try_program, a_command_gets_the_task_and_gives_an_output) {
    json_t *document = trial(0, "cat --payload '{\"a\": 1}' --as k --attempt 2");
    const json_t *task = json_object_get(document, "output");
    cr_expect_str_eq(text_of(task, "key"), "k");
    cr_expect_str_eq(text_of(task, "stage"), "cat");
    expect_json(json_object_get(task, "payload"), "{\"a\": 1}");
    expect_json(json_object_get(task, "attempt"), "2");
    json_decref(document);
    document = trial(0, "words --as p.yaml");
    cr_expect(has(text_of(json_object_get(document, "output"), "text"), "p.yaml"));
    json_decref(document);
}

Test(try_program, what_a_command_ends_with_is_told) {
    expect_end("script --payload '{\"do\": \"echo busy >&2; exit 75\"}'", "retry", "error", "busy");
    expect_end("script --payload '{\"do\": \"echo bad >&2; exit 65\"}'", "fail", "permanent", "bad");
    expect_end("script --payload '{\"do\": \"exit 3\"}'", "retry", "error", "exited with status 3");
    expect_end("script --payload '{\"do\": \"kill -SEGV $$\"}'", "crash", "crash", "SIGSEGV");
    expect_end("script --payload '{\"do\": \"kill -KILL $$\"}'", "lost", "killed", "SIGKILL");
    expect_end("script --payload '{\"do\": \"echo hello\"}'", "crash", "protocol", "JSON");
    expect_end("script", "fail", "permanent", "payload.do");
    struct run *run = cli("try p.yaml script --payload '{\"do\": \"echo busy >&2; exit 75\"}'");
    cr_expect(has(run->err, "stream=stderr text=\"busy\""), "%s", run->err);
}

/* It waits for no others. */
Test(try_program, a_stage_with_batches_gets_a_batch_of_one) {
    json_t *document = trial(0, "many");
    expect_json(json_object_get(document, "output"), "\"of a batch\"");
    json_decref(document);
}

Test(try_program, a_worker_gets_the_task_and_gives_a_result) {
    json_t *document = trial(0, "line --payload 1");
    expect_json(json_object_get(document, "output"), "{\"n\": 1}");
    expect_json(json_object_get(document, "next"), "{\"action\": \"route\", \"stage\": \"cat\"}");
    expect_json(json_object_get(document, "statements"),
                "[{\"error\": null, \"params\": [\"x\", \"null\", null], \"rows\": null, \"sql\": \"select $1\"}]");
    json_decref(document);
    struct run *run = cli("try p.yaml line");
    cr_expect(has(run->err, "task.log "), "%s", run->err);
    cr_expect(has(run->err, "text=\"at work\""), "%s", run->err);
    cr_expect(has(run->out, "\n    $1 = x\n    $2 = 'null'\n    $3 = null\n"), "%s", run->out);
    cr_expect(has(run->err, "progress 50%: half\n"), "%s", run->err);
}

Test(try_program, what_a_worker_ends_with_is_told) {
    expect_end("refuses", "refused", "refused", "there is no model");
    expect_end("mute", "timeout", "timeout", "300ms");
    expect_end("dies", "crash", "crash", "SIGSEGV");
    json_t *document = trial(1, "dies");
    cr_expect(has(text_of(document, "last_output"), "no more"), "%s", text_of(document, "last_output"));
    json_decref(document);
}

Test(try_program, ctrl_c_ends_a_command_and_its_children) {
    char *all = NULL;
    struct terminal *terminal = terminal_start("try p.yaml endless");
    const char *shown = terminal_await(terminal, "\"\r\n");
    const char *said = strstr(shown, "child ");
    cr_assert_not_null(said, "%s", shown);
    long child = strtol(said + 6, NULL, 10);
    cr_assert_gt(child, 1);
    terminal_type(terminal, "\003");
    cr_expect_eq(terminal_end(terminal, &all), 1, "%s", all);
    cr_expect(has(all, "outcome    interrupted after "), "%s", all);
    free(all);
    cr_expect_eq(shell("! grep '^State:[^Z]*$' /proc/%ld/status", child)->status, 0, "the command lives");
}
