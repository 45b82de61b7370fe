/* json_schema.c - the schema table as JSON Schema (draft 2020-12), for editors. Scalars may also be
 * texts with a ${VARIABLE} in them; names may look like numbers. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/require.h"
#include "config/pipeline.h"
#include "config/scalar.h"
#include "config/schema.h"

#define VARIABLE_PATTERN "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}"
#define NAME_PATTERN "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$"
#define DURATION_PATTERN "([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?"

static const struct {
    enum config_level level;
    const char *name;
} definitions[] = {
    {LEVEL_SOURCE, "source"}, {LEVEL_FILES, "files"}, {LEVEL_DEFAULTS, "defaults"},
    {LEVEL_STAGE, "stage"},   {LEVEL_RETRY, "retry"}, {LEVEL_LIMITS, "limits"},
    {LEVEL_RETENTION, "retention"}, {LEVEL_BATCH, "batch"}, {LEVEL_RECYCLE, "recycle"},
    {LEVEL_SCHEDULE, "schedule"}, {LEVEL_DO, "do"}, {LEVEL_SUBMIT, "submit"}, {LEVEL_RERUN, "rerun"},
};

/* jansson's own failure is lack of memory. */
static json_t *made(json_t *value) {
    REQUIRE(value != NULL);
    return value;
}

static void set(json_t *object, const char *key, json_t *value) {
    REQUIRE(json_object_set_new(object, key, value) == 0);
}

static json_t *reference(enum config_level level) {
    for (size_t i = 0; i < sizeof definitions / sizeof definitions[0]; i++) {
        if (definitions[i].level == level) {
            return made(json_pack("{s:s++}", "$ref", "#/$defs/", definitions[i].name, ""));
        }
    }
    REQUIRE(false && "json_schema: a level without a definition");
    return NULL;
}

/* A text that is all of `pattern`, "none" when allowed, or one with a variable in it. */
static json_t *text_of(const struct config_key *key, const char *pattern) {
    json_t *value = made(json_pack("{s:s}", "type", "string"));
    set(value, "pattern",
        made(json_sprintf("^(%s%s)$|%s", pattern, key->none_allowed ? "|none" : "",
                          VARIABLE_PATTERN)));
    return value;
}

static json_t *integer_of(const struct config_key *key) {
    json_t *number = made(json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
                                    (json_int_t)key->low, "maximum", (json_int_t)key->high));
    return made(json_pack("{s:[o, o]}", "anyOf", number, text_of(key, key->low < 0 ? "0|-?[1-9][0-9]*" : "[1-9][0-9]*")));
}

static json_t *backoff_of(void) {
    json_t *words = made(json_array());
    for (size_t i = 0; i < sizeof config_backoff_names / sizeof config_backoff_names[0]; i++) {
        REQUIRE(json_array_append_new(words, json_string(config_backoff_names[i])) == 0);
    }
    return made(json_pack("{s:[{s:o}, {s:s, s:s}]}", "anyOf", "enum", words, "type", "string",
                          "pattern", VARIABLE_PATTERN));
}

static json_t *word_of(const char *const *words) {
    json_t *list = made(json_array());
    for (; *words != NULL; words++) {
        REQUIRE(json_array_append_new(list, json_string(*words)) == 0);
    }
    return made(json_pack("{s:[{s:o}, {s:s, s:s}]}", "anyOf", "enum", list, "type", "string",
                          "pattern", VARIABLE_PATTERN));
}

static json_t *boolean_of(void) {
    return made(json_pack("{s:[{s:s}, {s:s, s:s}]}", "anyOf", "type", "boolean", "type", "string",
                          "pattern", "^(true|false)$|" VARIABLE_PATTERN));
}

static json_t *text_or_list(const struct config_key *key) {
    return made(json_pack("{s:[{s:s, s:i}, {s:s, s:i, s:I, s:{s:s, s:i}}]}", "anyOf", "type",
                          "string", "minLength", 1, "type", "array", "minItems", 1, "maxItems",
                          (json_int_t)key->high, "items", "type", "string", "minLength", 1));
}

static json_t *list_of(const struct config_key *key) {
    return made(json_pack("{s:s, s:i, s:I, s:{s:s}}", "type", "array", "minItems", 1, "maxItems",
                          (json_int_t)key->high, "items", "type", "string"));
}

static json_t *name_of(void) {
    return made(json_pack("{s:[{s:[s, s, s]}, {s:s, s:s}]}", "anyOf", "type", "number", "boolean",
                          "null", "type", "string", "pattern", NAME_PATTERN "|" VARIABLE_PATTERN));
}

