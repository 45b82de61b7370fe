/* pg.c - starting, finding and removing private clusters.
 *
 * A cluster has a keeper: a small process that starts and stops the server on command, and that
 * removes server and files when the command pipe closes, for whatever reason the test program
 * ended.
 */
#include "support/pg.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "db/migrate.h"
#include "support/leaks.h"

#define FOLDER_VARIABLE "PGSTAGE_TEST_CLUSTER"

enum { START_DEADLINE_MS = 60000, POLL_MS = 20, PORT = 5432 };

struct pg_cluster {
    char *folder, *url, *socket_path;
    pid_t keeper;
    int commands; /* write end of the keeper's pipe */
};

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...) {
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
    die("there is no %s", name);
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
        die("run by root, and there is no user postgres or nobody");
    }
    return user;
}

/* In a forked child: becomes `program`, writing to FOLDER/log. */
static __attribute__((noreturn)) void become(const char *folder, char *const arguments[]) {
    const struct passwd *user = server_user();
    char log_path[PATH_MAX], program[PATH_MAX];
    find_program(arguments[0], program);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (log < 0 || null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 ||
        chdir("/") != 0) {
        _exit(126);
    }
    if (user != NULL &&
        (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)) {
        _exit(126);
    }
    execv(program, arguments);
    _exit(127);
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

static pid_t start_postgres(const char *folder) {
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    char data[PATH_MAX];
    snprintf(data, sizeof data, "%s/data", folder);
    char *const arguments[] = {"postgres",
                               "-D",
                               data,
                               "-k",
                               (char *)(uintptr_t)folder,
                               "-c",
                               "listen_addresses=",
                               "-c",
                               "fsync=off",
                               "-c",
                               "full_page_writes=off",
                               "-c",
                               "max_connections=200",
                               "-c",
                               "shared_buffers=64MB",
                               "-c",
                               "log_min_messages=warning",
                               NULL};
    become(folder, arguments);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

static void stop_postgres(pid_t *pid, int signal) {
    if (*pid > 0) {
        kill(*pid, signal);
        while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    *pid = 0;
}

static __attribute__((noreturn)) void keep(const char *folder, int commands) {
    setsid();
    /* Whatever else is open here is the test's, such as the pipe of another keeper. */
    if (dup2(commands, 3) != 3 || close_range(4, ~0U, 0) != 0) {
        _exit(1);
    }
    commands = 3;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; fd++) {
        (void)dup2(null, fd);
    }
    pid_t postgres = 0;
    char command;
    ssize_t got;
    while ((got = read(commands, &command, 1)) == 1 || (got < 0 && errno == EINTR)) {
        if (command == 'r' && postgres == 0) {
            postgres = start_postgres(folder);
        } else if (command == 's') {
            stop_postgres(&postgres, SIGINT);
        } else if (command == 'c') {
            stop_postgres(&postgres, SIGQUIT);
        }
    }
    stop_postgres(&postgres, SIGQUIT);
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    _exit(0);
}

static void command(struct pg_cluster *cluster, char what) {
    if (write(cluster->commands, &what, 1) != 1) {
        die("the keeper is gone");
    }
}

static void start_keeper(struct pg_cluster *cluster) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        die("pipe2: %s", strerror(errno));
    }
    cluster->keeper = fork();
    if (cluster->keeper == 0) {
        close(ends[1]);
        keep(cluster->folder, ends[0]);
    }
    close(ends[0]);
    cluster->commands = ends[1];
}

/* ---- clusters ---- */

static void make_data(const char *folder) {
    pid_t pid = fork();
    if (pid == 0) {
        char data[PATH_MAX];
        snprintf(data, sizeof data, "%s/data", folder);
        char *const arguments[] = {"initdb",
                                   "-D",
                                   data,
                                   "--username=postgres",
                                   "--auth=trust",
                                   "--encoding=UTF8",
                                   "--locale=C.UTF-8",
                                   "--no-sync",
                                   "--no-instructions",
                                   NULL};
        become(folder, arguments);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
        show_log(folder);
        die("initdb failed (%d)", status);
    }
}

static void fill_names(struct pg_cluster *cluster) {
    cluster->url =
        mem_format("postgresql:///postgres?host=%s&port=%d&user=postgres", cluster->folder, PORT);
    cluster->socket_path = mem_format("%s/.s.PGSQL.%d", cluster->folder, PORT);
}

void pg_cluster_start_server(struct pg_cluster *cluster) {
    command(cluster, 'r');
    int64_t deadline = clock_now_ms(&clock_boottime) + START_DEADLINE_MS;
    while (PQping(cluster->url) != PQPING_OK) {
        if (clock_now_ms(&clock_boottime) > deadline) {
            show_log(cluster->folder);
            die("the server does not answer");
        }
        pause_ms(POLL_MS);
    }
}

static void wait_until_down(struct pg_cluster *cluster) {
    int64_t deadline = clock_now_ms(&clock_boottime) + START_DEADLINE_MS;
    while (PQping(cluster->url) != PQPING_NO_RESPONSE) {
        if (clock_now_ms(&clock_boottime) > deadline) {
            die("the server does not stop");
        }
        pause_ms(POLL_MS);
    }
}

void pg_cluster_stop_server(struct pg_cluster *cluster) {
    command(cluster, 's');
    wait_until_down(cluster);
}

void pg_cluster_crash_server(struct pg_cluster *cluster) {
    command(cluster, 'c');
    wait_until_down(cluster);
}

