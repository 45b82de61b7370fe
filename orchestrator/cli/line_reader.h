/* line_reader.h - a file or standard input, a line at a time, in bounded memory.
 */
#ifndef CLI_LINE_READER_H
#define CLI_LINE_READER_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { LINE_MAX_BYTES = 160 << 20 }; /* a payload of the largest size, and what is around it */

struct line_reader {
    int fd;
    const char *name; /* for messages */
    int64_t number;   /* of the line that was read last, from 1 */
    struct buf bytes; /* what was read, from the line in hand on */
    size_t used;      /* bytes of it that belong to lines given out already */
    size_t searched;  /* bytes after `used` that hold no new line */
    int over;
};

/* "-": standard input. NOT_FOUND or INVALID when it cannot be read. */
enum status line_reader_open(const char *path, struct line_reader *reader, struct error *err) MUST_CHECK;
void line_reader_close(struct line_reader *reader);

/* The next line, NUL-terminated, without its end; NULL at the end of the file. A line may hold NULs. Borrowed until the next
 * call. LIMIT: the line is too long. */
enum status line_reader_next(struct line_reader *reader, char **line, size_t *length, struct error *err) MUST_CHECK;

/* A whole file or standard input. Ownership: *text is the caller's, free() it; NUL-terminated. LIMIT: longer than `max`. */
enum status read_whole(const char *path, size_t max, char **text, size_t *length, struct error *err) MUST_CHECK;

#endif
