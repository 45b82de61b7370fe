/* source_text.h - the file's bytes as lines: where a byte stands, and which bytes may stand in a
 * pipeline file at all.
 *
 * Columns count characters, not bytes. A byte order mark is skipped. Thread rule: immutable.
 */
#ifndef CONFIG_SOURCE_TEXT_H
#define CONFIG_SOURCE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct position {
    int line, column; /* from 1 */
};

enum { SOURCE_TEXT_STEP = 1024 };

struct source_text {
    const char *name; /* as in messages; no control bytes */
    const char *text; /* borrowed; behind the byte order mark */
    size_t length;
    uint32_t *line_starts;
    int line_count;
    uint32_t
        *characters; /* before each SOURCE_TEXT_STEP bytes: a long line is never counted twice */
};

void source_text_init(struct source_text *source, struct arena *arena, const char *name,
                      const char *text, size_t length);

/* The line without its break; an empty one beyond the end. */
void source_text_line(const struct source_text *source, int line, const char **start,
                      size_t *length);

/* `offset` in bytes, at most `length`. */
struct position source_text_position(const struct source_text *source, size_t offset);

/* The reverse; positions beyond a line give the line's end. */
size_t source_text_offset(const struct source_text *source, struct position at);

struct source_fault {
    struct position at;
    const char *message, *hint; /* in the arena */
};

/* Finds the first byte that no pipeline file may hold (not UTF-8, control characters, foreign line
 * breaks). False, with nothing set, when all is well. */
bool source_text_fault(const struct source_text *source, struct arena *arena,
                       struct source_fault *fault);

#endif
