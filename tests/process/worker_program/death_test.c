/* A worker and all that its handler forked end with their node, with their lease, and when they are
 * told to.
 *
 * Proof of death is what a starting node looks at, too: the lock file that each of them inherited
 * as descriptor 4.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"

enum { BOUND_MS = 2000 };

static struct rig rig;
static char lock_file[] = "/tmp/pgstage-test-XXXXXX";

static void init(void) {
    close(mkstemp(lock_file));
}

static void finish(void) {
    rig_finish(&rig);
    unlink(lock_file);
}

TestSuite(worker_death, .init = init, .fini = finish, .timeout = 300);

static int take_lock(void) {
    int fd = open(lock_file, O_RDWR | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

static bool lock_is_held(void) {
    int fd = open(lock_file, O_RDWR | O_CLOEXEC);
    bool held = flock(fd, LOCK_EX | LOCK_NB) != 0;
    close(fd);
    return held;
}

/* A worker whose handler is `handler`, with the lock as its descriptor 4 and nobody else's. */
static void open_locked(const char *handler) {
    int lock = take_lock();
    rig_start_like(&rig, &(struct rig_setup){.lock_fd = lock});
    close(lock);
    struct wire_hello hello = rig_hello(HANDLERS, handler);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
}

static void want_group_killed(struct watched child) {
    cr_assert(ended_within(rig.process, BOUND_MS));
    cr_assert(ended_within(child, BOUND_MS));
    close(child.pidfd);
    cr_assert_not(lock_is_held());
}

static void close_node(void) {
    close(rig.node);
    rig.node = -1;
}

Test(worker_death, end_of_file_kills_it_while_it_is_idle) {
    open_locked("echo");
    cr_assert(lock_is_held());
    close_node();
    rig_want_signal(&rig, SIGKILL);
    cr_assert_not(lock_is_held());
}

Test(worker_death, end_of_file_kills_what_the_handler_forked_too) {
    open_locked("hang");
    rig_run(&rig, 1, NULL);
    struct watched child = rig_want_child(&rig);
    close_node();
    want_group_killed(child);
    rig_want_signal(&rig, SIGKILL);
}

/* Out of the session, the parent gone, no descriptor left: the group is not all that is killed. */
Test(worker_death, end_of_file_kills_what_left_the_group) {
    open_locked("stray");
    rig_run(&rig, 1, "{\"then\": \"hang\"}");
    struct watched child = rig_want_child(&rig), daemon = rig_want_process(&rig, "daemon ");
    close_node();
    cr_assert(ended_within(daemon, BOUND_MS));
    close(daemon.pidfd);
    want_group_killed(child);
    rig_want_signal(&rig, SIGKILL);
}

Test(worker_death, the_end_of_the_lease_kills_what_left_the_group) {
    open_locked("stray");
    rig_run(&rig, 1, "{\"then\": \"hang\"}");
    struct watched child = rig_want_child(&rig), daemon = rig_want_process(&rig, "daemon ");
    rig_beat(&rig, now_ms() + 100);
    cr_assert(ended_within(daemon, BOUND_MS));
    close(daemon.pidfd);
    want_group_killed(child);
}

Test(worker_death, a_computing_handler_does_not_delay_it) {
    open_locked("spin");
    rig_run(&rig, 1, NULL);
    rig_want_logged(&rig, "spinning");
    close_node();
    cr_assert(ended_within(rig.process, BOUND_MS));
}

Test(worker_death, end_of_file_while_init_hangs) {
    struct wire_hello hello = rig_hello(HANDLERS, "init_hang");
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_printed(&rig, "init hangs");
    close_node();
    rig_want_signal(&rig, SIGKILL);
}

Test(worker_death, end_of_file_before_and_within_the_first_message) {
    rig_start(&rig);
    close_node();
    rig_want_signal(&rig, SIGKILL);
    rig_finish(&rig);
    rig_start(&rig);
    rig_send_raw(&rig, "\xFF\0\0\0\1\0\0\0half", 12);
    close_node();
    rig_want_signal(&rig, SIGKILL);
}

/* The outputs close with the node: a handler that writes for ever may die of SIGPIPE before
 * anything else is noticed. */
Test(worker_death, a_broken_pipe_does_not_leave_children) {
    for (int turn = 0; turn < 20; turn++) {
        open_locked("chatter");
        rig_run(&rig, 1, NULL);
        struct watched child = rig_want_child(&rig);
        close_node();
        close(rig.outputs[0]);
        close(rig.outputs[1]);
        rig.outputs[0] = rig.outputs[1] = -1;
        want_group_killed(child);
        rig_finish(&rig);
    }
}

Test(worker_death, a_broken_pipe_alone_acts_as_by_default) {
    rig_open(&rig, "chatter");
    rig_run(&rig, 1, NULL);
    struct watched child = rig_want_child(&rig);
    close(rig.outputs[0]);
    rig.outputs[0] = -1;
    cr_assert(ended_within(rig.process, BOUND_MS));
    cr_assert_not(ended_within(child, 0), "its node lives and decides");
    cr_assert_eq(kill(child.pid, SIGKILL), 0);
    close(child.pidfd);
    rig_want_signal(&rig, SIGPIPE);
}

