/* A program that gets many tasks at once, and answers with a list of results. */
#include "command_rig.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct command_rig c;

static void finish(void) {
    command_finish(&c);
}

TestSuite(worker_command_batch, .fini = finish, .timeout = 180);

static void open_batch(const char *script) {
    command_prepare(&c, (const char *const[]){"sh", "run.sh", NULL});
    command_write(&c, "run.sh", script, false);
    c.hello.batch_size = 3;
    command_open(&c);
}

static void send_batch(uint64_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        rig_send_run(&c.rig, &(struct wire_run){.run = first + i,
                                                .lease_end_ms = INT64_MAX,
                                                .version = 1,
                                                .attempt = 1,
                                                .key = {"doc", 3},
                                                .payload = {"[1]", 3},
                                                .batch_left = count - 1 - i});
    }
}

static void want_all(uint64_t first, uint32_t count, enum wire_outcome outcome, const char *kind, const char *message) {
    for (uint32_t i = 0; i < count; i++) {
        command_want(&c, first + i, outcome, kind, message);
    }
}

Test(worker_command_batch, the_tasks_are_a_list) {
    open_batch("cat >&2; echo '{\"results\":[]}'");
    send_batch(5, 2);
    rig_want_printed(&c.rig, "{\"pipeline\":\"library\",\"stage\":\"extract\",\"with\":{},\"tasks\":["
                             "{\"id\":\"5\",\"key\":\"doc\",\"version\":1,\"attempt\":1,\"payload\":[1],\"input\":null,\"inputs\":{}},"
                             "{\"id\":\"6\",\"key\":\"doc\",\"version\":1,\"attempt\":1,\"payload\":[1],\"input\":null,\"inputs\":{}}"
                             "]}\n");
    want_all(5, 2, WIRE_RETRY, NULL, "the program gave no result for this task of its batch");
}

Test(worker_command_batch, each_task_has_its_own_result) {
    open_batch("echo '{\"results\":[{\"id\":\"7\",\"outcome\":\"fail\",\"message\":\"bad\"},{\"id\":\"5\",\"output\":50},"
               "{\"id\":\"6\",\"route\":\"review\"}]}'");
    send_batch(5, 3);
    rig_want_output(&c.rig, 5, "50");
    struct wire_result result;
    rig_want_result(&c.rig, 6, &result);
    cr_assert_eq(result.flow, WIRE_ROUTE);
    wire_result_finish(&result);
    command_want(&c, 7, WIRE_FAIL, NULL, "bad");
    command_stop(&c);
}

static const struct {
    const char *script;
    enum wire_outcome outcome; /* of a batch of one */
    const char *kind, *message;
} whole[] = {
    {"exit 1", WIRE_RETRY, NULL, "the program exited with status 1"},
    {"echo no >&2; exit 65", WIRE_FAIL, NULL, "no"},
    {"kill -SEGV $$", WIRE_CRASH, "crash", "the program crashed: signal 11 (SIGSEGV)"},
    {"kill -KILL $$", WIRE_LOST, "killed", "the program was killed by signal 9 (SIGKILL)"},
    {"", WIRE_CRASH, "protocol", "the program's standard output is not JSON: byte 1 of 0"},
    {"echo '{\"results\":[{}]}'", WIRE_CRASH, "protocol",
     "the program's 'results' has an entry without the 'id' of a task of this batch"},
    {"echo '{\"results\":[7]}'", WIRE_CRASH, "protocol",
     "the program's 'results' has an entry without the 'id' of a task of this batch"},
    {"echo '{\"results\":[{\"id\":\"99\"}]}'", WIRE_CRASH, "protocol",
     "the program's 'results' has an entry without the 'id' of a task of this batch"},
    {"echo '{\"results\":[{\"id\":\"5\"},{\"id\":\"5\"}]}'", WIRE_CRASH, "protocol",
     "the program's 'results' has an entry for a task that had one already"},
    {"echo '{}'", WIRE_CRASH, "protocol", "the program's answer to a batch has no list 'results'"},
    {"echo '{\"outcome\":\"retry\",\"message\":\"all\"}'", WIRE_RETRY, NULL, "all"},
};

Test(worker_command_batch, one_that_fails_as_a_whole_is_to_be_split) {
    open_batch("");
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        command_write(&c, "run.sh", whole[i].script, false);
        send_batch(5, 2);
        want_all(5, 2, WIRE_SPLIT, whole[i].kind, whole[i].message);
        send_batch(5, 1);
        command_want(&c, 5, whole[i].outcome, whole[i].kind, whole[i].message);
    }
    command_stop(&c);
}

Test(worker_command_batch, without_output_all_are_done) {
    command_prepare(&c, (const char *const[]){"true", NULL});
    c.hello.batch_size = 3;
    c.hello.stdout_form = WIRE_STDOUT_IGNORE;
    command_open(&c);
    send_batch(5, 3);
    for (uint64_t run = 5; run <= 7; run++) {
        rig_want_output(&c.rig, run, NULL);
    }
}

Test(worker_command_batch, text_is_of_one_task) {
    command_prepare(&c, (const char *const[]){"true", NULL});
    c.hello.batch_size = 3;
    c.hello.stdout_form = WIRE_STDOUT_TEXT;
    command_start(&c);
    rig_want_refused(&c.rig, "'stdout: text' is of one task, but a stage with batch: runs many at once");
}