static json_t *value_of(const struct config_key *key) {
    switch (key->type) {
    case TYPE_NAME:
        return name_of();
    case TYPE_ROLE:
    case TYPE_PATH:
        return made(json_pack("{s:s, s:i}", "type", "string", "minLength", 1));
    case TYPE_INTEGER:
        return integer_of(key);
    case TYPE_DURATION:
    case TYPE_SECONDS:
        return text_of(key, "(?=.)" DURATION_PATTERN);
    case TYPE_SIZE:
        return text_of(key, "[0-9]+(B|kB|MB|GB|TB)");
    case TYPE_PERCENT:
        return text_of(key, "[0-9]{1,3}%");
    case TYPE_BOOLEAN:
        return boolean_of();
    case TYPE_BACKOFF:
        return backoff_of();
    case TYPE_TEXTS:
    case TYPE_LABELS:
    case TYPE_NAMES:
    case TYPE_VARIABLES:
    case TYPE_SQL:
        return text_or_list(key);
    case TYPE_ARGUMENTS:
        return list_of(key);
    case TYPE_HANDLER:
        return text_of(key, ".+\\.so:[A-Za-z_][A-Za-z0-9_]*");
    case TYPE_JSON:
        return made(json_pack("{s:s}", "type", "object"));
    case TYPE_MAPPING:
        return reference(key->inner);
    case TYPE_TEXT:
        return made(json_pack("{s:s, s:i, s:I}", "type", "string", "minLength", 1, "maxLength",
                              (json_int_t)key->high));
    case TYPE_WORD:
        return word_of(key->words);
    case TYPE_DO:
        return made(json_pack("{s:[{s:[s, s]}, o]}", "anyOf", "enum", "scan", "rerun",
                              reference(key->inner)));
    case TYPE_STAGES:
    case TYPE_SCHEDULES:
        return made(json_pack("{s:s, s:I, s:I, s:o}", "type", "array", "minItems",
                              (json_int_t)key->low, "maxItems", (json_int_t)key->high, "items",
                              reference(key->inner)));
    }
    return NULL;
}

/* The default as its type, not always as its text. */
static json_t *fallback_of(const struct config_key *key) {
    const char *text = key->fallback;
    if (key->type == TYPE_BOOLEAN) {
        return made(json_boolean(strcmp(text, "true") == 0));
    }
    if (key->type == TYPE_JSON) {
        return made(json_object());
    }
    if (key->type == TYPE_INTEGER && strcmp(text, "none") != 0) {
        return made(json_integer((json_int_t)strtoll(text, NULL, 10)));
    }
    return made(json_string(text));
}

static json_t *mapping_of(enum config_level level) {
    json_t *properties = made(json_object()), *required = made(json_array());
    for (int i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if ((key->levels & level) == 0) {
            continue;
        }
        json_t *value = made(value_of(key));
        set(value, "description", made(json_string(key->description)));
        if (key->fallback != NULL) {
            set(value, "default", fallback_of(key));
        }
        set(properties, key->name, value);
        if (key->required) {
            REQUIRE(json_array_append_new(required, json_string(key->name)) == 0);
        }
    }
    json_t *mapping = made(json_pack("{s:s, s:b, s:o}", "type", "object", "additionalProperties", 0,
                                     "properties", properties));
    set(mapping, "required", required);
    if (level == LEVEL_STAGE) {
        set(mapping, "oneOf",
            made(json_pack("[{s:[s]}, {s:[s]}, {s:[s]}, {s:[s]}]", "required", "handler", "required",
                           "command", "required", "worker", "required", "sql")));
    }
    if (level == LEVEL_SCHEDULE) {
        set(mapping, "oneOf",
            made(json_pack("[{s:[s]}, {s:[s]}]", "required", "every", "required", "cron")));
    }
    if (level == LEVEL_DO) {
        set(mapping, "minProperties", made(json_integer(1)));
        set(mapping, "maxProperties", made(json_integer(1)));
    }
    return mapping;
}

void config_print_schema(struct buf *out) {
    json_t *root =
        made(json_pack("{s:s, s:s}", "$schema", "https://json-schema.org/draft/2020-12/schema",
                       "title", "pgstage pipeline"));
    json_t *top = mapping_of(LEVEL_PIPELINE), *defs = made(json_object());
    REQUIRE(json_object_update(root, top) == 0);
    json_decref(top);
    for (size_t i = 0; i < sizeof definitions / sizeof definitions[0]; i++) {
        set(defs, definitions[i].name, mapping_of(definitions[i].level));
    }
    set(root, "$defs", defs);
    char *text = json_dumps(root, JSON_INDENT(2));
    REQUIRE(text != NULL);
    buf_append_string(out, text);
    buf_append_char(out, '\n');
    free(text);
    json_decref(root);
}
