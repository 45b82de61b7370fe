/* isolation.c - handlers that try to leave something behind, and one that tells what it finds. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pgstage/handler.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEEP = 3000, MANY = 500 };

static const char *payload_text(pgstage_task *task, const char *name, const char *fallback) {
    const char *text = json_string_value(json_object_get(pgstage_payload_json(task), name));
    return text == NULL ? fallback : text;
}

/* ---- processes ---- */

static _Noreturn void live_on(void) {
    for (int number = 1; number < NSIG; number++) {
        signal(number, SIG_IGN);
    }
    close_range(0, ~0u, 0);
    for (;;) {
        pause();
    }
}

/* A daemon as daemons are made: out of the session, its parent gone, no descriptor left. Returns its process id. */
static pid_t start_daemon(void) {
    int told[2];
    pid_t daemon = -1;
    if (pipe2(told, O_CLOEXEC) != 0) {
        return -1;
    }
    pid_t between = fork();
    if (between == 0) {
        setsid();
        pid_t pid = fork();
        if (pid == 0) {
            setsid();
            live_on();
        }
        ssize_t written = write(told[1], &pid, sizeof pid);
        _exit(written == sizeof pid ? 0 : 1);
    }
    close(told[1]);
    if (read(told[0], &daemon, sizeof daemon) != sizeof daemon) {
        daemon = -1;
    }
    close(told[0]);
    waitpid(between, NULL, 0);
    return daemon;
}

/* The same without a trace that a parent could have: both forks are the daemon's doing, and this handler waits for none. */
static pid_t start_child(void) {
    pid_t child = fork();
    if (child == 0) {
        setsid();
        live_on();
    }
    return child;
}

static pgstage_result go_on(pgstage_task *task, const char *then) {
    if (strcmp(then, "hang") == 0) {
        signal(SIGTERM, SIG_IGN);
        for (;;) {
            pause();
        }
    }
    if (strcmp(then, "crash") == 0) {
        raise(SIGSEGV);
    }
    if (strcmp(then, "killed") == 0) {
        kill(getpid(), SIGKILL);
    }
    if (strcmp(then, "exit") == 0) {
        _exit(0);
    }
    return pgstage_output(task, json_string("returned"));
}

/* {"then": "return", "hang", "crash", "killed", "exit"}: leaves a child that is out of its session and a daemon. Both write
 * nothing and hold nothing. */
static pgstage_result stray(pgstage_task *task, void *state) {
    (void)state;
    pid_t child = start_child(), daemon = start_daemon();
    pgstage_log(task, "child %ld", (long)child);
    pgstage_log(task, "daemon %ld", (long)daemon);
    fprintf(stderr, "child=%ld\ndaemon=%ld\n", (long)child, (long)daemon);
    return go_on(task, payload_text(task, "then", "return"));
}
PGSTAGE_HANDLER(stray, .run = stray);

static pid_t helper;

static pgstage_result start_helper(pgstage_worker *worker, void **state) {
    (void)worker;
    (void)state;
    helper = start_child();
    FILE *model = fopen("model", "w");
    return model != NULL && fclose(model) == 0 ? PGSTAGE_OK : PGSTAGE_RETRY;
}

/* A child and a file of init's are there in every run. */
static pgstage_result with_helper(pgstage_task *task, void *state) {
    (void)state;
    pid_t left = start_child();
    json_t *output = json_pack("{s:I, s:b, s:b, s:I}", "helper", (json_int_t)helper, "lives", kill(helper, 0) == 0, "model",
                               access("model", F_OK) == 0, "left", (json_int_t)left);
    return pgstage_output(task, output);
}
PGSTAGE_HANDLER(with_helper, .run = with_helper, .init = start_helper);

/* ---- files ---- */

static void make_file(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
    }
}

/* Deeper than a path may be long. */
static void make_deep(void) {
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEEP && mkdir("deep", 0700) == 0 && chdir("deep") == 0; i++) {
        make_file("file");
    }
    if (fchdir(here) == 0) {
        close(here);
    }
}

static void make_closed(void) {
    (void)mkdir("closed", 0700);
    (void)mkdir("closed/inner", 0700);
    make_file("closed/inner/file");
    chmod("closed/inner", 0);
    chmod("closed", 0);
}

