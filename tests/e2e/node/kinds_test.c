/* kinds_test.c - each way in which a run can end badly is a kind of its own in `failure`, with the signal's name and the last
 * lines of what was written; and nothing of such a run lives on. (C11, C18, C48, C76, C83) */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"
#include "support/pg.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(kinds, .init = init, .fini = finish, .timeout = 180);

static void begin(const char *stage, const char *payload) {
    char yaml[1024];
    snprintf(yaml, sizeof yaml, "pipeline: p\nstages:\n  - name: work\n    %s\n    retry: {attempts: 1}\n", stage);
    rig_write(&rig, "p.yaml", yaml);
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 1, payload);
}

/* A number that stands behind `name` in the first failure's last lines. */
static pid_t pid_in_failure(const char *name) {
    char sql[256];
    snprintf(sql, sizeof sql, "select substring(detail from '%s=([0-9]+)')::bigint from pgstage.failure order by at limit 1",
             name);
    return (pid_t)rig_number(&rig, sql);
}

static bool is_alive(pid_t pid) {
    cr_assert_gt(pid, 1);
    return kill(pid, 0) == 0 || errno != ESRCH;
}

static void want_strays_gone(void) {
    cr_expect_not(is_alive(pid_in_failure("child")), "a child of the handler's lives");
    cr_expect_not(is_alive(pid_in_failure("daemon")), "a daemon of the handler's lives");
}

/* Waits for a failure of that kind, whose reason is like `reason`. */
static void want_failure(const char *kind, const char *reason) {
    char sql[512];
    snprintf(sql, sizeof sql, "select count(*) > 0 from pgstage.failure where kind = '%s' and error_text like '%s'", kind, reason);
    char as_number[600];
    snprintf(as_number, sizeof as_number, "select (%s)::int", sql);
    rig_await(&rig, as_number, 1);
}

static const struct {
    const char *then, *stage, *kind, *reason;
} ends[] = {
    {"crash", "handler: '%H:stray'", "crash", "crashed: signal 11 (SIGSEGV)"},
    {"killed", "handler: '%H:stray'", "killed", "killed by signal 9 (SIGKILL)"},
    {"exit", "handler: '%H:stray'", "no_answer", "exited with status 0 before answering"},
    {"hang", "handler: '%H:stray'\n    timeout: 700ms\n    grace: 100ms", "timeout", "no answer within 700ms"},
};

static void end_with_strays(size_t which) {
    char payload[64];
    snprintf(payload, sizeof payload, "{\"then\": \"%s\"}", ends[which].then);
    begin(ends[which].stage, payload);
    rig_start(&rig, 0, "--lease 5s");
    want_failure(ends[which].kind, ends[which].reason);
    want_strays_gone();
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
}

Test(kinds, crash) {
    end_with_strays(0);
}

Test(kinds, killed) {
    end_with_strays(1);
}

Test(kinds, no_answer) {
    end_with_strays(2);
}

Test(kinds, timeout) {
    end_with_strays(3);
}

Test(kinds, protocol) {
    begin("handler: '%H:bad_frame'", "{}");
    rig_start(&rig, 0, "--lease 5s");
    want_failure("protocol", "%");
}

/* A program with a limit; that of a handler needs a build without sanitizers. */
Test(kinds, memory) {
    begin("command: [" GREEDY "]\n    limits: {memory: 100MB}\n    stdout: ignore", "{}");
    rig_start(&rig, 0, "--lease 5s");
    want_failure("memory", "%signal 6 (SIGABRT): it was at the stage''s limit of memory");
}

