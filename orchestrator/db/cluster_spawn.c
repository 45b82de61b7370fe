/* cluster_spawn.c - fork, give up root, exec.
 *
 * Between fork and exec a child calls async-signal-safe functions only, because the caller may have
 * threads. What it could not do it writes to a pipe that closes at exec: nothing on the pipe means
 * that the program runs.
 */
#include "db/cluster_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/children.h"

enum step { STEP_FORK, STEP_GROUPS, STEP_GROUP, STEP_USER, STEP_REACH, STEP_FILES, STEP_EXEC };

struct failure {
    enum step step;
    int reason;    /* errno */
    size_t length; /* STEP_REACH: of the part of the path that cannot be entered */
};

static const char *const environment[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/",
    "LC_ALL=C",
    NULL,
};

static noreturn void fail(int report, enum step step, size_t length) {
    struct failure failure = {.step = step, .reason = errno, .length = length};
    ssize_t written = write(report, &failure, sizeof failure);
    (void)written; /* nobody is left to tell */
    _exit(127);
}

static void become_user(const struct server_user *user, int report) {
    if (!user->change) {
        return;
    }
    if (setgroups(1, &user->gid) != 0) {
        fail(report, STEP_GROUPS, 0);
    }
    if (setresgid(user->gid, user->gid, user->gid) != 0) {
        fail(report, STEP_GROUP, 0);
    }
    if (setresuid(user->uid, user->uid, user->uid) != 0) {
        fail(report, STEP_USER, 0);
    }
}

static void default_signals(void) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        sigaction(number, &action, NULL); /* fails for KILL, STOP and the C library's own */
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A lock that a server inherited would be held as long as it lives. */
static void close_all_at_exec(int keep) {
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
        struct rlimit limit = {0};
        getrlimit(RLIMIT_NOFILE, &limit);
        int last = limit.rlim_cur > 65536 ? 65536 : (int)limit.rlim_cur;
        for (int fd = 3; fd < last; fd++) {
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
    }
    if (keep >= 0) {
        fcntl(keep, F_SETFD, 0);
    }
}

static noreturn void become_program(const struct spawn *spawn, int input, int output, int report,
                                    pid_t parent) {
    setsid();
    default_signals();
    umask(077);
    become_user(spawn->user, report);
    /* After the change of user, which clears it. The parent may have died before it was set. */
    if (parent != 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) {
        _exit(127);
    }
    if (chdir("/") != 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) {
        fail(report, STEP_FILES, 0);
    }
    close_all_at_exec(spawn->keep);
    execve(spawn->argv[0], (char *const *)spawn->argv, (char *const *)environment);
    fail(report, STEP_EXEC, 0);
}

static enum status describe(const struct failure *failure, const struct server_user *user,
                            const char *subject, struct error *err) {
    char reason[128];
    switch (failure->step) {
    case STEP_GROUPS:
    case STEP_GROUP:
    case STEP_USER:
        return error_set(
            err, STATUS_INVALID,
            "pgstage runs as root but may not become the user %s, and PostgreSQL does not "
            "run as root (%s: %s): run pgstage as an ordinary user, or give it the "
            "capabilities CAP_SETUID and CAP_SETGID",
            user->name,
            failure->step == STEP_USER    ? "setuid"
            : failure->step == STEP_GROUP ? "setgid"
                                          : "setgroups",
            strerror_r(failure->reason, reason, sizeof reason));
    case STEP_REACH:
        return error_set(
            err, STATUS_INVALID,
            "the user %s, as whom the database server runs, cannot enter the folder %.*s: "
            "allow it with `chmod o+x %.*s`, or choose a home elsewhere with --home or "
            "PGSTAGE_HOME",
            user->name, (int)failure->length, subject, (int)failure->length, subject);
    case STEP_FORK:
    case STEP_FILES:
    case STEP_EXEC:
        break;
    }
    return error_set_errno(err, STATUS_INVALID, failure->reason, "%s cannot be run", subject);
}

/* Waits until the child has run exec or failed; closes the pipe. */
static enum status read_report(int report, const struct server_user *user, const char *subject,
                               struct error *err) {
    struct failure failure;
    ssize_t count;
    do {
        count = read(report, &failure, sizeof failure);
    } while (count < 0 && errno == EINTR);
    close(report);
    return count == sizeof failure ? describe(&failure, user, subject, err) : STATUS_OK;
}

