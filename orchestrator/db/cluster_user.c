/* cluster_user.c - which user the server runs as. */
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "db/cluster_spawn.h"

/* Names go into pg_ident.conf and through PostgreSQL's peer check, which looks them up by id. */
static enum status check_name(const struct passwd *entry, uid_t uid, struct error *err) {
    if (entry == NULL) {
        return error_set(
            err, STATUS_INVALID,
            "the user id %ld has no name (no line in /etc/passwd), and PostgreSQL does not "
            "run without one: add the user, or name a database with --database",
            (long)uid);
    }
    for (const char *c = entry->pw_name; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == '"' || *c == '/') {
            return error_set(err, STATUS_INVALID,
                             "the name of the user id %ld contains a character that PostgreSQL's "
                             "pg_ident.conf cannot hold",
                             (long)uid);
        }
    }
    return STATUS_OK;
}

static enum status take_user(const struct passwd *entry, uid_t uid, struct server_user *user,
                             struct error *err) {
    enum status status = check_name(entry, uid, err);
    if (status == STATUS_OK) {
        user->name = mem_copy_string(entry->pw_name);
        user->uid = entry->pw_uid;
        user->gid = entry->pw_gid;
        user->change = entry->pw_uid != geteuid();
    }
    return status;
}

static enum status take_unprivileged(struct server_user *user, struct error *err) {
    static const char *const names[] = {"postgres", "nobody"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct passwd *entry = getpwnam(names[i]);
        if (entry != NULL && entry->pw_uid != 0) {
            return take_user(entry, entry->pw_uid, user, err);
        }
    }
    return error_set(
        err, STATUS_INVALID,
        "PostgreSQL does not run as root, and there is neither a user postgres nor a user "
        "nobody: add one, run pgstage as another user, or name a database with --database");
}

static enum status find_name(const struct cluster_paths *paths, struct server_user *user,
                             struct error *err) {
    struct stat data;
    bool exists = lstat(paths->data, &data) == 0;
    uid_t self = geteuid();
    if (exists && !S_ISDIR(data.st_mode)) {
        return error_set(err, STATUS_INVALID, "%s is not a folder", paths->data);
    }
    if (self != 0) {
        if (exists && data.st_uid != self) {
            return error_set(err, STATUS_INVALID,
                             "the database in %s belongs to another user (id %ld)", paths->data,
                             (long)data.st_uid);
        }
        return take_user(getpwuid(self), self, user, err);
    }
    if (!exists) {
        return take_unprivileged(user, err);
    }
    if (data.st_uid == 0) {
        return error_set(
            err, STATUS_INVALID,
            "the database in %s belongs to root, and PostgreSQL does not run as root: give "
            "it back to its user with `chown -R postgres`",
            paths->data);
    }
    return take_user(getpwuid(data.st_uid), data.st_uid, user, err);
}

enum status server_user_find(const struct cluster_paths *paths, struct server_user *user,
                             struct error *err) {
    *user = (struct server_user){0};
    enum status status = find_name(paths, user, err);
    if (status == STATUS_OK) {
        const struct passwd *owner = getpwuid(geteuid());
        status = check_name(owner, geteuid(), err);
        if (status == STATUS_OK) {
            user->owner = mem_copy_string(owner->pw_name);
        }
    }
    if (status != STATUS_OK) {
        server_user_finish(user);
    }
    return status;
}

void server_user_finish(struct server_user *user) {
    free(user->name);
    free(user->owner);
    *user = (struct server_user){0};
}
