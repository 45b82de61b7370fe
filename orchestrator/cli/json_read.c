#include "cli/json_read.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* Integers of any length are fine for jsonb: jansson would refuse those beyond 64 bits. */
enum { FLAGS = JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL };

static const char *explain(const json_error_t *error) {
    if (json_error_code(error) == json_error_null_character || json_error_code(error) == json_error_null_byte_in_key) {
        return "\\u0000 cannot be stored: text in PostgreSQL has no NUL";
    }
    if (json_error_code(error) == json_error_numeric_overflow) {
        return "a number is too large";
    }
    if (json_error_code(error) == json_error_stack_overflow) {
        return "nested too deeply";
    }
    if (json_error_code(error) == json_error_invalid_utf8) {
        return "not UTF-8";
    }
    if (strstr(error->text, "invalid Unicode '") != NULL) {
        return "half of a surrogate pair stands alone: it is not text";
    }
    return error->text;
}

bool json_check(const char *text, size_t length, struct json_mistake *mistake) {
    json_error_t error;
    json_t *value = json_loadb(text, length, FLAGS, &error);
    if (value != NULL) {
        json_decref(value);
        return true;
    }
    if (strspn(text, " \t\r\n") == length) {
        *mistake = (struct json_mistake){1, 1, "empty: a JSON value is wanted"};
        return false;
    }
    mistake->line = error.line > 0 ? error.line : 1;
    mistake->column = error.column > 0 ? error.column : 1;
    snprintf(mistake->why, sizeof mistake->why, "%s", explain(&error));
    return false;
}

static const char *skip_blanks(const char *at) {
    return at + strspn(at, " \t\r\n");
}

static const char *skip_string(const char *at) {
    for (at++; *at != '"'; at++) {
        at += *at == '\\';
    }
    return at + 1;
}

static const char *skip_value(const char *at) {
    int depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            depth--;
            at++;
        } else if (depth > 0) {
            at++;
        } else {
            return at + strcspn(at, ",}] \t\r\n");
        }
    } while (depth > 0);
    return at;
}

bool json_next_member(const char **at, struct json_member *member) {
    const char *name = skip_blanks(*at);
    if (*name == '{' || *name == ',') {
        name = skip_blanks(name + 1);
    }
    if (*name != '"') {
        return false;
    }
    const char *name_end = skip_string(name);
    const char *value = skip_blanks(skip_blanks(name_end) + 1);
    *at = skip_value(value);
    *member = (struct json_member){
        .name = name + 1,
        .name_length = (size_t)(name_end - name) - 2,
        .value = value,
        .value_length = (size_t)(*at - value),
    };
    return true;
}

char *json_string_copy(const char *value, size_t length) {
    if (length < 2 || value[0] != '"') {
        return NULL;
    }
    if (memchr(value, '\\', length) == NULL) {
        return mem_copy_bytes(value + 1, length - 2);
    }
    json_t *string = json_loadb(value, length, FLAGS, NULL);
    char *copy = mem_copy_string(json_string_value(string));
    json_decref(string);
    return copy;
}

bool json_means_nothing(const char *value, size_t length) {
    return length == 4 && memcmp(value, "null", 4) == 0;
}
