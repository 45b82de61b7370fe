#include "sniff.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "encoding.h"
#include "utf8.h"

enum { MARK_WITHIN = 1024, PROLOG_WITHIN = 4096 };

const char *format_name(enum format format) {
    switch (format) {
    case FORMAT_PDF:
        return "pdf";
    case FORMAT_HTML:
        return "html";
    case FORMAT_TEXT:
        return "text";
    }
    return "";
}

static bool has_extension(const char *name, const char *const *extensions) {
    const char *dot = strrchr(name, '.');
    for (; dot != NULL && *extensions != NULL; extensions++) {
        if (strcasecmp(dot + 1, *extensions) == 0) {
            return true;
        }
    }
    return false;
}

static bool begins_with(const char *at, const char *end, const char *word) {
    size_t length = strlen(word);
    return (size_t)(end - at) >= length && strncasecmp(at, word, length) == 0;
}

/* Kinds that people keep beside their documents, for a reason that names them. */
static const char *known_binary(const char *bytes, size_t length) {
    static const struct {
        const char *mark;
        size_t length;
        const char *what;
    } table[] = {
        {"PK\x03\x04", 4, "a ZIP archive or an office document"},
        {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", 8, "an office document in the old binary form"},
        {"{\\rtf", 5, "an RTF document"},
        {"%!PS", 4, "a PostScript program"},
        {"\x1F\x8B", 2, "a gzip archive"},
        {"BZh", 3, "a bzip2 archive"},
        {"\xFD"
         "7zXZ",
         5, "an xz archive"},
        {"\x28\xB5\x2F\xFD", 4, "a zstd archive"},
        {"7z\xBC\xAF", 4, "a 7z archive"},
        {"\x89PNG", 4, "a PNG picture"},
        {"\xFF\xD8\xFF", 3, "a JPEG picture"},
        {"GIF8", 4, "a GIF picture"},
        {"II*\0", 4, "a TIFF picture"},
        {"MM\0*", 4, "a TIFF picture"},
        {"AT&TFORM", 8, "a DjVu document"},
        {"\x7F"
         "ELF",
         4, "a program"},
        {"SQLite format 3", 15, "an SQLite database"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (length >= table[i].length && memcmp(bytes, table[i].mark, table[i].length) == 0) {
            return table[i].what;
        }
    }
    return NULL;
}

/* Control characters that no text has. Some may stand in one all the same, so few of them, or a
 * small share, pass: those that pass are dropped. Bytes that are not UTF-8 make it likelier that
 * this is not text. */
static bool looks_binary(const char *bytes, size_t length) {
    if (encoding_is_utf16(bytes, length)) {
        return false;
    }
    struct utf8_measure measure = utf8_measure(bytes, length);
    bool is_utf8 = measure.invalid <= measure.multibyte;
    size_t odd = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        bool unassigned =
            byte == 0x81 || byte == 0x8D || byte == 0x8F || byte == 0x90 || byte == 0x9D;
        odd += (byte < 0x20 && (byte < '\b' || byte > '\r') && byte != 0x1B) || byte == 0x7F ||
               (unassigned && !is_utf8);
    }
    return odd >= 4 && odd > length / (is_utf8 ? 4 : 20);
}

/* Goes past a byte order mark, blanks, comments, an XML declaration and the like. */
static const char *skip_prolog(const char *at, const char *end) {
    if (begins_with(at, end, "\xEF\xBB\xBF")) {
        at += 3;
    }
    while (at < end) {
        const char *close;
        if (*at == ' ' || (*at >= '\t' && *at <= '\r')) {
            at++;
            continue;
        }
        if (begins_with(at, end, "<!--")) {
            close = memmem(at, (size_t)(end - at), "-->", 3);
        } else if (begins_with(at, end, "<?")) {
            close = memmem(at, (size_t)(end - at), "?>", 2);
        } else {
            return at;
        }
        if (close == NULL) {
            return end;
        }
        at = close + (*close == '-' ? 3 : 2);
    }
    return end;
}

static bool begins_as_html(const char *bytes, size_t length) {
    const char *end = bytes + (length < PROLOG_WITHIN ? length : PROLOG_WITHIN);
    const char *at = skip_prolog(bytes, end);
    static const char *const marks[] = {"<!doctype html", "<html", "<head>", "<title>", "<body"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (begins_with(at, end, marks[i])) {
            return true;
        }
    }
    return false;
}

/* The same for UTF-16, whose letters alternate with zero bytes there. */
static bool begins_as_wide_html(const char *bytes, size_t length) {
    char narrow[PROLOG_WITHIN / 2];
    size_t count = 0;
    size_t first = bytes[0] == '\xFF' ? 2 : 3;
    for (size_t i = first; i < length && count < sizeof narrow; i += 2) {
        narrow[count++] = bytes[i];
    }
    return begins_as_html(narrow, count);
}

enum outcome sniff(const char *bytes, size_t length, const char *name, enum format *format,
                   struct reason *reason) {
    static const char *const pdf[] = {"pdf", NULL};
    static const char *const html[] = {"html", "htm", "xhtml", "xht", "shtml", NULL};
    const char *end = bytes + length;
    size_t within = length < MARK_WITHIN ? length : MARK_WITHIN;
    /* Readers of PDF allow some bytes in front; in any other file they would be a mere mention. */
    bool named_pdf = has_extension(name, pdf);
    if (begins_with(skip_prolog(bytes, bytes + within), end, "%PDF-") ||
        (named_pdf && memmem(bytes, within, "%PDF-", 5) != NULL)) {
        *format = FORMAT_PDF;
        return OUTCOME_OK;
    }
    const char *what = known_binary(bytes, length);
    if (what != NULL) {
        return because(reason, OUTCOME_BAD, "the file is %s, not text, HTML or PDF", what);
    }
    if (named_pdf) {
        return because(reason, OUTCOME_BAD, "the file is named .pdf, but it is not a PDF");
    }
    if (looks_binary(bytes, length)) {
        return because(reason, OUTCOME_BAD,
                       "the file is not text, HTML or PDF: it holds binary data");
    }
    bool is_html = encoding_is_utf16(bytes, length) ? begins_as_wide_html(bytes, length)
                                                    : begins_as_html(bytes, length);
    *format = is_html || has_extension(name, html) ? FORMAT_HTML : FORMAT_TEXT;
    return OUTCOME_OK;
}
