#include "rig.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "support/pg.h"

enum { DEADLINE_MS = 60 * 1000 };

static char folder[64], name[32];
static char *url, *output;
static pid_t node;

const char *root(void) {
    return folder;
}

const char *database(void) {
    return url;
}

static char *read_whole(const char *path) {
    struct buf text;
    buf_init(&text, (size_t)64 << 20);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 1; fd >= 0 && got > 0;) {
        char *room = buf_reserve(&text, 65536);
        got = read(fd, room, 65536);
        text.length += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    buf_append_char(&text, '\0');
    char *taken = buf_take(&text);
    buf_finish(&text);
    return taken;
}

/* In the child: the shell in the pipeline's folder, output to FILE of the test's folder. */
static _Noreturn void become_shell(const char *command, const char *file, int flags) {
    char *log = mem_format("%s/%s", folder, file);
    char *prefix = mem_format("%s/prefix", folder);
    char *place = mem_format("%s/share/pgstage/pipelines/%s", prefix, name);
    char *path = mem_format("%s/bin:%s", prefix, getenv("PATH"));
    int fd = open(log, O_WRONLY | O_CREAT | flags, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    setenv("ROOT", folder, 1);
    setenv("PREFIX", prefix, 1);
    setenv("PATH", path, 1);
    setenv("PGSTAGE_DATABASE_URL", url, 1);
    setenv("PGSTAGE_HOME", folder, 1);
    if (access(place, X_OK) != 0 || chdir(place) == 0) { /* not there while it is being installed */
        char *line = mem_format("psql() { command psql -qX -v ON_ERROR_STOP=1 -d '%s' \"$@\"; }\n%s", url, command);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    }
    _exit(127);
}

static int run(const char *command) {
    pid_t pid = fork();
    if (pid == 0) {
        become_shell(command, "output", O_TRUNC);
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    char *path = mem_format("%s/output", folder);
    free(output);
    output = read_whole(path);
    free(path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

const char *shell(const char *command, ...) {
    char line[4096];
    va_list list;
    va_start(list, command);
    vsnprintf(line, sizeof line, command, list);
    va_end(list);
    int status = run(line);
    cr_assert_eq(status, 0, "%s: exit status %d:\n%s", line, status, output);
    return output;
}

int shell_status(const char **written, const char *command, ...) {
    char line[4096];
    va_list list;
    va_start(list, command);
    vsnprintf(line, sizeof line, command, list);
    va_end(list);
    int status = run(line);
    if (written != NULL) {
        *written = output;
    }
    return status;
}

/* Its handlers are compiled with the tests, as the rest is: with sanitizers or without. */
static void install_library(void) {
#ifdef LIBRARY_MODULE
    shell("p=$PREFIX/share/pgstage/pipelines/library && mkdir -p $p && cp %s/pipelines/library/library.yaml "
          "%s/pipelines/library/*.sql %s $p",
          TEST_SOURCE_DIR, TEST_SOURCE_DIR, LIBRARY_MODULE);
#else
    cr_skip_test("the libraries that read PDF and HTML are not installed");
#endif
}

void pipeline_begin(const char *pipeline) {
    snprintf(folder, sizeof folder, "/tmp/pgstage-pipelines-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(name, sizeof name, "%s", pipeline);
    url = pg_new_migrated_database();
    shell("cmake --install %s --prefix $PREFIX", TEST_BINARY_DIR);
    if (strcmp(name, "library") == 0) {
        install_library();
    } else {
        shell("cmake -S %s/pipelines/%s -B $ROOT/build -DCMAKE_PREFIX_PATH=$PREFIX && cmake --build $ROOT/build && "
              "cmake --install $ROOT/build --prefix $PREFIX",
              TEST_SOURCE_DIR, name);
    }
#ifdef __SANITIZE_ADDRESS__
    shell("sed -i -E 's/memory: [0-9]+[MG]B(, )?//' %s.yaml", name);
#endif
}

void node_start(const char *environment) {
    node = fork();
    cr_assert(node >= 0);
    if (node == 0) {
        setpgid(0, 0);
        become_shell(mem_format("%s exec pgstage run %s.yaml", environment, name), "node.log", O_APPEND);
    }
}

static void say_log(void) {
    char *path = mem_format("%s/node.log", folder);
    char *log = read_whole(path);
    size_t length = strlen(log);
    fprintf(stderr, "%s\n", length > 8000 ? log + length - 8000 : log);
    free(log);
    free(path);
}

void node_kill(void) {
    cr_assert_eq(kill(node, SIGKILL), 0);
    cr_assert_eq(waitpid(node, NULL, 0), node);
    node = 0;
}

static void pause_shortly(void) {
    struct timespec pause = {.tv_nsec = 10 * 1000000};
    nanosleep(&pause, NULL);
}

void node_stop(void) {
    int status = 0;
    int64_t deadline = clock_now_ms(&clock_boottime) + DEADLINE_MS;
    cr_assert_eq(kill(node, SIGTERM), 0);
    while (waitpid(node, &status, WNOHANG) == 0) {
        if (clock_now_ms(&clock_boottime) >= deadline) {
            say_log();
            cr_assert_fail("the node does not end");
        }
        pause_shortly();
    }
    node = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        say_log();
        cr_assert_fail("the node ended with %d", status);
    }
}

void pipeline_end(void) {
    if (node > 0) {
        kill(node, SIGKILL);
        waitpid(node, NULL, 0);
    }
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
    free(url);
    free(output);
}

int64_t number(const char *sql) {
    return pg_int(url, sql);
}

void expect_text(const char *sql, const char *expected) {
    char *found = pg_text(url, sql);
    cr_expect_str_eq(found, expected, "%s -> '%s', not '%s'", sql, found, expected);
    free(found);
}

void await(const char *sql, int64_t wanted) {
    int64_t deadline = clock_now_ms(&clock_boottime) + DEADLINE_MS, found = 0;
    while ((found = number(sql)) != wanted) {
        if (clock_now_ms(&clock_boottime) >= deadline) {
            say_log();
            cr_assert_fail("%s: %lld, not %lld", sql, (long long)found, (long long)wanted);
        }
        pause_shortly();
    }
}
