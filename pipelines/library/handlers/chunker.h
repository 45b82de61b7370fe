/* chunker.h - cuts a text into pieces of bounded size where a reader would.
 *
 * A piece has at most `size` characters (code points). It ends, in this order of preference, at a
 * paragraph, a sentence, a line, a word, and within a word only when that is longer than a whole
 * piece; never inside a character, nor between a letter and its combining marks. No piece begins or
 * ends with a blank, none is empty, and without overlap the pieces in order are the text, less
 * blanks between them. With overlap a piece repeats whole sentences, or else words, of the end of
 * the one before.
 */
#ifndef LIBRARY_CHUNKER_H
#define LIBRARY_CHUNKER_H

#include <stdbool.h>
#include <stddef.h>

enum { CHUNK_SIZE_DEFAULT = 1200, CHUNK_SIZE_MIN = 50, CHUNK_SIZE_MAX = 100000 };

struct chunker {
    const char *text; /* well-formed UTF-8, borrowed */
    size_t length;
    size_t size, overlap; /* characters; overlap <= size / 2 */
    size_t next;          /* where the next piece begins, in bytes */
    size_t covered;       /* where the last one ended */
};

void chunker_init(struct chunker *chunker, const char *text, size_t length, size_t size,
                  size_t overlap);

/* The next piece, pointing into the text; false at the end. */
bool chunker_next(struct chunker *chunker, const char **piece, size_t *length);

#endif
