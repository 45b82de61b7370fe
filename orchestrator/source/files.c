/* files.c - the scan: a stack of folders still to be read, one open at a time.
 *
 * A pending folder is its path below the root and, per pattern, the states of glob.h reached there.
 * So neither depth nor breadth costs file descriptors or stack, and a folder in which no pattern
 * can match anything is never opened. Depth is bounded by the length of keys: below a path of 1,024
 * bytes every key would be too long.
 */
#include "source/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/require.h"
#include "base/utf8.h"
#include "source/glob.h"

enum { KEY_MAX = 1024, PATH_BYTES_MAX = 64 * 1024 };

struct folder {
    struct folder *next;
    char *path;           /* below the root; "" is the root */
    glob_states states[]; /* one a pattern */
};

struct scan {
    const struct files_source *source;
    enum status (*each)(void *context, const struct files_entry *entry, struct error *err);
    void *context;
    struct files_result *result;
    struct glob *globs;
    size_t glob_count;
    int root;
    struct folder *pending;
    /* Reused for each name. `path` begins with the root and a slash: what is below begins at
     * `below`. */
    struct buf path, key;
    size_t below;
};

struct name {
    const char *text;
    bool accepted;           /* a pattern matches the name */
    bool accepted_as_folder; /* and one that may name a folder */
    bool continues;          /* a pattern may match below it */
};

static void skip(struct scan *scan, enum status code, const char *reason) {
    scan->result->skipped++;
    struct buf shown;
    buf_init(&shown, (size_t)4 * PATH_BYTES_MAX);
    utf8_escape_name(&shown, scan->path.data, scan->path.length);
    if (shown.length > 300) {
        /* The end tells more than the beginning, and the reason must not be cut off. */
        size_t from = shown.length - 300;
        while ((shown.data[from] & 0xC0) == 0x80) {
            from++;
        }
        error_set(&scan->result->first_skipped, code, "...%s: %s", shown.data + from, reason);
    } else {
        error_set(&scan->result->first_skipped, code, "%s: %s", shown.data, reason);
    }
    buf_finish(&shown);
}

static void set_path(struct scan *scan, const struct folder *folder, const char *name) {
    scan->path.length = scan->below;
    scan->path.data[scan->below] = '\0';
    buf_append_string(&scan->path, folder->path);
    if (name[0] != '\0') {
        if (folder->path[0] != '\0') {
            buf_append_char(&scan->path, '/');
        }
        buf_append_string(&scan->path, name);
    }
}

static struct folder *folder_create(const struct scan *scan, const char *path) {
    struct folder *folder = mem_alloc(sizeof *folder + scan->glob_count * sizeof folder->states[0]);
    folder->path = mem_copy_string(path);
    return folder;
}

static void folder_free(struct folder *folder) {
    free(folder->path);
    free(folder);
}

static void push(struct scan *scan, struct folder *folder) {
    folder->next = scan->pending;
    scan->pending = folder;
}

/* Queues the folder that scan->path names. */
static void enter_later(struct scan *scan, const struct folder *parent, const char *name) {
    const char *below = scan->path.data + scan->below;
    if (scan->path.length - scan->below >= KEY_MAX) {
        skip(scan, STATUS_LIMIT,
             "not searched: the keys of what is in it would be longer than 1,024 bytes");
        return;
    }
    struct folder *folder = folder_create(scan, below);
    for (size_t i = 0; i < scan->glob_count; i++) {
        folder->states[i] = glob_step(&scan->globs[i], parent->states[i], name);
    }
    push(scan, folder);
}

static int64_t nanoseconds(const struct timespec *time) {
    int64_t result;
    if (__builtin_mul_overflow((int64_t)time->tv_sec, INT64_C(1000000000), &result) ||
        __builtin_add_overflow(result, (int64_t)time->tv_nsec, &result)) {
        return time->tv_sec < 0 ? INT64_MIN : INT64_MAX;
    }
    return result;
}

static enum status yield(struct scan *scan, const struct stat *info, struct error *err) {
    buf_clear(&scan->key);
    utf8_escape_name(&scan->key, scan->path.data + scan->below, scan->path.length - scan->below);
    if (scan->key.length > KEY_MAX || scan->key.overflow) {
        skip(scan, STATUS_LIMIT, "skipped: its key would be longer than 1,024 bytes");
        return STATUS_OK;
    }
    scan->result->entries++;
    struct files_entry entry = {
        .key = scan->key.data,
        .path = scan->path.data,
        .size_bytes = (int64_t)info->st_size,
        .mtime_ns = nanoseconds(&info->st_mtim),
        .inode = (int64_t)info->st_ino,
    };
    return scan->each(scan->context, &entry, err);
}

static struct name judge(const struct scan *scan, const struct folder *folder, const char *text) {
    struct name name = {.text = text};
    for (size_t i = 0; i < scan->glob_count; i++) {
        const struct glob *glob = &scan->globs[i];
        glob_states states = glob_step(glob, folder->states[i], text);
        bool accepts = glob_accepts(glob, states);
        name.accepted = name.accepted || accepts;
        name.accepted_as_folder = name.accepted_as_folder || (accepts && glob->names);
        name.continues = name.continues || glob_continues(glob, states);
    }
    name.continues = name.continues && scan->source->recursive;
    return name;
}

/* A name that matches: links are followed to tell what it is. Returns OK also when it is gone
 * meanwhile. */
