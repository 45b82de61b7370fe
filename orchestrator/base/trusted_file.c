#include "base/trusted_file.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

/* Whether everyone in the group is the file's owner, or root. A user without a name has the group of the same number. */
static bool is_own_group(uid_t owner, gid_t group) {
    if (group == 0) {
        return true;
    }
    const struct passwd *user = getpwuid(owner);
    char *name = user == NULL ? NULL : mem_copy_string(user->pw_name);
    const struct group *found = getgrgid(group);
    bool own = false;
    if (name == NULL) {
        own = owner == group && found == NULL;
    } else if (user->pw_gid == group && found != NULL && strcmp(found->gr_name, name) == 0) {
        own = true;
        for (char **member = found->gr_mem; *member != NULL; member++) {
            own = own && strcmp(*member, name) == 0;
        }
    }
    free(name);
    return own;
}

static enum status check_mode(const char *path, const struct stat *found, const char *shown, struct error *err) {
    bool is_sticky = S_ISDIR(found->st_mode) && (found->st_mode & S_ISVTX) != 0;
    if (is_sticky) {
        return STATUS_OK;
    }
    if ((found->st_mode & S_IWOTH) != 0) {
        return error_set(err, STATUS_INVALID, "%s is not loaded: everybody may write to %s (chmod o-w %s)", shown,
                         S_ISDIR(found->st_mode) ? "its folder" : "it", path);
    }
    if ((found->st_mode & S_IWGRP) != 0 && !is_own_group(found->st_uid, found->st_gid)) {
        return error_set(err, STATUS_INVALID, "%s is not loaded: other users of a group may write to %s (chmod g-w %s)",
                         shown, S_ISDIR(found->st_mode) ? "its folder" : "it", path);
    }
    return STATUS_OK;
}

static bool is_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return strcmp(folder, "/") == 0 || (strncmp(path, folder, length) == 0 && path[length] == '/');
}

static enum status check_real(char *real, const char *shown, struct error *err) {
    struct stat found;
    if (stat(real, &found) != 0) {
        return error_set_errno(err, STATUS_NOT_FOUND, errno, "%s", shown);
    }
    if (!S_ISREG(found.st_mode)) {
        return error_set(err, STATUS_INVALID, "%s is not a regular file", shown);
    }
    enum status status = check_mode(real, &found, shown, err);
    if (status != STATUS_OK) {
        return status;
    }
    char *slash = strrchr(real, '/');
    slash[slash == real] = '\0';
    if (stat(real, &found) != 0) {
        return error_set_errno(err, STATUS_NOT_FOUND, errno, "the folder of %s", shown);
    }
    return check_mode(real, &found, shown, err);
}

enum status trusted_file_check(const char *path, const char *inside, struct error *err) {
    char *real = realpath(path, NULL);
    if (real == NULL) {
        return error_set_errno(err, STATUS_NOT_FOUND, errno, "%s", path);
    }
    enum status status = STATUS_OK;
    if (inside != NULL) {
        char *folder = realpath(inside, NULL);
        if (folder == NULL) {
            status = error_set_errno(err, STATUS_NOT_FOUND, errno, "%s", inside);
        } else if (!is_below(real, folder)) {
            status = error_set(err, STATUS_INVALID,
                               "%s lies outside of the pipeline's folder, at %s: give its absolute path if that is meant",
                               path, real);
        }
        free(folder);
    }
    if (status == STATUS_OK) {
        status = check_real(real, path, err);
    }
    free(real);
    return status;
}
