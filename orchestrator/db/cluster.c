/* cluster.c - the users of the embedded database.
 *
 * A user holds a shared flock on HOME/users.lock, which the kernel gives back however the process
 * ends, and beside it a read lock on the byte whose number is the process's id, which lets another
 * process tell who the users are. Whoever starts, stops or looks whether it is the last one holds
 * HOME/cluster.lock meanwhile.
 */
#include "db/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "db/cluster_database.h"
#include "db/cluster_process.h"
#include "db/cluster_server.h"
#include "db/cluster_socket.h"

enum {
    GATE_MAX_MS = 7 * 60 * 1000, /* the holder's own limits end before */
    GATE_STEP_MS = 20,
    SETTLE_MS = 3000,
    SETTLE_STEP_MS = 20,
    URL_MAX = 4096,
    USERS_NAMED = 8,
};

struct cluster {
    struct server server;
    char *url;
    int users; /* descriptor of users.lock, shared lock held */
};

static enum status open_lock(const struct server *server, const char *name, int *file,
                             struct error *err) {
    char *path = mem_format("%s/%s", server->paths.home, name);
    *file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    enum status status =
        *file >= 0 ? STATUS_OK
                   : error_set_errno(err, STATUS_INVALID, errno, "%s cannot be opened", path);
    free(path);
    return status;
}

/* Takes HOME/cluster.lock. Polls, because flock has no limit of time. */
static enum status enter_gate(const struct server *server, int *gate, struct error *err) {
    enum status status = open_lock(server, "cluster.lock", gate, err);
    int64_t begin = clock_now_ms(&clock_boottime);
    while (status == STATUS_OK && flock(*gate, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            status = error_set_errno(err, STATUS_INVALID, errno, "%s/cluster.lock cannot be locked",
                                     server->paths.home);
        } else if (clock_now_ms(&clock_boottime) - begin > GATE_MAX_MS) {
            status = error_set(
                err, STATUS_TIMEOUT,
                "another pgstage has been starting or stopping the database of %s for %d s",
                server->paths.home, GATE_MAX_MS / 1000);
        } else {
            process_pause_ms(GATE_STEP_MS);
        }
    }
    if (status != STATUS_OK && *gate >= 0) {
        close(*gate);
        *gate = -1;
    }
    return status;
}

static enum status become_user(const struct server *server, int *users, struct error *err) {
    enum status status = open_lock(server, "users.lock", users, err);
    if (status != STATUS_OK) {
        return status;
    }
    /* The exclusive lock is only ever taken inside the gate, where we are. */
    if (flock(*users, LOCK_SH | LOCK_NB) != 0) {
        status = error_set_errno(err, STATUS_UNAVAILABLE, errno, "%s/users.lock cannot be locked",
                                 server->paths.home);
        close(*users);
        *users = -1;
        return status;
    }
    struct flock mark = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = getpid(), .l_len = 1};
    (void)fcntl(*users, F_OFD_SETLK, &mark); /* without it a message counts one user too few */
    return STATUS_OK;
}

static bool has_users(const struct server *server) {
    int users;
    if (open_lock(server, "users.lock", &users, NULL) != STATUS_OK) {
        return true; /* not known: stop nothing */
    }
    bool others = flock(users, LOCK_EX | LOCK_NB) != 0;
    close(users);
    return others;
}

/* The users whose mark lies in [from, to); to 0: no end. The kernel names any lock of a range, not the first: what lies
 * before and behind it is asked for as well. Locks of neighbours are not merged, and those of one byte are one process's. */
static int count_marks(int users, off_t from, off_t to, int before, struct buf *names) {
    struct flock mark = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = to == 0 ? 0 : to - from};
    if ((to != 0 && from >= to) || fcntl(users, F_OFD_GETLK, &mark) != 0 || mark.l_type == F_UNLCK || mark.l_len == 0) {
        return 0;
    }
    int count = count_marks(users, from, mark.l_start, before, names);
    if (before + count < USERS_NAMED) {
        buf_append_format(names, "%s%lld", before + count == 0 ? "" : ", ", (long long)mark.l_start);
    }
    count++;
    return count + count_marks(users, mark.l_start + mark.l_len, to, before + count, names);
}

/* Appends the ids of the users' processes as far as they can be told; returns their number. */
static int count_users(const struct server *server, struct buf *names) {
    int users;
    if (open_lock(server, "users.lock", &users, NULL) != STATUS_OK) {
        return 0;
    }
    int count = count_marks(users, 0, 0, 0, names);
    if (count > USERS_NAMED) {
        buf_append_string(names, ", ...");
    }
    close(users);
    return count;
}

static bool is_held(const struct server *server) {
    char *path = mem_format("%s/held", server->paths.home);
    bool held = access(path, F_OK) == 0;
    free(path);
    return held;
}

static enum status set_held(const struct server *server, bool held, struct error *err) {
    char *path = mem_format("%s/held", server->paths.home);
    enum status status = STATUS_OK;
    if (held) {
        int file = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0) {
            status = error_set_errno(err, STATUS_INVALID, errno, "%s cannot be made", path);
        } else {
            close(file);
        }
    } else if (unlink(path) != 0 && errno != ENOENT) {
        status = error_set_errno(err, STATUS_INVALID, errno, "%s cannot be removed", path);
    }
    free(path);
    return status;
}

/* When: inside the gate, and not a user any more. */
static void stop_if_last(struct server *server) {
    struct error err = ERROR_NONE;
    if (!has_users(server) && !is_held(server) && server_stop(server, &err) != STATUS_OK) {
        log_event(LOG_WARN, "db.cluster.stop", "home=%s error=%s", log_text(server->paths.home),
                  log_text(err.text));
    }
}

