/* pdf.h - the text of a PDF, page by page. */
#ifndef LIBRARY_PDF_H
#define LIBRARY_PDF_H

#include <stdbool.h>

#include "outcome.h"
#include "text.h"

struct pdf {
    int pages;
    int unreadable_pages; /* of these; the text of the others was taken */
};

/* Called before each page; false ends the work with LATER. */
struct pdf_watch {
    bool (*page)(void *context, int page, int pages);
    void *context;
};

/* Once a process, before the first PDF: keeps the messages of the libraries off standard error. */
void pdf_quiet(void);

/* Appends to `title` (what the document says of itself; may stay empty) and `text`. */
enum outcome pdf_read(const char *bytes, size_t length, const struct pdf_watch *watch,
                      struct pdf *pdf, struct text *title, struct text *text,
                      struct reason *reason);

#endif
