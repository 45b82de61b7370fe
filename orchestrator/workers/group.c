/* group.c - the one place that signals workers.
 *
 * A dead member stays a member until its new parent reaps it: usually init at once, the node itself
 * when it is process 1 of a container or a subreaper (then we reap it here: libuv waits for its own
 * children by pid only), and never under an init that does not reap. For the last, /proc tells the
 * dead from the living.
 */
#include "workers/group.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/require.h"

void group_signal(pid_t group, int signal) {
    REQUIRE(group > 1 && group != getpgrp());
    (void)kill(-group, signal);
}

/* True when the process (a name in /proc) is a member of the group and not yet dead. */
static bool is_living_member(const char *pid, pid_t group) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) {
        return false;
    }
    text[length] = '\0';
    /* PID (NAME) STATE PPID PGRP ...; the name may hold anything, also a bracket. */
    const char *after_name = strrchr(text, ')');
    char state;
    int parent, member_of;
    if (after_name == NULL || sscanf(after_name, ") %c %d %d", &state, &parent, &member_of) != 3) {
        return false;
    }
    return member_of == group && state != 'Z' && state != 'X';
}

static bool has_living_member(pid_t group) {
    DIR *processes = opendir("/proc");
    if (processes == NULL) {
        return true;
    }
    bool found = false;
    struct dirent *entry;
    while (!found && (entry = readdir(processes)) != NULL) {
        found = isdigit((unsigned char)entry->d_name[0]) && is_living_member(entry->d_name, group);
    }
    closedir(processes);
    return found;
}

bool group_is_gone(pid_t group, bool look_closely) {
    REQUIRE(group > 1 && group != getpgrp());
    while (waitpid(-group, NULL, WNOHANG) > 0) {
    }
    /* EPERM: members that changed their user are left, and nobody here can end them. */
    if (kill(-group, SIGKILL) != 0 && (errno == ESRCH || errno == EPERM)) {
        return true;
    }
    return look_closely && !has_living_member(group);
}
