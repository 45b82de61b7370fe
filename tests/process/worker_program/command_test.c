/* A program for each task: what its exit status, its signal, its output and its result file mean, one row at a time; and
 * what it finds when it starts. */
#include "command_rig.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct command_rig c;

static void finish(void) {
    command_finish(&c);
}

TestSuite(worker_command, .fini = finish, .timeout = 180);

/* ---- the outcome table ---- */

static const struct {
    const char *script;
    enum wire_outcome outcome;
    const char *kind, *message;
} failures[] = {
    {"exit 75", WIRE_RETRY, NULL, "the program exited with status 75"},
    {"echo not yet >&2; exit 75", WIRE_RETRY, NULL, "not yet"},
    {"exit 64", WIRE_FAIL, NULL, "the program exited with status 64"},
    {"echo no page >&2; echo >&2; exit 65", WIRE_FAIL, NULL, "no page"},
    {"exit 66", WIRE_FAIL, NULL, "the program exited with status 66"},
    {"exit 77", WIRE_FAIL, NULL, "the program exited with status 77"},
    {"exit 78", WIRE_FAIL, NULL, "the program exited with status 78"},
    {"exit 1", WIRE_RETRY, NULL, "the program exited with status 1"},
    {"echo one >&2; printf two >&2; exit 3", WIRE_RETRY, NULL, "the program exited with status 3: two"},
    {"exit 70", WIRE_RETRY, NULL, "the program exited with status 70"},
    {"exit 127", WIRE_RETRY, NULL, "the program exited with status 127"},
    {"exit 255", WIRE_RETRY, NULL, "the program exited with status 255"},
    {"echo '{}'; exit 3", WIRE_RETRY, NULL, "the program exited with status 3"},
    {"echo '{', 1", WIRE_CRASH, "protocol", "the program's standard output is not JSON: byte 2 of 5"},
    {"echo '[1,2'", WIRE_CRASH, "protocol", "the program's standard output is not JSON: byte 6 of 5"},
    {"echo '{}{}'", WIRE_CRASH, "protocol", "the program's standard output is not JSON: byte 3 of 5"},
    {"echo hello", WIRE_CRASH, "protocol", "the program's standard output is not JSON: byte 1 of 6"},
    {"echo '{}'; kill -SEGV $$", WIRE_CRASH, "crash", "the program crashed: signal 11 (SIGSEGV)"},
    {"kill -BUS $$", WIRE_CRASH, "crash", "the program crashed: signal 7 (SIGBUS)"},
    {"kill -ILL $$", WIRE_CRASH, "crash", "the program crashed: signal 4 (SIGILL)"},
    {"kill -FPE $$", WIRE_CRASH, "crash", "the program crashed: signal 8 (SIGFPE)"},
    {"echo '{}'; kill -ABRT $$", WIRE_CRASH, "crash", "the program crashed: signal 6 (SIGABRT)"},
    {"kill -SYS $$", WIRE_CRASH, "crash", "the program crashed: signal 31 (SIGSYS)"},
    {"kill -XFSZ $$", WIRE_CRASH, "crash",
     "the program crashed: signal 25 (SIGXFSZ): the stage's limit of file size was reached"},
    {"kill -XCPU $$", WIRE_CRASH, "crash",
     "the program crashed: signal 24 (SIGXCPU): the stage's limit of CPU time was reached"},
    {"kill -HUP $$", WIRE_LOST, "killed", "the program was killed by signal 1 (SIGHUP)"},
    {"kill -TERM $$", WIRE_LOST, "killed", "the program was killed by signal 15 (SIGTERM)"},
    {"kill -PIPE $$", WIRE_LOST, "killed", "the program was killed by signal 13 (SIGPIPE)"},
};

Test(worker_command, each_end_is_told_apart) {
    command_open_script(&c, "");
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        command_write(&c, "run.sh", failures[i].script, false);
        command_run(&c, i + 1, NULL);
        command_want(&c, i + 1, failures[i].outcome, failures[i].kind, failures[i].message);
    }
    command_write(&c, "run.sh", "echo ' {\"a\": 12345678901234567890123.50} '", false);
    command_expect(&c, 100, NULL, "{\"a\": 12345678901234567890123.50}");
    command_write(&c, "run.sh", "", false);
    command_expect(&c, 101, NULL, NULL);
    command_write(&c, "run.sh", "echo; echo", false);
    command_expect(&c, 102, NULL, NULL);
    command_write(&c, "run.sh", "echo null", false);
    command_expect(&c, 103, NULL, "null");
    command_stop(&c);
}

