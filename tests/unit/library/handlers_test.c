/* The two handlers as a worker runs them: payload in, output or reason out. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pgstage/test.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pdf_maker.h"
#include "support/leaks.h"

extern const struct pgstage_handler pgstage_handler_extract, pgstage_handler_chunk;

static char folder[64];

static void make_folder(void) {
    leaks_fail_tests();
    snprintf(folder, sizeof folder, "/tmp/pgstage-library-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(library_handlers, .init = make_folder, .fini = remove_folder, .timeout = 60);

struct run {
    pgstage_result result;
    json_t *output; /* NULL when there is none */
    char message[1000];
};

/* One worker process's life with one task in it. */
static struct run run(const struct pgstage_handler *handler, const char *config,
                      const char *payload, const char *input) {
    pgstage_test *test = pgstage_test_create(handler);
    pgstage_test_set_with(test, config);
    pgstage_test_set_payload(test, payload);
    pgstage_test_set_input(test, input);
    struct run run = {.result = pgstage_test_run(test)};
    run.output = json_deep_copy(pgstage_test_output_json(test));
    snprintf(run.message, sizeof run.message, "%s", pgstage_test_message(test));
    pgstage_test_destroy(test);
    return run;
}

static void write_file(const char *name, const char *content, size_t length) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, content, length), (ssize_t)length);
    close(fd);
}

static char *payload_of(const char *name) {
    static char payload[1024];
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *value = json_pack("{s:s, s:i, s:i}", "path", path, "size", 1, "mtime_ns", 1);
    cr_assert_not_null(value);
    char *text = json_dumps(value, 0);
    snprintf(payload, sizeof payload, "%s", text);
    free(text);
    json_decref(value);
    return payload;
}

static struct run extract(const char *name) {
    return run(&pgstage_handler_extract, "{}", payload_of(name), NULL);
}

static const char *text_of(const struct run *done, const char *key) {
    cr_assert_eq(done->result, PGSTAGE_OK, "%s", done->message);
    const char *text = json_string_value(json_object_get(done->output, key));
    return text == NULL ? "(none)" : text;
}

Test(library_handlers, extract_reads_text) {
    static const char notes[] = "Caf\xE9 notes.\r\n\r\nMore\0 here.";
    write_file("notes.txt", notes, sizeof notes - 1);
    struct run done = extract("notes.txt");
    cr_assert_str_eq(text_of(&done, "text"), "Caf\xC3\xA9 notes.\n\nMore here.");
    cr_assert_str_eq(text_of(&done, "title"), "notes.txt");
    cr_assert_str_eq(text_of(&done, "format"), "text");
    cr_assert(json_is_null(json_object_get(done.output, "pages")));
    cr_assert_eq(json_integer_value(json_object_get(done.output, "bytes")), sizeof notes - 1);
    cr_assert_null(json_object_get(done.output, "note"));
    json_decref(done.output);
}

Test(library_handlers, extract_reads_html) {
    static const char page[] = "<title>A page</title><p>One &amp; two.</p>";
    write_file("page.html", page, sizeof page - 1);
    struct run done = extract("page.html");
    cr_assert_str_eq(text_of(&done, "title"), "A page");
    cr_assert_str_eq(text_of(&done, "text"), "One & two.");
    cr_assert_str_eq(text_of(&done, "format"), "html");
    json_decref(done.output);
}

Test(library_handlers, extract_reads_pdf) {
    const char *const pages[] = {"Hello there.", NULL};
    size_t length;
    char *pdf = pdf_make(&(struct pdf_wish){.title = "Greeting", .page = pages}, &length);
    write_file("a.pdf", pdf, length);
    free(pdf);
    struct run done = extract("a.pdf");
    cr_assert_str_eq(text_of(&done, "title"), "Greeting");
    cr_assert_str_eq(text_of(&done, "text"), "Hello there.");
    cr_assert_str_eq(text_of(&done, "format"), "pdf");
    cr_assert_eq(json_integer_value(json_object_get(done.output, "pages")), 1);
    json_decref(done.output);
}

