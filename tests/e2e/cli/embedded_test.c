/* embedded_test.c - the embedded server is no stray: a node that kills what dead workers left never touches it, whoever started
 * it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "rig.h"

TestSuite(embedded, .init = cli_begin, .fini = cli_end, .timeout = 300);

enum { DEADLINE_MS = 60 * 1000 };

static void pause_a_little(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000000}, NULL);
}

/* What the command prints as a number; 0: nothing. */
static long number_of(const char *command) {
    return atol(shell("%s", command)->out);
}

/* The server of this home: its log folder is in its command line. */
static pid_t postmaster(void) {
    return (pid_t)number_of("head -1 \"$(find \"$PGSTAGE_HOME\" -name postmaster.pid 2>/dev/null | head -1)\" 2>/dev/null");
}

static void await_number(const char *command, long wanted) {
    int64_t deadline_ms = clock_now_ms(&clock_boottime) + DEADLINE_MS;
    while (number_of(command) != wanted) {
        cr_assert(clock_now_ms(&clock_boottime) < deadline_ms, "%s: %s", command, shell("cat .node")->out);
        pause_a_little();
    }
}

static pid_t pid_in_log(const char *name) {
    char command[128];
    snprintf(command, sizeof command, "grep -o '%s=[0-9]*' .node | tail -1 | cut -d= -f2", name);
    return (pid_t)number_of(command);
}

/* A worker is killed beside a daemon of its handler's: the node takes that over, kills it, and looks at all its children. */
static void lose_a_worker(const char *key, int lost_before) {
    char command[256];
    snprintf(command, sizeof command, "exec \"$PGSTAGE\" submit p %s --payload '{\"then\": \"killed\"}'", key);
    cr_assert_eq(shell("%s", command)->status, 0);
    await_number("grep -c 'kind=quarantine' .node", lost_before + 1);
    pid_t daemon = pid_in_log("daemon");
    cr_assert_gt(daemon, 1);
    cr_assert(kill(daemon, 0) != 0 && errno == ESRCH, "the daemon lives");
}

Test(embedded, the_server_outlives_workers_that_die_whoever_started_it) {
    unsetenv("PGSTAGE_DATABASE_URL");
    write_file("p.yaml", "pipeline: p\nstages:\n  - name: work\n    handler: '" TEST_HANDLERS ":stray'\n"
                         "    retry: {attempts: 1}\n");
    node_start("p.yaml");
    await_number("grep -c 'node.up' .node", 1);
    pid_t first = postmaster();
    cr_assert_gt(first, 1);
    lose_a_worker("one", 0);
    cr_assert_eq(postmaster(), first, "the server is another");
    cr_assert_eq(kill(first, 0), 0, "the server is dead");

    /* The node itself starts the next one. */
    kill(first, SIGKILL);
    int64_t deadline_ms = clock_now_ms(&clock_boottime) + DEADLINE_MS;
    pid_t second;
    while ((second = postmaster()) == first || second == 0 || kill(second, 0) != 0) {
        cr_assert(clock_now_ms(&clock_boottime) < deadline_ms, "the server does not come back");
        pause_a_little();
    }
    await_number("grep -c 'conn.up role=\"ledger\"' .node", 2);
    lose_a_worker("two", 1);
    cr_assert_eq(postmaster(), second, "the server is another");
    cr_assert_eq(kill(second, 0), 0, "the server is dead");
    node_stop();
}