static void make_links(const char *outside) {
    char path[4096];
    snprintf(path, sizeof path, "%s/precious", outside);
    (void)mkdir("links", 0700);
    if (symlink(outside, "link") != 0 || symlink(path, "links/file") != 0 || symlink("..", "links/up") != 0 ||
        symlink("nowhere", "dangling") != 0 || mkfifo("fifo", 0600) != 0) {
        fprintf(stderr, "links: %s\n", strerror(errno));
    }
}

static json_t *list_folder(const char *path) {
    json_t *names = json_array();
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            json_array_append_new(names, json_string(entry->d_name));
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return names;
}

/* {"outside": FOLDER}: fills its folder with all that is hard to remove, and goes elsewhere. The output is where it was and
 * what it found there. */
static pgstage_result litter(pgstage_task *task, void *state) {
    (void)state;
    char path[4096], here[4096] = "?";
    if (getcwd(here, sizeof here) == NULL) {
        return pgstage_fail(task, "getcwd: %s", strerror(errno));
    }
    json_t *output = json_pack("{s:s, s:s, s:o}", "folder", here, "temporary", getenv("TMPDIR") == NULL ? "" : getenv("TMPDIR"),
                               "found", list_folder("."));
    make_deep();
    make_closed();
    make_links(payload_text(task, "outside", "/nowhere"));
    for (int i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "file %d", i);
        make_file(path);
    }
    if (chdir("/") != 0) {
        return pgstage_fail(task, "chdir: %s", strerror(errno));
    }
    if (strcmp(payload_text(task, "then", ""), "killed") == 0) {
        kill(getpid(), SIGKILL);
    }
    return pgstage_output(task, output);
}
PGSTAGE_HANDLER(litter, .run = litter);

/* Puts a link in the place of its folder. */
static pgstage_result replace_folder(pgstage_task *task, void *state) {
    (void)state;
    char here[4096];
    const char *outside = payload_text(task, "outside", "/nowhere");
    if (getcwd(here, sizeof here) == NULL || chdir("..") != 0 || rmdir("run") != 0 || symlink(outside, "run") != 0) {
        return pgstage_fail(task, "cannot replace it: %s", strerror(errno));
    }
    return pgstage_output(task, json_string(here));
}
PGSTAGE_HANDLER(replace_folder, .run = replace_folder);

/* ---- what there is ---- */

static json_t *variables(void) {
    json_t *list = json_array();
    for (char **variable = environ; *variable != NULL; variable++) {
        json_array_append_new(list, json_string(*variable));
    }
    return list;
}

static pgstage_result around(pgstage_task *task, void *state) {
    (void)state;
    gid_t groups[64];
    int group_count = getgroups(64, groups), death = 0;
    bool has_root_group = getgid() == 0;
    for (int i = 0; i < group_count; i++) {
        has_root_group = has_root_group || groups[i] == 0;
    }
    prctl(PR_GET_PDEATHSIG, &death);
    json_t *output =
        json_pack("{s:o, s:i, s:b, s:i, s:i, s:b}", "environment", variables(), "uid", (int)getuid(), "root_group",
                  has_root_group, "nice", getpriority(PRIO_PROCESS, 0), "death_signal", death, "root_again",
                  getuid() != 0 && setuid(0) == 0);
    return pgstage_output(task, output);
}
PGSTAGE_HANDLER(around, .run = around);

/* {"mb": N}: takes that much, then crashes, as a program does that never looks at what malloc gave it. */
static pgstage_result grow_and_crash(pgstage_task *task, void *state) {
    (void)state;
    int64_t most = json_integer_value(json_object_get(pgstage_payload_json(task), "mb"));
    for (int64_t taken = 0; taken < most; taken++) {
        char *memory = malloc(1 << 20);
        if (memory == NULL) {
            break;
        }
        memory[0] = 1;
    }
    raise(SIGSEGV);
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(grow_and_crash, .run = grow_and_crash);

/* Says nothing at its start when the file FOLDER/silent is there. */
static pgstage_result start_or_hang(pgstage_worker *worker, void **state) {
    char path[4096];
    (void)state;
    snprintf(path, sizeof path, "%s/silent", pgstage_worker_folder(worker));
    if (access(path, F_OK) == 0) {
        for (;;) {
            pause();
        }
    }
    return PGSTAGE_OK;
}

static pgstage_result do_nothing(pgstage_task *task, void *state) {
    (void)task;
    (void)state;
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(silent_sometimes, .run = do_nothing, .init = start_or_hang);