/* A document that is suspected gets a fresh process, which says nothing for as long as one may take. */
Test(kinds, silence) {
    begin("handler: '%H:silent_sometimes'", "{}");
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 1);
    rig_write(&rig, "silent", "");
    pg_exec(rig.url, "begin; select pgstage.submit('p', 'doc1', '{\"again\": 1}', if_changed => true); "
                     "update pgstage.task set crashes = 3; commit");
    want_failure("silence", "the worker process that was started for it said nothing at its start");
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.failure where kind = 'quarantine'"), 0,
                 "it has not been seen by a worker");
    char path[128];
    snprintf(path, sizeof path, "%s/silent", rig.folder);
    cr_assert_eq(unlink(path), 0);
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done' and done_version = 2", 1);
}

Test(kinds, a_run_that_ends_well_leaves_nothing_either) {
    begin("handler: '%H:stray'", "{}");
    rig_start(&rig, 0, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 1);
    cr_assert(rig_await_log(&rig, 0, "daemon="));
    char *log = rig_log(&rig, 0);
    cr_expect_not(is_alive((pid_t)atol(strstr(log, "child=") + 6)));
    cr_expect_not(is_alive((pid_t)atol(strstr(log, "daemon=") + 7)));
    free(log);
}

/* ---- the node's death --------------------------------------------------------------------------------------------- */

static void await_death(pid_t pid, int64_t within_ms) {
    int64_t deadline_ms = rig_now_ms() + within_ms;
    while (is_alive(pid)) {
        cr_assert_lt(rig_now_ms(), deadline_ms, "process %d lives", (int)pid);
        rig_pause();
    }
}

static int count_work_folders(void) {
    char command[160];
    snprintf(command, sizeof command, "ls -d %s/nodes/*.work 2>/dev/null | wc -l", rig.folder);
    FILE *list = popen(command, "r");
    int count = -1;
    cr_assert_not_null(list);
    cr_assert_eq(fscanf(list, "%d", &count), 1);
    pclose(list);
    return count;
}

/* C48: kill -9 of the node while a handler hangs beside a daemon that it made. The next start finds nothing of it. */
Test(kinds, c48_nothing_outlives_a_node_that_was_killed) {
    begin("handler: '%H:stray'", "{\"then\": \"hang\"}");
    rig_start(&rig, 0, "--lease 5s");
    cr_assert(rig_await_log(&rig, 0, "daemon="));
    char *log = rig_log(&rig, 0);
    pid_t child = (pid_t)atol(strstr(log, "child=") + 6), daemon = (pid_t)atol(strstr(log, "daemon=") + 7);
    free(log);
    cr_assert(is_alive(child) && is_alive(daemon));
    cr_assert_eq(count_work_folders(), 1);
    kill(rig.nodes[0], SIGKILL);
    rig_wait(&rig, 0);
    await_death(child, 2000);
    await_death(daemon, 2000);
    cr_assert_eq(count_work_folders(), 1, "who should have removed it?");
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: work, handler: '%H:echo'}\n");
    rig_start(&rig, 1, "--lease 5s");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 1);
    while (count_work_folders() != 1) {
        rig_pause();
    }
    kill(rig.nodes[1], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 1), 0);
    cr_expect_eq(count_work_folders(), 0);
}

static void begin_stopped(const char *script) {
    rig_write(&rig, "first.sh", script);
    begin("command: [sh, first.sh]\n    stdout: ignore", "{}");
}

static pid_t pid_in_file(const char *name) {
    char path[128];
    int pid = 0;
    snprintf(path, sizeof path, "%s/%s", rig.folder, name);
    for (int64_t deadline_ms = rig_now_ms() + RIG_DEADLINE_MS; pid == 0; rig_pause()) {
        FILE *file = fopen(path, "r");
        if (file != NULL && fscanf(file, "%d", &pid) != 1) {
            pid = 0;
        }
        if (file != NULL) {
            fclose(file);
        }
        cr_assert_lt(rig_now_ms(), deadline_ms, "no %s", name);
    }
    return pid;
}

static void await_stopped(pid_t worker) {
    char command[96];
    snprintf(command, sizeof command, "grep -q '^State:.T' /proc/%d/status", (int)worker);
    int64_t deadline_ms = rig_now_ms() + RIG_DEADLINE_MS;
    while (system(command) != 0) {
        cr_assert_lt(rig_now_ms(), deadline_ms, "the worker is not stopped");
        rig_pause();
    }
}

