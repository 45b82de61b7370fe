/* Pages to text: goldens in tests/golden/library_html, and what is hard for a parser. */
#include "html.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "document.h"

TestSuite(library_html, .timeout = 60);

struct result {
    struct text title, text;
    struct reason reason;
    enum outcome outcome;
};

/* Lives until the next call. */
static struct result *read_page(const char *page, size_t length) {
    static struct result result;
    text_finish(&result.title);
    text_finish(&result.text);
    memset(&result, 0, sizeof result);
    text_init(&result.title, 1 << 20);
    text_init(&result.text, 64 << 20);
    result.outcome = html_read(page, length, &result.title, &result.text, &result.reason);
    return &result;
}

static void expect(const char *page, const char *text) {
    struct result *result = read_page(page, strlen(page));
    cr_assert_eq(result->outcome, OUTCOME_OK, "%s", result->reason.text);
    cr_expect_str_eq(text_string(&result->text), text, "%s -> '%s'", page,
                     text_string(&result->text));
}

static void expect_title(const char *page, const char *title) {
    struct result *result = read_page(page, strlen(page));
    cr_expect_str_eq(text_string(&result->title), title, "%s -> '%s'", page,
                     text_string(&result->title));
}

Test(library_html, separates_blocks_and_keeps_inline_together) {
    expect("<p>a<p>b", "a\n\nb");
    expect("<div>a</div><div>b</div>c", "a\nb\nc");
    expect("a<br>b<br/>c", "a\nb\nc");
    expect("<b>bo</b>ld <i>and</i> more", "bold and more");
    expect("<ul><li>one<li>two</ul>three", "one\ntwo\n\nthree");
    expect("<table><tr><th>a<td>b<tr><td>c<td>d</table>", "a b\nc d");
    expect("<h2>Head</h2>text", "Head\n\ntext");
    expect("  many \n blanks&nbsp; here ", "many blanks here");
    expect("<pre>a\n  b\n\n\nc</pre>d", "a\nb\n\nc\n\nd");
    expect("<dl><dt>word<dd>meaning</dl>", "word\nmeaning");
    expect("<section><p>x</p></section><article>y</article>", "x\n\ny");
}

Test(library_html, drops_what_nobody_reads) {
    expect("a<script>if (1 < 2) { x('</b>') }</script>b", "a b");
    expect("a<style>p { color: red }</style>b", "a b");
    expect("a<!-- no -->b", "ab");
    expect("<nav><a>Home</a></nav><p>text</p><footer>imprint</footer>", "text");
    expect("<nav>x<nav>y</nav>z</nav>text", "text");
    expect("<div class='page navheader'>Prev</div>text<div role=navigation>Next</div>", "text");
    expect("<p hidden>no</p>yes", "yes");
    expect("<noscript>no</noscript><template>no</template><svg><title>t</title>no</svg>yes", "yes");
    expect("a<select><option>1</select><button>x</button><textarea>z</textarea>b", "a b");
    expect("<head><title>T</title></head><body>only the body", "only the body");
}

Test(library_html, keeps_navigation_when_there_is_nothing_else) {
    expect("<nav><a>One</a> <a>Two</a></nav>", "One Two");
    expect("<body class=navigation><p>all of it", "all of it");
    expect("<body hidden>shown by a script", "shown by a script");
    /* Never closed: all that follows belongs to it. */
    expect("<nav><a>One</a><p>text", "One\n\ntext");
}

Test(library_html, knows_entities) {
    expect("&lt;b&gt; &amp; &eacute; &#228; &#x65E5; &copy; &unknown; &",
           "<b> & \xC3\xA9 \xC3\xA4 \xE6\x97\xA5 \xC2\xA9 &unknown; &");
    expect("a&#0;b&#1;c", "abc");
    expect("x &#xD800; &#x110000; y", "x y");
}

Test(library_html, finds_the_title) {
    expect_title("<title>The  <b>title</title><h1>Head</h1>", "The  title");
    expect_title("<h1>The <i>head</i></h1>text<h1>Other</h1>", "The head");
    expect_title("<title> \n </title><h1>Head</h1>", "Head");
    expect_title("<svg><title>icon</title></svg><title>Page</title>", "Page");
    expect_title("<title>A &amp; B</title>", "A & B");
    expect_title("text", "");
    expect_title("<title>never closed", "never closed");
}

Test(library_html, survives_nonsense) {
    expect("", "");
    expect("<", "<");
    expect("</p></div></x>a", "a");
    expect("<p", "");
    expect("<p class", "");
    expect("<p class='", "");
    expect("<!DOCTYPE", "");
    expect("<?php echo 1 ?>y", "y");
    expect("</nav>a", "a");
    expect("<b><p>x</b>y</p>z", "xy\n\nz");
    expect("<unknown:tag>x</unknown:tag>", "x");
    expect("a\xEF\xBF\xBE"
           "b",
           "ab");
}

static char *repeat(const char *what, size_t times, const char *after, size_t *length) {
    size_t width = strlen(what);
    char *page = malloc(width * times + strlen(after) + 1);
    for (size_t i = 0; i < times; i++) {
        memcpy(page + i * width, what, width);
    }
    memcpy(page + width * times, after, strlen(after) + 1);
    *length = width * times + strlen(after);
    return page;
}

