/* scalar.h - a text becomes the value that its key's row in the schema wants; quotes do not count.
 *
 * Used by walk.c, and for the table's own defaults.
 */
#ifndef CONFIG_SCALAR_H
#define CONFIG_SCALAR_H

#include <stdbool.h>

#include "base/arena.h"
#include "config/schema.h"

struct scalar_fault {
    const char *message; /* names the key, the value and the form wanted */
    const char *hint;    /* or NULL */
};

/* Reads `text` for a key of a scalar type (TYPE_NAME to TYPE_BACKOFF, but TYPE_PATH; TYPE_TEXT, TYPE_WORD)
 * into the struct at `target`; names, roles and texts are stored as the pointer given. False, with the
 * fault in the arena, when the text is not what the key wants; nothing is stored then. */
bool scalar_read(const struct config_key *key, const char *text, void *target, struct arena *arena,
                 struct scalar_fault *fault);

/* "250ms", "1h", "52w": exact when the value is a whole number of its unit. */
const char *scalar_format_duration(struct arena *arena, int64_t ms);
const char *scalar_format_size(struct arena *arena, int64_t bytes);

/* Letters, digits, '_', '-' and '.', the first one a letter, a digit or '_'; 1 to 63 bytes. */
bool scalar_is_name(const char *text);

#endif
