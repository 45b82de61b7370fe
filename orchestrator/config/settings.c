#include "config/settings.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/require.h"

/* What complete.sql takes when it is not said. */
enum { MAX_STEPS_DEFAULT = 1000 };

/* NULL: nothing to say. */
static json_t *of_stage(const struct stage_def *stage) {
    json_t *requires = NULL;
    for (int i = 0; stage->requires != NULL && stage->requires[i] != NULL; i++) {
        requires = requires == NULL ? json_array() : requires;
        REQUIRE(json_array_append_new(requires, json_string(stage->requires[i])) == 0);
    }
    json_t *limit = stage->max_running > 0 ? json_integer(stage->max_running) : NULL;
    json_t *settings = json_pack("{s:o*, s:o*, s:s*}", "max_running", limit, "requires", requires, "renamed_from",
                                 stage->renamed_from);
    REQUIRE(settings != NULL);
    if (json_object_size(settings) == 0) {
        json_decref(settings);
        settings = NULL;
    }
    return settings;
}

static json_t *of_stages(const struct pipeline_def *def) {
    json_t *all = NULL;
    for (int i = 0; i < def->stage_count; i++) {
        json_t *one = of_stage(&def->stages[i]);
        if (one != NULL) {
            all = all == NULL ? json_object() : all;
            REQUIRE(json_object_set_new(all, def->stages[i].name, one) == 0);
        }
    }
    return all;
}

static void add_ms(json_t *to, const char *name, int64_t ms) {
    if (ms > 0) {
        REQUIRE(json_object_set_new(to, name, json_integer(ms)) == 0);
    }
}

/* All of it, when it is not what holds without a word. */
static json_t *of_retention(const struct retention_def *retention) {
    const int64_t errors_ms = INT64_C(90) * 24 * 3600 * 1000;
    if (retention->done_ms == 0 && retention->failed_ms == 0 && retention->cancelled_ms == 0 &&
        retention->errors_ms == errors_ms) {
        return NULL;
    }
    json_t *all = json_object();
    add_ms(all, "done", retention->done_ms);
    add_ms(all, "failed", retention->failed_ms);
    add_ms(all, "cancelled", retention->cancelled_ms);
    add_ms(all, "errors", retention->errors_ms);
    return all;
}

void settings_write(const struct pipeline_def *def, struct buf *out) {
    json_t *max_steps = def->max_steps != MAX_STEPS_DEFAULT ? json_integer(def->max_steps) : NULL;
    json_t *settings = json_pack("{s:o*, s:o*, s:o*}", "max_steps", max_steps, "retention", of_retention(&def->retention),
                                 "stages", of_stages(def));
    char *text = settings == NULL ? NULL : json_dumps(settings, JSON_COMPACT | JSON_SORT_KEYS);
    REQUIRE(text != NULL);
    buf_append_string(out, text);
    free(text);
    json_decref(settings);
}
