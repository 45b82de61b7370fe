#include "pdf.h"

#include <poppler.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clean.h"
#include "utf8.h"

static GLogWriterOutput drop_structured(GLogLevelFlags level, const GLogField *fields, gsize count,
                                        gpointer context) {
    (void)fields;
    (void)count;
    (void)context;
    /* What would end the process is worth a line: it is the last one that anybody sees. */
    if ((level & G_LOG_FLAG_FATAL) != 0) {
        return g_log_writer_default(level, fields, count, context);
    }
    return G_LOG_WRITER_HANDLED;
}

static void drop_printed(const char *text) {
    (void)text;
}

void pdf_quiet(void) {
    static bool done = false; /* GLib allows it once */
    if (!done) {
        done = true;
        g_log_set_writer_func(drop_structured, NULL, NULL);
        g_set_print_handler(drop_printed);
        g_set_printerr_handler(drop_printed);
    }
}

/* Poppler rebuilds the index of a PDF whose end is missing and shows the pages it finds; half a
 * document must not pass for a whole one. A PDF made for the web says its length in front; any
 * other has its end mark behind all else, so that one without any was cut off. */
static bool is_truncated(const char *bytes, size_t length) {
    size_t head = length < 1024 ? length : 1024;
    const char *linearized = memmem(bytes, head, "/Linearized", 11);
    if (linearized == NULL) {
        return memmem(bytes, length, "%%EOF", 5) == NULL;
    }
    const char *end = memmem(linearized, (size_t)(bytes + head - linearized), ">>", 2);
    const char *said =
        end == NULL ? NULL : memmem(linearized, (size_t)(end - linearized), "/L ", 3);
    if (said == NULL) {
        return false;
    }
    unsigned long long expected = 0;
    const char *digit = said + 3;
    while (digit < end && *digit >= '0' && *digit <= '9' && expected < length) {
        expected = expected * 10 + (unsigned long long)(*digit++ - '0');
    }
    return expected > length;
}

static enum outcome open_failed(const GError *error, struct reason *reason) {
    if (error != NULL && error->domain == POPPLER_ERROR && error->code == POPPLER_ERROR_ENCRYPTED) {
        return because(reason, OUTCOME_BAD, "the PDF is encrypted: a password is needed");
    }
    return because(reason, OUTCOME_BAD, "the PDF is damaged: it cannot be opened");
}

/* A word that was divided at a line's end is put together again, or it would not be found. */
static void join_divided_words(const char *page, struct cleaner *cleaner) {
    const char *start = page, *at = page;
    while ((at = strpbrk(at, "-\xC2")) != NULL) {
        bool soft = at[0] == '\xC2' && at[1] == '\xAD';
        size_t mark = soft ? 2 : 1;
        if ((at[0] == '-' || soft) && at[mark] == '\n') {
            size_t border = (size_t)(at - start);
            uint32_t before = utf8_before(start, &border);
            uint32_t after = 0;
            const char *next = at + mark + 1;
            utf8_decode(next, strnlen(next, 4), &after);
            if (g_unichar_islower(before) && g_unichar_islower(after)) {
                cleaner_add(cleaner, start, (size_t)(at - start), true);
                start = next;
            }
        }
        at++;
    }
    cleaner_add(cleaner, start, strlen(start), true);
}

/* "Introduction . . . . . . 7": the dots of a table of contents become one blank, in place. */
static void drop_leaders(char *text) {
    char *to = text;
    for (const char *at = text; *at != '\0';) {
        const char *end = at;
        int dots = 0;
        while (*end == '.' || (dots > 0 && *end == ' ')) {
            dots += *end++ == '.';
        }
        if (dots > 3) {
            *to++ = ' ';
            at = end;
        } else {
            do {
                *to++ = *at++;
            } while (at < end);
        }
    }
    *to = '\0';
}

static void take_title(PopplerDocument *document, struct text *title) {
    static const char office[] = "Microsoft Word - ";
    char *said = poppler_document_get_title(document);
    if (said != NULL && strcasecmp(said, "untitled") != 0) {
        const char *from = said;
        if (strncmp(from, office, sizeof office - 1) == 0) {
            from += sizeof office - 1;
        }
        text_append(title, from, strlen(from));
    }
    g_free(said);
}

static bool take_page(PopplerDocument *document, int index, struct cleaner *cleaner) {
    PopplerPage *page = poppler_document_get_page(document, index);
    if (page == NULL) {
        return false;
    }
    char *content = poppler_page_get_text(page);
    if (content != NULL) {
        drop_leaders(content);
        join_divided_words(content, cleaner);
        cleaner_break(cleaner, 2);
    }
    g_free(content);
    g_object_unref(page);
    return true;
}

static enum outcome take_pages(PopplerDocument *document, const struct pdf_watch *watch,
                               struct pdf *pdf, struct text *text, struct reason *reason) {
    struct cleaner cleaner;
    cleaner_init(&cleaner, text);
    for (int i = 0; i < pdf->pages; i++) {
        if (watch->page != NULL && !watch->page(watch->context, i, pdf->pages)) {
            return because(reason, OUTCOME_LATER, "stopped before page %d of %d", i + 1,
                           pdf->pages);
        }
        if (!take_page(document, i, &cleaner)) {
            pdf->unreadable_pages++;
        }
        if (text->state == TEXT_TOO_LONG) {
            return because(reason, OUTCOME_BAD,
                           "the PDF's text is longer than the limit (max_text)");
        }
        if (text->state == TEXT_NO_MEMORY) {
            return because(reason, OUTCOME_LATER, "there is not enough memory for the PDF's text");
        }
    }
    if (pdf->unreadable_pages == pdf->pages) {
        return because(reason, OUTCOME_BAD, "the PDF is damaged: none of its pages can be read");
    }
    return OUTCOME_OK;
}

enum outcome pdf_read(const char *bytes, size_t length, const struct pdf_watch *watch,
                      struct pdf *pdf, struct text *title, struct text *text,
                      struct reason *reason) {
    *pdf = (struct pdf){0};
    if (is_truncated(bytes, length)) {
        return because(reason, OUTCOME_BAD, "the PDF is truncated: its end is missing");
    }
    GBytes *data = g_bytes_new_static(bytes, length);
    GError *error = NULL;
    PopplerDocument *document = poppler_document_new_from_bytes(data, NULL, &error);
    enum outcome outcome;
    if (document == NULL) {
        outcome = open_failed(error, reason);
    } else {
        pdf->pages = poppler_document_get_n_pages(document);
        if (pdf->pages <= 0) {
            outcome = because(reason, OUTCOME_BAD, "the PDF is damaged: it has no pages");
        } else {
            take_title(document, title);
            outcome = take_pages(document, watch, pdf, text, reason);
        }
        g_object_unref(document);
    }
    g_clear_error(&error);
    g_bytes_unref(data);
    return outcome;
}
