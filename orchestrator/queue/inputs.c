/* inputs.c - asks for outputs by stage, and gives them back by name. */
#include "queue/inputs.h"

#include <string.h>

#include "db/array.h"
#include "db/result.h"

enum { TASK, STAGE, VALUE };

static struct store_inputs copy_inputs(struct arena *arena, const struct store_inputs *from) {
    if (from == NULL || from->count == 0) {
        return (struct store_inputs){0};
    }
    size_t count = (size_t)from->count;
    int *stages = arena_alloc(arena, count * sizeof *stages);
    const char **names = arena_alloc(arena, count * sizeof *names);
    for (size_t i = 0; i < count; i++) {
        stages[i] = from->stages[i];
        names[i] = arena_copy_string(arena, from->names[i]);
    }
    return (struct store_inputs){.count = from->count, .stages = stages, .names = names};
}

struct inputs_wanted *inputs_keep(struct arena *arena, const struct store_tick *tick) {
    size_t count = (size_t)(tick->claim_count + tick->fetch_count);
    struct inputs_wanted *wanted = arena_alloc(arena, (count + 1) * sizeof *wanted);
    for (int i = 0; i < tick->claim_count; i++) {
        wanted[i] = (struct inputs_wanted){.claim = tick->claims[i].claim,
                                           .inputs = copy_inputs(arena, tick->claims[i].inputs)};
    }
    for (int i = 0; i < tick->fetch_count; i++) {
        const struct store_fetch *fetch = &tick->fetches[i];
        wanted[tick->claim_count + i] = (struct inputs_wanted){
            .claim = fetch->claim, .task = fetch->task, .inputs = copy_inputs(arena, fetch->inputs)};
    }
    return wanted;
}

bool inputs_add(struct script *script, int count, const struct inputs_wanted *wanted) {
    int rows = 0;
    for (int i = 0; i < count; i++) {
        rows += wanted[i].inputs.count;
    }
    if (rows == 0) {
        return false;
    }
    struct db_param *params = script_add(script, &sql_inputs, 3);
    for (int column = 0; column < 3; column++) {
        array_begin(&script->literal);
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < wanted[i].inputs.count; k++) {
                if (column == 1 && wanted[i].task == 0) {
                    array_add_null(&script->literal);
                } else {
                    array_add_int(&script->literal, column == 0   ? wanted[i].claim
                                                    : column == 1 ? wanted[i].task
                                                                  : wanted[i].inputs.stages[k]);
                }
            }
        }
        params[column] = script_take_array(script);
    }
    return true;
}

/* The first row that is not before (task, stage): rows are in that order. */
static int find_row(const struct db_result *result, int64_t task, int stage) {
    int low = 0, high = db_rows(result);
    while (low < high) {
        int middle = low + (high - low) / 2;
        int64_t at = db_int64(result, middle, TASK);
        if (at < task || (at == task && db_int64(result, middle, STAGE) < stage)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_of(const struct db_result *result, int row, int64_t task, int stage) {
    return row < db_rows(result) && db_int64(result, row, TASK) == task && db_int64(result, row, STAGE) == stage;
}

/* Names of stages are letters, digits, '_', '.' and '-': nothing in them needs an escape. */
struct store_text inputs_read(struct arena *arena, const struct db_result *result, int64_t task,
                              const struct store_inputs *inputs) {
    size_t size = 3;
    for (int i = 0; i < inputs->count; i++) {
        int row = find_row(result, task, inputs->stages[i]);
        if (!is_of(result, row, task, inputs->stages[i])) {
            return (struct store_text){0};
        }
        size += strlen(inputs->names[i]) + db_length(result, row, VALUE) + sizeof "\"\":null,";
    }
    char *text = arena_alloc(arena, size);
    char *at = text;
    *at++ = '{';
    for (int i = 0; i < inputs->count; i++) {
        int row = find_row(result, task, inputs->stages[i]);
        bool none = db_is_null(result, row, VALUE);
        const char *value = none ? "null" : db_value(result, row, VALUE);
        size_t length = none ? strlen("null") : db_length(result, row, VALUE);
        if (i > 0) {
            *at++ = ',';
        }
        *at++ = '"';
        at = stpcpy(at, inputs->names[i]);
        at = stpcpy(at, "\":");
        memcpy(at, value, length);
        at += length;
    }
    at = stpcpy(at, "}");
    return (struct store_text){.data = text, .length = (size_t)(at - text)};
}