Test(worker_command, a_kill_from_outside_is_nobody_s_fault_here) {
    command_open_script(&c, "echo pid $$. >&2; exec sleep 100");
    command_run(&c, 1, NULL);
    cr_assert_eq(kill(command_want_pid(&c), SIGKILL), 0);
    command_want(&c, 1, WIRE_LOST, "killed", "the program was killed by signal 9 (SIGKILL)");
    command_stop(&c);
}

Test(worker_command, json_that_cannot_be_stored_fails_the_task_for_good) {
    command_open_script(&c, "printf '{\"a\":\"\\\\u0000\"}'");
    command_run(&c, 1, NULL);
    command_want(&c, 1, WIRE_FAIL, NULL,
                 "the output is not JSON that can be stored: byte 7: \\u0000, which PostgreSQL cannot store");
    command_finish(&c);
    command_open_script(&c, "printf '\"\\377\"'");
    command_run(&c, 1, NULL);
    command_want(&c, 1, WIRE_FAIL, NULL, "the output is not JSON that can be stored: byte 2: bytes that are not UTF-8");
}

/* ---- what it gets ---- */

Test(worker_command, the_task_is_on_standard_input) {
    command_prepare(&c, (const char *const[]){"cat", NULL});
    c.hello.config = (struct wire_bytes){"{\"size\":12}", 11};
    command_open(&c);
    static const char payload[] = "{\"n\":123456789012345678901234567890}", input[] = "[1.10]", inputs[] = "{\"a\":null}";
    rig_send_run(&c.rig, &(struct wire_run){.run = 1,
                                            .lease_end_ms = INT64_MAX,
                                            .version = INT64_MAX,
                                            .attempt = 7,
                                            .key = {"a \"b\"\n\xC3\xA4", 8},
                                            .payload = {payload, sizeof payload - 1},
                                            .input = {input, sizeof input - 1},
                                            .inputs = {inputs, sizeof inputs - 1},
                                            .has_progress = true,
                                            .progress = 0.25,
                                            .progress_text = {"page 1", 6}});
    rig_want_output(&c.rig, 1,
                    "{\"pipeline\":\"library\",\"stage\":\"extract\",\"with\":{\"size\":12},\"key\":\"a \\\"b\\\"\\n\xC3\xA4\","
                    "\"version\":9223372036854775807,\"attempt\":7,\"payload\":{\"n\":123456789012345678901234567890},"
                    "\"input\":[1.10],\"inputs\":{\"a\":null},\"progress\":{\"fraction\":0.25,\"message\":\"page 1\"}}");
    command_expect(&c, 2, NULL,
                   "{\"pipeline\":\"library\",\"stage\":\"extract\",\"with\":{\"size\":12},\"key\":\"doc\",\"version\":1,"
                   "\"attempt\":1,\"payload\":null,\"input\":null,\"inputs\":{}}");
}

static char *large_payload(size_t length) {
    char *payload = malloc(length + 1);
    cr_assert_not_null(payload);
    memset(payload, 'x', length);
    payload[0] = payload[length - 1] = '"';
    payload[length] = '\0';
    return payload;
}

/* C50: 10 MB to standard error, before 5 MB are read, and 10 MB to standard output after that. */
Test(worker_command, no_pipe_is_ever_full) {
    command_open_script(&c, "head -c 10000000 /dev/zero | tr '\\0' e >&2; n=$(wc -c); printf '{\"n\":%d,\"t\":\"' $n; "
                            "head -c 10000000 /dev/zero | tr '\\0' o; printf '\"}'");
    char *payload = large_payload(5000000);
    int64_t begin = now_ms();
    command_run(&c, 1, payload);
    struct wire_result result;
    rig_want_result(&c.rig, 1, &result);
    cr_assert_eq(result.outcome, WIRE_OK, "%s", result.message.data);
    cr_assert_gt(result.output.length, 10000000);
    long read_bytes = atol(result.output.data + strlen("{\"n\":"));
    cr_assert(read_bytes > 5000000 && read_bytes < 5000300, "%ld", read_bytes);
    wire_result_finish(&result);
    cr_assert_lt(now_ms() - begin, 20000);
    free(payload);
    rig_stop(&c.rig);
    rig_want_exit(&c.rig, 0);
    cr_assert_geq(c.rig.printed.length, 10000000, "all of standard error has come");
}

