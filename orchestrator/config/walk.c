/* walk.c - the schema table led over a mapping: one way for all levels of the file. */
#include <string.h>

#include "base/require.h"
#include "config/loader.h"
#include "config/scalar.h"
#include "config/suggest.h"

/* ---- what the file leaves out --------------------------------------------------------------- */

static void set_fallback(struct loader *loader, const struct config_key *key, void *target) {
    struct arena *arena = &loader->def->arena;
    void *field = (char *)target + key->offset;
    if (key->type == TYPE_TEXTS) {
        const char **texts = arena_alloc(arena, 2 * sizeof(const char *));
        texts[0] = key->fallback;
        *(const char *const **)field = texts;
    } else if (key->type == TYPE_JSON) {
        *(const char **)field = key->fallback;
    } else {
        struct scalar_fault fault;
        REQUIRE(scalar_read(key, key->fallback, target, loader->scratch, &fault));
    }
}

void walk_fallbacks(struct loader *loader, unsigned levels, void *target) {
    for (int i = 0; i < config_key_count; i++) {
        if ((config_keys[i].levels & levels) != 0 && config_keys[i].fallback != NULL) {
            set_fallback(loader, &config_keys[i], target);
        }
    }
}

/* ---- retry ---------------------------------------------------------------------------------- */

/* Only where a mapping names one of the two: what it inherits was looked at where it stands. */
static void check_retry(struct loader *loader, const struct tree_node *node,
                        const struct stage_def *stage) {
    const struct tree_node *first = tree_get(node, "first"), *max = tree_get(node, "max");
    const struct backoff *backoff = &stage->retry.backoff;
    if ((first == NULL && max == NULL) || backoff->max_ms >= backoff->first_ms) {
        return;
    }
    const char *max_text = scalar_format_duration(loader->scratch, backoff->max_ms);
    const char *first_text = scalar_format_duration(loader->scratch, backoff->first_ms);
    const char *hint = NULL;
    if (first == NULL || max == NULL) {
        hint = arena_format(loader->scratch, "'%s' is not given here and therefore %s",
                            max == NULL ? "max" : "first", max == NULL ? max_text : first_text);
    }
    mistake_add(loader->mistakes, max != NULL ? max->at : first->at, hint,
                "'max' (%s) must not be less than 'first' (%s)", max_text, first_text);
}

/* ---- values --------------------------------------------------------------------------------- */

static void *target_of(struct loader *loader, enum config_level level, void *target) {
    switch (level) {
    case LEVEL_SOURCE:
        loader->def->source.present = true;
        return &loader->def->source;
    case LEVEL_DEFAULTS:
        return &loader->defaults;
    case LEVEL_RETENTION:
        return &loader->def->retention;
    case LEVEL_PIPELINE:
    case LEVEL_FILES:
    case LEVEL_STAGE:
    case LEVEL_RETRY:
    case LEVEL_LIMITS:
    case LEVEL_SCHEDULE:
    case LEVEL_DO:
    case LEVEL_SUBMIT:
    case LEVEL_RERUN:
    case LEVEL_BATCH:
    case LEVEL_RECYCLE:
    case LEVEL_ANY:
        break;
    }
    return target;
}

static void read_inner(struct loader *loader, const struct config_key *key,
                       const struct tree_node *node, void *target, const char *where) {
    int before = loader->mistakes->total;
    const char *inside = where[0] == '\0'
                             ? arena_format(loader->scratch, "'%s'", key->name)
                             : arena_format(loader->scratch, "'%s' of %s", key->name, where);
    void *inner = target_of(loader, key->inner, target);
    walk_mapping(loader, key->inner, node, inner, inside);
    if (key->inner == LEVEL_RETRY && loader->mistakes->total == before) {
        check_retry(loader, node, inner);
    }
}

static void read_scalar(struct loader *loader, const struct config_key *key,
                        const struct tree_node *node, void *target) {
    struct scalar_fault fault;
    const char *text = expand_environment(loader, node);
    if (text != NULL && !scalar_read(key, text, target, loader->scratch, &fault)) {
        mistake_add(loader->mistakes, node->at, fault.hint, "%s", fault.message);
    }
}

static void read_path(struct loader *loader, const struct config_key *key,
                      const struct tree_node *node, void *target) {
    *(const char **)(void *)((char *)target + key->offset) = expand_path(loader, node);
}

/* True when the node is of the kind that the key wants; reported when not. Types that take several
 * kinds look for themselves. */
