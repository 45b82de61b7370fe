/* effects_copy.c - the deep copy of effects: texts, outputs, statements and their parameters. */
#include <string.h>

#include "queue/effects.h"

static const struct store_text *copy_outputs(struct arena *arena, const struct store_chain *chain) {
    if (chain->outputs == NULL || chain->count == 0) {
        return NULL;
    }
    struct store_text *outputs = arena_alloc(arena, (size_t)chain->count * sizeof *outputs);
    for (int i = 0; i < chain->count; i++) {
        const struct store_text *from = &chain->outputs[i];
        if (from->data != NULL) {
            outputs[i] = (struct store_text){.data = arena_copy(arena, from->data, from->length),
                                             .length = from->length};
        }
    }
    return outputs;
}

/* A NUL would cut the text short without a word; these bytes are no UTF-8, so the server refuses
 * them. */
static const char not_text[] = "\xC0\x80";

static const struct store_param *copy_params(struct arena *arena,
                                             const struct store_statement *statement) {
    if (statement->param_count == 0) {
        return NULL;
    }
    struct store_param *params =
        arena_alloc(arena, (size_t)statement->param_count * sizeof *params);
    for (int i = 0; i < statement->param_count; i++) {
        const struct store_param *from = &statement->params[i];
        if (from->data == NULL) {
            continue;
        }
        bool is_text = memchr(from->data, '\0', from->length) == NULL;
        size_t length = is_text ? from->length : sizeof not_text - 1;
        params[i].data = arena_copy(arena, is_text ? from->data : not_text, length);
        params[i].length = length;
    }
    return params;
}

struct store_effect *effects_copy(struct arena *arena, int count,
                                  const struct store_effect *effects) {
    struct store_effect *copies = arena_alloc(arena, (size_t)count * sizeof *copies);
    for (int i = 0; i < count; i++) {
        const struct store_effect *from = &effects[i];
        copies[i] = *from;
        copies[i].chain.outputs = copy_outputs(arena, &from->chain);
        copies[i].chain.kind = arena_copy_string(arena, from->chain.kind);
        copies[i].chain.reason = arena_copy_string(arena, from->chain.reason);
        copies[i].chain.detail = arena_copy_string(arena, from->chain.detail);
        struct store_statement *statements =
            arena_alloc(arena, (size_t)(from->statement_count + 1) * sizeof *statements);
        for (int k = 0; k < from->statement_count; k++) {
            statements[k] =
                (struct store_statement){.text = arena_copy_string(arena, from->statements[k].text),
                                         .param_count = from->statements[k].param_count,
                                         .params = copy_params(arena, &from->statements[k])};
        }
        copies[i].statements = statements;
    }
    return copies;
}
