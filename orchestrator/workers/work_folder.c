#include "workers/work_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/remove_tree.h"
#include "base/require.h"

#define OTHER_USERS_FOLDER "/var/tmp/pgstage-"

enum root { OWN, OTHER, ROOT_COUNT };

struct work_folders {
    uv_loop_t *loop;
    char *roots[ROOT_COUNT]; /* NULL: none */
    bool made[ROOT_COUNT];
    unsigned long next;
    int removals; /* under way */
    void (*closed)(void *context);
    void *closed_context;
    uv_idle_t closing; /* so that `closed` never comes from inside a call */
};

struct removal {
    uv_work_t work;
    struct work_folders *folders;
    char *path;
    struct error err;
};

/* The name has 64 random bits in it: nobody can be there before. */
static char *root_for_others(const char *root) {
    const char *slash = strrchr(root, '/');
    return mem_format(OTHER_USERS_FOLDER "%s", slash == NULL ? root : slash + 1);
}

struct work_folders *work_folders_create(uv_loop_t *loop, const char *root) {
    struct work_folders *folders = mem_alloc(sizeof *folders);
    folders->loop = loop;
    if (root != NULL) {
        folders->roots[OWN] = mem_copy_string(root);
        folders->roots[OTHER] = root_for_others(root);
    }
    return folders;
}

static enum status make_folder(const char *path, mode_t mode, struct error *err) {
    if (mkdir(path, mode) != 0) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "cannot make the folder '%s'", path);
    }
    return STATUS_OK;
}

static enum status make_root(struct work_folders *folders, enum root which, struct error *err) {
    if (folders->made[which]) {
        return STATUS_OK;
    }
    mode_t mode = which == OTHER ? 0711 : 0700;
    enum status status = make_folder(folders->roots[which], mode, err);
    if (status == STATUS_OK && chmod(folders->roots[which], mode) != 0) { /* whatever the umask is */
        status = error_set_errno(err, STATUS_UNAVAILABLE, errno, "the folder '%s'", folders->roots[which]);
    }
    folders->made[which] = status == STATUS_OK;
    return status;
}

enum status work_folder_make(struct work_folders *folders, bool other_user, char **path, struct error *err) {
    *path = NULL;
    enum root which = other_user ? OTHER : OWN;
    if (folders->roots[which] == NULL) {
        return STATUS_OK;
    }
    /* A dead node is known by the folder beside its lock: there must be one. */
    enum status status = make_root(folders, OWN, err);
    if (status == STATUS_OK) {
        status = make_root(folders, which, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    char *made = mem_format("%s/%lu", folders->roots[which], ++folders->next);
    char *run = mem_format("%s/run", made);
    status = make_folder(made, 0700, err);
    if (status == STATUS_OK && (status = make_folder(run, 0700, err)) != STATUS_OK) {
        (void)rmdir(made);
    }
    free(run);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    *path = made;
    return STATUS_OK;
}

/* ---- removal ------------------------------------------------------------------------------------------------------ */

static void on_closing_closed(uv_handle_t *handle) {
    struct work_folders *folders = handle->data;
    void (*closed)(void *context) = folders->closed;
    void *context = folders->closed_context;
    for (int i = 0; i < ROOT_COUNT; i++) {
        free(folders->roots[i]);
    }
    free(folders);
    closed(context);
}

static void on_closing(uv_idle_t *idle) {
    struct work_folders *folders = idle->data;
    if (folders->removals > 0) {
        return;
    }
    for (int i = 0; i < ROOT_COUNT; i++) {
        if (folders->made[i]) {
            (void)rmdir(folders->roots[i]); /* what could not be removed was told */
        }
    }
    uv_close((uv_handle_t *)idle, on_closing_closed);
}

static void close_when_done(struct work_folders *folders) {
    if (folders->closed != NULL && folders->removals == 0) {
        uv_idle_start(&folders->closing, on_closing);
    }
}

static void on_removal(uv_work_t *work) {
    struct removal *removal = work->data;
    enum status told_later = remove_tree(AT_FDCWD, removal->path, &removal->err);
    (void)told_later;
}

static void on_removed(uv_work_t *work, int status) {
    struct removal *removal = work->data;
    (void)status; /* never cancelled */
    if (removal->err.code != STATUS_OK) {
        log_event(LOG_WARN, "work.left", "folder=%s reason=%s", log_text(removal->path), log_text(removal->err.text));
    }
    removal->folders->removals--;
    close_when_done(removal->folders);
    free(removal->path);
    free(removal);
}

/* Most workers leave two empty folders. */
static bool remove_empty(const char *path) {
    char *run = mem_format("%s/run", path);
    bool removed = (rmdir(run) == 0 || errno == ENOENT) && (rmdir(path) == 0 || errno == ENOENT);
    free(run);
    return removed;
}

void work_folder_remove(struct work_folders *folders, char *path) {
    if (path == NULL || remove_empty(path)) {
        free(path);
        return;
    }
    struct removal *removal = mem_alloc(sizeof *removal);
    removal->work.data = removal;
    removal->folders = folders;
    removal->path = path;
    folders->removals++;
    int failed = uv_queue_work(folders->loop, &removal->work, on_removal, on_removed);
    REQUIRE(failed == 0);
}

void work_folders_destroy(struct work_folders *folders, void (*closed)(void *context), void *context) {
    folders->closed = closed;
    folders->closed_context = context;
    uv_idle_init(folders->loop, &folders->closing);
    folders->closing.data = folders;
    close_when_done(folders);
}

enum status work_folders_remove_all(const char *root, struct error *err) {
    char *others = root_for_others(root);
    struct stat found;
    enum status status = STATUS_OK;
    /* Everybody may make a folder in /var/tmp. */
    if (lstat(others, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid()) {
        status = remove_tree(AT_FDCWD, others, err);
    }
    free(others);
    return status == STATUS_OK ? remove_tree(AT_FDCWD, root, err) : status;
}
