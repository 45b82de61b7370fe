#include "place.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/cluster.h"
#include "db/cluster_paths.h"
#include "db/cluster_process.h"

enum { USERS_MAX = 16 };

char folder[64];
char home[512];
static pid_t children[USERS_MAX];
static int child_count;

/* Each test is a process of its own whose parent is the runner; that names the template for all. */
static void template_path(char path[64], pid_t runner) {
    snprintf(path, 64, "/tmp/pgstage-test-template-%ld", (long)runner);
}

static int run_program(const char *const argv[]) {
    int wait_status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    cr_assert(pid > 0);
    waitpid(pid, &wait_status, 0);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
}

ReportHook(PRE_ALL)(struct criterion_test_set *set) {
    (void)set;
    char path[64];
    struct cluster *cluster = NULL;
    struct error err = ERROR_NONE;
    template_path(path, getpid());
    log_set_level(LOG_WARN);
    if (mkdir(path, 0711) != 0 || chmod(path, 0711) != 0 ||
        cluster_use(path, &cluster, &err) != STATUS_OK) {
        fprintf(stderr, "no template: %s\n", err.text);
    }
    cluster_release(cluster);
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
    (void)stats;
    char path[64];
    template_path(path, getpid());
    struct error err = ERROR_NONE;
    if (folder_remove_all(path, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.text);
    }
}

