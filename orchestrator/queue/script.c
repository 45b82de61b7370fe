/* script.c - building requests. */
#include "queue/script.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "db/array.h"

void script_init(struct script *script) {
    *script = (struct script){0};
    buf_init(&script->literal, SCRIPT_MAX_BYTES);
}

void script_clear(struct script *script) {
    arena_finish(&script->arena);
    buf_clear(&script->literal);
    script->count = 0;
    script->transaction = false;
    script->overflow = false;
}

void script_finish(struct script *script) {
    arena_finish(&script->arena);
    buf_finish(&script->literal);
    free(script->statements);
    *script = (struct script){0};
}

static struct db_param *add(struct script *script, const char *name, const char *text,
                            int param_count) {
    if (script->count == script->capacity) {
        script->capacity = script->capacity == 0 ? 16 : script->capacity * 2;
        script->statements =
            mem_resize(script->statements, (size_t)script->capacity, sizeof *script->statements);
    }
    struct db_param *params = NULL;
    if (param_count > 0) {
        params = arena_alloc(&script->arena, (size_t)param_count * sizeof *params);
    }
    script->statements[script->count++] = (struct db_statement){
        .name = name, .text = text, .param_count = param_count, .params = params};
    return params;
}

struct db_param *script_add(struct script *script, const struct sql_statement *sql,
                            int param_count) {
    return add(script, sql->name, sql->text, param_count);
}

struct db_param *script_add_text(struct script *script, const char *text, int param_count) {
    return add(script, NULL, arena_copy_string(&script->arena, text), param_count);
}

struct db_param script_int(struct script *script, int64_t value) {
    return DB_TEXT(arena_format(&script->arena, "%" PRId64, value));
}

struct db_param script_text(struct script *script, const char *text) {
    return DB_TEXT(arena_copy_string(&script->arena, text));
}

struct db_param script_bytes(struct script *script, const char *bytes, size_t length) {
    if (bytes == NULL) {
        return DB_NULL;
    }
    if (length > SCRIPT_MAX_BYTES) {
        script->overflow = true;
        return DB_NULL;
    }
    return DB_TEXT(arena_copy(&script->arena, bytes, length));
}

struct db_param script_ints(struct script *script, const int *values, int count) {
    array_begin(&script->literal);
    for (int i = 0; i < count; i++) {
        array_add_int(&script->literal, values[i]);
    }
    return script_take_array(script);
}

struct db_param script_bigints(struct script *script, const int64_t *values, int count) {
    array_begin(&script->literal);
    for (int i = 0; i < count; i++) {
        array_add_int(&script->literal, values[i]);
    }
    return script_take_array(script);
}

struct db_param script_take_array(struct script *script) {
    array_end(&script->literal);
    if (script->literal.overflow) {
        script->overflow = true;
        return DB_NULL;
    }
    return DB_TEXT(arena_copy(&script->arena, script->literal.data, script->literal.length));
}

struct db_request script_request(const struct script *script) {
    return (struct db_request){.transaction = script->transaction,
                               .statement_count = script->count,
                               .statements = script->statements};
}
