/* values.c - the values that are more than one scalar: lists of texts and of labels, handlers, SQL, and the mappings that are
 * passed on as JSON (`with:`, `payload:`). */
#include <string.h>

#include "config/loader.h"
#include "config/scalar.h"
#include "config/sql_names.h"

enum { SYMBOL_MAX = 200 };

/* How many texts there may be: one, or those of a list. 0 when there are none to read, which was
 * reported. */
static int count_entries(struct loader *loader, const struct config_key *key,
                         const struct tree_node *node, const char *what) {
    if (node->kind == TREE_TEXT) {
        return 1;
    }
    if (node->kind == TREE_BROKEN) {
        return 0;
    }
    if (node->kind == TREE_MAPPING || node->count == 0 || node->count > key->high) {
        mistake_add(loader->mistakes, node->at, NULL, "'%s' must be %s, or a list of 1 to %lld",
                    key->name, what, (long long)key->high);
        return 0;
    }
    return node->count;
}

static const struct tree_node *first_entry(const struct tree_node *node) {
    return node->kind == TREE_LIST ? node->first : node;
}

static const struct tree_node *next_entry(const struct tree_node *node,
                                          const struct tree_node *entry) {
    return node->kind == TREE_LIST ? entry->next : NULL;
}

/* True when the entry is a text with something in it. */
static bool is_text(struct loader *loader, const struct config_key *key, bool in_list,
                    const struct tree_node *entry) {
    if (entry->kind == TREE_TEXT && (entry->length > 0 || key->type == TYPE_ARGUMENTS)) {
        return true;
    }
    if (entry->kind != TREE_BROKEN) {
        mistake_add(loader->mistakes, entry->at, NULL, "%s'%s' must be a text, not %s",
                    in_list ? "an entry of " : "", key->name,
                    entry->kind == TREE_TEXT ? "''" : "a list or a mapping");
    }
    return false;
}

/* NAME, or NAME=VALUE. */
static bool is_variable(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t length = strspn(text, letters);
    return length > 0 && !(text[0] >= '0' && text[0] <= '9') &&
           (text[length] == '\0' || text[length] == '=');
}

/* NAME, or NAME=VALUE, of that name. */
static bool is_named(const char *text, const char *name) {
    size_t length = strcspn(text, "=");
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* What pgstage sets itself. */
static bool is_own(const char *text) {
    static const char *const names[] = {"TMPDIR",          "PGSTAGE_PIPELINE", "PGSTAGE_STAGE",     "PGSTAGE_KEY",
                                        "PGSTAGE_VERSION", "PGSTAGE_ATTEMPT",  "PGSTAGE_TASK_FILE", "PGSTAGE_RESULT_FILE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (is_named(text, names[i])) {
            return true;
        }
    }
    return false;
}

/* An entry that was there before: the same text, or the same variable. */
static bool is_repeated(const struct config_key *key, const char *const *before, int count, const char *text) {
    for (int i = 0; i < count; i++) {
        bool same = key->type == TYPE_VARIABLES
                        ? strcspn(before[i], "=") == strcspn(text, "=") && strncmp(before[i], text, strcspn(text, "=")) == 0
                        : key->type == TYPE_NAMES && strcmp(before[i], text) == 0;
        if (same) {
            return true;
        }
    }
    return false;
}

/* Why the text is not what the key wants; NULL when it is. `hint` is set with it. */
static const char *refuse_entry(const struct config_key *key, const char *text, const char **hint) {
    if (key->type == TYPE_LABELS && !config_is_label(text)) {
        *hint = "letters, digits, '_', '-', '.' and '=', at most 63";
        return "a label";
    }
    if (key->type == TYPE_NAMES && !scalar_is_name(text)) {
        *hint = NULL;
        return "the name of a stage";
    }
    if (key->type == TYPE_VARIABLES && !is_variable(text)) {
        *hint = "NAME passes a variable of the node on, NAME=VALUE sets one";
        return "NAME or NAME=VALUE";
    }
    if (key->type == TYPE_VARIABLES && is_own(text)) {
        *hint = "pgstage sets it for each worker";
        return "a variable of yours";
    }
    return NULL;
}

