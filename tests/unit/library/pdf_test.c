/* PDFs: made here, whole and broken. */
#include "pdf.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pdf_maker.h"

TestSuite(library_pdf, .init = pdf_quiet, .timeout = 60);

struct result {
    struct text title, text;
    struct reason reason;
    struct pdf pdf;
    enum outcome outcome;
};

static struct result *read_bytes(const char *bytes, size_t length) {
    static struct result result;
    text_finish(&result.title);
    text_finish(&result.text);
    memset(&result, 0, sizeof result);
    text_init(&result.title, 1 << 20);
    text_init(&result.text, 1 << 20);
    struct pdf_watch watch = {0};
    result.outcome =
        pdf_read(bytes, length, &watch, &result.pdf, &result.title, &result.text, &result.reason);
    return &result;
}

static struct result *read_wish(const struct pdf_wish *wish) {
    size_t length;
    char *bytes = pdf_make(wish, &length);
    struct result *result = read_bytes(bytes, length);
    free(bytes);
    return result;
}

#define PAGES(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(library_pdf, gives_text_title_and_pages) {
    struct pdf_wish wish = {
        .title = "On Elephants",
        .page = PAGES("Elephants forget nothing.\nThis one line, too.", "Page two.")};
    struct result *result = read_wish(&wish);
    cr_assert_eq(result->outcome, OUTCOME_OK, "%s", result->reason.text);
    cr_assert_str_eq(text_string(&result->title), "On Elephants");
    cr_assert_str_eq(text_string(&result->text),
                     "Elephants forget nothing.\nThis one line, too.\n\nPage two.");
    cr_assert_eq(result->pdf.pages, 2);
    cr_assert_eq(result->pdf.unreadable_pages, 0);
}

Test(library_pdf, takes_no_title_that_says_nothing) {
    struct pdf_wish wish = {.title = "Untitled", .page = PAGES("x")};
    cr_assert_str_eq(text_string(&read_wish(&wish)->title), "");
    wish.title = "Microsoft Word - Report.doc";
    cr_assert_str_eq(text_string(&read_wish(&wish)->title), "Report.doc");
    wish.title = NULL;
    cr_assert_str_eq(text_string(&read_wish(&wish)->title), "");
}

Test(library_pdf, joins_words_divided_at_a_lines_end) {
    struct pdf_wish wish = {
        .page = PAGES("This is an ex-\nample of North-\nSouth and 10-\n20 and an end-")};
    cr_assert_str_eq(text_string(&read_wish(&wish)->text),
                     "This is an example of North-\nSouth and 10-\n20 and an end-");
}

Test(library_pdf, drops_the_dots_of_a_table_of_contents) {
    struct pdf_wish wish = {
        .page = PAGES(
            "Preface . . . . . . . . . 1\nStart.......... 2\nAnd so on... Yes. No. A.b.c. ..")};
    cr_assert_str_eq(text_string(&read_wish(&wish)->text),
                     "Preface 1\nStart 2\nAnd so on... Yes. No. A.b.c. ..");
}

Test(library_pdf, pages_without_text_are_no_fault) {
    struct pdf_wish wish = {.page = PAGES("", "")};
    struct result *result = read_wish(&wish);
    cr_assert_eq(result->outcome, OUTCOME_OK, "%s", result->reason.text);
    cr_assert_str_eq(text_string(&result->text), "");
    cr_assert_eq(result->pdf.pages, 2);
}

static void expect_bad(const struct result *result, const char *word) {
    cr_assert_eq(result->outcome, OUTCOME_BAD, "%s", result->reason.text);
    cr_assert_not_null(strstr(result->reason.text, word), "%s", result->reason.text);
}

Test(library_pdf, an_encrypted_one_needs_a_password) {
    struct pdf_wish wish = {.page = PAGES("secret"), .encrypted = true};
    expect_bad(read_wish(&wish), "is encrypted: a password is needed");
}

Test(library_pdf, a_truncated_one_is_refused_wherever_it_ends) {
    struct pdf_wish wish = {.page = PAGES("One.", "Two.", "Three.")};
    size_t length;
    char *bytes = pdf_make(&wish, &length);
    for (size_t cut = 9; cut < length - 7; cut += 13) {
        expect_bad(read_bytes(bytes, cut), "truncated");
    }
    free(bytes);
}