Test(library_html, deep_pages_lose_nothing) {
    size_t length;
    char *page = repeat("<font><b>", 2400, "the end", &length);
    struct result *result = read_page(page, length);
    cr_assert_eq(result->outcome, OUTCOME_OK, "%s", result->reason.text);
    cr_assert_str_eq(text_string(&result->text), "the end");
    free(page);
}

Test(library_html, bottomless_pages_are_refused_at_once) {
    size_t length;
    char *page = repeat("<b>", 2000000, "</i>", &length);
    clock_t start = clock();
    struct result *result = read_page(page, length);
    cr_assert_eq(result->outcome, OUTCOME_BAD);
    cr_assert_not_null(strstr(result->reason.text, "nested too deep"), "%s", result->reason.text);
    cr_assert_lt(clock() - start, 10 * CLOCKS_PER_SEC);
    free(page);
}

Test(library_html, a_tag_with_countless_attributes_is_refused_at_once) {
    size_t length;
    size_t used = 0;
    char *page = NULL;
    FILE *stream = open_memstream(&page, &used);
    fputs("<p", stream);
    for (int i = 0; i < 300000; i++) {
        fprintf(stream, " a%d=1", i);
    }
    fputs(">x", stream);
    fclose(stream);
    clock_t start = clock();
    struct result *result = read_page(page, used);
    cr_assert_eq(result->outcome, OUTCOME_BAD);
    cr_assert_not_null(strstr(result->reason.text, "attributes"), "%s", result->reason.text);
    cr_assert_lt(clock() - start, CLOCKS_PER_SEC);
    free(page);
    /* Many words in one attribute, or loose '<' and quotes in the text, are none. */
    page = repeat("word 1 < 2 > 'it\" ", 5000, "'\">the end", &length);
    memcpy(page, "<p a='", 6);
    result = read_page(page, length);
    cr_assert_eq(result->outcome, OUTCOME_OK, "%s", result->reason.text);
    free(page);
}

Test(library_html, large_pages_lose_nothing) {
    size_t length;
    char *page =
        repeat("<p>some words in a paragraph</p>\n", 500000, "<p>the end", &length); /* 16 MB */
    struct result *result = read_page(page, length);
    cr_assert_eq(result->outcome, OUTCOME_OK, "%s", result->reason.text);
    cr_assert_str_eq(result->text.data + result->text.length - 7, "the end");
    cr_assert_gt(result->text.length, 500000u * 26);
    free(page);
    page = repeat("word ", 4000000, "end",
                  &length); /* one piece of 20 MB, beyond the limit for nodes of a tree */
    result = read_page(page, length);
    cr_assert_eq(result->outcome, OUTCOME_OK, "%s", result->reason.text);
    cr_assert_eq(result->text.length, length);
    free(page);
}

Test(library_html, too_much_text_is_refused) {
    struct text title, text;
    struct reason reason = {{0}};
    text_init(&title, 100);
    text_init(&text, 100);
    size_t length;
    char *page = repeat("<p>words", 1000, "", &length);
    cr_assert_eq(html_read(page, length, &title, &text, &reason), OUTCOME_BAD);
    cr_assert_not_null(strstr(reason.text, "max_text"), "%s", reason.text);
    cr_assert_leq(text.length, 100);
    text_finish(&title);
    text_finish(&text);
    free(page);
}

/* libxml2 writes its complaints to standard error unless it is told not to. */
Test(library_html, is_silent) {
    int pipe_fds[2];
    cr_assert_eq(pipe(pipe_fds), 0);
    int saved = dup(2);
    dup2(pipe_fds[1], 2);
    expect("<p class=a class=b id=&x;></b>&nope;<table><p></nav>", "&nope;");
    dup2(saved, 2);
    close(pipe_fds[1]);
    char byte;
    cr_assert_eq(read(pipe_fds[0], &byte, 1), 0);
}

static char *load(const char *folder, const char *name, size_t *length) {
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/library_html/%s/%s", TEST_SOURCE_DIR, folder,
             name);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    char *data = calloc(1, 65536);
    *length = fread(data, 1, 65535, file);
    fclose(file);
    return data;
}

/* A case is input.html and expected: the title, an empty line, the text. */
static void check_golden(const char *folder) {
    size_t length, expected_length;
    char *page = load(folder, "input.html", &length);
    char *expected = load(folder, "expected", &expected_length);
    struct document document;
    struct reason reason = {{0}};
    struct pdf_watch watch = {0};
    cr_assert_eq(document_read(page, length, "/x/input.html", 1 << 20, &watch, &document, &reason),
                 OUTCOME_OK, "%s: %s", folder, reason.text);
    size_t size = document.title.length + document.text.length + 4;
    char *actual = malloc(size);
    snprintf(actual, size, "%s\n\n%s\n", text_string(&document.title), text_string(&document.text));
    cr_expect_str_eq(actual, expected, "%s:\n%s", folder, actual);
    document_finish(&document);
    free(actual);
    free(expected);
    free(page);
}

Test(library_html, agrees_with_the_goldens) {
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/library_html", TEST_SOURCE_DIR);
    DIR *folder = opendir(path);
    cr_assert_not_null(folder);
    int cases = 0;
    for (struct dirent *item; (item = readdir(folder)) != NULL;) {
        if (item->d_name[0] != '.') {
            check_golden(item->d_name);
            cases++;
        }
    }
    closedir(folder);
    cr_assert_geq(cases, 4);
}
