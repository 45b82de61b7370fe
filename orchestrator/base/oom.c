#include "base/oom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_PATH "/sys/fs/cgroup%s/memory.events"

static int64_t read_count(const char *path) {
    FILE *file = fopen(path, "re");
    int64_t count = -1;
    char line[256];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "oom_kill ", 9) == 0) {
            count = strtoll(line + 9, NULL, 10);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

/* "0::/system.slice/pgstage.service"; the machine's own group has no such file. */
static int64_t count_of_group(void) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    int64_t count = -1;
    char line[1024], path[1200];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(path, sizeof path, EVENTS_PATH, line + 3);
            count = read_count(path);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

int64_t oom_count(const char *path) {
    if (path != NULL) {
        return read_count(path);
    }
    int64_t count = count_of_group();
    return count >= 0 ? count : read_count("/proc/vmstat");
}

void oom_watch_init(struct oom_watch *watch, const char *path) {
    *watch = (struct oom_watch){.path = path};
    watch->older = watch->newer = oom_count(path);
}

void oom_watch_look(struct oom_watch *watch) {
    watch->older = watch->newer;
    watch->newer = oom_count(watch->path);
}

bool oom_watch_explains(struct oom_watch *watch) {
    if (watch->older < 0 || oom_count(watch->path) <= watch->older) {
        return false;
    }
    watch->older++;
    if (watch->newer < watch->older) {
        watch->newer = watch->older;
    }
    return true;
}