Test(worker_command, a_large_task_is_a_file_and_standard_input_is_that_file) {
    command_open_script(&c, "a=$(cksum); b=$(cksum < \"${PGSTAGE_TASK_FILE:-/dev/null}\"); "
                            "test \"$a\" = \"$b\" && same=true || same=false; "
                            "printf '[%s,\"%s\",%s]' $same \"${PGSTAGE_TASK_FILE:-none}\" "
                            "$(test -z \"$PGSTAGE_TASK_FILE\" && echo 0 || stat -c %a \"$PGSTAGE_TASK_FILE\")");
    char *payload = large_payload(2000000), output[200];
    command_run(&c, 1, payload);
    snprintf(output, sizeof output, "[true,\"%s/task.json\",600]", c.work);
    rig_want_output(&c.rig, 1, output);
    command_expect(&c, 2, "1", "[false,\"none\",0]");
    char path[200];
    snprintf(path, sizeof path, "%s/task.json", c.work);
    cr_assert_neq(access(path, F_OK), 0, "it is removed after the run");
    free(payload);
}

/* The worker itself has the node's socket and its lock file, too, and would leave a core file. */
Test(worker_command, it_has_three_descriptors_and_signals_as_they_are_by_default) {
    setenv("PGSTAGE_KEY", "of somebody else", 1);
    setrlimit(RLIMIT_CORE, &(struct rlimit){1 << 20, 1 << 20});
    command_prepare(&c, (const char *const[]){"sh", "run.sh", NULL});
    command_write(&c, "run.sh",
                  "ls /proc/self/fd | tr '\\n' ' ' >&2\n"
                  "sed -n 's/^Sig\\(Blk\\|Ign\\):.*\\(.......\\)$/\\1 \\2/p' /proc/self/status >&2\n"
                  "ulimit -c >&2\n"
                  "ps -o pgid= -p $$ | tr -d ' ' >&2\n"
                  "printf '\"%s %s %s %s %s %s\"' \"$PGSTAGE_PIPELINE\" \"$PGSTAGE_STAGE\" \"$PGSTAGE_KEY\" "
                  "\"$PGSTAGE_VERSION\" \"$PGSTAGE_ATTEMPT\" \"$PGSTAGE_RESULT_FILE\"",
                  false);
    int lock = memfd_create("lock", 0);
    rig_start_like(&c.rig, &(struct rig_setup){.lock_fd = lock});
    close(lock);
    rig_say_hello(&c.rig, &c.hello);
    rig_want_ready(&c.rig);
    char output[200];
    snprintf(output, sizeof output, "\"library extract doc 1 1 %s/result.json\"", c.work);
    command_expect(&c, 1, NULL, output);
    char seen[200];
    snprintf(seen, sizeof seen, "0 1 2 3 Blk 0000000\nIgn 0000000\n0\n%ld\n", (long)c.rig.pid);
    rig_want_printed(&c.rig, seen); /* 3 is that of ls itself; the last signals of a mask are the C library's */
}

/* ---- text and nothing ---- */

static void open_form(enum wire_stdout form, const char *script) {
    command_prepare(&c, (const char *const[]){"sh", "-c", script, NULL});
    c.hello.stdout_form = form;
    command_open(&c);
}

Test(worker_command, text_is_an_output_whatever_is_in_it) {
    open_form(WIRE_STDOUT_TEXT, "printf 'a\\000b\\377\\\\ \"\\303\\244\\001\\n'");
    command_expect(&c, 1, NULL, "{\"text\":\"ab\xEF\xBF\xBD\\\\ \\\"\xC3\xA4\\u0001\\n\"}");
    command_finish(&c);
    open_form(WIRE_STDOUT_TEXT, "");
    command_expect(&c, 1, NULL, "{\"text\":\"\"}");
}

Test(worker_command, ignored_output_goes_to_the_log) {
    open_form(WIRE_STDOUT_IGNORE, "echo for the log, no JSON");
    command_expect(&c, 1, NULL, NULL);
    rig_want_printed(&c.rig, "for the log, no JSON\n");
}

