/* cluster_paths.c - the home folder: which one it is, whether it is safe, and the names of what is
 * in it. */
#include "db/cluster_paths.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "db/cluster.h"

static const char *environment(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The folder below which this user keeps state that should survive a restart. */
static enum status append_state_folder(struct buf *path, struct error *err) {
    const char *state = environment("XDG_STATE_HOME");
    if (state != NULL && state[0] == '/') { /* the specification says: a relative one is ignored */
        buf_append_string(path, state);
        return STATUS_OK;
    }
    const char *home = environment("HOME");
    if (home == NULL || home[0] != '/') {
        const struct passwd *entry = getpwuid(geteuid());
        home = entry != NULL ? entry->pw_dir : NULL;
    }
    if (home == NULL || home[0] != '/') {
        return error_set(err, STATUS_INVALID,
                         "there is no folder for pgstage's database because HOME is not set: name "
                         "one with --home or PGSTAGE_HOME");
    }
    buf_append_format(path, "%s/.local/state", home);
    return STATUS_OK;
}

static enum status append_home(const char *option, struct buf *path, struct error *err) {
    const char *named = option != NULL ? option : environment("PGSTAGE_HOME");
    if (named == NULL && geteuid() == 0) {
        named = "/var/lib/pgstage";
    }
    if (named == NULL) {
        enum status status = append_state_folder(path, err);
        buf_append_string(path, "/pgstage");
        return status;
    }
    if (named[0] == '\0') {
        return error_set(err, STATUS_INVALID, "the name of the home folder is empty");
    }
    if (named[0] != '/') {
        char here[PATH_MAX];
        if (getcwd(here, sizeof here) == NULL) {
            return error_set_errno(err, STATUS_INVALID, errno,
                                   "the current folder has no name, so that '%s' means nothing",
                                   named);
        }
        buf_append_format(path, "%s/", here);
    }
    buf_append_string(path, named);
    return STATUS_OK;
}

enum status cluster_home(const char *option, struct buf *home, struct error *err) {
    struct buf path;
    buf_init(&path, PATH_MAX);
    char *real = NULL;
    enum status status = append_home(option, &path, err);
    if (status == STATUS_OK && path.overflow) {
        status = error_set(err, STATUS_LIMIT, "the name of the home folder is too long");
    }
    if (status == STATUS_OK) {
        /* The server's user must be able to pass what root makes for it. */
        bool root = geteuid() == 0;
        status = folder_make_all(path.data, root ? 0711 : 0700, root ? 0755 : 0700, err);
    }
    if (status == STATUS_OK) {
        real = realpath(path.data, NULL);
        if (real == NULL) {
            status =
                error_set_errno(err, STATUS_INVALID, errno, "%s cannot be resolved", path.data);
        } else {
            buf_append_string(home, real);
        }
    }
    free(real);
    buf_finish(&path);
    return status;
}

static enum status check_owner(const char *home, const struct stat *info, struct error *err) {
    if (info->st_uid == geteuid()) {
        return STATUS_OK;
    }
    const struct passwd *owner = getpwuid(info->st_uid);
    if (owner == NULL) {
        return error_set(err, STATUS_INVALID,
                         "the home folder %s belongs to another user (id %ld): choose another with "
                         "--home or PGSTAGE_HOME",
                         home, (long)info->st_uid);
    }
    return error_set(
        err, STATUS_INVALID,
        "the home folder %s belongs to the user %s: run pgstage as that user, or choose "
        "another folder with --home or PGSTAGE_HOME",
        home, owner->pw_name);
}

static enum status check_home(const char *home, struct error *err) {
    if (home[0] != '/') {
        return error_set(err, STATUS_INVALID, "the home folder '%s' is not an absolute path", home);
    }
    if (strlen(home) > CLUSTER_PATH_MAX) {
        return error_set(err, STATUS_LIMIT, "the name of the home folder is longer than %d bytes",
                         CLUSTER_PATH_MAX);
    }
    if (strpbrk(home, "\r\n") != NULL) {
        return error_set(err, STATUS_INVALID,
                         "the name of the home folder contains a line break, which PostgreSQL's "
                         "programs do not take");
    }
    struct stat info;
    if (stat(home, &info) != 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "the home folder %s cannot be used",
                               home);
    }
    if (!S_ISDIR(info.st_mode)) {
        return error_set(err, STATUS_INVALID, "the home folder %s is not a folder", home);
    }
    if (info.st_mode & (S_IWGRP | S_IWOTH)) {
        return error_set(
            err, STATUS_INVALID,
            "other users may write to the home folder %s: forbid it with `chmod go-w`, "
            "or choose another with --home or PGSTAGE_HOME",
            home);
    }
    return check_owner(home, &info, err);
}

enum status paths_init(struct cluster_paths *paths, const char *home, struct error *err) {
    *paths = (struct cluster_paths){0};
    enum status status = check_home(home, err);
    if (status != STATUS_OK) {
        return status;
    }
    *paths = (struct cluster_paths){
        .home = mem_copy_string(home),
        .data = mem_format("%s/pg", home),
        .fresh = mem_format("%s/pg.new", home),
        .log = mem_format("%s/log", home),
        .log_file = mem_format("%s/log/postgresql.log", home),
        .run = mem_format("%s/run", home),
    };
    return STATUS_OK;
}

void paths_finish(struct cluster_paths *paths) {
    free(paths->home);
    free(paths->data);
    free(paths->fresh);
    free(paths->log);
    free(paths->log_file);
    free(paths->run);
    *paths = (struct cluster_paths){0};
}
