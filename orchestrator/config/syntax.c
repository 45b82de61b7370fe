/* syntax.c - libyaml says what its scanner expected; the hints say what people meant. */
#include "config/syntax.h"

#include <string.h>

#include "base/require.h"

static const char hint_indentation[] =
    "look at the indentation of this line and of those above it, and at quotes that end too early";

static const struct {
    const char *problem, *hint;
} hints[] = {
    {"mapping values are not allowed in this context",
     "quote a text that holds ': ', or write it below '|'; else look at the indentation"},
    {"block sequence entries are not allowed in this context",
     "a list begins on a line of its own; quote a text that begins with '- '"},
    {"did not find expected key", hint_indentation},
    {"did not find expected '-' indicator", hint_indentation},
    {"could not find expected ':'", hint_indentation},
    {"did not find expected ',' or ']'", "the list that begins with '[' wants its ']'"},
    {"did not find expected ',' or '}'", "the mapping that begins with '{' wants its '}'"},
    {"found unexpected end of stream", "a quote was opened and not closed"},
    {"found unknown escape character", "in single quotes a backslash stands for itself"},
    {"found a tab character that violates indentation", "indent with blanks, not with tabs"},
};

static const char *hint_for(const yaml_parser_t *parser, const struct source_text *source,
                            size_t offset) {
    char found = offset < source->length ? source->text[offset] : '\0';
    if (found == '{' && offset > 0 && source->text[offset - 1] == '$') {
        return "inside [ ] and { } a text with '${' needs quotes";
    }
    if (parser->context != NULL && (strcmp(parser->context, "while scanning an alias") == 0 ||
                                    strcmp(parser->context, "while scanning an anchor") == 0)) {
        return "quote a text that begins with '*' or '&'";
    }
    if (strcmp(parser->problem, "found character that cannot start any token") == 0) {
        return found == '\t' ? "indent with blanks, not with tabs"
                             : "quote a text that begins with '@', '`' or '%'";
    }
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        if (strcmp(parser->problem, hints[i].problem) == 0) {
            return hints[i].hint;
        }
    }
    return NULL;
}

void syntax_explain(const yaml_parser_t *parser, const struct source_text *source,
                    struct mistakes *mistakes) {
    REQUIRE(parser->error != YAML_MEMORY_ERROR);
    REQUIRE(parser->problem != NULL);
    yaml_mark_t mark = parser->problem_mark;
    struct position at = {(int)mark.line + 1, (int)mark.column + 1};
    size_t offset = source_text_offset(source, at);
    const char *hint = hint_for(parser, source, offset);
    if (parser->context == NULL) {
        mistake_add(mistakes, at, hint, "not YAML: %s", parser->problem);
    } else {
        mistake_add(mistakes, at, hint, "not YAML: %s, %s (line %zu)", parser->problem,
                    parser->context, parser->context_mark.line + 1);
    }
}

/* The first byte of what is neither blank, comment nor, if asked for, an end mark. */
static size_t skip_insignificant(const struct source_text *source, size_t at, bool end_marks) {
    const char *text = source->text;
    while (at < source->length) {
        bool line_begins = at == 0 || text[at - 1] == '\n' || text[at - 1] == '\r';
        if (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
            at++;
        } else if (text[at] == '#') {
            while (at < source->length && text[at] != '\n' && text[at] != '\r') {
                at++;
            }
        } else if (end_marks && line_begins && source->length - at >= 3 &&
                   memcmp(text + at, "...", 3) == 0) {
            at += 3;
        } else {
            break;
        }
    }
    return at;
}

bool syntax_refuse_directive(const struct source_text *source, struct mistakes *mistakes) {
    size_t at = skip_insignificant(source, 0, true);
    if (at == source->length || source->text[at] != '%') {
        return false;
    }
    mistake_add(mistakes, source_text_position(source, at), NULL,
                "directives ('%%YAML', '%%TAG') are not allowed");
    return true;
}

void syntax_refuse_rest(const struct source_text *source, struct position end,
                        struct mistakes *mistakes) {
    size_t at = skip_insignificant(source, source_text_offset(source, end), true);
    if (at < source->length) {
        mistake_add(mistakes, source_text_position(source, at),
                    "write each pipeline into a file of its own",
                    "a second document begins here; a file holds one pipeline");
    }
}
