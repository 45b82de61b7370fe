/* tree.c - libyaml's events become a tree, without recursion. libyaml only cuts the text into
 * events: it resolves no types, and neither duplicate keys nor depth are its concern. Its scanner
 * takes quadratic time for deep nesting and for many directives, so reading stops at the first
 * event that is too deep, and directives are refused before it sees them. */
#include "config/tree.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/require.h"
#include "config/syntax.h"

struct level {
    struct tree_node *node;
    struct tree_node *last; /* child */
    struct tree_node *key;  /* of the next child of a mapping, when it was read */
};

struct builder {
    const struct source_text *source;
    struct arena *arena;
    struct mistakes *mistakes;
    struct tree_node *root;
    struct level levels[TREE_DEPTH_MAX];
    int depth;
    int nodes;
};

static struct position position_of(yaml_mark_t mark) {
    return (struct position){(int)mark.line + 1, (int)mark.column + 1};
}

/* ---- duplicate keys ------------------------------------------------------------------------ */

static int compare_keys(const void *left, const void *right) {
    const struct tree_node *a = (*(struct tree_node *const *)left)->key;
    const struct tree_node *b = (*(struct tree_node *const *)right)->key;
    int order = strcmp(a->text, b->text);
    if (order != 0) {
        return order;
    }
    if (a->at.line != b->at.line) {
        return a->at.line < b->at.line ? -1 : 1;
    }
    return a->at.column < b->at.column ? -1 : a->at.column > b->at.column;
}

static void unlink_repeated(struct tree_node *mapping) {
    struct tree_node **link = &mapping->first;
    while (*link != NULL) {
        if ((*link)->key == NULL) {
            *link = (*link)->next;
            mapping->count--;
        } else {
            link = &(*link)->next;
        }
    }
}

/* Sorting keeps a mapping of many thousand keys cheap. */
static void refuse_duplicates(struct builder *builder, struct tree_node *mapping) {
    if (mapping->count < 2) {
        return;
    }
    size_t count = (size_t)mapping->count, i = 0;
    struct tree_node **children = arena_alloc(builder->arena, count * sizeof(struct tree_node *));
    for (struct tree_node *child = mapping->first; child != NULL; child = child->next) {
        children[i++] = child;
    }
    qsort(children, count, sizeof(struct tree_node *), compare_keys);
    const struct tree_node *first = children[0]->key;
    for (i = 1; i < count; i++) {
        const struct tree_node *key = children[i]->key;
        if (strcmp(first->text, key->text) != 0) {
            first = key;
            continue;
        }
        mistake_add(builder->mistakes, key->at, NULL,
                    "the key %s is given twice, first at %s:%d:%d",
                    mistake_quote(builder->arena, key->text), builder->source->name, first->at.line,
                    first->at.column);
        children[i]->key = NULL;
    }
    unlink_repeated(mapping);
}

/* ---- building ------------------------------------------------------------------------------ */

static void check_key(struct builder *builder, struct tree_node *key) {
    if (key->kind == TREE_LIST || key->kind == TREE_MAPPING) {
        mistake_add(builder->mistakes, key->at, NULL, "a key must be text");
    } else if (key->kind == TREE_TEXT && key->style == TREE_PLAIN && strcmp(key->text, "<<") == 0) {
        mistake_add(builder->mistakes, key->at, "what stages share belongs in 'defaults'",
                    "merge keys ('<<') are not allowed");
        key->kind = TREE_BROKEN;
    }
}

static void attach(struct builder *builder, struct tree_node *node) {
    if (builder->depth == 0) {
        builder->root = node;
        return;
    }
    struct level *level = &builder->levels[builder->depth - 1];
    if (level->node->kind == TREE_MAPPING) {
        if (level->key == NULL) {
            level->key = node;
            check_key(builder, node);
            return;
        }
        node->key = level->key;
        level->key = NULL;
        if (node->key->kind != TREE_TEXT) {
            return; /* reported: the value of no key that could be looked at */
        }
    }
    if (level->last == NULL) {
        level->node->first = node;
    } else {
        level->last->next = node;
    }
    level->last = node;
    level->node->count++;
}

/* NULL when a limit is reached: nothing more is read then. */
static struct tree_node *add_node(struct builder *builder, enum tree_kind kind,
                                  const yaml_event_t *event) {
    struct position at = position_of(event->start_mark);
    if (builder->nodes == TREE_NODES_MAX) {
        mistake_add(builder->mistakes, at, "large tables belong in a file or in the database",
                    "the file has more than %d values", TREE_NODES_MAX);
        return NULL;
    }
    if (kind != TREE_TEXT && kind != TREE_BROKEN && builder->depth == TREE_DEPTH_MAX) {
        mistake_add(builder->mistakes, at, NULL, "nested deeper than %d levels", TREE_DEPTH_MAX);
        return NULL;
    }
    builder->nodes++;
    struct tree_node *node = arena_alloc(builder->arena, sizeof *node);
    node->kind = kind;
    node->at = at;
    return node;
}

static void refuse_properties(struct builder *builder, const yaml_event_t *event,
                              const yaml_char_t *anchor, const yaml_char_t *tag) {
    struct position at = position_of(event->start_mark);
    if (anchor != NULL) {
        mistake_add(builder->mistakes, at,
                    "what stages share belongs in 'defaults'; quote a text that begins with '&'",
                    "anchors ('&') are not allowed");
    }
    if (tag != NULL) {
        mistake_add(builder->mistakes, at,
                    "the type follows from the key; quote a text that begins with '!'",
                    "tags ('!') are not allowed");
    }
}

