/* mistakes.h - collects what is wrong in one file and prints it in file order.
 *
 * Used by every part of the loader. Messages carry no more of a value than a glance needs.
 * Ownership: everything lives in the arena given. Thread rule: one thread at a time.
 */
#ifndef CONFIG_MISTAKES_H
#define CONFIG_MISTAKES_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "config/source_text.h"

/* A hostile file may hold a mistake a line: the rest is counted only. */
enum { MISTAKES_KEPT_MAX = 500, MISTAKES_SHOWN_MAX = 100 };

struct mistake {
    struct position at;
    int order; /* of being found, among those at one place */
    const char *message, *hint;
};

struct mistakes {
    struct arena *arena;
    struct mistake *items; /* room for MISTAKES_KEPT_MAX, made with the first one */
    int count, total;      /* kept, found */
};

/* `hint` may be NULL; it is kept, not copied. */
void mistake_add(struct mistakes *mistakes, struct position at, const char *hint,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* True when further mistakes are only counted: hints need not be made for them. */
bool mistakes_are_enough(const struct mistakes *mistakes);

/* A value for a message: in quotes, on one line, cut after 60 bytes. */
const char *mistake_quote(struct arena *arena, const char *text);

void mistakes_sort(struct mistakes *mistakes); /* into file order */

/* Of sorted ones: "FILE:LINE:COL: MESSAGE", the line, a caret, the hint. */
void mistakes_print(const struct mistakes *mistakes, const struct source_text *source,
                    struct buf *out);

#endif
