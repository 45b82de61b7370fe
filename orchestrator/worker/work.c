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

/* A folder: what stays in it, and how it was when it was looked at last. */
struct place {
    char *path; /* NULL: there is none */
    char **kept;
    size_t kept_count;
    struct stat seen;
    bool is_seen; /* it was clean when it was as in `seen`; else that says only which folder it is */
};

static struct {
    struct place base, run; /* WORK, WORK/run */
    bool is_held;
} work;

enum status work_enter(const char *folder, struct error *err) {
    if (folder == NULL) {
        return STATUS_OK;
    }
    work.base.path = mem_copy_string(folder);
    work.run.path = mem_format("%s/run", folder);
    (void)mkdir(work.run.path, 0700); /* a node makes it, too */
    if (chdir(work.run.path) != 0 || lstat(work.base.path, &work.base.seen) != 0 ||
        lstat(work.run.path, &work.run.seen) != 0) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "the worker's folder '%s'", work.run.path);
    }
    return STATUS_OK;
}

const char *work_folder(void) {
    return work.run.path;
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_kept(void *context, const char *name) {
    const struct place *place = context;
    for (size_t i = 0; i < place->kept_count; i++) {
        if (strcmp(place->kept[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void keep(struct place *place, const char *name) {
    place->kept = mem_resize(place->kept, place->kept_count + 1, sizeof *place->kept);
    place->kept[place->kept_count++] = mem_copy_string(name);
}

static void keep_all(struct place *place) {
    DIR *folder = place->path == NULL ? NULL : opendir(place->path);
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (!is_dots(entry->d_name)) {
            keep(place, entry->d_name);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

void work_keep(bool is_held) {
    work.is_held = is_held;
    keep(&work.base, "run"); /* though init may have removed it: it is made again */
    keep_all(&work.base);
    keep_all(&work.run);
}

/* ---- looking ---- */

static bool is_same(const struct place *place, struct stat *now) {
    return lstat(place->path, now) == 0 && S_ISDIR(now->st_mode) && now->st_ino == place->seen.st_ino &&
           now->st_dev == place->seen.st_dev;
}

/* Nothing was made, removed or put in its place since it was seen to be clean: one system call instead of five, for most
 * runs. */
static bool is_untouched(const struct place *place) {
    struct stat now;
    return place->is_seen && is_same(place, &now) && now.st_ctim.tv_sec == place->seen.st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == place->seen.st_ctim.tv_nsec;
}

/* Looks at the folder without memory of its own: most runs leave nothing in it. */
static bool has_only_kept(struct place *place, int folder) {
    _Alignas(uint64_t) char entries[1024];
    long count;
    while ((count = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < count;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            if (!is_dots(entry->d_name) && !is_kept(place, entry->d_name)) {
                return false;
            }
        }
    }
    return count == 0;
}

/* File systems stamp changes with a clock that ticks every few milliseconds: what changes in the tick of the last look would
 * not show. */
enum { TICK_MS = 50 };

static int64_t ms_of(struct timespec time) {
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Before the look: what comes after it is seen the next time. */
static bool note_seen(struct place *place, int folder) {
    struct timespec now;
    if (fstat(folder, &place->seen) != 0) {
        return false;
    }
    place->is_seen =
        clock_gettime(CLOCK_REALTIME, &now) == 0 && ms_of(now) - ms_of(place->seen.st_ctim) > TICK_MS;
    return (place->seen.st_mode & S_IRWXU) == S_IRWXU;
}

/* ---- putting right ---- */

/* NOT_FOUND, INVALID: as remove_tree_empty. */
static enum status tidy(struct place *place, struct error *err) {
    place->is_seen = false;
    int folder = open(place->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool clean = folder >= 0 && note_seen(place, folder) && has_only_kept(place, folder);
    if (folder >= 0) {
        close(folder);
    }
    place->is_seen = place->is_seen && clean;
    return clean ? STATUS_OK : remove_tree_empty(AT_FDCWD, place->path, is_kept, place, err);
}

/* What stands in its place is left alone: it may be anybody's. */
static enum status tidy_base(struct error *err) {
    struct stat now;
    if (!is_same(&work.base, &now)) {
        return error_set(err, STATUS_NOT_FOUND, "%s was removed or replaced", work.base.path);
    }
    return tidy(&work.base, err);
}

/* Removed or replaced by a task: it gets another one. */
static enum status make_run(struct error *err) {
    *err = ERROR_NONE;
    (void)unlink(work.run.path);
    if (mkdir(work.run.path, 0700) != 0 || lstat(work.run.path, &work.run.seen) != 0) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "cannot make %s again", work.run.path);
    }
    return STATUS_OK;
}

static enum status tidy_run(struct error *err) {
    struct stat now;
    if (work.is_held && !is_same(&work.run, &now)) {
        return error_set(err, STATUS_NOT_FOUND, "%s, the program's current directory, was removed or replaced",
                         work.run.path);
    }
    enum status status = tidy(&work.run, err);
    return status == STATUS_NOT_FOUND ? make_run(err) : status;
}

static enum status enter_again(struct error *err) {
    if (access(work.base.path, W_OK | X_OK) != 0 || access(work.run.path, W_OK | X_OK) != 0 || chdir(work.run.path) != 0) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "%s", work.run.path);
    }
    return STATUS_OK;
}

bool work_clean(void) {
    if (work.run.path == NULL ||
        (is_untouched(&work.base) && is_untouched(&work.run) && chdir(work.run.path) == 0)) {
        return true;
    }
    struct error err = ERROR_NONE;
    if (tidy_base(&err) == STATUS_OK && tidy_run(&err) == STATUS_OK && enter_again(&err) == STATUS_OK) {
        return true;
    }
    fprintf(stderr, "pgstage-worker: a run left the worker's folder so that no other can use it: %s\n", err.text);
    return false;
}

bool work_is_there(void) {
    struct stat now;
    return work.run.path == NULL || is_same(&work.run, &now) || work_clean();
}
