/* children.c - the kernel lists the children of each thread; where it was built without that, all processes are looked
 * through for their parent. No memory, no stdio: a signal handler lists its children, too. */
#include "base/children.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/require.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int private_count;
static bool takes_over;

void children_private_begin(void) {
    pthread_mutex_lock(&mutex);
    if (private_count++ == 0 && takes_over) {
        /* A server that is detached now goes to init, as it does from any other process. */
        (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    }
    pthread_mutex_unlock(&mutex);
}

void children_private_end(void) {
    pthread_mutex_lock(&mutex);
    REQUIRE(private_count > 0);
    if (--private_count == 0 && takes_over) {
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
    pthread_mutex_unlock(&mutex);
}

bool children_take_over(void) {
    pthread_mutex_lock(&mutex);
    takes_over = private_count > 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    bool done = takes_over;
    pthread_mutex_unlock(&mutex);
    return done;
}

bool children_look_begin(void) {
    pthread_mutex_lock(&mutex);
    if (private_count > 0) {
        pthread_mutex_unlock(&mutex);
        return false;
    }
    return true;
}

void children_look_end(void) {
    pthread_mutex_unlock(&mutex);
}

/* ---- listing ------------------------------------------------------------------------------------------------------ */

enum { PATH_BYTES = 64, NUMBER_BYTES = 24 };

struct each {
    void (*call)(void *context, pid_t child);
    void *context;
    pid_t parent;
    bool unlisted; /* the kernel has no list of children */
};

/* "BEFORE" "NUMBER" "AFTER" */
static void make_path(char path[PATH_BYTES], const char *before, long number, const char *after) {
    char digits[NUMBER_BYTES];
    size_t at = sizeof digits, length = strlen(before);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    memcpy(path, before, length);
    memcpy(path + length, digits + at, sizeof digits - at);
    length += sizeof digits - at;
    memcpy(path + length, after, strlen(after) + 1);
}

static long read_number(const char *text) {
    long number = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        number = number * 10 + (*text - '0');
    }
    return number;
}

/* Calls `step` with the name of each entry that is a number. */
static void each_number(const char *folder, void (*step)(struct each *each, long number), struct each *each) {
    _Alignas(uint64_t) char entries[4096];
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long count;
    while (fd >= 0 && (count = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < count;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
                step(each, read_number(entry->d_name));
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* "PID PID PID ": a number may be cut by the end of what was read. */
static void list_of_thread(struct each *each, long thread) {
    char path[PATH_BYTES], text[1024];
    make_path(path, "/proc/self/task/", thread, "/children");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        each->unlisted = each->unlisted || errno == ENOENT;
        return;
    }
    long number = 0;
    ssize_t count;
    while ((count = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < count; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                number = number * 10 + (text[i] - '0');
            } else if (number > 0) {
                each->call(each->context, (pid_t)number);
                number = 0;
            }
        }
    }
    close(fd);
}

/* PID (NAME) STATE PPID ...; the name may hold anything, also a bracket. */
static void look_at_process(struct each *each, long pid) {
    char path[PATH_BYTES], text[512];
    make_path(path, "/proc/", pid, "/stat");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        close(fd);
    }
    if (count <= 0) {
        return;
    }
    text[count] = '\0';
    const char *after_name = strrchr(text, ')');
    if (after_name != NULL && strlen(after_name) > 4 && read_number(after_name + 4) == each->parent) {
        each->call(each->context, (pid_t)pid);
    }
}

void children_each(void (*call)(void *context, pid_t child), void *context) {
    struct each each = {.call = call, .context = context, .parent = getpid()};
    /* A thread that ends meanwhile has no list either: then all processes are looked through once, which does no harm. */
    each_number("/proc/self/task", list_of_thread, &each);
    if (each.unlisted) {
        each_number("/proc", look_at_process, &each);
    }
}

enum children_end children_end(pid_t child) {
    /* A child's number is its own until it is reaped. */
    bool is_foreign = kill(child, SIGKILL) != 0 && errno == EPERM;
    pid_t reaped = waitpid(child, NULL, WNOHANG | __WALL);
    if (reaped == child || (reaped < 0 && errno == ECHILD)) {
        return CHILDREN_REAPED;
    }
    return is_foreign ? CHILDREN_FOREIGN : CHILDREN_DYING;
}