static int wait_for(pid_t pid) {
    int wait_status = 0;
    while (waitpid(pid, &wait_status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return wait_status;
}

static enum status cannot_fork(const char *subject, struct error *err) {
    return error_set_errno(err, STATUS_UNAVAILABLE, errno, "no process can be made for %s",
                           subject);
}

static noreturn void walk(const struct server_user *user, const char *path, int report) {
    become_user(user, report);
    char part[CLUSTER_PATH_MAX + 32];
    size_t length = strnlen(path, sizeof part - 1);
    memcpy(part, path, length);
    part[length] = '\0';
    for (size_t i = 1; i <= length; i++) {
        if (part[i] == '/' || part[i] == '\0') {
            char kept = part[i];
            part[i] = '\0';
            if (access(part, X_OK) != 0) {
                fail(report, STEP_REACH, i);
            }
            part[i] = kept;
        }
    }
    _exit(0);
}

static enum status check_reach(const struct server_user *user, const char *path,
                                    struct error *err) {
    if (!user->change) {
        return STATUS_OK;
    }
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) {
        return cannot_fork(path, err);
    }
    pid_t pid = fork();
    if (pid == 0) {
        walk(user, path, report[1]);
    }
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        return cannot_fork(path, err);
    }
    enum status status = read_report(report[0], user, path, err);
    wait_for(pid);
    return status;
}

/* The whole of `input` fits into an empty pipe, so that writing it before reading cannot block. */
static int input_of(const char *input) {
    if (input == NULL) {
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    ssize_t count = write(ends[1], input, strlen(input));
    close(ends[1]);
    if (count != (ssize_t)strlen(input)) {
        close(ends[0]);
        return -1;
    }
    return ends[0];
}

static void read_output(int from, struct buf *output) {
    char chunk[4096];
    for (;;) {
        ssize_t count = read(from, chunk, sizeof chunk);
        if (count > 0) {
            buf_append(output, chunk, (size_t)count);
        } else if (count == 0 || errno != EINTR) {
            return;
        }
    }
}

static void close_pair(const int pair[2]) {
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0) {
            close(pair[i]);
        }
    }
}

static enum status run(const struct spawn *spawn, const char *input, struct buf *output,
                      int *wait_status, struct error *err) {
    int report[2] = {-1, -1}, out[2] = {-1, -1};
    int in = input_of(input);
    pid_t parent = getpid(), pid = -1;
    if (in >= 0 && pipe2(report, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0) {
        pid = fork();
    }
    if (pid == 0) {
        become_program(spawn, in, out[1], report[1], parent);
    }
    if (pid < 0) {
        enum status status = cannot_fork(spawn->argv[0], err);
        close_pair(report);
        close_pair(out);
        close_pair((int[2]){in, -1});
        return status;
    }
    close(in);
    close(report[1]);
    close(out[1]);
    enum status status = read_report(report[0], spawn->user, spawn->argv[0], err);
    read_output(out[0], output);
    close(out[0]);
    *wait_status = wait_for(pid);
    return status;
}

/* Runs in the child between: tells the grandchild's id and goes away, whereby that becomes init's.
 */
static noreturn void start_between(const struct spawn *spawn, int null, int output, int report,
                                   int told) {
    setsid();
    pid_t pid = fork();
    if (pid == 0) {
        become_program(spawn, null, output, report, 0);
    }
    if (pid < 0) {
        fail(report, STEP_FORK, 0);
    }
    _exit(write(told, &pid, sizeof pid) == sizeof pid ? 0 : 127);
}

static enum status start_detached(const struct spawn *spawn, int output, pid_t *pid, struct error *err) {
    int report[2] = {-1, -1}, told[2] = {-1, -1};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t between = -1;
    *pid = -1;
    if (null >= 0 && pipe2(report, O_CLOEXEC) == 0 && pipe2(told, O_CLOEXEC) == 0) {
        between = fork();
    }
    if (between == 0) {
        start_between(spawn, null, output, report[1], told[1]);
    }
    if (between < 0) {
        enum status status = cannot_fork(spawn->argv[0], err);
        close_pair(report);
        close_pair(told);
        close_pair((int[2]){null, -1});
        return status;
    }
    close(null);
    close(report[1]);
    close(told[1]);
    enum status status = read_report(report[0], spawn->user, spawn->argv[0], err);
    wait_for(between);
    if (status == STATUS_OK && read(told[0], pid, sizeof *pid) != sizeof *pid) {
        status = error_set(err, STATUS_INTERNAL, "%s was started and its id is not known",
                           spawn->argv[0]);
    }
    close(told[0]);
    return status;
}

/* ---- no business of a node's ---------------------------------------------------------------- */

enum status server_user_check_reach(const struct server_user *user, const char *path,
                                    struct error *err) {
    children_private_begin();
    enum status status = check_reach(user, path, err);
    children_private_end();
    return status;
}

enum status spawn_run(const struct spawn *spawn, const char *input, struct buf *output,
                      int *wait_status, struct error *err) {
    children_private_begin();
    enum status status = run(spawn, input, output, wait_status, err);
    children_private_end();
    return status;
}

enum status spawn_detached(const struct spawn *spawn, int output, pid_t *pid, struct error *err) {
    children_private_begin();
    enum status status = start_detached(spawn, output, pid, err);
    children_private_end();
    return status;
}