Test(library_handlers, a_scanned_pdf_succeeds_and_says_so) {
    const char *const pages[] = {"", "", NULL};
    size_t length;
    char *pdf = pdf_make(&(struct pdf_wish){.page = pages}, &length);
    write_file("scan.pdf", pdf, length);
    free(pdf);
    struct run done = extract("scan.pdf");
    cr_assert_str_eq(text_of(&done, "text"), "");
    cr_assert_str_eq(text_of(&done, "title"), "scan.pdf");
    cr_assert(strncmp(text_of(&done, "note"), "no text", 7) == 0);
    cr_assert_eq(json_integer_value(json_object_get(done.output, "pages")), 2);
    char *text = json_dumps(done.output, 0);
    struct run chunked = run(&pgstage_handler_chunk, "{}", NULL, text);
    cr_assert_eq(chunked.result, PGSTAGE_OK);
    cr_assert_eq(json_array_size(json_object_get(chunked.output, "chunks")), 0);
    cr_assert(strncmp(text_of(&chunked, "note"), "no text", 7) == 0);
    free(text);
    json_decref(done.output);
    json_decref(chunked.output);
}

Test(library_handlers, names_of_any_bytes_work) {
    write_file("new\nline \"it's\".txt", "x", 1);
    struct run done = extract("new\nline \"it's\".txt");
    cr_assert_str_eq(text_of(&done, "title"), "new line \"it's\".txt");
    json_decref(done.output);
    write_file("\xFF%\xFE.txt", "x", 1);
    char payload[512];
    snprintf(payload, sizeof payload, "{\"path\": \"%s/%%FF%%25%%FE.txt\", \"escaped\": true}",
             folder);
    done = run(&pgstage_handler_extract, "{}", payload, NULL);
    cr_assert_str_eq(text_of(&done, "title"), "\xC3\xBF%\xC3\xBE.txt");
    json_decref(done.output);
}

static void expect_failure(const struct run *done, pgstage_result result, const char *word) {
    cr_assert_eq(done->result, result, "%s", done->message);
    cr_assert_not_null(strstr(done->message, word), "'%s' lacks '%s'", done->message, word);
}

