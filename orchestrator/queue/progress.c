/* progress.c - progress as parameters and rows. Texts of handlers are made storable here, with a cap. */
#include "queue/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "db/array.h"
#include "db/result.h"

/* A handler may say anything: what is stored is a number from 0 to 1. */
static void add_fraction(struct buf *literal, double fraction) {
    double stored = isnan(fraction) || fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    char text[40];
    int length = snprintf(text, sizeof text, "%.6f", stored);
    array_add_text(literal, text, (size_t)length);
}

static struct db_param texts(struct script *script, int count, const struct store_progress *progress) {
    struct buf clean;
    buf_init(&clean, PROGRESS_TEXT_MAX_BYTES);
    array_begin(&script->literal);
    for (int i = 0; i < count; i++) {
        const char *text = progress[i].text == NULL ? "" : progress[i].text;
        buf_clear(&clean);
        utf8_sanitize(&clean, text, strlen(text), PROGRESS_TEXT_MAX_BYTES);
        array_add_text(&script->literal, clean.data, clean.length);
    }
    buf_finish(&clean);
    return script_take_array(script);
}

int64_t *progress_add_kept(struct script *script, struct arena *arena, int count, const struct store_progress *progress) {
    struct db_param *params = script_add(script, &sql_keep_progress, 5);
    int64_t *tasks = arena_alloc(arena, (size_t)count * sizeof *tasks);
    for (int i = 0; i < count; i++) {
        tasks[i] = progress[i].task;
    }
    params[0] = script_bigints(script, tasks, count);
    array_begin(&script->literal);
    for (int i = 0; i < count; i++) {
        array_add_int(&script->literal, progress[i].claim);
    }
    params[1] = script_take_array(script);
    array_begin(&script->literal);
    for (int i = 0; i < count; i++) {
        array_add_int(&script->literal, progress[i].stage);
    }
    params[2] = script_take_array(script);
    array_begin(&script->literal);
    for (int i = 0; i < count; i++) {
        add_fraction(&script->literal, progress[i].fraction);
    }
    params[3] = script_take_array(script);
    params[4] = texts(script, count, progress);
    return tasks;
}

const bool *progress_read_kept(struct arena *arena, const struct db_result *result, int count, const int64_t *tasks) {
    bool *kept = arena_alloc(arena, (size_t)count * sizeof *kept);
    for (int row = 0; row < db_rows(result); row++) {
        int64_t task = db_int64(result, row, 0);
        for (int i = 0; i < count; i++) {
            kept[i] = kept[i] || tasks[i] == task;
        }
    }
    return kept;
}

void progress_add_claimed(struct script *script, int count, const struct store_claim *claims) {
    struct db_param *params = script_add(script, &sql_claimed_progress, 1);
    array_begin(&script->literal);
    for (int i = 0; i < count; i++) {
        array_add_int(&script->literal, claims[i].claim);
    }
    params[0] = script_take_array(script);
}

void progress_read_claimed(const struct db_result *result, int count, struct store_task *tasks) {
    enum { TASK, FRACTION, TEXT };
    for (int row = 0; row < db_rows(result); row++) {
        for (int i = 0; i < count; i++) {
            if (tasks[i].task != db_int64(result, row, TASK)) {
                continue;
            }
            tasks[i].has_progress_row = true;
            if (!db_is_null(result, row, FRACTION)) {
                tasks[i].has_progress = true;
                tasks[i].progress = strtod(db_value(result, row, FRACTION), NULL);
                tasks[i].progress_text = db_value(result, row, TEXT);
            }
        }
    }
}