static enum status take(struct scan *scan, int fd, const struct name *name,
                        const struct stat *itself, struct error *err) {
    struct stat info = *itself;
    if (S_ISLNK(itself->st_mode) && fstatat(fd, name->text, &info, 0) != 0) {
        info = *itself; /* dangling, in a loop, or not ours to see: the handler says which */
    }
    if (S_ISDIR(info.st_mode) && !name->accepted_as_folder) {
        return STATUS_OK;
    }
    return yield(scan, &info, err);
}

static enum status visit(struct scan *scan, const struct folder *folder, int fd,
                         const struct dirent *item, struct error *err) {
    if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) {
        return STATUS_OK;
    }
    struct name name = judge(scan, folder, item->d_name);
    bool may_be_folder = item->d_type == DT_DIR || item->d_type == DT_UNKNOWN;
    if (!name.accepted && !(name.continues && may_be_folder)) {
        return STATUS_OK;
    }
    set_path(scan, folder, name.text);
    struct stat itself;
    if (fstatat(fd, name.text, &itself, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) {
            skip(scan, STATUS_UNAVAILABLE, strerror(errno));
        }
        return STATUS_OK; /* removed since it was listed */
    }
    enum status status = name.accepted ? take(scan, fd, &name, &itself, err) : STATUS_OK;
    if (status == STATUS_OK && name.continues && S_ISDIR(itself.st_mode)) {
        enter_later(scan, folder, name.text);
    }
    return status;
}

static DIR *open_folder(const struct scan *scan, const char *path) {
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(scan->root, path[0] == '\0' ? "." : path, flags);
    if (fd < 0) {
        return NULL;
    }
    DIR *stream = fdopendir(fd);
    if (stream == NULL) {
        int saved = errno;
        close(fd);
        errno = saved;
    }
    return stream;
}

/* Only what `each` returns ends the scan: a folder that cannot be read is one thing skipped. */
static enum status read_folder(struct scan *scan, const struct folder *folder, struct error *err) {
    DIR *stream = open_folder(scan, folder->path);
    if (stream == NULL) {
        int reason = errno;
        set_path(scan, folder, "");
        skip(scan, STATUS_UNAVAILABLE, strerror(reason));
        return STATUS_OK;
    }
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        errno = 0;
        const struct dirent *item = readdir(stream);
        if (item == NULL) {
            if (errno != 0) {
                int reason = errno;
                set_path(scan, folder, "");
                skip(scan, STATUS_UNAVAILABLE, strerror(reason));
            }
            break;
        }
        status = visit(scan, folder, dirfd(stream), item, err);
    }
    closedir(stream);
    return status;
}

static enum status parse_patterns(struct scan *scan, struct error *err) {
    while (scan->source->match[scan->glob_count] != NULL) {
        scan->glob_count++;
    }
    scan->globs = mem_alloc((scan->glob_count + 1) * sizeof *scan->globs);
    for (size_t i = 0; i < scan->glob_count; i++) {
        enum status status = glob_parse(&scan->globs[i], scan->source->match[i], err);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

static enum status open_root(struct scan *scan, struct error *err) {
    const char *root = scan->source->root;
    REQUIRE(root[0] == '/');
    scan->root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scan->root < 0) {
        enum status code = errno == ENOENT    ? STATUS_NOT_FOUND
                           : errno == ENOTDIR ? STATUS_INVALID
                                              : STATUS_UNAVAILABLE;
        return error_set_errno(err, code, errno, "the source's folder %s cannot be read", root);
    }
    size_t length = strlen(root);
    while (length > 0 && root[length - 1] == '/') {
        length--;
    }
    buf_append(&scan->path, root, length);
    buf_append_char(&scan->path, '/');
    scan->below = scan->path.length;
    return STATUS_OK;
}

static enum status run(struct scan *scan, struct error *err) {
    struct folder *root = folder_create(scan, "");
    for (size_t i = 0; i < scan->glob_count; i++) {
        root->states[i] = glob_start(&scan->globs[i]);
    }
    push(scan, root);
    enum status status = STATUS_OK;
    while (status == STATUS_OK && scan->pending != NULL) {
        struct folder *folder = scan->pending;
        scan->pending = folder->next;
        status = read_folder(scan, folder, err);
        folder_free(folder);
    }
    return status;
}

static void finish(struct scan *scan) {
    while (scan->pending != NULL) {
        struct folder *folder = scan->pending;
        scan->pending = folder->next;
        folder_free(folder);
    }
    for (size_t i = 0; i < scan->glob_count; i++) {
        glob_finish(&scan->globs[i]);
    }
    free(scan->globs);
    buf_finish(&scan->path);
    buf_finish(&scan->key);
    if (scan->root >= 0) {
        close(scan->root);
    }
}

enum status files_scan(const struct files_source *source,
                       enum status (*each)(void *context, const struct files_entry *entry,
                                           struct error *err),
                       void *context, struct files_result *result, struct error *err) {
    *result = (struct files_result){0};
    struct scan scan = {
        .source = source, .each = each, .context = context, .result = result, .root = -1};
    buf_init(&scan.path, PATH_BYTES_MAX);
    buf_init(&scan.key, (size_t)4 * PATH_BYTES_MAX);
    enum status status = parse_patterns(&scan, err);
    if (status == STATUS_OK) {
        status = open_root(&scan, err);
    }
    if (status == STATUS_OK) {
        status = run(&scan, err);
    }
    finish(&scan);
    return status;
}
