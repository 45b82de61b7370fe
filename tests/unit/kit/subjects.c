#include "subjects.h"

#include <stdlib.h>
#include <string.h>

static pgstage_result everything(pgstage_task *task, void *state) {
    (void)state;
    const char *parameters[] = {pgstage_pipeline(task), pgstage_stage(task), pgstage_key(task), NULL};
    int64_t version = pgstage_version(task);
    int attempt = pgstage_attempt(task);
    size_t length;
    pgstage_payload(task, &length);
    pgstage_payload_json(task);
    pgstage_input(task, NULL);
    pgstage_input_json(task);
    pgstage_inputs(task, NULL);
    pgstage_inputs_json(task);
    pgstage_input_of(task, "extract");
    double fraction = 0;
    const char *text = "nothing";
    pgstage_last_progress(task, &fraction, &text);
    bool stopped = pgstage_cancelled(task);
    bool superseded = pgstage_superseded(task);
    json_int_t remaining = pgstage_remaining_ms(task);
    int set = pgstage_set_output(task, "1", 1);
    json_t *value = json_pack("{s:I, s:i, s:f, s:s, s:b, s:b, s:I}", "version", (json_int_t)version, "attempt", attempt,
                              "fraction", fraction, "text", text, "cancelled", stopped, "superseded", superseded,
                              "remaining", remaining);
    pgstage_result result = pgstage_output(task, value);
    int queued = pgstage_sql(task, "insert into seen values ($1, $2, $3, $4)", 4, parameters);
    pgstage_log(task, "a line\n");
    pgstage_log_with(task, json_pack("{s:i, s:s}", "page", 3, "why", "x"), "a line of page %d", 3);
    pgstage_progress(task, 0.5, "page %d of 2", 1);
    (void)pgstage_fail(task, "no");
    (void)pgstage_retry(task, "again");
    (void)pgstage_route(task, "review");
    (void)pgstage_finish(task);
    (void)pgstage_snooze(task, 100);
    (void)pgstage_route(task, "review");
    return set == 0 && queued == 0 ? result : PGSTAGE_FAIL;
}
PGSTAGE_HANDLER(everything, .run = everything);

/* ---- a handler as one would write it ---- */

int page_lives;

struct pages {
    int limit, seen;
};

static pgstage_result page_init(pgstage_worker *worker, void **state) {
    const json_t *limit = json_object_get(pgstage_worker_config(worker), "limit");
    if (limit != NULL && !json_is_integer(limit)) {
        return pgstage_worker_fail(worker, "limit is no number (%s)", pgstage_worker_folder(worker));
    }
    struct pages *pages = calloc(1, sizeof *pages);
    if (pages == NULL) {
        return pgstage_worker_fail(worker, "out of memory");
    }
    pages->limit = limit == NULL ? 10 : (int)json_integer_value(limit);
    *state = pages;
    page_lives++;
    return PGSTAGE_OK;
}

static pgstage_result page(pgstage_task *task, void *state) {
    struct pages *pages = state;
    pages->seen++;
    const json_t *count = json_object_get(pgstage_payload_json(task), "pages");
    if (!json_is_integer(count)) {
        return pgstage_fail(task, "no \"pages\"");
    }
    for (int i = 0; i < json_integer_value(count) && i < pages->limit; i++) {
        if (pgstage_cancelled(task) || pgstage_superseded(task)) {
            return pgstage_retry(task, "stopped before page %d, %lld ms left", i + 1, (long long)pgstage_remaining_ms(task));
        }
        pgstage_progress(task, i / 10.0, "page %d", i + 1);
    }
    return pgstage_output(task, json_pack("{s:O, s:i}", "pages", count, "seen", pages->seen));
}

static pgstage_result pages_at_once(pgstage_task *const *tasks, size_t count, pgstage_result *results, void *state) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(pgstage_key(tasks[i]), "poison") == 0) {
            return pgstage_retry(tasks[i], "somebody is poison");
        }
        results[i] = page(tasks[i], state);
    }
    return PGSTAGE_OK;
}

static void page_fini(void *state) {
    page_lives--;
    free(state);
}
PGSTAGE_HANDLER(page, .run = page, .init = page_init, .fini = page_fini, .run_batch = pages_at_once);
PGSTAGE_HANDLER(batch_only, .init = page_init, .fini = page_fini, .run_batch = pages_at_once);

static pgstage_result flow(pgstage_task *task, void *state) {
    (void)state;
    const char *key = pgstage_key(task);
    if (pgstage_set_output(task, "[1]", 3) != 0 || pgstage_sql(task, "select 1", 0, NULL) != 0) {
        return PGSTAGE_RETRY;
    }
    if (strcmp(key, "route") == 0) {
        return pgstage_route(task, "review");
    }
    if (strcmp(key, "finish") == 0) {
        return pgstage_finish(task);
    }
    if (strcmp(key, "snooze") == 0) {
        return pgstage_snooze(task, 5000);
    }
    if (strcmp(key, "route and fail") == 0) {
        (void)pgstage_route(task, "review");
        return pgstage_fail(task, "after all");
    }
    return strcmp(key, "nonsense") == 0 ? (pgstage_result)7 : PGSTAGE_OK;
}
PGSTAGE_HANDLER(flow, .run = flow);

void *leaky_kept[3];

/* The payload: "malloc", "json", "when cancelled", "without memory", "once", "thrice", "swap" (the same amount). */
static pgstage_result leaky(pgstage_task *task, void *state) {
    (void)state;
    static int kept_count;
    static char *swapped;
    static void *volatile lost; /* of an earlier run: nothing points there any more */
    const char *what = pgstage_payload(task, NULL);
    pgstage_log(task, "%s", what);
    bool cancelled = pgstage_cancelled(task);
    json_t *value = json_pack("{s:s}", "a", "b");
    if (strcmp(what, "\"malloc\"") == 0 || (strcmp(what, "\"when cancelled\"") == 0 && cancelled) ||
        (strcmp(what, "\"without memory\"") == 0 && value == NULL)) {
        lost = malloc(40);
    } else if (strcmp(what, "\"json\"") == 0) {
        lost = json_incref(value);
    } else if (kept_count < (strcmp(what, "\"thrice\"") == 0 ? 3 : strcmp(what, "\"once\"") == 0)) {
        leaky_kept[kept_count++] = malloc(1000);
    } else if (strcmp(what, "\"swap\"") == 0) {
        free(swapped);
        swapped = malloc(100);
    }
    (void)lost;
    return pgstage_output(task, value);
}
PGSTAGE_HANDLER(leaky, .run = leaky);

static pgstage_result silent(pgstage_task *task, void *state) {
    (void)task;
    (void)state;
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(silent, .run = silent);
