/* cluster_files.c - folders and files that may belong to another user than the one who handles
 * them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "db/cluster_paths.h"

enum { FOLDER_DEPTH_MAX = 32 }; /* PostgreSQL's own tree is 5 deep */

enum status folder_ensure(const char *path, uid_t uid, gid_t gid, mode_t mode, struct error *err) {
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return error_set_errno(err, STATUS_INVALID, errno, "the folder %s cannot be made", path);
    }
    int folder = folder_open(path);
    if (folder < 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "%s is in the way", path);
    }
    struct stat info;
    enum status status = STATUS_OK;
    if (fstat(folder, &info) != 0) {
        status = error_set_errno(err, STATUS_INVALID, errno, "%s cannot be looked at", path);
    } else if (info.st_uid != uid && fchown(folder, uid, gid) != 0) {
        status = error_set_errno(err, STATUS_INVALID, errno, "%s cannot be given to user id %ld",
                                 path, (long)uid);
    } else if ((info.st_mode & 07777) != mode && fchmod(folder, mode) != 0) {
        status = error_set_errno(err, STATUS_INVALID, errno, "the mode of %s cannot be set", path);
    }
    close(folder);
    return status;
}

enum status folder_make_all(const char *path, mode_t mode, mode_t parents, struct error *err) {
    char *copy = mem_copy_string(path);
    enum status status = STATUS_OK;
    for (char *end = copy; status == STATUS_OK && end != NULL;) {
        while (*end == '/') {
            end++;
        }
        end = strchr(end, '/');
        bool last = end == NULL || end[strspn(end, "/")] == '\0';
        if (end != NULL) {
            *end = '\0';
        }
        /* The mode is set by chmod so that the umask has no part in it. */
        if (mkdir(copy, 0700) == 0) {
            if (chmod(copy, last ? mode : parents) != 0) {
                status = error_set_errno(err, STATUS_INVALID, errno, "the mode of %s cannot be set",
                                         copy);
            }
        } else if (errno != EEXIST) {
            status =
                error_set_errno(err, STATUS_INVALID, errno, "the folder %s cannot be made", copy);
        }
        if (last) {
            break;
        }
        *end = '/';
    }
    free(copy);
    return status;
}

/* False leaves errno. */
static bool remove_below(int parent, const char *name, int depth) {
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        return errno == ENOENT;
    }
    if (depth > FOLDER_DEPTH_MAX) {
        close(folder);
        errno = ELOOP;
        return false;
    }
    DIR *list = fdopendir(folder);
    if (list == NULL) {
        close(folder);
        return false;
    }
    bool done = true;
    for (struct dirent *entry; done && (entry = readdir(list)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        done = unlinkat(dirfd(list), entry->d_name, 0) == 0 || errno == ENOENT;
        if (!done && (errno == EISDIR || errno == EPERM)) {
            done = remove_below(dirfd(list), entry->d_name, depth + 1);
        }
    }
    int reason = errno;
    closedir(list);
    errno = reason;
    return done && (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT);
}

enum status folder_remove_all(const char *path, struct error *err) {
    if (!remove_below(AT_FDCWD, path, 0)) {
        return error_set_errno(err, STATUS_INVALID, errno, "%s cannot be removed", path);
    }
    return STATUS_OK;
}

int folder_open(const char *path) {
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int file_create_at(int folder, const char *name, uid_t uid, gid_t gid, struct error *err) {
    if (unlinkat(folder, name, 0) != 0 && errno != ENOENT) {
        error_set_errno(err, STATUS_INVALID, errno, "the old file %s cannot be removed", name);
        return -1;
    }
    int file =
        openat(folder, name, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) {
        error_set_errno(err, STATUS_INVALID, errno, "the file %s cannot be made", name);
        return -1;
    }
    if (uid != geteuid() && fchown(file, uid, gid) != 0) {
        error_set_errno(err, STATUS_INVALID, errno, "%s cannot be given to user id %ld", name,
                        (long)uid);
        close(file);
        return -1;
    }
    return file;
}

static bool write_all(int file, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t count = write(file, bytes, length);
        if (count < 0) {
            if (errno == EINTR) {
                continue;
            }
            return false;
        }
        bytes += count;
        length -= (size_t)count;
    }
    return true;
}

enum status file_put_at(int folder, const char *name, const struct buf *content, uid_t uid,
                        gid_t gid, struct error *err) {
    char *draft = mem_format("%s.pgstage", name);
    enum status status = STATUS_OK;
    int file = file_create_at(folder, draft, uid, gid, err);
    if (file < 0) {
        free(draft);
        return STATUS_INVALID;
    }
    if (!write_all(file, content->data, content->length) || fsync(file) != 0 ||
        renameat(folder, draft, folder, name) != 0 || fsync(folder) != 0) {
        status = error_set_errno(err, STATUS_INVALID, errno, "%s cannot be written", name);
    }
    close(file);
    free(draft);
    return status;
}

bool file_read_at(int folder, const char *name, off_t offset, struct buf *content) {
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    struct stat info;
    bool done = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
    if (done && offset < 0) {
        offset = info.st_size + offset < 0 ? 0 : info.st_size + offset;
    }
    char chunk[4096];
    while (done && !content->overflow) {
        ssize_t count = pread(file, chunk, sizeof chunk, offset);
        if (count <= 0) {
            done = count == 0 || errno == EINTR;
            if (count == 0) {
                break;
            }
            continue;
        }
        buf_append(content, chunk, (size_t)count);
        offset += count;
    }
    close(file);
    return done;
}
