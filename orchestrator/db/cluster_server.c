/* cluster_server.c - is there a server, start it, stop it.
 *
 *   looks at            answers    rejects     silent, postmaster lives    silent, no postmaster
 *   server_ensure       done       wait        wait                        end what is left of it,
 * start
 *
 * postmaster.pid and the socket's lock file are removed before a start because PostgreSQL believes
 * in any living process with the id in them; that no server lives is known from HOME/server.lock
 * instead.
 */
#include "db/cluster_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "db/cluster_conf.h"
#include "db/cluster_database.h"
#include "db/cluster_process.h"
#include "db/cluster_socket.h"

enum {
    BUSY_MAX_MS = 5 * 60 * 1000, /* it recovers, or shuts down */
    SILENT_MAX_MS = 60 * 1000,   /* it lives, but nothing listens */
    STOP_MAX_MS = 60 * 1000,     /* the last checkpoint of a fast shutdown */
    REMAINS_GRACE_MS = 1000,     /* backends notice by themselves that the postmaster is gone */
    REMAINS_QUIT_MS = 6 * 1000,  /* from then on they are killed */
    REMAINS_MAX_MS = 15 * 1000,
    STOP_REMAINS_MS = 2 * 1000, /* the log collector ends after the postmaster */
    STEP_MS = 20,
    LOG_MAX_BYTES = 16 * 1024 * 1024,
};

static int64_t now_ms(void) {
    return clock_now_ms(&clock_boottime);
}

enum status server_init(struct server *server, const char *home, struct error *err) {
    *server = (struct server){0};
    enum status status = paths_init(&server->paths, home, err);
    if (status == STATUS_OK) {
        status = server_user_find(&server->paths, &server->user, err);
    }
    if (status != STATUS_OK) {
        server_finish(server);
    }
    return status;
}

void server_finish(struct server *server) {
    paths_finish(&server->paths);
    server_user_finish(&server->user);
}

pid_t server_pid(const struct server *server) {
    return process_find_postmaster(server->paths.data, server->user.uid, NULL);
}

static int signal_remains(const struct server *server, int number, pid_t *one) {
    pid_t other;
    int count = process_signal_all(server->paths.data, server->user.uid, number, one);
    count += process_signal_all(server->paths.fresh, server->user.uid, number, &other);
    *one = *one != 0 ? *one : other;
    return count;
}

static enum status open_server_lock(const struct server *server, int *lock, struct error *err) {
    char *name = mem_format("%s/server.lock", server->paths.home);
    *lock = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    enum status status =
        *lock >= 0 ? STATUS_OK
                   : error_set_errno(err, STATUS_INVALID, errno, "%s cannot be opened", name);
    free(name);
    return status;
}

/* A backend that outlived its postmaster still has the shared memory and files of the data; no new
 * server may start beside it. Gives the lock on HOME/server.lock, which proves that all are gone.
 * AGAIN: there is a postmaster after all, whose starter was killed before it could be seen. */
static enum status end_remains(const struct server *server, int *lock, struct error *err) {
    enum status status = open_server_lock(server, lock, err);
    int64_t begin = now_ms();
    bool told = false;
    while (status == STATUS_OK && flock(*lock, LOCK_EX | LOCK_NB) != 0) {
        int64_t waited = now_ms() - begin;
        int number = waited < REMAINS_GRACE_MS ? 0 : waited < REMAINS_QUIT_MS ? SIGQUIT : SIGKILL;
        pid_t one;
        int count = signal_remains(server, number, &one);
        if (number != 0 && count > 0 && !told) {
            told = true;
            log_event(LOG_WARN, "db.cluster.remains", "home=%s processes=%d pid=%ld",
                      log_text(server->paths.home), count, (long)one);
        }
        if (waited > REMAINS_MAX_MS && count > 0) {
            status = error_set(
                err, STATUS_UNAVAILABLE,
                "%d processes of a crashed database server of %s do not end (one is %ld): "
                "end them, then try again",
                count, server->paths.home, (long)one);
        } else if (waited > REMAINS_MAX_MS) {
            status = error_set(
                err, STATUS_UNAVAILABLE,
                "a process that cannot be seen from here still uses the database in %s (it "
                "holds server.lock): a server in another container, or a program that a "
                "server started; end it, then try again",
                server->paths.home);
        } else if (server_pid(server) != 0) {
            status = STATUS_AGAIN;
        } else {
            process_pause_ms(STEP_MS);
        }
    }
    if (status != STATUS_OK && *lock >= 0) {
        close(*lock);
        *lock = -1;
    }
    return status;
}

