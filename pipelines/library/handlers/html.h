/* html.h - the text of a web page.
 *
 * The page is read as a stream of tags; no tree is built, nothing recurses, and how deep tags are
 * nested costs nothing. What is no text for a reader (scripts, styles, forms' controls) is left
 * out, and so is what a page repeats around its text (navigation, footers), unless nothing else is
 * there.
 */
#ifndef LIBRARY_HTML_H
#define LIBRARY_HTML_H

#include "outcome.h"
#include "text.h"

/* `utf8` must be well-formed. Appends to `title` (that of the page, or its first h1; may stay
 * empty) and `text`. */
enum outcome html_read(const char *utf8, size_t length, struct text *title, struct text *text,
                       struct reason *reason);

#endif