/* Its worker cannot end itself: it is stopped when its node is killed. The second run finds nothing of the first one. */
static const char stopped[] =
    "if [ -e \"$PGSTAGE_FOLDER_OF_TEST/worker\" ]; then\n"
    "  for p in worker program daemon; do\n"
    "    grep -qs '^State:.[^ZX]' /proc/$(cat $PGSTAGE_FOLDER_OF_TEST/$p)/status && exit 78\n"
    "  done; exit 0\nfi\ncd $PGSTAGE_FOLDER_OF_TEST\n"
    "setsid -f sh -c 'trap \"\" TERM HUP; echo $$ >daemon; exec sleep 7775 >/dev/null 2>&1 </dev/null'\n"
    "while ! [ -s daemon ]; do :; done\n"
    "echo $$ >program; echo $PPID >worker.new; mv worker.new worker; kill -STOP $PPID; exec sleep 7774\n";

static void begin_and_kill_stopped(void) {
    char script[1024];
    snprintf(script, sizeof script, "PGSTAGE_FOLDER_OF_TEST=%s\n%s", rig.folder, stopped);
    begin_stopped(script);
    rig_start(&rig, 0, "--lease 60s");
    await_stopped(pid_in_file("worker"));
}

/* C48: the next node does not wait for the lease, and no run is beside an earlier one. */
Test(kinds, c48_a_stopped_worker_is_ended_by_the_next_node) {
    begin_and_kill_stopped();
    pid_t worker = pid_in_file("worker"), program = pid_in_file("program"), daemon = pid_in_file("daemon");
    kill(rig.nodes[0], SIGKILL);
    rig_wait(&rig, 0);
    cr_assert(is_alive(worker) && is_alive(program) && is_alive(daemon));
    int64_t begun_ms = rig_now_ms();
    rig_start(&rig, 1, "--lease 60s");
    rig_await(&rig, "select count(*) from pgstage.task where status <> 'running'", 1);
    rig_await(&rig, "select count(*) from pgstage.task where status in ('done', 'failed')", 1);
    cr_expect_lt(rig_now_ms() - begun_ms, 20 * 1000, "that was the lease");
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'done'"), 1, "it ran beside the first");
    await_death(worker, 2000);
    await_death(program, 2000);
    await_death(daemon, 2000);
    cr_assert(rig_await_log(&rig, 1, "orphan.killed"));
    cr_assert(rig_await_log(&rig, 1, "claims.rescued"));
    while (count_work_folders() != 1) {
        rig_pause();
    }
}

/* A node that is up already ends it before the lease does. */
Test(kinds, c48_a_stopped_worker_is_ended_by_another_node) {
    begin_and_kill_stopped();
    rig_start(&rig, 1, "--lease 3s");
    cr_assert(rig_await_log(&rig, 1, "node.up"));
    pid_t worker = pid_in_file("worker"), daemon = pid_in_file("daemon");
    rig_pause();
    cr_assert(is_alive(worker) && is_alive(daemon), "its node lives");
    kill(rig.nodes[0], SIGKILL);
    rig_wait(&rig, 0);
    await_death(worker, 20 * 1000);
    await_death(daemon, 1000);
}