Test(worker_command, output_of_a_run_that_failed_goes_to_the_log) {
    command_open_script(&c, "echo a traceback; exit 1");
    command_run(&c, 1, NULL);
    command_want(&c, 1, WIRE_RETRY, NULL, "the program exited with status 1");
    rig_want_printed(&c.rig, "a traceback\n");
}

/* C73: a reason that cannot be stored as it is. */
Test(worker_command, the_reason_of_a_failure_is_always_text) {
    command_open_script(&c, "printf 'bad \\377\\000\\033[31m byte\\n\\n' >&2; exit 65");
    command_run(&c, 1, NULL);
    command_want(&c, 1, WIRE_FAIL, NULL, "bad \xEF\xBF\xBD\xEF\xBF\xBD?[31m byte");
    command_finish(&c);
    command_open_script(&c, "head -c 50000000 /dev/zero | tr '\\0' x >&2; exit 65");
    command_run(&c, 1, NULL);
    struct wire_result result;
    rig_want_result(&c.rig, 1, &result);
    cr_assert_eq(result.outcome, WIRE_FAIL);
    cr_assert(result.message.length > 1000 && result.message.length <= 4000, "%u", result.message.length);
    wire_result_finish(&result);
}

Test(worker_command, more_output_than_can_be_is_read_and_fails_the_task) {
    command_open_script(&c, "head -c 300000000 /dev/zero; echo read >&2");
    command_run(&c, 1, NULL);
    command_want(&c, 1, WIRE_FAIL, NULL,
                 "the program's standard output has 300000000 bytes, above the limit of 268435456");
    rig_want_printed(&c.rig, "read\n");
    command_finish(&c);
    open_form(WIRE_STDOUT_TEXT, "head -c 140000000 /dev/zero | tr '\\0' x");
    command_run(&c, 1, NULL);
    command_want(&c, 1, WIRE_FAIL, NULL,
                 "the program's text is, as JSON, larger than the limit of 134217728 bytes for an output");
}

/* ---- the result file ---- */

static void want_result(const char *file, struct wire_result *result) {
    static uint64_t run = 1;
    command_run(&c, run, file);
    rig_want_result(&c.rig, run++, result);
}

/* The payload, a JSON text, is what the program writes into its result file. */
static void open_result_file(void) {
    command_prepare(&c, (const char *const[]){"sh", "-c",
                                              "printf %s \"$1\" > \"$PGSTAGE_RESULT_FILE\"; echo not JSON", "sh",
                                              "{payload}", NULL});
    command_open(&c);
}

Test(worker_command, a_result_file_is_the_whole_result) {
    struct wire_result result;
    open_result_file();
    want_result("{\"output\":{\"n\":1e400},\"sql\":[{\"sql\":\"insert into t values ($1,$2,$3,$4,$5)\",\"params\":"
                "[\"a\\u00e4\\ud83d\\ude00\",null,1.50,true,{\"a\":[1]}]},{\"sql\":\"select 1\"}],\"route\":\"review\","
                "\"unknown\":1}",
                &result);
    cr_assert_eq(result.outcome, WIRE_OK, "%s", result.message.data);
    cr_assert_str_eq(result.output.data, "{\"n\":1e400}");
    cr_assert_eq(result.statement_count, 2);
    cr_assert_eq(result.statements[0].parameter_count, 5);
    cr_assert_str_eq(result.statements[0].sql.data, "insert into t values ($1,$2,$3,$4,$5)");
    cr_assert_str_eq(result.statements[0].parameters[0].data, "a\xC3\xA4\xF0\x9F\x98\x80");
    cr_assert_null(result.statements[0].parameters[1].data);
    cr_assert_str_eq(result.statements[0].parameters[2].data, "1.50");
    cr_assert_str_eq(result.statements[0].parameters[3].data, "true");
    cr_assert_str_eq(result.statements[0].parameters[4].data, "{\"a\":[1]}");
    cr_assert_eq(result.statements[1].parameter_count, 0);
    cr_assert_eq(result.flow, WIRE_ROUTE);
    cr_assert_str_eq(result.target.data, "review");
    wire_result_finish(&result);
    want_result("{\"snooze_ms\":1500}", &result);
    cr_assert_eq(result.flow, WIRE_SNOOZE);
    cr_assert_eq(result.delay_ms, 1500);
    wire_result_finish(&result);
    want_result("{\"finish\":true,\"route\":null,\"outcome\":\"ok\"}", &result);
    cr_assert_eq(result.flow, WIRE_FINISH);
    wire_result_finish(&result);
    want_result("{\"finish\":false,\"output\":null}", &result);
    cr_assert_eq(result.flow, WIRE_GO_ON);
    cr_assert_str_eq(result.output.data, "null");
    wire_result_finish(&result);
    rig_want_printed(&c.rig, "not JSON\n");
}

