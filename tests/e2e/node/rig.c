#include "rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "support/pg.h"

int64_t rig_now_ms(void) {
    return clock_now_ms(&clock_boottime);
}

void rig_pause(void) {
    struct timespec pause = {.tv_nsec = 5 * 1000000};
    nanosleep(&pause, NULL);
}

void rig_init(struct rig *rig) {
    *rig = (struct rig){.folder = "/tmp/pgstage-node-XXXXXX"};
    cr_assert_not_null(mkdtemp(rig->folder));
    rig->url = pg_new_migrated_database();
    rig->node_url = rig->url;
}

void rig_finish(struct rig *rig) {
    for (int i = 0; i < RIG_NODES; i++) {
        if (rig->nodes[i] > 0) {
            kill(rig->nodes[i], SIGCONT);
            kill(rig->nodes[i], SIGKILL);
            waitpid(rig->nodes[i], NULL, 0);
        }
    }
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", rig->folder);
    cr_expect_eq(system(command), 0);
    free(rig->url);
}

void rig_write(struct rig *rig, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", rig->folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    for (const char *at = text; *at != '\0'; at++) {
        if (at[0] == '%' && (at[1] == 'H' || at[1] == 'L')) {
            fputs(*++at == 'H' ? TEST_HANDLERS : LEDGER_HANDLERS, file);
        } else {
            fputc(*at, file);
        }
    }
    fclose(file);
}

void rig_copy(struct rig *rig, const char *from, const char *name) {
    char command[512];
    /* All at once: a node may look at any time. */
    snprintf(command, sizeof command, "cp %s %s/.copy && mv %s/.copy %s/%s", from, rig->folder, rig->folder, rig->folder, name);
    cr_assert_eq(system(command), 0);
}

static void exec_pgstage(struct rig *rig, const char *arguments) {
    char command[4096];
    setenv("PGSTAGE_DATABASE_URL", rig->node_url, 1);
    setenv("PGSTAGE_HOME", rig->folder, 1);
    snprintf(command, sizeof command, "exec %s %s", PGSTAGE_PROGRAM, arguments);
    if (chdir(rig->folder) == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    }
    _exit(127);
}

int rig_run(struct rig *rig, char **output, const char *arguments, ...) {
    char line[2048], path[128];
    va_list list;
    va_start(list, arguments);
    vsnprintf(line, sizeof line, arguments, list);
    va_end(list);
    snprintf(path, sizeof path, "%s/output", rig->folder);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(fd, 1);
        dup2(fd, 2);
        exec_pgstage(rig, line);
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    if (output != NULL) {
        struct buf text;
        buf_init(&text, (size_t)16 << 20);
        FILE *file = fopen(path, "r");
        for (int c; file != NULL && (c = fgetc(file)) != EOF;) {
            buf_append_char(&text, (char)c);
        }
        if (file != NULL) {
            fclose(file);
        }
        *output = buf_take(&text);
        buf_finish(&text);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

pid_t rig_start(struct rig *rig, int index, const char *options) {
    pid_t pid = fork();
    if (pid == 0) {
        char path[128], line[1024];
        snprintf(path, sizeof path, "%s/node%d.log", rig->folder, index);
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, 1);
        dup2(fd, 2);
        setpgid(0, 0);
        snprintf(line, sizeof line, "run p.yaml %s", options);
        exec_pgstage(rig, line);
    }
    cr_assert(pid > 0);
    rig->nodes[index] = pid;
    return pid;
}

int rig_wait(struct rig *rig, int index) {
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
    int status = 0;
    while (waitpid(rig->nodes[index], &status, WNOHANG) == 0) {
        if (rig_now_ms() >= deadline) {
            char *log = rig_log(rig, index);
            cr_assert_fail("node %d did not end; its log:\n%s", index, log);
        }
        rig_pause();
    }
    rig->nodes[index] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

char *rig_log(struct rig *rig, int index) {
    char path[128];
    struct buf text;
    buf_init(&text, (size_t)64 << 20);
    snprintf(path, sizeof path, "%s/node%d.log", rig->folder, index);
    int fd = open(path, O_RDONLY);
    for (ssize_t got = 1; fd >= 0 && got > 0;) {
        char *room = buf_reserve(&text, 65536);
        got = read(fd, room, 65536);
        text.length += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    text.data[text.length] = '\0';
    char *taken = buf_take(&text);
    buf_finish(&text);
    return taken;
}

int64_t rig_number(struct rig *rig, const char *sql) {
    return pg_int(rig->url, sql);
}

void rig_await(struct rig *rig, const char *sql, int64_t wanted) {
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS, found = 0;
    while ((found = rig_number(rig, sql)) != wanted) {
        if (rig_now_ms() >= deadline) {
            char *log = rig_log(rig, 0);
            cr_assert_fail("%s: %lld, not %lld; node 0 said:\n%s", sql, (long long)found, (long long)wanted, log);
        }
        rig_pause();
    }
}

bool rig_await_log(struct rig *rig, int index, const char *text) {
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
    for (;;) {
        char *log = rig_log(rig, index);
        bool found = strstr(log, text) != NULL;
        if (!found && rig_now_ms() >= deadline) {
            cr_assert_fail("node %d did not say '%s':\n%s", index, text, log);
        }
        free(log);
        if (found) {
            return true;
        }
        rig_pause();
    }
}

void rig_insist(struct rig *rig, int index, int signal) {
    int64_t deadline = rig_now_ms() + RIG_DEADLINE_MS;
    for (bool killing = false; !killing;) {
        cr_assert(rig_now_ms() < deadline, "a second signal does nothing");
        kill(rig->nodes[index], signal);
        rig_pause();
        char *log = rig_log(rig, index);
        killing = strstr(log, "node.killing") != NULL;
        free(log);
    }
}

void rig_submit(struct rig *rig, const char *prefix, int count, const char *payload) {
    char *sql = mem_format("select count(*) from pgstage.submit_set('p', (select array_agg('%s' || i order by i) from "
                           "generate_series(1, %d) i), (select array_agg('%s'::jsonb) from generate_series(1, %d)), null, "
                           "null, null, false)",
                           prefix, count, payload, count);
    cr_assert_eq(rig_number(rig, sql), count);
    free(sql);
}

void rig_check_counts(struct rig *rig) {
    cr_expect_eq(rig_number(rig, "select count(*) from (select stage, status, sum(n) as n from (select stage, status, n from "
                                 "pgstage.task_count union all select stage, status, n from pgstage.task_count_delta) a "
                                 "group by 1, 2 having sum(n) <> 0) c full join (select stage, status, count(*) as n from "
                                 "pgstage.task group by 1, 2) t using (stage, status) where c.n is distinct from t.n"),
                 0, "the folded counts are not true");
    cr_expect_eq(rig_number(rig, "select count(*) from pgstage.task t where status = 'running' and not exists (select 1 from "
                                 "pgstage.claim_batch b where b.claim = t.claim and t.id = any(b.ids))"),
                 0, "a running task has no claim batch");
}

int rig_count_processes(const char *text) {
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        char path[300], line[4096];
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int fd = strtol(entry->d_name, NULL, 10) > 1 ? open(path, O_RDONLY) : -1;
        if (fd < 0) {
            continue;
        }
        ssize_t length = read(fd, line, sizeof line - 1);
        close(fd);
        for (ssize_t i = 0; i < length; i++) {
            line[i] = line[i] == '\0' ? ' ' : line[i];
        }
        line[length > 0 ? length : 0] = '\0';
        count += strstr(line, text) != NULL;
    }
    closedir(proc);
    return count;
}
