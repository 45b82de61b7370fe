#include "document.h"

#include <string.h>

#include "clean.h"
#include "encoding.h"
#include "html.h"

enum { DECODED_GROWTH = 3 }; /* no encoding's byte becomes more than three bytes of UTF-8 */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static enum outcome check_text(const struct text *text, size_t max_bytes, struct reason *reason) {
    switch (text->state) {
    case TEXT_FINE:
        return OUTCOME_OK;
    case TEXT_TOO_LONG:
        return because(reason, OUTCOME_BAD,
                       "the text is longer than the limit (max_text) of %zu bytes", max_bytes);
    case TEXT_NO_MEMORY:
        break;
    }
    return because(reason, OUTCOME_LATER, "there is not enough memory for the text");
}

/* Markdown's first heading is the title of a plain text; other texts have none that could be told
 * from a first line. */
static void take_heading(const struct text *text, struct text *title) {
    const char *line = text_string(text);
    if (strncmp(line, "# ", 2) == 0) {
        text_append(title, line + 2, strcspn(line + 2, "\n"));
    }
}

/* libxml2 ends at a NUL and stumbles over what XML forbids, so those are dropped before it sees
 * them. */
static void drop_controls(struct text *text) {
    size_t kept = 0;
    for (size_t i = 0; i < text->length; i++) {
        unsigned char byte = (unsigned char)text->data[i];
        if ((byte >= 0x20 && byte != 0x7F) || (byte >= '\t' && byte <= '\r')) {
            text->data[kept++] = byte == '\v' || byte == '\f' ? ' ' : text->data[i];
        }
    }
    text->length = kept;
    if (text->data != NULL) {
        text->data[kept] = '\0';
    }
}

static enum outcome read_text(const char *bytes, size_t length, struct document *document,
                              struct text *title, struct reason *reason) {
    struct text decoded;
    text_init(&decoded, length * DECODED_GROWTH + 4);
    bool html = document->format == FORMAT_HTML;
    encoding_to_utf8(bytes, length, html, &decoded);
    enum outcome outcome = check_text(&decoded, decoded.max, reason);
    if (outcome == OUTCOME_OK && html) {
        drop_controls(&decoded);
        outcome = html_read(text_string(&decoded), decoded.length, title, &document->text, reason);
    } else if (outcome == OUTCOME_OK) {
        clean_text(text_string(&decoded), decoded.length, &document->text);
        take_heading(&document->text, title);
    }
    text_finish(&decoded);
    return outcome;
}

static enum outcome read_pdf(const char *bytes, size_t length, const struct pdf_watch *watch,
                             struct document *document, struct text *title, struct reason *reason) {
    struct pdf pdf;
    enum outcome outcome = pdf_read(bytes, length, watch, &pdf, title, &document->text, reason);
    document->pages = pdf.pages;
    if (outcome == OUTCOME_OK && pdf.unreadable_pages > 0) {
        snprintf(document->note, sizeof document->note, "%d of %d pages could not be read",
                 pdf.unreadable_pages, pdf.pages);
    } else if (outcome == OUTCOME_OK && document->text.length == 0) {
        snprintf(document->note, sizeof document->note,
                 "no text: the pages are pictures, as a scanner makes them");
    }
    return outcome;
}

/* What the document says, else the file's name; names are bytes of any encoding. */
static void set_title(struct document *document, const struct text *said, const char *path) {
    text_init(&document->title, DOCUMENT_TITLE_MAX);
    clean_line(text_string(said), said->length, DOCUMENT_TITLE_MAX, &document->title);
    if (document->title.length == 0) {
        const char *name = base_name(path);
        struct text decoded;
        text_init(&decoded, strlen(name) * DECODED_GROWTH + 4);
        encoding_to_utf8(name, strlen(name), false, &decoded);
        clean_line(text_string(&decoded), decoded.length, DOCUMENT_TITLE_MAX, &document->title);
        text_finish(&decoded);
    }
    if (document->title.length == 0) {
        text_append(&document->title, "(untitled)", 10);
    }
}

enum outcome document_read(const char *bytes, size_t length, const char *path,
                           size_t max_text_bytes, const struct pdf_watch *watch,
                           struct document *document, struct reason *reason) {
    *document = (struct document){0};
    text_init(&document->text, max_text_bytes);
    enum outcome outcome = sniff(bytes, length, base_name(path), &document->format, reason);
    if (outcome != OUTCOME_OK) {
        return outcome;
    }
    struct text title;
    text_init(&title, (size_t)1024 * 1024);
    if (document->format == FORMAT_PDF) {
        outcome = read_pdf(bytes, length, watch, document, &title, reason);
    } else {
        outcome = read_text(bytes, length, document, &title, reason);
    }
    if (outcome == OUTCOME_OK) {
        outcome = check_text(&document->text, max_text_bytes, reason);
    }
    if (outcome == OUTCOME_OK) {
        if (document->text.length == 0 && document->note[0] == '\0') {
            snprintf(document->note, sizeof document->note, "no text");
        }
        set_title(document, &title, path);
        outcome = check_text(&document->title, DOCUMENT_TITLE_MAX, reason);
    }
    text_finish(&title);
    return outcome;
}

void document_finish(struct document *document) {
    text_finish(&document->title);
    text_finish(&document->text);
}
