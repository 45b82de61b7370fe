/* stages.c - the list of stages: each begins as a copy of the defaults, then its own keys are read;
 * what hangs on two keys at once is looked at here. */
#include <string.h>

#include "base/placeholder.h"
#include "config/loader.h"

static const struct {
    const char *key;
    enum stage_kind kind;
    enum config_use use;
} kinds[] = {
    {"handler", STAGE_HANDLER, USE_HANDLER},
    {"command", STAGE_COMMAND, USE_COMMAND},
    {"worker", STAGE_PROGRAM, USE_PROGRAM},
    {"sql", STAGE_SQL, USE_SQL},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static bool is_before(struct position a, struct position b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
}

static void refuse_useless_keys(struct loader *loader, const struct tree_node *node, int kind) {
    for (const struct tree_node *child = node->first; child != NULL; child = child->next) {
        const struct config_key *key = config_key_find(LEVEL_STAGE, child->key->text);
        if (key != NULL && key->only != USE_ANY && (key->only & kinds[kind].use) == 0) {
            mistake_add(loader->mistakes, child->key->at, NULL,
                        "'%s' has no effect in a stage with '%s'", key->name, kinds[kind].key);
        }
    }
}

static void check_kind(struct loader *loader, const struct tree_node *node,
                       struct stage_def *stage) {
    int found = -1;
    for (int i = 0; i < KIND_COUNT; i++) {
        const struct tree_node *now = tree_get(node, kinds[i].key);
        if (now == NULL) {
            continue;
        }
        if (found >= 0) {
            const struct tree_node *before = tree_get(node, kinds[found].key);
            struct position at =
                is_before(before->key->at, now->key->at) ? now->key->at : before->key->at;
            mistake_add(loader->mistakes, at, NULL,
                        "a stage has one kind: either '%s' or '%s', not both", kinds[found].key,
                        kinds[i].key);
            return;
        }
        found = i;
    }
    if (found >= 0) { /* that there is none is reported as missing */
        stage->kind = kinds[found].kind;
        refuse_useless_keys(loader, node, found);
    }
}

static const struct tree_node *argument_at(const struct tree_node *list, size_t index) {
    const struct tree_node *argument = list->first;
    for (; index > 0; index--) {
        argument = argument->next;
    }
    return argument;
}

/* The worker reads them in the same way. */
static void check_command(struct loader *loader, const struct tree_node *list,
                          const struct stage_def *stage, size_t count) {
    struct error err = ERROR_NONE;
    size_t fault;
    if (placeholders_check(stage->arguments, count, stage->batch_size > 0, &fault, &err) !=
        STATUS_OK) {
        bool is_variable = strstr(stage->arguments[fault], "${") != NULL;
        mistake_add(loader->mistakes, argument_at(list, fault)->at,
                    is_variable ? "a ${NAME} for the program itself is written $${{NAME}}" : NULL,
                    "'command': %s", err.text);
    }
}

/* The first placeholder of a command in the text; LITERAL when there is none. What else stands in braces is the program's. */
static enum placeholder find_placeholder(const char *text) {
    for (const char *brace = strchr(text, '{'); brace != NULL; brace = strchr(brace, '{')) {
        struct placeholder_piece piece;
        struct error ignored = ERROR_NONE;
        const char *at = brace;
        if (placeholder_next(&at, &piece, &ignored) != STATUS_OK) {
            brace++;
        } else if (piece.source != PLACEHOLDER_LITERAL) {
            return piece.source;
        } else {
            brace = at;
        }
    }
    return PLACEHOLDER_LITERAL;
}

static void check_worker(struct loader *loader, const struct tree_node *list,
                         const struct stage_def *stage, size_t count) {
    if (stage->arguments[0][0] == '\0') {
        mistake_add(loader->mistakes, list->first->at, NULL, "'worker': the name of the program is empty");
    }
    for (size_t i = 0; i < count; i++) {
        enum placeholder found = find_placeholder(stage->arguments[i]);
        if (found != PLACEHOLDER_LITERAL) {
            mistake_add(loader->mistakes, argument_at(list, i)->at, NULL,
                        "'worker': {%s} is a placeholder, and they are for 'command': a worker "
                        "reads hello and its tasks from standard input",
                        placeholder_name(found));
        }
    }
}

static void check_arguments(struct loader *loader, const struct tree_node *node,
                            const struct stage_def *stage) {
    bool is_command = tree_get(node, "command") != NULL;
    const struct tree_node *list = tree_get(node, is_command ? "command" : "worker");
    size_t count = 0;
    while (stage->arguments != NULL && stage->arguments[count] != NULL) {
        count++;
    }
    if (list == NULL || list->kind != TREE_LIST || count == 0 || count != (size_t)list->count) {
        return; /* it was reported, or there is none */
    }
    (is_command ? check_command : check_worker)(loader, list, stage, count);
}

/* One text has no place for the results of many tasks. */
static void check_stdout(struct loader *loader, const struct tree_node *node,
                         const struct stage_def *stage) {
    const struct tree_node *form = tree_get(node, "stdout");
    if (stage->kind == STAGE_COMMAND && form != NULL && stage->batch_size > 0 &&
        stage->stdout_form != NULL && strcmp(stage->stdout_form, "text") == 0) {
        mistake_add(loader->mistakes, form->at, "leave 'stdout' out, or 'batch'",
                    "'stdout: text' is of one task, but a stage with 'batch' runs many at once");
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
    check_arguments(loader, node, stage);
    check_stdout(loader, node, stage);
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

static bool is_earlier(const struct stage_def *stages, int number, const char *name) {
    for (int i = 0; i < number; i++) {
        if (stages[i].name != NULL && strcmp(stages[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void check_inputs(struct loader *loader, const struct stage_def *stages,
                         const struct tree_node *inputs, int number) {
    const char *const *names = stages[number].inputs;
    for (int i = 0; inputs != NULL && names != NULL && names[i] != NULL; i++) {
        if (!is_earlier(stages, number, names[i])) {
            mistake_add(loader->mistakes, inputs->at, "it reads what stages before it returned",
                        "'inputs': %s is no earlier stage",
                        mistake_quote(loader->scratch, names[i]));
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
            check_inputs(loader, stages, tree_get(node, "inputs"), count);
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
