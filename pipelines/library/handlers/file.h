/* file.h - a document's bytes, taken from a path that may name anything.
 *
 * Never blocks on a FIFO or a device, never reads more than the limit. What a path names is told in
 * the reason: an empty file, a folder, a link to nothing, a file that is gone.
 */
#ifndef LIBRARY_FILE_H
#define LIBRARY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outcome.h"
#include "text.h"

/* Initialises `bytes` and fills it; finish it whatever is returned. LATER: the file system is at
 * fault for the moment, or the file was being written. */
enum outcome file_read(const char *path, int64_t max_bytes, struct text *bytes,
                       struct reason *reason);

/* Undoes %XX; false when the text is not escaped as a source does it. */
bool file_unescape(const char *escaped, struct text *path);

/* "713 bytes", "1.4 MB". Returns `out`. */
const char *file_size_in_words(int64_t bytes, char out[32]);

#endif