/* A server that has answered may still close what was just opened, when a backend has crashed and it starts itself anew:
 * then it is waited for again, for a while. */
static enum status answer_and_have_database(struct server *server, struct buf *socket_folder, struct error *err) {
    int64_t deadline_ms = clock_now_ms(&clock_boottime) + SETTLE_MS;
    for (;;) {
        struct error why = ERROR_NONE;
        buf_clear(socket_folder);
        enum status status = server_ensure(server, socket_folder, err);
        if (status != STATUS_OK) {
            return status;
        }
        status = database_ensure(socket_folder->data, &server->user, &why);
        if (status != STATUS_UNAVAILABLE || clock_now_ms(&clock_boottime) > deadline_ms) {
            if (status != STATUS_OK && err != NULL && err->code == STATUS_OK) {
                *err = why;
            }
            return status;
        }
        process_pause_ms(SETTLE_STEP_MS);
    }
}

/* Makes the server answer and the database exist. When: inside the gate. */
static enum status make_usable(struct server *server, struct buf *socket_folder,
                               struct error *err) {
    enum status status = answer_and_have_database(server, socket_folder, err);
    if (status == STATUS_OK) {
        server_bound_log(server, socket_folder->data);
    }
    return status;
}

static void cluster_free(struct cluster *cluster) {
    server_finish(&cluster->server);
    free(cluster->url);
    free(cluster);
}

static enum status use(const char *home, bool hold, struct cluster **result, struct error *err) {
    struct cluster *cluster = mem_alloc(sizeof *cluster);
    struct buf folder, url;
    buf_init(&folder, CLUSTER_PATH_MAX + 32);
    buf_init(&url, URL_MAX);
    int gate = -1;
    cluster->users = -1;
    enum status status = server_init(&cluster->server, home, err);
    if (status == STATUS_OK) {
        status = enter_gate(&cluster->server, &gate, err);
    }
    if (status == STATUS_OK) {
        status = become_user(&cluster->server, &cluster->users, err);
    }
    if (status == STATUS_OK) {
        status = make_usable(&cluster->server, &folder, err);
    }
    if (status == STATUS_OK && hold) {
        status = set_held(&cluster->server, true, err);
    }
    if (status == STATUS_OK) {
        database_append_url(&url, folder.data);
        cluster->url = buf_take(&url);
        *result = cluster;
    } else if (cluster->users >= 0) {
        close(cluster->users);
        /* One that is still recovering goes on: a stop would make the next start begin anew. */
        if (status != STATUS_TIMEOUT) {
            stop_if_last(&cluster->server);
        }
    }
    if (gate >= 0) {
        close(gate);
    }
    if (status != STATUS_OK) {
        cluster_free(cluster);
    }
    buf_finish(&url);
    buf_finish(&folder);
    return status;
}

enum status cluster_use(const char *home, struct cluster **cluster, struct error *err) {
    return use(home, false, cluster, err);
}

const char *cluster_url(const struct cluster *cluster) {
    return cluster->url;
}

enum status cluster_tend(struct cluster *cluster, struct error *err) {
    int gate;
    enum status status = enter_gate(&cluster->server, &gate, err);
    if (status == STATUS_OK) {
        struct buf folder;
        buf_init(&folder, CLUSTER_PATH_MAX + 32);
        status = make_usable(&cluster->server, &folder, err);
        buf_finish(&folder);
        close(gate);
    }
    return status;
}

void cluster_release(struct cluster *cluster) {
    if (cluster == NULL) {
        return;
    }
    /* First: of two that leave at the same time, the one that comes to the gate later then sees no
     * user. */
    close(cluster->users);
    int gate;
    if (enter_gate(&cluster->server, &gate, NULL) == STATUS_OK) {
        stop_if_last(&cluster->server);
        close(gate);
    }
    cluster_free(cluster);
}

enum status cluster_hold(const char *home, struct error *err) {
    struct cluster *cluster;
    enum status status = use(home, true, &cluster, err);
    if (status == STATUS_OK) {
        close(cluster->users);
        cluster_free(cluster);
    }
    return status;
}

static enum status stop_unused(struct server *server, struct error *err) {
    enum status status = set_held(server, false, err);
    if (status != STATUS_OK || !has_users(server)) {
        return status == STATUS_OK ? server_stop(server, err) : status;
    }
    struct buf names;
    buf_init(&names, 256);
    int count = count_users(server, &names);
    if (count == 0) {
        status =
            error_set(err, STATUS_CONFLICT,
                      "other processes use the database of %s; it stops when the last of them ends",
                      server->paths.home);
    } else {
        status = error_set(
            err, STATUS_CONFLICT,
            "%d other process%s the database of %s (%s); it stops when the last of them ends",
            count, count == 1 ? " uses" : "es use", server->paths.home, names.data);
    }
    buf_finish(&names);
    return status;
}

enum status cluster_stop(const char *home, struct error *err) {
    struct server server;
    enum status status = server_init(&server, home, err);
    if (status != STATUS_OK) {
        return status;
    }
    int gate;
    status = enter_gate(&server, &gate, err);
    if (status == STATUS_OK) {
        status = stop_unused(&server, err);
        close(gate);
    }
    server_finish(&server);
    return status;
}

enum status cluster_state(const char *home, int *pid, bool *held, struct error *err) {
    struct server server;
    *pid = 0;
    *held = false;
    enum status status = server_init(&server, home, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct buf folder;
    buf_init(&folder, CLUSTER_PATH_MAX + 32);
    *held = is_held(&server);
    if (socket_folder_find(&server.paths, &server.user, &folder) &&
        database_ask(folder.data, &server.user) == ANSWER_READY) {
        *pid = (int)server_pid(&server);
    }
    buf_finish(&folder);
    server_finish(&server);
    return STATUS_OK;
}
