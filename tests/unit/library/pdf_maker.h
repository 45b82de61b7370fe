/* pdf_maker.h - small PDFs, byte by byte. */
#ifndef TEST_PDF_MAKER_H
#define TEST_PDF_MAKER_H

#include <stdbool.h>
#include <stddef.h>

struct pdf_wish {
    const char *title; /* NULL: none */
    const char *const
        *page; /* a page's lines, separated by '\n'; "" is a page without text; ends with NULL */
    bool encrypted;  /* by a password that is not the empty one */
    int broken_page; /* this page (from 1) is no page object */
};

/* Ownership: the caller frees it. */
char *pdf_make(const struct pdf_wish *wish, size_t *length);

#endif
