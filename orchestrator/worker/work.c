#include "worker/work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/remove_tree.h"

static struct {
    char *run; /* NULL: there is no folder */
    char **kept;
    size_t kept_count;
    bool is_seen; /* it was clean when it was as in `seen` */
    struct stat seen;
} work;

enum status work_enter(const char *folder, struct error *err) {
    if (folder == NULL) {
        return STATUS_OK;
    }
    work.run = mem_format("%s/run", folder);
    (void)mkdir(work.run, 0700); /* a node makes it, too */
    if (chdir(work.run) != 0) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "the worker's folder '%s'", work.run);
    }
    return STATUS_OK;
}

const char *work_folder(void) {
    return work.run;
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_kept(void *unused, const char *name) {
    (void)unused;
    for (size_t i = 0; i < work.kept_count; i++) {
        if (strcmp(work.kept[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void work_keep(void) {
    DIR *folder = work.run == NULL ? NULL : opendir(work.run);
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (!is_dots(entry->d_name)) {
            work.kept = mem_resize(work.kept, work.kept_count + 1, sizeof *work.kept);
            work.kept[work.kept_count++] = mem_copy_string(entry->d_name);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

/* Looks at the folder without memory of its own: most runs leave nothing in it. */
static bool is_clean(int folder) {
    _Alignas(uint64_t) char entries[1024];
    long count;
    while ((count = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < count;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            if (!is_dots(entry->d_name) && !is_kept(NULL, entry->d_name)) {
                return false;
            }
        }
    }
    return count == 0;
}

static void empty(void) {
    struct error err = ERROR_NONE;
    if (remove_tree_empty(AT_FDCWD, work.run, is_kept, NULL, &err) == STATUS_NOT_FOUND) {
        /* Removed or replaced by the handler: it gets another one. */
        (void)unlink(work.run);
        (void)mkdir(work.run, 0700);
    } else if (err.code != STATUS_OK) {
        fprintf(stderr, "the working folder is not empty after the run: %s\n", err.text);
    }
    if (chdir(work.run) != 0) {
        fprintf(stderr, "the working folder %s is gone: %s\n", work.run, strerror(errno));
    }
}

/* File systems stamp changes with a clock that ticks every few milliseconds: what changes in the tick of the last look would
 * not show. */
enum { TICK_MS = 50 };

static int64_t ms_of(struct timespec time) {
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Nothing was made, removed or put in its place since it was seen to be clean: two system calls instead of six, for most
 * runs. */
static bool is_untouched(void) {
    struct stat now;
    return work.is_seen && lstat(work.run, &now) == 0 && now.st_ino == work.seen.st_ino &&
           now.st_dev == work.seen.st_dev && now.st_ctim.tv_sec == work.seen.st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == work.seen.st_ctim.tv_nsec && chdir(work.run) == 0;
}

static void note_clean(int folder) {
    struct timespec now;
    work.is_seen = clock_gettime(CLOCK_REALTIME, &now) == 0 && fstat(folder, &work.seen) == 0 &&
                   ms_of(now) - ms_of(work.seen.st_ctim) > TICK_MS;
}

void work_clean(void) {
    if (work.run == NULL || is_untouched()) {
        return;
    }
    int folder = open(work.run, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    work.is_seen = false;
    if (folder >= 0) {
        note_clean(folder); /* before the look: what comes after it is seen the next time */
    }
    bool clean = folder >= 0 && fchdir(folder) == 0 && is_clean(folder);
    work.is_seen = work.is_seen && clean;
    if (folder >= 0) {
        close(folder);
    }
    if (!clean) {
        empty();
    }
}
