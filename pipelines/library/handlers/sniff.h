/* sniff.h - what a document is: by its content first, by its name's extension where content does
 * not tell. */
#ifndef LIBRARY_SNIFF_H
#define LIBRARY_SNIFF_H

#include <stddef.h>

#include "outcome.h"

enum format { FORMAT_PDF, FORMAT_HTML, FORMAT_TEXT };

const char *format_name(enum format format); /* "pdf", "html", "text" */

/* `name` is the file's name, of which only the extension is used. BAD: it is none of these;
 * `reason` says what it seems to be. `length` is not 0. */
enum outcome sniff(const char *bytes, size_t length, const char *name, enum format *format,
                   struct reason *reason);

#endif
