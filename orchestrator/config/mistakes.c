/* mistakes.c - keeping, sorting and printing; a long line is shown around its caret only. */
#include "config/mistakes.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum {
    QUOTED_BYTES_MAX = 60,
    SHOWN_WIDTH = 100, /* characters of a source line */
    SHOWN_BEFORE = 60, /* of them before the caret, when the line is cut */
};

void mistake_add(struct mistakes *mistakes, struct position at, const char *hint,
                 const char *format, ...) {
    mistakes->total++;
    if (mistakes_are_enough(mistakes)) {
        return;
    }
    if (mistakes->items == NULL) {
        mistakes->items = arena_alloc(mistakes->arena, MISTAKES_KEPT_MAX * sizeof *mistakes->items);
    }
    struct buf message;
    buf_init(&message, SIZE_MAX);
    va_list args;
    va_start(args, format);
    buf_append_format_list(&message, format, args);
    va_end(args);
    mistakes->items[mistakes->count] =
        (struct mistake){.at = at,
                         .order = mistakes->count,
                         .message = arena_copy(mistakes->arena, message.data, message.length),
                         .hint = hint};
    mistakes->count++;
    buf_finish(&message);
}

bool mistakes_are_enough(const struct mistakes *mistakes) {
    return mistakes->count == MISTAKES_KEPT_MAX;
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

/* `count` characters from `at` towards `end`, either way; fewer when the end comes first. */
static const char *step(const char *at, const char *end, int count) {
    while (at != end && count > 0) {
        do {
            at += at < end ? 1 : -1;
        } while (at != end && !begins_character(*at));
        count--;
    }
    return at;
}

/* The source line, or its part around the caret, and below it the caret. Tabs are copied, so that
 * the caret keeps its place. */
static void print_line(const struct source_text *source, struct position at, struct buf *out) {
    const char *start;
    size_t length;
    source_text_line(source, at.line, &start, &length);
    const char *end = start + length, *caret = source->text + source_text_offset(source, at);
    const char *from = start, *to = step(start, end, SHOWN_WIDTH);
    if (to < end) {
        from = step(caret, start, SHOWN_BEFORE);
        to = step(from, end, SHOWN_WIDTH);
    }
    buf_append_string(out, from > start ? "  ..." : "  ");
    utf8_sanitize(out, from, (size_t)(to - from), SIZE_MAX);
    buf_append_string(out, to < end ? "...\n" : "\n");
    buf_append_string(out, from > start ? "     " : "  ");
    for (; from < caret; from = step(from, caret, 1)) {
        buf_append_char(out, *from == '\t' ? '\t' : ' ');
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