static const struct {
    const char *file;
    enum wire_outcome outcome;
    const char *kind, *message;
} bad_files[] = {
    {"{\"outcome\":\"retry\",\"message\":\"later\"}", WIRE_RETRY, NULL, "later"},
    {"{\"outcome\":\"fail\",\"message\":\"a\\u0000b\\ud800c\"}", WIRE_FAIL, NULL, "a\xEF\xBF\xBD" "b\xEF\xBF\xBD" "c"},
    {"{\"outcome\":\"fail\"}", WIRE_FAIL, NULL, "the program gave no reason"},
    {"{\"outcome\":\"fail\",\"message\":7}", WIRE_FAIL, NULL, "the result's 'message' is no text"},
    {"{\"outcome\":\"done\"}", WIRE_FAIL, NULL, "the result's 'outcome' is none of \"ok\", \"retry\" and \"fail\""},
    {"{\"output\":\"\\u0000\"}", WIRE_FAIL, NULL,
     "the output is not JSON that can be stored: byte 2: \\u0000, which PostgreSQL cannot store"},
    {"{\"sql\":\"select 1\"}", WIRE_FAIL, NULL, "the result's 'sql' is no list"},
    {"{\"sql\":[\"select 1\"]}", WIRE_FAIL, NULL,
     "the result's 'sql' has an entry that is not {\"sql\": TEXT, \"params\": LIST}"},
    {"{\"sql\":[{\"sql\":\"select $1\",\"params\":{}}]}", WIRE_FAIL, NULL,
     "the result's 'sql' has an entry that is not {\"sql\": TEXT, \"params\": LIST}"},
    {"{\"sql\":[{\"sql\":\"select $1\",\"params\":[\"a\\u0000\"]}]}", WIRE_FAIL, NULL,
     "the result's 'sql' has a NUL character or half a surrogate pair in a text, which PostgreSQL cannot store"},
    {"{\"sql\":[{\"sql\":\"\"}]}", WIRE_FAIL, NULL, "SQL statement 1 is empty"},
    {"{\"route\":7}", WIRE_FAIL, NULL, "the result's 'route' is not the name of a stage"},
    {"{\"route\":\"\"}", WIRE_FAIL, NULL, "a route needs the name of a stage"},
    {"{\"route\":\"a\",\"finish\":true}", WIRE_FAIL, NULL,
     "the result has more than one of 'route', 'finish' and 'snooze_ms'"},
    {"{\"finish\":1}", WIRE_FAIL, NULL, "the result's 'finish' is neither true nor false"},
    {"{\"snooze_ms\":1.5}", WIRE_FAIL, NULL, "the result's 'snooze_ms' is not a whole number of milliseconds"},
    {"{\"snooze_ms\":-1}", WIRE_FAIL, NULL, "the result's 'snooze_ms' is not a whole number of milliseconds"},
    {"{\"snooze_ms\":99999999999999999999}", WIRE_FAIL, NULL,
     "the result's 'snooze_ms' is not a whole number of milliseconds"},
    {"[]", WIRE_CRASH, "protocol", "the program's result file is no JSON object"},
};

Test(worker_command, a_result_file_that_cannot_be_used_is_told_of) {
    open_result_file();
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        command_run(&c, i + 1, bad_files[i].file);
        command_want(&c, i + 1, bad_files[i].outcome, bad_files[i].kind, bad_files[i].message);
    }
    command_stop(&c);
    command_open_script(&c, "printf '{\"output\":' > \"$PGSTAGE_RESULT_FILE\"");
    command_run(&c, 1, NULL);
    command_want(&c, 1, WIRE_CRASH, "protocol", "the program's result file is not JSON: byte 11 of 10");
}

