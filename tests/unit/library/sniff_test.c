/* Formats by content, then by extension. */
#include "sniff.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(library_sniff, .timeout = 10);

#define BYTES(literal) literal, sizeof(literal) - 1

static const struct {
    const char *bytes;
    size_t length;
    const char *name;
    enum format format;
} cases[] = {
    {BYTES("%PDF-1.7\n"), "a.pdf", FORMAT_PDF},
    {BYTES("%PDF-1.7\n"), "a.txt", FORMAT_PDF},
    {BYTES("\xEF\xBB\xBF\r\n%PDF-1.7\n"), "a", FORMAT_PDF},
    {BYTES("some mail header\n%PDF-1.7\n"), "a.pdf", FORMAT_PDF},
    {BYTES("A PDF begins with %PDF-1.7\n"), "a.txt", FORMAT_TEXT},
    {BYTES("<!DOCTYPE html><p>x"), "a.txt", FORMAT_HTML},
    {BYTES("\n <!-- c --> <html lang=en>"), "a", FORMAT_HTML},
    {BYTES("<?xml version='1.0'?>\n<!DOCTYPE html PUBLIC '...'>"), "a.xml", FORMAT_HTML},
    {BYTES("\xFF\xFE<\0h\0t\0m\0l\0>\0"), "a", FORMAT_HTML},
    {BYTES("\xFE\xFF\0<\0h\0t\0m\0l\0>"), "a", FORMAT_HTML},
    {BYTES("<p>only a part"), "a.html", FORMAT_HTML},
    {BYTES("plain words"), "A.HTM", FORMAT_HTML},
    {BYTES("<p align=center>a readme"), "README.md", FORMAT_TEXT},
    {BYTES("<!-- no end"), "a.txt", FORMAT_TEXT},
    {BYTES("plain"), "a.txt", FORMAT_TEXT},
    {BYTES("plain"), "no extension", FORMAT_TEXT},
    {BYTES("\xFF"), "a.txt", FORMAT_TEXT},
    {BYTES("a\0b"), "a.txt", FORMAT_TEXT},
    {BYTES("\xE4\xF6\xFC caf\xE9 \x93x\x94\n"), "a.txt", FORMAT_TEXT},
    {BYTES("\x1B[1mbold\x1B[0m \x1B[2J"), "a.log", FORMAT_TEXT},
    {BYTES("\xFF\xFE"
           "a\0b\0c\0d\0e\0f\0"),
     "a.txt", FORMAT_TEXT},
};

Test(library_sniff, tells_formats) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum format format;
        struct reason reason = {{0}};
        cr_expect_eq(sniff(cases[i].bytes, cases[i].length, cases[i].name, &format, &reason),
                     OUTCOME_OK, "case %zu: %s", i, reason.text);
        cr_expect_eq(format, cases[i].format, "case %zu: %s", i, format_name(format));
    }
}

static void expect_bad(const char *bytes, size_t length, const char *name, const char *word) {
    enum format format;
    struct reason reason = {{0}};
    cr_expect_eq(sniff(bytes, length, name, &format, &reason), OUTCOME_BAD, "%s", word);
    cr_expect_not_null(strstr(reason.text, word), "'%s' lacks '%s'", reason.text, word);
}

Test(library_sniff, names_what_it_does_not_read) {
    expect_bad(BYTES("PK\x03\x04...."), "a.docx", "an office document");
    expect_bad(BYTES("\x89PNG\r\n"), "a.txt", "a PNG picture");
    expect_bad(BYTES("\x7F"
                     "ELF\x02\x01"),
               "a", "a program");
    expect_bad(BYTES("{\\rtf1"), "a.rtf", "an RTF document");
    expect_bad(BYTES("\x1F\x8B\x08"), "a.txt.gz", "a gzip archive");
    expect_bad(BYTES("not one"), "a.pdf", "it is not a PDF");
}

Test(library_sniff, random_bytes_are_not_text) {
    srand(3);
    for (int round = 0; round < 200; round++) {
        char bytes[4096];
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = (char)rand();
        }
        bytes[0] = '-';
        expect_bad(bytes, sizeof bytes, "a.txt", "is not text");
    }
    static const char zeros[512];
    expect_bad(zeros, sizeof zeros, "a.txt", "is not text");
}
