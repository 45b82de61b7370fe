#include "node/holders.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"

enum { LOCK_DESCRIPTOR = 4 };

static bool read_text(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0) {
        close(fd);
    }
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* False: it is no living process. */
static bool read_process(pid_t pid, struct holder *process) {
    char path[64], text[1024], state;
    *process = (struct holder){.pid = pid};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    /* PID (NAME) STATE PPID ... and the time of its start as the 22nd; the name may hold anything, also a bracket. */
    const char *after_name = read_text(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    return after_name != NULL &&
           sscanf(after_name, ") %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &state,
                  &process->parent, &process->started) == 3 &&
           state != 'Z' && state != 'X';
}

/* "lock: 1: FLOCK ADVISORY WRITE PID ...": only of a descriptor that is part of the lock. Who looks at one reads. */
static bool is_part_of_lock(pid_t pid, const struct stat *lock) {
    char path[64], text[4096];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)pid, LOCK_DESCRIPTOR);
    const char *line = read_text(path, text, sizeof text) ? strstr(text, "FLOCK") : NULL;
    char mode[8];
    if (line == NULL || sscanf(line, "FLOCK %*s %7s", mode) != 1 || strcmp(mode, "WRITE") != 0) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, LOCK_DESCRIPTOR);
    return stat(path, &found) == 0 && found.st_dev == lock->st_dev && found.st_ino == lock->st_ino;
}

static struct holder *find(const struct holders *holders, pid_t pid) {
    for (size_t i = 0; i < holders->count; i++) {
        if (holders->list[i].pid == pid) {
            return &holders->list[i];
        }
    }
    return NULL;
}

/* Parents may come behind their children: again until nothing is new. */
static void doom_descendants(struct holders *holders) {
    for (size_t before = 0; before != holders->doomed;) {
        before = holders->doomed;
        for (size_t i = 0; i < holders->count; i++) {
            struct holder *process = &holders->list[i];
            const struct holder *parent = process->doomed ? NULL : find(holders, process->parent);
            if (parent != NULL && parent->doomed) {
                process->doomed = true;
                holders->doomed++;
            }
        }
    }
}

void holders_find(struct holders *holders, const struct stat *lock) {
    *holders = (struct holders){0};
    size_t room = 0;
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    while (processes != NULL && (entry = readdir(processes)) != NULL) {
        struct holder process;
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 1 || !read_process(pid, &process)) {
            continue;
        }
        process.holds = process.doomed = is_part_of_lock(pid, lock);
        holders->doomed += process.holds;
        if (holders->count == room) {
            room = room * 2 + 64;
            holders->list = mem_resize(holders->list, room, sizeof *holders->list);
        }
        holders->list[holders->count++] = process;
    }
    if (processes != NULL) {
        closedir(processes);
    }
    if (holders->doomed > 0) {
        doom_descendants(holders);
    }
    const struct holder *self = find(holders, getpid());
    holders->are_ours = self == NULL || self->doomed;
}

void holders_finish(struct holders *holders) {
    free(holders->list);
    *holders = (struct holders){0};
}

bool holder_signal(const struct holder *holder, int signal) {
    struct holder now;
    int fd = (int)syscall(SYS_pidfd_open, holder->pid, 0);
    /* With the descriptor in hand: what it says now is of the process that the signal goes to. */
    bool sent = fd >= 0 && read_process(holder->pid, &now) && now.started == holder->started &&
                syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return sent;
}
