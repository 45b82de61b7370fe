/* document.h - bytes in, a document out: the whole of the extract stage but for the file and the
 * SDK. */
#ifndef LIBRARY_DOCUMENT_H
#define LIBRARY_DOCUMENT_H

#include "outcome.h"
#include "pdf.h"
#include "sniff.h"
#include "text.h"

enum { DOCUMENT_TITLE_MAX = 300, DOCUMENT_NOTE_MAX = 120 };

struct document {
    enum format format;
    int pages;                    /* 0: the format has none */
    char note[DOCUMENT_NOTE_MAX]; /* something a person may want to know; "" otherwise */
    struct text title;            /* one line, never empty */
    struct text text;             /* cleaned; may be empty */
};

/* `path` is only read for the file's name: its extension helps to tell the format, and it is the
 * title when the document has none. Finish `document` whatever is returned. */
enum outcome document_read(const char *bytes, size_t length, const char *path,
                           size_t max_text_bytes, const struct pdf_watch *watch,
                           struct document *document, struct reason *reason);
void document_finish(struct document *document);

#endif
