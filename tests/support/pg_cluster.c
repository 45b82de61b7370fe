/* pg_cluster.c - starting, stopping and removing private clusters.
 *
 * A cluster has a keeper: a shell that starts and stops the server on command, and that removes
 * server and files when the command pipe closes, for whatever reason the test program ended.
 * Nothing is forked without an exec: a test program has threads, and one of them may hold a lock of
 * the allocator.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "base/clock.h"
#include "base/memory.h"
#include "support/pg.h"

#define MEMORY_PLENTY ((uint64_t)8 << 30)

enum { DEADLINE_MS = 60000, POLL_MS = 20, PORT = 5432, WORDS_MAX = 40 };

struct pg_cluster {
    char *folder, *url, *socket_path;
    pid_t keeper; /* 0: another process's */
    int commands; /* write end of the keeper's pipe */
};

void pg_die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("test cluster: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    fflush(stderr);
    abort();
}

static void pause_ms(long ms) {
    struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&time, NULL);
}

/* ---- programs ---- */

static bool is_program(const char *folder, const char *name, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && access(path, X_OK) == 0;
}

/* In PATH, else the newest of Debian's folders. */
static void find_program(const char *name, char path[PATH_MAX]) {
    char *folders = mem_copy_string(getenv("PATH"));
    char *rest = folders;
    for (char *folder; rest != NULL && (folder = strsep(&rest, ":")) != NULL;) {
        if (folder[0] != '\0' && is_program(folder, name, path)) {
            free(folders);
            return;
        }
    }
    free(folders);
    glob_t found;
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; i > 0; i--) {
            if (is_program(found.gl_pathv[i - 1], name, path)) {
                globfree(&found);
                return;
            }
        }
        globfree(&found);
    }
    pg_die("there is no %s", name);
}

/* The server refuses to run as root. */
static const struct passwd *server_user(void) {
    if (geteuid() != 0) {
        return NULL;
    }
    const struct passwd *user = getpwnam("postgres");
    if (user == NULL) {
        user = getpwnam("nobody");
    }
    if (user == NULL) {
        pg_die("run by root, and there is no user postgres or nobody");
    }
    return user;
}

/* A command line: words that are owned, ended by NULL. */
struct words {
    char *list[WORDS_MAX + 1];
    int count;
};

static __attribute__((format(printf, 2, 3))) void add_word(struct words *words, const char *format,
                                                           ...) {
    if (words->count == WORDS_MAX) {
        pg_die("too many words");
    }
    va_list args;
    va_start(args, format);
    if (vasprintf(&words->list[words->count++], format, args) < 0) {
        pg_die("out of memory");
    }
    va_end(args);
}

static void free_words(struct words *words) {
    for (int i = 0; i < words->count; i++) {
        free(words->list[i]);
    }
}

/* A program of PostgreSQL as its user, that goes when the process that starts it is killed. */
static void add_program(struct words *words, const char *name) {
    const struct passwd *user = server_user();
    char program[PATH_MAX];
    find_program(name, program);
    add_word(words, "setpriv");
    add_word(words, "--pdeathsig=QUIT");
    if (user != NULL) {
        add_word(words, "--reuid=%u", (unsigned)user->pw_uid);
        add_word(words, "--regid=%u", (unsigned)user->pw_gid);
        add_word(words, "--clear-groups");
    }
    add_word(words, "%s", program);
}

/* Its output goes to FOLDER/log, its input comes from `input`; nothing else is open in it. */
static pid_t start_program(const struct words *words, const char *folder, int input) {
    char log[PATH_MAX];
    snprintf(log, sizeof log, "%s/log", folder);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, "/");
    posix_spawn_file_actions_adddup2(&actions, input, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    pid_t pid = 0;
    int rc = posix_spawnp(&pid, words->list[0], &actions, &attributes, words->list, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (rc != 0) {
        pg_die("%s: %s", words->list[0], strerror(rc));
    }
    return pid;
}

static int wait_for(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

static void show_log(const char *folder) {
    char path[PATH_MAX], bytes[4096];
    snprintf(path, sizeof path, "%s/log", folder);
    FILE *log = fopen(path, "re");
    for (size_t count; log != NULL && (count = fread(bytes, 1, sizeof bytes, log)) > 0;) {
        fwrite(bytes, 1, count, stderr);
    }
    if (log != NULL) {
        fclose(log);
    }
}

/* ---- the keeper ---- */

/* Arguments: the folder, then the server's command line. Input: "run", or a signal's name. */
static const char keeper_script[] =
    "folder=$1; shift\n"
    "trap '' INT TERM HUP PIPE\n"
    "server=\n"
    "stop() {\n"
    "  if [ -n \"$server\" ]; then kill \"-$1\" \"$server\"; wait \"$server\"; server=; fi\n"
    "}\n"
    "while read -r order; do\n"
    "  case $order in\n"
    "  run) if [ -z \"$server\" ]; then \"$@\" </dev/null & server=$!; fi ;;\n"
    "  *) stop \"$order\" ;;\n"
    "  esac\n"
    "done\n"
    "stop QUIT\n"
    "rm -rf -- \"$folder\"\n";

static void start_keeper(struct pg_cluster *cluster) {
    static const char *const settings[] = {"listen_addresses=",    "fsync=off",
                                           "full_page_writes=off", "max_connections=200",
                                           "shared_buffers=64MB",  "max_wal_size=128MB",
                                           "log_min_messages=warning",
                                           /* A worker a database and minute, of which there are hundreds. */
                                           "autovacuum=off"};
    struct words words = {0};
    add_word(&words, "sh");
    add_word(&words, "-c");
    add_word(&words, "%s", keeper_script);
    add_word(&words, "keeper");
    add_word(&words, "%s", cluster->folder);
    add_program(&words, "postgres");
    add_word(&words, "-D%s/data", cluster->folder);
    add_word(&words, "-k%s", cluster->folder);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        add_word(&words, "-c%s", settings[i]);
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        pg_die("pipe2: %s", strerror(errno));
    }
    cluster->keeper = start_program(&words, cluster->folder, ends[0]);
    cluster->commands = ends[1];
    close(ends[0]);
    free_words(&words);
}

static void command(struct pg_cluster *cluster, const char *order) {
    size_t length = strlen(order);
    if (cluster->keeper == 0 || write(cluster->commands, order, length) != (ssize_t)length) {
        pg_die("the cluster has no keeper");
    }
}

/* ---- clusters ---- */

static void run_program(struct words *words, const char *folder) {
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int status = wait_for(start_program(words, folder, null));
    close(null);
    free_words(words);
    if (status != 0) {
        show_log(folder);
        pg_die("the data of a cluster could not be made (%d)", status);
    }
}

static void make_data(const char *folder) {
    static const char *const options[] = {"--username=postgres", "--auth=trust",
                                          "--encoding=UTF8",     "--locale=C.UTF-8",
                                          "--no-sync",           "--no-instructions"};
    struct words words = {0};
    add_program(&words, "initdb");
    add_word(&words, "-D%s/data", folder);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        add_word(&words, "%s", options[i]);
    }
    run_program(&words, folder);
}

