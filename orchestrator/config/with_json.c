/* with_json.c - `with:` as JSON text. A scalar without quotes that is true, false, null or a number
 * as JSON writes it is that; all else is a string, so that `no`, `010` and `1:30` stay what they
 * look like. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "config/loader.h"

static void append_string(struct buf *out, const char *text) {
    buf_append_char(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            buf_append_char(out, '\\');
            buf_append_char(out, *text);
        } else if (*text == '\n') {
            buf_append_string(out, "\\n");
        } else if ((unsigned char)*text < 0x20) {
            buf_append_format(out, "\\u%04x", (unsigned)*text);
        } else {
            buf_append_char(out, *text);
        }
    }
    buf_append_char(out, '"');
}

static const char *skip_digits(const char *text) {
    return text + strspn(text, "0123456789");
}

static bool is_word(const char *text) {
    return strcmp(text, "true") == 0 || strcmp(text, "false") == 0 || strcmp(text, "null") == 0;
}

/* RFC 8259: -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? */
static bool is_number(const char *text, bool *is_real) {
    const char *at = *text == '-' ? text + 1 : text, *end = skip_digits(at);
    if (end == at || (*at == '0' && end != at + 1)) {
        return false;
    }
    *is_real = *end != '\0';
    if (*end == '.') {
        at = end + 1;
        end = skip_digits(at);
        if (end == at) {
            return false;
        }
    }
    if (*end == 'e' || *end == 'E') {
        at = end + 1;
        at += *at == '+' || *at == '-' ? 1 : 0;
        end = skip_digits(at);
        if (end == at) {
            return false;
        }
    }
    return *end == '\0';
}

/* Readers of JSON refuse what neither int64 nor double can hold; better here than in each task. */
static bool fits(const char *text, bool is_real) {
    errno = 0;
    if (is_real) {
        return isfinite(strtod(text, NULL));
    }
    (void)strtoll(text, NULL, 10);
    return errno != ERANGE;
}

static bool append_scalar(struct loader *loader, const struct tree_node *node, struct buf *out) {
    if (node->style == TREE_PLAIN && node->length == 0) {
        bool named = node->key != NULL;
        mistake_add(loader->mistakes, named ? node->key->at : node->at,
                    "write null, or \"\" for an empty text", "%s has no value",
                    named ? mistake_quote(loader->scratch, node->key->text) : "this entry");
        return false;
    }
    const char *text = expand_environment(loader, node);
    if (text == NULL) {
        return false;
    }
    bool is_real = false, number = is_number(text, &is_real);
    if (node->style != TREE_PLAIN || !(number || is_word(text))) {
        append_string(out, text);
    } else if (!number || fits(text, is_real)) {
        buf_append_string(out, text);
    } else {
        mistake_add(loader->mistakes, node->at, "put it in quotes to pass it as text",
                    "this number is too large");
        return false;
    }
    return true;
}

/* Recursion is bounded by the depth of the tree. Goes on after a mistake, to report all. */
static bool append_value(struct loader *loader, const struct tree_node *node, struct buf *out) {
    bool ok = true, first = true;
    switch (node->kind) {
    case TREE_BROKEN:
        return false;
    case TREE_TEXT:
        return append_scalar(loader, node, out);
    case TREE_LIST:
    case TREE_MAPPING:
        break;
    }
    bool mapping = node->kind == TREE_MAPPING;
    buf_append_char(out, mapping ? '{' : '[');
    for (const struct tree_node *child = node->first; child != NULL; child = child->next) {
        if (!first) {
            buf_append_char(out, ',');
        }
        first = false;
        if (mapping) {
            append_string(out, child->key->text);
            buf_append_char(out, ':');
        }
        ok &= append_value(loader, child, out);
    }
    buf_append_char(out, mapping ? '}' : ']');
    return ok;
}

const char *json_from_tree(struct loader *loader, const struct tree_node *node) {
    struct buf out;
    buf_init(&out, SIZE_MAX);
    bool ok = append_value(loader, node, &out);
    const char *json = ok ? arena_copy(&loader->def->arena, out.data, out.length) : NULL;
    buf_finish(&out);
    return json;
}
