#include "cli/line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 64 << 10 };

static enum status open_input(const char *path, int *fd, const char **name, struct error *err) {
    *name = path;
    if (strcmp(path, "-") == 0) {
        *fd = STDIN_FILENO;
        *name = "standard input";
        return STATUS_OK;
    }
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) {
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_INVALID, errno, "cannot read '%s'", path);
    }
    return STATUS_OK;
}

static void close_input(int fd) {
    if (fd > STDIN_FILENO) {
        close(fd);
    }
}

/* Appends a block; *over at the end of the file. */
static enum status read_block(int fd, const char *name, struct buf *bytes, int *over, struct error *err) {
    char *room = buf_reserve(bytes, BLOCK);
    if (room == NULL) {
        return error_set(err, STATUS_LIMIT, "%s: longer than %d MB", name, (int)(bytes->max >> 20));
    }
    ssize_t count;
    do {
        count = read(fd, room, BLOCK);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "cannot read '%s'", name);
    }
    bytes->length += (size_t)count;
    *over = count == 0;
    return STATUS_OK;
}

enum status line_reader_open(const char *path, struct line_reader *reader, struct error *err) {
    *reader = (struct line_reader){.fd = -1};
    buf_init(&reader->bytes, LINE_MAX_BYTES);
    return open_input(path, &reader->fd, &reader->name, err);
}

void line_reader_close(struct line_reader *reader) {
    close_input(reader->fd);
    buf_finish(&reader->bytes);
}

/* Ends the line in hand before its "\n" or "\r\n", and leaves `used` behind it. */
static void give_line(struct line_reader *reader, char *start, size_t taken, size_t ending, char **line, size_t *length) {
    *line = start;
    *length = taken - ending;
    if (ending > 0 && *length > 0 && start[*length - 1] == '\r') {
        (*length)--;
    }
    start[*length] = '\0';
    reader->number++;
    reader->used += taken;
    reader->searched = 0;
}

enum status line_reader_next(struct line_reader *reader, char **line, size_t *length, struct error *err) {
    for (;;) {
        char *start = reader->bytes.data + reader->used;
        size_t left = reader->bytes.length - reader->used;
        char *end = memchr(start + reader->searched, '\n', left - reader->searched);
        if (end != NULL) {
            give_line(reader, start, (size_t)(end - start) + 1, 1, line, length);
            return STATUS_OK;
        }
        if (reader->over) {
            *line = NULL;
            if (left > 0) {
                give_line(reader, start, left, 0, line, length);
            }
            return STATUS_OK;
        }
        reader->searched = left;
        buf_drop_front(&reader->bytes, reader->used);
        reader->used = 0;
        enum status status = read_block(reader->fd, reader->name, &reader->bytes, &reader->over, err);
        if (status == STATUS_LIMIT) {
            error_clear(err);
            error_set(err, status, "%s:%lld: the line is longer than %d MB", reader->name,
                      (long long)reader->number + 1, LINE_MAX_BYTES >> 20);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
}

enum status read_whole(const char *path, size_t max, char **text, size_t *length, struct error *err) {
    int fd = -1, over = 0;
    const char *name = NULL;
    struct buf bytes;
    buf_init(&bytes, max + BLOCK);
    enum status status = open_input(path, &fd, &name, err);
    while (status == STATUS_OK && !over) {
        status = read_block(fd, name, &bytes, &over, err);
        if (status == STATUS_OK && bytes.length > max) {
            status = error_set(err, STATUS_LIMIT, "%s: longer than %d MB", name, (int)(max >> 20));
        }
    }
    close_input(fd);
    if (status == STATUS_OK) {
        *length = bytes.length;
        *text = buf_take(&bytes);
    }
    buf_finish(&bytes);
    return status;
}
