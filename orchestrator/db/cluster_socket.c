/* cluster_socket.c - choosing, checking and leaving the socket's folder. */
#include "db/cluster_socket.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char socket_name[] = "/.s.PGSQL.5432";

static bool fits(const char *folder) {
    return strlen(folder) + sizeof socket_name <= sizeof((struct sockaddr_un *)0)->sun_path &&
           strchr(folder, ',') == NULL;
}

/* In /tmp the name could have been taken by anybody after a cleaner had removed the folder. */
static bool is_private(const char *folder, uid_t uid) {
    struct stat info;
    return lstat(folder, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == uid &&
           (info.st_mode & 077) == 0;
}

/* False when `run` is no link to an absolute path. */
static bool read_link(const char *run, char target[PATH_MAX]) {
    ssize_t length = readlink(run, target, PATH_MAX - 1);
    if (length <= 0) {
        return false;
    }
    target[length] = '\0';
    return target[0] == '/';
}

bool socket_folder_find(const struct cluster_paths *paths, const struct server_user *user,
                        struct buf *folder) {
    char target[PATH_MAX];
    const char *found = read_link(paths->run, target) ? target : paths->run;
    if (!fits(found) || !is_private(found, user->uid)) {
        return false;
    }
    buf_append_string(folder, found);
    return true;
}

bool socket_exists(const char *folder) {
    struct buf path;
    struct stat info;
    buf_init(&path, PATH_MAX);
    buf_append_format(&path, "%s%s", folder, socket_name);
    bool found = lstat(path.data, &info) == 0 && S_ISSOCK(info.st_mode);
    buf_finish(&path);
    return found;
}

/* PostgreSQL refuses to start when the id in the lock file is of another living process by now. */
static void remove_remains(const char *path) {
    int folder = folder_open(path);
    if (folder >= 0) {
        unlinkat(folder, ".s.PGSQL.5432", 0);
        unlinkat(folder, ".s.PGSQL.5432.lock", 0);
        close(folder);
    }
}

/* Where a private folder can be made. The runtime folder of root is closed to the server's user. */
static const char *choose_base(const struct server_user *user) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat info;
    if (user->change || runtime == NULL || runtime[0] != '/' || stat(runtime, &info) != 0 ||
        !S_ISDIR(info.st_mode) || info.st_uid != user->uid ||
        (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return "/tmp";
    }
    struct buf longest;
    buf_init(&longest, PATH_MAX);
    buf_append_format(&longest, "%s/pgstage-XXXXXX", runtime);
    bool usable = !longest.overflow && fits(longest.data) && access(runtime, W_OK | X_OK) == 0;
    buf_finish(&longest);
    return usable ? runtime : "/tmp";
}

static enum status make_outside(const struct cluster_paths *paths, const struct server_user *user,
                                struct buf *folder, struct error *err) {
    struct buf path;
    buf_init(&path, PATH_MAX);
    buf_append_format(&path, "%s/pgstage-XXXXXX", choose_base(user));
    enum status status = STATUS_OK;
    if (mkdtemp(path.data) == NULL) {
        status = error_set_errno(err, STATUS_INVALID, errno, "%s cannot be made for the socket",
                                 path.data);
    } else if ((status = folder_ensure(path.data, user->uid, user->gid, 0700, err)) == STATUS_OK &&
               symlink(path.data, paths->run) != 0) {
        status = error_set_errno(err, STATUS_INVALID, errno, "%s cannot be made", paths->run);
    }
    if (status == STATUS_OK) {
        buf_append_string(folder, path.data);
    } else {
        rmdir(path.data);
    }
    buf_finish(&path);
    return status;
}

enum status socket_folder_make(const struct cluster_paths *paths, const struct server_user *user,
                               struct buf *folder, struct error *err) {
    if (socket_folder_find(paths, user, folder)) {
        remove_remains(folder->data);
        return STATUS_OK;
    }
    char target[PATH_MAX];
    if (read_link(paths->run, target) && fits(target) && mkdir(target, 0700) == 0) {
        /* It was lost: under its old name those who use the cluster find it again. */
        buf_append_string(folder, target);
        return folder_ensure(target, user->uid, user->gid, 0700, err);
    }
    if (unlink(paths->run) != 0 && errno != ENOENT) { /* not a link */
        enum status status = folder_remove_all(paths->run, err);
        if (status != STATUS_OK) {
            return status;
        }
    }
    if (!fits(paths->run)) {
        return make_outside(paths, user, folder, err);
    }
    enum status status = folder_ensure(paths->run, user->uid, user->gid, 0700, err);
    if (status == STATUS_OK) {
        buf_append_string(folder, paths->run);
    }
    return status;
}

void socket_folder_drop(const struct cluster_paths *paths, const struct server_user *user) {
    char target[PATH_MAX];
    if (read_link(paths->run, target) && is_private(target, user->uid)) {
        remove_remains(target);
        if (rmdir(target) == 0) {
            unlink(paths->run);
        }
    }
}