/* C82c. */
Test(kinds, c82c_the_folder_of_locks_is_the_nodes_own) {
    char nodes[96], elsewhere[96], *output = NULL;
    snprintf(nodes, sizeof nodes, "%s/nodes", rig.folder);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", rig.folder);
    begin("handler: '%H:echo'", "{}");
    cr_assert_eq(mkdir(elsewhere, 0777), 0);
    cr_assert_eq(symlink(elsewhere, nodes), 0);
    cr_expect_eq(rig_run(&rig, &output, "run p.yaml --until-idle"), 2);
    cr_expect_not_null(strstr(output, "must be a folder of the user who runs the node, and no link"), "%s", output);
    free(output);
    cr_assert_eq(unlink(nodes), 0);
    cr_assert_eq(mkdir(nodes, 0700), 0);
    cr_assert_eq(chmod(nodes, 0777), 0);
    cr_expect_eq(rig_run(&rig, NULL, "run p.yaml --until-idle"), 0);
    struct stat found;
    cr_assert_eq(stat(nodes, &found), 0);
    cr_expect_eq(found.st_mode & 0777, 0700);
    if (geteuid() == 0) {
        cr_assert_eq(chown(nodes, 65534, 65534), 0);
        cr_expect_eq(rig_run(&rig, NULL, "run p.yaml --until-idle"), 2);
    }
}

/* ---- C82b --------------------------------------------------------------------------------------------------------- */

/* Lines of what a command prints. */
static int count_lines(const char *command) {
    FILE *lines = popen(command, "r");
    int count = 0;
    cr_assert_not_null(lines);
    for (int c; (c = fgetc(lines)) != EOF;) {
        count += c == '\n';
    }
    pclose(lines);
    return count;
}

/* The word is put together here, so that no command line of the test's own has it. */
static void want_no_canary(void) {
    cr_expect_eq(count_lines("word=can; grep -la ${word}ary-pw /proc/[0-9]*/cmdline 2>/dev/null"), 0, "a command line has it");
    cr_expect_eq(count_lines("word=can; for p in $(pgrep -f pgstage-worker); do grep -a ${word}ary-pw /proc/$p/environ "
                             "2>/dev/null; done; true"), 0, "a worker's environment has it");
    cr_expect_eq(count_lines("word=can; for p in $(pgrep -x pgstage); do grep -a ${word}ary-pw /proc/$p/environ 2>/dev/null; "
                             "done; true"), 0, "a node's environment shows it");
    char command[256];
    snprintf(command, sizeof command, "word=can; grep -ra ${word}ary-pw %s", rig.folder);
    cr_expect_eq(count_lines(command), 0, "a log or file has it");
}

Test(kinds, c82b_a_password_is_nowhere_to_be_read) {
    char url[512], options[700], *output = NULL;
    snprintf(url, sizeof url, "%s%cpassword=canary-pw", rig.url, strchr(rig.url, '?') == NULL ? '?' : '&');
    begin("handler: '%H:around'", "{}");
    rig_submit(&rig, "poison", 1, "{}");
    rig.node_url = url;
    snprintf(options, sizeof options, "--lease 5s --log debug --database '%s'", url);
    setenv("PGPASSWORD", "canary-pw", 1); /* a node of its own gets it in its environment */
    rig_start(&rig, 0, options);
    unsetenv("PGPASSWORD");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'done'", 2);
    want_no_canary();
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.output where output::text like '%canary-pw%'"), 0);
    cr_expect_eq(rig_run(&rig, &output, "status --json"), 0);
    cr_expect_null(strstr(output, "canary-pw"));
    free(output);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    want_no_canary();
}

Test(kinds, c82b_nor_when_the_url_is_malformed) {
    static const char *const urls[] = {
        "postgresql://u:canary-pw@h:port/x", "postgresql://u:canary-pw@[::1/x",  "postgresql://u:canary-pw%zz@h/x",
        "postgresql://u:can@ary-pw@/x",      "host=h password=canary-pw port=x", "host=h password='canary-pw nothing",
        "postgresql://u@h/x?password=canary-pw&nonsense=1",
    };
    begin("handler: '%H:echo'", "{}");
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        char *output = NULL;
        rig.node_url = urls[i];
        cr_expect_neq(rig_run(&rig, &output, "run p.yaml --until-idle --log debug"), 0, "%s", urls[i]);
        cr_expect_null(strstr(output, "ary-pw"), "%s", output);
        free(output);
    }
    rig.node_url = rig.url;
}
