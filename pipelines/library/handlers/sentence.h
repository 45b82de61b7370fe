/* sentence.h - where a sentence ends. */
#ifndef LIBRARY_SENTENCE_H
#define LIBRARY_SENTENCE_H

#include <stdbool.h>
#include <stddef.h>

/* True when a sentence of the well-formed UTF-8 `text` ends just before `at`: behind its full stop
 * and the quotes and brackets that belong to it, where the blank follows. Abbreviations, initials,
 * ordinals and decimal points end none; in doubt a sentence goes on. Looks at a few characters
 * around `at` only. */
bool sentence_ends(const char *text, size_t length, size_t at);

#endif
