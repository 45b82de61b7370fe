#include "node/abandoned.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "node/holders.h"
#include "node/host.h"

/* A process in the kernel's hands may take long to die; the lease stands behind all this. */
enum { GIVE_UP_MS = 3000, LOOK_AGAIN_MS = 5 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* two jobs that look at once would tell everything twice */

struct hunt {
    const char *lock_path;
    struct map told; /* by pid: who was killed may take more than one look until it is dead */
};

static bool kill_one(struct hunt *hunt, const struct holder *process) {
    bool killed = holder_signal(process, SIGKILL);
    if (killed && map_put(&hunt->told, process->pid, hunt) == NULL) {
        log_event(LOG_INFO, "orphan.killed", "pid=%d lock=%s", (int)process->pid, log_text(hunt->lock_path));
    }
    return killed;
}

/* Workers are subreapers: as long as they live, whoever is below one stays below it. So they are stopped, and killed when
 * nothing is below them any more. */
static void kill_round(struct hunt *hunt, const struct holders *holders) {
    bool below = false;
    for (size_t i = 0; i < holders->count; i++) {
        if (holders->list[i].holds) {
            (void)holder_signal(&holders->list[i], SIGSTOP);
        }
    }
    for (size_t i = 0; i < holders->count; i++) {
        if (holders->list[i].doomed && !holders->list[i].holds) {
            below = kill_one(hunt, &holders->list[i]) || below;
        }
    }
    for (size_t i = 0; i < holders->count && !below; i++) {
        if (holders->list[i].holds) {
            (void)kill_one(hunt, &holders->list[i]);
        }
    }
}

/* False: there is no such file. */
static bool look_and_kill(struct hunt *hunt) {
    struct stat lock;
    if (lstat(hunt->lock_path, &lock) != 0) {
        return false;
    }
    struct holders holders;
    holders_find(&holders, &lock);
    if (!holders.are_ours) {
        kill_round(hunt, &holders);
    }
    holders_finish(&holders);
    return true;
}

void abandoned_end(const char *lock_path) {
    struct hunt hunt = {.lock_path = lock_path};
    int64_t give_up_ms = clock_now_ms(&clock_boottime) + GIVE_UP_MS;
    pthread_mutex_lock(&mutex);
    while (host_lock_is_abandoned(lock_path) && look_and_kill(&hunt)) {
        if (clock_now_ms(&clock_boottime) >= give_up_ms) {
            log_event(LOG_WARN, "orphan.left", "lock=%s reason=%s", log_text(lock_path),
                      log_text("its node is gone, and what holds it cannot be seen or killed"));
            break;
        }
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
    pthread_mutex_unlock(&mutex);
    map_finish(&hunt.told);
}

void abandoned_end_all(const char *folder) {
    static const char suffix[] = ".lock";
    DIR *locks = opendir(folder);
    struct dirent *entry;
    while (locks != NULL && (entry = readdir(locks)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length >= sizeof suffix && strcmp(entry->d_name + length - (sizeof suffix - 1), suffix) == 0) {
            char *path = mem_format("%s/%s", folder, entry->d_name);
            abandoned_end(path);
            free(path);
        }
    }
    if (locks != NULL) {
        closedir(locks);
    }
}
