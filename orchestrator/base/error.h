/* error.h - what went wrong, for the person who can act on it.
 *
 * A fallible function takes `struct error *err` last and returns the code. The first error wins: setting an error that
 * is already set does nothing. Success never touches it. `err` may be NULL: the code alone is returned.
 * Thread rule: an error belongs to one thread.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/status.h"

enum { ERROR_TEXT_MAX = 1024 };

struct error {
    enum status code;
    char sqlstate[6]; /* five characters when a server sent one, else "" */
    const char *file; /* source file of a configuration error, borrowed; else NULL */
    int line, column; /* 1-based; 0 when unknown */
    char text[ERROR_TEXT_MAX];
};

#define ERROR_NONE ((struct error){0})

/* Sets code and text unless an error is set already. Returns `code`. */
enum status error_set(struct error *err, enum status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same from errno: "TEXT: strerror(errno_value)". */
enum status error_set_errno(struct error *err, enum status code, int errno_value, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

/* Puts context in front of an error that is set: "stage 'resize': TEXT". Returns its code. */
enum status error_wrap(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Forgets what was set. */
void error_clear(struct error *err);

#endif
