/* status_text.c - a status view as text and as JSON. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/json_write.h"
#include "cli/output.h"
#include "cli/status.h"

/* ---- as text ------------------------------------------------------------------------------------------------------ */

static const struct table_column stage_columns[] = {
    {"PIPELINE", false}, {"STAGE", false},   {"READY", true},      {"RUNNING", true}, {"DELAYED", true},
    {"WAITING", true},   {"DONE", true},     {"FAILED", true},     {"CANCELLED", true}, {"RUNS/MIN", true},
    {"FAILED/MIN", true}, {"MEAN", true},    {"OLDEST", true},
};
enum { STAGE_COLUMNS = sizeof stage_columns / sizeof stage_columns[0] };

static void add_span(struct table *table, const struct db_result *rows, int row, int column) {
    struct buf cell;
    buf_init(&cell, 64);
    if (!db_is_null(rows, row, column)) {
        text_span(&cell, strtod(db_value(rows, row, column), NULL));
    }
    table_add(table, cell.data);
    buf_finish(&cell);
}

static void add_stage(struct table *table, const struct db_result *stages, int row) {
    struct buf name;
    buf_init(&name, SIZE_MAX);
    buf_append_format(&name, "%s%s", db_value(stages, row, STAGE_NAME),
                      db_is_null(stages, row, STAGE_POSITION) ? " (removed)"
                      : db_bool(stages, row, STAGE_PAUSED)    ? " (paused)"
                                                              : "");
    table_add(table, db_value(stages, row, STAGE_PIPELINE));
    table_add(table, name.data);
    for (int column = STAGE_READY; column <= STAGE_FAILED_PER_MINUTE; column++) {
        table_add(table, db_value(stages, row, column));
    }
    add_span(table, stages, row, STAGE_MEAN_MS);
    add_span(table, stages, row, STAGE_OLDEST_MS);
    buf_finish(&name);
}

static void write_stages(const struct status_view *view, struct buf *out) {
    struct table table;
    table_init(&table, stage_columns, STAGE_COLUMNS);
    for (int row = 0; row < db_rows(view->stages); row++) {
        add_stage(&table, view->stages, row);
    }
    if (db_rows(view->stages) == 0) {
        buf_append_string(out, "no pipelines yet; register one: pgstage apply FILE, or run it: pgstage run FILE\n");
    }
    table_print(&table, out);
    table_finish(&table);
}

static void write_oldest(const struct status_view *view, struct buf *out) {
    const struct db_result *oldest = view->oldest;
    for (int row = 0; oldest != NULL && row < db_rows(oldest); row++) {
        buf_append_format(out, "%slongest in %s/%s: '", row == 0 ? "\n" : "", db_value(oldest, row, OLDEST_PIPELINE),
                          db_value(oldest, row, OLDEST_STAGE));
        text_show(out, db_value(oldest, row, OLDEST_KEY), 0);
        buf_append_string(out, "', claimed ");
        text_span(out, (double)db_int64(oldest, row, OLDEST_AGE_MS));
        buf_append_format(out, " ago by node %s", db_value(oldest, row, OLDEST_NODE));
        if (!db_is_null(oldest, row, OLDEST_PID)) {
            buf_append_format(out, " (pid %s on ", db_value(oldest, row, OLDEST_PID));
            text_show(out, db_value(oldest, row, OLDEST_HOST), 0);
            buf_append_char(out, ')');
        }
        buf_append_char(out, '\n');
    }
}

static void write_nodes(const struct status_view *view, struct buf *out) {
    static const struct table_column columns[] = {
        {"NODE", false}, {"PID", true}, {"HOST", false}, {"STATE", false}, {"UP", true}, {"CLAIMS", true},
    };
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (int row = 0; row < db_rows(view->nodes); row++) {
        struct buf host;
        buf_init(&host, SIZE_MAX);
        text_show(&host, db_value(view->nodes, row, NODE_HOST), 9);
        table_add(&table, db_value(view->nodes, row, NODE_ID));
        table_add(&table, db_value(view->nodes, row, NODE_PID));
        table_add(&table, host.data);
        table_add(&table, !db_bool(view->nodes, row, NODE_ALIVE)  ? "ended"
                          : db_bool(view->nodes, row, NODE_LEADS) ? "leads"
                                                                  : "alive");
        add_span(&table, view->nodes, row, NODE_UP_MS);
        table_add(&table, db_value(view->nodes, row, NODE_CLAIMS));
        buf_finish(&host);
    }
    buf_append_string(out, db_rows(view->nodes) > 0 ? "\n" : "\nno nodes\n");
    table_print(&table, out);
    table_finish(&table);
}

