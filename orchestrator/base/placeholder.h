/* placeholder.h - {key}, {payload.name} and the others in the arguments of a stage's command: how they are written. What they
 * stand for, the worker knows; whether they are right, the pipeline file's reader says with the same functions.
 *
 * Thread rule: none (pure functions).
 */
#ifndef BASE_PLACEHOLDER_H
#define BASE_PLACEHOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum placeholder {
    PLACEHOLDER_LITERAL, /* none: text as it is */
    PLACEHOLDER_KEY,
    PLACEHOLDER_VERSION,
    PLACEHOLDER_ATTEMPT,
    PLACEHOLDER_TASK,
    PLACEHOLDER_PAYLOAD,
    PLACEHOLDER_INPUT,
    PLACEHOLDER_INPUTS,
    PLACEHOLDER_PIPELINE,
    PLACEHOLDER_STAGE,
    PLACEHOLDER_FOLDER,
    PLACEHOLDER_WORK,
    PLACEHOLDER_WITH,
};

/* Borrowed from the argument. */
struct placeholder_piece {
    enum placeholder source;
    const char *text; /* LITERAL: itself; else what stands behind the name's dot, empty for the whole */
    size_t length;
};

/* The piece of an argument that begins at *at, which must not be its end; *at is moved behind it. INVALID: a placeholder that
 * is not known, or a brace that belongs to none. */
enum status placeholder_next(const char **at, struct placeholder_piece *piece, struct error *err) MUST_CHECK;

const char *placeholder_name(enum placeholder source);
/* The same for every task of the stage. */
bool placeholder_is_constant(enum placeholder source);

/* Whether a command may have these arguments, the program first: INVALID, with `fault` (which one) and a sentence, for what
 * placeholder_next refuses, for values of one task in a stage with batches, for a program that a document names, and for a
 * document's text inside of a shell script. */
enum status placeholders_check(const char *const *arguments, size_t count, bool batch, size_t *fault,
                               struct error *err) MUST_CHECK;

#endif