void values_read_texts(struct loader *loader, const struct config_key *key,
                       const struct tree_node *node, void *target) {
    if (key->type == TYPE_ARGUMENTS && node->kind != TREE_LIST && node->kind != TREE_BROKEN) {
        bool is_number = node->kind == TREE_TEXT && node->text[0] >= '0' && node->text[0] <= '9';
        mistake_add(loader->mistakes, node->at,
                    is_number ? "did you mean 'workers'?" : "no shell splits it: [python3, embed.py]",
                    "'%s' must be a list: the program, then its arguments", key->name);
        return;
    }
    if (key->type == TYPE_ARGUMENTS && node->kind == TREE_LIST && (node->count == 0 || node->count > key->high)) {
        mistake_add(loader->mistakes, node->at, NULL, "'%s' must be a list of 1 to %lld: the program, then its arguments",
                    key->name, (long long)key->high);
        return;
    }
    int room = count_entries(loader, key, node, "a text"), count = 0;
    if (room == 0) {
        return;
    }
    const char **texts =
        arena_alloc(&loader->def->arena, ((size_t)room + 1) * sizeof(const char *));
    for (const struct tree_node *entry = first_entry(node); entry != NULL;
         entry = next_entry(node, entry)) {
        const char *text =
            is_text(loader, key, entry != node, entry) ? expand_environment(loader, entry) : NULL;
        const char *hint, *wanted = text == NULL ? NULL : refuse_entry(key, text, &hint);
        if (wanted != NULL) {
            mistake_add(loader->mistakes, entry->at, hint, "an entry of '%s' must be %s, not %s",
                        key->name, wanted, mistake_quote(loader->scratch, text));
        } else if (text != NULL && is_repeated(key, texts, count, text)) {
            mistake_add(loader->mistakes, entry->at, NULL, "'%s' has %s twice", key->name,
                        mistake_quote(loader->scratch, text));
        } else if (text != NULL) {
            texts[count++] = text;
        }
    }
    *(const char *const **)(void *)((char *)target + key->offset) = texts;
}

bool config_is_label(const char *text) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.=";
    size_t length = strlen(text);
    return length >= 1 && length <= CONFIG_NAME_MAX && strspn(text, letters) == length;
}

/* ---- handler: FILE.so:NAME ------------------------------------------------------------------ */

static bool is_symbol(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t length = strlen(text);
    return length >= 1 && length <= SYMBOL_MAX && strspn(text, letters) == length &&
           !(text[0] >= '0' && text[0] <= '9');
}

void values_read_handler(struct loader *loader, const struct tree_node *node,
                         struct stage_def *stage) {
    const char *text = expand_environment(loader, node);
    if (text == NULL) {
        return;
    }
    const char *colon = strrchr(text, ':');
    size_t length = colon == NULL ? strlen(text) : (size_t)(colon - text);
    bool is_library = length > 3 && memcmp(text + length - 3, ".so", 3) == 0;
    if (colon == NULL || !is_library || !is_symbol(colon + 1)) {
        const char *hint = "NAME is what PGSTAGE_HANDLER(NAME, ...) was given in C";
        if (colon != NULL && length > 2 && memcmp(text + length - 2, ".c", 2) == 0) {
            hint = "name the shared object that the .c file is built into";
        }
        mistake_add(loader->mistakes, node->at, hint, "'handler' must be FILE.so:NAME, not %s",
                    mistake_quote(loader->scratch, text));
        return;
    }
    stage->handler_file = arena_copy(&loader->def->arena, text, length);
    stage->handler_name = colon + 1;
}

/* ---- sql, with ----------------------------------------------------------------------------- */

void values_read_sql(struct loader *loader, const struct config_key *key,
                     const struct tree_node *node, struct stage_def *stage) {
    struct arena *arena = &loader->def->arena;
    int room = count_entries(loader, key, node, "a statement"), count = 0;
    if (room == 0) {
        return;
    }
    struct stage_statement *statements =
        arena_alloc(arena, (size_t)room * sizeof(struct stage_statement));
    for (const struct tree_node *entry = first_entry(node); entry != NULL;
         entry = next_entry(node, entry)) {
        struct sql_fault fault;
        if (!is_text(loader, key, entry != node, entry)) {
            continue;
        }
        if (sql_names_bind(arena, entry->text, &statements[count], &fault)) {
            count++;
        } else {
            mistake_add(loader->mistakes, tree_position_inside(loader->source, entry, fault.offset),
                        fault.hint, "'sql': %s", fault.message);
        }
    }
    stage->statements = statements;
    stage->statement_count = count;
}

void values_read_json(struct loader *loader, const struct config_key *key,
                      const struct tree_node *node, void *target) {
    if (node->kind == TREE_MAPPING) {
        *(const char **)(void *)((char *)target + key->offset) = json_from_tree(loader, node);
    } else if (node->kind != TREE_BROKEN) {
        mistake_add(loader->mistakes, node->at, NULL, "'%s' must be a mapping of keys", key->name);
    }
}