struct text_warnings {
    struct buf *out;
    bool colour, any;
};

static void write_warning(void *context, const struct status_warning *warning) {
    struct text_warnings *warnings = context;
    struct buf *out = warnings->out;
    buf_append_string(out, warnings->any ? "" : "\n");
    warnings->any = true;
    buf_append_string(out, warnings->colour ? "\033[33mwarning:\033[0m " : "warning: ");
    if (warning->pipeline != NULL) {
        text_show(out, warning->pipeline, 0);
        if (warning->stage != NULL) {
            buf_append_char(out, '/');
            text_show(out, warning->stage, 0);
        }
        buf_append_string(out, ": ");
    }
    text_show(out, warning->text, 0);
    buf_append_char(out, '\n');
}

void status_write_text(const struct status_view *view, bool colour, struct buf *out) {
    struct text_warnings warnings = {.out = out, .colour = colour};
    write_stages(view, out);
    write_oldest(view, out);
    write_nodes(view, out);
    status_warnings(view, write_warning, &warnings);
}

/* ---- as JSON ------------------------------------------------------------------------------------------------------ */

/* Columns that are JSON as the database writes them: numbers and jsonb. */
static void write_columns(struct buf *out, const struct db_result *rows, int row, int first, int last) {
    for (int column = first; column <= last; column++) {
        json_add_raw(out, db_column_name(rows, column), db_value(rows, row, column));
    }
}

static void write_json_warning(void *context, const struct status_warning *warning) {
    struct buf *out = context;
    json_begin(out, NULL, '{');
    json_add_text(out, "pipeline", warning->pipeline);
    json_add_text(out, "stage", warning->stage);
    json_add_text(out, "text", warning->text);
    json_end(out, '}');
}

void status_write_json(const struct status_view *view, struct buf *out) {
    const struct db_result *stages = view->stages, *nodes = view->nodes;
    json_begin(out, NULL, '{');
    json_begin(out, "stages", '[');
    for (int row = 0; row < db_rows(stages); row++) {
        json_begin(out, NULL, '{');
        json_add_text(out, "pipeline", db_value(stages, row, STAGE_PIPELINE));
        json_add_text(out, "stage", db_value(stages, row, STAGE_NAME));
        write_columns(out, stages, row, STAGE_POSITION, STAGE_POSITION);
        json_add_bool(out, "paused", db_bool(stages, row, STAGE_PAUSED));
        write_columns(out, stages, row, STAGE_READY, STAGE_OLDEST_MS);
        json_end(out, '}');
    }
    json_end(out, ']');
    json_begin(out, "nodes", '[');
    for (int row = 0; row < db_rows(nodes); row++) {
        json_begin(out, NULL, '{');
        json_add_text(out, "id", db_value(nodes, row, NODE_ID));
        json_add_text(out, "host", db_value(nodes, row, NODE_HOST));
        write_columns(out, nodes, row, NODE_PID, NODE_PID);
        json_add_text(out, "started", db_value(nodes, row, NODE_STARTED));
        write_columns(out, nodes, row, NODE_UP_MS, NODE_UP_MS);
        json_add_bool(out, "alive", db_bool(nodes, row, NODE_ALIVE));
        json_add_bool(out, "leads", db_bool(nodes, row, NODE_LEADS));
        write_columns(out, nodes, row, NODE_CLAIMS, NODE_NOTES);
        json_end(out, '}');
    }
    json_end(out, ']');
    json_begin(out, "oldest", '[');
    for (int row = 0; view->oldest != NULL && row < db_rows(view->oldest); row++) {
        json_begin(out, NULL, '{');
        json_add_text(out, "pipeline", db_value(view->oldest, row, OLDEST_PIPELINE));
        json_add_text(out, "stage", db_value(view->oldest, row, OLDEST_STAGE));
        json_add_text(out, "key", db_value(view->oldest, row, OLDEST_KEY));
        write_columns(out, view->oldest, row, OLDEST_AGE_MS, OLDEST_AGE_MS);
        json_add_text(out, "node", db_value(view->oldest, row, OLDEST_NODE));
        json_end(out, '}');
    }
    json_end(out, ']');
    write_columns(out, view->health, 0, HEALTH_NOTIFY_PERCENT, HEALTH_NOTIFY_PERCENT);
    json_begin(out, "warnings", '[');
    status_warnings(view, write_json_warning, out);
    json_end(out, ']');
    json_end(out, '}');
    buf_append_char(out, '\n');
}
