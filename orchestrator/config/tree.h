/* tree.h - a YAML file as a tree of texts, lists and mappings, each with its place in the file.
 *
 * No types: a scalar is its text. Reported as mistakes and left out: duplicate keys, keys that are
 * not text, merge keys, anchors, aliases, tags, directives, a second document. Limits: depth,
 * nodes, bytes of one text. Ownership: everything lives in the arena.
 */
#ifndef CONFIG_TREE_H
#define CONFIG_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "config/mistakes.h"
#include "config/source_text.h"

enum { TREE_DEPTH_MAX = 32, TREE_NODES_MAX = 20000, TREE_TEXT_MAX = 256 * 1024 };

enum tree_kind {
    TREE_TEXT,
    TREE_LIST,
    TREE_MAPPING,
    TREE_BROKEN, /* was reported; read it as "given, value unknown" */
};

enum tree_style { TREE_PLAIN, TREE_QUOTED, TREE_BLOCK };

struct tree_node {
    enum tree_kind kind;
    struct position at;
    enum tree_style style; /* TREE_TEXT */
    const char *text;      /* TREE_TEXT, and keys; no NUL inside */
    size_t length;
    struct tree_node *first, *next; /* TREE_LIST, TREE_MAPPING: children in file order */
    struct tree_node *key;          /* of a child of a mapping */
    int count;                      /* children */
};

/* NULL when the file cannot be read as one tree, or holds nothing: then a mistake says why. */
const struct tree_node *tree_read(const struct source_text *source, struct arena *arena,
                                  struct mistakes *mistakes);

/* The child with this key, or NULL; also for nodes that are no mapping. */
const struct tree_node *tree_get(const struct tree_node *mapping, const char *key);

/* Where byte `offset` of a text stands in the file; the text's begin when escapes forbid to tell.
 */
struct position tree_position_inside(const struct source_text *source, const struct tree_node *node,
                                     size_t offset);

#endif
