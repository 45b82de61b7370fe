/* schema_test.c - every row of the table of keys: its default can be read, its place exists, and
 * the JSON Schema shows it. */
#include "config/schema.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "config/pipeline.h"
#include "config/scalar.h"

TestSuite(schema, .timeout = 10);

static const struct {
    enum config_level level;
    const char *definition; /* in $defs; NULL: the top */
} levels[] = {
    {LEVEL_PIPELINE, NULL},       {LEVEL_SOURCE, "source"}, {LEVEL_FILES, "files"},
    {LEVEL_DEFAULTS, "defaults"}, {LEVEL_STAGE, "stage"},   {LEVEL_RETRY, "retry"},
    {LEVEL_LIMITS, "limits"},     {LEVEL_SCHEDULE, "schedule"}, {LEVEL_DO, "do"},
    {LEVEL_SUBMIT, "submit"},     {LEVEL_RERUN, "rerun"},
};

static json_t *load_schema(void) {
    struct buf text;
    buf_init(&text, 1024 * 1024);
    config_print_schema(&text);
    json_error_t error;
    json_t *schema = json_loads(text.data, JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(schema, "%s", error.text);
    buf_finish(&text);
    return schema;
}

static const json_t *definition_of(const json_t *schema, const char *name) {
    return name == NULL ? schema : json_object_get(json_object_get(schema, "$defs"), name);
}

Test(schema, every_row_is_printed_at_each_of_its_levels) {
    json_t *schema = load_schema();
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        const json_t *level = definition_of(schema, levels[i].definition);
        const json_t *properties = json_object_get(level, "properties");
        size_t expected = 0;
        for (int j = 0; j < config_key_count; j++) {
            const struct config_key *key = &config_keys[j];
            if ((key->levels & levels[i].level) == 0) {
                continue;
            }
            expected++;
            const json_t *value = json_object_get(properties, key->name);
            cr_assert_not_null(value, "%s", key->name);
            cr_expect_str_eq(json_string_value(json_object_get(value, "description")),
                             key->description);
            cr_expect_eq(json_object_get(value, "default") != NULL, key->fallback != NULL, "%s",
                         key->name);
        }
        cr_expect_gt(expected, 0);
        cr_expect_eq(json_object_size(properties), expected);
        cr_expect(json_is_false(json_object_get(level, "additionalProperties")));
    }
    cr_expect_str_eq(json_string_value(json_object_get(schema, "$schema")),
                     "https://json-schema.org/draft/2020-12/schema");
    json_decref(schema);
}

Test(schema, rows_are_whole) {
    for (int i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        cr_expect_neq(key->levels, 0, "%s", key->name);
        cr_expect_eq(key->levels & ~(unsigned)LEVEL_ANY, 0, "%s", key->name);
        cr_expect_leq(key->low, key->high, "%s", key->name);
        cr_expect(key->description[0] != '\0' && key->description[0] >= 'A', "%s", key->name);
        cr_expect_not(key->required && key->fallback != NULL, "%s", key->name);
        bool nested = key->type == TYPE_MAPPING || key->type == TYPE_STAGES ||
                      key->type == TYPE_SCHEDULES || key->type == TYPE_DO;
        cr_expect_eq(key->words != NULL, key->type == TYPE_WORD, "%s", key->name);
        cr_expect_eq(key->inner != 0, nested, "%s", key->name);
        for (int j = 0; j < i; j++) {
            cr_expect_not(strcmp(config_keys[j].name, key->name) == 0 &&
                              (config_keys[j].levels & key->levels) != 0,
                          "%s is there twice", key->name);
        }
    }
}

Test(schema, find_knows_levels) {
    cr_expect_str_eq(config_key_find(LEVEL_STAGE, "timeout")->name, "timeout");
    cr_expect_not_null(config_key_find(LEVEL_DEFAULTS, "timeout"));
    cr_expect_null(config_key_find(LEVEL_DEFAULTS, "name"));
    cr_expect_null(config_key_find(LEVEL_ANY, "Timeout"));
    cr_expect_null(config_key_find(LEVEL_ANY, ""));
}

/* What the header of pipeline.h promises. */
Test(schema, defaults_are_as_documented) {
    static const char text[] = "pipeline: p\nsource: {files: {path: /}}\n"
                               "stages: [{name: s, handler: h.so:h}]";
    struct pipeline_def *def;
    struct config_report report;
    struct error err = ERROR_NONE;
    cr_assert_eq(pipeline_parse("/etc/p.yaml", text, strlen(text), &def, &report, &err), STATUS_OK,
                 "%s", err.text);
    const struct stage_def *stage = &def->stages[0];
    cr_expect_eq(stage->workers, 1);
    cr_expect_eq(stage->timeout_ms, 60000);
    cr_expect_eq(stage->grace_ms, 5000);
    cr_expect_eq(stage->retry.attempts, 5);
    cr_expect_eq(stage->retry.backoff.kind, BACKOFF_EXPONENTIAL);
    cr_expect_eq(stage->retry.backoff.first_ms, 10000);
    cr_expect_eq(stage->retry.backoff.max_ms, 3600000);
    cr_expect_eq(stage->retry.backoff.jitter_percent, 10);
    cr_expect_eq(stage->memory_bytes, 0);
    cr_expect_eq(stage->cpu_seconds, 0);
    cr_expect_eq(stage->file_size_bytes, 0);
    cr_expect_eq(stage->open_files, 0);
    cr_expect_str_eq(stage->with_json, "{}");
    cr_expect_null(stage->role);
    cr_expect_not(stage->after_commit);
    cr_expect_str_eq(def->source.match[0], "*");
    cr_expect_null(def->source.match[1]);
    cr_expect(def->source.recursive);
    cr_expect_eq(def->source.every_ms, 10000);
    cr_expect_str_eq(def->folder, "/etc");
    cr_expect_str_eq(def->file, "/etc/p.yaml");
    cr_expect_str_eq(def->text, text);
    cr_expect_eq(def->text_length, strlen(text));
    pipeline_free(def);
    config_report_finish(&report);
}

Test(schema, bounds_can_be_written) {
    struct arena arena = {0};
    for (int i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        struct scalar_fault fault;
        union {
            struct stage_def stage;
            struct source_def source;
            struct schedule_def schedule;
        } target = {0};
        const int64_t bounds[] = {key->low, key->high};
        for (int j = 0; j < 2; j++) {
            const char *text = NULL;
            if (key->type == TYPE_DURATION) {
                text = scalar_format_duration(&arena, bounds[j]);
            } else if (key->type == TYPE_SECONDS) {
                text = scalar_format_duration(&arena, bounds[j] * 1000);
            } else if (key->type == TYPE_SIZE) {
                text = scalar_format_size(&arena, bounds[j]);
            } else if (key->type == TYPE_INTEGER) {
                text = arena_format(&arena, "%lld", (long long)bounds[j]);
            } else if (key->type == TYPE_PERCENT) {
                text = arena_format(&arena, "%lld%%", (long long)bounds[j]);
            } else {
                continue;
            }
            cr_assert(scalar_read(key, text, &target, &arena, &fault), "%s: %s", key->name, text);
            int64_t stored = 0;
            int small = 0;
            memcpy(key->size == sizeof small ? (void *)&small : (void *)&stored, (char *)&target + key->offset, key->size);
            stored = key->size == sizeof small ? small : stored;
            cr_expect_eq(stored, bounds[j], "%s: %s", key->name, text);
        }
    }
    arena_finish(&arena);
}
