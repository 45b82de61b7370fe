#include "html.h"

#include <libxml/HTMLparser.h>
#include <libxml/parserInternals.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clean.h"

/* libxml2 looks through all open tags at many an end tag, and through all attributes of a tag at
 * each new one; without limits a hostile page could make that quadratic. */
enum { OPEN_TAGS_MAX = 5000, ATTRIBUTES_MAX = 1000, TITLE_MAX = 64 * 1024 };

enum role {
    ROLE_INLINE,
    ROLE_LINE,      /* begins a line */
    ROLE_PARAGRAPH, /* stands apart */
    ROLE_CELL,      /* a blank before and after */
    ROLE_PRE,       /* its line ends count */
    ROLE_HEADING,   /* h1 */
    ROLE_TITLE,
    ROLE_HIDDEN, /* no text for a reader */
    ROLE_NOISE,  /* what surrounds the text */
};

struct tag {
    const char *name;
    enum role role;
};

/* In order of names, for bsearch. What is not here is inline. */
static const struct tag tags[] = {
    {"address", ROLE_PARAGRAPH}, {"applet", ROLE_HIDDEN},     {"article", ROLE_PARAGRAPH},
    {"aside", ROLE_PARAGRAPH},   {"audio", ROLE_HIDDEN},      {"blockquote", ROLE_PARAGRAPH},
    {"body", ROLE_PARAGRAPH},    {"br", ROLE_LINE},           {"button", ROLE_HIDDEN},
    {"canvas", ROLE_HIDDEN},     {"caption", ROLE_LINE},      {"center", ROLE_LINE},
    {"datalist", ROLE_HIDDEN},   {"dd", ROLE_LINE},           {"details", ROLE_PARAGRAPH},
    {"dir", ROLE_PARAGRAPH},     {"div", ROLE_LINE},          {"dl", ROLE_PARAGRAPH},
    {"dt", ROLE_LINE},           {"embed", ROLE_HIDDEN},      {"fieldset", ROLE_PARAGRAPH},
    {"figcaption", ROLE_LINE},   {"figure", ROLE_PARAGRAPH},  {"footer", ROLE_NOISE},
    {"form", ROLE_PARAGRAPH},    {"h1", ROLE_HEADING},        {"h2", ROLE_PARAGRAPH},
    {"h3", ROLE_PARAGRAPH},      {"h4", ROLE_PARAGRAPH},      {"h5", ROLE_PARAGRAPH},
    {"h6", ROLE_PARAGRAPH},      {"header", ROLE_PARAGRAPH},  {"hr", ROLE_PARAGRAPH},
    {"iframe", ROLE_HIDDEN},     {"legend", ROLE_LINE},       {"li", ROLE_LINE},
    {"listing", ROLE_PRE},       {"main", ROLE_PARAGRAPH},    {"menu", ROLE_NOISE},
    {"nav", ROLE_NOISE},         {"noframes", ROLE_HIDDEN},   {"noscript", ROLE_HIDDEN},
    {"object", ROLE_HIDDEN},     {"ol", ROLE_PARAGRAPH},      {"option", ROLE_LINE},
    {"p", ROLE_PARAGRAPH},       {"plaintext", ROLE_PRE},     {"pre", ROLE_PRE},
    {"script", ROLE_HIDDEN},     {"section", ROLE_PARAGRAPH}, {"select", ROLE_HIDDEN},
    {"style", ROLE_HIDDEN},      {"summary", ROLE_LINE},      {"svg", ROLE_HIDDEN},
    {"table", ROLE_PARAGRAPH},   {"tbody", ROLE_LINE},        {"td", ROLE_CELL},
    {"template", ROLE_HIDDEN},   {"textarea", ROLE_HIDDEN},   {"tfoot", ROLE_LINE},
    {"th", ROLE_CELL},           {"thead", ROLE_LINE},        {"title", ROLE_TITLE},
    {"tr", ROLE_LINE},           {"ul", ROLE_PARAGRAPH},      {"video", ROLE_HIDDEN},
    {"xmp", ROLE_PRE},
};

/* Where one page stands while the parser goes through it. */
struct page {
    htmlParserCtxtPtr parser;
    struct cleaner body;
    struct text *title, heading;
    bool with_noise; /* second try: the page seemed to be nothing else */
    bool saw_noise;
    int open;         /* tags that are open */
    int dropped_from; /* nothing counts until `open` is below this again; 0: it does count */
    int pre;          /* open tags whose line ends count */
    bool in_title, in_heading, had_title, had_heading;
    enum outcome outcome; /* why the parser was stopped */
    const char *stopped_by;
};

static int by_name(const void *key, const void *entry) {
    return strcasecmp(key, ((const struct tag *)entry)->name);
}

