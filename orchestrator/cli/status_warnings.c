/* status_warnings.c - what in a status view needs a person: pure functions of the rows. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/output.h"
#include "cli/status.h"

enum { DELTAS_MANY = 20000, HOLDER_LONG_MS = 5 * 60 * 1000 };

struct giving {
    const struct status_view *view;
    void (*each)(void *context, const struct status_warning *warning);
    void *context;
    json_t **notes; /* one a node, NULL when it has not said yet */
    int alive;
};

static __attribute__((format(printf, 4, 5))) void give(const struct giving *giving, const char *pipeline,
                                                       const char *stage, const char *format, ...) {
    struct buf text;
    va_list args;
    buf_init(&text, SIZE_MAX);
    va_start(args, format);
    buf_append_format_list(&text, format, args);
    va_end(args);
    struct status_warning warning = {pipeline, stage, text.data};
    giving->each(giving->context, &warning);
    buf_finish(&text);
}

static const char *member(const json_t *note, const char *name) {
    return json_string_value(json_object_get(note, name));
}

static bool same(const char *left, const char *right) {
    return left != NULL && right != NULL && strcmp(left, right) == 0;
}

/* Whether a living node runs the stage: one that has not said yet what it runs may. */
static bool is_served(const struct giving *giving, const char *pipeline, const char *stage) {
    const struct db_result *nodes = giving->view->nodes;
    for (int node = 0; node < db_rows(nodes); node++) {
        if (!db_bool(nodes, node, NODE_ALIVE)) {
            continue;
        }
        if (giving->notes[node] == NULL) {
            return true;
        }
        size_t at;
        json_t *note;
        json_array_foreach(giving->notes[node], at, note) {
            if (same(member(note, "pipeline"), pipeline) && same(member(note, "stage"), stage)) {
                return true;
            }
        }
    }
    return false;
}

static void warn_of_stage(const struct giving *giving, int row) {
    const struct db_result *stages = giving->view->stages;
    const char *pipeline = db_value(stages, row, STAGE_PIPELINE), *stage = db_value(stages, row, STAGE_NAME);
    int64_t ready = db_int64(stages, row, STAGE_READY);
    int64_t open = ready + db_int64(stages, row, STAGE_RUNNING) + db_int64(stages, row, STAGE_DELAYED) +
                   db_int64(stages, row, STAGE_WAITING) + db_int64(stages, row, STAGE_FAILED);
    if (db_is_null(stages, row, STAGE_POSITION)) {
        if (open > 0) {
            give(giving, pipeline, stage, "the definition has no such stage any more, and %" PRId64 " task%s at it", open,
                 open == 1 ? " stands" : "s stand");
        }
        return;
    }
    if (db_bool(stages, row, STAGE_PAUSED)) {
        give(giving, pipeline, stage, "paused, with %" PRId64 " ready task%s", ready, text_plural(ready));
    }
    if (ready == 0 || is_served(giving, pipeline, stage)) {
        return;
    }
    if (!db_is_null(stages, row, STAGE_REQUIRES)) {
        give(giving, pipeline, stage,
             "%" PRId64 " ready task%s, and no living node runs this stage: it wants pgstage run FILE with --label %s", ready,
             text_plural(ready), db_value(stages, row, STAGE_REQUIRES));
    } else if (giving->alive == 0) {
        give(giving, pipeline, stage, "%" PRId64 " ready task%s, and no node is alive: start one with pgstage run FILE",
             ready, text_plural(ready));
    } else {
        give(giving, pipeline, stage,
             "%" PRId64 " ready task%s, and no living node runs this stage: start one with pgstage run FILE", ready,
             text_plural(ready));
    }
}

static void warn_of_notes(const struct giving *giving, int node) {
    const struct db_result *nodes = giving->view->nodes;
    size_t at;
    json_t *note;
    json_array_foreach(giving->notes[node], at, note) {
        const char *pipeline = member(note, "pipeline"), *text = member(note, "text");
        if (text != NULL && (giving->view->pipeline == NULL || pipeline == NULL || same(pipeline, giving->view->pipeline))) {
            bool parked = strncmp(text, "parked: ", strlen("parked: ")) == 0;
            give(giving, pipeline, member(note, "stage"), "%s (node %s, pid %s)%s", text,
                 db_value(nodes, node, NODE_ID), db_value(nodes, node, NODE_PID),
                 parked ? "; mend it, then send that process a HUP" : "");
        }
    }
}

static void warn_of_schedules(const struct giving *giving) {
    const struct db_result *schedules = giving->view->schedules;
    for (int row = 0; schedules != NULL && row < db_rows(schedules); row++) {
        const char *pipeline = db_value(schedules, row, SCHEDULE_PIPELINE);
        const char *name = db_value(schedules, row, SCHEDULE_NAME);
        char span[48];
        if (!db_is_null(schedules, row, SCHEDULE_TICK)) {
            give(giving, pipeline, NULL, "schedule '%s': its tick of %s could not be fired: %s", name,
                 db_value(schedules, row, SCHEDULE_TICK), db_value(schedules, row, SCHEDULE_ERROR));
        } else {
            give(giving, pipeline, NULL,
                 "schedule '%s' is overdue by %s: no living node may fire it (one without --no-schedules, with its labels)",
                 name, units_format_duration(db_int64(schedules, row, SCHEDULE_OVERDUE_MS) / 1000 * 1000, span, sizeof span));
        }
    }
}

static void warn_of_health(const struct giving *giving) {
    const struct db_result *health = giving->view->health;
    int64_t deltas = db_int64(health, 0, HEALTH_DELTAS), holder_ms = db_int64(health, 0, HEALTH_HOLDER_MS);
    if (deltas >= DELTAS_MANY) {
        give(giving, NULL, NULL,
             "%s%" PRId64 " changes of counts wait to be folded, which makes status slow; a running node does it",
             deltas >= 100000 ? "more than " : "", deltas);
    }
    if (holder_ms >= HOLDER_LONG_MS) {
        char span[48];
        give(giving, NULL, NULL,
             "a transaction of process %s is open for %s: dead rows pile up, and everything gets slower, until it ends",
             db_value(health, 0, HEALTH_HOLDER_PID), units_format_duration(holder_ms, span, sizeof span));
    }
}

void status_warnings(const struct status_view *view, void (*each)(void *context, const struct status_warning *warning),
                     void *context) {
    int nodes = db_rows(view->nodes);
    struct giving giving = {.view = view, .each = each, .context = context};
    giving.notes = mem_alloc(sizeof *giving.notes * (size_t)(nodes + 1));
    for (int i = 0; i < nodes; i++) {
        bool alive = db_bool(view->nodes, i, NODE_ALIVE);
        giving.alive += alive;
        if (!db_is_null(view->nodes, i, NODE_NOTES)) {
            giving.notes[i] = json_loads(db_value(view->nodes, i, NODE_NOTES), 0, NULL);
        }
    }
    for (int i = 0; i < db_rows(view->stages); i++) {
        warn_of_stage(&giving, i);
    }
    for (int i = 0; i < nodes; i++) {
        if (db_bool(view->nodes, i, NODE_ALIVE)) {
            warn_of_notes(&giving, i);
        }
    }
    warn_of_schedules(&giving);
    warn_of_health(&giving);
    for (int i = 0; i < nodes; i++) {
        json_decref(giving.notes[i]);
    }
    free(giving.notes);
}
