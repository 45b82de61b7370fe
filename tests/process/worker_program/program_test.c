/* A program that stays and speaks JSON lines: what it is told, and what becomes of what it says. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "program_rig.h"

static struct rig rig;

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(program, .fini = finish, .timeout = 300);

/* Answers each task with what the expression `E` makes of it, `m`. */
#define ANSWER(E)                                                                                                      \
    "ready()\n"                                                                                                        \
    "while (m := hear()) and m['type'] != 'stop':\n"                                                                   \
    "    say('result', id=m['id'], **(" E "))\n"

static void want_stop(void) {
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
}

Test(program, hello_and_a_task_have_what_the_protocol_says) {
    struct wire_hello hello = program_hello("hello = ready()\n"
                                            "say('result', id=(task := hear())['id'], output=[hello, task])\n"
                                            "hear()");
    hello.config = (struct wire_bytes){"{\"model\":\n\"é\"}", 15};
    hello.folder = (struct wire_bytes){"/srv/l\"ib", 9};
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_send_run(&rig, &(struct wire_run){.run = 900,
                                          .lease_end_ms = INT64_MAX,
                                          .timeout_ms = 60000,
                                          .version = 9007199254740993,
                                          .attempt = 2,
                                          .key = {"a\"b\n\xc3\xa9", 6},
                                          .payload = {"{\n\"a\": 1}", 9},
                                          .inputs = {"{\"x\": []}", 9},
                                          .has_progress = true,
                                          .progress = 0.4,
                                          .progress_text = {"page 4", 6}});
    rig_want_output(&rig, 900,
                    "[{\"type\": \"hello\", \"protocol\": 1, \"pipeline\": \"library\", \"stage\": \"extract\", "
                    "\"folder\": \"/srv/l\\\"ib\", \"with\": {\"model\": \"\\u00e9\"}}, "
                    "{\"type\": \"task\", \"id\": \"1\", \"key\": \"a\\\"b\\n\\u00e9\", \"version\": 9007199254740993, "
                    "\"attempt\": 2, \"payload\": {\"a\": 1}, \"input\": null, \"inputs\": {\"x\": []}, "
                    "\"progress\": {\"fraction\": 0.4, \"message\": \"page 4\"}, \"timeout_ms\": 60000}]");
    want_stop();
}

Test(program, output_is_the_text_of_the_line) {
    program_open(&rig, "ready()\n"
                       "line = sys.stdin.readline()\n"
                       "value = line[line.index('\"payload\":') + 10:line.index(',\"input\"')]\n"
                       "write('{\"output\" : ' + value + ',\"id\":\"1\",\"type\":\"result\"}')\n"
                       "hear()\n");
    static const char value[] =
        "{\"n\": 123456789012345678901234567890.10, \"e\": 1E400, \"z\": 1.50, \"u\": \"\\u00e9\xf0\x9f\x90\x98\"}";
    rig_run(&rig, 5, value);
    rig_want_output(&rig, 5, value);
    want_stop();
}

