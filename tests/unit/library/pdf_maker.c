#include "pdf_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS_MAX = 512 };

/* Objects: 1 catalog, 2 page tree, 3 font, 4 information, 5 encryption, then two a page. */
struct maker {
    FILE *out;
    char *data;
    size_t length;
    long offsets[OBJECTS_MAX];
    int count;
};

static void begin(struct maker *maker, int number) {
    fflush(maker->out);
    maker->offsets[number] = (long)maker->length;
    if (number > maker->count) {
        maker->count = number;
    }
    fprintf(maker->out, "%d 0 obj\n", number);
}

static void end(struct maker *maker) {
    fputs("\nendobj\n", maker->out);
}

static void make_page(struct maker *maker, int number, const char *lines, bool broken) {
    begin(maker, number);
    if (broken) {
        fputs("(not a page)", maker->out);
    } else {
        fprintf(maker->out,
                "<</Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources <</Font <</F1 3 0 "
                "R>>>> "
                "/Contents %d 0 R>>",
                number + 1);
    }
    end(maker);
    char *content = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&content, &length);
    for (int y = 780; *lines != '\0'; y -= 14) {
        size_t width = strcspn(lines, "\n");
        fprintf(stream, "BT /F1 11 Tf 50 %d Td (%.*s) Tj ET\n", y, (int)width, lines);
        lines += width + (lines[width] == '\n');
    }
    fclose(stream);
    begin(maker, number + 1);
    fprintf(maker->out, "<</Length %zu>>\nstream\n%s\nendstream", length, content);
    end(maker);
    free(content);
}

static void make_index(struct maker *maker, const struct pdf_wish *wish) {
    fflush(maker->out);
    long start = (long)maker->length;
    fprintf(maker->out, "xref\n0 %d\n0000000000 65535 f \n", maker->count + 1);
    for (int i = 1; i <= maker->count; i++) {
        fprintf(maker->out, "%010ld 00000 n \n", maker->offsets[i]);
    }
    fprintf(maker->out, "trailer\n<</Size %d /Root 1 0 R", maker->count + 1);
    if (wish->title != NULL) {
        fputs(" /Info 4 0 R", maker->out);
    }
    if (wish->encrypted) {
        fputs(" /Encrypt 5 0 R /ID [<00112233445566778899AABBCCDDEEFF> "
              "<00112233445566778899AABBCCDDEEFF>]",
              maker->out);
    }
    fprintf(maker->out, ">>\nstartxref\n%ld\n%%%%EOF\n", start);
}

char *pdf_make(const struct pdf_wish *wish, size_t *length) {
    struct maker maker = {0};
    maker.out = open_memstream(&maker.data, &maker.length);
    fputs("%PDF-1.4\n%\xE2\xE3\xCF\xD3\n", maker.out);
    begin(&maker, 1);
    fputs("<</Type /Catalog /Pages 2 0 R>>", maker.out);
    end(&maker);
    int pages = 0;
    while (wish->page[pages] != NULL) {
        pages++;
    }
    begin(&maker, 2);
    fputs("<</Type /Pages /Kids [", maker.out);
    for (int i = 0; i < pages; i++) {
        fprintf(maker.out, "%d 0 R ", 6 + 2 * i);
    }
    fprintf(maker.out, "] /Count %d>>", pages);
    end(&maker);
    begin(&maker, 3);
    fputs("<</Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding>>",
          maker.out);
    end(&maker);
    begin(&maker, 4);
    fprintf(maker.out, "<</Title (%s)>>", wish->title == NULL ? "" : wish->title);
    end(&maker);
    begin(&maker, 5);
    /* The owner's and the user's entries are no hashes of any password. */
    fprintf(maker.out, "<</Filter /Standard /V 1 /R 2 /P -44 /O <%064d> /U <%064d>>>", 1, 2);
    end(&maker);
    for (int i = 0; i < pages; i++) {
        make_page(&maker, 6 + 2 * i, wish->page[i], wish->broken_page == i + 1);
    }
    make_index(&maker, wish);
    fclose(maker.out);
    *length = maker.length;
    return maker.data;
}
