/* What outlives a node is ended, and nothing of a node that lives. A "node" here is a process with a lock, its "worker" a
 * stopped one that holds it as descriptor 4, with a program and a daemon below it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/abandoned.h"
#include "node/host.h"

enum { WORKER, PROGRAM, DAEMON, PIDS };

static char folder[64];
static pid_t node;
static int node_input = -1; /* its end is the node's */
static struct {
    pid_t pids[PIDS];
    char path[128];
} made;

static void wait_for_ever(void) {
    for (;;) {
        pause();
    }
}

static void run_daemon(int report) {
    pid_t self = getpid();
    setsid();
    (void)!write(report, &self, sizeof self);
    wait_for_ever();
}

/* The daemon's parent ends: the worker, a subreaper, inherits it. */
static void run_worker(int lock_fd, int report) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    dup2(report, 9);
    dup2(lock_fd, 4);
    close_range(10, ~0U, 0);
    pid_t middle = fork();
    if (middle == 0) {
        close(4);
        if (fork() == 0) {
            run_daemon(9);
        }
        _exit(0);
    }
    waitpid(middle, NULL, 0);
    pid_t program = fork(), self = getpid();
    if (program == 0) {
        close(4);
        wait_for_ever();
    }
    (void)!write(9, &program, sizeof program);
    (void)!write(9, &self, sizeof self);
    raise(SIGSTOP);
    wait_for_ever();
}

static void run_node(int input, int report) {
    struct host_lock lock;
    struct error err = ERROR_NONE;
    char byte;
    if (host_lock_take(folder, &lock, &err) != STATUS_OK) {
        _exit(1);
    }
    snprintf(made.path, sizeof made.path, "%s", lock.path);
    (void)!write(report, made.path, sizeof made.path);
    if (fork() == 0) {
        close(lock.life_fd); /* as exec does */
        close(input);
        run_worker(lock.fd, report);
    }
    (void)!read(input, &byte, 1);
    _exit(0);
}

static void init(void) {
    int input[2], report[2];
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    strcpy(folder, "/tmp/pgstage-abandoned-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    cr_assert(pipe2(input, O_CLOEXEC) == 0 && pipe2(report, O_CLOEXEC) == 0);
    node = fork();
    if (node == 0) {
        close(input[1]);
        run_node(input[0], report[1]);
    }
    close(input[0]);
    close(report[1]);
    node_input = input[1];
    cr_assert_eq(read(report[0], made.path, sizeof made.path), sizeof made.path);
    static const int order[] = {DAEMON, PROGRAM, WORKER};
    for (int i = 0; i < PIDS; i++) {
        cr_assert_eq(read(report[0], &made.pids[order[i]], sizeof(pid_t)), sizeof(pid_t));
    }
    close(report[0]);
}

static void finish(void) {
    char command[96];
    for (int i = 0; i < PIDS; i++) {
        kill(made.pids[i], SIGKILL);
    }
    close(node_input);
    while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR) {
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(abandoned, .init = init, .fini = finish, .timeout = 60);

static char state_of(pid_t pid) {
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        cr_assert_eq(fscanf(file, "%*d %*s %c", &state), 1);
        fclose(file);
    }
    return state;
}

static bool is_dead(pid_t pid) {
    char state = state_of(pid);
    return state == 'Z' || state == 'X';
}

static void end_node(void) {
    kill(node, SIGKILL);
    cr_assert_eq(waitpid(node, NULL, 0), node);
}

Test(abandoned, nothing_of_a_living_node) {
    cr_expect_not(host_lock_is_abandoned(made.path));
    abandoned_end(made.path);
    abandoned_end_all(folder);
    for (int i = 0; i < PIDS; i++) {
        cr_expect_not(is_dead(made.pids[i]));
    }
    cr_expect_not(host_lock_is_dead(made.path));
}

Test(abandoned, all_of_a_dead_one) {
    end_node();
    cr_expect_not(host_lock_is_dead(made.path), "the stopped worker holds it");
    cr_assert(host_lock_is_abandoned(made.path));
    abandoned_end_all(folder);
    for (int i = 0; i < PIDS; i++) {
        cr_expect(is_dead(made.pids[i]), "%d lives", i);
    }
    cr_expect_not(host_lock_is_abandoned(made.path));
    cr_expect(host_lock_is_dead(made.path));
    cr_expect_not(host_lock_is_dead(made.path), "the files are gone");
    cr_expect_eq(rmdir(folder), 0, "something is left in the folder of locks");
}

/* Who only has the file open, as a node does that looks at it, is no part of the lock. */
Test(abandoned, not_who_looks_at_the_lock) {
    int report[2];
    pid_t self;
    cr_assert_eq(pipe2(report, O_CLOEXEC), 0);
    pid_t other = fork();
    if (other == 0) {
        int fd = open(made.path, O_RDONLY);
        dup2(report[1], 9);
        dup2(fd, 4);
        self = getpid();
        (void)!write(9, &self, sizeof self);
        wait_for_ever();
    }
    cr_assert_eq(read(report[0], &self, sizeof self), sizeof self);
    end_node();
    abandoned_end(made.path);
    cr_expect(is_dead(made.pids[WORKER]));
    cr_expect_not(is_dead(other));
    kill(other, SIGKILL);
}

/* A handler that starts a node: it is killed by nobody that descends from it. */
Test(abandoned, not_what_the_caller_descends_from) {
    struct host_lock lock;
    struct error err = ERROR_NONE;
    pid_t other = fork();
    if (other == 0) {
        bool taken = host_lock_take(folder, &lock, &err) == STATUS_OK;
        pid_t worker = fork();
        if (worker != 0) {
            _exit(taken && worker > 0 ? 0 : 1);
        }
        dup2(lock.fd, 4);
        close(lock.life_fd);
        while (!host_lock_is_abandoned(lock.path)) {
            sched_yield();
        }
        abandoned_end(lock.path);
        _exit(7);
    }
    int status = 0;
    cr_assert_eq(waitpid(other, &status, 0), other);
    cr_assert_eq(status, 0);
    while (waitpid(-1, &status, 0) == node) {
    }
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