Test(worker_command, a_result_file_that_is_too_large_is_not_read) {
    command_open_script(&c, "truncate -s 400M \"$PGSTAGE_RESULT_FILE\"");
    command_run(&c, 1, NULL);
    command_want(&c, 1, WIRE_CRASH, "protocol", "the program's result file is larger than the limit of 335544320 bytes");
    command_stop(&c);
}

Test(worker_command, a_result_file_counts_for_its_own_run_and_with_status_0_alone) {
    command_open_script(&c, "case $PGSTAGE_VERSION in\n"
                            "1) echo '{\"output\":1}' > \"$PGSTAGE_RESULT_FILE\" ;;\n"
                            "2) echo '{\"output\":2}' > \"$PGSTAGE_RESULT_FILE\"; exit 9 ;;\n"
                            "3) : > \"$PGSTAGE_RESULT_FILE\" ;;\n"
                            "esac\n"
                            "echo 0");
    for (int version = 1; version <= 4; version++) {
        rig_send_run(&c.rig, &(struct wire_run){.run = (uint64_t)version,
                                                .lease_end_ms = INT64_MAX,
                                                .version = version,
                                                .attempt = 1,
                                                .key = {"doc", 3}});
    }
    rig_want_output(&c.rig, 1, "1");
    command_want(&c, 2, WIRE_RETRY, NULL, "the program exited with status 9");
    for (uint64_t run = 3; run <= 4; run++) {
        rig_want_output(&c.rig, run, "0");
    }
    command_stop(&c);
}

/* ---- ends ---- */

Test(worker_command, what_it_left_behind_is_killed_and_not_waited_for) {
    command_open_script(&c, "(trap '' TERM HUP; echo pid $(exec sh -c 'echo $PPID'). >&2; sleep 100 >&2) & "
                            "setsid sleep 101 & while [ ! -e \"${0%run.sh}go\" ]; do sleep 0.01; done; echo 1");
    command_run(&c, 1, NULL);
    pid_t left = command_want_pid(&c);
    struct watched process = watch_process(left);
    command_write(&c, "go", "", false);
    rig_want_output(&c.rig, 1, "1");
    cr_assert(ended_within(process, 0), "before the answer");
    close(process.pidfd);
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)c.rig.pid, (long)c.rig.pid);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    cr_assert_eq(fgetc(file), EOF, "the worker has no child");
    fclose(file);
}

/* Whom another one traces can be reaped by nobody else as long as that one lives. The older stray is the first in the list of
 * children. */
static const char traced[] = "import ctypes, os, signal\n"
                             "seize = lambda pid: ctypes.CDLL(None, use_errno=True).ptrace(0x4206, pid, None, None)\n"
                             "first = os.getpid()\n"
                             "if os.environ['PGSTAGE_VERSION'] == '1':\n"
                             "    first = os.fork()\n"
                             "    if first == 0: signal.pause()\n"
                             "read, write = os.pipe()\n"
                             "if os.fork() == 0:\n"
                             "    os.write(write, b'y' if seize(first) == 0 else b'n')\n"
                             "    while True: signal.pause()\n"
                             "print(1 if os.read(read, 1) == b'y' else '\"not traced\"', flush=True)\n"
                             "os._exit(0)\n";

Test(worker_command, what_it_left_behind_may_be_traced) {
    command_prepare(&c, (const char *const[]){"python3", "run.py", NULL});
    command_write(&c, "run.py", traced, false);
    command_open(&c);
    for (int version = 1; version <= 2; version++) { /* a stray, and the program itself */
        rig_send_run(&c.rig, &(struct wire_run){.run = (uint64_t)version,
                                                .lease_end_ms = INT64_MAX,
                                                .version = version,
                                                .attempt = 1,
                                                .key = {"doc", 3}});
        rig_want_output(&c.rig, (uint64_t)version, "1");
    }
    command_stop(&c);
}

Test(worker_command, what_it_left_behind_is_not_read_for_ever) {
    command_open_script(&c, "for i in 1 2 3 4 5 6 7 8; do cat /dev/zero & done; exit 3");
    command_run(&c, 1, NULL);
    struct wire_result result;
    rig_want_result(&c.rig, 1, &result);
    cr_assert_eq(result.outcome, WIRE_RETRY);
    wire_result_finish(&result);
    command_stop(&c);
}