static enum role role_of(const char *name) {
    const struct tag *tag =
        bsearch(name, tags, sizeof tags / sizeof tags[0], sizeof tags[0], by_name);
    return tag == NULL ? ROLE_INLINE : tag->role;
}

static bool has_word(const char *list, const char *const *words) {
    while (*list != '\0') {
        list += strspn(list, " \t\n\r\f");
        size_t length = strcspn(list, " \t\n\r\f");
        for (const char *const *word = words; *word != NULL && length > 0; word++) {
            if (strlen(*word) == length && strncasecmp(list, *word, length) == 0) {
                return true;
            }
        }
        list += length;
    }
    return false;
}

/* What older pages and documentation tools write instead of <nav> and <footer>. */
static bool is_marked_as_noise(const xmlChar **attributes) {
    static const char *const classes[] = {"navheader",     "navfooter",   "navbar", "navigation",
                                          "breadcrumb",    "breadcrumbs", "nav",    "related",
                                          "sphinxsidebar", "skip-link",   "footer", NULL};
    static const char *const roles[] = {"navigation", "search", "contentinfo", NULL};
    for (; attributes != NULL && attributes[0] != NULL; attributes += 2) {
        const char *name = (const char *)attributes[0];
        const char *value = attributes[1] == NULL ? "" : (const char *)attributes[1];
        if ((strcasecmp(name, "class") == 0 && has_word(value, classes)) ||
            (strcasecmp(name, "role") == 0 && has_word(value, roles))) {
            return true;
        }
    }
    return false;
}

static bool is_hidden(const xmlChar **attributes) {
    for (; attributes != NULL && attributes[0] != NULL; attributes += 2) {
        if (strcasecmp((const char *)attributes[0], "hidden") == 0) {
            return true;
        }
    }
    return false;
}

static void stop(struct page *page, enum outcome outcome, const char *why) {
    if (page->stopped_by == NULL) {
        page->outcome = outcome;
        page->stopped_by = why;
        xmlStopParser(page->parser);
    }
}

static void separate(struct page *page, enum role role) {
    switch (role) {
    case ROLE_LINE:
        cleaner_break(&page->body, 1);
        break;
    case ROLE_PARAGRAPH:
    case ROLE_PRE:
    case ROLE_HEADING:
        cleaner_break(&page->body, 2);
        break;
    case ROLE_CELL:
        cleaner_blank(&page->body);
        break;
    case ROLE_INLINE:
    case ROLE_TITLE:
    case ROLE_HIDDEN:
    case ROLE_NOISE:
        break;
    }
}

static void on_start(void *context, const xmlChar *name, const xmlChar **attributes) {
    struct page *page = context;
    if (++page->open > OPEN_TAGS_MAX) {
        stop(page, OUTCOME_BAD, "its tags are nested too deep");
        return;
    }
    if (page->dropped_from != 0) {
        return;
    }
    enum role role = role_of((const char *)name);
    bool noise = role == ROLE_NOISE || is_marked_as_noise(attributes) || is_hidden(attributes);
    page->saw_noise = page->saw_noise || noise;
    if (role == ROLE_HIDDEN || (noise && !page->with_noise)) {
        page->dropped_from = page->open;
        cleaner_blank(&page->body);
        return;
    }
    separate(page, role == ROLE_NOISE ? ROLE_PARAGRAPH : role);
    page->pre += role == ROLE_PRE;
    if (role == ROLE_TITLE) {
        page->in_title = !page->had_title;
        page->had_title = true;
    } else if (role == ROLE_HEADING) {
        page->in_heading = !page->had_heading;
        page->had_heading = true;
    }
}

static void on_end(void *context, const xmlChar *name) {
    struct page *page = context;
    if (page->open > 0) {
        page->open--;
    }
    if (page->dropped_from != 0) {
        if (page->open < page->dropped_from) {
            page->dropped_from = 0;
        }
        return;
    }
    enum role role = role_of((const char *)name);
    separate(page, role == ROLE_NOISE ? ROLE_PARAGRAPH : role);
    if (role == ROLE_PRE && page->pre > 0) {
        page->pre--;
    }
    if (role == ROLE_TITLE) {
        page->in_title = false;
    } else if (role == ROLE_HEADING) {
        page->in_heading = false;
    }
}

static void on_text(void *context, const xmlChar *text, int length) {
    struct page *page = context;
    if (page->dropped_from != 0 || length <= 0) {
        return;
    }
    const char *bytes = (const char *)text;
    if (page->in_title) {
        text_append(page->title, bytes, (size_t)length);
        return; /* not part of what the page shows */
    }
    if (page->in_heading) {
        text_append(&page->heading, bytes, (size_t)length);
    }
    cleaner_add(&page->body, bytes, (size_t)length, page->pre > 0);
    if (page->body.out->state == TEXT_TOO_LONG) {
        stop(page, OUTCOME_BAD, "its text is longer than the limit (max_text)");
    } else if (page->body.out->state == TEXT_NO_MEMORY) {
        stop(page, OUTCOME_LATER, "there is not enough memory for its text");
    }
}

