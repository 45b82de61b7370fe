#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "support/pg.h"

enum { DEADLINE_MS = 60 * 1000 };

static char folder[64];
static char *url;
static struct run last;
static pid_t node; /* 0: none runs */

const char *cli_folder(void) {
    return folder;
}

const char *cli_url(void) {
    return url;
}

static void enter_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/pgstage-cli-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chmod(folder, 0755), 0);
    cr_assert_eq(chdir(folder), 0);
    setenv("PGSTAGE", PGSTAGE_PROGRAM, 1);
    setenv("PGSTAGE_HOME", "home", 1);
    unsetenv("NO_COLOR");
}

void cli_begin(void) {
    enter_folder();
    url = pg_new_migrated_database();
    setenv("PGSTAGE_DATABASE_URL", url, 1);
}

void cli_begin_without_database(void) {
    enter_folder();
    setenv("PGSTAGE_DATABASE_URL", "host=/nowhere user=somebody password=canary", 1);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static void forget_run(void) {
    free(last.out);
    free(last.err);
    last = (struct run){0};
}

void cli_end(void) {
    if (node > 0) {
        kill(node, SIGKILL); /* a failed test has left it */
    }
    forget_run();
    free(url);
    url = NULL;
    cr_assert_eq(chdir("/"), 0);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

static char *read_file(const char *name) {
    struct buf bytes;
    char block[4096];
    buf_init(&bytes, SIZE_MAX);
    FILE *file = fopen(name, "r");
    cr_assert_not_null(file, "%s", name);
    for (size_t count; (count = fread(block, 1, sizeof block, file)) > 0;) {
        buf_append(&bytes, block, count);
    }
    fclose(file);
    char *text = buf_take(&bytes);
    buf_finish(&bytes);
    return text;
}

static int exit_status(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static __attribute__((noreturn)) void become(const char *command) {
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(126);
}

static struct run *run(const char *command) {
    forget_run();
    pid_t child = fork();
    if (child == 0) {
        int in = open("/dev/null", O_RDONLY), out = open(".out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        int err = open(".err", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (in < 0 || out < 0 || err < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) {
            _exit(126);
        }
        become(command);
    }
    int status = 0;
    struct rusage usage;
    cr_assert_eq(wait4(child, &status, 0, &usage), child);
    last = (struct run){exit_status(status), read_file(".out"), read_file(".err"), usage.ru_maxrss};
    return &last;
}

static struct run *run_list(const char *prefix, const char *format, va_list args) {
    struct buf command;
    buf_init(&command, SIZE_MAX);
    buf_append_string(&command, prefix);
    buf_append_format_list(&command, format, args);
    struct run *result = run(command.data);
    buf_finish(&command);
    return result;
}

static const char prefix[] = "exec \"$PGSTAGE\" ";

struct run *cli(const char *arguments, ...) {
    va_list args;
    va_start(args, arguments);
    struct run *result = run_list(prefix, arguments, args);
    va_end(args);
    return result;
}

struct run *shell(const char *command, ...) {
    va_list args;
    va_start(args, command);
    struct run *result = run_list("", command, args);
    va_end(args);
    return result;
}

struct run *cli_refuses(int status, const char *line, const char *arguments, ...) {
    va_list args;
    va_start(args, arguments);
    struct run *result = run_list(prefix, arguments, args);
    va_end(args);
    cr_expect_str_eq(first_line(result->err), line, "%s\n  wanted: %s\n  got:    %s", arguments, line, result->err);
    cr_expect_eq(result->status, status, "%s: status %d", arguments, result->status);
    cr_expect_str_empty(result->out, "%s", result->out);
    return result;
}

void cli_prints(const char *out, const char *arguments, ...) {
    va_list args;
    va_start(args, arguments);
    struct run *result = run_list(prefix, arguments, args);
    va_end(args);
    cr_expect_str_eq(result->out, out, "%s\n  wanted: %s\n  got:    %s", arguments, out, result->out);
    cr_expect_str_empty(result->err, "%s: %s", arguments, result->err);
    cr_expect_eq(result->status, 0, "%s: status %d", arguments, result->status);
}

const char *first_line(const char *text) {
    static char line[4096];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    return line;
}

bool has(const char *text, const char *part) {
    return strstr(text, part) != NULL;
}

void write_file(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    cr_assert_not_null(file, "%s", name);
    fputs(text, file);
    fclose(file);
}

/* ---- tasks -------------------------------------------------------------------------------------------------------- */

void make_pipeline(void) {
    write_file("lib.yaml", "pipeline: lib\n"
                           "defaults: {retry: {attempts: 1}}\n"
                           "stages:\n"
                           "  - {name: first, sql: select 1}\n"
                           "  - name: second\n"
                           "    sql: select 1 / (case when :key like 'bad%' then 0 else 1 end)\n");
    cli_prints("pipeline 'lib' is at revision 1\n", "apply lib.yaml");
}

void process(void) {
    struct run *result = cli("run lib.yaml --until-idle --log error");
    cr_assert_leq(result->status, 1, "%s", result->err);
}

void node_start(const char *file) {
    node = fork();
    if (node == 0) {
        char *command = mem_format("%srun %s --lease 3s >.node 2>&1", prefix, file);
        become(command);
    }
    cr_assert_gt(node, 0);
}

void node_stop(void) {
    int status = 0;
    cr_assert_eq(kill(node, SIGTERM), 0);
    cr_assert_eq(waitpid(node, &status, 0), node);
    node = 0;
    char *log = read_file(".node");
    cr_expect_eq(exit_status(status), 0, "status %d: %s", exit_status(status), log);
    free(log);
}

const char *await_status(const char *wanted) {
    int64_t deadline_ms = clock_now_ms(&clock_boottime) + DEADLINE_MS;
    struct run *result = cli("status");
    while (!has(result->out, wanted)) {
        cr_assert(clock_now_ms(&clock_boottime) < deadline_ms, "'%s' did not come: %s%s", wanted, result->out, result->err);
        result = cli("status");
    }
    return result->out;
}

void claim(const char *key) {
    char *sql = mem_format("insert into pgstage.node (id, host, lock_path, pid, lease_until) values "
                           "(77, 'elsewhere', '/nowhere', 1, now() + interval '1 hour') on conflict do nothing; "
                           "with t as (update pgstage.task set status = 'running', ready_stage = null, claim = 70 + id, "
                           "  node = 77, claimed_version = version where key = '%s' returning id, pipeline, stage), "
                           "b as (insert into pgstage.claim_batch (claim, node, stage, ids) "
                           "  select 70 + t.id, 77, t.stage, array[t.id] from t) "
                           "insert into pgstage.task_count_delta "
                           "  select t.pipeline, t.stage, 'ready', -1 from t "
                           "  union all select t.pipeline, t.stage, 'running', 1 from t",
                           key);
    pg_exec(url, sql);
    free(sql);
}

int64_t number(const char *sql) {
    return pg_int(url, sql);
}

char *text(const char *sql) {
    return pg_text(url, sql);
}

/* ---- terminals ---------------------------------------------------------------------------------------------------- */

struct terminal {
    pid_t child;
    int fd;
    struct buf shown;
};

struct terminal *terminal_start(const char *arguments) {
    struct terminal *terminal = mem_alloc(sizeof *terminal);
    struct winsize size = {.ws_row = 40, .ws_col = 200};
    buf_init(&terminal->shown, SIZE_MAX);
    setenv("TERM", "xterm", 1);
    terminal->child = forkpty(&terminal->fd, NULL, NULL, &size);
    if (terminal->child == 0) {
        char *command = mem_format("%s%s", prefix, arguments);
        become(command);
    }
    cr_assert_gt(terminal->child, 0);
    return terminal;
}

void terminal_type(struct terminal *terminal, const char *bytes) {
    size_t length = strlen(bytes);
    cr_assert_eq(write(terminal->fd, bytes, length), (ssize_t)length);
}

/* False when the program has closed its terminal. */
static bool read_some(struct terminal *terminal, int64_t deadline_ms) {
    char block[4096];
    int64_t left = deadline_ms - clock_now_ms(&clock_boottime);
    struct pollfd poll_fd = {.fd = terminal->fd, .events = POLLIN};
    cr_assert(left > 0 && poll(&poll_fd, 1, (int)left) > 0, "nothing more came after: %s", terminal->shown.data);
    ssize_t count = read(terminal->fd, block, sizeof block);
    if (count <= 0) {
        return false;
    }
    buf_append(&terminal->shown, block, (size_t)count);
    return true;
}

const char *terminal_await(struct terminal *terminal, const char *text) {
    int64_t deadline_ms = clock_now_ms(&clock_boottime) + DEADLINE_MS;
    while (!has(terminal->shown.data, text)) {
        cr_assert(read_some(terminal, deadline_ms), "'%s' did not come: %s", text, terminal->shown.data);
    }
    return terminal->shown.data;
}

int terminal_end(struct terminal *terminal, char **all) {
    int64_t deadline_ms = clock_now_ms(&clock_boottime) + DEADLINE_MS;
    while (read_some(terminal, deadline_ms)) {
    }
    int status = 0;
    cr_assert_eq(waitpid(terminal->child, &status, 0), terminal->child);
    close(terminal->fd);
    *all = buf_take(&terminal->shown);
    buf_finish(&terminal->shown);
    free(terminal);
    return exit_status(status);
}
