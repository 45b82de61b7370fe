/* suggest.h - what somebody who wrote an unknown word may have meant. */
#ifndef CONFIG_SUGGEST_H
#define CONFIG_SUGGEST_H

#include "base/arena.h"
#include "config/schema.h"

/* Insertions, deletions, replacements and swaps of neighbours that make `right`, in small letters,
 * of `left`, in any. Words of more than 63 bytes are as far apart as they are long. */
int suggest_distance(const char *left, const char *right);

/* The key of the level that was probably meant by `word`, which it does not have; NULL when none is
 * near, or when the word is a key of another level. */
const struct config_key *suggest_key(enum config_level level, const char *word);

/* A hint for a key that the level does not have: the one that was meant, or where it belongs, or
 * all that the level knows. */
const char *suggest_hint(struct arena *arena, enum config_level level, const char *word);

#endif
