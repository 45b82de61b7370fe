/* stages.c - the list of stages: each begins as a copy of the defaults, then its own keys are read;
 * what hangs on two keys at once is looked at here. */
#include <string.h>

#include "config/loader.h"

static const struct tree_node *kind_of(const struct tree_node *node, enum stage_kind *kind) {
    const struct tree_node *handler = tree_get(node, "handler"), *sql = tree_get(node, "sql");
    *kind = handler != NULL ? STAGE_HANDLER : STAGE_SQL;
    return handler != NULL ? handler : sql;
}

static bool is_before(struct position a, struct position b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
}

static void check_kind(struct loader *loader, const struct tree_node *node,
                       struct stage_def *stage) {
    const struct tree_node *handler = tree_get(node, "handler"), *sql = tree_get(node, "sql");
    if (kind_of(node, &stage->kind) == NULL) {
        return; /* reported as missing */
    }
    if (handler != NULL && sql != NULL) {
        struct position at =
            is_before(handler->key->at, sql->key->at) ? sql->key->at : handler->key->at;
        mistake_add(loader->mistakes, at, NULL,
                    "a stage has one kind: either 'handler' or 'sql', not both");
        return;
    }
    enum config_use kind = stage->kind == STAGE_HANDLER ? USE_HANDLER : USE_SQL;
    for (const struct tree_node *child = node->first; child != NULL; child = child->next) {
        const struct config_key *key = config_key_find(LEVEL_STAGE, child->key->text);
        if (key != NULL && key->only != USE_ANY && key->only != kind) {
            mistake_add(loader->mistakes, child->key->at, NULL,
                        "'%s' has no effect in a stage with '%s'", key->name,
                        kind == USE_SQL ? "sql" : "handler");
        }
    }
}

static const char *title(struct loader *loader, const struct tree_node *node, int number) {
    const struct tree_node *name = tree_get(node, "name");
    if (name != NULL && name->kind == TREE_TEXT && name->length > 0) {
        return arena_format(loader->scratch, "stage %s",
                            mistake_quote(loader->scratch, name->text));
    }
    return arena_format(loader->scratch, "stage %d", number);
}

static void read_stage(struct loader *loader, const struct tree_node *node, int number,
                       struct stage_def *stage) {
    *stage = loader->defaults;
    stage->line = node->at.line;
    stage->column = node->at.column;
    walk_mapping(loader, LEVEL_STAGE, node, stage, title(loader, node, number));
    check_kind(loader, node, stage);
}

/* At most CONFIG_STAGES_MAX names, so each is compared with each. */
static void check_unique(struct loader *loader, const struct stage_def *stages,
                         const struct tree_node *const *names, int number) {
    for (int i = 0; i < number; i++) {
        if (stages[i].name != NULL && stages[number].name != NULL &&
            strcmp(stages[i].name, stages[number].name) == 0) {
            mistake_add(loader->mistakes, names[number]->at, NULL,
                        "a second stage is named %s, the first at %s:%d:%d",
                        mistake_quote(loader->scratch, stages[number].name), loader->source->name,
                        names[i]->at.line, names[i]->at.column);
            return;
        }
    }
}

/* What a stage was called before must be the name of no stage now, and of one stage only. */
static void check_renamed(struct loader *loader, const struct stage_def *stages,
                          const struct tree_node *const *olds, int count) {
    for (int i = 0; i < count; i++) {
        const char *old = stages[i].renamed_from;
        for (int k = 0; old != NULL && k < count; k++) {
            if (stages[k].name != NULL && strcmp(stages[k].name, old) == 0) {
                mistake_add(loader->mistakes, olds[i]->at, "it names a stage that is no more",
                            "'renamed_from': %s is a stage of this file",
                            mistake_quote(loader->scratch, old));
            } else if (k < i && stages[k].renamed_from != NULL &&
                       strcmp(stages[k].renamed_from, old) == 0) {
                mistake_add(loader->mistakes, olds[i]->at, NULL,
                            "two stages cannot both have been %s, the first is at %s:%d:%d",
                            mistake_quote(loader->scratch, old), loader->source->name,
                            olds[k]->at.line, olds[k]->at.column);
            }
        }
    }
}

void stages_read(struct loader *loader, const struct tree_node *list) {
    if (list->count == 0) {
        mistake_add(loader->mistakes, list->at, NULL, "'stages' must have at least one stage");
        return;
    }
    const struct tree_node *names[CONFIG_STAGES_MAX], *olds[CONFIG_STAGES_MAX];
    struct stage_def *stages = arena_alloc(&loader->def->arena, CONFIG_STAGES_MAX * sizeof *stages);
    int count = 0;
    for (const struct tree_node *node = list->first; node != NULL; node = node->next) {
        if (count == CONFIG_STAGES_MAX) {
            mistake_add(loader->mistakes, node->at, NULL, "a pipeline has at most %d stages",
                        CONFIG_STAGES_MAX);
            break;
        }
        if (node->kind == TREE_MAPPING) {
            names[count] = tree_get(node, "name");
            olds[count] = tree_get(node, "renamed_from");
            read_stage(loader, node, count + 1, &stages[count]);
            check_unique(loader, stages, names, count);
            count++;
        } else if (node->kind != TREE_BROKEN) {
            mistake_add(loader->mistakes, node->at, "'- name: NAME' begins a stage",
                        "a stage must be a mapping of keys, not %s",
                        node->kind == TREE_LIST ? "a list"
                                                : mistake_quote(loader->scratch, node->text));
        }
    }
    check_renamed(loader, stages, olds, count);
    loader->def->stages = stages;
    loader->def->stage_count = count;
}