/* The folders around the data, and that the server's user can reach them. */
static enum status prepare_home(const struct server *server, struct error *err) {
    const struct server_user *user = &server->user;
    struct stat info;
    if (user->change && stat(server->paths.home, &info) == 0 && (info.st_mode & S_IXOTH) == 0 &&
        chmod(server->paths.home, (info.st_mode & 07777) | S_IXGRP | S_IXOTH) != 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "the mode of %s cannot be set",
                               server->paths.home);
    }
    enum status status = server_user_check_reach(user, server->paths.home, err);
    if (status == STATUS_OK) {
        char *nodes = mem_format("%s/nodes", server->paths.home);
        status = folder_ensure(nodes, geteuid(), getegid(), 0700, err);
        free(nodes);
    }
    if (status == STATUS_OK) {
        status = folder_ensure(server->paths.log, user->uid, user->gid, 0700, err);
    }
    return status;
}

/* 0 when there is no data yet. */
static enum status read_version(const struct server *server, int *major, struct error *err) {
    *major = 0;
    int folder = folder_open(server->paths.data);
    if (folder < 0) {
        return errno == ENOENT ? STATUS_OK
                               : error_set_errno(err, STATUS_INVALID, errno, "%s cannot be opened",
                                                 server->paths.data);
    }
    struct buf text;
    buf_init(&text, 64);
    if (file_read_at(folder, "PG_VERSION", 0, &text)) {
        *major = (int)strtol(text.data, NULL, 10);
    }
    buf_finish(&text);
    close(folder);
    return *major > 0
               ? STATUS_OK
               : error_set(err, STATUS_INVALID,
                           "%s holds no PostgreSQL data (PG_VERSION is missing or wrong): move it "
                           "away, or choose another home",
                           server->paths.data);
}

/* When: no server lives, and the lock is held. */
static enum status start_locked(struct server *server, int lock, struct buf *socket_folder,
                                struct error *err) {
    struct server_programs programs = {0};
    int major = 0;
    enum status status = prepare_home(server, err);
    if (status == STATUS_OK) {
        status = read_version(server, &major, err);
    }
    if (status == STATUS_OK) {
        status = programs_find(&server->user, major, server->paths.data, &programs, err);
    }
    if (status == STATUS_OK && major == 0) {
        status = server_make_data(server, &programs, lock, err);
    }
    if (status == STATUS_OK) {
        int data = folder_open(server->paths.data);
        unlinkat(data, "postmaster.pid", 0);
        close(data);
        status = socket_folder_make(&server->paths, &server->user, socket_folder, err);
    }
    if (status == STATUS_OK) {
        status = conf_write(&server->paths, &server->user, socket_folder->data, err);
    }
    if (status == STATUS_OK) {
        server_bound_log(server, NULL);
        status = server_launch(server, &programs, lock, socket_folder->data, err);
    }
    programs_finish(&programs);
    return status;
}

static enum status start(struct server *server, struct buf *socket_folder, struct error *err) {
    int lock = -1;
    enum status status = end_remains(server, &lock, err);
    if (status == STATUS_OK) {
        status = start_locked(server, lock, socket_folder, err);
        close(lock); /* the server has it */
    }
    return status;
}

/* The log's collector ends a moment after the postmaster, and a stop should mean that all have
 * ended. A program that a query started (COPY ... TO PROGRAM) may go on for ever; it is not waited
 * for. */
static void await_remains(const struct server *server) {
    int lock;
    if (open_server_lock(server, &lock, NULL) != STATUS_OK) {
        return;
    }
    int64_t begin = now_ms();
    while (flock(lock, LOCK_EX | LOCK_NB) != 0 && now_ms() - begin < STOP_REMAINS_MS) {
        process_pause_ms(STEP_MS);
    }
    close(lock);
}

