/* remove_tree.c - a tree is removed at a constant depth: a folder that is not empty is moved up to the top, and becomes an
 * entry like any other.
 *
 * Nothing is found by a path of more than one part, so that a link which is put in a folder's place meanwhile is at most
 * removed itself.
 */
#include "base/remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PASSES_MAX = 1000000, NAME_TRIES = 1000 };

struct removal {
    int top;
    dev_t device;
    remove_tree_keep *keep;
    void *context;
    unsigned moved;    /* names the next folder that is moved up */
    bool progressed;   /* in this pass over the top */
    bool left;         /* something stays though it should not */
    struct error *err; /* the first reason */
};

/* Opens a folder that may forbid it. -1: no, or it is no folder. */
static int open_folder(int at, const char *name) {
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 || errno != EACCES) {
        return fd;
    }
    /* Its mode is changed by way of a descriptor: chmod by name would follow a link. */
    int place = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0) {
        return -1;
    }
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", place);
    fd = chmod(path, 0700) == 0 ? openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int why = errno;
    close(place);
    errno = why;
    return fd;
}

/* One that may be read, and not written or entered. */
static void open_up(int fd) {
    (void)fchmod(fd, 0700);
}

static void note_left(struct removal *removal, const char *name) {
    if (!removal->left) {
        removal->left = true;
        error_set_errno(removal->err, STATUS_INVALID, errno, "cannot remove '%s'", name);
    }
}

/* Moves the folder NAME of `at` to the top. */
static bool move_up(struct removal *removal, int at, const char *name) {
    for (int i = 0; i < NAME_TRIES; i++) {
        char moved[32];
        snprintf(moved, sizeof moved, ".removed-%u", removal->moved++);
        if (renameat2(at, name, removal->top, moved, RENAME_NOREPLACE) == 0) {
            return true;
        }
        if (errno == EACCES || errno == EPERM) {
            int fd = open_folder(at, name); /* a folder is moved by those who may write to it */
            if (fd < 0) {
                return false;
            }
            open_up(fd);
            close(fd);
            if (renameat2(at, name, removal->top, moved, RENAME_NOREPLACE) == 0) {
                return true;
            }
        }
        if (errno != EEXIST) {
            return false;
        }
    }
    return false;
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Removes an entry that is no folder, or an empty one. False: errno says why; ENOTEMPTY: a folder that is not. */
static bool remove_entry(int at, const char *name) {
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT) {
        return true;
    }
    if (errno != EISDIR && errno != EPERM) {
        return false;
    }
    if (unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return true;
    }
    errno = errno == EEXIST ? ENOTEMPTY : errno;
    return false;
}

/* Removes what is in the folder; takes the descriptor. Its folders that are not empty are moved up. */
static void clear_folder(struct removal *removal, int fd) {
    open_up(fd);
    DIR *folder = fdopendir(fd);
    if (folder == NULL) {
        close(fd);
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (is_dots(entry->d_name)) {
            continue;
        }
        if (remove_entry(dirfd(folder), entry->d_name) ||
            (errno == ENOTEMPTY && move_up(removal, dirfd(folder), entry->d_name))) {
            removal->progressed = true;
        } else {
            note_left(removal, entry->d_name);
        }
    }
    closedir(folder);
}

static void remove_folder(struct removal *removal, const char *name) {
    int fd = open_folder(removal->top, name);
    struct stat found;
    if (fd < 0 || fstat(fd, &found) != 0 || found.st_dev != removal->device) {
        if (fd >= 0) {
            errno = EXDEV;
            close(fd);
        } else if (errno == ENOENT) {
            return;
        }
        note_left(removal, name);
        return;
    }
    clear_folder(removal, fd);
    if (remove_entry(removal->top, name)) {
        removal->progressed = true;
    } else if (errno != ENOTEMPTY) {
        note_left(removal, name);
    }
}

/* Once over the entries of the top; true when none is left but those that are kept. */
static bool pass(struct removal *removal) {
    int fd = openat(removal->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) {
        note_left(removal, ".");
        if (fd >= 0) {
            close(fd);
        }
        return true;
    }
    bool is_empty = true;
    struct dirent *entry;
    removal->progressed = false;
    while ((entry = readdir(folder)) != NULL) {
        if (is_dots(entry->d_name) || (removal->keep != NULL && removal->keep(removal->context, entry->d_name))) {
            continue;
        }
        is_empty = false;
        if (remove_entry(removal->top, entry->d_name)) {
            removal->progressed = true;
        } else if (errno == ENOTEMPTY || errno == EACCES) {
            remove_folder(removal, entry->d_name);
        } else {
            note_left(removal, entry->d_name);
        }
    }
    closedir(folder);
    return is_empty;
}

enum status remove_tree_empty(int at, const char *name, remove_tree_keep *keep, void *context, struct error *err) {
    struct stat found;
    int top = open_folder(at, name);
    if (top < 0) {
        return error_set_errno(err, STATUS_NOT_FOUND, errno, "the folder '%s'", name);
    }
    struct error first = ERROR_NONE;
    struct removal removal = {.top = top, .keep = keep, .context = context, .err = &first};
    if (fstat(top, &found) == 0) {
        removal.device = found.st_dev;
    }
    open_up(top);
    bool is_empty = pass(&removal);
    for (int i = 0; i < PASSES_MAX && !is_empty && removal.progressed; i++) {
        removal.left = false; /* what could not go may go now */
        is_empty = pass(&removal);
    }
    close(top);
    if (is_empty) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "%s", first.text[0] != '\0' ? first.text : "it fills again while it is emptied");
}

enum status remove_tree(int at, const char *name, struct error *err) {
    if (unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return STATUS_OK;
    }
    enum status status = remove_tree_empty(at, name, NULL, NULL, err);
    if (status == STATUS_OK && unlinkat(at, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        status = error_set_errno(err, STATUS_INVALID, errno, "cannot remove the folder '%s'", name);
    }
    return status;
}

enum status remove_any(int at, const char *name, struct error *err) {
    if (remove_entry(at, name)) {
        return STATUS_OK;
    }
    if (errno == ENOTEMPTY) {
        return remove_tree(at, name, err);
    }
    return error_set_errno(err, STATUS_INVALID, errno, "cannot remove '%s'", name);
}
