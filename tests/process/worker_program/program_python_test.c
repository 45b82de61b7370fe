/* The module pgstage_worker.py: what the conformance suite cannot see of it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "program_rig.h"

static struct rig rig;

static void init(void) {
    setenv("PYTHONPATH", TEST_SOURCE_DIR "/sdk/workers/python", 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    unsetenv("PYTHONUNBUFFERED"); /* with it, what is printed before run() is out before it can be held */
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(program_python, .init = init, .fini = finish, .timeout = 300);

/* A worker whose handler has this body. */
#define HANDLER(BODY) "import pgstage_worker as pgstage\n@pgstage.handler\ndef handle(task):\n    " BODY "\npgstage.run()\n"

static void run_one(const char *script, const char *payload) {
    program_open(&rig, script);
    rig_run(&rig, 1, payload);
}

static void stop(void) {
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    rig_finish(&rig);
}

Test(program_python, failures_of_a_handler) {
    static const struct {
        const char *script;
        enum wire_outcome outcome;
        const char *message;
    } cases[] = {
        {HANDLER("raise pgstage.Retry('busy')"), WIRE_RETRY, "busy"},
        {HANDLER("raise pgstage.Fail"), WIRE_FAIL, "Fail"},
        {HANDLER("return {}['no']"), WIRE_RETRY, "KeyError: 'no'"},
        {HANDLER("sys.exit(3)"), WIRE_FAIL, "the handler called exit(3) instead of returning"},
        {HANDLER("return float('nan')"), WIRE_FAIL,
         "the result cannot be written as JSON: Out of range float values are not JSON compliant"},
        {HANDLER("return {1, 2}"), WIRE_FAIL, "the result cannot be written as JSON: Object of type set is not JSON serializable"},
        {HANDLER("return '\\ud800'"), WIRE_FAIL,
         "the result cannot be written as JSON: 'utf-8' codec can't encode character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_one(cases[i].script, NULL);
        struct wire_result result;
        rig_want_result(&rig, 1, &result);
        cr_assert_eq(result.outcome, cases[i].outcome, "%s", result.message.data);
        cr_assert(strstr(result.message.data, cases[i].message) == result.message.data, "%s", result.message.data);
        wire_result_finish(&result);
        stop();
    }
}

Test(program_python, nothing_else_reaches_the_two_pipes) {
    run_one("print('before run', end=' ')\n"
            "import pgstage_worker as pgstage, subprocess\n"
            "def handle(task):\n"
            "    print('in the handler')\n"
            "    os.write(1, b'in the library\\n')\n"
            "    subprocess.run(['sh', '-c', 'echo from a child; cat'])\n"
            "    return sys.stdin.read()\n"
            "pgstage.run(handle)\n",
            NULL);
    rig_want_output(&rig, 1, "\"\"");
    rig_want_printed(&rig, "before run in the handler\nin the library\nfrom a child\n");
    stop();
}

Test(program_python, values_as_large_as_the_database_takes) {
    enum { LEVELS = 2000, DIGITS = 100000 };
    char *payload = mem_alloc(2 * LEVELS + DIGITS + 1);
    memset(payload, '[', LEVELS);
    memset(payload + LEVELS, '7', DIGITS);
    memset(payload + LEVELS + DIGITS, ']', LEVELS);
    run_one(HANDLER("return task.payload"), payload);
    rig_want_output(&rig, 1, payload);
    free(payload);
    stop();
}

Test(program_python, init_state_and_fini) {
    struct wire_hello hello = program_hello("import pgstage_worker as pgstage\n"
                                            "def init(config):\n"
                                            "    if 'model' not in config: raise pgstage.Fail(\"with: 'model' is missing\")\n"
                                            "    return config['model'] * 2\n"
                                            "pgstage.run(lambda task: [task.state, task.remaining() > 50], init=init,\n"
                                            "    fini=lambda state: print('bye', state))\n");
    hello.config = (struct wire_bytes){"{\"model\": \"m\"}", 14};
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_send_run(&rig, &(struct wire_run){.run = 1, .lease_end_ms = INT64_MAX, .timeout_ms = 60000, .version = 1, .attempt = 1});
    rig_want_output(&rig, 1, "[\"mm\",true]");
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    rig_want_printed(&rig, "bye mm\n");
    rig_finish(&rig);
    hello.config = (struct wire_bytes){"{}", 2};
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_refused(&rig, "the program refused to start: with: 'model' is missing");
}

static void open_batch(const char *script) {
    struct wire_hello hello = program_hello(script);
    hello.batch_size = 3;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    program_run_batch(&rig, 1, 3);
}

Test(program_python, batches) {
    open_batch("import pgstage_worker as pgstage\n"
               "@pgstage.handler(batch=True)\n"
               "def handle(tasks):\n"
               "    tasks[1].fail('odd')\n"
               "    return [1, 2, pgstage.Retry('busy')]\n"
               "pgstage.run()\n");
    rig_want_output(&rig, 1, "1");
    program_want_end(&rig, 2, WIRE_FAIL, NULL, "odd");
    program_want_end(&rig, 3, WIRE_RETRY, NULL, "busy");
    stop();
    open_batch("import pgstage_worker as pgstage\n"
               "pgstage.run(lambda tasks: [1, 2], batch=True)\n");
    program_want_end(&rig, 1, WIRE_SPLIT, NULL, "the handler returned 2 outputs for 3 tasks");
    program_want_end(&rig, 2, WIRE_SPLIT, NULL, "the handler returned 2 outputs for 3 tasks");
    program_want_end(&rig, 3, WIRE_SPLIT, NULL, "the handler returned 2 outputs for 3 tasks");
    stop();
    open_batch(HANDLER("return task.payload + 10")); /* one that takes one at a time */
    rig_want_output(&rig, 1, "10");
    rig_want_output(&rig, 2, "11");
    rig_want_output(&rig, 3, "12");
    stop();
}

Test(program_python, is_told_while_it_computes) {
    run_one(HANDLER("task.log('waits')\n"
                    "    while not task.cancelled(): pass\n" /* the reader needs no help */
                    "    return [task.superseded(), task.wait_told()]"),
            NULL);
    rig_want_logged(&rig, "waits");
    rig_tell(&rig, 1, true, false);
    rig_want_output(&rig, 1, "[false,true]");
    stop();
}
