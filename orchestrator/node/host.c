#include "node/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "workers/work_folder.h"

const char *host_identity(void) {
    static char identity[64];
    if (identity[0] == '\0') {
        FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
        if (file == NULL || fgets(identity, sizeof identity, file) == NULL) {
            snprintf(identity, sizeof identity, "unknown");
        }
        identity[strcspn(identity, "\n")] = '\0';
        if (file != NULL) {
            fclose(file);
        }
    }
    return identity;
}

#define WORK_SUFFIX ".work"
#define LIFE_SUFFIX ".life"

static enum status make_folder(const char *folder, struct error *err) {
    char *path = mem_copy_string(folder);
    enum status status = STATUS_OK;
    for (char *at = path + 1; status == STATUS_OK; at++) {
        char c = *at;
        if (c != '/' && c != '\0') {
            continue;
        }
        *at = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            status = error_set_errno(err, STATUS_INVALID, errno, "cannot make the folder '%s'", path);
        }
        *at = c;
        if (c == '\0') {
            break;
        }
    }
    free(path);
    return status;
}

/* Locks and workers' folders lie in it. */
static enum status check_folder(const char *folder, struct error *err) {
    struct stat found;
    if (lstat(folder, &found) != 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "the folder '%s'", folder);
    }
    if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid()) {
        return error_set(err, STATUS_INVALID, "'%s' must be a folder of the user who runs the node, and no link", folder);
    }
    if ((found.st_mode & 077) != 0 && chmod(folder, 0700) != 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "cannot close the folder '%s' to others", folder);
    }
    return STATUS_OK;
}

static enum status take(const char *path, int *fd, struct error *err) {
    *fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*fd < 0 || flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "cannot make the lock file '%s'", path);
    }
    return STATUS_OK;
}

enum status host_lock_take(const char *folder, struct host_lock *lock, struct error *err) {
    *lock = (struct host_lock){.fd = -1, .life_fd = -1};
    enum status status = make_folder(folder, err);
    status = status == STATUS_OK ? check_folder(folder, err) : status;
    if (status != STATUS_OK) {
        return status;
    }
    lock->path = mem_format("%s/node-%d-%llx.lock", folder, (int)getpid(),
                            (unsigned long long)random_next(&random_system));
    lock->life = mem_format("%s" LIFE_SUFFIX, lock->path);
    lock->work = mem_format("%s" WORK_SUFFIX, lock->path);
    /* Nobody looks at the one before the other is there. */
    status = take(lock->life, &lock->life_fd, err);
    status = status == STATUS_OK ? take(lock->path, &lock->fd, err) : status;
    if (status != STATUS_OK) {
        host_lock_release(lock);
    }
    return status;
}

static void give_back(int *fd, const char *path) {
    if (*fd >= 0) {
        unlink(path);
        close(*fd);
        *fd = -1;
    }
}

void host_lock_release(struct host_lock *lock) {
    give_back(&lock->fd, lock->path);
    give_back(&lock->life_fd, lock->life);
    free(lock->path);
    free(lock->life);
    free(lock->work);
    lock->path = lock->life = lock->work = NULL;
}

enum lock_state { LOCK_AWAY, LOCK_FREE, LOCK_HELD };

/* Shared: several may look at once, and none takes the other for a holder. */
static enum lock_state look(const char *path, bool own) {
    struct stat found;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return errno == ENOENT ? LOCK_AWAY : LOCK_HELD;
    }
    enum lock_state state = flock(fd, LOCK_SH | LOCK_NB) == 0 ? LOCK_FREE : LOCK_HELD;
    if (own && (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid())) {
        state = LOCK_AWAY;
    }
    close(fd);
    return state;
}

bool host_lock_is_dead(const char *path) {
    if (look(path, false) != LOCK_FREE) {
        return false;
    }
    char *life = mem_format("%s" LIFE_SUFFIX, path);
    unlink(path);
    unlink(life);
    free(life);
    return true;
}

bool host_lock_is_abandoned(const char *path) {
    char *life = mem_format("%s" LIFE_SUFFIX, path);
    bool abandoned = look(life, true) == LOCK_FREE && look(path, true) == LOCK_HELD;
    free(life);
    return abandoned;
}

/* A node makes its lock before the folder beside it, and removes the folder before its lock. */
static bool is_leftover(const char *folder, const char *name, size_t stem) {
    char *lock = mem_format("%s/%.*s", folder, (int)stem, name);
    bool dead = look(lock, false) != LOCK_HELD;
    free(lock);
    return dead;
}

void host_remove_leftovers(const char *folder) {
    DIR *open_folder = opendir(folder);
    struct dirent *entry;
    while (open_folder != NULL && (entry = readdir(open_folder)) != NULL) {
        size_t length = strlen(entry->d_name), suffix = strlen(WORK_SUFFIX);
        if (length <= suffix || strcmp(entry->d_name + length - suffix, WORK_SUFFIX) != 0 ||
            !is_leftover(folder, entry->d_name, length - suffix)) {
            continue;
        }
        struct error err = ERROR_NONE;
        char *work = mem_format("%s/%s", folder, entry->d_name);
        if (work_folders_remove_all(work, &err) != STATUS_OK) {
            log_event(LOG_WARN, "work.left", "folder=%s reason=%s", log_text(work), log_text(err.text));
        }
        free(work);
    }
    if (open_folder != NULL) {
        closedir(open_folder);
    }
}
