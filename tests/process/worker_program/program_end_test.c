/* How a program that stays can end, or break the protocol, and who has to pay for it. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "program_rig.h"

static struct rig rig;

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(program_end, .fini = finish, .timeout = 300);

/* Each says it is ready, gets a task with the id "1", and does this. */
static const struct {
    const char *script;
    enum wire_outcome outcome;
    const char *kind, *message;
} ends[] = {
    {"sys.exit(0)", WIRE_CRASH, "no_answer", "the program exited with status 0 before it answered"},
    {"sys.exit(3)", WIRE_CRASH, "no_answer", "the program exited with status 3 before it answered"},
    {"os.write(1, b'{\"type\":\"result\",\"id\":\"1\"}'); os._exit(0)", WIRE_CRASH, "no_answer",
     "the program exited with status 0 in the middle of a line"},
    {"os.kill(os.getpid(), signal.SIGSEGV)", WIRE_CRASH, "crash", "the program crashed: signal 11 (SIGSEGV)"},
    {"os.close(1); os.kill(os.getpid(), signal.SIGSEGV)", WIRE_CRASH, "crash", "the program crashed: signal 11 (SIGSEGV)"},
    {"os.kill(os.getpid(), signal.SIGKILL)", WIRE_LOST, "killed", "the program was killed by signal 9 (SIGKILL)"},
    {"os.close(1); signal.pause()", WIRE_CRASH, "no_answer",
     "the program closed its standard output before it answered, and lived on"},
    {"write('hello, world')", WIRE_CRASH, "protocol", "the program wrote a line that is no JSON object: hello, world"},
    {"write('{\"type\":\"result\",\"id\":\"1\"')", WIRE_CRASH, "protocol",
     "the program wrote a line that is no JSON object: {\"type\":\"result\",\"id\":\"1\""},
    {"write('[1]')", WIRE_CRASH, "protocol", "the program wrote a line that is no JSON object: [1]"},
    {"write('{}')", WIRE_CRASH, "protocol", "the program wrote a message without a type: {}"},
    {"say('result', id='2')", WIRE_CRASH, "protocol",
     "the program sent a result for an id that is not open: {\"type\": \"result\", \"id\": \"2\"}"},
    {"say('result', id='01')", WIRE_CRASH, "protocol",
     "the program sent a result for an id that is not open: {\"type\": \"result\", \"id\": \"01\"}"},
    {"say('result', id=1)", WIRE_CRASH, "protocol",
     "the program sent a result without an id: {\"type\": \"result\", \"id\": 1}"},
};

Test(program_end, each_end_of_a_task_has_its_kind) {
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char *script = mem_format("ready()\nhear()\n%s\nhear()\n", ends[i].script);
        program_open(&rig, script);
        free(script);
        rig_run(&rig, 1, NULL);
        program_want_end(&rig, 1, ends[i].outcome, ends[i].kind, ends[i].message);
        rig_want_exit(&rig, 0);
        rig_finish(&rig);
    }
}

Test(program_end, a_line_above_the_limit) {
    program_open(&rig, "ready()\nhear()\nwhile True: os.write(1, b'x' * 1000000)\n");
    rig_run(&rig, 1, NULL);
    program_want_end(&rig, 1, WIRE_CRASH, "protocol", "the program wrote a line of more than 256 MB");
    rig_want_exit(&rig, 0);
}

Test(program_end, a_batch_that_it_dies_of_is_to_be_split) {
    struct wire_hello hello = program_hello("ready()\n"
                                            "m = hear()\n"
                                            "say('result', id=m['tasks'][1]['id'])\n"
                                            "os.kill(os.getpid(), signal.SIGSEGV)\n");
    hello.batch_size = 2;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    program_run_batch(&rig, 1, 2);
    program_want_end(&rig, 1, WIRE_SPLIT, "crash", "the program crashed: signal 11 (SIGSEGV)");
    program_want_end(&rig, 2, WIRE_SPLIT, "crash", "the program crashed: signal 11 (SIGSEGV)");
    rig_want_exit(&rig, 0);
}