static enum status stop_process(const struct server *server, pid_t pid, struct error *err) {
    const char *data = server->paths.data;
    uid_t uid = server->user.uid;
    if (!process_signal_server(pid, data, uid, SIGINT)) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno,
                               "the database server of %s (process %ld) cannot be stopped",
                               server->paths.home, (long)pid);
    }
    for (int64_t begin = now_ms(); process_is_server(pid, data, uid); process_pause_ms(STEP_MS)) {
        if (now_ms() - begin > STOP_MAX_MS) {
            return error_set(
                err, STATUS_TIMEOUT,
                "the database server of %s (process %ld) was told to stop and has not done so "
                "after %d s: look into %s",
                server->paths.home, (long)pid, STOP_MAX_MS / 1000, server->paths.log_file);
        }
    }
    log_event(LOG_INFO, "db.cluster.stop", "home=%s pid=%ld", log_text(server->paths.home),
              (long)pid);
    return STATUS_OK;
}

/* One look. `begin` and `silent_since` are the instants since which this has been going on. */
static enum status step_towards_ready(struct server *server, struct buf *socket_folder,
                                      int64_t begin, int64_t *silent_since, struct error *err) {
    bool says_ready = false;
    pid_t pid = process_find_postmaster(server->paths.data, server->user.uid, &says_ready);
    buf_clear(socket_folder);
    bool has_folder = socket_folder_find(&server->paths, &server->user, socket_folder);
    enum answer answer =
        has_folder ? database_ask(socket_folder->data, &server->user) : ANSWER_NONE;
    if (answer == ANSWER_READY) {
        return STATUS_OK;
    }
    if (answer == ANSWER_NONE && pid == 0) {
        buf_clear(socket_folder);
        return start(server, socket_folder, err);
    }
    if (says_ready && !(has_folder && socket_exists(socket_folder->data))) {
        /* A cleaner of /tmp, or the end of a login session, has removed it: nobody can connect any
         * more. */
        log_event(LOG_WARN, "db.cluster.socket_lost", "home=%s pid=%ld",
                  log_text(server->paths.home), (long)pid);
        enum status status = stop_process(server, pid, err);
        return status == STATUS_OK ? STATUS_AGAIN : status;
    }
    int64_t now = now_ms();
    *silent_since = answer == ANSWER_BUSY ? now : *silent_since;
    if (now - *silent_since > SILENT_MAX_MS || now - begin > BUSY_MAX_MS) {
        return error_set(
            err, STATUS_TIMEOUT,
            "the database server of %s (process %ld) does not take connections: look into "
            "%s, and stop it with `pgstage db stop` when nothing there explains it",
            server->paths.home, (long)pid, server->paths.log_file);
    }
    return STATUS_AGAIN;
}

enum status server_ensure(struct server *server, struct buf *socket_folder, struct error *err) {
    int64_t begin = now_ms(), silent_since = begin;
    for (;;) {
        enum status status = step_towards_ready(server, socket_folder, begin, &silent_since, err);
        if (status != STATUS_AGAIN) {
            return status;
        }
        process_pause_ms(STEP_MS * 2);
    }
}

enum status server_stop(struct server *server, struct error *err) {
    pid_t pid = server_pid(server);
    enum status status = STATUS_OK;
    if (pid != 0) {
        status = stop_process(server, pid, err);
    } else {
        struct buf folder;
        buf_init(&folder, CLUSTER_PATH_MAX + 32);
        if (socket_folder_find(&server->paths, &server->user, &folder) &&
            database_ask(folder.data, &server->user) != ANSWER_NONE) {
            status = error_set(
                err, STATUS_UNAVAILABLE,
                "the database server of %s runs where its process cannot be seen from here "
                "(another container?): stop it there",
                server->paths.home);
        }
        buf_finish(&folder);
    }
    if (status == STATUS_OK) {
        await_remains(server);
        socket_folder_drop(&server->paths, &server->user);
    }
    return status;
}

void server_bound_log(const struct server *server, const char *socket_folder) {
    int folder = folder_open(server->paths.log);
    struct stat info;
    if (folder >= 0 && fstatat(folder, "postgresql.log", &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        info.st_size > LOG_MAX_BYTES &&
        renameat(folder, "postgresql.log", folder, "postgresql.log.1") == 0 &&
        socket_folder != NULL) {
        struct error err = ERROR_NONE;
        if (database_reopen_log(socket_folder, &server->user, &err) != STATUS_OK) {
            log_event(LOG_WARN, "db.cluster.log", "home=%s error=%s", log_text(server->paths.home),
                      log_text(err.text));
        }
    }
    if (folder >= 0) {
        close(folder);
    }
}
