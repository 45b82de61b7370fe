/* ocr_test.c - the pipeline `ocr` on scans that are made here, among files that no program can read: C75, C76. */
#include <stdio.h>
#include <stdlib.h>

#include "../../unit/library/pdf_maker.h"
#include "base/memory.h"
#include "odd_files.h"
#include "rig.h"
#include "scans.h"
#include "support/pg.h"

static void init(void) {
    pipeline_begin("ocr");
    shell("mkdir $ROOT/files");
}

TestSuite(ocr, .init = init, .fini = pipeline_end, .timeout = 180);

static const char *file(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/files/%s", root(), name);
    return path;
}

static void make_scans(void) {
    static const char *const deed[] = {
        "This deed of the year 1911 conveys the meadow\nbehind the old mill to the parish.",
        "Witnessed by two neighbours who own vineyards.", NULL};
    static const char *const invoice[] = {"Invoice number 20417\nTwelve barrels of cider, paid in cash.", NULL};
    static const char *const letter[] = {"Dear sister, the orchard has never borne\nso many apples as in this autumn.",
                                         NULL};
    scan_make(file("deed.pdf"), deed);
    scan_make(file("invoice.pdf"), invoice);
    shell("mkdir $ROOT/files/letters");
    scan_make(file("letters/100% \"apple\" $(id).pdf"), letter); /* a name that a shell would read */
    scan_make(file("old\xFF\\n.pdf"), letter); /* and one that is escaped in the payload: it is no UTF-8 */
}

/* All scans are in the index, and nothing else. */
static void expect_scans(void) {
    expect_text("select string_agg(key || ':' || status, ' ' order by key) from pgstage.task where status <> 'failed'",
                "deed.pdf:done invoice.pdf:done letters/100%25 \"apple\" $(id).pdf:done old%FF\\n.pdf:done");
    expect_text("select string_agg(concat_ws(' ', document, number), ', ' order by document, number) from ocr.page",
                "deed.pdf 1, deed.pdf 2, invoice.pdf 1, letters/100%25 \"apple\" $(id).pdf 1, old%FF\\n.pdf 1");
    expect_text("select key || ' ' || page from ocr.search('neighbour vineyard')", "deed.pdf 2");
    expect_text("select key || ' ' || page from ocr.search('\"barrels of cider\"')", "invoice.pdf 1");
    expect_text("select string_agg(key, ' ' order by key) from ocr.search('orchard or nonsense')",
                "letters/100%25 \"apple\" $(id).pdf old%FF\\n.pdf");
}

static void run_all(void) {
    shell("psql -f schema.sql");
    const char *said;
    int status = shell_status(&said, "OCR_FOLDER=$ROOT/files pgstage run ocr.yaml --until-idle");
    cr_assert_eq(status, 1, "%d: %s", status, said); /* some failed */
}

static void expect_quarantined(const char *key, const char *kind, const char *reason) {
    char *sql = mem_format("select concat_ws(' ', t.status, t.attempt, t.crashes, string_agg(f.kind, ',' order by "
                           "f.id), t.error_text) from "
                           "pgstage.task t join pgstage.failure f on f.task = t.id where key = '%s' group by t.id",
                           key);
    char *wanted = mem_format("failed 0 4 %s,%s,%s,quarantine ", kind, kind, kind);
    char *found = pg_text(database(), sql);
    cr_expect_eq(strncmp(found, wanted, strlen(wanted)), 0, "'%s' is not '%s'", found, wanted);
    cr_expect_not_null(strstr(found, reason), "'%s' lacks '%s'", found, reason);
    free(found);
    free(wanted);
    free(sql);
}

Test(ocr, scans_are_read_and_one_that_crashes_the_parser_is_quarantined) {
    shell("pgstage check ocr.yaml");
    make_scans();
    crasher_make(file("crasher.pdf"));
    run_all();
    expect_scans();
    expect_quarantined("crasher.pdf", "crash", "SEGV");
    const char *shown = shell("pgstage show ocr crasher.pdf");
    cr_expect_not_null(strstr(shown, "| pdftoppm (page 1) was ended by SIGSEGV"), "%s", shown);
    const char *found = shell("psql -At -v query=orchard -f search.sql");
    cr_expect_not_null(strstr(found, "«orchard»"), "%s", found);
}

