/* web_test.c - the pipeline `web` on pages of a real book, and on odd ones. */
#include <stdio.h>
#include <string.h>

#include "odd_files.h"
#include "rig.h"

static void init(void) {
    pipeline_begin("web");
}

TestSuite(web, .init = init, .fini = pipeline_end, .timeout = 180);

static void run_all(int wanted) {
    shell("psql -f schema.sql");
    const char *said;
    int status = shell_status(&said, "WEB_FOLDER=$ROOT/files pgstage run web.yaml --until-idle");
    cr_assert_eq(status, wanted, "%d: %s", status, said);
}

Test(web, its_parser_passes_its_own_tests) {
    shell("python3 -B -m unittest test_page");
}

/* A book in HTML, as Debian's package developers-reference has it: chapters that speak of each other, and of the world.
 */
#define BOOK "/usr/share/developers-reference"

Test(web, pages_of_a_book_become_text_and_links) {
    shell("pgstage check web.yaml && mkdir -p $ROOT/files/book && cp " BOOK
          "/*.html $ROOT/files/book && rm $ROOT/files/book/l10n.html");
    run_all(0);
    int64_t pages = number("select count(*) from web.page");
    cr_expect_geq(pages, 10);
    cr_expect_eq(number("select count(*) from pgstage.task where status = 'done'"), pages);
    expect_text("select key from web.search('\"work-needing and prospective packages\"', 1)", "book/pkgs.html");
    expect_text("select title ~ 'Managing Packages' from web.page where key = 'book/pkgs.html'", "t");
    expect_text("select text from web.piece where page = 'book/pkgs.html' and ordinal = 1 and text !~ 'Managing "
                "Packages\n\nThis chapter'",
                "");
    expect_text("select distinct url from web.link where page = 'book/pkgs.html' and text = 'WNPP web pages' and not "
                "navigation",
                "https://www.debian.org/devel/wnpp/");
    expect_text("select count(*) > 3 from web.link where page = 'book/index.html' and to_page = 'book/pkgs.html' and "
                "anchor <> ''",
                "t");
    expect_text(
        "select string_agg(distinct to_page, ' ' order by to_page) from web.broken_link where to_page ~ 'html$'",
        "book/l10n.html");
    expect_text("select linked_from > 0 from web.search('scope', 20) where key = 'book/scope.html'", "t");
    cr_expect_eq(number("select count(*) from web.piece where text like '%next page%' or length(text) > 2000"), 0);
    const char *found = shell("psql -At -v query='best packaging practices' -v limit=1 -f search.sql");
    cr_expect_not_null(strstr(found, "|book/best-pkging-practices.html|"), "%s", found);
    /* One page changes: its rows are replaced. */
    shell("printf '<title>New</title><p>the quokka</p><a href=\"pkgs.html\">go</a>' >$ROOT/files/book/scope.html");
    run_all(0);
    expect_text("select string_agg(text, '') from web.piece where page = 'book/scope.html'", "the quokka\n\ngo");
    expect_text("select string_agg(to_page, '') from web.link where page = 'book/scope.html'", "book/pkgs.html");
    expect_text("select string_agg(key, '') from web.search('quokka')", "book/scope.html");
    cr_expect_eq(number("select count(*) from web.page"), pages);
}

Test(web, odd_files_fail_at_once_with_a_reason_and_the_others_are_read) {
    odd_files_make("html");
    shell("cd $ROOT/files && echo '<p>good' >good.html && echo '<p>old' >\"$(printf '\\377.html')\" && printf "
          "'\\211PNG\\r\\n\\032\\n\\0' >picture.html");
    shell("pgstage apply web.yaml && pgstage submit web gone.html --payload '{\"path\": \"'$ROOT'/files/gone.html\"}'");
    shell("pgstage submit web none.html");
    run_all(1);
    odd_files_failed("html");
    expect_text("select error_text from pgstage.task where key = 'picture.html'", "is not text");
    expect_text("select error_text from pgstage.task where key = 'none.html'",
                "the payload has no \"path\" that is absolute");
    expect_text("select string_agg(key, ' ' order by key) from pgstage.task where status = 'done'",
                "%FF.html good.html");
    expect_text("select string_agg(text, ' ' order by page) from web.piece", "old good");
}