static bool has_kind(struct loader *loader, const struct config_key *key,
                     const struct tree_node *node) {
    enum tree_kind wanted = TREE_TEXT;
    const char *name = "one value";
    if (key->type == TYPE_TEXTS || key->type == TYPE_LABELS || key->type == TYPE_NAMES ||
        key->type == TYPE_VARIABLES || key->type == TYPE_ARGUMENTS || key->type == TYPE_SQL || key->type == TYPE_JSON ||
        key->type == TYPE_DO) {
        return true;
    } else if (key->type == TYPE_MAPPING) {
        wanted = TREE_MAPPING;
        name = "a mapping of keys";
    } else if (key->type == TYPE_STAGES) {
        wanted = TREE_LIST;
        name = "a list of stages";
    } else if (key->type == TYPE_SCHEDULES) {
        wanted = TREE_LIST;
        name = "a list of schedules";
    }
    if (node->kind != wanted && node->kind != TREE_BROKEN) {
        static const char *const kinds[] = {
            [TREE_TEXT] = "", [TREE_LIST] = "a list", [TREE_MAPPING] = "a mapping"};
        mistake_add(loader->mistakes, node->at, NULL, "'%s' must be %s, not %s", key->name, name,
                    node->kind == TREE_TEXT ? mistake_quote(loader->scratch, node->text)
                                            : kinds[node->kind]);
    }
    return node->kind == wanted;
}

static void read_value(struct loader *loader, const struct config_key *key,
                       const struct tree_node *node, void *target, const char *where) {
    if (!has_kind(loader, key, node)) {
        return;
    }
    switch (key->type) {
    case TYPE_NAME:
    case TYPE_ROLE:
    case TYPE_INTEGER:
    case TYPE_DURATION:
    case TYPE_SECONDS:
    case TYPE_SIZE:
    case TYPE_PERCENT:
    case TYPE_BOOLEAN:
    case TYPE_BACKOFF:
    case TYPE_TEXT:
    case TYPE_WORD:
        read_scalar(loader, key, node, target);
        break;
    case TYPE_PATH:
        read_path(loader, key, node, target);
        break;
    case TYPE_TEXTS:
    case TYPE_LABELS:
    case TYPE_NAMES:
    case TYPE_VARIABLES:
    case TYPE_ARGUMENTS:
        values_read_texts(loader, key, node, target);
        break;
    case TYPE_HANDLER:
        values_read_handler(loader, node, target);
        break;
    case TYPE_SQL:
        values_read_sql(loader, key, node, target);
        break;
    case TYPE_JSON:
        values_read_json(loader, key, node, target);
        break;
    case TYPE_MAPPING:
        read_inner(loader, key, node, target, where);
        break;
    case TYPE_STAGES:
        loader->stage_list = node; /* later: `defaults` may stand behind it */
        break;
    case TYPE_SCHEDULES:
        loader->schedule_list = node;
        break;
    case TYPE_DO:
        schedules_read_do(loader, key, node, target);
        break;
    }
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Which rows of the table a mapping has named. */
struct given {
    bool keys[CONFIG_KEYS_MAX];
};

static void note_given(struct given *given, const struct config_key *key) {
    if (key != NULL) {
        given->keys[key - config_keys] = true;
    }
}

/* What was probably meant counts as given, so that it is not reported as missing too. */
static void refuse_key(struct loader *loader, enum config_level level, const struct tree_node *node,
                       const char *where, struct given *given) {
    const char *word = node->key->text;
    if (mistakes_are_enough(loader->mistakes)) {
        mistake_add(loader->mistakes, node->key->at, NULL, "unknown key");
        return;
    }
    mistake_add(loader->mistakes, node->key->at, suggest_hint(loader->scratch, level, word),
                "unknown key %s%s%s", mistake_quote(loader->scratch, word),
                where[0] == '\0' ? "" : " in ", where);
    note_given(given, suggest_key(level, word));
}

/* A stage without a kind is told by stages.c; here it only matters what was meant. */
static void refuse_missing(struct loader *loader, enum config_level level,
                           const struct tree_node *node, const struct given *given,
                           const char *where) {
    for (int i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if ((key->levels & level) != 0 && key->required && !given->keys[i]) {
            mistake_add(loader->mistakes, node->at, NULL, "'%s' is missing%s%s", key->name,
                        where[0] == '\0' ? "" : " in ", where);
        }
    }
    bool has_kind = false;
    for (int i = 0; i < config_key_count; i++) {
        has_kind = has_kind || (given->keys[i] && config_key_is_kind(&config_keys[i]));
    }
    if (level == LEVEL_STAGE && !has_kind) {
        mistake_add(loader->mistakes, node->at,
                    "'handler: FILE.so:NAME', 'command: [PROGRAM, ...]', 'worker: [PROGRAM, ...]' or "
                    "'sql: STATEMENT'",
                    "%s has no 'handler', 'command', 'worker' or 'sql'", where);
    }
}

void walk_mapping(struct loader *loader, enum config_level level, const struct tree_node *node,
                  void *target, const char *where) {
    struct given given = {0};
    for (const struct tree_node *child = node->first; child != NULL; child = child->next) {
        const struct config_key *key = config_key_find(level, child->key->text);
        if (key == NULL) {
            refuse_key(loader, level, child, where, &given);
        } else {
            note_given(&given, key);
            read_value(loader, key, child, target, where);
        }
    }
    refuse_missing(loader, level, node, &given, where);
}