static bool on_text(struct builder *builder, const yaml_event_t *event) {
    struct tree_node *node = add_node(builder, TREE_TEXT, event);
    if (node == NULL) {
        return false;
    }
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    refuse_properties(builder, event, event->data.scalar.anchor, event->data.scalar.tag);
    switch (event->data.scalar.style) {
    case YAML_ANY_SCALAR_STYLE:
    case YAML_PLAIN_SCALAR_STYLE:
        node->style = TREE_PLAIN;
        break;
    case YAML_SINGLE_QUOTED_SCALAR_STYLE:
    case YAML_DOUBLE_QUOTED_SCALAR_STYLE:
        node->style = TREE_QUOTED;
        break;
    case YAML_LITERAL_SCALAR_STYLE:
    case YAML_FOLDED_SCALAR_STYLE:
        node->style = TREE_BLOCK;
        break;
    }
    if (length > TREE_TEXT_MAX) {
        mistake_add(builder->mistakes, node->at, NULL, "this text is longer than %d kB",
                    TREE_TEXT_MAX / 1024);
        node->kind = TREE_BROKEN;
        length = 0;
    } else if (memchr(text, '\0', length) != NULL) {
        mistake_add(builder->mistakes, node->at, NULL, "a text cannot hold the character U+0000");
        node->kind = TREE_BROKEN;
        length = 0;
    }
    node->text = arena_copy(builder->arena, text, length);
    node->length = length;
    attach(builder, node);
    return true;
}

static bool on_alias(struct builder *builder, const yaml_event_t *event) {
    struct tree_node *node = add_node(builder, TREE_BROKEN, event);
    if (node == NULL) {
        return false;
    }
    mistake_add(builder->mistakes, node->at,
                "write the value again; quote a text that begins with '*'",
                "aliases ('*') are not allowed");
    attach(builder, node);
    return true;
}

static bool on_open(struct builder *builder, enum tree_kind kind, const yaml_event_t *event) {
    struct tree_node *node = add_node(builder, kind, event);
    if (node == NULL) {
        return false;
    }
    attach(builder, node);
    builder->levels[builder->depth++] = (struct level){.node = node};
    return true;
}

static void on_close(struct builder *builder) {
    struct tree_node *node = builder->levels[--builder->depth].node;
    if (node->kind == TREE_MAPPING) {
        refuse_duplicates(builder, node);
    }
}

/* False: nothing more is to be read; the tree is whole only when `*done`. */
static bool on_event(struct builder *builder, const yaml_event_t *event, bool *done) {
    switch (event->type) {
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_START_EVENT:
        return true;
    case YAML_STREAM_END_EVENT:
        *done = true;
        return false;
    case YAML_DOCUMENT_END_EVENT:
        *done = true;
        syntax_refuse_rest(builder->source, position_of(event->end_mark), builder->mistakes);
        return false;
    case YAML_ALIAS_EVENT:
        return on_alias(builder, event);
    case YAML_SCALAR_EVENT:
        return on_text(builder, event);
    case YAML_SEQUENCE_START_EVENT:
        refuse_properties(builder, event, event->data.sequence_start.anchor,
                          event->data.sequence_start.tag);
        return on_open(builder, TREE_LIST, event);
    case YAML_MAPPING_START_EVENT:
        refuse_properties(builder, event, event->data.mapping_start.anchor,
                          event->data.mapping_start.tag);
        return on_open(builder, TREE_MAPPING, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        on_close(builder);
        return true;
    }
    return false;
}

const struct tree_node *tree_read(const struct source_text *source, struct arena *arena,
                                  struct mistakes *mistakes) {
    if (syntax_refuse_directive(source, mistakes)) {
        return NULL;
    }
    yaml_parser_t parser;
    REQUIRE(yaml_parser_initialize(&parser) == 1);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)source->text, source->length);

    struct builder builder = {.source = source, .arena = arena, .mistakes = mistakes};
    bool done = false, more = true;
    while (more) {
        yaml_event_t event;
        if (yaml_parser_parse(&parser, &event) != 1) {
            syntax_explain(&parser, source, mistakes);
            break;
        }
        more = on_event(&builder, &event, &done);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (done && builder.root == NULL) {
        mistake_add(mistakes, (struct position){1, 1},
                    "the least is 'pipeline: NAME' and a list 'stages:'", "the file is empty");
    }
    return done ? builder.root : NULL;
}

/* ---- looking into it ----------------------------------------------------------------------- */

const struct tree_node *tree_get(const struct tree_node *mapping, const char *key) {
    if (mapping == NULL || mapping->kind != TREE_MAPPING) {
        return NULL;
    }
    for (const struct tree_node *child = mapping->first; child != NULL; child = child->next) {
        if (strcmp(child->key->text, key) == 0) {
            return child;
        }
    }
    return NULL;
}

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Follows text and file in step; blanks are skipped in both, for indentation and folded lines. */
struct position tree_position_inside(const struct source_text *source, const struct tree_node *node,
                                     size_t offset) {
    size_t at = source_text_offset(source, node->at);
    bool single_quoted = false;
    if (node->style == TREE_BLOCK) {
        while (at < source->length && source->text[at] != '\n' && source->text[at] != '\r') {
            at++;
        }
    } else if (node->style == TREE_QUOTED) {
        single_quoted = at < source->length && source->text[at] == '\'';
        at++;
    }
    for (size_t i = 0;; i++) {
        while (i < offset && is_blank(node->text[i])) {
            i++;
        }
        while (at < source->length && is_blank(source->text[at])) {
            at++;
        }
        if (i >= offset) {
            return source_text_position(source, at < source->length ? at : source->length);
        }
        if (at >= source->length || source->text[at] != node->text[i]) {
            return node->at;
        }
        at += single_quoted && source->text[at] == '\'' ? 2 : 1;
    }
}
