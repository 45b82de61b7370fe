#include "support/pooler.h"

#include <errno.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "support/pg.h"

enum { PORT = 6432, DEADLINE_MS = 20000 };

struct pooler_process {
    char folder[32];
    pid_t pid;
};

static void write_settings(const struct pooler_process *pooler, const char *mode, int pool_size, const char *more) {
    char *path = mem_format("%s/ini", pooler->folder), *socket_folder = mem_copy_string(pg_socket_path());
    *strrchr(socket_folder, '/') = '\0';
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        pg_die("%s: %s", path, strerror(errno));
    }
    fprintf(file,
            "[databases]\n* = host=%s port=5432 user=postgres\n"
            "[pgbouncer]\nlisten_addr =\nunix_socket_dir = %s\nlisten_port = %d\nauth_type = any\npool_mode = %s\n"
            "default_pool_size = %d\nmax_client_conn = 200\nlogfile = %s/log\n%s",
            socket_folder, pooler->folder, PORT, mode, pool_size, pooler->folder, more);
    fclose(file);
    free(path);
    free(socket_folder);
}

/* pgbouncer refuses to run as root. */
static void spawn(struct pooler_process *pooler) {
    const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;
    char *ini = mem_format("%s/ini", pooler->folder);
    char *uid = mem_format("--reuid=%u", user != NULL ? (unsigned)user->pw_uid : (unsigned)geteuid());
    char *words[] = {"setpriv", "--pdeathsig=KILL", uid, "--clear-groups", "/usr/sbin/pgbouncer", "-q", ini, NULL};
    char *plain[] = {"setpriv", "--pdeathsig=KILL", "/usr/sbin/pgbouncer", "-q", ini, NULL};
    if (user != NULL && chown(pooler->folder, user->pw_uid, user->pw_gid) != 0) {
        pg_die("chown: %s", strerror(errno));
    }
    int rc = posix_spawnp(&pooler->pid, words[0], NULL, NULL, user != NULL ? words : plain, environ);
    if (rc != 0) {
        pg_die("setpriv: %s", strerror(rc));
    }
    free(ini);
    free(uid);
}

static void await_answer(const struct pooler_process *pooler) {
    char *url = pooler_url(pooler, "postgres");
    int64_t deadline = clock_now_ms(&clock_boottime) + DEADLINE_MS;
    while (PQping(url) != PQPING_OK) {
        if (clock_now_ms(&clock_boottime) > deadline || waitpid(pooler->pid, NULL, WNOHANG) != 0) {
            pg_die("pgbouncer does not answer (package pgbouncer)");
        }
        struct timespec pause = {.tv_nsec = 10 * 1000000};
        nanosleep(&pause, NULL);
    }
    free(url);
}

struct pooler_process *pooler_start(const char *mode, int pool_size, const char *more) {
    struct pooler_process *pooler = mem_alloc(sizeof *pooler);
    snprintf(pooler->folder, sizeof pooler->folder, "/tmp/pgstage-pool-XXXXXX");
    if (mkdtemp(pooler->folder) == NULL) {
        pg_die("mkdtemp: %s", strerror(errno));
    }
    write_settings(pooler, mode, pool_size, more);
    chmod(pooler->folder, 0755);
    spawn(pooler);
    await_answer(pooler);
    return pooler;
}

char *pooler_url(const struct pooler_process *pooler, const char *database) {
    return mem_format("postgresql:///%s?host=%s&port=%d&user=postgres", database, pooler->folder, PORT);
}

void pooler_stop(struct pooler_process *pooler) {
    kill(pooler->pid, SIGKILL);
    waitpid(pooler->pid, NULL, 0);
    char *command = mem_format("rm -rf %s", pooler->folder);
    if (system(command) != 0) {
        pg_die("%s", command);
    }
    free(command);
    free(pooler);
}
