#include "node/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/random.h"

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

enum status host_lock_take(const char *folder, struct host_lock *lock, struct error *err) {
    lock->fd = -1;
    enum status status = make_folder(folder, err);
    if (status != STATUS_OK) {
        return status;
    }
    lock->path = mem_format("%s/node-%d-%llx.lock", folder, (int)getpid(),
                            (unsigned long long)random_next(&random_system));
    lock->fd = open(lock->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock->fd < 0 || flock(lock->fd, LOCK_EX | LOCK_NB) != 0) {
        status = error_set_errno(err, STATUS_INVALID, errno, "cannot make the lock file '%s'", lock->path);
        host_lock_release(lock);
    }
    return status;
}

void host_lock_release(struct host_lock *lock) {
    if (lock->fd >= 0) {
        unlink(lock->path);
        close(lock->fd);
        lock->fd = -1;
    }
    free(lock->path);
    lock->path = NULL;
}

bool host_lock_is_dead(const char *path) {
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool dead = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (dead) {
        unlink(path);
    }
    close(fd);
    return dead;
}