static void wait_until(const struct pg_cluster *cluster, PGPing state) {
    int64_t deadline = clock_now_ms(&clock_boottime) + DEADLINE_MS;
    while (PQping(cluster->url) != state) {
        if (clock_now_ms(&clock_boottime) > deadline) {
            show_log(cluster->folder);
            pg_die("the server does not %s", state == PQPING_OK ? "answer" : "stop");
        }
        pause_ms(POLL_MS);
    }
}

void pg_cluster_start_server(struct pg_cluster *cluster) {
    command(cluster, "run\n");
    wait_until(cluster, PQPING_OK);
}

void pg_cluster_stop_server(struct pg_cluster *cluster) {
    command(cluster, "INT\n");
    wait_until(cluster, PQPING_NO_RESPONSE);
}

void pg_cluster_crash_server(struct pg_cluster *cluster) {
    command(cluster, "QUIT\n");
    wait_until(cluster, PQPING_NO_RESPONSE);
}

struct pg_cluster *pg_cluster_find(const char *folder) {
    struct pg_cluster *cluster = mem_alloc(sizeof *cluster);
    cluster->folder = mem_copy_string(folder);
    cluster->url = mem_format("postgresql:///postgres?host=%s&port=%d&user=postgres", folder, PORT);
    cluster->socket_path = mem_format("%s/.s.PGSQL.%d", folder, PORT);
    cluster->commands = -1;
    return cluster;
}

/* What the primary has, with the orders to follow it. */
static void copy_data(const char *folder, const struct pg_cluster *primary) {
    struct words words = {0};
    add_program(&words, "pg_basebackup");
    add_word(&words, "--pgdata=%s/data", folder);
    add_word(&words, "--dbname=%s", primary->url);
    add_word(&words, "--write-recovery-conf");
    add_word(&words, "--checkpoint=fast");
    add_word(&words, "--no-sync");
    run_program(&words, folder);
}

/* A database is some hundred files, and a test program makes as many databases as it has tests: in memory, where there is
 * plenty of it, that takes a fraction of the time. */
static const char *place(void) {
    struct statvfs disk;
    struct sysinfo machine;
    bool fits = statvfs("/dev/shm", &disk) == 0 && (uint64_t)disk.f_bavail * disk.f_frsize >= MEMORY_PLENTY &&
                sysinfo(&machine) == 0 && (uint64_t)machine.freeram * machine.mem_unit >= MEMORY_PLENTY;
    return fits && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

/* Of `primary`, or on its own. */
static struct pg_cluster *start_cluster(const struct pg_cluster *primary) {
    char folder[64];
    snprintf(folder, sizeof folder, "%s/pgstage-pg-XXXXXX", place());
    const struct passwd *user = server_user();
    if (mkdtemp(folder) == NULL || chmod(folder, 0755) != 0 ||
        (user != NULL && chown(folder, user->pw_uid, user->pw_gid) != 0)) {
        pg_die("%s: %s", folder, strerror(errno));
    }
    struct pg_cluster *cluster = pg_cluster_find(folder);
    start_keeper(cluster); /* first: it removes the folder, come what may */
    if (primary == NULL) {
        make_data(folder);
    } else {
        copy_data(folder, primary);
    }
    pg_cluster_start_server(cluster);
    return cluster;
}

struct pg_cluster *pg_cluster_start(void) {
    return start_cluster(NULL);
}

struct pg_cluster *pg_cluster_start_standby(const struct pg_cluster *primary) {
    return start_cluster(primary);
}

void pg_cluster_remove(struct pg_cluster *cluster) {
    if (cluster->keeper != 0) {
        close(cluster->commands);
        (void)wait_for(cluster->keeper);
    }
    free(cluster->folder);
    free(cluster->url);
    free(cluster->socket_path);
    free(cluster);
}

const char *pg_cluster_folder(const struct pg_cluster *cluster) {
    return cluster->folder;
}

const char *pg_cluster_url(const struct pg_cluster *cluster) {
    return cluster->url;
}

const char *pg_cluster_socket_path(const struct pg_cluster *cluster) {
    return cluster->socket_path;
}
