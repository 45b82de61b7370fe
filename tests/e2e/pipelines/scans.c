#include "scans.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../unit/library/pdf_maker.h"
#include "base/memory.h"

enum { PAGE_WIDTH = 595, PAGE_HEIGHT = 144, /* the head of a page is enough */ PATTERNS = 12 * 1000 };

/* A PDF in the making: objects in order, from 1. */
struct pdf {
    FILE *file;
    long *offsets;
    int count, room;
};

static struct pdf pdf_open(const char *path) {
    struct pdf pdf = {.file = fopen(path, "wb")};
    cr_assert_not_null(pdf.file, "%s", path);
    fputs("%PDF-1.4\n", pdf.file);
    return pdf;
}

static void begin_object(struct pdf *pdf) {
    if (pdf->count == pdf->room) {
        pdf->room = 2 * pdf->room + 16;
        pdf->offsets = realloc(pdf->offsets, (size_t)pdf->room * sizeof *pdf->offsets);
        cr_assert_not_null(pdf->offsets);
    }
    pdf->offsets[pdf->count++] = ftell(pdf->file);
    fprintf(pdf->file, "%d 0 obj\n", pdf->count);
}

static void put_object(struct pdf *pdf, const char *text) {
    begin_object(pdf);
    fprintf(pdf->file, "%s\nendobj\n", text);
}

static void put_stream(struct pdf *pdf, const char *dictionary, const void *data, size_t length) {
    begin_object(pdf);
    fprintf(pdf->file, "<<%s /Length %zu>>\nstream\n", dictionary, length);
    cr_assert_eq(fwrite(data, 1, length, pdf->file), length);
    fputs("\nendstream\nendobj\n", pdf->file);
}

static void pdf_close(struct pdf *pdf) {
    long start = ftell(pdf->file);
    fprintf(pdf->file, "xref\n0 %d\n0000000000 65535 f \n", pdf->count + 1);
    for (int i = 0; i < pdf->count; i++) {
        fprintf(pdf->file, "%010ld 00000 n \n", pdf->offsets[i]);
    }
    fprintf(pdf->file, "trailer\n<</Size %d /Root 1 0 R>>\nstartxref\n%ld\n%%%%EOF\n", pdf->count + 1, start);
    cr_assert_eq(fclose(pdf->file), 0);
    free(pdf->offsets);
}

/* What pdftoppm draws of a text, as grey pixels. Ownership: free() them. */
static unsigned char *draw(const char *text, int *width, int *height) {
    char path[] = "/tmp/pgstage-text-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    size_t length;
    const char *const page[] = {text, NULL};
    char *pdf = pdf_make(&(struct pdf_wish){.page = page}, &length);
    FILE *file = fdopen(fd, "wb");
    cr_assert_eq(fwrite(pdf, 1, length, file), length);
    fclose(file);
    free(pdf);
    char *command = mem_format("pdftoppm -r 150 -x 0 -y 0 -W 1240 -H 300 -gray %s", path);
    FILE *drawn = popen(command, "r");
    cr_assert_eq(fscanf(drawn, "P5 %d %d 255", width, height), 2, "%s drew nothing", command);
    fgetc(drawn);
    size_t size = (size_t)*width * (size_t)*height;
    unsigned char *pixels = malloc(size);
    cr_assert_eq(fread(pixels, 1, size, drawn), size);
    cr_assert_eq(pclose(drawn), 0);
    remove(path);
    free(command);
    return pixels;
}

/* Objects 1 and 2; pages are every third one from 3. */
static void put_tree(struct pdf *pdf, int pages) {
    put_object(pdf, "<</Type /Catalog /Pages 2 0 R>>");
    begin_object(pdf);
    fputs("<</Type /Pages /Kids [", pdf->file);
    for (int i = 0; i < pages; i++) {
        fprintf(pdf->file, "%d 0 R ", 3 + 3 * i);
    }
    fprintf(pdf->file, "] /Count %d>>\nendobj\n", pages);
}

static void put_page(struct pdf *pdf, int width, int height, const char *resources) {
    int contents = pdf->count + 2;
    char *page = mem_format("<</Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R /Resources <<%s>>>>",
                            width, height, contents, resources);
    put_object(pdf, page);
    free(page);
}

static void put_picture(struct pdf *pdf, const char *dictionary, const void *data, size_t length) {
    char *resources = mem_format("/XObject <</I %d 0 R>>", pdf->count + 3);
    put_page(pdf, PAGE_WIDTH, PAGE_HEIGHT, resources);
    char *contents = mem_format("%d 0 0 %d 0 0 cm /I Do", PAGE_WIDTH, PAGE_HEIGHT);
    put_stream(pdf, "", contents, strlen(contents));
    put_stream(pdf, dictionary, data, length);
    free(contents);
    free(resources);
}

void scan_make(const char *path, const char *const *pages) {
    struct pdf pdf = pdf_open(path);
    int count = 0;
    while (pages[count] != NULL) {
        count++;
    }
    put_tree(&pdf, count);
    for (int i = 0; i < count; i++) {
        int width, height;
        unsigned char *pixels = draw(pages[i], &width, &height);
        char *dictionary =
            mem_format("/Type /XObject /Subtype /Image /Width %d /Height %d /BitsPerComponent 8 /ColorSpace "
                       "/DeviceGray",
                       width, height);
        put_picture(&pdf, dictionary, pixels, (size_t)width * (size_t)height);
        free(dictionary);
        free(pixels);
    }
    pdf_close(&pdf);
}

void crasher_make(const char *path) {
    static const char contents[] = "/Pattern cs /P scn 0 0 24 24 re f"; /* 24 points: whole pixels, one tile */
    struct pdf pdf = pdf_open(path);
    put_tree(&pdf, 1);
    put_page(&pdf, 24, 24, "/Pattern <</P 5 0 R>>");
    put_stream(&pdf, "", contents, sizeof contents - 1);
    for (int i = 0; i < PATTERNS; i++) {
        char *dictionary =
            mem_format("/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 24 24] /XStep 24 /YStep 24 "
                       "/Resources <</Pattern <</P %d 0 R>>>>",
                       pdf.count + 2);
        put_stream(&pdf, dictionary, contents, sizeof contents - 1);
        free(dictionary);
    }
    pdf_close(&pdf);
}

void bomb_make(const char *path) {
    unsigned char runs[20 * 1024]; /* 0x81: the next byte 128 times; of that again runs of the same kind */
    memset(runs, 0x81, sizeof runs);
    struct pdf pdf = pdf_open(path);
    put_tree(&pdf, 1);
    put_picture(
        &pdf,
        "/Type /XObject /Subtype /Image /Width 100000 /Height 100000 /BitsPerComponent 8 /ColorSpace /DeviceGray "
        "/Filter [/RunLengthDecode /RunLengthDecode /RunLengthDecode]",
        runs, sizeof runs);
    pdf_close(&pdf);
}

void giant_make(const char *path) {
    struct pdf pdf = pdf_open(path);
    put_tree(&pdf, 1);
    put_page(&pdf, 1000 * 1000, 1000 * 1000, "");
    put_stream(&pdf, "", "q Q", 3);
    pdf_close(&pdf);
}
