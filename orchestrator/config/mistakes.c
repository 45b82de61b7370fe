/* mistakes.c - keeping, sorting and printing; a long line is shown around its caret only. */
#include "config/mistakes.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum {
    MESSAGE_MAX = 512,
    QUOTED_BYTES_MAX = 60,
    SHOWN_WIDTH = 100, /* characters of a source line */
    SHOWN_BEFORE = 60, /* of them before the caret, when the line is cut */
};

void mistake_add(struct mistakes *mistakes, struct position at, const char *hint,
                 const char *format, ...) {
    mistakes->total++;
    if (mistakes->count == MISTAKES_KEPT_MAX) {
        return;
    }
    if (mistakes->items == NULL) {
        mistakes->items = arena_alloc(mistakes->arena, MISTAKES_KEPT_MAX * sizeof *mistakes->items);
    }
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    mistakes->items[mistakes->count] =
        (struct mistake){.at = at,
                         .order = mistakes->count,
                         .message = arena_copy_string(mistakes->arena, message),
                         .hint = hint};
    mistakes->count++;
}

const char *mistake_quote(struct arena *arena, const char *text) {
    struct buf out;
    buf_init(&out, SIZE_MAX);
    buf_append_char(&out, '\'');
    utf8_sanitize(&out, text, strlen(text), QUOTED_BYTES_MAX);
    for (size_t i = 0; i < out.length; i++) {
        if (out.data[i] == '\n' || out.data[i] == '\t') {
            out.data[i] = ' ';
        }
    }
    buf_append_string(&out, strlen(text) > QUOTED_BYTES_MAX ? "...'" : "'");
    const char *quoted = arena_copy(arena, out.data, out.length);
    buf_finish(&out);
    return quoted;
}

static int compare(const void *left, const void *right) {
    const struct mistake *a = left, *b = right;
    if (a->at.line != b->at.line) {
        return a->at.line < b->at.line ? -1 : 1;
    }
    if (a->at.column != b->at.column) {
        return a->at.column < b->at.column ? -1 : 1;
    }
    return a->order < b->order ? -1 : a->order > b->order;
}

void mistakes_sort(struct mistakes *mistakes) {
    if (mistakes->count > 1) {
        qsort(mistakes->items, (size_t)mistakes->count, sizeof *mistakes->items, compare);
    }
}

static bool begins_character(char byte) {
    return ((unsigned char)byte & 0xC0) != 0x80;
}

static int count_characters(const char *text, size_t length) {
    int count = 0;
    for (size_t i = 0; i < length; i++) {
        count += begins_character(text[i]) ? 1 : 0;
    }
    return count;
}

/* The part of the line from character `first` on, at most SHOWN_WIDTH of them. */
static void cut(const char **line, size_t *length, int first) {
    int character = -1;
    size_t start = *length, end = *length;
    for (size_t i = 0; i < *length; i++) {
        if (begins_character((*line)[i])) {
            character++;
            if (character == first) {
                start = i;
            } else if (character == first + SHOWN_WIDTH) {
                end = i;
                break;
            }
        }
    }
    *line += start;
    *length = end - start;
}

/* The source line and, below it, a caret. Tabs are copied so that the caret keeps its place. */
static void print_line(const struct source_text *source, struct position at, struct buf *out) {
    const char *line;
    size_t length;
    source_text_line(source, at.line, &line, &length);
    int width = count_characters(line, length), caret = at.column - 1;
    caret = caret > width ? width : caret;
    bool before = false, after = false;
    if (width > SHOWN_WIDTH) {
        int first = caret > SHOWN_BEFORE ? caret - SHOWN_BEFORE : 0;
        before = first > 0;
        after = width - first > SHOWN_WIDTH;
        cut(&line, &length, first);
        caret -= first;
    }
    buf_append_string(out, before ? "  ..." : "  ");
    utf8_sanitize(out, line, length, length * 3);
    buf_append_string(out, after ? "...\n" : "\n");
    buf_append_string(out, before ? "     " : "  ");
    size_t i = 0;
    for (int column = 0; column < caret && i < length; column++) {
        buf_append_char(out, line[i] == '\t' ? '\t' : ' ');
        do {
            i++;
        } while (i < length && !begins_character(line[i]));
    }
    buf_append_string(out, "^\n");
}

void mistakes_print(const struct mistakes *mistakes, const struct source_text *source,
                    struct buf *out) {
    int shown = mistakes->count < MISTAKES_SHOWN_MAX ? mistakes->count : MISTAKES_SHOWN_MAX;
    for (int i = 0; i < shown; i++) {
        const struct mistake *mistake = &mistakes->items[i];
        buf_append_format(out, "%s:%d:%d: %s\n", source->name, mistake->at.line, mistake->at.column,
                          mistake->message);
        print_line(source, mistake->at, out);
        if (mistake->hint != NULL) {
            buf_append_format(out, "  hint: %s\n", mistake->hint);
        }
    }
    if (mistakes->total > shown) {
        buf_append_format(out, "%s: %d more mistakes are not shown\n", source->name,
                          mistakes->total - shown);
    }
}