void place_open(void) {
    log_set_level(LOG_WARN);
    unsetenv("PGSTAGE_HOME");
    unsetenv("PGSTAGE_PG_BINDIR");
    snprintf(folder, sizeof folder, "/tmp/pgstage-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chmod(folder, 0711), 0);
    place_name("home");
}

void place_needs_root(void) {
    if (geteuid() != 0) {
        place_close(); /* which a skipped test does not do */
        cr_skip_test("needs root");
    }
}

void place_name(const char *name) {
    snprintf(home, sizeof home, "%s/%s", folder, name);
    cr_assert_eq(mkdir(home, 0711), 0);
}

void place_fill(void) {
    char path[80];
    template_path(path, getppid());
    strcat(path, "/pg");
    const char *const argv[] = {"cp", "-a", path, home, NULL};
    cr_assert_eq(run_program(argv), 0);
}

uid_t server_uid(void) {
    if (geteuid() != 0) {
        return geteuid();
    }
    const struct passwd *entry = getpwnam("postgres");
    entry = entry != NULL ? entry : getpwnam("nobody");
    return entry->pw_uid;
}

const char *in_home(const char *name) {
    static char paths[4][640];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", home, name);
    return path;
}

bool exists(const void *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

void wait_until(bool (*condition)(const void *context), const void *context, const char *what) {
    int64_t begin = clock_now_ms(&clock_boottime);
    while (!condition(context)) {
        cr_assert(clock_now_ms(&clock_boottime) - begin < DEADLINE_MS, "waited in vain until %s",
                  what);
        process_pause_ms(2);
    }
}

static bool nothing_lives(const void *context) {
    (void)context;
    pid_t one;
    return process_signal_all(in_home("pg"), server_uid(), SIGKILL, &one) +
               process_signal_all(in_home("pg.new"), server_uid(), SIGKILL, &one) ==
           0;
}

void kill_server(void) {
    wait_until(nothing_lives, NULL, "the server is dead");
}

bool is_gone(const void *pid) {
    return !process_is_alive(*(const pid_t *)pid);
}

void place_close(void) {
    for (int i = 0; i < child_count; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    kill_server();
    char target[256];
    ssize_t length = readlink(in_home("run"), target, sizeof target - 1);
    struct error err = ERROR_NONE;
    if (length > 0) {
        target[length] = '\0';
        cr_expect_eq(folder_remove_all(target, &err), STATUS_OK, "%s", err.text);
    }
    cr_expect_eq(folder_remove_all(folder, &err), STATUS_OK, "%s", err.text);
}

void child_adopt(pid_t pid) {
    cr_assert(pid > 0 && child_count < USERS_MAX);
    children[child_count++] = pid;
}

static void child_drop(pid_t pid) {
    for (int i = 0; i < child_count; i++) {
        if (children[i] == pid) {
            children[i] = children[--child_count];
        }
    }
}

void child_end(pid_t pid) {
    kill(pid, SIGKILL);
    cr_expect_eq(waitpid(pid, NULL, 0), pid);
    child_drop(pid);
}

/* Reads one answer: empty is fine, anything else an error's text. */
static void read_answer(int from, char *text, size_t size) {
    struct pollfd wait = {.fd = from, .events = POLLIN};
    int ready;
    do {
        ready = poll(&wait, 1, DEADLINE_MS);
    } while (ready < 0 && errno == EINTR);
    cr_assert_eq(ready, 1, "a child process does not answer");
    ssize_t length = read(from, text, size - 1);
    cr_assert(length > 0, "a child process ended without an answer");
    text[length] = '\0';
}

static void answer(int to, const char *text) {
    if (write(to, text, strlen(text) + 1) < 0) {
        _exit(3);
    }
}

static void be_user(int commands, int answers) {
    struct cluster *cluster = NULL;
    struct error err = ERROR_NONE;
    char command;
    if (cluster_use(home, &cluster, &err) != STATUS_OK) {
        answer(answers, err.text);
        _exit(2);
    }
    answer(answers, "");
    if (read(commands, &command, 1) < 0) {
        _exit(3);
    }
    cluster_release(cluster);
    _exit(0);
}

static struct user start(bool waits) {
    int commands[2], answers[2];
    cr_assert_eq(pipe2(commands, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(answers, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char go;
        close(commands[1]);
        if (waits && read(commands[0], &go, 1) != 1) {
            _exit(1);
        }
        be_user(commands[0], answers[1]);
    }
    child_adopt(pid);
    close(commands[0]);
    close(answers[1]);
    return (struct user){.pid = pid, .commands = commands[1], .answers = answers[0]};
}

struct user user_start(void) {
    return start(false);
}

struct user user_start_waiting(void) {
    return start(true);
}

void user_go(struct user *user) {
    cr_assert_eq(write(user->commands, "g", 1), 1);
}

static void forget(struct user *user) {
    child_drop(user->pid);
    close(user->commands);
    close(user->answers);
}

void user_await(struct user *user) {
    char text[ERROR_TEXT_MAX];
    read_answer(user->answers, text, sizeof text);
    cr_assert_str_eq(text, "");
}

void user_end(struct user *user) {
    int wait_status = -1;
    cr_assert_eq(write(user->commands, "q", 1), 1);
    cr_assert_eq(waitpid(user->pid, &wait_status, 0), user->pid);
    cr_assert(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0);
    forget(user);
}

void user_kill(struct user *user) {
    child_end(user->pid);
    forget(user);
}

int in_child(int (*body)(char *text, size_t size), char *text, size_t size) {
    int answers[2], wait_status = -1;
    cr_assert_eq(pipe2(answers, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char said[ERROR_TEXT_MAX] = "";
        int result = body(said, sizeof said);
        answer(answers[1], said);
        _exit(result);
    }
    child_adopt(pid);
    close(answers[1]);
    read_answer(answers[0], text, size);
    close(answers[0]);
    cr_assert_eq(waitpid(pid, &wait_status, 0), pid);
    child_drop(pid);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

void become(const char *name) {
    const struct passwd *entry = getpwnam(name);
    if (entry == NULL || setresgid(entry->pw_gid, entry->pw_gid, entry->pw_gid) != 0 ||
        setresuid(entry->pw_uid, entry->pw_uid, entry->pw_uid) != 0) {
        _exit(4);
    }
}

int server_process(void) {
    int pid = 0;
    bool held = false;
    ASSERT_OK(cluster_state(home, &pid, &held, err));
    return pid;
}

bool server_is_held(void) {
    int pid = 0;
    bool held = false;
    ASSERT_OK(cluster_state(home, &pid, &held, err));
    return held;
}

const char *sql(const char *url, const char *statement) {
    static char value[4096];
    PGconn *connection = PQconnectdb(url);
    cr_assert_eq(PQstatus(connection), CONNECTION_OK, "%s", PQerrorMessage(connection));
    PGresult *result = PQexec(connection, statement);
    ExecStatusType outcome = PQresultStatus(result);
    cr_assert(outcome == PGRES_TUPLES_OK || outcome == PGRES_COMMAND_OK, "%s: %s", statement,
              PQerrorMessage(connection));
    snprintf(value, sizeof value, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(connection);
    return value;
}

void file_write(const char *path, const char *text, uid_t uid, mode_t mode) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert(file >= 0, "%s", path);
    cr_assert_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
    cr_assert_eq(fchown(file, uid, (gid_t)-1), 0);
    cr_assert_eq(fchmod(file, mode), 0);
    close(file);
}