Test(worker_command, term_reaches_it_through_the_group) {
    command_open_script(&c, "trap 'echo told >&2; exit 3' TERM; echo pid $$. >&2; while :; do sleep 0.01; done");
    command_run(&c, 1, NULL);
    command_want_pid(&c);
    rig_tell(&c.rig, 1, true, false);
    cr_assert_eq(kill(-c.rig.pid, SIGTERM), 0);
    rig_want_printed(&c.rig, "told");
    struct wire_frame frame;
    cr_assert_not(rig_next(&c.rig, &frame), "what fails after TERM is not told");
    rig_want_signal(&c.rig, SIGTERM);
}

Test(worker_command, a_success_after_term_is_told) {
    command_open_script(&c, "trap 'echo 1; exit 0' TERM; echo pid $$. >&2; while :; do sleep 0.01; done");
    command_run(&c, 1, NULL);
    command_want_pid(&c);
    cr_assert_eq(kill(-c.rig.pid, SIGTERM), 0);
    rig_want_output(&c.rig, 1, "1");
    rig_want_signal(&c.rig, SIGTERM);
}

Test(worker_command, it_dies_with_its_worker) {
    command_open_script(&c, "echo pid $$. >&2; exec sleep 100");
    command_run(&c, 1, NULL);
    struct watched process = watch_process(command_want_pid(&c));
    cr_assert_eq(kill(c.rig.pid, SIGKILL), 0);
    cr_assert(ended_within(process, DEADLINE_MS));
    close(process.pidfd);
    rig_want_signal(&c.rig, SIGKILL);
}

/* ---- limits ---- */

Test(worker_command, limits_hold_for_the_program_and_not_for_the_worker) {
    command_prepare(&c, (const char *const[]){"sh", "-c", "ulimit -v; ulimit -n; ulimit -f; ulimit -t; cat /proc/$PPID/limits",
                                              NULL});
    c.hello.stdout_form = WIRE_STDOUT_IGNORE;
    c.hello.address_space_bytes = 1 << 30;
    c.hello.open_files = 77;
    c.hello.file_size_bytes = 512 * 99;
    c.hello.cpu_seconds = 55;
    command_open(&c);
    command_expect(&c, 1, NULL, NULL);
    rig_want_printed(&c.rig, "1048576\n77\n99\n55\n");
    cr_assert_not_null(strstr(c.rig.printed.data, "Max address space         unlimited"));
    cr_assert_not_null(strstr(c.rig.printed.data, "Max cpu time              unlimited"));
    cr_assert_null(strstr(c.rig.printed.data, "Max open files            77"));
}

Test(worker_command, cpu_time_counts_for_each_task_alone) {
    command_prepare(&c, (const char *const[]){"sh", "-c", "if [ $1 = 1 ]; then trap '' XCPU; fi; while :; do :; done", "sh",
                                              "{payload}", NULL});
    c.hello.cpu_seconds = 1;
    command_open(&c);
    command_run(&c, 1, "0");
    command_want(&c, 1, WIRE_CRASH, "crash",
                 "the program crashed: signal 24 (SIGXCPU): the stage's limit of CPU time was reached");
    command_run(&c, 2, "1");
    command_want(&c, 2, WIRE_CRASH, "crash",
                 "the program crashed: signal 9 (SIGKILL): the stage's limit of CPU time was reached");
}

Test(worker_command, a_file_that_is_too_large_is_named) {
    command_prepare(&c, (const char *const[]){"sh", "-c", "exec head -c 100000 /dev/zero > \"$PGSTAGE_RESULT_FILE\"", NULL});
    c.hello.file_size_bytes = 50000;
    command_open(&c);
    command_run(&c, 1, NULL);
    command_want(&c, 1, WIRE_CRASH, "crash",
                 "the program crashed: signal 25 (SIGXFSZ): the stage's limit of file size was reached");
}

/* C76: it takes what it may have, and aborts. */
Test(worker_command, a_crash_at_the_limit_of_memory_is_of_its_own_kind) {
    command_prepare(&c, (const char *const[]){GREEDY_PROGRAM, NULL});
    c.hello.address_space_bytes = 256 << 20;
    command_open(&c);
    command_run(&c, 1, NULL);
    command_want(&c, 1, WIRE_CRASH, "memory",
                 "the program crashed: signal 6 (SIGABRT): it was at the stage's limit of memory");
}
