#include "worker/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/lifeline.h"

static const char *name_of(uid_t uid) {
    static char number[24];
    const struct passwd *entry = getpwuid(uid);
    if (entry != NULL) {
        return entry->pw_name;
    }
    snprintf(number, sizeof number, "%u", (unsigned)uid);
    return number;
}

/* Made a moment ago by the node, which is root, in a folder of root's: nobody else had it in hand. */
static bool give_folder(const char *work, const struct passwd *user) {
    int fd = open(work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool given = fd >= 0 && fchownat(fd, "run", user->pw_uid, user->pw_gid, AT_SYMLINK_NOFOLLOW) == 0 &&
                 fchown(fd, user->pw_uid, user->pw_gid) == 0;
    int why = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = why;
    return given;
}

static void set_variable(const char *name, const char *node_value, const char *value) {
    const char *given = getenv(name);
    if (given == NULL || (node_value != NULL && strcmp(given, node_value) == 0)) {
        setenv(name, value, 1);
    }
}

/* What the node passed on is its own user's. */
static void set_environment(const struct passwd *node_user, const struct passwd *user) {
    set_variable("HOME", node_user == NULL ? NULL : node_user->pw_dir, user->pw_dir);
    set_variable("USER", node_user == NULL ? NULL : node_user->pw_name, user->pw_name);
    set_variable("LOGNAME", node_user == NULL ? NULL : node_user->pw_name, user->pw_name);
}

static enum status change(const struct passwd *user, struct error *err) {
    if (initgroups(user->pw_name, user->pw_gid) != 0 || setresgid(user->pw_gid, user->pw_gid, user->pw_gid) != 0 ||
        setresuid(user->pw_uid, user->pw_uid, user->pw_uid) != 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "cannot become the user '%s'", user->pw_name);
    }
    lifeline_watch_parent();
    return STATUS_OK;
}

enum status identity_become(const char *name, const char *work, struct error *err) {
    struct passwd node_user = {0};
    const struct passwd *found = getpwuid(geteuid());
    if (found != NULL) {
        node_user = *found;
        node_user.pw_name = strdup(found->pw_name);
        node_user.pw_dir = strdup(found->pw_dir);
    }
    errno = 0;
    const struct passwd *user = getpwnam(name);
    enum status status = STATUS_OK;
    if (user == NULL) {
        status = errno != 0 && errno != ENOENT
                     ? error_set_errno(err, STATUS_INVALID, errno, "cannot look up the user '%s' of the stage", name)
                     : error_set(err, STATUS_INVALID, "there is no user '%s' on this host, as whom the stage's workers run",
                                 name);
    } else if (user->pw_uid == geteuid() && geteuid() != 0) {
        /* It is that user already. */
    } else if (geteuid() != 0) {
        status = error_set(err, STATUS_INVALID,
                           "the stage's workers run as the user '%s', for which the node must run as root; it runs as '%s'",
                           name, name_of(geteuid()));
    } else if (work != NULL && !give_folder(work, user)) {
        status = error_set_errno(err, STATUS_INVALID, errno, "cannot give the folder '%s' to the user '%s'", work, name);
    } else {
        set_environment(found == NULL ? NULL : &node_user, user);
        status = change(user, err);
    }
    free(node_user.pw_name);
    free(node_user.pw_dir);
    return status;
}