/* ---- the lease ---- */

Test(worker_death, the_end_of_the_lease_kills_the_group) {
    open_locked("hang");
    rig_run(&rig, 1, NULL);
    struct watched child = rig_want_child(&rig);
    int64_t end = now_ms() + 300;
    rig_beat(&rig, end);
    cr_assert(ended_within(rig.process, BOUND_MS));
    cr_assert_geq(now_ms(), end, "not before its end");
    want_group_killed(child);
    rig_want_signal(&rig, SIGKILL);
}

Test(worker_death, a_lease_in_the_first_message_or_a_run_counts_as_well) {
    struct wire_hello hello = rig_hello(HANDLERS, "sleep");
    hello.lease_end_ms = now_ms() + 500;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_signal(&rig, SIGKILL);
    cr_assert_geq(now_ms(), hello.lease_end_ms);
    rig_finish(&rig);

    rig_open(&rig, "sleep");
    struct wire_run run = {.lease_end_ms = now_ms() + 200, .payload = {"{\"ms\":60000}", 12}};
    rig_send_run(&rig, &run);
    rig_want_signal(&rig, SIGKILL);
    cr_assert_geq(now_ms(), run.lease_end_ms);
}

Test(worker_death, a_lease_that_ended_before_ends_it_at_once) {
    struct wire_hello hello = rig_hello(HANDLERS, "sleep");
    hello.lease_end_ms = 0;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_signal(&rig, SIGKILL);
}

/* Ten leases of 300 ms, each renewed when a third of it has passed: it outlives the first by far.
 */
Test(worker_death, beats_keep_it_alive) {
    rig_open(&rig, "sleep");
    rig_run(&rig, 1, "{\"ms\":60000}");
    int64_t begun = now_ms();
    for (int i = 0; i < 10; i++) {
        rig_beat(&rig, now_ms() + 300);
        cr_assert_not(ended_within(rig.process, 100));
    }
    cr_assert_geq(now_ms() - begun, 1000);
    rig_want_signal(&rig, SIGKILL);
}

/* ---- SIGTERM ---- */

Test(worker_death, terminate_ends_an_idle_worker) {
    rig_open(&rig, "echo");
    rig_run(&rig, 1, NULL);
    struct wire_result result;
    rig_want_result(&rig, 1, &result);
    wire_result_finish(&result);
    kill(-rig.pid, SIGTERM);
    rig_want_signal(&rig, SIGTERM);
}

Test(worker_death, terminate_ends_a_worker_in_init) {
    struct wire_hello hello = rig_hello(HANDLERS, "init_hang");
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_printed(&rig, "init hangs");
    kill(-rig.pid, SIGTERM);
    rig_want_signal(&rig, SIGTERM);
}

/* The handler polls and gives up: what it returns for that reason is not the document's failure,
 * and is not told. */
Test(worker_death, terminate_is_heard_by_a_handler_that_asks) {
    rig_open(&rig, "sleep");
    rig_run(&rig, 1, "{\"ms\":600000}");
    rig_run(&rig, 2, "{\"ms\":1}");
    rig_want_logged(&rig, "begun");
    kill(-rig.pid, SIGTERM);
    struct wire_frame frame;
    cr_assert_not(rig_next(&rig, &frame));
    rig_want_signal(&rig, SIGTERM);
}

Test(worker_death, terminate_is_obeyed_however_the_handler_leaves) {
    static const char *const handlers[] = {"exit_cancelled", "block_cancelled"};
    for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++) {
        struct wire_frame frame;
        rig_open(&rig, handlers[i]);
        rig_run(&rig, 1, NULL);
        rig_want_logged(&rig, "begun");
        kill(-rig.pid, SIGTERM);
        bool told = rig_next(&rig, &frame);
        cr_assert_eq(told, i == 1, "a success is told, an exit is not");
        rig_want_signal(&rig, SIGTERM);
        rig_finish(&rig);
    }
}

Test(worker_death, terminate_does_not_lose_a_success) {
    rig_open(&rig, "sleep_ok");
    rig_run(&rig, 1, "{\"ms\":600000}");
    rig_run(&rig, 2, "{\"ms\":1}");
    rig_want_logged(&rig, "begun");
    kill(-rig.pid, SIGTERM);
    rig_want_output(&rig, 1, "\"partly\"");
    struct wire_frame frame;
    cr_assert_not(rig_next(&rig, &frame), "run 2 is never begun");
    rig_want_signal(&rig, SIGTERM);
}

Test(worker_death, a_handler_that_ignores_terminate_is_left_to_its_node) {
    open_locked("hang");
    rig_run(&rig, 1, NULL);
    struct watched child = rig_want_child(&rig);
    kill(-rig.pid, SIGTERM);
    cr_assert_not(ended_within(rig.process, 100));
    kill(-rig.pid, SIGKILL);
    want_group_killed(child);
}