Test(program_end, two_results_for_one_are_none_for_the_other) {
    struct wire_hello hello = program_hello("ready()\n"
                                            "first = hear()['tasks'][0]['id']\n"
                                            "say('result', id=first)\n"
                                            "say('result', id=first)\n"
                                            "hear()\n");
    hello.batch_size = 2;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    program_run_batch(&rig, 1, 2);
    static const char why[] = "the program sent a result for an id that is not open: {\"type\": \"result\", \"id\": \"2\"}";
    program_want_end(&rig, 1, WIRE_SPLIT, "protocol", why);
    program_want_end(&rig, 2, WIRE_SPLIT, "protocol", why);
    rig_want_exit(&rig, 0);
}

Test(program_end, ok_for_a_batch_as_a_whole_is_a_breach) {
    struct wire_hello hello = program_hello("ready()\nsay('result', id=hear()['id'])\nhear()\n");
    hello.batch_size = 2;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    program_run_batch(&rig, 1, 1);
    program_want_end(&rig, 1, WIRE_CRASH, "protocol",
                     "the program answered a batch as a whole with another outcome than \"retry\" and \"fail\": "
                     "{\"type\": \"result\", \"id\": \"1\"}");
    rig_want_exit(&rig, 0);
}

Test(program_end, runs_behind_the_one_it_died_of_are_not_to_blame) {
    program_open(&rig, "ready()\nhear()\nsay('log', message='has one')\nos.read(0, 1)\nos._exit(1)\n");
    rig_run(&rig, 1, NULL);
    rig_want_logged(&rig, "has one");
    rig_run(&rig, 2, NULL);
    rig_tell(&rig, 1, true, false); /* the byte that it waits for */
    program_want_end(&rig, 1, WIRE_CRASH, "no_answer", "the program exited with status 1 before it answered");
    cr_assert(rig.said_last, "the node gets to know before the answer");
    rig_want_exit(&rig, 0); /* without a word of the second: it is the node's again */
}

Test(program_end, its_end_between_two_tasks_ends_the_worker) {
    program_open(&rig, "ready()\nsay('result', id=hear()['id'])\nsys.exit(7)\n");
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, NULL);
    rig_want_exit(&rig, 0);
    rig_want_printed(&rig, "pgstage-worker: the program exited with status 7 while it had no task");
}

Test(program_end, a_second_result_ends_the_worker) {
    program_open(&rig, "ready()\nline = json.dumps({'type': 'result', 'id': hear()['id']})\nwrite(line + '\\n' + line)\nhear()\n");
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, NULL);
    rig_want_exit(&rig, 0);
    rig_want_printed(&rig, "while it had no task, the program sent a result for an id that is not open");
}

Test(program_end, starts_that_are_refused) {
    static const struct {
        const char *script, *reason;
    } cases[] = {
        {"hear()\nsay('refused', message='with: no model')\nhear()\n", "the program refused to start: with: no model"},
        {"hear()\nsay('refused')\n", "the program refused to start: it gave no reason"},
        {"sys.exit(1)\n", "the program exited with status 1 before it was ready"},
        {"os.kill(os.getpid(), signal.SIGKILL)\n", "the program was killed by signal 9 (SIGKILL) before it was ready"},
        {"print('loading', flush=True)\nready()\nhear()\n", "the program wrote a line that is no JSON object: loading"},
        {"say('result', id='1')\nhear()\nhear()\n",
         "the program sent a result for an id that is not open: {\"type\": \"result\", \"id\": \"1\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_begin(&rig, cases[i].script);
        rig_want_refused(&rig, cases[i].reason);
        rig_finish(&rig);
    }
}

Test(program_end, a_program_that_is_not_there) {
    struct wire_hello hello = program_hello("");
    struct wire_bytes argument = {"no-such-program", 15};
    hello.argument_count = 1;
    hello.arguments = &argument;
    hello.folder = (struct wire_bytes){"/srv", 4};
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_refused(&rig, "there is no program 'no-such-program' in the pipeline's folder /srv, nor in PATH");
}

Test(program_end, silence_at_start_ends_with_the_node) {
    program_begin(&rig, "sys.stderr.write('child %d\\n' % os.getpid())\nsys.stderr.flush()\nsignal.pause()\n");
    rig_want_printed(&rig, "child ");
    rig_want_printed(&rig, "\n");
    struct watched child = watch_process((pid_t)atol(rig.printed.data + strlen("child ")));
    close(rig.node);
    rig.node = -1;
    rig_want_signal(&rig, SIGKILL);
    cr_assert(ended_within(child, 2000));
}

Test(program_end, what_it_started_ends_with_it) {
    program_open(&rig, "ready()\n"
                       "if os.fork() == 0:\n"
                       "    if os.fork() == 0:\n"
                       "        os.setsid()\n"
                       "        say('log', message='child %d' % os.getpid())\n"
                       "        while True: signal.pause()\n"
                       "    os._exit(0)\n"
                       "say('result', id=hear()['id'])\n"
                       "hear()\n");
    struct watched child = rig_want_child(&rig);
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, NULL);
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    cr_assert(ended_within(child, 2000));
}