Test(ocr, odd_files_fail_at_once_with_a_reason_and_the_others_are_read) {
    make_scans();
    odd_files_make("pdf");
    giant_make(file("giant.pdf"));
    shell("cd $ROOT/files && cp deed.pdf tail.pdf && truncate -s -200 tail.pdf && echo '<html>' >page.pdf && "
          "printf '%%%%PDF-1.4\\nnonsense\\n%%%%%%%%EOF\\n' >nonsense.pdf");
    shell("sed -i 's/every: 10s/every: 52w/' ocr.yaml && pgstage apply ocr.yaml");
    shell("pgstage submit ocr gone.pdf --payload '{\"path\": \"'$ROOT'/files/gone.pdf\"}'");
    run_all();
    expect_scans();
    odd_files_failed("pdf");
    expect_text("select error_text from pgstage.task where key = 'giant.pdf'", "page 1 of 1 cannot be drawn");
    expect_text("select error_text from pgstage.task where key = 'tail.pdf'",
                "the PDF is truncated: its end is missing");
    expect_text("select error_text from pgstage.task where key = 'page.pdf'", "is no PDF");
    expect_text("select error_text ~ '^the PDF is damaged: ' from pgstage.task where key = 'nonsense.pdf'", "t");
    cr_expect_eq(number("select count(*) from pgstage.failure where kind <> 'permanent'"), 0);
}

Test(ocr, a_bomb_is_stopped_by_the_limit_of_processor_time) {
    shell("sed -i -e 's/cpu: 5m/cpu: 1s/' ocr.yaml");
    static const char *const pages[] = {"The only page.", NULL};
    scan_make(file("good.pdf"), pages);
    bomb_make(file("bomb.pdf"));
    run_all();
    expect_text("select string_agg(document, ' ') from ocr.page", "good.pdf");
    expect_quarantined("bomb.pdf", "crash", "limit of CPU time");
}

/* The script by itself: exit status and last line. */
static void expect_script(const char *arguments, int wanted, const char *reason) {
    const char *said;
    int status =
        shell_status(&said, "cd $ROOT && echo '{}' | $PREFIX/share/pgstage/pipelines/ocr/ocr.sh %s", arguments);
    cr_expect_eq(status, wanted, "%s: %d: %s", arguments, status, said);
    cr_expect_not_null(strstr(said, reason), "%s: %s", arguments, said);
}

Test(ocr, its_script_knows_what_may_succeed_later) {
    static const char *const pages[] = {"One.", "Two.", NULL};
    scan_make(file("two.pdf"), pages);
    expect_script("$ROOT/files/two.pdf eng 150 1 9", 65, "the PDF has 2 pages, the limit (max_pages) is 1");
    expect_script("$ROOT/files/two.pdf xyz 150 9 9", 75, "tesseract cannot read page 1 of 2");
    size_t length;
    char *pdf = pdf_make(&(struct pdf_wish){.page = pages, .encrypted = true}, &length);
    FILE *out = fopen(file("secret.pdf"), "wb");
    cr_assert_eq(fwrite(pdf, 1, length, out), length);
    fclose(out);
    free(pdf);
    expect_script("$ROOT/files/secret.pdf eng 150 9 9", 65, "the PDF is encrypted");
    /* A tesseract during which somebody writes the file. */
    shell("mkdir $ROOT/bin && printf '#!/bin/sh\\ntouch $ROOT/files/two.pdf\\nexec /usr/bin/tesseract \"$@\"' "
          ">$ROOT/bin/tesseract && "
          "chmod +x $ROOT/bin/tesseract");
    expect_script("$ROOT/files/two.pdf eng 150 9 9", 0, "Two");
    const char *said;
    int status =
        shell_status(&said, "cd $ROOT && echo '{}' | PATH=$ROOT/bin:$PATH $PREFIX/share/pgstage/pipelines/ocr/ocr.sh "
                            "$ROOT/files/two.pdf eng 150 9 9");
    cr_expect_eq(status, 75, "%d: %s", status, said);
    cr_expect_not_null(strstr(said, "the file was changed while it was read"), "%s", said);
}
