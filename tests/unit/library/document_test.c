/* Whole documents: title, text, note. */
#include "document.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(library_document, .timeout = 20);

static struct document document;
static struct reason reason;

static enum outcome read_as(const char *bytes, size_t length, const char *path) {
    static const struct pdf_watch watch = {0};
    document_finish(&document);
    return document_read(bytes, length, path, 1000, &watch, &document, &reason);
}

#define BYTES(literal) literal, sizeof(literal) - 1

Test(library_document, the_title_is_the_files_name_when_there_is_no_other) {
    cr_assert_eq(read_as(BYTES("First line.\nMore."), "/x/y/notes.txt"), OUTCOME_OK);
    cr_assert_str_eq(text_string(&document.title), "notes.txt");
    cr_assert_eq(read_as(BYTES("# Heading \nMore."), "/x/notes.md"), OUTCOME_OK);
    cr_assert_str_eq(text_string(&document.title), "Heading");
    cr_assert_eq(read_as(BYTES("x"), "/x/\x01\x02"), OUTCOME_OK);
    cr_assert_str_eq(text_string(&document.title), "(untitled)");
    cr_assert_eq(read_as(BYTES("<html><p>x"), "/x/a.html"), OUTCOME_OK);
    cr_assert_str_eq(text_string(&document.title), "a.html");
    cr_assert_eq(read_as(BYTES("<title>\n  The   title\x01\n</title>"), "/x/a.html"), OUTCOME_OK);
    cr_assert_str_eq(text_string(&document.title), "The title");
}

Test(library_document, long_titles_are_cut) {
    char page[2000] = "<title>";
    memset(page + 7, 'x', 1000);
    snprintf(page + 1007, sizeof page - 1007, "</title>text");
    cr_assert_eq(read_as(page, strlen(page), "/a.html"), OUTCOME_OK);
    cr_assert_eq(document.title.length, DOCUMENT_TITLE_MAX);
    cr_assert_str_eq(document.title.data + DOCUMENT_TITLE_MAX - 3, "\xE2\x80\xA6");
}

Test(library_document, an_empty_text_is_noted) {
    cr_assert_eq(read_as(BYTES(" \n \n"), "/blank.txt"), OUTCOME_OK);
    cr_assert_eq(document.text.length, 0);
    cr_assert_str_eq(document.note, "no text");
}

Test(library_document, html_in_any_encoding) {
    cr_assert_eq(
        read_as(BYTES("<html><meta charset=iso-8859-1><title>\xE4</title><p>\xFC\x93"), "/a"),
        OUTCOME_OK);
    cr_assert_str_eq(text_string(&document.title), "\xC3\xA4");
    cr_assert_str_eq(text_string(&document.text), "\xC3\xBC\xE2\x80\x9C");
    cr_assert_eq(read_as(BYTES("\xFF\xFE<\0h\0t\0m\0l\0>\0\xE4\0"), "/a"), OUTCOME_OK);
    cr_assert_str_eq(text_string(&document.text), "\xC3\xA4");
    /* Not declared: it is UTF-8, not what HTML once took for granted. */
    cr_assert_eq(read_as(BYTES("<html><p>\xC3\xA4"), "/a"), OUTCOME_OK);
    cr_assert_str_eq(text_string(&document.text), "\xC3\xA4");
}

Test(library_document, nul_and_control_characters_are_dropped) {
    cr_assert_eq(read_as(BYTES("<html><p>a\0b\x02"
                               "c\x7F<p>d"),
                         "/a"),
                 OUTCOME_OK);
    cr_assert_str_eq(text_string(&document.text), "abc\n\nd");
    cr_assert_eq(read_as(BYTES("a\0b\x02"
                               "c\x7F"
                               "d"),
                         "/a.txt"),
                 OUTCOME_OK);
    cr_assert_str_eq(text_string(&document.text), "abcd");
}

Test(library_document, too_long_a_text_is_refused) {
    char text[1500];
    memset(text, 'x', sizeof text);
    cr_assert_eq(read_as(text, sizeof text, "/a.txt"), OUTCOME_BAD);
    cr_assert_not_null(strstr(reason.text, "max_text"));
}

/* Whatever the bytes are, there is an outcome, a title, and text that PostgreSQL can store. */
Test(library_document, any_bytes_have_an_outcome) {
    srand(17);
    static const char *const names[] = {"/a.txt", "/a.html", "/a.pdf", "/a"};
    static const char *const starts[] = {"",         "<html>",       "%PDF-1.4",
                                         "\xFF\xFE", "\xEF\xBB\xBF", "<meta charset=gbk>"};
    for (int round = 0; round < 3000; round++) {
        char bytes[300];
        size_t length = 1 + (size_t)rand() % sizeof bytes;
        for (size_t i = 0; i < length; i++) {
            static const char common[] = "<>/&;= ab\"'\n";
            bytes[i] =
                rand() % 3 == 0 ? (char)rand() : common[(size_t)rand() % (sizeof common - 1)];
        }
        const char *start = starts[(size_t)rand() % 6];
        memcpy(bytes, start, strlen(start) < length ? strlen(start) : length);
        enum outcome outcome = read_as(bytes, length, names[rand() % 4]);
        cr_assert_neq(outcome, OUTCOME_LATER);
        if (outcome == OUTCOME_OK) {
            cr_assert_gt(document.title.length, 0);
            cr_assert_eq(strlen(text_string(&document.text)), document.text.length);
        } else {
            cr_assert_neq(reason.text[0], '\0');
        }
    }
    document_finish(&document);
}