Test(program, outcomes) {
    static const struct {
        const char *expression;
        enum wire_outcome outcome;
        const char *message;
    } cases[] = {
        {"{'outcome': 'retry', 'message': 'busy \\u017e'}", WIRE_RETRY, "busy \xc5\xbe"},
        {"{'outcome': 'fail', 'message': 'page 3 is empty', 'output': 1}", WIRE_FAIL, "page 3 is empty"},
        {"{'outcome': 'maybe'}", WIRE_FAIL, "the result's 'outcome' is none of \"ok\", \"retry\" and \"fail\""},
        {"{'output': 'a\\0b'}", WIRE_FAIL,
         "the output is not JSON that can be stored: byte 3: \\u0000, which PostgreSQL cannot store"},
        {"{'route': 'a', 'finish': True}", WIRE_FAIL, "the result has more than one of 'route', 'finish' and 'snooze_ms'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *script = mem_format(ANSWER("%s"), cases[i].expression);
        program_open(&rig, script);
        free(script);
        rig_run(&rig, 1, NULL);
        program_want_end(&rig, 1, cases[i].outcome, NULL, cases[i].message);
        rig_run(&rig, 2, NULL); /* it lives on */
        program_want_end(&rig, 2, cases[i].outcome, NULL, cases[i].message);
        want_stop();
        rig_finish(&rig);
    }
}

Test(program, sql_and_a_route) {
    program_open(&rig, ANSWER("{'sql': [{'sql': 'insert $1 $2 $3 $4', 'params': ['x', None, 10**30, True]}], 'route': 'review'}"));
    rig_run(&rig, 1, NULL);
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    cr_assert_eq(result.outcome, WIRE_OK);
    cr_assert_eq(result.statement_count, 1);
    cr_assert_str_eq(result.statements[0].sql.data, "insert $1 $2 $3 $4");
    cr_assert_str_eq(result.statements[0].parameters[0].data, "x");
    cr_assert_null(result.statements[0].parameters[1].data);
    cr_assert_str_eq(result.statements[0].parameters[2].data, "1000000000000000000000000000000");
    cr_assert_str_eq(result.statements[0].parameters[3].data, "true");
    cr_assert_eq(result.flow, WIRE_ROUTE);
    cr_assert_str_eq(result.target.data, "review");
    wire_result_finish(&result);
    want_stop();
}

Test(program, log_progress_and_what_is_not_known) {
    program_open(&rig, "ready()\n"
                       "say('log', message='of nobody')\n"
                       "id = hear()['id']\n"
                       "say('log', id=id, message='page 5', fields={'page': 5})\n"
                       "say('log', id='77', message='of another', colour='blue')\n"
                       "say('progress', id=id, fraction=0.5, message='half')\n"
                       "say('progress', id='77', fraction=0.9)\n"
                       "say('weather', rain=[])\n"
                       "say('ready')\n"
                       "write('')\n"
                       "write(' \\r')\n"
                       "say('result', id=id, colour='blue')\n"
                       "hear()\n");
    rig_run(&rig, 1, NULL);
    rig_want_output(&rig, 1, NULL);
    cr_assert_str_eq(rig.logged.data, "of nobody\npage 5 {\"page\":5}\nof another\n"
                                      "the program sent a message of the type 'weather', which is not known here (such ones "
                                      "are ignored)\n");
    cr_assert_eq(rig.progress_count, 1);
    cr_assert_eq(rig.fraction, 0.5);
    want_stop();
}

Test(program, cancelled_and_superseded_are_told_while_it_runs) {
    program_open(&rig, "ready()\n"
                       "task = hear()\n"
                       "say('log', message='waits')\n"
                       "told = [hear()]\n"
                       "say('log', message='heard')\n"
                       "say('result', id=task['id'], output=told + [hear()])\n"
                       "hear()\n");
    rig_run(&rig, 8, NULL);
    rig_want_logged(&rig, "waits");
    rig_tell(&rig, 8, false, true);
    rig_want_logged(&rig, "heard");
    rig_tell(&rig, 8, false, true); /* nothing new: not told again */
    rig_tell(&rig, 8, true, true);
    rig_want_output(&rig, 8, "[{\"type\": \"tell\", \"id\": \"1\", \"cancelled\": false, \"superseded\": true}, "
                             "{\"type\": \"tell\", \"id\": \"1\", \"cancelled\": true, \"superseded\": true}]");
    want_stop();
}

Test(program, a_batch_is_answered_in_any_order) {
    struct wire_hello hello = program_hello("ready()\n"
                                            "while (m := hear())['type'] == 'batch':\n"
                                            "    for t in reversed(m['tasks']):\n"
                                            "        bad = t['payload'] == 1\n"
                                            "        say('result', id=t['id'], outcome='fail' if bad else 'ok',\n"
                                            "            message='odd', output=[m['id'], t['id'], t['payload'], m.get('timeout_ms')])\n");
    hello.batch_size = 3;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    program_run_batch(&rig, 10, 3);
    rig_want_output(&rig, 10, "[\"1\", \"2\", 0, null]");
    program_want_end(&rig, 11, WIRE_FAIL, NULL, "odd");
    rig_want_output(&rig, 12, "[\"1\", \"4\", 2, null]");
    program_run_batch(&rig, 20, 1); /* one alone is a batch, too */
    rig_want_output(&rig, 20, "[\"5\", \"6\", 0, null]");
    want_stop();
}

Test(program, a_batch_may_fail_as_a_whole) {
    struct wire_hello hello = program_hello("ready()\n"
                                            "while (m := hear())['type'] == 'batch':\n"
                                            "    say('result', id=m['tasks'][0]['id'], output=1)\n"
                                            "    if len(m['tasks']) > 1:\n"
                                            "        say('result', id=m['id'], outcome='retry', message='the model is gone')\n");
    hello.batch_size = 2;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    program_run_batch(&rig, 1, 2);
    program_want_end(&rig, 1, WIRE_SPLIT, NULL, "the model is gone");
    program_want_end(&rig, 2, WIRE_SPLIT, NULL, "the model is gone");
    program_run_batch(&rig, 3, 1);
    rig_want_output(&rig, 3, "1");
    want_stop();
}

/* C50: neither side waits for the other. */
Test(program, full_pipes_hold_nobody_up) {
    program_open(&rig, "ready()\n"
                       "line = 'x' * 99\n"
                       "for i in range(100000):\n"
                       "    sys.stderr.write(line + '\\n')\n" /* 10 MB, before it reads 5 MB */
                       "for i in range(2000):\n"
                       "    say('log', message=line)\n"
                       "task = hear()\n"
                       "say('result', id=task['id'], output=task['payload'] * 2)\n"
                       "hear()\n");
    char *payload = mem_alloc(5000003);
    memset(payload, 'a', 5000002);
    payload[0] = payload[5000001] = '"';
    rig_run(&rig, 1, payload);
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    cr_assert_eq(result.output.length, 10000002);
    wire_result_finish(&result);
    free(payload);
    want_stop();
}

Test(program, one_that_never_reads_can_answer_and_be_stopped) {
    program_open(&rig, "import select\n"
                       "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                       "ready()\n"
                       "select.select([0], [], [])\n"
                       "say('result', id='1')\n"
                       "signal.pause()\n");
    char *payload = mem_alloc(5000001);
    memset(payload, '1', 5000000);
    rig_run(&rig, 1, payload);
    rig_want_output(&rig, 1, NULL);
    free(payload);
    want_stop(); /* after 8 s, by TERM in vain, and by KILL */
}

Test(program, stop_is_told_and_waited_for) {
    program_open(&rig, "ready()\n"
                       "m = hear()\n"
                       "sys.stderr.write('heard %s then %s\\n' % (m, hear()))\n"
                       "sys.exit(5)\n");
    want_stop();
    rig_want_printed(&rig, "heard {'type': 'stop'} then None");
}