Test(library_handlers, bad_files_fail_for_good_with_a_reason) {
    struct run done = extract("vanished.pdf");
    expect_failure(&done, PGSTAGE_FAIL, "the file is gone");
    write_file("empty.pdf", "", 0);
    done = extract("empty.pdf");
    expect_failure(&done, PGSTAGE_FAIL, "the file is empty");
    write_file("cut.pdf", "%PDF-1.7\n1 0 obj\n<<", 19);
    done = extract("cut.pdf");
    expect_failure(&done, PGSTAGE_FAIL, "truncated");
    write_file("picture.txt", "\x89PNG\r\n\x1A\n", 8);
    done = extract("picture.txt");
    expect_failure(&done, PGSTAGE_FAIL, "not text");
    done = extract("");
    expect_failure(&done, PGSTAGE_FAIL, "is a folder, not a document");
    char path[256];
    snprintf(path, sizeof path, "%s/pipe.txt", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    done = extract("pipe.txt");
    expect_failure(&done, PGSTAGE_FAIL, "is a named pipe");
}

Test(library_handlers, wrong_payloads_are_told) {
    static const struct {
        const char *payload, *word;
    } cases[] = {{NULL, "no \"path\""},
                 {"{}", "no \"path\""},
                 {"[1]", "no \"path\""},
                 {"{\"path\": 1}", "no \"path\""},
                 {"{\"path\": \"\"}", "no \"path\""},
                 {"{\"path\": \"a.txt\"}", "not an absolute path"},
                 {"{\"path\": \"/a%\", \"escaped\": true}", "not escaped"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run done = run(&pgstage_handler_extract, "{}", cases[i].payload, NULL);
        expect_failure(&done, PGSTAGE_FAIL, cases[i].word);
    }
}

Test(library_handlers, limits_are_settings) {
    write_file("a.txt", "0123456789", 10);
    struct run done =
        run(&pgstage_handler_extract, "{\"max_size\": \"9B\"}", payload_of("a.txt"), NULL);
    expect_failure(&done, PGSTAGE_FAIL,
                   "too large: it has 10 bytes, the limit (max_size) is 9 bytes");
    done = run(&pgstage_handler_extract, "{\"max_text\": 9}", payload_of("a.txt"), NULL);
    expect_failure(&done, PGSTAGE_FAIL, "max_text");
    done = run(&pgstage_handler_extract, "{\"max_sise\": 1}", payload_of("a.txt"), NULL);
    expect_failure(&done, PGSTAGE_FAIL, "there is no setting 'max_sise'");
    done = run(&pgstage_handler_chunk, "{\"size\": 1}", NULL, "{\"text\": \"a\"}");
    expect_failure(&done, PGSTAGE_FAIL, "size must be between");
    done =
        run(&pgstage_handler_chunk, "{\"size\": 100, \"overlap\": 51}", NULL, "{\"text\": \"a\"}");
    expect_failure(&done, PGSTAGE_FAIL, "overlap must not be more than half");
}

Test(library_handlers, chunk_keeps_all_but_the_text) {
    struct run done =
        run(&pgstage_handler_chunk, "{\"size\": 50}", NULL,
            "{\"title\": \"T\", \"pages\": null, \"format\": \"text\", \"bytes\": 7, \"text\": "
            "\"The first sentence is here. The second one \\u00e4 follows it. Third.\"}");
    cr_assert_eq(done.result, PGSTAGE_OK, "%s", done.message);
    cr_assert_str_eq(text_of(&done, "title"), "T");
    cr_assert_null(json_object_get(done.output, "text"));
    cr_assert(json_is_null(json_object_get(done.output, "pages")));
    const json_t *chunks = json_object_get(done.output, "chunks");
    cr_assert_eq(json_array_size(chunks), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *item = json_array_get(chunks, i);
        cr_assert_eq(json_integer_value(json_object_get(item, "ordinal")), (json_int_t)i);
        cr_assert(json_string_length(json_object_get(item, "text")) > 5);
    }
    json_decref(done.output);
}

Test(library_handlers, chunk_wants_a_text) {
    struct run done = run(&pgstage_handler_chunk, "{}", NULL, NULL);
    expect_failure(&done, PGSTAGE_FAIL, "no \"text\"");
    done = run(&pgstage_handler_chunk, "{}", NULL, "{\"text\": 1}");
    expect_failure(&done, PGSTAGE_FAIL, "no \"text\"");
}

/* ---- at each call ---- */

/* A document is read, or it is said why not: no event makes half a document of one. */
static void check_whole(pgstage_test *test, unsigned event, int call, void *context) {
    const json_t *whole = context;
    pgstage_result result = pgstage_test_result(test);
    if (result == PGSTAGE_OK) {
        cr_assert(json_equal(pgstage_test_output_json(test), whole), "%s", pgstage_test_injected(test));
        return;
    }
    cr_assert_neq(pgstage_test_message(test)[0], '\0');
    cr_assert_str_neq(pgstage_test_message(test), "the handler gave no reason", "%s", pgstage_test_injected(test));
    (void)call;
    cr_assert_neq(event, PGSTAGE_TEST_SUPERSEDE, "an older version is read to its end");
    bool is_told = event == PGSTAGE_TEST_CANCEL || event == PGSTAGE_TEST_DEADLINE;
    cr_assert_eq(result, is_told ? PGSTAGE_RETRY : result);
}

static void check_each_call(const struct pgstage_handler *handler, const char *payload, const char *input) {
    pgstage_test *test = pgstage_test_create(handler);
    pgstage_test_set_payload(test, payload);
    pgstage_test_set_input(test, input);
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK, "%s", pgstage_test_message(test));
    int calls = pgstage_test_call_count(test);
    json_t *whole = json_deep_copy(pgstage_test_output_json(test));
    int checked = pgstage_test_each_call(test, PGSTAGE_TEST_ALL_EVENTS, check_whole, whole);
    cr_assert_eq(checked, 4 * calls, "%s", pgstage_test_problem(test));
    json_decref(whole);
    pgstage_test_destroy(test);
}

Test(library_handlers, extract_stands_each_event_at_each_call) {
    const char *const pages[] = {"one", "two", NULL};
    size_t length;
    char *pdf = pdf_make(&(struct pdf_wish){.page = pages}, &length);
    write_file("a.pdf", pdf, length);
    free(pdf);
    check_each_call(&pgstage_handler_extract, payload_of("a.pdf"), NULL);
    write_file("a.html", "<title>A</title><p>page", 23);
    check_each_call(&pgstage_handler_extract, payload_of("a.html"), NULL);
}

Test(library_handlers, chunk_stands_each_event_at_each_call) {
    check_each_call(&pgstage_handler_chunk, NULL, "{\"title\": \"T\", \"text\": \"One sentence. And a second one.\"}");
}

Test(library_handlers, a_cancelled_task_stops_between_pages) {
    const char *const pages[] = {"one", "two", NULL};
    size_t length;
    char *pdf = pdf_make(&(struct pdf_wish){.page = pages}, &length);
    write_file("a.pdf", pdf, length);
    free(pdf);
    pgstage_test *test = pgstage_test_create(&pgstage_handler_extract);
    pgstage_test_set_payload(test, payload_of("a.pdf"));
    pgstage_test_inject(test, PGSTAGE_TEST_CANCEL, 1);
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_RETRY);
    cr_assert_not_null(strstr(pgstage_test_message(test), "stopped before page 1"), "%s", pgstage_test_message(test));
    pgstage_test_destroy(test);
}
