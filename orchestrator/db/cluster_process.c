/* cluster_process.c - finding and signalling the server's processes. */
#include "db/cluster_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STAT_MAX = 512, PID_FILE_MAX = 4096, STATUS_LINE = 8 };

/* Reads NAME and state from "PID (NAME) STATE ..."; NAME may itself contain parentheses. */
static bool read_stat(pid_t pid, char *state, char name[32]) {
    char path[64], text[STAT_MAX];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) {
        return false;
    }
    text[length] = '\0';
    const char *open_at = strchr(text, '(');
    const char *close_at = strrchr(text, ')');
    if (open_at == NULL || close_at == NULL || close_at[1] != ' ') {
        return false;
    }
    *state = close_at[2];
    snprintf(name, 32, "%.*s", (int)(close_at - open_at - 1), open_at + 1);
    return true;
}

/* A zombie has done all it will ever do. */
static bool is_over(char state) {
    return state == 'Z' || state == 'X';
}

bool process_is_alive(pid_t pid) {
    char state, name[32];
    return pid > 0 && read_stat(pid, &state, name) && !is_over(state);
}

bool process_is_server(pid_t pid, const char *data, uid_t uid) {
    char state, name[32], path[64];
    struct stat process, there, here;
    if (pid <= 1 || !read_stat(pid, &state, name) || is_over(state)) {
        return false;
    }
    /* Not a person's shell in that folder. Some distributions wrap the program:
     * ".postgres-wrapped". */
    if (strstr(name, "postgres") == NULL && strstr(name, "postmaster") == NULL) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/%ld", (long)pid);
    if (stat(path, &process) != 0 || process.st_uid != uid) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/%ld/cwd", (long)pid);
    return stat(path, &there) == 0 && lstat(data, &here) == 0 && there.st_dev == here.st_dev &&
           there.st_ino == here.st_ino;
}

static bool line_is_ready(const char *text) {
    for (int line = 1; line < STATUS_LINE; line++) {
        text = strchr(text, '\n');
        if (text == NULL) {
            return false;
        }
        text++;
    }
    return strncmp(text, "ready", 5) == 0;
}

pid_t process_find_postmaster(const char *data, uid_t uid, bool *ready) {
    int folder = folder_open(data);
    if (folder < 0) {
        return 0;
    }
    struct buf text;
    buf_init(&text, PID_FILE_MAX);
    pid_t found = 0;
    if (file_read_at(folder, "postmaster.pid", 0, &text)) {
        long pid = strtol(text.data, NULL, 10);
        if (pid < 0) { /* a single-user server */
            pid = -pid;
        }
        if (pid > 1 && pid == (pid_t)pid && process_is_server((pid_t)pid, data, uid)) {
            found = (pid_t)pid;
        }
    }
    if (ready != NULL) {
        *ready = found != 0 && line_is_ready(text.data);
    }
    buf_finish(&text);
    close(folder);
    return found;
}

bool process_signal_server(pid_t pid, const char *data, uid_t uid, int number) {
    /* The descriptor pins the process, so that the signal cannot reach one that gets its id. */
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process < 0 && errno != ENOSYS && errno != EPERM) {
        return errno == ESRCH;
    }
    bool done = true;
    if (process_is_server(pid, data, uid)) {
        long result = process >= 0 ? syscall(SYS_pidfd_send_signal, process, number, NULL, 0)
                                   : kill(pid, number);
        done = result == 0 || errno == ESRCH;
    }
    int reason = errno;
    if (process >= 0) {
        close(process);
    }
    errno = reason;
    return done;
}

int process_signal_all(const char *data, uid_t uid, int number, pid_t *one) {
    DIR *list = opendir("/proc");
    int count = 0;
    *one = 0;
    if (list == NULL) {
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid > 1 && process_is_server((pid_t)pid, data, uid)) {
            process_signal_server((pid_t)pid, data, uid, number);
            *one = (pid_t)pid;
            count++;
        }
    }
    closedir(list);
    return count;
}

void process_pause_ms(int ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL); /* woken early by a signal: the caller looks again */
}