/* ---- the node's death ---- */

/* Another process is the node: it starts the worker over the socket that the test holds, tells its
 * process id, and waits to be killed. The test adopts what it leaves. */
static pid_t start_node(int lock, pid_t *worker, int *node_end) {
    int channel[2], report[2];
    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
    cr_assert_eq(pipe2(report, O_CLOEXEC), 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char parent[24];
    pid_t node = fork();
    cr_assert_geq(node, 0);
    if (node == 0) {
        snprintf(parent, sizeof parent, "%ld", (long)getpid());
        pid_t pid = vfork();
        if (pid == 0) {
            setsid();
            dup2(null, 0);
            dup2(null, 1);
            dup2(null, 2);
            dup2(channel[1], 3);
            dup2(lock, 4);
            execl(TEST_WORKER, "pgstage-worker", parent, (char *)NULL);
            _exit(127);
        }
        ssize_t written = write(report[1], &pid, sizeof pid);
        (void)written;
        for (;;) {
            pause();
        }
    }
    close(null);
    close(channel[1]);
    close(report[1]);
    cr_assert_eq(read(report[0], worker, sizeof *worker), sizeof *worker);
    close(report[0]);
    *node_end = channel[0];
    return node;
}

static void kill_and_reap(pid_t pid) {
    kill(pid, SIGKILL);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(worker_death, the_death_of_its_parent_kills_the_group_though_the_socket_stays) {
    int lock = take_lock(), node_end;
    pid_t worker, node = start_node(lock, &worker, &node_end);
    close(lock);
    rig_adopt(&rig, worker, node_end);
    struct wire_hello hello = rig_hello(HANDLERS, "hang");
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, NULL);
    /* `hang` ignores SIGTERM, too, which is how the news of the death arrives first. */
    struct watched child = rig_want_child(&rig);
    kill_and_reap(node);
    want_group_killed(child);
    rig_want_signal(&rig, SIGKILL);
}

Test(worker_death, the_death_of_its_parent_kills_the_group_of_a_polling_handler) {
    int lock = take_lock(), node_end;
    pid_t worker, node = start_node(lock, &worker, &node_end);
    close(lock);
    rig_adopt(&rig, worker, node_end);
    struct wire_hello hello = rig_hello(HANDLERS, "chatter");
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, NULL);
    struct watched child = rig_want_child(&rig);
    kill_and_reap(node);
    cr_assert(ended_within(rig.process, 700), "by the signal: it looks by itself once a second");
    want_group_killed(child);
    rig_want_signal(&rig, SIGKILL);
}

/* kill -9 of the node, as C48 has it. */
Test(worker_death, the_death_of_its_parent_kills_what_left_the_group) {
    int lock = take_lock(), node_end;
    pid_t worker, node = start_node(lock, &worker, &node_end);
    close(lock);
    rig_adopt(&rig, worker, node_end);
    struct wire_hello hello = rig_hello(HANDLERS, "stray");
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, "{\"then\": \"hang\"}");
    struct watched child = rig_want_child(&rig), daemon = rig_want_process(&rig, "daemon ");
    kill_and_reap(node);
    cr_assert(ended_within(daemon, BOUND_MS));
    close(daemon.pidfd);
    want_group_killed(child);
    rig_want_signal(&rig, SIGKILL);
}

static void spin_us(int64_t us) {
    struct timespec now, begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begun.tv_sec) * 1000000 + (now.tv_nsec - begun.tv_nsec) / 1000 < us);
}

static bool lock_free_within(int64_t ms) {
    int64_t end = now_ms() + ms;
    while (lock_is_held()) {
        if (now_ms() > end) {
            return false;
        }
        poll(NULL, 0, 1);
    }
    return true;
}

Test(worker_death, a_thousand_kills_in_the_first_millisecond) {
    struct wire_hello hello = rig_hello(HANDLERS, "hang");
    for (int turn = 0; turn < 1000; turn++) {
        int lock = take_lock();
        rig_start_like(&rig, &(struct rig_setup){.lock_fd = lock});
        close(lock);
        rig_say_hello(&rig, &hello);
        spin_us(turn);
        cr_assert_eq(kill(-rig.pid, turn % 2 == 0 ? SIGKILL : SIGTERM), 0);
        int status = rig_wait(&rig);
        cr_assert(WIFSIGNALED(status), "turn %d: exit status %d", turn, WEXITSTATUS(status));
        cr_assert_not(lock_is_held(), "turn %d", turn);
        rig_finish(&rig);
    }
}

Test(worker_death, a_node_that_dies_in_the_first_milliseconds_leaves_nothing) {
    for (int turn = 0; turn < 200; turn++) {
        int lock = take_lock(), node_end;
        pid_t worker, node = start_node(lock, &worker, &node_end);
        close(lock);
        spin_us(turn * 20);
        kill_and_reap(node);
        cr_assert(lock_free_within(BOUND_MS), "turn %d", turn);
        cr_assert_eq(waitpid(worker, NULL, 0), worker);
        close(node_end);
    }
}