static enum outcome parse(struct page *page, const char *utf8, size_t length,
                          struct reason *reason) {
    xmlSAXHandler handler = {.startElement = on_start,
                             .endElement = on_end,
                             .characters = on_text,
                             .ignorableWhitespace = on_text,
                             .cdataBlock = on_text};
    htmlParserCtxtPtr parser = htmlCreateMemoryParserCtxt(utf8, (int)length);
    if (parser == NULL) {
        return because(reason, OUTCOME_LATER, "there is not enough memory to read the HTML");
    }
    /* Without XML_PARSE_HUGE the parser's own limits hold. It fetches nothing. */
    htmlCtxtUseOptions(parser, HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING |
                                   HTML_PARSE_NONET | HTML_PARSE_IGNORE_ENC);
    xmlSwitchEncoding(parser, XML_CHAR_ENCODING_UTF8);
    page->parser = parser;
    xmlSAXHandlerPtr original = parser->sax;
    parser->sax = &handler;
    parser->userData = page;
    htmlParseDocument(parser);
    parser->sax = original;
    bool no_memory = parser->errNo == XML_ERR_NO_MEMORY;
    bool gave_up = parser->disableSAX != 0;
    htmlFreeParserCtxt(parser);
    page->parser = NULL;
    if (page->stopped_by != NULL) {
        return because(reason, page->outcome, "the HTML cannot be read: %s", page->stopped_by);
    }
    if (no_memory) {
        return because(reason, OUTCOME_LATER, "there is not enough memory to read the HTML");
    }
    if (gave_up) {
        return because(reason, OUTCOME_BAD, "the HTML cannot be read to its end");
    }
    return OUTCOME_OK;
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Goes behind the tag whose name begins at `at`, and counts its attributes roughly as the parser
 * sees them: one begins with each word outside quotes. */
static const char *skip_tag(const char *at, const char *end, int *attributes) {
    char quote = '\0', before = '\0'; /* `before`: the last character that is no blank */
    for (; at < end && (quote != '\0' || *at != '>'); at++) {
        if (quote != '\0') {
            quote = *at == quote ? '\0' : quote;
        } else if ((*at == '"' || *at == '\'') && before == '=') {
            quote = *at;
        } else if (!is_space(*at)) {
            *attributes += is_space(at[-1]) && before != '=' && *at != '=';
        }
        before = is_space(*at) ? before : *at;
    }
    return at;
}

static bool has_too_many_attributes(const char *at, const char *end) {
    int attributes = 0;
    while (attributes <= ATTRIBUTES_MAX && at < end &&
           (at = memchr(at, '<', (size_t)(end - at))) != NULL) {
        attributes = 0;
        at++;
        if (at < end && ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z'))) {
            at = skip_tag(at, end, &attributes);
        }
    }
    return attributes > ATTRIBUTES_MAX;
}

static bool is_blank(const struct text *text) {
    return strspn(text_string(text), " \t\r\n\f") == text->length;
}

static enum outcome read_once(const char *utf8, size_t length, bool with_noise, struct text *title,
                              struct text *text, bool *saw_noise, struct reason *reason) {
    struct page page = {.title = title, .with_noise = with_noise};
    text_init(&page.heading, TITLE_MAX);
    cleaner_init(&page.body, text);
    enum outcome outcome = parse(&page, utf8, length, reason);
    if (is_blank(title)) {
        title->length = 0;
        text_append(title, text_string(&page.heading), page.heading.length);
    }
    text_finish(&page.heading);
    *saw_noise = page.saw_noise;
    return outcome;
}

enum outcome html_read(const char *utf8, size_t length, struct text *title, struct text *text,
                       struct reason *reason) {
    xmlInitParser();
    if (length > INT_MAX) {
        return because(reason, OUTCOME_BAD, "the HTML is larger than 2 GB");
    }
    if (length == 0) { /* libxml2 makes no parser for nothing */
        return OUTCOME_OK;
    }
    if (has_too_many_attributes(utf8, utf8 + length)) {
        return because(reason, OUTCOME_BAD,
                       "the HTML cannot be read: a tag has too many attributes");
    }
    bool saw_noise = false;
    enum outcome outcome = read_once(utf8, length, false, title, text, &saw_noise, reason);
    if (outcome == OUTCOME_OK && text->length == 0 && saw_noise) {
        title->length = 0;
        outcome = read_once(utf8, length, true, title, text, &saw_noise, reason);
    }
    return outcome;
}
