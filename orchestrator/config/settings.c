#include "config/settings.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/require.h"
#include "base/units.h"

/* What complete.sql takes when it is not said. */
enum { MAX_STEPS_DEFAULT = 1000 };

/* NULL: none. */
static json_t *of_labels(const char *const *labels) {
    json_t *all = NULL;
    for (int i = 0; labels != NULL && labels[i] != NULL; i++) {
        all = all == NULL ? json_array() : all;
        REQUIRE(json_array_append_new(all, json_string(labels[i])) == 0);
    }
    return all;
}

/* NULL: nothing to say. */
static json_t *of_stage(const struct stage_def *stage) {
    json_t *limit = stage->max_running > 0 ? json_integer(stage->max_running) : NULL;
    json_t *settings = json_pack("{s:o*, s:o*, s:s*}", "max_running", limit, "requires", of_labels(stage->requires), "renamed_from",
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

/* ---- schedules ---- */

static json_t *of_action(const struct schedule_def *schedule) {
    switch (schedule->action) {
    case SCHEDULE_SCAN:
        return json_pack("{s:s}", "do", "scan");
    case SCHEDULE_RERUN:
        return json_pack("{s:s, s:s*}", "do", "rerun", "from", schedule->from);
    case SCHEDULE_SUBMIT:
        break;
    }
    json_t *payload = schedule->payload_json == NULL ? NULL : json_loads(schedule->payload_json, 0, NULL);
    REQUIRE((payload == NULL) == (schedule->payload_json == NULL));
    json_t *priority = schedule->has_priority ? json_integer(schedule->priority) : NULL;
    return json_pack("{s:s, s:s, s:o*, s:o*}", "do", "submit", "key", schedule->key, "priority", priority, "payload", payload);
}

static json_t *of_schedule(const struct schedule_def *schedule) {
    char duration[48];
    json_t *one = json_pack("{s:s, s:o, s:s, s:s, s:I, s:I, s:o*}", "name", schedule->name, "action", of_action(schedule),
                            "overlap", schedule->overlap, "missed", schedule->missed, "jitter_ms",
                            (json_int_t)schedule->jitter_ms, "timeout_ms", (json_int_t)schedule->timeout_ms,
                            "requires", of_labels(schedule->requires));
    REQUIRE(one != NULL);
    json_t *times = NULL;
    if (schedule->every_ms > 0) {
        json_t *spec = json_sprintf("every %s", units_format_duration(schedule->every_ms, duration, sizeof duration));
        times = json_pack("{s:o, s:I}", "spec", spec, "every_ms", (json_int_t)schedule->every_ms);
    } else {
        const struct cron_masks *cron = &schedule->cron;
        times = json_pack("{s:s, s:s, s:{s:I, s:i, s:I, s:i, s:i, s:b}}", "spec", schedule->cron_text, "zone",
                          schedule->timezone, "cron", "minutes", (json_int_t)cron->minutes, "hours", cron->hours, "days",
                          (json_int_t)cron->days, "months", cron->months, "weekdays", cron->weekdays, "day_or_weekday",
                          cron->day_or_weekday);
    }
    REQUIRE(times != NULL && json_object_update(one, times) == 0);
    json_decref(times);
    return one;
}

static json_t *of_schedules(const struct pipeline_def *def) {
    json_t *all = def->schedule_count == 0 ? NULL : json_array();
    for (int i = 0; i < def->schedule_count; i++) {
        REQUIRE(json_array_append_new(all, of_schedule(&def->schedules[i])) == 0);
    }
    return all;
}

void settings_write(const struct pipeline_def *def, struct buf *out) {
    json_t *max_steps = def->max_steps != MAX_STEPS_DEFAULT ? json_integer(def->max_steps) : NULL;
    json_t *settings = json_pack("{s:o*, s:o*, s:o*, s:o*}", "max_steps", max_steps, "retention",
                                 of_retention(&def->retention), "stages", of_stages(def), "schedules",
                                 of_schedules(def));
    char *text = settings == NULL ? NULL : json_dumps(settings, JSON_COMPACT | JSON_SORT_KEYS);
    REQUIRE(text != NULL);
    buf_append_string(out, text);
    free(text);
    json_decref(settings);
}