Test(library_pdf, bytes_behind_the_end_are_no_fault) {
    struct pdf_wish wish = {.page = PAGES("One.")};
    size_t length;
    char *bytes = pdf_make(&wish, &length);
    bytes = realloc(bytes, length + 5000);
    memset(bytes + length, '\0', 5000);
    cr_assert_eq(read_bytes(bytes, length + 5000)->outcome, OUTCOME_OK);
    free(bytes);
}

/* A PDF made for the web has an end mark in front, and says how long it is. */
Test(library_pdf, one_made_for_the_web_says_when_it_is_truncated) {
    static const char cut[] = "%PDF-1.4\n1 0 obj\n<</Linearized 1 /L 5000 /N 1>>\nendobj\n%%EOF\n";
    expect_bad(read_bytes(cut, sizeof cut - 1), "truncated");
}

Test(library_pdf, a_damaged_one_is_refused) {
    static const char noise[] = "%PDF-1.4\nnothing of a PDF follows\n%%EOF\n";
    expect_bad(read_bytes(noise, sizeof noise - 1), "damaged");
    struct pdf_wish none = {.page = PAGES(NULL)};
    expect_bad(read_wish(&none), "damaged");
}

Test(library_pdf, a_broken_page_does_not_take_the_others_along) {
    struct pdf_wish wish = {.page = PAGES("One.", "Two.", "Three."), .broken_page = 2};
    struct result *result = read_wish(&wish);
    cr_assert_eq(result->outcome, OUTCOME_OK, "%s", result->reason.text);
    cr_assert_not_null(strstr(text_string(&result->text), "One."));
    cr_assert_not_null(strstr(text_string(&result->text), "Three."));
    cr_assert_eq(result->pdf.unreadable_pages, 1);
}

static bool stop_at_three(void *context, int page, int pages) {
    ++*(int *)context;
    cr_assert_eq(pages, 5);
    return page < 2;
}

Test(library_pdf, can_be_stopped_between_pages) {
    struct pdf_wish wish = {.page = PAGES("1", "2", "3", "4", "5")};
    size_t length;
    char *bytes = pdf_make(&wish, &length);
    int calls = 0;
    struct pdf_watch watch = {.page = stop_at_three, .context = &calls};
    struct pdf pdf;
    struct text title, text;
    struct reason reason = {{0}};
    text_init(&title, 100);
    text_init(&text, 100);
    cr_assert_eq(pdf_read(bytes, length, &watch, &pdf, &title, &text, &reason), OUTCOME_LATER);
    cr_assert_eq(calls, 3);
    text_finish(&title);
    text_finish(&text);
    text_init(&text, 3);
    text_init(&title, 3);
    watch = (struct pdf_watch){0};
    cr_assert_eq(pdf_read(bytes, length, &watch, &pdf, &title, &text, &reason), OUTCOME_BAD);
    cr_assert_not_null(strstr(reason.text, "max_text"));
    text_finish(&title);
    text_finish(&text);
    free(bytes);
}

/* One byte changed at a time: whatever comes of it, it is an outcome, and nothing is written to
 * standard error. */
Test(library_pdf, broken_ones_are_silent) {
    int pipe_fds[2];
    cr_assert_eq(pipe(pipe_fds), 0);
    int saved = dup(2);
    dup2(pipe_fds[1], 2);
    struct pdf_wish wish = {.title = "T", .page = PAGES("One.\nTwo.", "Three.")};
    size_t length;
    char *bytes = pdf_make(&wish, &length);
    srand(5);
    for (int round = 0; round < 400; round++) {
        size_t at = (size_t)rand() % length;
        char kept = bytes[at];
        bytes[at] = (char)rand();
        read_bytes(bytes, length);
        bytes[at] = kept;
    }
    free(bytes);
    dup2(saved, 2);
    close(pipe_fds[1]);
    char said[2000] = "";
    ssize_t count = read(pipe_fds[0], said, sizeof said - 1);
    cr_assert_eq(count, 0, "%s", said);
}