/* A child that holds standard output, or writes there for ever, does not keep its end from being seen. */
Test(program_end, is_seen_whatever_its_children_do) {
    static const char *const children[] = {"signal.pause()", "os.write(1, b'\\n' * 60000)"};
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++) {
        char *script = mem_format("ready()\n"
                                  "hear()\n"
                                  "if os.fork() == 0:\n"
                                  "    while True: %s\n"
                                  "os._exit(1)\n",
                                  children[i]);
        program_open(&rig, script);
        free(script);
        rig_run(&rig, 1, NULL);
        program_want_end(&rig, 1, WIRE_CRASH, "no_answer", "the program exited with status 1 before it answered");
        rig_want_exit(&rig, 0);
        rig_finish(&rig);
    }
}

/* What it does not read any more is lost, and is no SIGPIPE for the worker, now or later. */
Test(program_end, of_its_standard_input_is_not_the_workers) {
    program_open(&rig, "ready()\nos.read(0, 10)\nos.close(0)\nsay('log', message='closed')\nsignal.pause()\n");
    char *payload = mem_alloc(5000001);
    memset(payload, '1', 5000000);
    rig_run(&rig, 1, payload);
    free(payload);
    rig_want_logged(&rig, "closed");
    cr_assert_eq(kill(-rig.pid, SIGTERM), 0);
    rig_want_signal(&rig, SIGTERM);
}

/* What it used before it was ready is not this task's, and KILL is not the limit's. */
Test(program_end, cpu_time_of_its_life_is_not_limited) {
    struct wire_hello hello = program_hello("while time.process_time() < 3.2: pass\n"
                                            "ready()\n"
                                            "hear()\n"
                                            "os.kill(os.getpid(), signal.SIGKILL)\n");
    hello.cpu_seconds = 1;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, NULL);
    program_want_end(&rig, 1, WIRE_LOST, "killed", "the program was killed by signal 9 (SIGKILL)");
    rig_want_exit(&rig, 0);
}

/* It spends 0.5 s on each of three: together more than one may use. */
Test(program_end, cpu_time_is_limited_by_the_task) {
    struct wire_hello hello = program_hello("ready()\n"
                                            "while (m := hear()) and m['type'] == 'task':\n"
                                            "    end = time.process_time() + (m['payload'] or 1000)\n"
                                            "    while time.process_time() < end: pass\n"
                                            "    say('result', id=m['id'])\n"
                                            "    if m['id'] == '1':\n" /* between two tasks there is no limit */
                                            "        while len(set(resource.getrlimit(resource.RLIMIT_CPU))) > 1: time.sleep(0.01)\n"
                                            "        while time.process_time() < 3: pass\n"
                                            "        say('log', message='rested')\n");
    hello.cpu_seconds = 1;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    for (uint64_t run = 1; run <= 3; run++) {
        rig_run(&rig, run, "0.5");
        rig_want_output(&rig, run, NULL);
        rig_want_logged(&rig, "rested");
    }
    rig_run(&rig, 4, NULL);
    program_want_end(&rig, 4, WIRE_CRASH, "crash",
                     "the program crashed: signal 24 (SIGXCPU): the stage's limit of CPU time was reached");
    rig_want_exit(&rig, 0);
}

Test(program_end, limits_are_those_of_the_program) {
    struct wire_hello hello = program_hello("ready()\n"
                                            "say('result', id=hear()['id'], output=[resource.getrlimit(x)[0] for x in\n"
                                            "    (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)] +\n"
                                            "    sorted(os.listdir('/proc/self/fd')))\n"
                                            "hear()\n");
    hello.address_space_bytes = 400000000;
    hello.file_size_bytes = 1000000;
    hello.open_files = 50;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, "[400000000, 1000000, 50, \"0\", \"1\", \"2\", \"3\"]"); /* 3: of listdir itself */
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
}
