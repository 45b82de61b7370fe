#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 256 * 1024 };

const char *file_size_in_words(int64_t bytes, char out[32]) {
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    if (bytes < 1024) {
        snprintf(out, 32, "%" PRId64 " bytes", bytes);
        return out;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit < 3) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 32, "%.1f %s", value, units[unit]);
    return out;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool file_unescape(const char *escaped, struct text *path) {
    while (*escaped != '\0') {
        if (*escaped != '%') {
            text_append_char(path, *escaped++);
            continue;
        }
        int high = hex_digit(escaped[1]);
        int low = high < 0 ? -1 : hex_digit(escaped[2]);
        if (low < 0 || high + low == 0) { /* %00 can be part of no path */
            return false;
        }
        text_append_char(path, (char)(high << 4 | low));
        escaped += 3;
    }
    return true;
}

static const char *kind_in_words(mode_t mode) {
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a folder";
    case S_IFIFO:
        return "a named pipe";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    default:
        return "no regular file";
    }
}

static enum outcome not_a_file(mode_t mode, struct reason *reason) {
    return because(reason, OUTCOME_BAD, "is %s, not a document", kind_in_words(mode));
}

/* Why a path could not be looked at or opened. */
static enum outcome no_access(const char *path, int error, struct reason *reason) {
    struct stat info;
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
            return because(reason, OUTCOME_BAD, "is a link to a file that does not exist");
        }
        return because(reason, OUTCOME_BAD,
                       "the file is gone: it was moved or removed after it was found");
    case ELOOP:
        return because(reason, OUTCOME_BAD, "is a link that leads back to itself");
    case EACCES:
    case EPERM:
        return because(reason, OUTCOME_BAD, "the file cannot be read: permission denied");
    case ENAMETOOLONG:
        return because(reason, OUTCOME_BAD, "the file cannot be read: its path is too long");
    case ENXIO:
        return not_a_file(S_IFSOCK, reason);
    default:
        return because(reason, OUTCOME_LATER, "the file cannot be read now: %s", strerror(error));
    }
}

static enum outcome check(const struct stat *info, int64_t max_bytes, struct reason *reason) {
    if (!S_ISREG(info->st_mode)) {
        return not_a_file(info->st_mode, reason);
    }
    if (info->st_size > max_bytes) {
        char size[32], limit[32];
        return because(
            reason, OUTCOME_BAD, "the file is too large: it has %s, the limit (max_size) is %s",
            file_size_in_words(info->st_size, size), file_size_in_words(max_bytes, limit));
    }
    return OUTCOME_OK;
}

static bool changed(const struct stat *before, const struct stat *after) {
    return before->st_size != after->st_size || before->st_mtim.tv_sec != after->st_mtim.tv_sec ||
           before->st_mtim.tv_nsec != after->st_mtim.tv_nsec;
}

static enum outcome read_all(int fd, int64_t max_bytes, struct text *bytes, struct reason *reason) {
    char *piece = malloc(PIECE);
    if (piece == NULL) {
        return because(reason, OUTCOME_LATER, "there is not enough memory to read the file");
    }
    enum outcome outcome = OUTCOME_OK;
    while (outcome == OUTCOME_OK) {
        ssize_t count = read(fd, piece, PIECE);
        if (count == 0) {
            break;
        }
        if (count < 0 && errno != EINTR) {
            outcome = because(reason, errno == EISDIR ? OUTCOME_BAD : OUTCOME_LATER,
                              "the file cannot be read now: %s", strerror(errno));
        } else if (count > 0) {
            text_append(bytes, piece, (size_t)count);
        }
        if (bytes->state == TEXT_TOO_LONG) { /* it grew since its size was asked */
            char limit[32];
            outcome =
                because(reason, OUTCOME_BAD, "the file is too large: the limit (max_size) is %s",
                        file_size_in_words(max_bytes, limit));
        } else if (bytes->state == TEXT_NO_MEMORY) {
            outcome = because(reason, OUTCOME_LATER, "there is not enough memory to read the file");
        }
    }
    free(piece);
    return outcome;
}

static enum outcome read_open(int fd, int64_t max_bytes, struct text *bytes,
                              struct reason *reason) {
    struct stat before, after;
    if (fstat(fd, &before) != 0) {
        return because(reason, OUTCOME_LATER, "the file cannot be read now: %s", strerror(errno));
    }
    enum outcome outcome = check(&before, max_bytes, reason);
    if (outcome == OUTCOME_OK) {
        outcome = read_all(fd, max_bytes, bytes, reason);
    }
    if (outcome != OUTCOME_OK) {
        return outcome;
    }
    if (fstat(fd, &after) != 0 || changed(&before, &after)) {
        return because(reason, OUTCOME_LATER, "the file was being written while it was read");
    }
    if (bytes->length == 0) {
        return because(reason, OUTCOME_BAD, "the file is empty");
    }
    return OUTCOME_OK;
}

enum outcome file_read(const char *path, int64_t max_bytes, struct text *bytes,
                       struct reason *reason) {
    /* Looked at before it is opened: opening a device may already do something. Looked at again
     * afterwards: it may have been replaced in between; O_NONBLOCK is for a FIFO that was put
     * there. */
    text_init(bytes, (size_t)max_bytes);
    struct stat info;
    if (stat(path, &info) != 0) {
        return no_access(path, errno, reason);
    }
    enum outcome outcome = check(&info, max_bytes, reason);
    if (outcome != OUTCOME_OK) {
        return outcome;
    }
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        return no_access(path, errno, reason);
    }
    outcome = read_open(fd, max_bytes, bytes, reason);
    close(fd);
    return outcome;
}