struct pg_cluster *pg_cluster_start(void) {
    char folder[] = "/tmp/pgstage-pg-XXXXXX";
    const struct passwd *user = server_user();
    if (mkdtemp(folder) == NULL || chmod(folder, 0755) != 0 ||
        (user != NULL && chown(folder, user->pw_uid, user->pw_gid) != 0)) {
        die("%s: %s", folder, strerror(errno));
    }
    struct pg_cluster *cluster = mem_alloc(sizeof *cluster);
    cluster->folder = mem_copy_string(folder);
    fill_names(cluster);
    start_keeper(cluster); /* first: it removes the folder, come what may */
    make_data(folder);
    pg_cluster_start_server(cluster);
    return cluster;
}

const char *pg_cluster_url(const struct pg_cluster *cluster) {
    return cluster->url;
}

const char *pg_cluster_socket_path(const struct pg_cluster *cluster) {
    return cluster->socket_path;
}

static void free_cluster(struct pg_cluster *cluster) {
    free(cluster->folder);
    free(cluster->url);
    free(cluster->socket_path);
    free(cluster);
}

void pg_cluster_remove(struct pg_cluster *cluster) {
    close(cluster->commands);
    while (waitpid(cluster->keeper, NULL, 0) < 0 && errno == EINTR) {
    }
    free_cluster(cluster);
}

/* ---- the shared one ---- */

static struct pg_cluster *shared; /* in a test's process only its names are set */

static void forget_environment(void) {
    static const char *const names[] = {"PGHOST",
                                        "PGHOSTADDR",
                                        "PGPORT",
                                        "PGDATABASE",
                                        "PGUSER",
                                        "PGPASSWORD",
                                        "PGSERVICE",
                                        "PGOPTIONS",
                                        "PGPASSFILE",
                                        "PGSSLMODE",
                                        "PGTARGETSESSIONATTRS",
                                        "PGSTAGE_DATABASE_URL"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
}

ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    leaks_fail_tests();
    forget_environment();
    shared = pg_cluster_start();
    setenv(FOLDER_VARIABLE, shared->folder, 1);
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
    (void)stats;
    if (shared != NULL) {
        pg_cluster_remove(shared);
        shared = NULL;
    }
}

static void forget_shared(void) {
    free_cluster(shared);
    shared = NULL;
}

static const struct pg_cluster *get_shared(void) {
    if (shared == NULL) {
        const char *folder = getenv(FOLDER_VARIABLE);
        if (folder == NULL) {
            die("%s is not set: not run by the test runner", FOLDER_VARIABLE);
        }
        shared = mem_alloc(sizeof *shared);
        shared->folder = mem_copy_string(folder);
        fill_names(shared);
        atexit(forget_shared);
    }
    return shared;
}

const char *pg_url(void) {
    return get_shared()->url;
}

const char *pg_socket_path(void) {
    return get_shared()->socket_path;
}

/* ---- statements ---- */

static void on_notice(void *context, const char *message) {
    (void)context;
    (void)message;
}

static PGresult *query(const char *url, const char *sql, PGconn **pg) {
    *pg = PQconnectdb(url);
    if (PQstatus(*pg) != CONNECTION_OK) {
        die("%s", PQerrorMessage(*pg));
    }
    PQsetNoticeProcessor(*pg, on_notice, NULL);
    PGresult *result = PQexec(*pg, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        die("%s: %s", sql, PQerrorMessage(*pg));
    }
    return result;
}

void pg_exec(const char *url, const char *sql) {
    PGconn *pg;
    PQclear(query(url, sql, &pg));
    PQfinish(pg);
}

char *pg_text(const char *url, const char *sql) {
    PGconn *pg;
    PGresult *result = query(url, sql, &pg);
    char *text = mem_copy_string(
        PQntuples(result) > 0 && PQnfields(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(pg);
    return text;
}

int64_t pg_int(const char *url, const char *sql) {
    char *text = pg_text(url, sql);
    int64_t value = strtoll(text, NULL, 10);
    free(text);
    return value;
}

/* ---- databases ---- */

const char *pg_database_of(const char *url) {
    static char name[64];
    const char *start = strstr(url, ":///");
    if (start == NULL) {
        die("not a URL of this module");
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(start + 4, "?"), start + 4);
    return name;
}

static char *url_of(const char *database) {
    return mem_format("postgresql:///%s?host=%s&port=%d&user=postgres", database,
                      get_shared()->folder, PORT);
}

static char *create_database(const char *template) {
    static int number;
    char name[64], sql[256];
    snprintf(name, sizeof name, "t_%d_%d", (int)getpid(), ++number);
    snprintf(sql, sizeof sql, "create database %s template %s", name, template);
    pg_exec(pg_url(), sql);
    return url_of(name);
}

char *pg_new_database(void) {
    return create_database("template0");
}

static void migrate(const char *url) {
    struct error err = ERROR_NONE;
    struct db_sync *db = NULL;
    if (sync_open(url, "template", &db, &err) != STATUS_OK ||
        migrate_up(db, NULL, &err) != STATUS_OK) {
        die("migrating: %s", err.text);
    }
    sync_close(db);
}

/* Test processes run side by side: the first one makes the template, under a lock. */
static void ensure_template(void) {
    PGconn *pg;
    PQclear(query(pg_url(), "select pg_advisory_lock(1)", &pg));
    if (pg_int(pg_url(), "select count(*) from pg_database where datname = 'migrated'") == 0) {
        pg_exec(pg_url(), "drop database if exists migrating");
        pg_exec(pg_url(), "create database migrating template template0");
        char *url = url_of("migrating");
        migrate(url);
        free(url);
        pg_exec(pg_url(), "alter database migrating rename to migrated");
    }
    PQfinish(pg);
}

char *pg_new_migrated_database(void) {
    ensure_template();
    return create_database("migrated");
}
