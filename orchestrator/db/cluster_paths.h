/* cluster_paths.h - where the embedded database keeps its parts, and the small file operations on
 * them.
 *
 * Only files of db/cluster*.c use this. What lies in pg/, log/ and run/ belongs to the server's
 * user; when pgstage is root it must not trust it: files there are made with O_EXCL, opened with
 * O_NOFOLLOW, and removed below a descriptor.
 */
#ifndef DB_CLUSTER_PATHS_H
#define DB_CLUSTER_PATHS_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

enum {
    CLUSTER_PATH_MAX = 900
}; /* bytes of HOME; PostgreSQL itself stops at 1,024 for a file in it */

struct cluster_paths {
    char *home;     /* absolute, as realpath(3) gives it */
    char *data;     /* HOME/pg */
    char *fresh;    /* HOME/pg.new: initdb writes here, and one rename makes it the cluster */
    char *log;      /* HOME/log */
    char *log_file; /* HOME/log/postgresql.log */
    char *run;      /* HOME/run: the socket's folder, or a symbolic link to it */
};

/* Checks that `home` is a folder of this user that nobody else may write. */
enum status paths_init(struct cluster_paths *paths, const char *home, struct error *err) MUST_CHECK;
void paths_finish(struct cluster_paths *paths);

/* Makes a folder, or sees to it that the one that is there belongs to `uid` and has exactly `mode`.
 */
enum status folder_ensure(const char *path, uid_t uid, gid_t gid, mode_t mode,
                          struct error *err) MUST_CHECK;
/* Makes `path` and what is missing above it. `parents` is the mode of the latter. */
enum status folder_make_all(const char *path, mode_t mode, mode_t parents,
                            struct error *err) MUST_CHECK;
/* Removes a folder and all below it; never follows a link. Missing is fine. */
enum status folder_remove_all(const char *path, struct error *err) MUST_CHECK;

/* A folder as a descriptor; -1 and errno when it is not a folder, or a link. */
int folder_open(const char *path);
/* Makes NAME in a folder anew, for appending; what had the name is unlinked. -1 and `err` on
 * failure. */
int file_create_at(int folder, const char *name, uid_t uid, gid_t gid, struct error *err);
/* Puts `content` under NAME by a synced file and a rename. */
enum status file_put_at(int folder, const char *name, const struct buf *content, uid_t uid,
                        gid_t gid, struct error *err) MUST_CHECK;
/* Appends what NAME holds from `offset` on (negative: from that far before the end). False when it
 * cannot be read. */
bool file_read_at(int folder, const char *name, off_t offset, struct buf *content);

#endif
